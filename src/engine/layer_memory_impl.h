/* Shared by the files of layer memory.
 *
 * A kind is *chained* if every longer prefix needs its units, too (pages that all later tokens read), and *local* if
 * only prefixes that end near a unit need it (window pages, states). A node has units of all chained kinds, on the
 * device or in host memory, and is evicted with them; units of local kinds are evicted one by one.
 */
#ifndef GA_ENGINE_LAYER_MEMORY_IMPL_H
#define GA_ENGINE_LAYER_MEMORY_IMPL_H

#include "engine/prefix_tree.h"

/* Units of one kind on the device. A unit is used (refs > 0), cached (only the tree has it) or free. */
typedef struct unit_pool {
  int32_t total, n_free, n_used, n_cached;
  int32_t *free;       /* [n_free] the last one is taken first */
  int32_t *refs;       /* [total] sequences that have the unit */
  prefix_node **owner; /* [total] the node that has it; NULL: none */
} unit_pool;

/* Units of one kind in host memory. A unit is free, or belongs to a node of the prefix tree. */
typedef struct host_pool {
  int32_t total, n_free;
  int32_t *free; /* [n_free] */
} host_pool;

/* A list of kinds, by index: those of one property for which the model has units. */
typedef struct kind_list {
  int32_t n;
  int32_t at[MEMORY_KINDS_MAX];
} kind_list;

/* Priorities of local units, the first to be evicted first. */
enum { LOCAL_UNWANTED, LOCAL_WANTED, LOCAL_KEPT, LOCAL_ORDERS };

struct layer_memory {
  layer_memory_options options;
  kind_list chained, local, windows, states, pages; /* pages: chained and windows; local: windows and states */
  prefix_filter leaves;                             /* nodes that a match may take a part of */
  int32_t n_units;                                  /* of all kinds on the device */
  int32_t most_kept;                                /* nodes with a keep_until */
  unit_pool pool[MEMORY_KINDS_MAX];
  host_pool host[MEMORY_KINDS_MAX];
  prefix_tree tree;
  /* Nodes without users, the least recently used first, each before its parent. Nodes whose chained units are in host
   * memory have orders of their own: all nodes below them are there, too. Nodes with a keep_until come last. */
  prefix_link order[2][2];  /* [in host memory][has a keep_until] */
  prefix_link keeping_used; /* nodes with users and a keep_until */
  /* Local units that only the tree has, the least recently used first; and those in host memory. */
  prefix_link local_order[MEMORY_KINDS_MAX][LOCAL_ORDERS];
  prefix_link local_swapped[MEMORY_KINDS_MAX];
  int32_t n_keeping;  /* nodes with a keep_until */
  double next_expiry; /* no keep_until is earlier; INFINITY: none */
  unit_copy *copies;  /* [max_copies] pending, in order */
  int32_t n_copies, max_copies, n_to_host;
};

/* Pages of n tokens. */
GA_INLINE int32_t memory_pages_of(const layer_memory *memory, int32_t n) {
  return n / memory->options.page_tokens + (n % memory->options.page_tokens != 0);
}
/* The first page whose unit a sequence of n tokens needs to go on. */
GA_INLINE int32_t memory_first_needed(const layer_memory *memory, int32_t kind, int32_t n) {
  const memory_kind *k = &memory->options.kinds[kind];
  const int32_t first = !k->unit_tokens ? n - 1 : k->window ? n - k->window + 1 : 0;
  return first > 0 ? first / memory->options.page_tokens : 0;
}
/* Has the node a unit of the kind, on the device or in host memory? */
GA_INLINE bool prefix_node_has(const prefix_node *node, int32_t kind) {
  return node->unit[kind] != MEMORY_NO_UNIT || node->host[kind] != MEMORY_NO_UNIT;
}
/* Are its chained units in host memory? */
GA_INLINE bool memory_node_swapped(const layer_memory *memory, const prefix_node *node) {
  return memory->chained.n && node->host[memory->chained.at[0]] != MEMORY_NO_UNIT;
}
GA_INLINE int32_t memory_available(const layer_memory *memory, int32_t kind) {
  return memory->pool[kind].n_free + memory->pool[kind].n_cached;
}
/* Can copies be added for one more sequence, besides the copies to host memory that they bring about? */
GA_INLINE bool memory_can_copy(const layer_memory *memory) {
  return memory->n_copies - memory->n_to_host + 2 * (memory->n_units + MEMORY_KINDS_MAX) <= memory->max_copies;
}

/* --- memory_evict.c --- */

/* Is the node a leaf that no match can end at or in? */
bool memory_node_useless(const layer_memory *memory, const prefix_node *node);
/* Adds, or takes away, a sequence that has the unit. */
void memory_pin_unit(layer_memory *memory, int32_t kind, int32_t unit);
void memory_unpin_unit(layer_memory *memory, int32_t kind, int32_t unit);
/* Frees the node's unit of the kind, which no sequence has. */
void memory_free_unit(layer_memory *memory, int32_t kind, prefix_node *node);
/* Makes a sequence's unit the node's, too. MEMORY_NO_UNIT: does nothing. */
void memory_give_unit(layer_memory *memory, int32_t kind, prefix_node *node, int32_t unit);
/* Takes a unit for one sequence, evicting a cached one if none is free. The caller has checked that there is one. */
int32_t memory_take_unit(layer_memory *memory, int32_t kind);
/* Copies the node's unit from host memory to the device, for one sequence. */
int32_t memory_load_unit(layer_memory *memory, int32_t kind, prefix_node *node);
void memory_add_copy(layer_memory *memory, unit_copy copy);
/* Removes a node without users and all nodes below it, and then nodes above it that have become useless. */
void memory_drop_node(layer_memory *memory, prefix_node *node);
/* The node to remove when the tree is full; NULL: all are in use. */
prefix_node *memory_oldest_node(const layer_memory *memory);
void memory_use_node(layer_memory *memory, prefix_node *node);
void memory_unuse_node(layer_memory *memory, prefix_node *node);
/* Clears `swapped` from the path's last node on, which may be NULL, except where it leads to other swapped nodes. */
void memory_clear_swapped(prefix_node *last);
/* Makes a node without users the last one to be evicted. */
void memory_link_node(layer_memory *memory, prefix_node *node);
/* Raises the node's keep_until to `until`; 0: clears it. */
void memory_keep_node(layer_memory *memory, prefix_node *node, double until);

/* --- memory_states.c --- */

/* Puts snapshots of the first n_nodes pages into the tree. */
void memory_join_snapshots(layer_memory *memory, sequence_memory *sequence);
/* Frees the snapshots above n tokens. */
void memory_drop_snapshots(layer_memory *memory, sequence_memory *sequence, int32_t n);
/* Makes the states of a sequence that ends the node's snapshot, where the node has none. */
void memory_join_states(layer_memory *memory, sequence_memory *sequence, prefix_node *node);
/* Gives the sequence states: copies of the node's snapshot, or, if node is NULL, units for a beginning from zero. */
void memory_load_states(layer_memory *memory, sequence_memory *sequence, const prefix_node *node);
/* Releases states and snapshots. */
void memory_drop_states(layer_memory *memory, sequence_memory *sequence);

#endif
