/* Answers on a terminal: words wrap whole, and a little of Markdown shows: **bold**, `code`, ``` blocks, headings. */
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
  bool tty, colour;         /* colour: styles are written, and the marks of Markdown are not */
  render_text word;         /* what no white space ended yet */
  size_t word_width, width; /* columns that a word takes, and those of the line so far */
  size_t spaces;            /* before the word, not written yet */
  bool glued;               /* the word goes on where another part of it was written */
  bool in_line;             /* the line has a word */
  bool bold, code, fence, heading;
} render;

/* What is no terminal gets every byte as it is. Styles are for terminals other than "dumb", without $NO_COLOR. */
void render_begin(render *r, FILE *out);
/* UTF-8 in whole characters. Control characters other than newline and tab are left out on a terminal, see terminal.h.
 * False when it cannot be written. */
bool render_put(render *r, const char *text, size_t bytes);
/* Writes what is held back, ends styles and the line. */
bool render_end(render *r);

#endif
