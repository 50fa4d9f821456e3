#include "serve/logprobs.h"

#include <math.h>
#include <string.h>

/* JSON has no infinity; clients of vLLM know this number. */
static void sv_put_logprob(sv_text *t, float v) { sv_put_number(t, v < -9999.0f ? -9999.0 : (double)v); }

/* A token's text as a key. Bytes that are no UTF-8 are written out, so that different tokens keep different names. */
static void sv_put_name(sv_text *t, ga_text piece) {
  sv_text name = {0};
  if (sv_is_utf8(piece.data, piece.bytes)) {
    sv_put_json(t, piece.data, piece.bytes);
    return;
  }
  sv_puts(&name, "bytes:");
  for (size_t i = 0; i < piece.bytes; i++) sv_putf(&name, "\\x%02x", (unsigned char)piece.data[i]);
  if (name.failed) t->failed = true;
  sv_put_json(t, name.p, name.n);
  sv_text_free(&name);
}

static bool sv_same_piece(const ga_tokenizer *tok, int32_t a, int32_t b) {
  const ga_text x = ga_tokenizer_piece(tok, a), y = ga_tokenizer_piece(tok, b);
  return x.bytes == y.bytes && (!x.bytes || !memcmp(x.data, y.data, x.bytes));
}

/* {"token": logprob, ...}: the most probable ones, and the token itself. */
static void sv_put_top(sv_text *t, const ga_tokenizer *tok, const sv_token *token, int64_t most) {
  const int32_t n = token->n_top < most ? token->n_top : (int32_t)most;
  bool has_own = false;
  if (isnan(token->logprob)) {
    sv_puts(t, "null");
    return;
  }
  sv_puts(t, "{");
  for (int32_t i = 0, put = 0; i < n; i++) {
    bool twice = false; /* two ids may have one text; a key stands once */
    for (int32_t k = 0; k < i && !twice; k++) twice = sv_same_piece(tok, token->top[k].id, token->top[i].id);
    if (twice) continue;
    has_own |= sv_same_piece(tok, token->top[i].id, token->id);
    if (put++) sv_puts(t, ",");
    sv_put_name(t, ga_tokenizer_piece(tok, token->top[i].id));
    sv_puts(t, ":");
    sv_put_logprob(t, token->top[i].logprob);
  }
  if (!has_own) {
    if (n) sv_puts(t, ",");
    sv_put_name(t, ga_tokenizer_piece(tok, token->id));
    sv_puts(t, ":");
    sv_put_logprob(t, token->logprob);
  }
  sv_puts(t, "}");
}

typedef enum sv_column { SV_TOKENS, SV_LOGPROBS, SV_TOP, SV_OFFSETS } sv_column;

static void sv_put_column(sv_text *t, const sv_choice *c, const sv_tokens *list, sv_column column, bool *first) {
  for (size_t i = 0; i < list->n; i++) {
    const sv_token *token = &list->p[i];
    if (!*first) sv_puts(t, ",");
    *first = false;
    switch (column) {
    case SV_TOKENS: sv_put_name(t, ga_tokenizer_piece(c->tok, token->id)); break;
    case SV_LOGPROBS: sv_put_logprob(t, token->logprob); break;
    case SV_TOP: sv_put_top(t, c->tok, token, c->params->logprobs); break;
    case SV_OFFSETS: sv_putf(t, "%zu", token->offset); break;
    }
  }
}

void sv_put_completion_logprobs(sv_text *t, const sv_choice *c, bool with_prompt) {
  static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  for (sv_column column = SV_TOKENS; column <= SV_OFFSETS; column++) {
    bool first = true;
    sv_putf(t, "%s\"%s\":[", column ? "," : "{", names[column]);
    if (with_prompt) sv_put_column(t, c, &c->prompt, column, &first);
    sv_put_column(t, c, &c->tokens, column, &first);
    sv_puts(t, "]");
  }
  sv_puts(t, "}");
}

static void sv_put_token_members(sv_text *t, const ga_tokenizer *tok, int32_t id, float logprob) {
  const ga_text piece = ga_tokenizer_piece(tok, id);
  sv_puts(t, "\"token\":");
  sv_put_json(t, piece.data, piece.bytes);
  sv_puts(t, ",\"logprob\":");
  sv_put_logprob(t, logprob);
  sv_puts(t, ",\"bytes\":[");
  for (size_t i = 0; i < piece.bytes; i++) sv_putf(t, "%s%d", i ? "," : "", (unsigned char)piece.data[i]);
  sv_puts(t, "]");
}

static void sv_put_chat_token(sv_text *t, const ga_tokenizer *tok, int32_t id, float logprob) {
  sv_puts(t, "{");
  sv_put_token_members(t, tok, id, logprob);
}

void sv_put_chat_tokens(sv_text *t, const sv_choice *c) {
  for (size_t i = 0; i < c->tokens.n; i++) {
    const sv_token *token = &c->tokens.p[i];
    if (i) sv_puts(t, ",");
    sv_put_chat_token(t, c->tok, token->id, token->logprob);
    sv_puts(t, ",\"top_logprobs\":[");
    for (int32_t k = 0; k < token->n_top && k < c->params->logprobs; k++) {
      if (k) sv_puts(t, ",");
      sv_put_chat_token(t, c->tok, token->top[k].id, token->top[k].logprob);
      sv_puts(t, "}");
    }
    sv_puts(t, "]}");
  }
}

void sv_put_chat_logprobs(sv_text *t, const sv_choice *c) {
  sv_puts(t, "{\"content\":[");
  sv_put_chat_tokens(t, c);
  sv_puts(t, "]}");
}

static void sv_put_native_token(sv_text *t, const ga_tokenizer *tok, int32_t id, float logprob) {
  sv_putf(t, "{\"id\":%d,", id);
  sv_put_token_members(t, tok, id, logprob);
}

void sv_put_native_logprobs(sv_text *t, const sv_choice *c) {
  sv_puts(t, "[");
  for (size_t i = 0; i < c->tokens.n; i++) {
    const sv_token *token = &c->tokens.p[i];
    if (i) sv_puts(t, ",");
    sv_put_native_token(t, c->tok, token->id, token->logprob);
    sv_puts(t, ",\"top_logprobs\":[");
    for (int32_t k = 0; k < token->n_top && k < c->params->logprobs; k++) {
      if (k) sv_puts(t, ",");
      sv_put_native_token(t, c->tok, token->top[k].id, token->top[k].logprob);
      sv_puts(t, "}");
    }
    sv_puts(t, "]}");
  }
  sv_puts(t, "]");
}

static void sv_put_ranked(sv_text *t, const ga_tokenizer *tok, int32_t id, float logprob, int32_t rank) {
  const ga_text piece = ga_tokenizer_piece(tok, id);
  sv_putf(t, "\"%d\":{\"logprob\":", id);
  sv_put_logprob(t, logprob);
  if (rank)
    sv_putf(t, ",\"rank\":%d", rank);
  else
    sv_puts(t, ",\"rank\":null");
  sv_puts(t, ",\"decoded_token\":");
  sv_put_json(t, piece.data, piece.bytes);
  sv_puts(t, "}");
}

void sv_put_prompt_logprobs(sv_text *t, const sv_choice *c) {
  sv_puts(t, "[");
  for (size_t i = 0; i < c->prompt.n; i++) {
    const sv_token *token = &c->prompt.p[i];
    bool has_own = false;
    int32_t put = 0;
    if (i) sv_puts(t, ",");
    if (isnan(token->logprob)) {
      sv_puts(t, "null");
      continue;
    }
    sv_puts(t, "{");
    for (int32_t k = 0; k < token->n_top && k < c->params->prompt_logprobs; k++) {
      if (put++) sv_puts(t, ",");
      sv_put_ranked(t, c->tok, token->top[k].id, token->top[k].logprob, k + 1);
      has_own |= token->top[k].id == token->id;
    }
    if (!has_own) {
      if (put) sv_puts(t, ",");
      sv_put_ranked(t, c->tok, token->id, token->logprob, 0);
    }
    sv_puts(t, "}");
  }
  sv_puts(t, "]");
}
