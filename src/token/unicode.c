#include "token/unicode.h"

#include <string.h>

#include <utf8proc.h>

#include "token/unicode_tables.inc"

uint32_t ga_uc_lower(uint32_t cp) {
  if (cp < 0x80) return cp - 'A' < 26u ? cp + 32 : cp;
  return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

/* Circled and squared letters are alphabetic, though they are symbols. */
static bool is_letter_symbol(uint32_t cp) {
  return (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
         (cp >= 0x1F170 && cp <= 0x1F189);
}

bool ga_uc_is_word(uint32_t cp) {
  if (cp < 0x80) return cp == '_' || (ga_uc_class(cp) & (GA_UC_LETTER | GA_UC_NUMBER)) != 0;
  if (cp == 0x200C || cp == 0x200D || is_letter_symbol(cp)) return true;
  switch (utf8proc_category((utf8proc_int32_t)cp)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC: return true;
  default: return false;
  }
}

/* Bytes that a lead byte asks for, 0 for a byte that leads nothing, and the range of the second byte: this is where
 * overlong forms, surrogates and values beyond U+10FFFF are told apart. */
static int lead_byte(uint8_t lead, uint8_t *least, uint8_t *most) {
  *least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  *most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/* Bytes at s that agree with a well-formed sequence of *want bytes, at most *want and at most n. */
static int sequence_prefix(const uint8_t *s, size_t n, int *want) {
  uint8_t least, most;
  *want = lead_byte(s[0], &least, &most);
  if (*want == 0) return 0;
  int have = 1;
  while (have < *want && (size_t)have < n && s[have] >= least && s[have] <= most) {
    have++;
    least = 0x80;
    most = 0xBF;
  }
  return have;
}

int ga_utf8_length(const uint8_t *s, size_t n) {
  int want, have = sequence_prefix(s, n, &want);
  return have == want ? have : 0;
}

int ga_utf8_partial(const uint8_t *s, size_t n) {
  int want, have = sequence_prefix(s, n, &want);
  return have < want && (size_t)have == n ? have : 0;
}

int ga_utf8_broken(const uint8_t *s, size_t n) {
  int want, have = sequence_prefix(s, n, &want);
  return have > 1 ? have : 1;
}

size_t ga_utf8_valid(const uint8_t *s, size_t n) {
  size_t i = 0;
  for (uint64_t word; i < n;) {
    if (n - i >= 8 && (memcpy(&word, s + i, 8), !(word & 0x8080808080808080u))) { /* eight of ASCII */
      i += 8;
      continue;
    }
    int len = ga_utf8_length(s + i, n - i);
    if (len == 0) break;
    i += (size_t)len;
  }
  return i;
}

size_t ga_utf8_repair(const uint8_t *s, size_t n, char *out) {
  size_t made = 0;
  for (size_t i = 0; i < n;) {
    size_t good = ga_utf8_valid(s + i, n - i);
    memcpy(out + made, s + i, good);
    made += good;
    i += good;
    if (i == n) break;
    memcpy(out + made, "\xEF\xBF\xBD", 3);
    made += 3;
    i += (size_t)ga_utf8_broken(s + i, n - i);
  }
  return made;
}

uint32_t ga_utf8_decode(const uint8_t *s, size_t n, int *len) {
  int want, have = sequence_prefix(s, n, &want);
  if (have < want || want == 0) {
    *len = 1;
    return GA_UC_REPLACEMENT;
  }
  *len = want;
  if (want == 1) return s[0];
  uint32_t cp = s[0] & (0x7Fu >> want);
  for (int i = 1; i < want; i++) cp = cp << 6 | (s[i] & 0x3Fu);
  return cp;
}

int ga_utf8_encode(uint32_t cp, uint8_t out[4]) {
  if (cp < 0x80) {
    out[0] = (uint8_t)cp;
    return 1;
  }
  int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
  for (int i = len - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3F));
  out[0] = (uint8_t)((0xF00u >> len) | cp); /* 0xC0, 0xE0, 0xF0 in the low byte */
  return len;
}
