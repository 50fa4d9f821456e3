/* Finds all places in a text where special tokens begin, in one pass, by the automaton of Aho and Corasick (1975). The
 * automaton matches the tokens' bytes in reverse, and runs from the end of the text to its start. At each place it
 * recognises the tokens that begin there. Time is linear in the length of the text, memory in the tokens' bytes. */
#ifndef GA_TOKEN_TOK_MATCH_H
#define GA_TOKEN_TOK_MATCH_H

#include "base/mem.h"

/* A state of the automaton. The bytes that were read last are the beginning of a reversed token. State 0 stands for no
 * bytes. */
typedef struct tok_state {
  /* first child of the state, and its next sibling; 0: none. A child stands for one more byte, `byte` */
  int32_t child, sibling;
  int32_t fail;    /* state of the longest proper suffix of this state's bytes that has a state */
  int32_t shorter; /* state of the longest proper suffix of this state's bytes that is a whole token; 0: none */
  int32_t token;   /* index of the token whose reversed bytes the state stands for; -1: none */
  uint32_t depth;  /* number of bytes that the state stands for */
  uint8_t byte;
} tok_state;

typedef struct tok_matcher {
  tok_state *states;
  int32_t n_states;
  int32_t first[256]; /* child of state 0 for each byte; 0: none */
} tok_matcher;

typedef struct tok_match {
  uint32_t at;   /* offset in the text, in bytes */
  int32_t token; /* index of the token, as given to tok_matcher_add */
} tok_match;

/* A list of matches, in descending order of offsets. The caller frees `list` with ga_mem_free. */
typedef struct tok_matches {
  tok_match *list;
  size_t count, capacity;
} tok_matches;

/* Allocates n_bytes + 1 states in the arena. They are enough for tokens that have n_bytes bytes together. */
GA_NODISCARD ga_status tok_matcher_init(tok_matcher *m, ga_arena *arena, size_t n_bytes);
void tok_matcher_add(tok_matcher *m, const char *text, uint32_t bytes, int32_t token);
/* Completes the automaton after the last token has been added. */
GA_NODISCARD ga_status tok_matcher_finish(tok_matcher *m);

/* A callback that returns whether a token may match at offset `at` of the text. Offsets descend from call to call. */
typedef bool (*tok_allows)(void *arg, int32_t token, size_t at, uint32_t bytes);

/* Finds, for each offset of the text, the longest token that begins there and that `allows` accepts. */
GA_NODISCARD ga_status tok_matcher_run(const tok_matcher *m, const uint8_t *text, size_t bytes, tok_allows allows,
                                       void *arg, tok_matches *out);

#endif
