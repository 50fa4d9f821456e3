/* What a prompt finds of earlier ones, and how it takes that. */
#include "base/mem.h"
#include "base/status.h"
#include "engine/layer_memory_impl.h"

/* --- looking --- */

/* Does the page take one more of those that can be had, if it is held or brought? */
static bool takes_one(const unit_pool *pool, const prefix_node *node, kv_kind kind) {
  const int32_t page = node->unit[kind];
  return page == MEMORY_NO_UNIT ? node->host[kind] != MEMORY_NO_UNIT : pool->refs[page] == 0;
}

/* Pages that can be had once the path is held, without the leaf's own: one for a copy? A leaf in host memory is copied
 * from there. */
static bool can_copy(const layer_memory *memory, const prefix_match *found, int32_t first_seen) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const unit_pool *pool = &memory->pool[kind];
    if (!pool->total) continue;
    const int32_t own = found->leaf->unit[kind];
    int32_t left = pool->n_free + pool->n_cached - (own != MEMORY_NO_UNIT && pool->refs[own] == 0);
    int32_t i = found->n_nodes - 1;
    for (const prefix_node *node = found->node; node && node->parent; node = node->parent, i--) {
      if (kind == KV_WINDOW ? i < first_seen : node->users > 0) break;
      left -= takes_one(pool, node, (kv_kind)kind);
    }
    if (left < 1) return false;
  }
  return true;
}

/* Part of the page behind found->node (parent: the same, or the root). missing: the last page whose window page is not
 * there. */
static bool find_part(const layer_memory *memory, const prefix_node *parent, const int32_t *ids, int32_t n,
                      int32_t missing, prefix_match *found) {
  const int32_t begin = found->n_nodes * memory->options.page_tokens;
  if (n - 1 <= begin) return false;
  prefix_node *leaf = prefix_tree_similar(&memory->tree, parent, ids + begin, n - 1 - begin,
                                          memory_has(memory, KV_WINDOW), &found->same);
  const int32_t first_seen = memory_first_seen(memory, begin + found->same);
  found->leaf = leaf;
  if (leaf && missing < first_seen && can_copy(memory, found, first_seen)) return true;
  found->leaf = NULL;
  found->same = 0;
  return false;
}

static prefix_match find_prefix(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const int32_t size = memory->options.page_tokens;
  prefix_match found = {.n_nodes = 0}, best;
  prefix_node *node = memory->options.keep_prefixes && n > 1 ? prefix_tree_root(&memory->tree, cache_key) : NULL;
  if (!node) return found;
  prefix_node *best_node = node;
  int32_t missing = -1, best_missing = -1;
  for (best = found;;) {
    if (missing < memory_first_seen(memory, found.n_nodes * size)) {
      best = found;
      best_node = node;
      best_missing = missing;
    }
    const int32_t begin = found.n_nodes * size;
    prefix_node *child = n - 1 - begin >= size ? prefix_tree_child(&memory->tree, node, ids + begin) : NULL;
    if (!child) break;
    if (memory_has(memory, KV_WINDOW) && !prefix_node_has(child, KV_WINDOW)) missing = found.n_nodes;
    found.node = node = child;
    found.n_nodes++;
  }
  if (find_part(memory, node, ids, n, missing, &found)) return found;
  if (best_node != node) (void)find_part(memory, best_node, ids, n, best_missing, &best);
  return best;
}

static int32_t found_tokens(const layer_memory *memory, const prefix_match *found) {
  return found->n_nodes * memory->options.page_tokens + found->same;
}

int32_t layer_memory_peek(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const prefix_match found = find_prefix(memory, cache_key, ids, n);
  return found_tokens(memory, &found);
}

/* --- taking --- */

/* Does a sequence that has found so much see a page of that kind at place i? */
static bool sees(const layer_memory *memory, kv_kind kind, int32_t i, int32_t first_seen) {
  return memory_has(memory, kind) && (kind == KV_FULL || i >= first_seen);
}

/* The sequence's i-th page is the node's, where the node has it on the device. */
static void hold_node(layer_memory *memory, sequence_memory *sequence, prefix_node *node, int32_t i,
                      int32_t first_seen) {
  memory_use_node(memory, node);
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!memory_has(memory, (kv_kind)kind)) continue;
    const bool is_seen = sees(memory, (kv_kind)kind, i, first_seen);
    const int32_t page = is_seen ? node->unit[kind] : MEMORY_NO_UNIT;
    sequence->units[kind][i] = page;
    if (kind == KV_WINDOW && is_seen) node->wanted = true;
    if (page != MEMORY_NO_UNIT)
      memory_pin_unit(memory, (kv_kind)kind, page);
    else if (kind == KV_WINDOW && is_seen)
      prefix_link_out(&node->window); /* no other page may push it out of host memory now */
  }
}

/* How many nodes of the path, from its beginning, have all that is needed on the device. *last: the last of those. */
static int32_t nodes_here(const layer_memory *memory, const prefix_match *found, int32_t first_seen,
                          prefix_node **last) {
  int32_t here = found->n_nodes, i = found->n_nodes;
  *last = found->node;
  for (prefix_node *node = found->node; i > 0; node = node->parent) {
    i--;
    for (int kind = 0; kind < KV_KINDS; kind++) {
      if (!sees(memory, (kv_kind)kind, i, first_seen) || node->unit[kind] != MEMORY_NO_UNIT) continue;
      here = i;
      *last = i ? node->parent : NULL;
    }
  }
  return here;
}

ga_status layer_memory_match(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                             sequence_memory *sequence, prefix_match *found) {
  *found = find_prefix(memory, cache_key, ids, n);
  found->tokens = found_tokens(memory, found);
  if (!found->tokens) return GA_OK;
  GA_TRY(layer_memory_reserve(memory, sequence, found->tokens));
  const int32_t first_seen = memory_first_seen(memory, found->tokens);
  const int32_t here = nodes_here(memory, found, first_seen, &sequence->node);
  int32_t i = here;
  for (prefix_node *node = sequence->node; i > 0; node = node->parent)
    hold_node(memory, sequence, node, --i, first_seen);
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = here;
  sequence->first_in_window = first_seen;
  return GA_OK;
}

/* The leaf's first tokens get a page of their own. */
static void copy_leaf(layer_memory *memory, const prefix_node *leaf, sequence_memory *sequence) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!memory_has(memory, (kv_kind)kind)) continue;
    const int32_t to = memory_take_unit(memory, (kv_kind)kind);
    const bool is_here = leaf->unit[kind] != MEMORY_NO_UNIT;
    sequence->units[kind][sequence->n_pages] = to;
    memory_add_copy(memory, (unit_copy){(kv_kind)kind, is_here ? UNIT_WITHIN : UNIT_FROM_HOST,
                                        is_here ? leaf->unit[kind] : leaf->host[kind], to});
  }
  sequence->n_pages++;
}

/* The leaf is in use while its copy is made, so that its own page is not taken for that. */
static void hold_leaf(layer_memory *memory, prefix_node *leaf) {
  memory_use_node(memory, leaf);
  leaf->wanted = true;
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (leaf->unit[kind] != MEMORY_NO_UNIT) memory_pin_unit(memory, (kv_kind)kind, leaf->unit[kind]);
  if (leaf->host[KV_WINDOW] != MEMORY_NO_UNIT) prefix_link_out(&leaf->window);
}

static void let_leaf_go(layer_memory *memory, prefix_node *leaf) {
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (leaf->unit[kind] != MEMORY_NO_UNIT) memory_unpin_unit(memory, (kv_kind)kind, leaf->unit[kind]);
  if (leaf->host[KV_WINDOW] != MEMORY_NO_UNIT) prefix_link_last(&memory->away_window, &leaf->window);
  prefix_tree_touch(leaf);
  memory_unuse_node(memory, leaf);
}

/* All of the path is held before the first page is taken, which may evict others. */
void layer_memory_load(layer_memory *memory, sequence_memory *sequence, const prefix_match *found) {
  const int32_t first_seen = memory_first_seen(memory, found->tokens), n_nodes = found->n_nodes;
  if (!found->tokens) return;
  if (found->leaf) hold_leaf(memory, found->leaf);
  prefix_node *node = found->node;
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    hold_node(memory, sequence, node, i, first_seen);
  node = found->node;
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    for (int kind = 0; kind < KV_KINDS; kind++)
      if (sees(memory, (kv_kind)kind, i, first_seen) && node->unit[kind] == MEMORY_NO_UNIT)
        sequence->units[kind][i] = memory_load_unit(memory, (kv_kind)kind, node);
  sequence->node = found->node;
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = n_nodes;
  memory_clear_swapped(found->leaf ? found->leaf : found->node);
  if (!found->leaf) return;
  copy_leaf(memory, found->leaf, sequence);
  let_leaf_go(memory, found->leaf);
}
