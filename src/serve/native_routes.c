/* Routes of llama-server that tell what is there, and its form of /tokenize. */
#include <stdlib.h>

#include "serve/native.h"
#include "serve/native_request.h"
#include "serve/prompts.h"

enum MHD_Result sv_run_apply_template(sv_call *call) {
  const sv_server *s = call->server;
  sv_request r = {0};
  sv_text t = {0}, text = {0};
  sv_fail *fail = &call->fail;
  json_t *body = sv_is_ready(call->server, fail) ? sv_call_json(call) : NULL;
  const bool ok = body && sv_request_chat(body, s->vocab, &r, fail) && sv_is_model(s, r.model, fail) &&
                  sv_render_chat(s, &r, &text, fail);
  if (ok) {
    sv_puts(&t, "{\"prompt\":");
    sv_put_json(&t, text.p ? text.p : "", text.n);
    sv_puts(&t, "}");
  }
  sv_text_free(&text);
  sv_request_free(&r);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

/* --- tokens --- */

/* A piece that is no UTF-8 alone is an array of bytes. */
static void sv_put_piece(sv_text *t, const sv_server *s, int32_t id) {
  const ga_text piece = ga_tokenizer_piece(s->tok, id);
  sv_putf(t, "{\"id\":%d,\"piece\":", id);
  if (sv_is_utf8(piece.data, piece.bytes)) {
    sv_put_json(t, piece.data, piece.bytes);
  } else {
    for (size_t i = 0; i < piece.bytes; i++) sv_putf(t, "%s%u", i ? "," : "[", (unsigned char)piece.data[i]);
    sv_puts(t, "]");
  }
  sv_puts(t, "}");
}

bool sv_native_tokenize(const sv_server *s, const json_t *body, sv_text *out, sv_fail *fail) {
  const json_t *content = sv_field(body, "content");
  bool special = false, parse = true, with_pieces = false;
  sv_ids ids = {0};
  if (!json_is_string(content)) return sv_refuse_value(fail, "content", content, "a string");
  if (!sv_read_bool(body, "add_special", &special, fail) || !sv_read_bool(body, "parse_special", &parse, fail) ||
      !sv_read_bool(body, "with_pieces", &with_pieces, fail))
    return false;
  const uint32_t flags = (special ? GA_TOK_ADD_SPECIAL : 0u) | (parse ? GA_TOK_PARSE_SPECIAL : 0u);
  if (!sv_encode_text(s, json_string_value(content), json_string_length(content), flags, &ids, fail)) return false;
  sv_puts(out, "{\"tokens\":[");
  for (size_t i = 0; i < ids.n; i++) {
    if (i) sv_puts(out, ",");
    if (with_pieces)
      sv_put_piece(out, s, ids.p[i]);
    else
      sv_putf(out, "%d", ids.p[i]);
  }
  sv_puts(out, "]}");
  free(ids.p);
  return true;
}

/* --- what is there --- */

static bool sv_native_stats(sv_call *call, ga_engine_stats *out) {
  *out = (ga_engine_stats)GA_ENGINE_STATS_INIT;
  if (!sv_is_ready(call->server, &call->fail)) return false;
  if (!call->server->engine || ga_engine_get_stats(call->server->engine, out) == GA_OK) return true;
  return sv_refuse(&call->fail, 500, NULL, NULL, "%s", ga_error_text());
}

static void sv_put_text_of(sv_text *t, const char *key, const sv_server *s, ga_tok_special which) {
  const int32_t id = ga_tokenizer_special(s->tok, which);
  const ga_text piece = id < 0 ? (ga_text){0} : ga_tokenizer_piece(s->tok, id);
  sv_putf(t, ",\"%s\":", key);
  sv_put_json(t, piece.bytes ? piece.data : "", piece.bytes);
}

/* No path of the model: it is nobody's business. */
enum MHD_Result sv_run_props(sv_call *call) {
  const sv_server *s = call->server;
  sv_params p = {.sample = GA_SAMPLE_DESC_INIT, .seed = -1, .max_tokens = SV_NO_LIMIT, .logprobs = -1};
  ga_engine_stats stats;
  sv_text t = {0};
  if (!sv_native_stats(call, &stats)) return sv_reply_fail(call);
  sv_native_defaults(&p.sample);
  p.penalty_last = SV_PENALTY_LAST;
  if (s->o.profile.defaults.is_own) sv_apply_defaults(NULL, &s->o.profile.defaults, &p);
  sv_putf(&t, "{\"default_generation_settings\":{\"n_ctx\":%d,\"params\":", s->context);
  sv_native_put_settings(&t, &p);
  sv_putf(&t, "},\"total_slots\":%d,\"model_alias\":", stats.max_sequences);
  sv_puts_json(&t, s->o.model_id);
  sv_put_text_of(&t, "bos_token", s, GA_TOK_BOS);
  sv_put_text_of(&t, "eos_token", s, GA_TOK_EOS);
  sv_puts(&t, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":");
  sv_puts_json(&t, ga_version());
  sv_puts(&t, "}");
  return sv_reply_json(call, &t);
}

/* Sequences have no slots here: as many entries as may run at once, the first ones busy. */
enum MHD_Result sv_run_slots(sv_call *call) {
  ga_engine_stats stats;
  sv_text t = {0};
  if (!sv_native_stats(call, &stats)) return sv_reply_fail(call);
  if (stats.running >= stats.max_sequences &&
      MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "fail_on_no_slot")) {
    (void)sv_refuse(&call->fail, 503, "no_slot", NULL, "All %d sequences are busy.", stats.max_sequences);
    return sv_reply_fail(call);
  }
  sv_puts(&t, "[");
  for (int32_t i = 0; i < stats.max_sequences; i++)
    sv_putf(&t, "%s{\"id\":%d,\"n_ctx\":%d,\"is_processing\":%s}", i ? "," : "", i, call->server->context,
            i < stats.running ? "true" : "false");
  sv_puts(&t, "]");
  return sv_reply_json(call, &t);
}
