/* The contents of a tokenizer, and searches for its tokens. Only the files src/token/tok_*.c include it. */
#ifndef GA_TOKEN_TOK_VOCAB_H
#define GA_TOKEN_TOK_VOCAB_H

#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "ga/tokenizer.h"
#include "token/tok_charsmap.h"
#include "token/tok_extra.h"
#include "token/tok_match.h"
#include "token/tok_split.h"
#include "token/tok_trie.h"

#define TOK_SPECIALS 15
/* number of special tokens that are fields of ga_vocab; they are the first of ga_tok_special */
#define TOK_NAMED      9
#define TOK_RANK_NONE  UINT32_MAX
#define TOK_MARK_PLAIN 1u /* plain text can be encoded to this token */
#define TOK_MARK_EOG   2u /* the token ends generation */

#define TOK_HASH_BLOCK 32
#define TOK_HASH_WORDS (TOK_HASH_BLOCK / 4 + 1)
#define TOK_HASH_KEYS  (TOK_HASH_WORDS + 4)

/* A slot of the hash table of tokens: open addressing with linear probing, at most half full. */
typedef struct tok_slot {
  uint32_t hash;
  int32_t id; /* id of the token; -1: the slot is empty */
} tok_slot;

typedef struct tok_map {
  tok_slot *slots;
  uint32_t mask;
} tok_map;

/* BPE: a slot of the hash table of merges. The neighbours `left` and `right` merge into token `made`, with this
 * rank. */
typedef struct tok_pair {
  int32_t left, right; /* ids of the tokens that merge; left -1: the slot is empty */
  uint32_t rank;
  int32_t made;
} tok_pair;

typedef struct tok_pairs {
  tok_pair *slots;
  uint32_t mask;
} tok_pairs;

/* A special token that is found in a text before the rest is encoded. */
typedef struct tok_cut {
  const char *text;
  uint32_t bytes;
  int32_t id;
  uint8_t added; /* TOK_ADDED_ bits */
} tok_cut;

typedef struct tok_cuts {
  tok_cut *list;
  int32_t count;
  /* automata for the tokens of `list`: `all` finds all of them, `user` only the user-defined ones. A match gives an
   * index of `list` */
  tok_matcher all, user;
  /* [n_normal] tokens that are looked for in the normalised text, with their texts normalised; they are not in
   * `list` */
  tok_cut *normal;
  int32_t n_normal;
  tok_matcher normalized;
} tok_cuts;

/* The tokens of a template: `ids` has those before a text, then those after it. */
typedef struct tok_affix {
  bool has_template;
  int32_t *ids;
  size_t n_before, n_after;
} tok_affix;

struct ga_tokenizer {
  ga_arena arena; /* the memory of everything below */
  ga_tok_kind kind;
  const tok_split_rule *rule;
  int32_t n_tokens;
  int32_t special[TOK_SPECIALS]; /* ids of the special tokens, indexed by ga_tok_special */
  bool add_bos, add_eos, add_space_prefix, remove_extra_whitespaces, ignore_merges;
  bool strip; /* the first space of an output is removed, unless the output continues another output */
  tok_steps steps;
  tok_affix affix;
  uint32_t wpm; /* WPM: TOK_WPM_ bits */
  int32_t word_chars;
  tok_unknown unknown; /* BPE; SPM with by_merges */
  bool by_merges;      /* SPM: pieces merge by `pairs`, not by `rank` */
  bool all_bytes;      /* each byte has a token */
  bool bpe_prefix;
  char *text;      /* texts of all tokens, one after the other */
  uint32_t *start; /* [n_tokens + 1] offset of each token's text in `text` */
  uint8_t *type;   /* [n_tokens] ga_tok_type of each token */
  uint8_t *mark;   /* [n_tokens] combination of the TOK_MARK_ bits */
  /* SPM: [n_tokens] rank of each token; the pair whose merged token has the lowest rank is merged first */
  uint32_t *rank;
  uint32_t longest;            /* bytes of the longest token in `map` */
  uint32_t longest_any;        /* bytes of the longest of all tokens */
  uint64_t key[TOK_HASH_KEYS]; /* secret keys of the hashes, so that no file can be made whose tokens collide */
  tok_map map;                 /* hash table of the tokens to which plain text can be encoded */
  int32_t byte_id[256];        /* id of the token that stands for each byte */
  tok_pairs pairs;             /* BPE, and SPM with by_merges: merges */
  /* SPM: a set of bits, found by hash. The bit of two characters is set if they are next to each other in a token */
  uint64_t *joints;
  uint32_t joint_mask;
  uint32_t unigram; /* UGM, SPM: ga_tok_unigram */
  tok_charsmap charsmap;
  tok_trie trie;        /* UGM: trie of the tokens to which plain text can be encoded */
  float *score;         /* UGM: [n_tokens] score of each token, its log-probability */
  double unknown_score; /* UGM: score of a character without a piece */
  tok_cuts cuts;
};

GA_INLINE const char *tok_piece_text(const ga_tokenizer *tok, int32_t id, uint32_t *bytes) {
  *bytes = tok->start[id + 1] - tok->start[id];
  return tok->text + tok->start[id];
}

GA_INLINE uint64_t tok_mix(uint64_t h) {
  h *= 0x9E3779B97F4A7C15u; /* 2^64 divided by the golden ratio */
  return h ^ h >> 29;
}

/* Hashes n bytes: the sum of their 32-bit words times secret 64-bit keys, whose high half is the hash. The hash is
 * universal (Dietzfelbinger 1996): without the keys, an author of a vocabulary cannot make tokens collide more often
 * than by chance. */
GA_INLINE uint64_t tok_hash_words(const uint64_t *key, const char *s, size_t n) {
  uint64_t h = 0;
  uint32_t word;
  size_t i = 0;
  for (; n >= 4; s += 4, n -= 4) {
    memcpy(&word, s, 4);
    h += key[i++] * word;
  }
  word = 0;
  memcpy(&word, s, n);
  return h + key[i] * word;
}

/* Hashes n bytes in blocks of TOK_HASH_BLOCK bytes. The hash of each block is added to the sum of the next block, as
 * two 32-bit words. */
GA_INLINE uint32_t tok_hash(const uint64_t *key, const char *s, size_t n) {
  uint64_t h = key[TOK_HASH_WORDS + 2] * (uint32_t)n + key[TOK_HASH_WORDS + 3];
  for (; n > TOK_HASH_BLOCK; s += TOK_HASH_BLOCK, n -= TOK_HASH_BLOCK) {
    h += tok_hash_words(key, s, TOK_HASH_BLOCK);
    h = key[TOK_HASH_WORDS] * (uint32_t)(h >> 32) + key[TOK_HASH_WORDS + 1] * (uint32_t)h;
  }
  return (uint32_t)((h + tok_hash_words(key, s, n)) >> 32);
}

/* Returns the id of the token with these bytes, if plain text can be encoded to it; GA_TOK_NONE: there is no such
 * token. */
GA_INLINE int32_t tok_map_find(const ga_tokenizer *tok, const char *s, size_t n) {
  if (n > tok->longest) return GA_TOK_NONE;
  uint32_t hash = tok_hash(tok->key, s, n);
  for (uint32_t at = hash & tok->map.mask;; at = (at + 1) & tok->map.mask) {
    tok_slot slot = tok->map.slots[at];
    if (slot.id < 0) return GA_TOK_NONE;
    uint32_t bytes;
    if (slot.hash == hash && !memcmp(tok_piece_text(tok, slot.id, &bytes), s, n) && bytes == n) return slot.id;
  }
}

GA_INLINE uint32_t tok_pair_hash(const uint64_t *key, int32_t left, int32_t right) {
  return (uint32_t)((key[0] * (uint32_t)left + key[1] * (uint32_t)right + key[2]) >> 32);
}

/* Returns the merge of two neighbouring tokens; NULL: they do not merge. */
GA_INLINE const tok_pair *tok_pairs_find(const ga_tokenizer *tok, int32_t left, int32_t right) {
  const tok_pairs *pairs = &tok->pairs;
  for (uint32_t at = tok_pair_hash(tok->key, left, right) & pairs->mask;; at = (at + 1) & pairs->mask) {
    const tok_pair *slot = &pairs->slots[at];
    if (slot->left < 0) return NULL;
    if (slot->left == left && slot->right == right) return slot;
  }
}

/* Returns the number of bytes of the character at s, by its first byte only, and at most n. Text is valid UTF-8 here,
 * but a token of a vocabulary need not be. */
GA_INLINE size_t tok_char_bytes(const char *s, size_t n) {
  uint8_t lead = (uint8_t)*s;
  size_t len = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return len < n ? len : n;
}

/* Returns the bytes of a character as a number. tok_joint_hash of two such numbers selects their bit in `joints`. */
GA_INLINE uint32_t tok_char_code(const char *s, size_t len) {
  uint32_t code = 0;
  memcpy(&code, s, len);
  return code;
}

GA_INLINE uint32_t tok_joint_hash(uint32_t left, uint32_t right) {
  return (uint32_t)(tok_mix((uint64_t)left << 32 | right) >> 32);
}

/* Steps of ga_tokenizer_create, which calls them in this order. Each builds one part of the tokenizer from the
 * vocabulary. */
GA_NODISCARD ga_status tok_build_pieces(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_cuts(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added);
GA_NODISCARD ga_status tok_build_map(ga_tokenizer *tok, const ga_vocab *vocab, const uint8_t *added);
GA_NODISCARD ga_status tok_build_fim(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_spm(ga_tokenizer *tok, const ga_vocab *vocab);
GA_NODISCARD ga_status tok_build_ugm(ga_tokenizer *tok, const ga_vocab *vocab);

/* Finds the special tokens in a text, in descending order of offsets; at each offset the longest that begins there.
 * Special tokens are user-defined tokens and, if `parse`, control tokens. A control token has no byte that is marked in
 * foreign[n]; foreign may be NULL. */
GA_NODISCARD ga_status tok_find_cuts(const ga_tokenizer *tok, const char *text, size_t n, bool parse,
                                     const uint8_t *foreign, tok_matches *out);
/* Finds the added tokens in a normalised text (tok_cuts.normal), in descending order of offsets; at each offset the
 * longest that begins there. */
GA_NODISCARD ga_status tok_find_normal_cuts(const ga_tokenizer *tok, const char *text, size_t n, tok_matches *out);
/* Returns the id of the special token that has exactly these bytes; -1: there is none. */
int32_t tok_cut_find(const ga_tokenizer *tok, const char *text, size_t bytes);

/* Copies n bytes of s to `out` with a space in place of each U+2581. Returns the number of bytes written, at most n. */
size_t tok_unmark_spaces(const char *s, size_t n, char *out);

/* Replaces the characters in a token's text by the bytes that they stand for in GPT-2's table. Writes *n_out bytes to
 * `out`, which has room for n. Returns false if a character stands for no byte. */
bool tok_byte_decode(const char *s, size_t n, char *out, size_t *n_out);

#endif
