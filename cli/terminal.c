#include "cli/terminal.h"

#include <unistd.h>

/* Bytes of a control character at s, 0 for all else. C1 is U+0080 to U+009F: C2 80 to C2 9F. */
static size_t control_bytes(const unsigned char *s, size_t n) {
  if (s[0] == '\n' || s[0] == '\t') return 0;
  if (s[0] < 0x20 || s[0] == 0x7f) return 1;
  return s[0] == 0xc2 && n > 1 && s[1] >= 0x80 && s[1] <= 0x9f ? 2 : 0;
}

static bool write_filtered(FILE *out, const unsigned char *s, size_t n) {
  size_t from = 0; /* of what is still to be written */
  for (size_t at = 0; at < n;) {
    const size_t control = control_bytes(s + at, n - at);
    if (control && at > from && fwrite(s + from, 1, at - from, out) != at - from) return false;
    at += control ? control : 1;
    if (control) from = at;
  }
  return from == n || fwrite(s + from, 1, n - from, out) == n - from;
}

bool terminal_write(FILE *out, const char *text, size_t bytes) {
  const bool written = isatty(fileno(out)) ? write_filtered(out, (const unsigned char *)text, bytes)
                                           : fwrite(text, 1, bytes, out) == bytes;
  return fflush(out) == 0 && written;
}
