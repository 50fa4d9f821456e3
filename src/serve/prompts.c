#include "serve/prompts.h"

#include <stdlib.h>
#include <string.h>

#include "serve/names.h"
#include "text/json_io.h"

static bool sv_refuse_length(const sv_server *s, const char *count, size_t n, const char *what, sv_fail *fail) {
  return sv_refuse(fail, 400, "context_length_exceeded", what,
                   "This model's maximum context length is %d tokens. However, your %s resulted in %s%zu tokens. "
                   "Please reduce the length of the %s.",
                   s->context, what, count, n, what);
}

bool sv_fits_context(const sv_server *s, size_t n, int64_t max_tokens, const char *what, sv_fail *fail) {
  const int64_t made = max_tokens == SV_NO_LIMIT ? 1 : max_tokens, context = s->context;
  if (!n) return sv_refuse(fail, 400, NULL, what, "The %s has no tokens.", what);
  if ((int64_t)n > context || (max_tokens == SV_NO_LIMIT && (int64_t)n == context))
    return sv_refuse_length(s, "", n, what, fail);
  if (made <= context - (int64_t)n) return true;
  return sv_refuse(fail, 400, "context_length_exceeded", what,
                   "This model's maximum context length is %lld tokens. However, you requested %lld tokens (%zu in the "
                   "%s, %lld in the completion). Please reduce the length of the %s or completion.",
                   (long long)context, (long long)n + made, n, what, (long long)made, what);
}

bool sv_encode_text(const sv_server *s, const char *text, size_t bytes, uint32_t flags, sv_ids *out, sv_fail *fail) {
  *out = (sv_ids){0};
  /* Other kinds of tokenizers may drop spaces, so that bytes tell nothing. */
  if (ga_tokenizer_kind(s->tok) == GA_TOK_BPE && bytes / s->longest_piece > (size_t)s->context)
    return sv_refuse_length(s, "at least ", bytes / s->longest_piece, "prompt", fail);
  size_t capacity = bytes / 3 + 64;
  for (int attempt = 0; attempt < 2; attempt++) {
    int32_t *ids = malloc(capacity * sizeof *ids);
    if (!ids) return sv_refuse_nomem(fail);
    const ga_status status = ga_tokenize(s->tok, text, bytes, flags, ids, capacity, &out->n);
    if (status == GA_OK) {
      out->p = ids;
      return true;
    }
    free(ids);
    if (status != GA_ERR_SHAPE || out->n <= capacity) return sv_refuse_status(fail, status, NULL, ga_error_text());
    capacity = out->n;
  }
  return sv_refuse(fail, 500, NULL, NULL, "The tokenizer contradicts itself.");
}

bool sv_encode_prompt(const sv_server *s, sv_prompt *prompt, const sv_params *p, sv_ids *out, sv_fail *fail) {
  if (!prompt->text) {
    *out = (sv_ids){prompt->ids, prompt->n_ids};
    prompt->ids = NULL;
    return true;
  }
  const uint32_t flags = (p->add_special ? GA_TOK_ADD_SPECIAL : 0u) | (p->parse_special ? GA_TOK_PARSE_SPECIAL : 0u);
  return sv_encode_text(s, prompt->text, prompt->bytes, flags, out, fail);
}

/* --- chat --- */

static bool sv_name_token(const sv_server *s, json_t *context, const char *key, ga_tok_special which) {
  const ga_text piece = ga_tokenizer_piece(s->tok, ga_tokenizer_special(s->tok, which));
  if (!sv_is_utf8(piece.data, piece.bytes)) return true; /* the template goes without it */
  return !json_object_set_new(context, key, json_stringn_nocheck(piece.bytes ? piece.data : "", piece.bytes));
}

/* A template's own faults and its bounds are the client's: it sent the messages. Memory that the system does not give
 * is not. */
static bool sv_refuse_template(ga_status status, sv_fail *fail) {
  if (status == GA_ERR_NOMEM && strstr(ga_error_text(), "out of memory")) return sv_refuse_nomem(fail);
  if (status == GA_ERR_NOMEM || status == GA_ERR_TIMEOUT) status = GA_ERR_ARG;
  return sv_refuse_status(fail, status, "messages", ga_error_text());
}

static bool sv_refuse_continuing(sv_fail *fail) {
  return sv_refuse(fail, 400, NULL, "continue_final_message",
                   "The chat template does not end with the last message in a way that can be gone on with.");
}

/* Where in a rendered chat the last message ends, and what the template writes behind it begins; > n: nowhere. */
static size_t sv_find_tail(const sv_request *r, const char *text, size_t n) {
  const json_t *messages = json_object_get(r->context, "messages");
  const char *last =
      json_string_value(json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content"));
  size_t length = last ? strlen(last) : 0, at = n + 1;
  while (length && strchr(" \t\r\n", last[length - 1])) length--; /* templates trim */
  for (size_t end = n; length && at > n && end >= length; end--)
    if (!memcmp(text + end - length, last, length)) at = end;
  return at;
}

/* How many ids at the end come from what the template writes behind the last message: they are taken off, so that the
 * answer goes on with that message. */
static bool sv_cut_tail(const sv_server *s, const ga_template *tpl, const sv_request *r, const char *json, sv_ids *ids,
                        sv_fail *fail) {
  char *text = NULL;
  size_t n = 0;
  sv_ids tail = {0};
  const ga_status status = ga_template_render(tpl, json, strlen(json), NULL, &text, &n);
  if (status != GA_OK) return sv_refuse_template(status, fail);
  const size_t at = sv_find_tail(r, text, n);
  bool fits = at <= n && sv_encode_text(s, text + at, n - at, GA_TOK_PARSE_SPECIAL, &tail, fail);
  if (fits && tail.n) fits = tail.n < ids->n && !memcmp(ids->p + ids->n - tail.n, tail.p, tail.n * sizeof *tail.p);
  if (fits) ids->n -= tail.n;
  free(tail.p);
  ga_template_text_free(text);
  return fits || fail->http ? fits : sv_refuse_continuing(fail);
}

/* Puts the profile's system message before messages that have none. */
static bool sv_add_system(const sv_server *s, const sv_request *r, sv_fail *fail) {
  json_t *messages = json_object_get(r->context, "messages");
  const char *role = json_string_value(json_object_get(json_array_get(messages, 0), "role")),
             *system = s->o.profile.system;
  if (!system || !*system || !role || !strcmp(role, "system") || !strcmp(role, "developer")) return true;
  return !json_array_insert_new(messages, 0, json_pack("{s:s,s:s}", "role", "system", "content", system)) ||
         sv_refuse_nomem(fail);
}

/* The template, and its variables as JSON, malloc'd; NULL with *fail set. */
static char *sv_template_json(const sv_server *s, const sv_request *r, const ga_template **tpl, sv_fail *fail) {
  const char *why = ga_model_template_error(s->model);
  *tpl = sv_chat_template(s, json_object_get(r->context, "tools") != NULL);
  if (!*tpl) {
    (void)sv_refuse(
        fail, 400, "no_chat_template", NULL, "%s%s",
        *why ? "The model's chat template: "
             : "The model has no chat template: use /v1/completions, or start the server with --chat-template.",
        why);
    return NULL;
  }
  if (!sv_add_system(s, r, fail) || !sv_check_roles(*tpl, json_object_get(r->context, "messages"), fail)) return NULL;
  const bool named =
      sv_name_token(s, r->context, "bos_token", GA_TOK_BOS) && sv_name_token(s, r->context, "eos_token", GA_TOK_EOS);
  char *json = named ? ga_json_dump(r->context, JSON_COMPACT) : NULL;
  if (!json) (void)sv_refuse_nomem(fail);
  return json;
}

bool sv_render_chat(const sv_server *s, const sv_request *r, sv_text *out, sv_fail *fail) {
  const ga_template *tpl;
  char *text = NULL, *json = sv_template_json(s, r, &tpl, fail);
  size_t n = 0;
  if (!json) return false;
  const ga_status status = ga_template_render(tpl, json, strlen(json), NULL, &text, &n);
  free(json);
  if (status != GA_OK) return sv_refuse_template(status, fail);
  const size_t at = r->continue_final ? sv_find_tail(r, text, n) : n;
  if (at <= n) sv_put(out, text, at);
  ga_template_text_free(text);
  if (at > n) return sv_refuse_continuing(fail);
  return !out->failed || sv_refuse_nomem(fail);
}

bool sv_encode_chat(const sv_server *s, const sv_request *r, sv_ids *out, sv_fail *fail) {
  const ga_template *tpl;
  int32_t *made = NULL;
  *out = (sv_ids){0};
  char *json = sv_template_json(s, r, &tpl, fail);
  if (!json) return false;
  bool ok = true;
  const ga_status status = ga_template_encode(tpl, s->tok, json, strlen(json), NULL, &made, &out->n);
  if (status != GA_OK) ok = sv_refuse_template(status, fail);
  if (ok) {
    out->p = malloc((out->n + 1) * sizeof *out->p);
    if (out->p)
      memcpy(out->p, made, out->n * sizeof *out->p);
    else
      ok = sv_refuse_nomem(fail);
  }
  ga_chat_ids_free(made);
  if (ok && r->continue_final) ok = sv_cut_tail(s, tpl, r, json, out, fail);
  free(json);
  return ok;
}

bool sv_decode_ids(const sv_server *s, const int32_t *ids, size_t n, uint32_t flags, sv_text *out, sv_fail *fail) {
  size_t bytes = 0;
  ga_status status = ga_detokenize(s->tok, ids, n, flags, NULL, 0, &bytes);
  if (status != GA_OK && status != GA_ERR_SHAPE) return sv_refuse_status(fail, status, NULL, ga_error_text());
  char *text = malloc(bytes + 1);
  if (!text) return sv_refuse_nomem(fail);
  status = ga_detokenize(s->tok, ids, n, flags, text, bytes, &bytes);
  if (status == GA_OK) sv_put(out, text, bytes);
  free(text);
  if (status != GA_OK) return sv_refuse_status(fail, status, NULL, ga_error_text());
  return !out->failed || sv_refuse_nomem(fail);
}
