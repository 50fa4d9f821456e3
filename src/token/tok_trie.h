/* A trie of pieces: finds all pieces that a text begins with, in one walk. Nodes lie in order of depth, so that the
 * children of a node are neighbours, sorted by their bytes. A node takes nine bytes; there is at most one node for each
 * byte of pieces. */
#ifndef GA_TOKEN_TOK_TRIE_H
#define GA_TOKEN_TOK_TRIE_H

#include "base/compiler.h"
#include "base/mem.h"
#include "ga/tokenizer.h"

typedef struct tok_trie {
  uint32_t *first; /* [n_nodes + 1] children of node i: [first[i], first[i + 1]) */
  int32_t *id;     /* [n_nodes] id of the piece that ends at the node; GA_TOK_NONE: none */
  uint8_t *label;  /* [n_nodes] the byte that leads to the node */
  uint32_t n_nodes;
} tok_trie;

typedef struct tok_trie_piece {
  const char *text;
  uint32_t bytes;
  int32_t id;
} tok_trie_piece;

/* Builds the trie and sorts the list. If several pieces have the same bytes, the highest id counts. */
GA_NODISCARD ga_status tok_trie_build(tok_trie *trie, ga_arena *arena, tok_trie_piece *list, size_t n);

/* Returns the child of a node for a byte; 0, the root: there is none. */
GA_INLINE uint32_t tok_trie_step(const tok_trie *trie, uint32_t node, uint8_t byte) {
  uint32_t lo = trie->first[node], hi = trie->first[node + 1];
  while (lo < hi) {
    const uint32_t mid = lo + (hi - lo) / 2;
    if (trie->label[mid] == byte) return mid;
    if (trie->label[mid] < byte)
      lo = mid + 1;
    else
      hi = mid;
  }
  return 0;
}

#endif
