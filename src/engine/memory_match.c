/* Which cached prefix a prompt finds, and how its sequence takes it. */
#include "base/mem.h"
#include "base/status.h"
#include "engine/layer_memory_impl.h"

/* --- searching --- */

static int32_t found_tokens(const layer_memory *memory, const prefix_match *found) {
  return found->n_nodes * memory->options.page_tokens + found->same;
}

/* Has the path to found->node all local units that a sequence needs to go on after n tokens? */
static bool has_path(const layer_memory *memory, const prefix_match *found, int32_t n) {
  for (int32_t k = 0; k < memory->local.n; k++) {
    const int32_t kind = memory->local.at[k], first = memory_first_needed(memory, kind, n);
    const prefix_node *node = found->node;
    for (int32_t i = found->n_nodes - 1; i >= first; i--, node = node->parent)
      if (!prefix_node_has(node, kind)) return false;
  }
  return true;
}

/* Does the node's unit become unavailable to others when it is used or loaded? */
static bool takes_one(const unit_pool *pool, const prefix_node *node, int32_t kind) {
  const int32_t unit = node->unit[kind];
  return unit == MEMORY_NO_UNIT ? node->host[kind] != MEMORY_NO_UNIT : pool->refs[unit] == 0;
}

/* Units of the kind that the path to found->node makes unavailable. */
static int32_t taken_by_path(const layer_memory *memory, const prefix_match *found, int32_t kind) {
  const bool is_window = memory->options.kinds[kind].window;
  const int32_t first = memory_first_needed(memory, kind, found_tokens(memory, found));
  int32_t i = found->n_nodes - 1, n = 0;
  for (const prefix_node *node = found->node; node && node->parent; node = node->parent, i--) {
    if (is_window ? i < first : node->users > 0) break;
    n += takes_one(&memory->pool[kind], node, kind);
  }
  return n;
}

/* Is there a unit for a copy of the source's, besides the source's own and those of the path? A source in host memory
 * is copied from there. */
static bool has_unit_for(const layer_memory *memory, const prefix_match *found, int32_t kind,
                         const prefix_node *source) {
  const unit_pool *pool = &memory->pool[kind];
  const int32_t own = source->unit[kind];
  const int32_t left = memory_available(memory, kind) - (own != MEMORY_NO_UNIT && pool->refs[own] == 0);
  return left - (memory->options.kinds[kind].unit_tokens ? taken_by_path(memory, found, kind) : 0) >= 1;
}

static bool can_load(const layer_memory *memory, const prefix_match *found) {
  const prefix_node *end = found->leaf ? found->leaf : found->node;
  if (!memory_can_copy(memory)) return false;
  for (int32_t k = 0; k < memory->pages.n && found->leaf; k++)
    if (!has_unit_for(memory, found, memory->pages.at[k], found->leaf)) return false;
  for (int32_t k = 0; k < memory->states.n; k++)
    if (!has_unit_for(memory, found, memory->states.at[k], end)) return false;
  return true;
}

/* Looks for a part of the page after found->node (parent: the same, or the root). */
static bool find_part(const layer_memory *memory, const prefix_node *parent, const int32_t *ids, int32_t n,
                      prefix_match *found) {
  const int32_t begin = found->n_nodes * memory->options.page_tokens;
  if (n - 1 <= begin) return false;
  found->leaf = prefix_tree_similar(&memory->tree, parent, ids + begin, n - 1 - begin, memory->leaves, &found->same);
  if (found->leaf && has_path(memory, found, begin + found->same) && can_load(memory, found)) return true;
  found->leaf = NULL;
  found->same = 0;
  return false;
}

static bool ends_at_page(const layer_memory *memory, const prefix_match *found) {
  return found->n_nodes && has_path(memory, found, found_tokens(memory, found)) &&
         (!memory->states.n || can_load(memory, found));
}

/* Goes down as far as whole pages are the same, and from there up to the first place where every kind can go on. */
static prefix_match find_prefix(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const int32_t size = memory->options.page_tokens;
  prefix_match found = {.n_nodes = 0};
  prefix_node *node = memory->options.keep_prefixes && n > 1 ? prefix_tree_root(&memory->tree, cache_key) : NULL;
  for (prefix_node *child = node; child && n - 1 - found.n_nodes * size >= size; found.n_nodes++) {
    child = prefix_tree_child(&memory->tree, node, ids + (size_t)found.n_nodes * (size_t)size);
    if (!child) break;
    node = child;
  }
  for (; node; node = node->parent, found.n_nodes--) {
    found.node = found.n_nodes ? node : NULL;
    if (find_part(memory, node, ids, n, &found) || ends_at_page(memory, &found)) break;
  }
  if (!node) found = (prefix_match){.n_nodes = 0};
  return found;
}

int32_t layer_memory_peek(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const prefix_match found = find_prefix(memory, cache_key, ids, n);
  return found_tokens(memory, &found);
}

/* --- taking --- */

/* Makes the node's pages on the device the sequence's i-th, from those on that a sequence of n tokens needs. */
static void use_pages(layer_memory *memory, sequence_memory *sequence, prefix_node *node, int32_t i, int32_t n) {
  memory_use_node(memory, node);
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k];
    const bool is_window = memory->options.kinds[kind].window, is_needed = i >= memory_first_needed(memory, kind, n);
    const int32_t unit = is_needed ? node->unit[kind] : MEMORY_NO_UNIT;
    sequence->units[kind][i] = unit;
    if (is_window && is_needed) node->wanted = true;
    if (unit != MEMORY_NO_UNIT)
      memory_pin_unit(memory, kind, unit);
    else if (is_window && is_needed)
      prefix_link_out(&node->local[kind]); /* no other unit may evict it from host memory now */
  }
}

static bool lacks_page(const layer_memory *memory, const prefix_node *node, int32_t i, int32_t n) {
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k];
    if (i >= memory_first_needed(memory, kind, n) && node->unit[kind] == MEMORY_NO_UNIT) return true;
  }
  return false;
}

/* How many nodes of the path, from its beginning, have all pages on the device that are needed. *last: their last. */
static int32_t nodes_on_device(const layer_memory *memory, const prefix_match *found, prefix_node **last) {
  int32_t n = found->n_nodes, i = found->n_nodes;
  *last = found->node;
  for (prefix_node *node = found->node; i > 0; node = node->parent) {
    if (!lacks_page(memory, node, --i, found->tokens)) continue;
    n = i;
    *last = i ? node->parent : NULL;
  }
  return n;
}

ga_status layer_memory_match(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                             sequence_memory *sequence, prefix_match *found) {
  *found = find_prefix(memory, cache_key, ids, n);
  found->tokens = found_tokens(memory, found);
  if (!found->tokens) return GA_OK;
  GA_TRY(layer_memory_reserve(memory, sequence, found->tokens));
  const int32_t n_here = nodes_on_device(memory, found, &sequence->node);
  int32_t i = n_here;
  for (prefix_node *node = sequence->node; i > 0; node = node->parent)
    use_pages(memory, sequence, node, --i, found->tokens);
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = n_here;
  for (int32_t k = 0; k < memory->windows.n; k++)
    sequence->first_seen[memory->windows.at[k]] = memory_first_needed(memory, memory->windows.at[k], found->tokens);
  return GA_OK;
}

/* Copies the leaf's pages, of which the sequence takes the first tokens. */
static void copy_leaf(layer_memory *memory, const prefix_node *leaf, sequence_memory *sequence) {
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k], to = memory_take_unit(memory, kind);
    const bool is_here = leaf->unit[kind] != MEMORY_NO_UNIT;
    sequence->units[kind][sequence->n_pages] = to;
    memory_add_copy(memory, (unit_copy){kind, is_here ? UNIT_WITHIN : UNIT_FROM_HOST,
                                        is_here ? leaf->unit[kind] : leaf->host[kind], to});
  }
  sequence->n_pages++;
}

/* Kinds of which the node at the end of a match is copied: all of a leaf, states of a whole page. */
static const kind_list *copied_kinds(const layer_memory *memory, const prefix_match *found, kind_list *all) {
  *all = memory->pages;
  for (int32_t k = 0; k < memory->states.n && found->leaf; k++) all->at[all->n++] = memory->states.at[k];
  return found->leaf ? all : &memory->states;
}

/* Keeps the units of a node from being evicted while copies of them are made. */
static void pin_end(layer_memory *memory, const kind_list *kinds, prefix_node *end) {
  memory_use_node(memory, end);
  end->wanted = true;
  for (int32_t k = 0; k < kinds->n; k++) {
    const int32_t kind = kinds->at[k];
    if (end->unit[kind] != MEMORY_NO_UNIT)
      memory_pin_unit(memory, kind, end->unit[kind]);
    else
      prefix_link_out(&end->local[kind]);
  }
}

static void unpin_end(layer_memory *memory, const kind_list *kinds, prefix_node *end) {
  for (int32_t k = 0; k < kinds->n; k++) {
    const int32_t kind = kinds->at[k];
    if (end->unit[kind] != MEMORY_NO_UNIT)
      memory_unpin_unit(memory, kind, end->unit[kind]);
    else if (memory->leaves.kinds >> kind & 1 && end->host[kind] != MEMORY_NO_UNIT)
      prefix_link_last(&memory->local_swapped[kind], &end->local[kind]);
  }
  prefix_tree_touch(end);
  memory_unuse_node(memory, end);
}

/* The whole path is in use before the first unit is taken, which may evict others. */
void layer_memory_load(layer_memory *memory, sequence_memory *sequence, const prefix_match *found) {
  const int32_t n_nodes = found->n_nodes;
  prefix_node *end = found->leaf ? found->leaf : found->node, *node = found->node;
  kind_list all;
  const kind_list *copied = copied_kinds(memory, found, &all);
  if (!found->tokens) return;
  if (copied->n) pin_end(memory, copied, end);
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    use_pages(memory, sequence, node, i, found->tokens);
  node = found->node;
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    for (int32_t k = 0; k < memory->pages.n; k++) {
      const int32_t kind = memory->pages.at[k];
      if (i >= memory_first_needed(memory, kind, found->tokens) && node->unit[kind] == MEMORY_NO_UNIT)
        sequence->units[kind][i] = memory_load_unit(memory, kind, node);
    }
  sequence->node = found->node;
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = n_nodes;
  memory_clear_swapped(end);
  if (found->leaf) copy_leaf(memory, found->leaf, sequence);
  if (memory->states.n) memory_load_states(memory, sequence, end);
  if (copied->n) unpin_end(memory, copied, end);
}
