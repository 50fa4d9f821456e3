/* What the files of layer_memory see of each other. */
#ifndef GA_ENGINE_LAYER_MEMORY_IMPL_H
#define GA_ENGINE_LAYER_MEMORY_IMPL_H

#include "engine/prefix_tree.h"

/* Pages of one kind. A page is held (refs > 0), kept (only the tree has it) or free. */
typedef struct unit_pool {
  int32_t total, n_free, n_used, n_cached;
  int32_t *free;       /* [n_free] the last one goes first */
  int32_t *refs;       /* [total] tables that have the page */
  prefix_node **owner; /* [total] the node that has it; NULL: none */
} unit_pool;

/* Pages of one kind in host memory. One is free, or a node's. */
typedef struct host_pool {
  int32_t total, n_free;
  int32_t *free; /* [n_free] */
} host_pool;

struct layer_memory {
  layer_memory_options options;
  unit_pool pool[KV_KINDS];
  host_pool host[KV_KINDS];
  prefix_tree tree;
  /* Nodes without users, the least recently used first, each before its parent. By where the full page is: what is
   * below a node in host memory is there too. Those that are to be kept go behind all others. */
  prefix_link order[2][2];  /* [in host memory][to be kept] */
  prefix_link keeping_used; /* nodes with users that are to be kept: their time passes, too */
  /* Window pages that only the tree has, the least recently used first: behind their window, wanted, to be kept. */
  prefix_link window_order[3];
  prefix_link away_window; /* window pages in host memory */
  int32_t n_keeping;       /* nodes that are to be kept */
  double next_expiry;      /* the first of their times that may have come; INFINITY: none */
  unit_copy *copies;       /* [2 * all pages] that have not been made yet, in order */
  int32_t n_copies, n_to_host;
};

GA_INLINE bool memory_has(const layer_memory *memory, kv_kind kind) { return memory->pool[kind].total > 0; }
/* Pages of n tokens. */
GA_INLINE int32_t memory_pages_of(const layer_memory *memory, int32_t n) {
  return n / memory->options.page_tokens + (n % memory->options.page_tokens != 0);
}
/* The first page of which a token at position n still sees something. */
GA_INLINE int32_t memory_first_seen(const layer_memory *memory, int32_t n) {
  const int32_t behind = memory_has(memory, KV_WINDOW) ? n - memory->options.window + 1 : 0;
  return behind > 0 ? behind / memory->options.page_tokens : 0;
}
/* Is that page of the node anywhere? */
GA_INLINE bool prefix_node_has(const prefix_node *node, kv_kind kind) {
  return node->unit[kind] != MEMORY_NO_UNIT || node->host[kind] != MEMORY_NO_UNIT;
}
/* A leaf that no prompt can take: the page before its end has no window page. */
GA_INLINE bool memory_node_useless(const layer_memory *memory, const prefix_node *node) {
  return prefix_link_empty(&node->children) && memory_has(memory, KV_WINDOW) && !prefix_node_has(node, KV_WINDOW) &&
         (memory->options.window > 1 || !memory_has(memory, KV_FULL));
}

/* --- memory_evict.c --- */

/* One table more has the page, or one less. */
void memory_pin_unit(layer_memory *memory, kv_kind kind, int32_t page);
void memory_unpin_unit(layer_memory *memory, kv_kind kind, int32_t page);
/* What the node has of that kind, on the device only in the tree, becomes free. */
void memory_free_unit(layer_memory *memory, kv_kind kind, prefix_node *node);
void memory_give_unit(layer_memory *memory, kv_kind kind, prefix_node *node, int32_t page);
/* For one table. There is one: the caller has counted. */
int32_t memory_take_unit(layer_memory *memory, kv_kind kind);
/* The node's page comes from host memory, for one table. */
int32_t memory_load_unit(layer_memory *memory, kv_kind kind, prefix_node *node);
void memory_add_copy(layer_memory *memory, unit_copy copy);
/* A node without users, and all below it; then what it leaves useless above it. */
void memory_drop_node(layer_memory *memory, prefix_node *node);
/* The node that goes first when the tree is full; NULL: all are in use. */
prefix_node *memory_oldest_node(const layer_memory *memory);
void memory_use_node(layer_memory *memory, prefix_node *node);
void memory_unuse_node(layer_memory *memory, prefix_node *node);
/* A path from its last node on, which may be NULL, is as any again, but for what leads to other swapped nodes. */
void memory_clear_swapped(prefix_node *last);
/* Into the order of eviction, as the last. */
void prefix_link_node(layer_memory *memory, prefix_node *node);
/* At least until then; 0: no longer. */
void memory_keep_node(layer_memory *memory, prefix_node *node, double until);

#endif
