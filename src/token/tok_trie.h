/* A trie of the pieces of a vocabulary. One walk finds all pieces with which a text begins. Nodes are stored in order
 * of depth. The children of a node are therefore neighbours, and are sorted by their bytes. A node takes nine bytes;
 * there is at most one node for each byte of the pieces, and the root. */
#ifndef GA_TOKEN_TOK_TRIE_H
#define GA_TOKEN_TOK_TRIE_H

#include "base/compiler.h"
#include "base/mem.h"
#include "ga/tokenizer.h"

typedef struct tok_trie {
  uint32_t *first; /* [n_nodes + 1] the children of node i are the nodes from first[i] to first[i + 1] - 1 */
  int32_t *id;     /* [n_nodes] id of the piece that ends at the node; GA_TOK_NONE: no piece does */
  uint8_t *label;  /* [n_nodes] byte on the edge from the node's parent to the node */
  uint32_t n_nodes;
} tok_trie;

typedef struct tok_trie_piece {
  const char *text;
  uint32_t bytes;
  int32_t id;
} tok_trie_piece;

/* Builds the trie of the n pieces in `list`, in memory of the arena, and sorts the list. If several pieces have the
 * same bytes, the highest id counts. */
GA_NODISCARD ga_status tok_trie_build(tok_trie *trie, ga_arena *arena, tok_trie_piece *list, size_t n);

/* Returns the child of a node for a byte; 0 (the root): there is no such child. */
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
