/* SentencePiece's precompiled_charsmap, a table for the normalisation of text. It maps sequences of bytes to
 * replacement texts, mostly Unicode's compatibility forms. It consists of:
 *
 *   u32, little-endian   bytes of the trie
 *   trie                 a double array (Aoe 1989) in units of u32; the value of a sequence is the offset of its text
 *   texts                each ended by a NUL */
#ifndef GA_TOKEN_TOK_CHARSMAP_H
#define GA_TOKEN_TOK_CHARSMAP_H

#include "base/mem.h"
#include "ga/tokenizer.h"

#define TOK_CHARSMAP_MOST ((size_t)1 << 24)
/* largest number of bytes of one replacement text; the texts of NFKC have at most 33 */
#define TOK_CHARSMAP_TEXT_MOST 256

typedef struct tok_charsmap {
  const uint8_t *units;
  uint32_t n_units; /* number of units of the trie; 0: the charsmap changes nothing */
  const char *texts;
  uint32_t texts_bytes;
} tok_charsmap;

/* Checks a precompiled_charsmap of `bytes` bytes and copies it into the arena. bytes may be 0: the charsmap is then
 * empty. Returns GA_ERR_FORMAT if the charsmap is broken. */
GA_NODISCARD ga_status tok_charsmap_init(tok_charsmap *map, ga_arena *arena, const void *data, size_t bytes);
/* Finds the longest (or the shortest) sequence of the charsmap with which the text s begins. Returns the sequence's
 * number of bytes; 0: there is none. *out is the replacement text. */
size_t tok_charsmap_find(const tok_charsmap *map, const char *s, size_t n, bool longest, ga_text *out);

#endif
