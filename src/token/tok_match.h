/* Where special tokens begin in a text, all places in one pass, whatever the vocabulary: Aho and Corasick 1975 over the
 * tokens read backwards, run from the end of the text to its start. At a place it has then read all that follows, so
 * that what it recognises are the tokens that begin there. Time is linear in the text, memory in the tokens' bytes. */
#ifndef GA_TOKEN_TOK_MATCH_H
#define GA_TOKEN_TOK_MATCH_H

#include "base/mem.h"

/* A state: what has been read last is the beginning of some token that is read backwards. State 0: nothing. */
typedef struct tok_state {
  int32_t child, sibling; /* 0: none; the child's last byte is `byte` */
  int32_t fail;           /* the longest shorter ending of what was read that is a state, too */
  int32_t shorter;        /* the longest of those where a token ends, 0: none */
  int32_t token;          /* index of the token that ends here, -1: none */
  uint32_t depth;         /* bytes read */
  uint8_t byte;
} tok_state;

typedef struct tok_matcher {
  tok_state *states;
  int32_t n_states;
  int32_t first[256]; /* children of state 0 by byte */
} tok_matcher;

typedef struct tok_match {
  uint32_t at;   /* offset in the text */
  int32_t token; /* index */
} tok_match;

/* Matches by falling offset; freed with ga_mem_free(list). */
typedef struct tok_matches {
  tok_match *list;
  size_t count, capacity;
} tok_matches;

/* Room in the arena for n_bytes + 1 states, which n_bytes of tokens can make at most. */
GA_NODISCARD ga_status tok_matcher_init(tok_matcher *m, ga_arena *arena, size_t n_bytes);
void tok_matcher_add(tok_matcher *m, const char *text, uint32_t bytes, int32_t token);
/* After the last token. */
GA_NODISCARD ga_status tok_matcher_finish(tok_matcher *m);

/* True when the token may be cut out at this place. Called with falling `at`. */
typedef bool (*tok_allows)(void *arg, int32_t token, size_t at, uint32_t bytes);

/* For each offset the longest token that begins there and is allowed. */
GA_NODISCARD ga_status tok_matcher_run(const tok_matcher *m, const uint8_t *text, size_t bytes, tok_allows allows,
                                       void *arg, tok_matches *out);

#endif
