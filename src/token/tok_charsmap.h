/* SentencePiece's precompiled_charsmap: which sequences of bytes become which texts, mostly Unicode's compatibility
 * forms. A u32 (little-endian) of bytes, a double-array trie (Aoe 1989) of so many bytes in units of u32, then the
 * texts, each ended by a NUL; a sequence's value is the offset of its text. */
#ifndef GA_TOKEN_TOK_CHARSMAP_H
#define GA_TOKEN_TOK_CHARSMAP_H

#include "base/mem.h"
#include "ga/tokenizer.h"

#define TOK_CHARSMAP_MOST      ((size_t)1 << 24)
#define TOK_CHARSMAP_TEXT_MOST 256 /* bytes of one text; NFKC has 33 at most */

typedef struct tok_charsmap {
  const uint8_t *units;
  uint32_t n_units; /* 0: nothing changes */
  const char *texts;
  uint32_t texts_bytes;
} tok_charsmap;

/* Copies it into the arena; bytes 0 is an empty one. GA_ERR_FORMAT where it is broken. */
GA_NODISCARD ga_status tok_charsmap_init(tok_charsmap *map, ga_arena *arena, const void *data, size_t bytes);
/* The shortest or the longest sequence that s begins with: its bytes, and what it becomes; 0 when there is none. */
size_t tok_charsmap_find(const tok_charsmap *map, const char *s, size_t n, bool longest, ga_text *out);

#endif
