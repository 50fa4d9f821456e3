/* Prints answers on a terminal. Lines are broken between words. Some Markdown is shown as styles: **bold**, `code`, ```
 * blocks, headings. */
#ifndef GA_CLI_RENDER_H
#define GA_CLI_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct render_text {
  char *p;
  size_t n, room;
  bool failed; /* an allocation has failed */
} render_text;

typedef struct render {
  FILE *out;
  bool tty;          /* the output is a terminal */
  bool colour;       /* styles are printed in place of Markdown's marks */
  render_text word;  /* the current word, which no white space has ended yet */
  size_t word_width; /* width of the current word, in columns */
  size_t width;      /* width of the line so far, in columns */
  size_t spaces;     /* number of spaces before the current word that have not been printed */
  bool glued;        /* the first part of the current word has been printed */
  bool in_line;      /* the line has at least one word */
  bool bold, code, fence, heading;
} render;

/* Begins an answer. If `out` is no terminal, the answer is written unchanged. Styles are used on terminals other than
 * "dumb", unless $NO_COLOR is set. */
void render_begin(render *r, FILE *out);
/* Prints text, which must consist of whole UTF-8 characters. On a terminal, control characters other than newline and
 * tab are dropped (terminal.h). Returns false if writing failed. */
bool render_put(render *r, const char *text, size_t bytes);
/* Prints the pending word, and ends all styles and the line. Returns false if writing failed. */
bool render_end(render *r);

#endif
