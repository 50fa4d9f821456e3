/* UTF-8 decoding and character classes for tokenizers. */
#ifndef GA_TOKEN_UNICODE_H
#define GA_TOKEN_UNICODE_H

#include "base/compiler.h"
#include "ga/base.h"

#define GA_UC_LETTER 1u /* \p{L} */
#define GA_UC_NUMBER 2u /* \p{N} */
#define GA_UC_MARK   4u /* \p{M} */
#define GA_UC_SPACE  8u /* the White_Space property: \s */
/* Classes of Unicode 8.0, for BERT; see tools/gen_unicode.py. */
#define GA_UC_PUNCT      16u /* \p{P} */
#define GA_UC_OTHER      32u /* control, format, surrogate or private use, but not unassigned */
#define GA_UC_NONSPACING 64u /* \p{Mn} */
/* Letters with case. Letters without case, \p{Lm} and \p{Lo}, have neither bit. */
#define GA_UC_UPPER 128u /* \p{Lu}, \p{Lt} */
#define GA_UC_LOWER 256u /* \p{Ll} */

#define GA_UC_REPLACEMENT 0xFFFDu

/* A table in two stages, made by tools/gen_unicode.py. ga_uc_index has the block of each 128 code points;
 * ga_uc_flags has the classes of the code points of each block. */
extern const uint8_t ga_uc_index[0x110000 >> 7];
extern const uint16_t ga_uc_flags[];

/* Returns the classes of a code point, which is at most U+10FFFF. */
GA_INLINE uint32_t ga_uc_class(uint32_t cp) { return ga_uc_flags[(uint32_t)ga_uc_index[cp >> 7] << 7 | (cp & 127)]; }

/* Returns whether \w of regular expressions matches (Unicode technical standard 18, annex C). */
bool ga_uc_is_word(uint32_t cp);

uint32_t ga_uc_lower(uint32_t cp); /* Returns the lower case by the simple mapping, from one code point to one. */

/* Returns the bytes of the well-formed sequence at s; 0: none begins there. n >= 1. Unicode 14.0, table 3-7: no
 * overlong forms, surrogates or values beyond U+10FFFF. */
int ga_utf8_length(const uint8_t *s, size_t n);
/* Returns the number of bytes at s that begin a well-formed sequence which n cuts off; else 0. */
int ga_utf8_partial(const uint8_t *s, size_t n);
/* Returns the number of bytes that one U+FFFD replaces where s begins no well-formed sequence, as W3C and Unicode
 * advise. At least 1. */
int ga_utf8_broken(const uint8_t *s, size_t n);

/* Returns the number of bytes of s before the first byte that begins no well-formed sequence. */
size_t ga_utf8_valid(const uint8_t *s, size_t n);
/* Copies s with U+FFFD for each maximal ill-formed part. `out` has room for 3 n bytes. Returns the bytes written. */
size_t ga_utf8_repair(const uint8_t *s, size_t n, char *out);

/* Does the same as ga_utf8_next for bytes that are not ASCII. */
uint32_t ga_utf8_decode(const uint8_t *s, size_t n, int *len);

/* Returns the code point at s and its length in *len. n >= 1. A byte that begins no well-formed sequence is U+FFFD
 * of length 1. */
GA_INLINE uint32_t ga_utf8_next(const uint8_t *s, size_t n, int *len) {
  if (GA_LIKELY(s[0] < 0x80)) {
    *len = 1;
    return s[0];
  }
  return ga_utf8_decode(s, n, len);
}

/* Writes the 1 to 4 bytes of cp, which is at most U+10FFFF. Returns their number. */
int ga_utf8_encode(uint32_t cp, uint8_t out[4]);

#endif
