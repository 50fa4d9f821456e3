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
  bool failed; /* no memory */
} render_text;

typedef struct render {
  FILE *out;
  bool tty, colour;         /* colour: writes styles in place of Markdown's marks */
  render_text word;         /* the current word, which no white space has ended yet */
  size_t word_width, width; /* columns of the word; columns of the line so far */
  size_t spaces;            /* before the word, not written yet */
  bool glued;               /* a first part of the word was written already */
  bool in_line;             /* the line has a word */
  bool bold, code, fence, heading;
} render;

/* Begins an answer. An `out` that is no terminal gets every byte unchanged. Styles are for terminals other than "dumb",
 * without $NO_COLOR. */
void render_begin(render *r, FILE *out);
/* Prints UTF-8 in whole characters. On a terminal, control characters other than newline and tab are dropped, see
 * terminal.h. False: it cannot be written. */
bool render_put(render *r, const char *text, size_t bytes);
/* Writes the pending word, ends styles and the line. */
bool render_end(render *r);

#endif
