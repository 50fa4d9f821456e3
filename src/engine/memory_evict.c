/* Units that change hands: used, cached, free; and where cached ones go when others need their place. */
#include <math.h>

#include "engine/layer_memory_impl.h"

/* --- orders of eviction --- */

void memory_link_node(layer_memory *memory, prefix_node *node) {
  prefix_link_out(&node->lru);
  prefix_link_last(&memory->order[memory_node_swapped(memory, node)][node->keep_until > 0], &node->lru);
}

static void link_used(layer_memory *memory, prefix_node *node) {
  prefix_link_out(&node->lru);
  if (node->keep_until > 0) prefix_link_last(&memory->keeping_used, &node->lru);
}

static bool is_local(const layer_memory *memory, int32_t kind) { return memory->leaves.kinds >> kind & 1; }

static void link_local(layer_memory *memory, int32_t kind, prefix_node *node) {
  const int order = !node->wanted ? LOCAL_UNWANTED : node->keep_until > 0 ? LOCAL_KEPT : LOCAL_WANTED;
  prefix_link_out(&node->local[kind]);
  prefix_link_last(&memory->local_order[kind][order], &node->local[kind]);
}

/* The first node of the first ring that has one; NULL: none. */
static prefix_node *first_of(const prefix_link *rings, int n) {
  for (int i = 0; i < n; i++)
    if (!prefix_link_empty(&rings[i])) return rings[i].next->node;
  return NULL;
}

prefix_node *memory_oldest_node(const layer_memory *memory) {
  prefix_node *swapped = first_of(memory->order[1], 2);
  return swapped ? swapped : first_of(memory->order[0], 2);
}

void memory_keep_node(layer_memory *memory, prefix_node *node, double until) {
  const bool was_kept = node->keep_until > 0;
  if (until > 0 && until <= node->keep_until) return;
  memory->n_keeping += (until > 0) - was_kept;
  node->keep_until = until;
  if (until > 0 && until < memory->next_expiry) memory->next_expiry = until;
  if (was_kept == (until > 0)) return;
  if (node->users)
    link_used(memory, node);
  else if (!prefix_link_empty(&node->lru))
    memory_link_node(memory, node);
  for (int32_t k = 0; k < memory->local.n; k++) {
    const int32_t kind = memory->local.at[k];
    if (!prefix_link_empty(&node->local[kind]) && node->unit[kind] != MEMORY_NO_UNIT) link_local(memory, kind, node);
  }
}

/* A match that ends at a leaf needs the leaf's local units, but for those of a window of one token. */
bool memory_node_useless(const layer_memory *memory, const prefix_node *node) {
  if (!prefix_link_empty(&node->children)) return false;
  for (int32_t k = 0; k < memory->local.n; k++) {
    const int32_t kind = memory->local.at[k];
    if (!prefix_node_has(node, kind) && (memory->options.kinds[kind].window != 1 || !memory->chained.n)) return true;
  }
  return false;
}

/* --- one unit --- */

void memory_pin_unit(layer_memory *memory, int32_t kind, int32_t unit) {
  unit_pool *pool = &memory->pool[kind];
  if (pool->refs[unit]++) return;
  pool->n_cached--;
  pool->n_used++;
  if (is_local(memory, kind)) prefix_link_out(&pool->owner[unit]->local[kind]);
}

static void free_unit(unit_pool *pool, int32_t unit) { pool->free[pool->n_free++] = unit; }

void memory_unpin_unit(layer_memory *memory, int32_t kind, int32_t unit) {
  unit_pool *pool = &memory->pool[kind];
  if (--pool->refs[unit]) return;
  pool->n_used--;
  prefix_node *owner = pool->owner[unit];
  if (!owner) {
    free_unit(pool, unit);
    return;
  }
  pool->n_cached++;
  if (is_local(memory, kind)) link_local(memory, kind, owner);
}

static void free_host_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  host_pool *host = &memory->host[kind];
  if (node->host[kind] == MEMORY_NO_UNIT) return;
  host->free[host->n_free++] = node->host[kind];
  node->host[kind] = MEMORY_NO_UNIT;
  if (is_local(memory, kind)) prefix_link_out(&node->local[kind]);
}

static void free_device_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  unit_pool *pool = &memory->pool[kind];
  const int32_t unit = node->unit[kind];
  if (unit == MEMORY_NO_UNIT) return;
  node->unit[kind] = MEMORY_NO_UNIT;
  pool->owner[unit] = NULL;
  pool->n_cached--;
  free_unit(pool, unit);
  if (is_local(memory, kind)) prefix_link_out(&node->local[kind]);
}

void memory_free_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  free_device_unit(memory, kind, node);
  free_host_unit(memory, kind, node);
}

void memory_give_unit(layer_memory *memory, int32_t kind, prefix_node *node, int32_t unit) {
  if (unit == MEMORY_NO_UNIT) return;
  free_host_unit(memory, kind, node);
  node->unit[kind] = unit;
  memory->pool[kind].owner[unit] = node;
}

void memory_add_copy(layer_memory *memory, unit_copy copy) {
  memory->copies[memory->n_copies++] = copy;
  memory->n_to_host += copy.way == UNIT_TO_HOST;
}

/* --- nodes that are removed --- */

static void free_units(layer_memory *memory, prefix_node *node) {
  for (int32_t kind = 0; kind < memory->options.n_kinds; kind++) memory_free_unit(memory, kind, node);
}

/* Removes a leaf without users, and the nodes above it that become useless. */
static void remove_node(layer_memory *memory, prefix_node *node) {
  for (;;) {
    prefix_node *parent = node->parent;
    free_units(memory, node);
    const bool is_root = !parent->parent; /* it may go with the node */
    memory_keep_node(memory, node, 0);
    prefix_tree_remove(&memory->tree, node);
    if (is_root || parent->users || !memory_node_useless(memory, parent)) return;
    node = parent;
  }
}

void memory_drop_node(layer_memory *memory, prefix_node *node) {
  for (;;) {
    prefix_node *leaf = node;
    while (!prefix_link_empty(&leaf->children)) leaf = leaf->children.next->node;
    if (leaf == node) break;
    free_units(memory, leaf);
    memory_keep_node(memory, leaf, 0);
    prefix_tree_remove(&memory->tree, leaf);
  }
  remove_node(memory, node);
}

/* --- to host memory, and back --- */

static bool goes_to_host(const layer_memory *memory, int32_t kind, const prefix_node *node) {
  if (!memory->host[kind].total || !(node->swapped || node->keep_until > 0 || memory->options.offload_prefixes))
    return false;
  return memory->n_to_host < memory->n_units;
}

/* Evicts from host memory until a unit of the kind is free there. false: all are being copied back. */
static bool make_host_room(layer_memory *memory, int32_t kind) {
  const bool local = is_local(memory, kind);
  while (!memory->host[kind].n_free) {
    prefix_node *oldest = local ? memory->local_swapped[kind].next->node : first_of(memory->order[1], 2);
    if (!oldest) return false;
    if (!local) {
      memory_drop_node(memory, oldest);
      continue;
    }
    free_host_unit(memory, kind, oldest);
    if (!oldest->users && memory_node_useless(memory, oldest)) memory_drop_node(memory, oldest);
  }
  return true;
}

/* Moves the node's unit to host memory, where there is room. */
static void send_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  host_pool *host = &memory->host[kind];
  const int32_t to = host->free[--host->n_free];
  memory_add_copy(memory, (unit_copy){kind, UNIT_TO_HOST, node->unit[kind], to});
  free_device_unit(memory, kind, node);
  node->host[kind] = to;
  if (is_local(memory, kind)) prefix_link_last(&memory->local_swapped[kind], &node->local[kind]);
}

/* Moves a local unit to host memory, or frees it. Making room there may remove nodes, but not this one. */
static void evict_local_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  node->users++;
  if (node->wanted && goes_to_host(memory, kind, node) && make_host_room(memory, kind))
    send_unit(memory, kind, node);
  else
    memory_free_unit(memory, kind, node);
  node->users--;
}

/* Moves all units of a node to host memory, where there is room for the chained ones. The local units are first: while
 * they are on the device, the node is of use and stays. */
static void send_node(layer_memory *memory, prefix_node *node) {
  for (int32_t k = 0; k < memory->local.n; k++)
    if (node->unit[memory->local.at[k]] != MEMORY_NO_UNIT) evict_local_unit(memory, memory->local.at[k], node);
  if (memory_node_useless(memory, node)) {
    memory_drop_node(memory, node);
    return;
  }
  for (int32_t k = 0; k < memory->chained.n; k++) send_unit(memory, memory->chained.at[k], node);
  memory_link_node(memory, node);
}

int32_t memory_load_unit(layer_memory *memory, int32_t kind, prefix_node *node) {
  const int32_t to = memory_take_unit(memory, kind);
  memory_add_copy(memory, (unit_copy){kind, UNIT_FROM_HOST, node->host[kind], to});
  memory_give_unit(memory, kind, node, to);
  return to;
}

/* --- eviction --- */

/* Evicts the first node of the order, with all its units. */
static bool evict_node(layer_memory *memory, int32_t kind) {
  prefix_node *first = first_of(memory->order[0], 2);
  if (!first) return false;
  bool sends = true;
  for (int32_t k = 0; k < memory->chained.n && sends; k++)
    sends = goes_to_host(memory, memory->chained.at[k], first) && make_host_room(memory, memory->chained.at[k]);
  if (memory->pool[kind].n_free) return true; /* making room has removed useless nodes on the device */
  if (sends)
    send_node(memory, first);
  else
    memory_drop_node(memory, first);
  return true;
}

/* Evicts a unit that no sequence has begun or ended at, if there is one. */
static bool evict_local(layer_memory *memory, int32_t kind) {
  prefix_node *node = first_of(memory->local_order[kind], LOCAL_ORDERS);
  if (!node) return false;
  evict_local_unit(memory, kind, node);
  if (!node->users && memory_node_useless(memory, node)) memory_drop_node(memory, node);
  return true;
}

int32_t memory_take_unit(layer_memory *memory, int32_t kind) {
  unit_pool *pool = &memory->pool[kind];
  while (!pool->n_free)
    if (!(is_local(memory, kind) ? evict_local(memory, kind) : evict_node(memory, kind))) return MEMORY_NO_UNIT;
  const int32_t unit = pool->free[--pool->n_free];
  pool->refs[unit] = 1;
  pool->n_used++;
  return unit;
}

/* --- nodes of a sequence's path --- */

void memory_use_node(layer_memory *memory, prefix_node *node) {
  if (node->users++ == 0) link_used(memory, node);
}

void memory_unuse_node(layer_memory *memory, prefix_node *node) {
  if (--node->users) return;
  if (memory_node_useless(memory, node))
    memory_drop_node(memory, node);
  else
    memory_link_node(memory, node);
}

static bool leads_to_swapped(const prefix_node *node) {
  for (const prefix_link *at = node->children.next; at->node; at = at->next)
    if (at->node->swapped) return true;
  return false;
}

void memory_clear_swapped(prefix_node *last) {
  for (prefix_node *node = last; node && node->parent; node = node->parent) {
    if (!node->swapped) continue;
    if (leads_to_swapped(node)) return;
    node->swapped = false;
  }
}

/* --- time --- */

/* Clears keep_until of the ring's nodes, in their order, whose time has come. */
static void expire_ring(layer_memory *memory, const prefix_link *ring, double now) {
  for (prefix_link *at = ring->next, *next; at->node; at = next) {
    next = at->next;
    if (at->node->keep_until <= now)
      memory_keep_node(memory, at->node, 0);
    else if (at->node->keep_until < memory->next_expiry)
      memory->next_expiry = at->node->keep_until;
  }
}

void layer_memory_expire(layer_memory *memory, double now) {
  if (now < memory->next_expiry) return;
  memory->next_expiry = INFINITY;
  for (int is_away = 0; is_away < 2; is_away++) expire_ring(memory, &memory->order[is_away][1], now);
  expire_ring(memory, &memory->keeping_used, now);
}
