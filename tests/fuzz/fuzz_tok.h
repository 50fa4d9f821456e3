/* Shared by the tokenizer targets: a small vocabulary from the head of the input, then text and ids from the rest.
 *
 * Byte 0: flags. Byte 1: number of tokens, to 63. Each token: a byte of type (low 3 bits) and length (high 5 bits), the
 * text, a byte of score. BPE: a byte of number of merges, each two bytes: ids whose texts are joined. UGM: a byte of
 * flags, a byte of size, then so many u32 of a charsmap. Rest: text. */
#ifndef GA_TESTS_FUZZ_FUZZ_TOK_H
#define GA_TESTS_FUZZ_FUZZ_TOK_H

#include <string.h>

#include "base/compiler.h"
#include "tests/fuzz/fuzz_encode.h"

#define FUZZ_TOKENS 64
#define FUZZ_MERGES 64

typedef struct fuzz_vocab {
  ga_text tokens[FUZZ_TOKENS];
  float scores[FUZZ_TOKENS];
  int32_t types[FUZZ_TOKENS];
  ga_text merges[FUZZ_MERGES];
  char merge_text[FUZZ_MERGES][72]; /* two texts of at most 31 and a space */
} fuzz_vocab;

typedef struct fuzz_input {
  const uint8_t *data;
  size_t size;
} fuzz_input;

static unsigned fuzz_byte(fuzz_input *in) {
  if (in->size == 0) return 0;
  in->size--;
  return *in->data++;
}

static void fuzz_tokens(fuzz_input *in, ga_vocab *v, fuzz_vocab *store) {
  v->n_tokens = fuzz_byte(in) % FUZZ_TOKENS;
  for (size_t i = 0; i < v->n_tokens; i++) {
    unsigned head = fuzz_byte(in);
    size_t bytes = head >> 3;
    if (bytes > in->size) bytes = in->size;
    store->tokens[i] = (ga_text){(const char *)in->data, bytes};
    in->data += bytes;
    in->size -= bytes;
    store->types[i] = (int32_t)(head & 7) % 7;
    store->scores[i] = (float)(int8_t)fuzz_byte(in);
  }
  v->tokens = store->tokens;
  v->scores = store->scores;
  v->types = store->types;
}

static void fuzz_merges(fuzz_input *in, ga_vocab *v, fuzz_vocab *store) {
  size_t n = v->n_tokens ? fuzz_byte(in) % FUZZ_MERGES : 0;
  for (size_t i = 0; i < n; i++) {
    ga_text a = store->tokens[fuzz_byte(in) % v->n_tokens], b = store->tokens[fuzz_byte(in) % v->n_tokens];
    char *s = store->merge_text[i];
    memcpy(s, a.data, a.bytes);
    s[a.bytes] = ' ';
    memcpy(s + a.bytes + 1, b.data, b.bytes);
    store->merges[i] = (ga_text){s, a.bytes + 1 + b.bytes};
  }
  v->merges = store->merges;
  v->n_merges = n;
}

static void fuzz_unigram(fuzz_input *in, ga_vocab *v) {
  const unsigned head = fuzz_byte(in);
  size_t bytes = 4 * (size_t)fuzz_byte(in);
  if (bytes > in->size) bytes = in->size;
  v->unigram = head | (head & 1) << 8;
  v->charsmap = in->data;
  v->charsmap_bytes = bytes;
  in->data += bytes;
  in->size -= bytes;
}

static int fuzz_tokenizer(ga_tok_kind kind, const uint8_t *data, size_t size) {
  static const char *const pres[] = {"gpt-2", "smollm", "llama3", "qwen2", "qwen35", "tekken", "gpt-4o"};
  fuzz_input in = {data, size};
  fuzz_vocab store;
  ga_vocab v = GA_VOCAB_INIT;
  unsigned flags = fuzz_byte(&in), more = fuzz_byte(&in);
  v.kind = kind;
  v.pre = pres[more % GA_COUNT_OF(pres)];
  v.add_bos = flags & 4;
  v.add_eos = flags & 8;
  v.add_space_prefix = flags & 16;
  v.remove_extra_whitespaces = flags & 32;
  v.ignore_merges = flags & 64;
  v.cased = flags & 128;
  fuzz_tokens(&in, &v, &store);
  if (kind == GA_TOK_BPE) fuzz_merges(&in, &v, &store);
  if (kind == GA_TOK_UGM) fuzz_unigram(&in, &v);
  if (v.n_tokens > 2) {
    v.bos = v.cls = 0;
    v.eos = v.sep = 1;
    v.unk = (more & 64) || kind == GA_TOK_UGM ? 2 : -1;
  }
  ga_tokenizer *tok;
  if (ga_tokenizer_create(&v, &tok) != GA_OK) return 0;
  fuzz_encode(tok, (const char *)in.data, in.size, flags & 3);
  ga_tokenizer_destroy(tok);
  return 0;
}

#endif
