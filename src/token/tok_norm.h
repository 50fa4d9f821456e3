/* Normalisers: a text goes through a list of steps before it is cut into tokens. The steps mean the same as the
 * normalizers of Hugging Face's tokenizer.json. */
#ifndef GA_TOKEN_TOK_NORM_H
#define GA_TOKEN_TOK_NORM_H

#include "base/mem.h"
#include "ga/tokenizer.h"

#define TOK_STEPS_MOST 64 /* steps of a normaliser */

typedef enum tok_step_kind {
  TOK_STEP_LOWER, /* lower case, character by character */
  TOK_STEP_NFC,   /* normal forms of Unicode annex 15 */
  TOK_STEP_NFD,
  TOK_STEP_NFKC,
  TOK_STEP_NFKD,
  TOK_STEP_STRIP_MARKS,      /* removes combining marks: \p{M} */
  TOK_STEP_STRIP_NONSPACING, /* removes nonspacing marks: \p{Mn} */
  TOK_STEP_STRIP_LEFT,       /* removes white space at the start */
  TOK_STEP_STRIP_RIGHT,      /* removes white space at the end */
  TOK_STEP_REPLACE,          /* replaces each `from`, which is not empty, by `to` */
  TOK_STEP_RUNS,             /* replaces each run of at least `least` characters of `from` by `to` */
  TOK_STEP_SPACES,           /* replaces each run of at least `least` characters of white space by `to` */
  TOK_STEP_PREPEND,          /* puts `to` before a text that is not empty */
  TOK_STEP_CLEAN,            /* BERT: removes control characters; white space becomes a space */
  TOK_STEP_CJK,              /* BERT: puts a space on either side of each ideograph */
  TOK_STEP_NMT               /* SentencePiece's nmt: removes some control characters; some become spaces */
} tok_step_kind;

typedef struct tok_step {
  tok_step_kind kind;
  ga_text from, to;
  uint32_t least;
} tok_step;

typedef struct tok_steps {
  const tok_step *list;
  size_t count;
} tok_steps;

/* Copies a list and its texts into the arena. */
GA_NODISCARD ga_status tok_steps_copy(ga_arena *arena, const tok_steps *steps, tok_steps *out);

struct tok_run;
/* Runs all steps over valid UTF-8. *out belongs to the run, and is valid until the next call. After a failure *out is
 * empty, and run->status has the failure. A text that grows beyond run->norm_most is a failure. */
void tok_normalize(struct tok_run *run, const tok_steps *steps, const char *text, size_t bytes, ga_text *out);

/* Returns whether a character is of BERT's blocks of ideographs. */
bool tok_is_cjk(uint32_t cp);
/* Returns whether BERT's cleaning removes a character of these classes (ga_uc_class): 0, U+FFFD, control and format. */
bool tok_is_dropped(uint32_t cp, uint32_t classes);

#endif
