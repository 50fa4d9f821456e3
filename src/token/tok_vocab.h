/* What a tokenizer holds, and look-up of pieces. Shared by the files src/model/tok_*.c only. */
#ifndef GA_TOKEN_TOK_VOCAB_H
#define GA_TOKEN_TOK_VOCAB_H

#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "ga/tokenizer.h"
#include "token/tok_split.h"

#define TOK_SPECIALS   9
#define TOK_RANK_NONE  UINT32_MAX
#define TOK_MARK_PLAIN 1u /* plain text can become this token */
#define TOK_MARK_EOG   2u /* ends generation */

/* Open addressing with linear probing, at most half full. */
typedef struct tok_slot {
  uint32_t hash;
  int32_t id; /* -1 is empty */
} tok_slot;

typedef struct tok_map {
  tok_slot *slots;
  uint32_t mask;
} tok_map;

/* BPE: which two neighbours merge, at which rank, into which token. */
typedef struct tok_pair {
  int32_t left, right; /* left -1 is empty */
  uint32_t rank;
  int32_t made;
} tok_pair;

typedef struct tok_pairs {
  tok_pair *slots;
  uint32_t mask;
} tok_pairs;

/* Tokens cut out of the text before anything else, sorted by bytes. */
typedef struct tok_cut {
  const char *text;
  uint32_t bytes;
  int32_t id;
} tok_cut;

typedef struct tok_cuts {
  tok_cut *list;
  int32_t count;
  int32_t from[257];    /* from[b] to from[b + 1]: those whose first byte is b */
  bool any_first[256];  /* some token begins with this byte */
  bool user_first[256]; /* a user-defined one does */
} tok_cuts;

struct ga_tokenizer {
  ga_arena arena; /* everything below lives here */
  ga_tok_kind kind;
  const tok_split_rule *rule;
  int32_t n_tokens;
  int32_t special[TOK_SPECIALS]; /* by ga_tok_special */
  bool add_bos, add_eos, add_space_prefix, remove_extra_whitespaces, ignore_merges, cased;
  char *text;       /* what ids stand for, one after the other */
  uint32_t *start;  /* [n_tokens + 1] into text */
  uint8_t *type;    /* [n_tokens] */
  uint8_t *mark;    /* [n_tokens] TOK_MARK_ bits */
  uint32_t *rank;   /* SPM: [n_tokens], lower merges first */
  uint32_t longest; /* bytes of the longest piece in `map` */
  uint32_t longest_any;
  tok_map map; /* of the tokens that plain text can become */
  int32_t byte_id[256];
  tok_pairs pairs;  /* BPE */
  uint64_t *joints; /* SPM: bit set of the neighbouring characters found within tokens, by hash */
  uint32_t joint_mask;
  tok_cuts cuts;
};

GA_INLINE const char *tok_piece_text(const ga_tokenizer *tok, int32_t id, uint32_t *bytes) {
  *bytes = tok->start[id + 1] - tok->start[id];
  return tok->text + tok->start[id];
}

GA_INLINE uint64_t tok_mix(uint64_t h) {
  h *= 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio */
  return h ^ h >> 29;
}

/* Good spread for short strings; made for speed, not against an author of hostile vocabularies. */
GA_INLINE uint64_t tok_hash(const char *s, size_t n) {
  uint64_t h = n, word = 0;
  for (; n > 8; s += 8, n -= 8) {
    memcpy(&word, s, 8);
    h = tok_mix(h ^ word);
  }
  if (n >= 4) { /* both ends, overlapping: any length from 4 to 8 without a loop */
    uint32_t a, b;
    memcpy(&a, s, 4);
    memcpy(&b, s + n - 4, 4);
    word = (uint64_t)a << 32 | b;
  } else if (n > 0) {
    word = (uint64_t)(uint8_t)s[0] << 16 | (uint64_t)(uint8_t)s[n / 2] << 8 | (uint8_t)s[n - 1];
  }
  h = tok_mix(h ^ word);
  return h ^ h >> 32;
}

/* Id of the token of plain text with these bytes, -1 when there is none. */
GA_INLINE int32_t tok_map_find(const ga_tokenizer *tok, const char *s, size_t n) {
  if (n > tok->longest) return GA_TOK_NONE;
  uint32_t hash = (uint32_t)tok_hash(s, n);
  for (uint32_t at = hash & tok->map.mask;; at = (at + 1) & tok->map.mask) {
    tok_slot slot = tok->map.slots[at];
    if (slot.id < 0) return GA_TOK_NONE;
    uint32_t bytes;
    if (slot.hash == hash && !memcmp(tok_piece_text(tok, slot.id, &bytes), s, n) && bytes == n) return slot.id;
  }
}

GA_INLINE uint32_t tok_pair_hash(int32_t left, int32_t right) {
  uint64_t h = tok_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
  return (uint32_t)(h >> 32);
}

/* NULL when the two do not merge. */
GA_INLINE const tok_pair *tok_pairs_find(const tok_pairs *pairs, int32_t left, int32_t right) {
  for (uint32_t at = tok_pair_hash(left, right) & pairs->mask;; at = (at + 1) & pairs->mask) {
    const tok_pair *slot = &pairs->slots[at];
    if (slot->left < 0) return NULL;
    if (slot->left == left && slot->right == right) return slot;
  }
}

/* Length of the character at s by its lead byte alone, never past the end: text is valid UTF-8 here, but a token of a
 * vocabulary need not be. */
GA_INLINE size_t tok_char_bytes(const char *s, size_t n) {
  uint8_t lead = (uint8_t)*s;
  size_t len = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return len < n ? len : n;
}

/* The bytes of a character as a number, and the bit of two neighbours in `joints`. */
GA_INLINE uint32_t tok_char_code(const char *s, size_t len) {
  uint32_t code = 0;
  memcpy(&code, s, len);
  return code;
}

GA_INLINE uint32_t tok_joint_hash(uint32_t left, uint32_t right) {
  return (uint32_t)(tok_mix((uint64_t)left << 32 | right) >> 32);
}

/* Parts of ga_tokenizer_create, in this order. */
GA_NODISCARD ga_status tok_build_pieces(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_cuts(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_map(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_bpe(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_spm(ga_tokenizer *tok, const ga_vocab *vocab);

/* The longest special token at the start of s, -1 for none; control tokens only when `parse`, and only of bytes that
 * are not marked in foreign[n], unless that is NULL. */
int32_t tok_cut_at(const ga_tokenizer *tok, const uint8_t *s, size_t n, bool parse, const uint8_t *foreign,
                   size_t *bytes);

/* GPT-2's table backwards: bytes of the token text s into out (room for n), *n_out of them. False when a character
 * stands for no byte. */
bool tok_byte_decode(const char *s, size_t n, char *out, size_t *n_out);

#endif
