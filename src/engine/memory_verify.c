#include "base/mem.h"
#include "base/status.h"
#include "engine/layer_memory_impl.h"

#define MEMORY_EXPECT(cond, ...) GA_REQUIRE(cond, GA_ERR_INTERNAL, "layer memory: " __VA_ARGS__)

/* What the sequences say of each unit and node. */
typedef struct unit_tally {
  int32_t *refs[MEMORY_KINDS_MAX], *host[MEMORY_KINDS_MAX], *users, *order;
} unit_tally;

static ga_status alloc_tally(const layer_memory *memory, unit_tally *tally) {
  const size_t nodes = (size_t)memory->tree.capacity + (size_t)memory->tree.roots + 1;
  void *p;
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    GA_TRY(ga_mem_zalloc((size_t)memory->pool[kind].total + 1, sizeof(int32_t), "check of layer memory", &p));
    tally->refs[kind] = p;
    GA_TRY(ga_mem_zalloc((size_t)memory->host[kind].total + 1, sizeof(int32_t), "check of layer memory", &p));
    tally->host[kind] = p;
  }
  GA_TRY(ga_mem_zalloc(nodes, sizeof(int32_t), "check of layer memory", &p));
  tally->users = p;
  GA_TRY(ga_mem_zalloc(nodes, sizeof(int32_t), "check of layer memory", &p));
  tally->order = p;
  return GA_OK;
}

/* --- sequences --- */

static ga_status count_unit(const layer_memory *memory, int32_t kind, int32_t unit, const unit_tally *tally) {
  MEMORY_EXPECT(unit >= 0 && unit < memory->pool[kind].total, "a sequence has unit %d of kind %d", unit, kind);
  tally->refs[kind][unit]++;
  return GA_OK;
}

static ga_status verify_path(const layer_memory *memory, const sequence_memory *q, const unit_tally *tally) {
  const prefix_node *node = q->node;
  for (int32_t i = q->n_nodes; i-- > 0; node = node->parent) {
    MEMORY_EXPECT(node && node->parent && node->n_tokens == memory->options.page_tokens,
                  "path of a sequence breaks at %d", i);
    tally->users[node->index]++;
    for (int32_t k = 0; k < memory->pages.n; k++) {
      const int32_t kind = memory->pages.at[k];
      MEMORY_EXPECT(i < q->first_seen[kind] || q->units[kind][i] == node->unit[kind],
                    "table of kind %d says unit %d at %d, its node says %d", kind, q->units[kind][i], i,
                    node->unit[kind]);
    }
  }
  MEMORY_EXPECT(!node || !node->parent, "path of a sequence is longer than %d", q->n_nodes);
  return GA_OK;
}

static ga_status verify_states(const layer_memory *memory, const sequence_memory *q, const unit_tally *tally) {
  MEMORY_EXPECT(!q->n_snapshots || q->has_state, "%d snapshots of no state", q->n_snapshots);
  for (int32_t k = 0; k < memory->states.n && q->has_state; k++) {
    const int32_t kind = memory->states.at[k];
    GA_TRY(count_unit(memory, kind, q->state[kind], tally));
    MEMORY_EXPECT(!memory->pool[kind].owner[q->state[kind]], "state %d of kind %d is in the tree", q->state[kind],
                  kind);
    for (int32_t i = 0; i < q->n_snapshots; i++) GA_TRY(count_unit(memory, kind, q->snapshots[i].unit[kind], tally));
  }
  for (int32_t i = 0; i < q->n_snapshots; i++)
    MEMORY_EXPECT(q->snapshots[i].n_tokens > (i ? q->snapshots[i - 1].n_tokens : 0) &&
                      q->snapshots[i].n_tokens % memory->options.page_tokens == 0,
                  "snapshot %d at %d tokens", i, q->snapshots[i].n_tokens);
  return GA_OK;
}

static ga_status verify_sequence(const layer_memory *memory, const sequence_memory *q, const unit_tally *tally) {
  MEMORY_EXPECT(q->n_nodes <= q->n_pages && (q->n_pages <= q->room || !memory->pages.n),
                "sequence: %d nodes, %d pages, room for %d", q->n_nodes, q->n_pages, q->room);
  GA_TRY(verify_path(memory, q, tally));
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k];
    for (int32_t i = 0; i < q->n_pages; i++) {
      const int32_t unit = q->units[kind][i];
      if (i >= q->first_seen[kind])
        GA_TRY(count_unit(memory, kind, unit, tally));
      else
        MEMORY_EXPECT(unit == MEMORY_NO_UNIT, "unit %d has been given back", unit);
    }
  }
  return verify_states(memory, q, tally);
}

/* --- pools and orders --- */

static ga_status verify_pool(const layer_memory *memory, int32_t kind, const unit_tally *tally) {
  const unit_pool *pool = &memory->pool[kind];
  int32_t used = 0, cached = 0, freed = 0;
  for (int32_t i = 0; i < pool->n_free; i++) {
    const int32_t unit = pool->free[i];
    MEMORY_EXPECT(!pool->refs[unit] && !pool->owner[unit], "unit %d of kind %d is free and in use", unit, kind);
  }
  for (int32_t i = 0; i < pool->total; i++) {
    MEMORY_EXPECT(pool->refs[i] == tally->refs[kind][i], "unit %d of kind %d: %d references, %d sequences have it", i,
                  kind, pool->refs[i], tally->refs[kind][i]);
    MEMORY_EXPECT(!pool->owner[i] || pool->owner[i]->unit[kind] == i, "unit %d of kind %d is not its node's", i, kind);
    used += pool->refs[i] > 0;
    cached += !pool->refs[i] && pool->owner[i];
    freed += !pool->refs[i] && !pool->owner[i];
  }
  MEMORY_EXPECT(used == pool->n_used && cached == pool->n_cached && freed == pool->n_free,
                "kind %d: %d used, %d cached, %d free; counted %d, %d, %d", kind, pool->n_used, pool->n_cached,
                pool->n_free, used, cached, freed);
  return GA_OK;
}

/* Numbers the nodes of one order of eviction from *n on. */
static ga_status verify_order(const layer_memory *memory, const prefix_link *ring, const unit_tally *tally,
                              int32_t *n) {
  for (const prefix_link *at = ring->next; at->node; at = at->next) {
    MEMORY_EXPECT(at->next->prev == at, "order of eviction: a link is broken");
    MEMORY_EXPECT(!at->node->users && ++*n <= memory->tree.capacity, "order of eviction: a node in use");
    MEMORY_EXPECT(ring == &memory->order[memory_node_swapped(memory, at->node)][at->node->keep_until > 0],
                  "node %d is in the wrong order", at->node->index);
    tally->order[at->node->index] = *n;
  }
  return GA_OK;
}

/* Each node with a keep_until is in a ring that layer_memory_expire looks through. */
static ga_status verify_keeping(const layer_memory *memory) {
  const prefix_link *const rings[] = {&memory->order[0][1], &memory->order[1][1], &memory->keeping_used};
  int32_t n = 0;
  for (size_t i = 0; i < GA_COUNT_OF(rings); i++) {
    for (const prefix_link *at = rings[i]->next; at->node; at = at->next, n++) {
      MEMORY_EXPECT(at->node->keep_until >= memory->next_expiry, "node %d will be kept for ever", at->node->index);
      MEMORY_EXPECT((at->node->users > 0) == (i == 2), "node %d, of %d users, is to be kept", at->node->index,
                    at->node->users);
    }
  }
  MEMORY_EXPECT(n == memory->n_keeping, "%d nodes are to be kept, counted %d", n, memory->n_keeping);
  return GA_OK;
}

/* All cached units of a local kind are in its orders of eviction, and all in host memory in the order there. */
static ga_status verify_local(const layer_memory *memory, int32_t kind) {
  const unit_pool *pool = &memory->pool[kind];
  const host_pool *host = &memory->host[kind];
  int32_t in_rings = 0, swapped = 0;
  for (int order = 0; order < LOCAL_ORDERS; order++) {
    for (const prefix_link *at = memory->local_order[kind][order].next; at->node; at = at->next, in_rings++) {
      const int32_t unit = at->node->unit[kind];
      MEMORY_EXPECT(unit != MEMORY_NO_UNIT && !pool->refs[unit], "unit %d of kind %d may be evicted", unit, kind);
    }
  }
  MEMORY_EXPECT(in_rings == pool->n_cached, "kind %d: %d of %d cached units may be evicted", kind, in_rings,
                pool->n_cached);
  for (const prefix_link *at = memory->local_swapped[kind].next; at->node; at = at->next, swapped++)
    MEMORY_EXPECT(at->node->host[kind] != MEMORY_NO_UNIT, "node %d has no unit of kind %d in host memory",
                  at->node->index, kind);
  MEMORY_EXPECT(swapped == host->total - host->n_free, "kind %d: %d units in host memory may be evicted", kind,
                swapped);
  return GA_OK;
}

/* Nodes in host memory are evicted before those on the device, and those with a keep_until last. */
static ga_status verify_rings(const layer_memory *memory, const unit_tally *tally) {
  int32_t n = 0;
  GA_TRY(verify_keeping(memory));
  for (int i = 0; i < 4; i++) GA_TRY(verify_order(memory, &memory->order[i < 2][i % 2], tally, &n));
  for (int32_t k = 0; k < memory->local.n; k++) GA_TRY(verify_local(memory, memory->local.at[k]));
  return GA_OK;
}

/* Each unit in host memory is free or one node's. */
static ga_status verify_host(const layer_memory *memory, int32_t kind, const unit_tally *tally) {
  const host_pool *host = &memory->host[kind];
  for (int32_t i = 0; i < host->n_free; i++) tally->host[kind][host->free[i]]++;
  for (int32_t i = 0; i < host->total; i++)
    MEMORY_EXPECT(tally->host[kind][i] == 1, "unit %d of kind %d in host memory has %d owners", i, kind,
                  tally->host[kind][i]);
  return GA_OK;
}

/* --- the tree --- */

static ga_status verify_units(const layer_memory *memory, const prefix_node *node, const unit_tally *tally) {
  const int32_t i = node->index;
  for (int32_t k = 0; k < memory->chained.n; k++) {
    const int32_t kind = memory->chained.at[k];
    MEMORY_EXPECT(prefix_node_has(node, kind), "node %d without a unit of kind %d", i, kind);
    MEMORY_EXPECT(!node->users || node->host[kind] == MEMORY_NO_UNIT, "node %d is in use and in host memory", i);
    MEMORY_EXPECT((node->host[kind] != MEMORY_NO_UNIT) == memory_node_swapped(memory, node),
                  "node %d is in host memory in part", i);
  }
  for (int32_t kind = 0; kind < memory->options.n_kinds; kind++) {
    MEMORY_EXPECT(node->unit[kind] == MEMORY_NO_UNIT || node->host[kind] == MEMORY_NO_UNIT,
                  "node %d has two units of kind %d", i, kind);
    if (node->host[kind] != MEMORY_NO_UNIT) tally->host[kind][node->host[kind]]++;
    MEMORY_EXPECT(node->unit[kind] == MEMORY_NO_UNIT || memory->pool[kind].owner[node->unit[kind]] == node,
                  "node %d is not the owner of unit %d", i, node->unit[kind]);
  }
  return GA_OK;
}

static ga_status verify_node(const layer_memory *memory, const prefix_node *node, const unit_tally *tally) {
  const prefix_tree *tree = &memory->tree;
  const prefix_node *parent = node->parent;
  const int32_t i = node->index;
  MEMORY_EXPECT(node->users == tally->users[i], "node %d: %d users, %d sequences", i, node->users, tally->users[i]);
  if (!parent) {
    MEMORY_EXPECT(prefix_tree_root(tree, node->cache_key) == node, "root %d is not found", i);
    MEMORY_EXPECT(!prefix_link_empty(&node->children), "root %d without children", i);
    return GA_OK;
  }
  MEMORY_EXPECT((node->users == 0) == (tally->order[i] > 0), "node %d: %d users, place %d", i, node->users,
                tally->order[i]);
  MEMORY_EXPECT(!parent->parent || parent->users >= node->users, "node %d has more users than its parent", i);
  MEMORY_EXPECT(!parent->parent || parent->users || tally->order[i] < tally->order[parent->index],
                "node %d would be evicted after its parent", i);
  MEMORY_EXPECT(!parent->parent || parent->keep_until >= node->keep_until,
                "node %d is to be kept longer than its parent", i);
  MEMORY_EXPECT(!parent->parent || parent->swapped >= node->swapped, "node %d is swapped, its parent not", i);
  MEMORY_EXPECT(node->users || !memory_node_useless(memory, node), "node %d is of no use", i);
  GA_TRY(verify_units(memory, node, tally));
  if (node->n_tokens == tree->page_tokens)
    MEMORY_EXPECT(prefix_tree_child(tree, parent, prefix_node_tokens(tree, node)) == node, "node %d is not found", i);
  else
    MEMORY_EXPECT(prefix_link_empty(&node->children) && node->n_tokens > 0, "begun node %d has children", i);
  return GA_OK;
}

/* All nodes below the root, each once. */
static ga_status verify_below(const layer_memory *memory, const prefix_node *root, const unit_tally *tally,
                              int32_t *n_nodes) {
  const prefix_node *node = root;
  while (node) {
    GA_TRY(verify_node(memory, node, tally));
    if (node->parent) ++*n_nodes;
    MEMORY_EXPECT(*n_nodes <= memory->tree.n_nodes, "the tree has more than its %d nodes", memory->tree.n_nodes);
    if (!prefix_link_empty(&node->children)) {
      const prefix_node *child = node->children.next->node;
      MEMORY_EXPECT(child->parent == node, "child %d of another parent", child->index);
      node = child;
      continue;
    }
    while (node != root && !node->sibling.next->node) node = node->parent;
    node = node == root ? NULL : node->sibling.next->node;
  }
  return GA_OK;
}

static ga_status verify_tree(const layer_memory *memory, const unit_tally *tally) {
  const prefix_tree *tree = &memory->tree;
  int32_t n_nodes = 0, n_roots = 0;
  if (!memory->options.keep_prefixes) return GA_OK;
  GA_TRY(verify_rings(memory, tally));
  for (uint32_t i = 0; i <= tree->mask; i++) {
    for (const prefix_node *node = tree->buckets[i]; node; node = node->chain) {
      if (node->parent) continue;
      n_roots++;
      GA_TRY(verify_below(memory, node, tally, &n_nodes));
    }
  }
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) GA_TRY(verify_host(memory, kind, tally));
  MEMORY_EXPECT(n_nodes == tree->n_nodes && n_roots == tree->n_roots, "%d nodes and %d roots; %d and %d are in use",
                n_nodes, n_roots, tree->n_nodes, tree->n_roots);
  return GA_OK;
}

ga_status layer_memory_verify(const layer_memory *memory, const sequence_memory *const *sequences, int32_t n) {
  unit_tally tally = {.users = NULL};
  ga_status status;
  GA_TRY_OUT(alloc_tally(memory, &tally));
  for (int32_t i = 0; i < n; i++) GA_TRY_OUT(verify_sequence(memory, sequences[i], &tally));
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) GA_TRY_OUT(verify_pool(memory, kind, &tally));
  status = verify_tree(memory, &tally);
out:
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    ga_mem_free(tally.refs[kind]);
    ga_mem_free(tally.host[kind]);
  }
  ga_mem_free(tally.users);
  ga_mem_free(tally.order);
  return status;
}
