/* Byte-level BPE: each pre-split word is bytes at first; neighbours merge in the order of the merge list. */
#include "token/tok_merge.h"
#include "token/tok_pairs.h"

/* A byte that the vocabulary lacks is the unknown token where tokenizer.json has one; else it leaves nothing, as in the
 * implementations that models are trained with. */
static void bpe_emit(tok_run *run, int32_t id) {
  const ga_tokenizer *tok = run->tok;
  const int32_t unk = tok->unknown == TOK_UNKNOWN_NONE ? GA_TOK_NONE : tok->special[GA_TOK_UNK];
  const bool fused = tok->unknown == TOK_UNKNOWN_FUSED && run->after_unknown;
  run->after_unknown = id < 0;
  if (id < 0 && !fused) id = unk;
  if (id >= 0) tok_emit(run, id);
}

static void bpe_word(tok_run *run, const char *text, size_t bytes) {
  const ga_tokenizer *tok = run->tok;
  if (bytes == 1 || tok->ignore_merges) {
    int32_t id = bytes == 1 ? tok->byte_id[(uint8_t)*text] : tok_map_find(tok, text, bytes);
    if (id >= 0 || bytes == 1) {
      bpe_emit(run, id);
      return;
    }
  }
  if (!tok_run_symbols(run, bytes)) return;
  tok_symbols *sym = &run->symbols;
  uint32_t n = (uint32_t)bytes;
  for (uint32_t i = 0; i < n; i++) sym->id[i] = tok->byte_id[(uint8_t)text[i]];
  tok_merge_all(run, n, tok_merge_pair, tok);
  for (uint32_t i = 0; i < n; i = sym->next[i]) bpe_emit(run, sym->id[i]);
}

/* Puts a space before a text that begins with none. */
static bool bpe_add_prefix(tok_run *run, const char **text, size_t *bytes) {
  if (**text == ' ') return true;
  if (!tok_run_buffer(run, *bytes + 1)) return false;
  run->buffer[0] = ' ';
  memcpy(run->buffer + 1, *text, *bytes);
  *text = run->buffer;
  ++*bytes;
  return true;
}

void tok_bpe_encode(tok_run *run, const char *text, size_t bytes) {
  if (run->tok->bpe_prefix && !bpe_add_prefix(run, &text, &bytes)) return;
  tok_split split = ga_tok_split_start(run->tok->rule, text, bytes);
  tok_word word;
  for (size_t begin, end; tok_run_goes_on(run) && ga_tok_split_next(&split, &begin, &end);) {
    run->after_unknown = false;
    if (tok_word_known(run, text + begin, end - begin, &word)) continue;
    bpe_word(run, text + begin, end - begin);
    tok_word_keep(run, &word);
  }
}
