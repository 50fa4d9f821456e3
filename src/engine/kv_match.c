/* What a prompt finds of earlier ones, and how it takes that. */
#include "base/mem.h"
#include "base/status.h"
#include "engine/kv_pages_impl.h"

/* --- looking --- */

/* Does the page take one more of those that can be had, if it is held or brought? */
static bool takes_one(const kv_pool *pool, const kv_node *node, kv_kind kind) {
  const int32_t page = node->page[kind];
  return page == KV_NO_PAGE ? node->host[kind] != KV_NO_PAGE : pool->refs[page] == 0;
}

/* Pages that can be had once the path is held, without the leaf's own: one for a copy? A leaf in host memory is copied
 * from there. */
static bool can_copy(const kv_pages *pages, const kv_found *found, int32_t first_seen) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const kv_pool *pool = &pages->pool[kind];
    if (!pool->total) continue;
    const int32_t own = found->leaf->page[kind];
    int32_t left = pool->n_free + pool->n_kept - (own != KV_NO_PAGE && pool->refs[own] == 0);
    int32_t i = found->n_nodes - 1;
    for (const kv_node *node = found->node; node && node->parent; node = node->parent, i--) {
      if (kind == KV_WINDOW ? i < first_seen : node->users > 0) break;
      left -= takes_one(pool, node, (kv_kind)kind);
    }
    if (left < 1) return false;
  }
  return true;
}

/* Part of the page behind found->node (parent: the same, or the root). missing: the last page whose window page is not
 * there. */
static bool find_part(const kv_pages *pages, const kv_node *parent, const int32_t *ids, int32_t n, int32_t missing,
                      kv_found *found) {
  const int32_t begin = found->n_nodes * pages->options.page_tokens;
  if (n - 1 <= begin) return false;
  kv_node *leaf =
      prefix_tree_similar(&pages->tree, parent, ids + begin, n - 1 - begin, kv_has(pages, KV_WINDOW), &found->same);
  const int32_t first_seen = kv_first_seen(pages, begin + found->same);
  found->leaf = leaf;
  if (leaf && missing < first_seen && can_copy(pages, found, first_seen)) return true;
  found->leaf = NULL;
  found->same = 0;
  return false;
}

static kv_found find_prefix(const kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const int32_t size = pages->options.page_tokens;
  kv_found found = {.n_nodes = 0}, best;
  kv_node *node = pages->options.keep_prefixes && n > 1 ? prefix_tree_root(&pages->tree, cache_key) : NULL;
  if (!node) return found;
  kv_node *best_node = node;
  int32_t missing = -1, best_missing = -1;
  for (best = found;;) {
    if (missing < kv_first_seen(pages, found.n_nodes * size)) {
      best = found;
      best_node = node;
      best_missing = missing;
    }
    const int32_t begin = found.n_nodes * size;
    kv_node *child = n - 1 - begin >= size ? prefix_tree_child(&pages->tree, node, ids + begin) : NULL;
    if (!child) break;
    if (kv_has(pages, KV_WINDOW) && !kv_node_has(child, KV_WINDOW)) missing = found.n_nodes;
    found.node = node = child;
    found.n_nodes++;
  }
  if (find_part(pages, node, ids, n, missing, &found)) return found;
  if (best_node != node) (void)find_part(pages, best_node, ids, n, best_missing, &best);
  return best;
}

static int32_t found_tokens(const kv_pages *pages, const kv_found *found) {
  return found->n_nodes * pages->options.page_tokens + found->same;
}

int32_t kv_pages_peek(const kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n) {
  const kv_found found = find_prefix(pages, cache_key, ids, n);
  return found_tokens(pages, &found);
}

/* --- taking --- */

/* Does a sequence that has found so much see a page of that kind at place i? */
static bool sees(const kv_pages *pages, kv_kind kind, int32_t i, int32_t first_seen) {
  return kv_has(pages, kind) && (kind == KV_FULL || i >= first_seen);
}

/* The sequence's i-th page is the node's, where the node has it on the device. */
static void hold_node(kv_pages *pages, kv_sequence *sequence, kv_node *node, int32_t i, int32_t first_seen) {
  kv_use_node(pages, node);
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind)) continue;
    const bool is_seen = sees(pages, (kv_kind)kind, i, first_seen);
    const int32_t page = is_seen ? node->page[kind] : KV_NO_PAGE;
    sequence->table[kind][i] = page;
    if (kind == KV_WINDOW && is_seen) node->wanted = true;
    if (page != KV_NO_PAGE)
      kv_hold_page(pages, (kv_kind)kind, page);
    else if (kind == KV_WINDOW && is_seen)
      kv_link_out(&node->window); /* no other page may push it out of host memory now */
  }
}

/* How many nodes of the path, from its beginning, have all that is needed on the device. *last: the last of those. */
static int32_t nodes_here(const kv_pages *pages, const kv_found *found, int32_t first_seen, kv_node **last) {
  int32_t here = found->n_nodes, i = found->n_nodes;
  *last = found->node;
  for (kv_node *node = found->node; i > 0; node = node->parent) {
    i--;
    for (int kind = 0; kind < KV_KINDS; kind++) {
      if (!sees(pages, (kv_kind)kind, i, first_seen) || node->page[kind] != KV_NO_PAGE) continue;
      here = i;
      *last = i ? node->parent : NULL;
    }
  }
  return here;
}

ga_status kv_pages_match(kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n, kv_sequence *sequence,
                         kv_found *found) {
  *found = find_prefix(pages, cache_key, ids, n);
  found->tokens = found_tokens(pages, found);
  if (!found->tokens) return GA_OK;
  GA_TRY(kv_pages_reserve(pages, sequence, found->tokens));
  const int32_t first_seen = kv_first_seen(pages, found->tokens);
  const int32_t here = nodes_here(pages, found, first_seen, &sequence->node);
  int32_t i = here;
  for (kv_node *node = sequence->node; i > 0; node = node->parent) hold_node(pages, sequence, node, --i, first_seen);
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = here;
  sequence->first_in_window = first_seen;
  return GA_OK;
}

/* The leaf's first tokens get a page of their own. */
static void copy_leaf(kv_pages *pages, const kv_node *leaf, kv_sequence *sequence) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind)) continue;
    const int32_t to = kv_take_page(pages, (kv_kind)kind);
    const bool is_here = leaf->page[kind] != KV_NO_PAGE;
    sequence->table[kind][sequence->n_pages] = to;
    kv_note_copy(pages, (kv_copy){(kv_kind)kind, is_here ? KV_WITHIN : KV_FROM_HOST,
                                  is_here ? leaf->page[kind] : leaf->host[kind], to});
  }
  sequence->n_pages++;
}

/* The leaf is in use while its copy is made, so that its own page is not taken for that. */
static void hold_leaf(kv_pages *pages, kv_node *leaf) {
  kv_use_node(pages, leaf);
  leaf->wanted = true;
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (leaf->page[kind] != KV_NO_PAGE) kv_hold_page(pages, (kv_kind)kind, leaf->page[kind]);
  if (leaf->host[KV_WINDOW] != KV_NO_PAGE) kv_link_out(&leaf->window);
}

static void let_leaf_go(kv_pages *pages, kv_node *leaf) {
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (leaf->page[kind] != KV_NO_PAGE) kv_drop_page(pages, (kv_kind)kind, leaf->page[kind]);
  if (leaf->host[KV_WINDOW] != KV_NO_PAGE) kv_link_last(&pages->away_window, &leaf->window);
  prefix_tree_touch(leaf);
  kv_unuse_node(pages, leaf);
}

/* All of the path is held before the first page is taken, which may evict others. */
void kv_pages_load(kv_pages *pages, kv_sequence *sequence, const kv_found *found) {
  const int32_t first_seen = kv_first_seen(pages, found->tokens), n_nodes = found->n_nodes;
  if (!found->tokens) return;
  if (found->leaf) hold_leaf(pages, found->leaf);
  kv_node *node = found->node;
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    hold_node(pages, sequence, node, i, first_seen);
  node = found->node;
  for (int32_t i = n_nodes; i-- > sequence->n_nodes; node = node->parent)
    for (int kind = 0; kind < KV_KINDS; kind++)
      if (sees(pages, (kv_kind)kind, i, first_seen) && node->page[kind] == KV_NO_PAGE)
        sequence->table[kind][i] = kv_bring_page(pages, (kv_kind)kind, node);
  sequence->node = found->node;
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = n_nodes;
  kv_clear_swapped(found->leaf ? found->leaf : found->node);
  if (!found->leaf) return;
  copy_leaf(pages, found->leaf, sequence);
  let_leaf_go(pages, found->leaf);
}
