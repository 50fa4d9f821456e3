/* Questions to a tokenizer. */
#include "token/tok_vocab.h"

static bool is_token(const ga_tokenizer *tok, int32_t id) { return tok && id >= 0 && id < tok->n_tokens; }

bool ga_tokenizer_pre_known(const char *name) { return name && ga_tok_split_find(name); }

size_t ga_tokenizer_size(const ga_tokenizer *tok) { return tok ? (size_t)tok->n_tokens : 0; }

ga_tok_kind ga_tokenizer_kind(const ga_tokenizer *tok) { return tok->kind; }

ga_text ga_tokenizer_piece(const ga_tokenizer *tok, int32_t id) {
  if (!is_token(tok, id)) return (ga_text){"", 0};
  uint32_t bytes;
  const char *s = tok_piece_text(tok, id, &bytes);
  return (ga_text){s, bytes};
}

int32_t ga_tokenizer_type(const ga_tokenizer *tok, int32_t id) { return is_token(tok, id) ? tok->type[id] : 0; }

int32_t ga_tokenizer_find(const ga_tokenizer *tok, const char *piece, size_t bytes) {
  if (!tok || !piece || bytes == 0) return GA_TOK_NONE;
  int32_t id = tok_map_find(tok, piece, bytes);
  if (id >= 0) return id;
  id = tok_cut_find(tok, piece, bytes);
  if (id >= 0) return id;
  return bytes == 1 ? tok->byte_id[(uint8_t)*piece] : GA_TOK_NONE;
}

int32_t ga_tokenizer_special(const ga_tokenizer *tok, ga_tok_special which) {
  return tok && (unsigned)which < TOK_SPECIALS ? tok->special[which] : GA_TOK_NONE;
}

bool ga_tokenizer_adds_bos(const ga_tokenizer *tok) { return tok && tok->add_bos; }
bool ga_tokenizer_adds_eos(const ga_tokenizer *tok) { return tok && tok->add_eos; }

bool ga_tokenizer_is_eog(const ga_tokenizer *tok, int32_t id) {
  return is_token(tok, id) && (tok->mark[id] & TOK_MARK_EOG);
}
