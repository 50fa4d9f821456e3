/* Embeddings in the forms of OpenAI and of llama-server. */
#include <string.h>

#include "serve/embed.h"

void sv_put_base64_floats(sv_text *t, const float *v, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char three[3];
  size_t held = 0;
  for (size_t i = 0; i < 4 * n; i++) {
    uint32_t bits;
    memcpy(&bits, &v[i / 4], sizeof bits);
    three[held++] = (unsigned char)(bits >> (8 * (i % 4)));
    if (held < 3 && i + 1 < 4 * n) continue;
    for (size_t k = held; k < 3; k++) three[k] = 0;
    char four[4] = {digits[three[0] >> 2], digits[(three[0] & 3) << 4 | three[1] >> 4],
                    digits[(three[1] & 15) << 2 | three[2] >> 6], digits[three[2] & 63]};
    for (size_t k = held + 1; k < 4; k++) four[k] = '=';
    sv_put(t, four, 4);
    held = 0;
  }
}

void sv_put_floats(sv_text *t, const float *v, size_t n) {
  sv_puts(t, "[");
  for (size_t i = 0; i < n; i++) {
    if (i) sv_puts(t, ",");
    sv_put_number(t, (double)v[i]);
  }
  sv_puts(t, "]");
}

/* --- OpenAI --- */

static bool sv_read_embeddings(sv_embed_job *job, const json_t *body, sv_call *call) {
  const char *format = "float", *user = NULL;
  const int64_t width = ga_model_get_info(job->server->model)->embedding_width;
  int64_t dimensions = width;
  sv_fail *fail = &call->fail;
  if (!sv_embed_model(job, body, fail) || !sv_read_string(body, "encoding_format", &format, fail) ||
      !sv_read_string(body, "user", &user, fail) || !sv_read_int(body, "dimensions", 1, INT32_MAX, &dimensions, fail))
    return false;
  job->is_base64 = !strcmp(format, "base64");
  if (!job->is_base64 && strcmp(format, "float") != 0)
    return sv_refuse_value(fail, "encoding_format", sv_field(body, "encoding_format"), "\"float\" or \"base64\"");
  if (dimensions == width) return sv_embed_inputs(job, body, "input", false, call);
  return sv_refuse(fail, 400, "unsupported_parameter", "dimensions",
                   "dimensions is %lld; this model's embeddings have %lld and are not cut.", (long long)dimensions,
                   (long long)width);
}

static void sv_put_embeddings(sv_text *t, const sv_embed_job *job, const sv_call *call) {
  sv_puts(t, "{\"object\":\"list\",\"data\":[");
  for (size_t i = 0; i < job->n; i++) {
    const float *v = job->vectors + i * job->width;
    sv_putf(t, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":", i ? "," : "", i);
    if (job->is_base64) {
      sv_puts(t, "\"");
      sv_put_base64_floats(t, v, job->width);
      sv_puts(t, "\"}");
    } else {
      sv_put_floats(t, v, job->width);
      sv_puts(t, "}");
    }
  }
  sv_puts(t, "],\"model\":");
  sv_puts_json(t, job->server->o.model_id);
  sv_putf(t, ",\"usage\":{\"prompt_tokens\":%lld,\"total_tokens\":%lld}}", (long long)call->n_prompt,
          (long long)call->n_prompt);
}

enum MHD_Result sv_run_embeddings(sv_call *call) {
  static const sv_embed_form form = {sv_read_embeddings, sv_put_embeddings};
  return sv_run_embed(call, &form);
}

/* --- llama-server --- */

/* `content` is its name; `input` is read, too. Vectors have the Euclidean norm 1, which is 2 there. */
static bool sv_read_native_embedding(sv_embed_job *job, const json_t *body, sv_call *call) {
  const json_t *norm = sv_field(body, "embd_normalize");
  int64_t kind;
  if (!sv_embed_model(job, body, &call->fail)) return false;
  if (norm && !sv_as_int(norm, 2, 2, &kind))
    return sv_refuse_value(&call->fail, "embd_normalize", norm, "2: embeddings have the Euclidean norm 1");
  job->parses_special = true; /* as llama-server does */
  return sv_embed_inputs(job, body,
                         sv_field(body, "content") ? "content"
                         : sv_field(body, "input") ? "input"
                                                   : "content",
                         false, call);
}

static void sv_put_native_embedding(sv_text *t, const sv_embed_job *job, const sv_call *call) {
  (void)call;
  sv_puts(t, "[");
  for (size_t i = 0; i < job->n; i++) {
    sv_putf(t, "%s{\"index\":%zu,\"embedding\":[", i ? "," : "", i);
    sv_put_floats(t, job->vectors + i * job->width, job->width);
    sv_puts(t, "]}");
  }
  sv_puts(t, "]");
}

enum MHD_Result sv_run_native_embedding(sv_call *call) {
  static const sv_embed_form form = {sv_read_native_embedding, sv_put_native_embedding};
  return sv_run_embed(call, &form);
}
