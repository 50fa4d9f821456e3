#include "token/tok_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* The pieces [lo, hi) that go through a node. */
typedef struct trie_range {
  uint32_t lo, hi;
} trie_range;

static int compare_pieces(const void *a, const void *b) {
  const tok_trie_piece *x = a, *y = b;
  const int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
  if (order) return order;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return x->id < y->id ? -1 : 1;
}

/* Nodes of the sorted list: each piece adds what it has beyond the one before. */
static size_t count_nodes(const tok_trie_piece *list, size_t n) {
  size_t nodes = 1;
  for (size_t i = 0; i < n; i++) {
    uint32_t same = 0;
    while (i > 0 && same < list[i].bytes && same < list[i - 1].bytes && list[i].text[same] == list[i - 1].text[same])
      same++;
    nodes += list[i].bytes - same;
  }
  return nodes;
}

/* Children of a node of that depth, behind the nodes that there are. */
static void add_children(tok_trie *trie, const tok_trie_piece *list, trie_range *ranges, uint32_t node,
                         uint32_t depth) {
  uint32_t at = ranges[node].lo, end = ranges[node].hi;
  trie->first[node] = trie->n_nodes;
  trie->id[node] = GA_TOK_NONE;
  for (; at < end && list[at].bytes == depth; at++) trie->id[node] = list[at].id;
  while (at < end) {
    const uint32_t from = at, child = trie->n_nodes++;
    const char byte = list[at].text[depth];
    while (at < end && list[at].text[depth] == byte) at++;
    trie->label[child] = (uint8_t)byte;
    ranges[child] = (trie_range){from, at};
  }
}

static void fill_trie(tok_trie *trie, const tok_trie_piece *list, size_t n, trie_range *ranges) {
  uint32_t level_end = 1, depth = 0;
  trie->n_nodes = 1;
  trie->label[0] = 0;
  ranges[0] = (trie_range){0, (uint32_t)n};
  for (uint32_t node = 0; node < trie->n_nodes; node++) {
    if (node == level_end) {
      level_end = trie->n_nodes;
      depth++;
    }
    add_children(trie, list, ranges, node, depth);
  }
  trie->first[trie->n_nodes] = trie->n_nodes;
}

ga_status tok_trie_build(tok_trie *trie, ga_arena *arena, tok_trie_piece *list, size_t n) {
  void *first, *id, *label, *ranges;
  if (n) qsort(list, n, sizeof *list, compare_pieces);
  const size_t nodes = count_nodes(list, n);
  GA_TRY(ga_arena_alloc(arena, (nodes + 1) * sizeof(uint32_t), &first)); /* nodes: at most 2^30, the bytes of tokens */
  GA_TRY(ga_arena_alloc(arena, nodes * sizeof(int32_t), &id));
  GA_TRY(ga_arena_alloc(arena, nodes, &label));
  GA_TRY(ga_mem_alloc(nodes * sizeof(trie_range), "pieces", &ranges));
  *trie = (tok_trie){.first = first, .id = id, .label = label};
  fill_trie(trie, list, n, ranges);
  ga_mem_free(ranges);
  return GA_OK;
}
