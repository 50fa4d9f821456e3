/* UTF-8 decoding and character classes for tokenizers. */
#ifndef GA_TOKEN_UNICODE_H
#define GA_TOKEN_UNICODE_H

#include "base/compiler.h"
#include "ga/base.h"

#define GA_UC_LETTER 1u /* \p{L} */
#define GA_UC_NUMBER 2u /* \p{N} */
#define GA_UC_MARK   4u /* \p{M} */
#define GA_UC_SPACE  8u /* the White_Space property: \s */
/* As of Unicode 8.0, for BERT; see tools/gen_unicode.py. */
#define GA_UC_PUNCT      16u /* \p{P} */
#define GA_UC_OTHER      32u /* control, format, surrogate, private use; not unassigned */
#define GA_UC_NONSPACING 64u /* \p{Mn} */
/* Letters with case. Letters without, \p{Lm} and \p{Lo}, have neither bit. */
#define GA_UC_UPPER 128u /* \p{Lu}, \p{Lt} */
#define GA_UC_LOWER 256u /* \p{Ll} */

#define GA_UC_REPLACEMENT 0xFFFDu

/* A table in two stages, made by tools/gen_unicode.py: ga_uc_index has the block of 128 code points, ga_uc_flags the
 * classes in it. */
extern const uint8_t ga_uc_index[0x110000 >> 7];
extern const uint16_t ga_uc_flags[];

/* Classes of a code point, which is at most U+10FFFF. */
GA_INLINE uint32_t ga_uc_class(uint32_t cp) { return ga_uc_flags[(uint32_t)ga_uc_index[cp >> 7] << 7 | (cp & 127)]; }

uint32_t ga_uc_lower(uint32_t cp); /* simple mapping, one code point to one */

/* Length in bytes of the well-formed sequence at s, n >= 1 (Unicode 14.0, table 3-7: no overlong forms, surrogates or
 * values beyond U+10FFFF); 0 when there is none. */
int ga_utf8_length(const uint8_t *s, size_t n);
/* Bytes at s that are the start of a well-formed sequence cut off by n; else 0. */
int ga_utf8_partial(const uint8_t *s, size_t n);
/* Bytes to replace by one U+FFFD where s starts no well-formed sequence, as W3C and Unicode advise. At least 1. */
int ga_utf8_broken(const uint8_t *s, size_t n);

/* Bytes of s before the first that starts no well-formed sequence. */
size_t ga_utf8_valid(const uint8_t *s, size_t n);
/* Copies s with U+FFFD for each maximal ill-formed part. `out` has room for 3 n bytes. Returns the bytes written. */
size_t ga_utf8_repair(const uint8_t *s, size_t n, char *out);

/* Non-ASCII part of ga_utf8_next. */
uint32_t ga_utf8_decode(const uint8_t *s, size_t n, int *len);

/* Code point at s, n >= 1, and its length; a byte that starts no well-formed sequence is U+FFFD of length 1. */
GA_INLINE uint32_t ga_utf8_next(const uint8_t *s, size_t n, int *len) {
  if (GA_LIKELY(s[0] < 0x80)) {
    *len = 1;
    return s[0];
  }
  return ga_utf8_decode(s, n, len);
}

/* Writes 1 to 4 bytes; cp at most U+10FFFF. */
int ga_utf8_encode(uint32_t cp, uint8_t out[4]);

#endif
