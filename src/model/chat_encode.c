/* Conversations to token ids: control tokens come from the template alone. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/sized.h"
#include "jinja/jinja.h"
#include "token/tok_encode.h"

static ga_status with_bos(const ga_tokenizer *tok, int32_t **ids, size_t *n) {
  const int32_t bos = ga_tokenizer_special(tok, GA_TOK_BOS);
  if (bos == GA_TOK_NONE || !ga_tokenizer_adds_bos(tok) || (*n && (*ids)[0] == bos)) return GA_OK;
  void *more;
  GA_TRY(ga_mem_alloc((*n + 1) * sizeof **ids, "token ids", &more));
  int32_t *p = more;
  p[0] = bos;
  if (*n) memcpy(p + 1, *ids, *n * sizeof *p);
  ga_mem_free(*ids);
  *ids = p;
  ++*n;
  return GA_OK;
}

ga_status ga_template_encode(const ga_template *tpl, const ga_tokenizer *tok, const char *json_context, size_t bytes,
                             const ga_template_limits *limits_or_null, int32_t **ids, size_t *n_ids) {
  char *text;
  uint8_t *foreign;
  size_t n;
  GA_REQUIRE(tok && ids && n_ids, GA_ERR_ARG, "chat: an argument is NULL");
  *ids = NULL;
  *n_ids = 0;
  GA_TRY(ga_jj_render_traced(tpl, json_context, bytes, limits_or_null, &text, &foreign, &n));
  ga_status status = tok_encode_traced(tok, text, n, foreign, ids, n_ids);
  ga_mem_free(text);
  ga_mem_free(foreign);
  if (status == GA_OK) status = with_bos(tok, ids, n_ids);
  if (status == GA_OK) return GA_OK;
  ga_mem_free(*ids);
  *ids = NULL;
  *n_ids = 0;
  return status;
}

void ga_chat_ids_free(int32_t *ids) { ga_mem_free(ids); }

/* Name of a special token, malloc'd; "" when the model has none. */
static ga_status token_name(const ga_tokenizer *tok, ga_tok_special which, char **out) {
  const ga_text p = ga_tokenizer_piece(tok, ga_tokenizer_special(tok, which));
  void *name;
  GA_TRY(ga_mem_alloc(p.bytes + 1, "name of a token", &name));
  *out = name;
  if (p.bytes) memcpy(*out, p.data, p.bytes);
  (*out)[p.bytes] = 0;
  return GA_OK;
}

ga_status ga_chat_encode(const ga_template *tpl, const ga_tokenizer *tok, const ga_chat_message *messages,
                         size_t n_messages, const ga_chat_options *options, int32_t **ids, size_t *n_ids) {
  ga_chat_options o = GA_CHAT_OPTIONS_INIT;
  char *bos = NULL, *eos = NULL, *json = NULL;
  GA_REQUIRE(tpl && tok && ids && n_ids, GA_ERR_ARG, "chat: an argument is NULL");
  *ids = NULL;
  *n_ids = 0;
  if (options) GA_TRY(GA_SIZED_TAKE("chat: options", ga_chat_options, options, &o));
  ga_status status = GA_OK;
  if (!o.bos_token) GA_TRY_OUT(token_name(tok, GA_TOK_BOS, &bos));
  if (!o.eos_token) GA_TRY_OUT(token_name(tok, GA_TOK_EOS, &eos));
  if (bos) o.bos_token = bos;
  if (eos) o.eos_token = eos;
  GA_TRY_OUT(ga_jj_chat_context(messages, n_messages, &o, &json));
  GA_TRY_OUT(ga_template_encode(tpl, tok, json, strlen(json), o.limits, ids, n_ids));
out:
  ga_mem_free(bos);
  ga_mem_free(eos);
  free(json);
  return status;
}
