/* Finds all places in a text where special tokens begin, in one pass, by the automaton of Aho and Corasick (1975). The
 * automaton has the tokens reversed and runs from the end of the text to its start. At each place it has read all that
 * follows, so it recognises the tokens that begin there. Time is linear in the text, memory in the tokens' bytes. */
#ifndef GA_TOKEN_TOK_MATCH_H
#define GA_TOKEN_TOK_MATCH_H

#include "base/mem.h"

/* A state of the automaton: the bytes read last are the beginning of a reversed token. In state 0 no byte has been
 * read. */
typedef struct tok_state {
  int32_t child, sibling; /* first child and next sibling; 0: none. `byte` of a child is its last byte */
  int32_t fail;           /* state of the longest proper suffix of the bytes read that has a state */
  int32_t shorter;        /* state of the longest proper suffix of the bytes read that is a whole token; 0: none */
  int32_t token;          /* index of the token that ends in this state; -1: none */
  uint32_t depth;         /* number of bytes read */
  uint8_t byte;
} tok_state;

typedef struct tok_matcher {
  tok_state *states;
  int32_t n_states;
  int32_t first[256]; /* [byte] children of state 0 */
} tok_matcher;

typedef struct tok_match {
  uint32_t at;   /* offset in the text */
  int32_t token; /* index of the token */
} tok_match;

/* A list of matches, in falling order of offsets. The caller frees `list` with ga_mem_free. */
typedef struct tok_matches {
  tok_match *list;
  size_t count, capacity;
} tok_matches;

/* Allocates n_bytes + 1 states in the arena, enough for tokens of n_bytes bytes in all. */
GA_NODISCARD ga_status tok_matcher_init(tok_matcher *m, ga_arena *arena, size_t n_bytes);
void tok_matcher_add(tok_matcher *m, const char *text, uint32_t bytes, int32_t token);
/* Completes the automaton after the last token was added. */
GA_NODISCARD ga_status tok_matcher_finish(tok_matcher *m);

/* A callback that says whether a token may be taken at offset `at`. Offsets fall from call to call. */
typedef bool (*tok_allows)(void *arg, int32_t token, size_t at, uint32_t bytes);

/* Finds, for each offset, the longest allowed token that begins there. */
GA_NODISCARD ga_status tok_matcher_run(const tok_matcher *m, const uint8_t *text, size_t bytes, tok_allows allows,
                                       void *arg, tok_matches *out);

#endif
