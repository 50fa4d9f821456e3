/* Tokens beyond the rows of the embedding: padding and images of other models of the family, mostly. No text may become
 * them. */
#include "base/log.h"
#include "base/status.h"
#include "token/tok_load.h"

static size_t embedding_rows(const ga_model_file *file) {
  const ga_model_tensor *t = file ? ga_model_file_find(file, "token_embd.weight") : NULL;
  return t && t->view.n_dims == 2 && t->view.dim[0] > 0 ? (size_t)t->view.dim[0] : SIZE_MAX;
}

static void drop_id(int32_t *id, size_t rows) {
  if (*id >= 0 && (size_t)*id >= rows) *id = GA_TOK_NONE;
}

/* A template with such a token stays as it is, and the tokenizer is refused: texts would lack the token. */
void tok_load_trim(tok_load *load, const ga_model_file *file) {
  ga_vocab *v = &load->vocab;
  const size_t rows = embedding_rows(file), all = v->n_tokens;
  int32_t *const ids[] = {&v->bos, &v->eos, &v->eot, &v->eom, &v->unk, &v->sep, &v->pad, &v->cls, &v->mask};
  if (all <= rows || !v->types) return;
  for (size_t i = rows; i < all; i++)
    if (v->types[i] == GA_TOK_NORMAL || v->types[i] == GA_TOK_BYTE) return;
  for (size_t i = 0; i < GA_COUNT_OF(ids); i++) drop_id(ids[i], rows);
  for (size_t i = 0; v->fim && i < GA_COUNT_OF(load->fim); i++) drop_id(&load->fim[i], rows);
  v->n_tokens = rows;
  ga_log(GA_LOG_WARN, "tokenizer: %zu tokens; the embedding has %zu rows: the others are left out", all, rows);
}
