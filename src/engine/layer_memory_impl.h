/* Declarations that the source files of layer memory (layer_memory.h) share.
 *
 * A kind is *chained* if every longer prefix needs its units, too (pages that all later tokens read). A kind is *local*
 * if only prefixes that end near a unit need the unit (window pages, states). A node has units of all chained kinds, on
 * the device or in host memory, and is evicted with them. Units of local kinds are evicted one by one.
 */
#ifndef GA_ENGINE_LAYER_MEMORY_IMPL_H
#define GA_ENGINE_LAYER_MEMORY_IMPL_H

#include "engine/prefix_tree.h"

/* Units of one kind on the device. A unit is used (refs > 0), cached (only the prefix tree has it) or free. */
typedef struct unit_pool {
  int32_t total, n_free, n_used, n_cached;
  int32_t *free;       /* [n_free] free units; the last one is taken first */
  int32_t *refs;       /* [total] number of sequences that have the unit */
  prefix_node **owner; /* [total] node of the prefix tree that has the unit; NULL: none */
} unit_pool;

/* Units of one kind in host memory. A unit is free, or belongs to a node of the prefix tree. */
typedef struct host_pool {
  int32_t total, n_free;
  int32_t *free; /* [n_free] free units */
} host_pool;

/* A list of kinds of layer memory, by index: only kinds that layers of the model have. */
typedef struct kind_list {
  int32_t n;
  int32_t at[MEMORY_KINDS_MAX];
} kind_list;

/* Orders in which units of local kinds are evicted: all of LOCAL_UNWANTED first, those of LOCAL_KEPT last. */
enum { LOCAL_UNWANTED, LOCAL_WANTED, LOCAL_KEPT, LOCAL_ORDERS };

struct layer_memory {
  layer_memory_options options;
  /* lists of kinds by their properties; `pages` has all of chained and windows, `local` all of windows and states */
  kind_list chained, local, windows, states, pages;
  prefix_filter leaves; /* filter for nodes whose page a match may use in part: only its first tokens */
  int32_t n_units;      /* units of all kinds on the device */
  int32_t most_kept;    /* largest number of nodes that may have a keep_until */
  unit_pool pool[MEMORY_KINDS_MAX];
  host_pool host[MEMORY_KINDS_MAX];
  prefix_tree tree;
  /* Lists of nodes that no sequence uses, by [chained units are in host memory][has a keep_until]. Each list begins
   * with the least recently used node, and has each node before its parent. If a node's chained units are in host
   * memory, so are those of all nodes below it. Nodes with a keep_until are evicted last. */
  prefix_link order[2][2];
  prefix_link keeping_used; /* list of the nodes that sequences use and that have a keep_until */
  /* [kind][order of eviction] lists of nodes whose local units on the device no sequence has, the least recently used
   * first. */
  prefix_link local_order[MEMORY_KINDS_MAX][LOCAL_ORDERS];
  /* [kind] nodes with local units in host memory, the least recently used first */
  prefix_link local_swapped[MEMORY_KINDS_MAX];
  int32_t n_keeping;  /* number of nodes with a keep_until */
  double next_expiry; /* a time that no node's keep_until precedes; INFINITY: no node has a keep_until */
  unit_copy *copies;  /* [max_copies] pending copies, in the order in which they are to be enqueued */
  int32_t n_copies;
  int32_t max_copies;
  int32_t n_to_host; /* number of the pending copies that go to host memory */
};

/* Returns the number of pages that n tokens take, rounded up. */
GA_INLINE int32_t memory_pages_of(const layer_memory *memory, int32_t n) {
  return n / memory->options.page_tokens + (n % memory->options.page_tokens != 0);
}
/* Returns the first page that a sequence of n tokens still needs for its next token. */
GA_INLINE int32_t memory_first_needed(const layer_memory *memory, int32_t kind, int32_t n) {
  const memory_kind *k = &memory->options.kinds[kind];
  const int32_t first = !k->unit_tokens ? n - 1 : k->window ? n - k->window + 1 : 0;
  return first > 0 ? first / memory->options.page_tokens : 0;
}
/* Returns whether the node has a unit of the kind, on the device or in host memory. */
GA_INLINE bool prefix_node_has(const prefix_node *node, int32_t kind) {
  return node->unit[kind] != MEMORY_NO_UNIT || node->host[kind] != MEMORY_NO_UNIT;
}
/* Returns whether the node's chained units are in host memory. */
GA_INLINE bool memory_node_swapped(const layer_memory *memory, const prefix_node *node) {
  return memory->chained.n && node->host[memory->chained.at[0]] != MEMORY_NO_UNIT;
}
GA_INLINE int32_t memory_available(const layer_memory *memory, int32_t kind) {
  return memory->pool[kind].n_free + memory->pool[kind].n_cached;
}
/* Returns whether the list of pending copies has room for the copies of one more sequence. They include copies of
 * evicted units to host memory, which make room for the sequence. */
GA_INLINE bool memory_can_copy(const layer_memory *memory) {
  return memory->n_copies - memory->n_to_host + 2 * (memory->n_units + MEMORY_KINDS_MAX) <= memory->max_copies;
}

/* --- memory_evict.c --- */

/* Returns whether the node is useless. It is then a leaf at which no match can end, and no match can use the beginning
 * of its page. */
bool memory_node_useless(const layer_memory *memory, const prefix_node *node);
/* Adds one reference of a sequence to the unit. */
void memory_pin_unit(layer_memory *memory, int32_t kind, int32_t unit);
/* Removes one reference of a sequence from the unit. */
void memory_unpin_unit(layer_memory *memory, int32_t kind, int32_t unit);
/* Frees the node's unit of the kind. No sequence may have it. */
void memory_free_unit(layer_memory *memory, int32_t kind, prefix_node *node);
/* Adds a sequence's unit to the node, so that both have it. MEMORY_NO_UNIT: does nothing. */
void memory_give_unit(layer_memory *memory, int32_t kind, prefix_node *node, int32_t unit);
/* Takes a unit for one sequence and returns it. If none is free, a cached unit is evicted. The caller has checked that
 * a free or a cached unit exists. */
int32_t memory_take_unit(layer_memory *memory, int32_t kind);
/* Copies the node's unit from host memory to a unit of the device for one sequence, and returns that unit. */
int32_t memory_load_unit(layer_memory *memory, int32_t kind, prefix_node *node);
void memory_add_copy(layer_memory *memory, unit_copy copy);
/* Removes a node that no sequence uses and all nodes below it, and then nodes above it that have become useless. */
void memory_drop_node(layer_memory *memory, prefix_node *node);
/* Returns the node to remove when the tree of prefixes is full; NULL: all nodes are in use. */
prefix_node *memory_oldest_node(const layer_memory *memory);
void memory_use_node(layer_memory *memory, prefix_node *node);
void memory_unuse_node(layer_memory *memory, prefix_node *node);
/* Clears `swapped` in the nodes from `last` up to the root. It stops at a node with another swapped child. last may
 * be NULL. */
void memory_clear_swapped(prefix_node *last);
/* Appends a node that no sequence uses to its list in `order`, so that it is evicted last. */
void memory_link_node(layer_memory *memory, prefix_node *node);
/* Raises the node's keep_until to `until`; 0: clears it. */
void memory_keep_node(layer_memory *memory, prefix_node *node, double until);

/* --- memory_states.c --- */

/* Moves the sequence's snapshots at the ends of its first n_nodes pages into the tree of prefixes. */
void memory_join_snapshots(layer_memory *memory, sequence_memory *sequence);
/* Frees the sequence's snapshots of more than n tokens. */
void memory_drop_snapshots(layer_memory *memory, sequence_memory *sequence, int32_t n);
/* Turns the states of an ending sequence into a snapshot of the node, for kinds of which the node has none. */
void memory_join_states(layer_memory *memory, sequence_memory *sequence, prefix_node *node);
/* Gives the sequence its states: copies of the node's snapshot, or, if node is NULL, units that start from zero. */
void memory_load_states(layer_memory *memory, sequence_memory *sequence, const prefix_node *node);
/* Releases the sequence's states and snapshots. */
void memory_drop_states(layer_memory *memory, sequence_memory *sequence);

#endif
