/* Pages that change hands: held, kept, free; and where kept ones go when others need their place. */
#include <math.h>

#include "engine/layer_memory_impl.h"

/* --- orders of eviction --- */

void prefix_link_node(layer_memory *memory, prefix_node *node) {
  const bool is_away = node->host[KV_FULL] != MEMORY_NO_UNIT, keeps = node->keep_until > 0;
  prefix_link_out(&node->lru);
  prefix_link_last(&memory->order[is_away][keeps], &node->lru);
}

static void link_used(layer_memory *memory, prefix_node *node) {
  prefix_link_out(&node->lru);
  if (node->keep_until > 0) prefix_link_last(&memory->keeping_used, &node->lru);
}

static void link_window(layer_memory *memory, prefix_node *node) {
  prefix_link_out(&node->window);
  prefix_link_last(&memory->window_order[!node->wanted ? 0 : node->keep_until > 0 ? 2 : 1], &node->window);
}

/* The first of the rings that has one; NULL: none. */
static prefix_node *first_of(const prefix_link *rings, int n) {
  for (int i = 0; i < n; i++)
    if (!prefix_link_empty(&rings[i])) return rings[i].next->node;
  return NULL;
}

prefix_node *memory_oldest_node(const layer_memory *memory) {
  prefix_node *away = first_of(memory->order[1], 2);
  return away ? away : first_of(memory->order[0], 2);
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
    prefix_link_node(memory, node);
  if (!prefix_link_empty(&node->window) && node->unit[KV_WINDOW] != MEMORY_NO_UNIT) link_window(memory, node);
}

/* --- one page --- */

void memory_pin_unit(layer_memory *memory, kv_kind kind, int32_t page) {
  unit_pool *pool = &memory->pool[kind];
  if (pool->refs[page]++) return;
  pool->n_cached--;
  pool->n_used++;
  if (kind == KV_WINDOW) prefix_link_out(&pool->owner[page]->window);
}

static void free_page(unit_pool *pool, int32_t page) { pool->free[pool->n_free++] = page; }

void memory_unpin_unit(layer_memory *memory, kv_kind kind, int32_t page) {
  unit_pool *pool = &memory->pool[kind];
  if (--pool->refs[page]) return;
  pool->n_used--;
  prefix_node *owner = pool->owner[page];
  if (!owner) {
    free_page(pool, page);
    return;
  }
  pool->n_cached++;
  if (kind == KV_WINDOW) link_window(memory, owner);
}

static void lose_host_page(layer_memory *memory, kv_kind kind, prefix_node *node) {
  host_pool *host = &memory->host[kind];
  if (node->host[kind] == MEMORY_NO_UNIT) return;
  host->free[host->n_free++] = node->host[kind];
  node->host[kind] = MEMORY_NO_UNIT;
  if (kind == KV_WINDOW) prefix_link_out(&node->window);
}

static void lose_device_page(layer_memory *memory, kv_kind kind, prefix_node *node) {
  unit_pool *pool = &memory->pool[kind];
  const int32_t page = node->unit[kind];
  if (page == MEMORY_NO_UNIT) return;
  node->unit[kind] = MEMORY_NO_UNIT;
  pool->owner[page] = NULL;
  pool->n_cached--;
  free_page(pool, page);
  if (kind == KV_WINDOW) prefix_link_out(&node->window);
}

void memory_free_unit(layer_memory *memory, kv_kind kind, prefix_node *node) {
  lose_device_page(memory, kind, node);
  lose_host_page(memory, kind, node);
}

void memory_give_unit(layer_memory *memory, kv_kind kind, prefix_node *node, int32_t page) {
  if (page == MEMORY_NO_UNIT) return;
  lose_host_page(memory, kind, node);
  node->unit[kind] = page;
  memory->pool[kind].owner[page] = node;
}

void memory_add_copy(layer_memory *memory, unit_copy copy) {
  memory->copies[memory->n_copies++] = copy;
  memory->n_to_host += copy.way == UNIT_TO_HOST;
}

/* --- nodes that go --- */

/* A leaf without users goes, and what it leaves useless above it. */
static void remove_node(layer_memory *memory, prefix_node *node) {
  for (;;) {
    prefix_node *parent = node->parent;
    for (int kind = 0; kind < KV_KINDS; kind++) memory_free_unit(memory, (kv_kind)kind, node);
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
    for (int kind = 0; kind < KV_KINDS; kind++) memory_free_unit(memory, (kv_kind)kind, leaf);
    memory_keep_node(memory, leaf, 0);
    prefix_tree_remove(&memory->tree, leaf);
  }
  remove_node(memory, node);
}

/* --- to host memory, and back --- */

static bool goes_to_host(const layer_memory *memory, kv_kind kind, const prefix_node *node) {
  if (!memory->host[kind].total || !(node->swapped || node->keep_until > 0 || memory->options.offload_prefixes))
    return false;
  return memory->n_to_host < memory->pool[KV_FULL].total + memory->pool[KV_WINDOW].total;
}

/* A free page in host memory; the least recently used one there goes for it. false: all are being brought back. */
static bool make_host_room(layer_memory *memory, kv_kind kind) {
  while (!memory->host[kind].n_free) {
    prefix_node *oldest = kind == KV_FULL ? first_of(memory->order[1], 2) : memory->away_window.next->node;
    if (!oldest) return false;
    if (kind == KV_FULL) {
      memory_drop_node(memory, oldest);
      continue;
    }
    lose_host_page(memory, KV_WINDOW, oldest);
    if (!oldest->users && memory_node_useless(memory, oldest)) memory_drop_node(memory, oldest);
  }
  return true;
}

/* There is room. */
static void send_page(layer_memory *memory, kv_kind kind, prefix_node *node) {
  host_pool *host = &memory->host[kind];
  const int32_t to = host->free[--host->n_free];
  memory_add_copy(memory, (unit_copy){kind, UNIT_TO_HOST, node->unit[kind], to});
  lose_device_page(memory, kind, node);
  node->host[kind] = to;
  if (kind == KV_WINDOW) prefix_link_last(&memory->away_window, &node->window);
}

/* Its window page first: while that is on the device, the node is of use and stays. */
static void send_node(layer_memory *memory, prefix_node *node) {
  if (node->unit[KV_WINDOW] != MEMORY_NO_UNIT) {
    if (node->wanted && goes_to_host(memory, KV_WINDOW, node) && make_host_room(memory, KV_WINDOW))
      send_page(memory, KV_WINDOW, node);
    else
      memory_free_unit(memory, KV_WINDOW, node);
  }
  if (memory_node_useless(memory, node)) {
    memory_drop_node(memory, node);
    return;
  }
  send_page(memory, KV_FULL, node);
  prefix_link_node(memory, node);
}

int32_t memory_load_unit(layer_memory *memory, kv_kind kind, prefix_node *node) {
  const int32_t to = memory_take_unit(memory, kind);
  memory_add_copy(memory, (unit_copy){kind, UNIT_FROM_HOST, node->host[kind], to});
  memory_give_unit(memory, kind, node, to);
  return to;
}

/* --- eviction --- */

static bool evict_full(layer_memory *memory) {
  const unit_pool *pool = &memory->pool[KV_FULL];
  prefix_node *first = first_of(memory->order[0], 2);
  if (!first) return false;
  const bool sends = goes_to_host(memory, KV_FULL, first) && make_host_room(memory, KV_FULL);
  if (pool->n_free) return true; /* what went for room in host memory has left useless nodes on the device */
  if (sends)
    send_node(memory, first);
  else
    memory_drop_node(memory, first);
  return true;
}

/* What a next turn does not need goes first. */
static bool evict_window(layer_memory *memory) {
  prefix_node *node = first_of(memory->window_order, 3);
  if (!node) return false;
  if (node->wanted && goes_to_host(memory, KV_WINDOW, node) && make_host_room(memory, KV_WINDOW)) {
    send_page(memory, KV_WINDOW, node);
    return true;
  }
  memory_free_unit(memory, KV_WINDOW, node);
  if (!node->users && memory_node_useless(memory, node)) memory_drop_node(memory, node);
  return true;
}

int32_t memory_take_unit(layer_memory *memory, kv_kind kind) {
  unit_pool *pool = &memory->pool[kind];
  while (!pool->n_free)
    if (!(kind == KV_FULL ? evict_full(memory) : evict_window(memory))) return MEMORY_NO_UNIT;
  const int32_t page = pool->free[--pool->n_free];
  pool->refs[page] = 1;
  pool->n_used++;
  return page;
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
    prefix_link_node(memory, node);
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

/* Those of a ring, in their order, whose time has come. */
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
