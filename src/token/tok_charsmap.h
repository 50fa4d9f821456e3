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
#define TOK_CHARSMAP_TEXT_MOST 256 /* the most bytes of one replacement text; the texts of NFKC have at most 33 */

typedef struct tok_charsmap {
  const uint8_t *units;
  uint32_t n_units; /* number of units; 0: the charsmap changes nothing */
  const char *texts;
  uint32_t texts_bytes;
} tok_charsmap;

/* Checks a charsmap and copies it into the arena. bytes 0: the charsmap is empty. GA_ERR_FORMAT: the charsmap is
 * broken. */
GA_NODISCARD ga_status tok_charsmap_init(tok_charsmap *map, ga_arena *arena, const void *data, size_t bytes);
/* Finds the longest sequence, or the shortest, with which s begins. Returns its bytes; 0: there is none. *out is the
 * replacement. */
size_t tok_charsmap_find(const tok_charsmap *map, const char *s, size_t n, bool longest, ga_text *out);

#endif
