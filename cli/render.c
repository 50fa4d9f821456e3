#include "cli/render.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utf8proc.h>

#include "cmdline/terminal.h"

/* ECMA-48, 8.3.117 */
#define BOLD     "\033[1m"
#define NO_BOLD  "\033[22m"
#define CODE     "\033[36m"
#define NO_CODE  "\033[39m"
#define TAB_STOP 8

void render_begin(render *r, FILE *out) {
  *r = (render){.out = out, .tty = isatty(fileno(out)) != 0};
  r->colour = r->tty && terminal_has_colour();
}

static void append(render_text *t, const char *p, size_t n) {
  if (t->n + n > t->room) {
    const size_t room = 2 * (t->n + n) + 64;
    char *bigger = realloc(t->p, room);
    if (!bigger) {
      t->failed = true;
      return;
    }
    t->p = bigger;
    t->room = room;
  }
  if (n) memcpy(t->p + t->n, p, n);
  t->n += n;
}

static void append_style(render_text *t, const char *s) { append(t, s, strlen(s)); }

static size_t width_of(utf8proc_int32_t code) {
  const int w = utf8proc_charwidth(code);
  return w > 0 ? (size_t)w : 0;
}

/* --- marks --- */

/* A fence begins or ends at the first word of a line; a heading has #s before it. */
static void begin_line(render *r, render_text *styled) {
  const char *p = r->word.p;
  const size_t n = r->word.n, marks = strspn(p, "#") < n ? strspn(p, "#") : n;
  if (n >= 3 && !memcmp(p, "```", 3)) {
    r->fence = !r->fence;
    if (r->fence) append_style(styled, CODE);
  } else if (!r->fence && marks == n && n <= 6) {
    r->heading = true;
    append_style(styled, BOLD);
  }
}

static bool is_mark(const render *r, size_t at, const char *mark) {
  const size_t n = strlen(mark);
  return r->word.n - at >= n && !memcmp(r->word.p + at, mark, n);
}

/* The word with styles in the place of its marks. *hidden: columns of those marks. */
static void style_word(render *r, render_text *styled, size_t *hidden) {
  const bool was_fence = r->fence;
  if (!r->in_line && !r->glued) begin_line(r, styled);
  for (size_t at = 0; at < r->word.n;) {
    const bool raw = was_fence || r->fence, before = at > 0 || r->glued;
    size_t n = 0;
    if (!raw && is_mark(r, at, "`") && !is_mark(r, at, "``")) {
      n = 1;
      append_style(styled, r->code ? NO_CODE : CODE);
      r->code = !r->code;
    } else if (!raw && !r->code && !r->heading && is_mark(r, at, "**")) {
      if (r->bold ? before : at + 2 < r->word.n) {
        n = 2;
        append_style(styled, r->bold ? NO_BOLD : BOLD);
        r->bold = !r->bold;
      }
    }
    *hidden += n;
    if (!n) append(styled, r->word.p + at++, 1);
    at += n;
  }
  if (was_fence && !r->fence) append_style(styled, NO_CODE);
}

/* --- lines --- */

static bool render_bytes(render *r, const char *p, size_t n) { return fwrite(p, 1, n, r->out) == n; }

static bool put_spaces(render *r) {
  for (; r->spaces; r->spaces--, r->width++)
    if (!render_bytes(r, " ", 1)) return false;
  return true;
}

/* Writes the word, on a line of its own where it does not fit behind what is there. */
static bool end_word(render *r) {
  render_text styled = {0};
  size_t hidden = 0;
  if (!r->word.n) return true;
  append(&r->word, "", 1); /* ends what strspn reads */
  r->word.n -= r->word.n > 0;
  if (r->colour)
    style_word(r, &styled, &hidden);
  else
    append(&styled, r->word.p, r->word.n);
  const size_t wide = r->word_width - hidden, columns = terminal_columns(r->out);
  bool good = !styled.failed && !r->word.failed;
  if (!r->fence && r->width && r->width + r->spaces + wide > columns) {
    good = good && render_bytes(r, "\n", 1);
    r->width = r->spaces = 0;
  }
  good = good && put_spaces(r) && render_bytes(r, styled.p, styled.n);
  free(styled.p);
  r->width += wide;
  r->word.n = r->word_width = 0;
  r->in_line = true;
  return good;
}

/* Styles other than a fence's end with their line: a mark without a partner colours no more than that. */
static bool end_styles(render *r, bool all) {
  const bool bold = r->bold || r->heading, code = r->code || (all && r->fence);
  r->bold = r->heading = r->code = false;
  if (all) r->fence = false;
  return (!bold || render_bytes(r, NO_BOLD, strlen(NO_BOLD))) && (!code || render_bytes(r, NO_CODE, strlen(NO_CODE)));
}

static bool end_line(render *r) {
  if (!end_word(r) || !end_styles(r, false) || !render_bytes(r, "\n", 1)) return false;
  r->width = r->spaces = 0;
  r->glued = r->in_line = false;
  return true;
}

static bool put_space(render *r, char c) {
  if (!end_word(r)) return false;
  r->glued = false;
  r->spaces += c == '\t' ? TAB_STOP - (r->width + r->spaces) % TAB_STOP : 1;
  return true;
}

static bool has_only_marks(const render_text *t) {
  for (size_t i = 0; i < t->n; i++)
    if (t->p[i] != '*' && t->p[i] != '`') return false;
  return t->n > 0;
}

/* Characters of two columns, as those of Chinese, may begin and end a line; marks stay with what they are at. */
static bool add_char(render *r, const char *p, size_t n, utf8proc_int32_t code) {
  const size_t w = width_of(code), columns = terminal_columns(r->out);
  if ((w > 1 && !has_only_marks(&r->word)) || r->word_width + w > columns) {
    r->glued |= r->word.n > 0;
    if (!end_word(r)) return false;
  }
  append(&r->word, p, n);
  r->word_width += w;
  if (w < 2) return true;
  const bool good = end_word(r);
  r->glued = true;
  return good;
}

bool render_put(render *r, const char *text, size_t bytes) {
  if (!r->tty) return terminal_write(r->out, text, bytes);
  for (size_t at = 0; at < bytes;) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t got =
        utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &code);
    const size_t n = got > 0 ? (size_t)got : 1;
    bool good = true;
    if (text[at] == '\n')
      good = end_line(r);
    else if (text[at] == ' ' || text[at] == '\t')
      good = put_space(r, text[at]);
    else if (got > 0 && utf8proc_category(code) != UTF8PROC_CATEGORY_CC)
      good = add_char(r, text + at, n, code);
    if (!good) return false;
    at += n;
  }
  return fflush(r->out) == 0;
}

bool render_end(render *r) {
  bool good = true;
  if (r->tty) good = end_word(r) && end_styles(r, true);
  good = good && render_bytes(r, "\n", 1) && fflush(r->out) == 0;
  free(r->word.p);
  r->word = (render_text){0};
  return good;
}
