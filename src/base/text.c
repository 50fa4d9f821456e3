#include "base/text.h"

#include <stdint.h>
#include <string.h>

size_t ga_text_control(const char *text, size_t n) {
  const uint8_t *s = (const uint8_t *)text;
  if (s[0] < 0x20 || s[0] == 0x7f) return 1;
  if (n >= 2 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f) return 2; /* U+0080 to U+009F */
  if (n >= 2 && s[0] == 0xd8 && s[1] == 0x9c) return 2;                 /* U+061C */
  if (n < 3 || s[0] != 0xe2) return 0;
  const unsigned low = (unsigned)s[1] << 8 | s[2];
  const int marks = low == 0x808e || low == 0x808f;      /* U+200E, U+200F */
  const int embeddings = low >= 0x80a8 && low <= 0x80ae; /* U+2028 to U+202E: line and paragraph ends, too */
  const int isolates = low >= 0x81a6 && low <= 0x81a9;   /* U+2066 to U+2069 */
  return marks || embeddings || isolates ? 3 : 0;
}

bool ga_ends_with(const char *text, const char *end) {
  const size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}
