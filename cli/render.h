/* Prints answers on a terminal. Lines break between words, and some Markdown is shown: **bold**, `code`, ``` blocks,
 * headings. */
#ifndef GA_CLI_RENDER_H
#define GA_CLI_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct render_text {
  char *p;
  size_t n, room;
  bool failed; /* an allocation failed */
} render_text;

typedef struct render {
  FILE *out;
  bool tty;          /* the output is a terminal */
  bool colour;       /* styles are written in place of Markdown's marks */
  render_text word;  /* the current word; no white space has ended it yet */
  size_t word_width; /* columns of the current word */
  size_t width;      /* columns of the line so far */
  size_t spaces;     /* number of spaces before the word that are not written yet */
  bool glued;        /* the first part of the word has been written */
  bool in_line;      /* the line already has a word */
  bool bold, code, fence, heading;
} render;

/* Begins an answer. If `out` is no terminal, it gets every byte unchanged. Styles are used on terminals other than
 * "dumb", unless $NO_COLOR is set. */
void render_begin(render *r, FILE *out);
/* Prints whole UTF-8 characters. On a terminal, control characters other than newline and tab are dropped, see
 * terminal.h. False: writing failed. */
bool render_put(render *r, const char *text, size_t bytes);
/* Writes the pending word, and ends styles and the line. */
bool render_end(render *r);

#endif
