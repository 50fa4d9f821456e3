/* The table of routes, and those that answer at once. */
#include "serve/routes.h"

#include <stdlib.h>
#include <string.h>

#include "serve/anthropic.h"
#include "serve/embed.h"
#include "serve/form.h"
#include "serve/generate.h"
#include "serve/models.h"
#include "serve/native.h"
#include "serve/ollama.h"
#include "serve/page.h"
#include "serve/prompts.h"
#include "serve/pull.h"
#include "serve/rerank.h"
#include "serve/responses.h"

static enum MHD_Result sv_run_health(sv_call *call) {
  sv_text t = {0};
  if (!sv_is_ready(call->server, &call->fail)) return sv_reply_fail(call);
  sv_puts(&t, "{\"status\":\"ok\"}");
  return sv_reply_json(call, &t);
}

static enum MHD_Result sv_run_version(sv_call *call) {
  sv_text t = {0};
  sv_puts(&t, "{\"version\":");
  sv_puts_json(&t, ga_version());
  sv_puts(&t, "}");
  return sv_reply_json(call, &t);
}

static enum MHD_Result sv_run_metrics(sv_call *call) {
  sv_server *s = call->host;
  ga_engine_stats stats;
  sv_text t = {0};
  sv_offer first;
  const bool is_open = atomic_load(&s->phase) != SV_LOADING; /* before it, the models are not there yet */
  const bool has_engine = is_open && sv_sum_stats(s, &stats);
  if (is_open) sv_describe_model(s, 0, &first);
  sv_put_metrics(&t, &s->metrics, has_engine ? &stats : NULL,
                 !is_open                 ? s->o.model_id
                 : sv_count_models(s) > 1 ? "all"
                                          : first.id);
  return sv_reply(call, 200, "text/plain; version=0.0.4; charset=utf-8", &t);
}

/* --- models --- */

static const char *const sv_capabilities[] = {[SV_UNKNOWN] = "null",
                                              [SV_CHATS] = "[\"completion\",\"chat\"]",
                                              [SV_COMPLETES] = "[\"completion\"]",
                                              [SV_EMBEDS] = "[\"embedding\"]"};

/* Writes the values of sampling that a request without fields gets. */
static void sv_put_default_sampling(sv_text *t, const sv_defaults *d) {
  sv_putf(t, "{\"temperature\":%g,\"top_p\":%g,\"min_p\":%g,\"repetition_penalty\":%g,\"top_k\":%d",
          (double)d->temperature, (double)d->top_p, (double)d->min_p, (double)d->repetition_penalty, d->top_k);
  if (d->max_tokens > 0) sv_putf(t, ",\"max_tokens\":%lld", (long long)d->max_tokens);
  sv_puts(t, "}");
}

static void sv_put_model(sv_text *t, const sv_server *host, size_t index) {
  sv_offer offer;
  sv_describe_model(host, index, &offer);
  sv_puts(t, "{\"id\":");
  sv_puts_json(t, offer.id);
  sv_putf(t, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"ga\",\"root\":", (long long)host->created);
  sv_puts_json(t, offer.id);
  sv_puts(t, ",\"parent\":null,\"max_model_len\":");
  if (offer.context)
    sv_putf(t, "%d", offer.context);
  else
    sv_puts(t, "null"); /* not known before it is loaded */
  if (host->models) sv_putf(t, ",\"is_loaded\":%s", offer.is_loaded ? "true" : "false");
  sv_putf(t, ",\"capabilities\":%s", sv_capabilities[offer.ability]);
  const sv_defaults *defaults = &offer.server->o.profile.defaults;
  if (defaults->is_given && offer.ability != SV_EMBEDS) {
    sv_puts(t, ",\"default_sampling\":");
    sv_put_default_sampling(t, defaults);
  }
  const char *system = offer.server->o.profile.system;
  if (system && *system) {
    sv_puts(t, ",\"default_system\":");
    sv_puts_json(t, system);
  }
  sv_puts(t, "}");
}

static enum MHD_Result sv_run_models(sv_call *call) {
  sv_text t = {0};
  if (!sv_is_ready(call->host, &call->fail)) return sv_reply_fail(call);
  sv_puts(&t, "{\"object\":\"list\",\"data\":[");
  for (size_t i = 0; i < sv_count_models(call->host); i++) {
    if (i) sv_puts(&t, ",");
    sv_put_model(&t, call->host, i);
  }
  sv_puts(&t, "]}");
  return sv_reply_json(call, &t);
}

static enum MHD_Result sv_run_model(sv_call *call) {
  const char *name = call->url + strlen(call->route->path);
  sv_text t = {0};
  size_t index;
  if (!sv_is_ready(call->host, &call->fail)) return sv_reply_fail(call);
  if (!sv_find_model(call->host, name, &index)) {
    (void)sv_refuse(&call->fail, 404, "model_not_found", "model",
                    "The model \"%.100s\" does not exist; /v1/models has those of this server.", name);
    return sv_reply_fail(call);
  }
  sv_put_model(&t, call->host, index);
  return sv_reply_json(call, &t);
}

/* --- tokens --- */

static void sv_put_ids(sv_text *t, const sv_server *s, const sv_ids *ids, bool with_texts) {
  sv_putf(t, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", ids->n, s->context);
  for (size_t i = 0; i < ids->n; i++) sv_putf(t, "%s%d", i ? "," : "", ids->p[i]);
  sv_puts(t, "],\"token_strs\":");
  for (size_t i = 0; with_texts && i < ids->n; i++) {
    const ga_text piece = ga_tokenizer_piece(s->tok, ids->p[i]);
    sv_puts(t, i ? "," : "[");
    sv_put_json(t, piece.data, piece.bytes);
  }
  sv_puts(t, !with_texts ? "null}" : ids->n ? "]}" : "[]}");
}

static bool sv_tokenize_text(const sv_server *s, json_t *body, sv_ids *ids, sv_fail *fail) {
  const json_t *prompt = sv_field(body, "prompt");
  bool special = true, parse = true;
  if (!json_is_string(prompt)) {
    if (prompt) return sv_refuse_value(fail, "prompt", prompt, "a string");
    return sv_refuse(fail, 400, "missing_required_parameter", "prompt", "prompt is missing, and so is messages.");
  }
  if (!sv_read_bool(body, "add_special_tokens", &special, fail) || !sv_read_bool(body, "parse_special", &parse, fail))
    return false;
  const uint32_t flags = (special ? GA_TOK_ADD_SPECIAL : 0u) | (parse ? GA_TOK_PARSE_SPECIAL : 0u);
  return sv_encode_text(s, json_string_value(prompt), json_string_length(prompt), flags, ids, fail);
}

static bool sv_tokenize_chat(const sv_server *s, json_t *body, sv_ids *ids, sv_fail *fail) {
  sv_request r;
  const bool ok = sv_request_chat(json_incref(body), s->vocab, &r, fail) && sv_encode_chat(s, &r, ids, fail);
  sv_request_free(&r);
  return ok;
}

static enum MHD_Result sv_run_tokenize(sv_call *call) {
  const char *model = NULL;
  bool with_texts = false;
  sv_ids ids = {0};
  sv_text t = {0};
  sv_fail *fail = &call->fail;
  json_t *body = sv_is_ready(call->server, fail) ? sv_call_json(call) : NULL;
  const sv_server *s = call->server;
  bool ok = body && sv_read_string(body, "model", &model, fail) && sv_is_model(s, model, fail);
  if (ok && sv_field(body, "content") && !sv_field(body, "prompt") && !sv_field(body, "messages")) {
    ok = sv_native_tokenize(s, body, &t, fail);
  } else {
    ok = ok && sv_read_bool(body, "return_token_strs", &with_texts, fail) &&
         (sv_field(body, "messages") ? sv_tokenize_chat : sv_tokenize_text)(s, body, &ids, fail);
    if (ok) sv_put_ids(&t, s, &ids, with_texts);
  }
  free(ids.p);
  json_decref(body);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

static bool sv_detokenize_body(const sv_server *s, const json_t *body, sv_text *out, sv_fail *fail) {
  const char *model = NULL;
  const json_t *tokens = sv_field(body, "tokens");
  sv_prompt *prompt = NULL;
  size_t n = 0;
  sv_text text = {0};
  if (!sv_read_string(body, "model", &model, fail) || !sv_is_model(s, model, fail)) return false;
  if (tokens && (!json_is_array(tokens) || (json_array_size(tokens) && !json_is_number(json_array_get(tokens, 0)))))
    return sv_refuse_value(fail, "tokens", tokens, "an array of token ids");
  bool ok =
      json_array_size(tokens) == 0 && tokens ? true : sv_read_prompts(body, "tokens", s->vocab, 1, &prompt, &n, fail);
  if (ok && n) ok = sv_decode_ids(s, prompt->ids, prompt->n_ids, GA_DETOK_SPECIAL, &text, fail);
  if (ok) {
    sv_puts(out, "{\"prompt\":"); /* vLLM's name, then llama-server's */
    sv_put_json(out, text.p, text.n);
    sv_puts(out, ",\"content\":");
    sv_put_json(out, text.p, text.n);
    sv_puts(out, "}");
  }
  sv_text_free(&text);
  sv_prompts_free(prompt, n);
  return ok;
}

static enum MHD_Result sv_run_detokenize(sv_call *call) {
  sv_text t = {0};
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  const bool ok = body && sv_detokenize_body(call->server, body, &t, &call->fail);
  json_decref(body);
  if (ok) return sv_reply_json(call, &t);
  sv_text_free(&t);
  return sv_reply_fail(call);
}

static enum MHD_Result sv_run_count_tokens(sv_call *call) {
  const sv_server *s = call->server;
  sv_ids ids = {0};
  sv_text t = {0};
  sv_request r = {0};
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  const bool ok = body && sv_ant_translate(body, true, &body, &call->fail) &&
                  sv_request_chat(body, s->vocab, &r, &call->fail) && sv_is_model(s, r.model, &call->fail) &&
                  sv_encode_chat(s, &r, &ids, &call->fail);
  if (ok) sv_putf(&t, "{\"input_tokens\":%zu}", ids.n);
  free(ids.p);
  sv_request_free(&r);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

static void sv_put_special(sv_text *t, const char *key, const sv_server *s, ga_tok_special which) {
  const int32_t id = ga_tokenizer_special(s->tok, which);
  const ga_text piece = id < 0 ? (ga_text){0} : ga_tokenizer_piece(s->tok, id);
  sv_putf(t, "\"%s\":", key);
  if (piece.bytes)
    sv_put_json(t, piece.data, piece.bytes);
  else
    sv_puts(t, "null");
}

/* lm-eval asks for it before it sends texts to /tokenize. */
static enum MHD_Result sv_run_tokenizer_info(sv_call *call) {
  const sv_server *s = call->server;
  sv_text t = {0};
  if (!sv_is_ready(call->server, &call->fail)) return sv_reply_fail(call);
  sv_putf(&t, "{\"model_max_length\":%d,", s->context);
  sv_put_special(&t, "bos_token", s, GA_TOK_BOS);
  sv_puts(&t, ",");
  sv_put_special(&t, "eos_token", s, GA_TOK_EOS);
  sv_puts(&t, ",");
  sv_put_special(&t, "pad_token", s, GA_TOK_PAD);
  sv_puts(&t, "}");
  return sv_reply_json(call, &t);
}

/* --- browsers --- */

static enum MHD_Result sv_run_preflight(sv_call *call) {
  struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
  if (response) {
    (void)MHD_add_response_header(response, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    (void)MHD_add_response_header(response, "Access-Control-Allow-Headers",
                                  "Authorization, Content-Type, X-Api-Key, Anthropic-Version");
    (void)MHD_add_response_header(response, "Access-Control-Max-Age", "600");
  }
  return sv_reply_with(call, 204, NULL, response);
}

/* The files of the chat page. */
static enum MHD_Result sv_run_page(sv_call *call) {
  const page_file *file = NULL;
  for (size_t i = 0; i < n_page_files; i++)
    if (!strcmp(page_files[i].path, call->route->path)) file = &page_files[i];
  if (!file) {
    (void)sv_refuse(&call->fail, 404, "not_found", NULL, "The page has no file %s.", call->route->path);
    return sv_reply_fail(call);
  }
  struct MHD_Response *response =
      MHD_create_response_from_buffer(file->size, (void *)(uintptr_t)file->bytes, MHD_RESPMEM_PERSISTENT);
  if (response) {
    (void)MHD_add_response_header(response, "Content-Security-Policy", PAGE_CSP);
    (void)MHD_add_response_header(response, "Cache-Control", "no-cache");
  }
  return sv_reply_with(call, 200, file->type, response);
}

const sv_route sv_routes[] = {
    {"GET", "/", true, sv_run_page, NULL, NULL, true},
    {"GET", "/app.js", true, sv_run_page, NULL, NULL, true},
    {"GET", "/markdown.js", true, sv_run_page, NULL, NULL, true},
    {"GET", "/style.css", true, sv_run_page, NULL, NULL, true},
    {"GET", "/health", true, sv_run_health, NULL, NULL, true},
    {"GET", "/version", false, sv_run_version, NULL, NULL, true},
    {"GET", "/metrics", false, sv_run_metrics, NULL, NULL, true},
    {"GET", "/v1/models", false, sv_run_models, NULL, NULL, true},
    {"GET", "/v1/models/", false, sv_run_model, NULL, NULL, true},
    {"POST", "/v1/completions", false, sv_run_generation, NULL, &sv_form_completion, false},
    {"POST", "/v1/chat/completions", false, sv_run_generation, NULL, &sv_form_chat, false},
    {"POST", "/v1/messages", false, sv_run_generation, sv_ant_put_fail, &sv_form_message, false},
    {"POST", "/v1/messages/count_tokens", false, sv_run_count_tokens, sv_ant_put_fail, NULL, false},
    {"POST", "/v1/responses", false, sv_run_generation, NULL, &sv_form_response, false},
    {"POST", "/v1/responses/input_tokens", false, sv_run_response_tokens, NULL, NULL, false},
    {"GET", "/v1/responses/", false, sv_run_get_response, NULL, NULL, true},
    {"DELETE", "/v1/responses/", false, sv_run_delete_response, NULL, NULL, true},
    {"POST", "/v1/responses/", false, sv_run_post_response, NULL, NULL, true},
    {"POST", "/v1/embeddings", false, sv_run_embeddings, NULL, NULL, false},
    {"POST", "/v1/rerank", false, sv_run_rerank, NULL, NULL, false},
    {"POST", "/rerank", false, sv_run_rerank, NULL, NULL, false},
    {"POST", "/v1/reranking", false, sv_run_rerank, NULL, NULL, false},
    {"POST", "/reranking", false, sv_run_rerank, NULL, NULL, false},
    {"POST", "/v2/rerank", false, sv_run_rerank, NULL, NULL, false},
    {"POST", "/tokenize", false, sv_run_tokenize, NULL, NULL, false},
    {"POST", "/detokenize", false, sv_run_detokenize, NULL, NULL, false},
    {"POST", "/completion", false, sv_run_generation, NULL, &sv_form_native, false},
    {"POST", "/completions", false, sv_run_generation, NULL, &sv_form_native, false},
    {"POST", "/embedding", false, sv_run_native_embedding, NULL, NULL, false},
    {"POST", "/embeddings", false, sv_run_native_embedding, NULL, NULL, false},
    {"POST", "/infill", false, sv_run_generation, NULL, &sv_form_infill, false},
    {"POST", "/chat/completions", false, sv_run_generation, NULL, &sv_form_chat, false},
    {"GET", "/models", false, sv_run_models, NULL, NULL, true},
    {"GET", "/v1/health", true, sv_run_health, NULL, NULL, true},
    {"POST", "/apply-template", false, sv_run_apply_template, NULL, NULL, false},
    {"GET", "/props", false, sv_run_props, NULL, NULL, false},
    {"GET", "/slots", false, sv_run_slots, NULL, NULL, false},
    {"POST", "/api/chat", false, sv_run_generation, sv_ollama_put_fail, &sv_form_ollama_chat, false},
    {"POST", "/api/generate", false, sv_run_generation, sv_ollama_put_fail, &sv_form_ollama_generate, false},
    {"POST", "/api/embed", false, sv_run_ollama_embed, sv_ollama_put_fail, NULL, false},
    {"POST", "/api/embeddings", false, sv_run_ollama_embeddings, sv_ollama_put_fail, NULL, false},
    {"GET", "/api/tags", false, sv_run_ollama_tags, sv_ollama_put_fail, NULL, true},
    {"POST", "/api/show", false, sv_run_ollama_show, sv_ollama_put_fail, NULL, false},
    {"GET", "/api/ps", false, sv_run_ollama_ps, sv_ollama_put_fail, NULL, true},
    {"GET", "/api/version", false, sv_run_ollama_version, sv_ollama_put_fail, NULL, true},
    {"POST", "/api/pull", false, sv_run_ollama_pull, sv_ollama_put_fail, NULL, true},
    {"POST", "/api/create", false, sv_run_ollama_refuse, sv_ollama_put_fail, NULL, true},
    {"POST", "/api/copy", false, sv_run_ollama_refuse, sv_ollama_put_fail, NULL, true},
    {"POST", "/api/push", false, sv_run_ollama_refuse, sv_ollama_put_fail, NULL, true},
    {"DELETE", "/api/delete", false, sv_run_ollama_refuse, sv_ollama_put_fail, NULL, true},
    {"GET", "/tokenizer_info", false, sv_run_tokenizer_info, NULL, NULL, false},
    {"OPTIONS", "*", true, sv_run_preflight, NULL, NULL, true},
    {NULL, NULL, false, NULL, NULL, NULL, false}};
