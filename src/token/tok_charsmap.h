/* SentencePiece's precompiled_charsmap maps sequences of bytes to replacement texts, mostly Unicode's compatibility
 * forms.
 *
 *   u32, little-endian   bytes of the trie
 *   trie                 a double array (Aoe 1989) in units of u32; the value of a sequence is the offset of its text
 *   texts                each ended by a NUL */
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

/* Checks a charsmap and copies it into the arena; bytes 0: an empty one. GA_ERR_FORMAT: it is broken. */
GA_NODISCARD ga_status tok_charsmap_init(tok_charsmap *map, ga_arena *arena, const void *data, size_t bytes);
/* Finds the shortest or the longest sequence that s begins with. Returns its bytes, 0 when there is none; *out is the
 * replacement. */
size_t tok_charsmap_find(const tok_charsmap *map, const char *s, size_t n, bool longest, ga_text *out);

#endif
