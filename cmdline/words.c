#include "cmdline/words.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utf8proc.h>

#include "cmdline/terminal.h"

/* Returns the columns of n bytes of text. */
static size_t columns_of(const char *text, size_t n) {
  size_t sum = 0;
  for (size_t at = 0; at < n;) {
    utf8proc_int32_t code;
    const utf8proc_ssize_t bytes =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &code);
    const int width = bytes > 0 ? utf8proc_charwidth(code) : 1;
    sum += width > 0 ? (size_t)width : 0;
    at += bytes > 0 ? (size_t)bytes : 1;
  }
  return sum;
}

/* Prints one line without its line end. */
static void break_line(FILE *f, const char *line, size_t n, size_t indent, size_t columns) {
  size_t column = 0;
  for (size_t at = 0; at < n;) {
    const size_t spaces = strspn(line + at, " "), blank = spaces < n - at ? spaces : n - at;
    const size_t word = strcspn(line + at + blank, " \n"), width = columns_of(line + at + blank, word);
    if (column && column + blank + width > columns) {
      (void)fprintf(f, "\n%*s", (int)indent, "");
      column = indent;
    } else {
      (void)fprintf(f, "%*s", (int)blank, "");
      column += blank;
    }
    (void)fwrite(line + at + blank, 1, word, f);
    column += width;
    at += blank + word;
  }
}

static void break_text(FILE *f, const char *text, size_t indent) {
  const size_t columns = terminal_columns(f);
  if (indent > columns / 2) indent = columns > 8 ? 2 : 0; /* words need the room */
  for (const char *line = text; *line;) {
    const size_t n = strcspn(line, "\n");
    break_line(f, line, n, indent, columns);
    line += n;
    if (*line) (void)putc(*line++, f);
  }
}

void words_vprint(FILE *f, size_t indent, const char *format, va_list args) {
  char *text = NULL;
  va_list copy;
  va_copy(copy, args);
  if (isatty(fileno(f)) && vasprintf(&text, format, copy) >= 0) {
    break_text(f, text, indent);
    free(text);
  } else {
    (void)vfprintf(f, format, args);
  }
  va_end(copy);
}

void words_print(FILE *f, size_t indent, const char *format, ...) {
  va_list args;
  va_start(args, format);
  words_vprint(f, indent, format, args);
  va_end(args);
}
