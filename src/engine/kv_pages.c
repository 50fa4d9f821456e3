#include "engine/kv_pages.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/kv_pages_impl.h"

/* Nodes of a model that has window layers only: inner ones need no page. */
#define NODES_A_WINDOW_PAGE 4

/* --- making and freeing --- */

static ga_status create_pool(kv_pool *pool, int32_t n) {
  void *p;
  if (n == 0) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->free, "kv pages", &p));
  pool->free = p;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->refs, "kv pages", &p));
  pool->refs = p;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->owner, "kv pages", &p));
  pool->owner = p;
  pool->total = pool->n_free = n;
  for (int32_t i = 0; i < n; i++) pool->free[i] = n - 1 - i; /* page 0 goes first */
  return GA_OK;
}

static ga_status check_pages_options(const kv_pages_options *o) {
  for (int kind = 0; kind < KV_KINDS; kind++)
    GA_REQUIRE(o->n_pages[kind] >= 0 && o->n_pages[kind] <= INT32_MAX / (2 * NODES_A_WINDOW_PAGE), GA_ERR_ARG,
               "kv pages: %d pages of kind %d; must be 0 to %d", o->n_pages[kind], kind,
               INT32_MAX / (2 * NODES_A_WINDOW_PAGE));
  GA_REQUIRE(o->n_pages[KV_FULL] || o->n_pages[KV_WINDOW], GA_ERR_ARG, "kv pages: no pages of any kind");
  GA_REQUIRE(o->page_tokens > 0 && (o->page_tokens & (o->page_tokens - 1)) == 0, GA_ERR_ARG,
             "kv pages: page_tokens = %d; must be a power of two", o->page_tokens);
  GA_REQUIRE(!o->n_pages[KV_WINDOW] || o->window > 0, GA_ERR_ARG, "kv pages: window = %d; must be at least 1",
             o->window);
  return GA_OK;
}

ga_status kv_pages_create(const kv_pages_options *options, kv_pages **out) {
  ga_status status;
  void *p;
  *out = NULL;
  GA_TRY(check_pages_options(options));
  GA_TRY(ga_mem_zalloc(1, sizeof(kv_pages), "kv pages", &p));
  kv_pages *pages = p;
  pages->options = *options;
  kv_link_init(&pages->lru, NULL);
  kv_link_init(&pages->passed, NULL);
  kv_link_init(&pages->wanted, NULL);
  for (int kind = 0; kind < KV_KINDS; kind++) GA_TRY_OUT(create_pool(&pages->pool[kind], options->n_pages[kind]));
  if (options->keep_prefixes) {
    const int32_t full = options->n_pages[KV_FULL]; /* a node has one of them */
    const int32_t nodes = full ? full : options->n_pages[KV_WINDOW] * NODES_A_WINDOW_PAGE;
    GA_TRY_OUT(prefix_tree_init(&pages->tree, nodes, options->page_tokens));
  }
  *out = pages;
  return GA_OK;
out:
  kv_pages_destroy(pages);
  return status;
}

void kv_pages_destroy(kv_pages *pages) {
  if (!pages) return;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    ga_mem_free(pages->pool[kind].free);
    ga_mem_free(pages->pool[kind].refs);
    ga_mem_free(pages->pool[kind].owner);
  }
  prefix_tree_free(&pages->tree);
  ga_mem_free(pages);
}

kv_pages_count kv_pages_counts(const kv_pages *pages, kv_kind kind) {
  const kv_pool *pool = &pages->pool[kind];
  return (kv_pages_count){.total = pool->total, .held = pool->n_held, .kept = pool->n_kept};
}

int32_t kv_pages_page_tokens(const kv_pages *pages) { return pages->options.page_tokens; }

/* --- one page --- */

static void hold_page(kv_pages *pages, kv_kind kind, int32_t page) {
  kv_pool *pool = &pages->pool[kind];
  if (pool->refs[page]++) return;
  pool->n_kept--;
  pool->n_held++;
  if (kind == KV_WINDOW) kv_link_out(&pool->owner[page]->window);
}

static void free_page(kv_pool *pool, int32_t page) { pool->free[pool->n_free++] = page; }

static void drop_page(kv_pages *pages, kv_kind kind, int32_t page) {
  kv_pool *pool = &pages->pool[kind];
  if (--pool->refs[page]) return;
  pool->n_held--;
  kv_node *owner = pool->owner[page];
  if (!owner) {
    free_page(pool, page);
    return;
  }
  pool->n_kept++;
  if (kind == KV_WINDOW) kv_link_last(owner->wanted ? &pages->wanted : &pages->passed, &owner->window);
}

/* The node's page, which only the tree has, becomes free. */
static void lose_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  kv_pool *pool = &pages->pool[kind];
  const int32_t page = node->page[kind];
  if (page == KV_NO_PAGE) return;
  node->page[kind] = KV_NO_PAGE;
  pool->owner[page] = NULL;
  pool->n_kept--;
  free_page(pool, page);
  if (kind == KV_WINDOW) kv_link_out(&node->window);
}

static void give_page(kv_pages *pages, kv_kind kind, kv_node *node, int32_t page) {
  if (page == KV_NO_PAGE) return;
  node->page[kind] = page;
  pages->pool[kind].owner[page] = node;
}

/* A leaf without users goes, and what it leaves useless above it. */
static void remove_node(kv_pages *pages, kv_node *node) {
  for (;;) {
    kv_node *parent = node->parent;
    lose_page(pages, KV_FULL, node);
    lose_page(pages, KV_WINDOW, node);
    const bool is_root = !parent->parent; /* it may go with the node */
    prefix_tree_remove(&pages->tree, node);
    if (is_root || parent->users || !kv_node_useless(pages, parent)) return;
    node = parent;
  }
}

static bool evict(kv_pages *pages, kv_kind kind) {
  if (kind == KV_FULL) {
    if (kv_link_empty(&pages->lru)) return false;
    remove_node(pages, pages->lru.next->node);
    return true;
  }
  const kv_link *ring = kv_link_empty(&pages->passed) ? &pages->wanted : &pages->passed;
  kv_node *node = ring->next->node;
  if (!node) return false;
  lose_page(pages, KV_WINDOW, node);
  if (!node->users && kv_node_useless(pages, node)) remove_node(pages, node);
  return true;
}

/* For one table. There is one: the caller has counted. */
static int32_t take_page(kv_pages *pages, kv_kind kind) {
  kv_pool *pool = &pages->pool[kind];
  while (!pool->n_free)
    if (!evict(pages, kind)) return KV_NO_PAGE;
  const int32_t page = pool->free[--pool->n_free];
  pool->refs[page] = 1;
  pool->n_held++;
  return page;
}

/* --- nodes of a sequence's path --- */

static void use_node(kv_node *node) {
  if (node->users++ == 0) kv_link_out(&node->lru);
}

static void unuse_node(kv_pages *pages, kv_node *node) {
  if (--node->users) return;
  if (kv_node_useless(pages, node))
    remove_node(pages, node);
  else
    kv_link_last(&pages->lru, &node->lru);
}

/* --- tables --- */

ga_status kv_pages_reserve(const kv_pages *pages, kv_sequence *sequence, int32_t length) {
  const int32_t need = kv_pages_of(pages, length);
  int32_t room = (int32_t)ga_max_i64(need, ga_min_i64((int64_t)sequence->room * 2, INT32_MAX));
  void *table[KV_KINDS] = {NULL};
  if (need <= sequence->room) return GA_OK;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind)) continue;
    const ga_status status = ga_mem_zalloc((size_t)room, sizeof(int32_t), "table of kv pages", &table[kind]);
    if (status == GA_OK) continue;
    ga_mem_free(table[KV_FULL]);
    return status;
  }
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!table[kind]) continue;
    if (sequence->n_pages) memcpy(table[kind], sequence->table[kind], (size_t)sequence->n_pages * sizeof(int32_t));
    ga_mem_free(sequence->table[kind]);
    sequence->table[kind] = table[kind];
  }
  sequence->room = room;
  return GA_OK;
}

void kv_pages_need(const kv_pages *pages, const kv_sequence *sequence, int32_t length, int32_t chunk,
                   int32_t need[KV_KINDS]) {
  const int64_t more = ga_max_i64(kv_pages_of(pages, length) - sequence->n_pages, 0);
  const int64_t size = pages->options.page_tokens;
  const int64_t seen = ga_div_up((int64_t)pages->options.window - 2 + chunk, size) + 1; /* wherever a page begins */
  const int64_t held = sequence->n_pages - sequence->first_in_window;
  need[KV_FULL] = kv_has(pages, KV_FULL) ? (int32_t)more : 0;
  need[KV_WINDOW] = kv_has(pages, KV_WINDOW) ? (int32_t)ga_max_i64(ga_min_i64(more, seen - held), 0) : 0;
}

bool kv_pages_fits(const kv_pages *pages, int32_t length) {
  const kv_sequence none = {.n_pages = 0};
  int32_t need[KV_KINDS];
  kv_pages_need(pages, &none, length, 1, need);
  return need[KV_FULL] <= pages->pool[KV_FULL].total && need[KV_WINDOW] <= pages->pool[KV_WINDOW].total;
}

int32_t kv_pages_room(const kv_pages *pages, const kv_sequence *sequence) {
  int64_t most = INT32_MAX;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const kv_pool *pool = &pages->pool[kind];
    if (pool->total) most = ga_min_i64(most, pool->n_free + pool->n_kept);
  }
  return (int32_t)ga_min_i64((most + sequence->n_pages) * pages->options.page_tokens, INT32_MAX);
}

bool kv_pages_has_room(const kv_pages *pages, const kv_sequence *sequence, int32_t length) {
  return length <= kv_pages_room(pages, sequence);
}

ga_status kv_pages_extend(kv_pages *pages, kv_sequence *sequence, int32_t length) {
  const int32_t need = kv_pages_of(pages, length);
  if (need <= sequence->n_pages) return GA_OK;
  GA_REQUIRE(kv_pages_has_room(pages, sequence, length), GA_ERR_BUSY,
             "kv pages: no room for %d tokens; there is for %d", length, kv_pages_room(pages, sequence));
  GA_TRY(kv_pages_reserve(pages, sequence, length));
  for (int kind = 0; kind < KV_KINDS; kind++)
    for (int32_t i = sequence->n_pages; i < need && kv_has(pages, (kv_kind)kind); i++)
      sequence->table[kind][i] = take_page(pages, (kv_kind)kind);
  sequence->n_pages = need;
  return GA_OK;
}

/* --- what a prompt finds --- */

typedef struct kv_found {
  kv_node *node; /* of the last whole page; NULL: none */
  int32_t n_nodes;
  kv_node *leaf; /* the first `same` tokens of its page follow; NULL: none */
  int32_t same;
} kv_found;

/* Pages that can be had once the path is held, without the leaf's own: one for a copy? */
static bool can_copy(const kv_pages *pages, const kv_found *found, int32_t first_seen) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const kv_pool *pool = &pages->pool[kind];
    if (!pool->total) continue;
    int32_t left = pool->n_free + pool->n_kept - (pool->refs[found->leaf->page[kind]] == 0);
    int32_t i = found->n_nodes - 1;
    for (const kv_node *node = found->node; node && node->parent; node = node->parent, i--) {
      if (kind == KV_WINDOW ? i < first_seen : node->users > 0) break;
      left -= pool->refs[node->page[kind]] == 0;
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
  kv_found found = {NULL, 0, NULL, 0}, best;
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
    if (kv_has(pages, KV_WINDOW) && child->page[KV_WINDOW] == KV_NO_PAGE) missing = found.n_nodes;
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

static void take_path(kv_pages *pages, const kv_found *found, kv_sequence *sequence) {
  const int32_t first_seen = kv_first_seen(pages, found_tokens(pages, found));
  int32_t i = found->n_nodes - 1;
  for (kv_node *node = found->node; i >= 0; node = node->parent, i--) {
    use_node(node);
    if (kv_has(pages, KV_FULL)) {
      hold_page(pages, KV_FULL, node->page[KV_FULL]);
      sequence->table[KV_FULL][i] = node->page[KV_FULL];
    }
    if (!kv_has(pages, KV_WINDOW)) continue;
    sequence->table[KV_WINDOW][i] = i < first_seen ? KV_NO_PAGE : node->page[KV_WINDOW];
    if (i < first_seen) continue;
    node->wanted = true;
    hold_page(pages, KV_WINDOW, node->page[KV_WINDOW]);
  }
  sequence->node = found->node;
  sequence->n_nodes = sequence->n_pages = sequence->n_tried = found->n_nodes;
  sequence->first_in_window = first_seen;
}

/* The leaf is in use meanwhile, so that its page is not taken for its own copy. */
static void copy_leaf(kv_pages *pages, const kv_found *found, kv_sequence *sequence, kv_copy *copies,
                      int32_t *n_copies) {
  kv_node *leaf = found->leaf;
  use_node(leaf);
  leaf->wanted = true;
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (kv_has(pages, (kv_kind)kind)) hold_page(pages, (kv_kind)kind, leaf->page[kind]);
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind)) continue;
    const int32_t to = take_page(pages, (kv_kind)kind);
    sequence->table[kind][sequence->n_pages] = to;
    copies[(*n_copies)++] = (kv_copy){(kv_kind)kind, leaf->page[kind], to};
  }
  sequence->n_pages++;
  for (int kind = 0; kind < KV_KINDS; kind++)
    if (kv_has(pages, (kv_kind)kind)) drop_page(pages, (kv_kind)kind, leaf->page[kind]);
  prefix_tree_touch(leaf);
  unuse_node(pages, leaf);
}

ga_status kv_pages_match(kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n, kv_sequence *sequence,
                         int32_t *matched, kv_copy *copies, int32_t *n_copies) {
  *matched = *n_copies = 0;
  const kv_found found = find_prefix(pages, cache_key, ids, n);
  const int32_t tokens = found_tokens(pages, &found);
  if (!tokens) return GA_OK;
  GA_TRY(kv_pages_reserve(pages, sequence, tokens));
  take_path(pages, &found, sequence);
  if (found.leaf) copy_leaf(pages, &found, sequence, copies, n_copies);
  *matched = tokens;
  return GA_OK;
}

/* --- what a sequence leaves --- */

/* Pages that the new page begins with are of no more use. */
static void remove_begun(kv_pages *pages, kv_node *parent, const int32_t *ids, int32_t n) {
  for (kv_node *begun; (begun = prefix_tree_begun(&pages->tree, parent, ids, n)) != NULL;) remove_node(pages, begun);
}

/* A node with the sequence's i-th pages. NULL: the tree is full. */
static kv_node *add_node(kv_pages *pages, kv_node *parent, const kv_sequence *sequence, int32_t i, const int32_t *ids,
                         int32_t n) {
  remove_begun(pages, parent, ids, n);
  kv_node *node = prefix_tree_add(&pages->tree, parent, ids, n);
  if (!node && !kv_link_empty(&pages->lru)) {
    remove_node(pages, pages->lru.next->node);
    node = prefix_tree_add(&pages->tree, parent, ids, n);
  }
  for (int kind = 0; node && kind < KV_KINDS; kind++)
    if (kv_has(pages, (kv_kind)kind)) give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
  return node;
}

/* The tree has such a page, and nobody uses it: the sequence's take its place. */
static void replace_pages(kv_pages *pages, kv_node *node, const kv_sequence *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind) || sequence->table[kind][i] == KV_NO_PAGE) continue;
    lose_page(pages, (kv_kind)kind, node);
    give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
  }
}

/* The tree has such a page, and the sequence ends: it gives its own back, but where the tree has none. */
static void merge_pages(kv_pages *pages, kv_node *node, kv_sequence *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind) || sequence->table[kind][i] == KV_NO_PAGE) continue;
    if (node->page[kind] == KV_NO_PAGE) {
      give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
      continue;
    }
    hold_page(pages, (kv_kind)kind, node->page[kind]);
    drop_page(pages, (kv_kind)kind, sequence->table[kind][i]);
    sequence->table[kind][i] = node->page[kind];
  }
}

/* Whole pages of [0, n) become nodes of the tree. While the sequence runs its table must stay as it is: it stops where
 * another has put the same page there, and goes on when that one is no longer in use, or at its end. */
static void join_tree(kv_pages *pages, kv_node *root, kv_sequence *sequence, const int32_t *ids, int32_t n, bool ends) {
  const int32_t size = pages->options.page_tokens;
  kv_node *parent = sequence->node ? sequence->node : root;
  for (int32_t i; (i = sequence->n_nodes) < n / size;) {
    const int32_t *page_ids = ids + (size_t)i * (size_t)size;
    kv_node *node = prefix_tree_child(&pages->tree, parent, page_ids);
    if (!node)
      node = add_node(pages, parent, sequence, i, page_ids, size);
    else if (ends)
      merge_pages(pages, node, sequence, i);
    else if (!node->users)
      replace_pages(pages, node, sequence, i);
    else
      return;
    if (!node) return;
    use_node(node);
    prefix_tree_touch(node);
    sequence->node = parent = node;
    sequence->n_nodes++;
  }
}

/* The begun page behind them becomes a leaf. */
static void join_begun(kv_pages *pages, kv_node *root, const kv_sequence *sequence, const int32_t *ids, int32_t n) {
  const int32_t size = pages->options.page_tokens, rest = n % size;
  kv_node *parent = sequence->node ? sequence->node : root;
  int32_t same;
  if (!rest || sequence->n_nodes != n / size) return;
  ids += n - rest;
  (void)prefix_tree_similar(&pages->tree, parent, ids, rest, kv_has(pages, KV_WINDOW), &same);
  if (same == rest) return;
  kv_node *node = add_node(pages, parent, sequence, n / size, ids, rest);
  if (node) kv_link_last(&pages->lru, &node->lru);
}

/* Window pages of tokens that a token at position n does not see. */
static void drop_passed(kv_pages *pages, kv_sequence *sequence, int32_t n) {
  if (!kv_has(pages, KV_WINDOW)) return;
  const int32_t first_seen = kv_first_seen(pages, n);
  int32_t *table = sequence->table[KV_WINDOW];
  for (int32_t i = sequence->first_in_window; i < first_seen; i++) {
    drop_page(pages, KV_WINDOW, table[i]);
    table[i] = KV_NO_PAGE;
  }
  if (first_seen > sequence->first_in_window) sequence->first_in_window = first_seen;
}

void kv_pages_computed(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n) {
  const int32_t whole = n / pages->options.page_tokens;
  kv_node *root = NULL;
  if (pages->options.keep_prefixes && whole > sequence->n_tried) {
    sequence->n_tried = whole;
    root = prefix_tree_root_make(&pages->tree, cache_key);
  }
  if (root) {
    root->users++;
    join_tree(pages, root, sequence, ids, n, false);
    root->users--;
    prefix_tree_tidy(&pages->tree, root);
  }
  drop_passed(pages, sequence, n);
}

/* The last page first, so that it stands before its parent in the order of eviction. */
static void drop_all(kv_pages *pages, kv_sequence *sequence) {
  for (int32_t i = sequence->first_in_window; i < sequence->n_pages && kv_has(pages, KV_WINDOW); i++) {
    const int32_t page = sequence->table[KV_WINDOW][i];
    if (pages->pool[KV_WINDOW].owner[page]) pages->pool[KV_WINDOW].owner[page]->wanted = true;
    drop_page(pages, KV_WINDOW, page);
  }
  for (int32_t i = sequence->n_pages; i-- > 0 && kv_has(pages, KV_FULL);)
    drop_page(pages, KV_FULL, sequence->table[KV_FULL][i]);
  kv_node *node = sequence->node;
  for (int32_t i = sequence->n_nodes; i-- > 0;) {
    kv_node *parent = node->parent;
    unuse_node(pages, node);
    node = parent;
  }
}

void kv_pages_release(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n) {
  kv_node *root = pages->options.keep_prefixes && n > 0 ? prefix_tree_root_make(&pages->tree, cache_key) : NULL;
  if (root) {
    root->users++;
    join_tree(pages, root, sequence, ids, n, true);
    join_begun(pages, root, sequence, ids, n);
  }
  drop_all(pages, sequence);
  if (root) {
    root->users--;
    prefix_tree_tidy(&pages->tree, root);
  }
  for (int kind = 0; kind < KV_KINDS; kind++) ga_mem_free(sequence->table[kind]);
  *sequence = (kv_sequence){.n_pages = 0};
}
