#include "engine/kv_pages.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/kv_pages_impl.h"

/* Nodes of a model that has window layers only: inner ones need no page. */
#define NODES_A_WINDOW_PAGE 4
#define MAX_PAGES           (INT32_MAX / (4 * NODES_A_WINDOW_PAGE))

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

static ga_status create_host_pool(kv_host_pool *pool, int32_t n) {
  void *p;
  if (n == 0) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->free, "kv pages", &p));
  pool->free = p;
  pool->total = pool->n_free = n;
  for (int32_t i = 0; i < n; i++) pool->free[i] = n - 1 - i;
  return GA_OK;
}

static ga_status check_pages_options(const kv_pages_options *o) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_REQUIRE(o->n_pages[kind] >= 0 && o->n_pages[kind] <= MAX_PAGES, GA_ERR_ARG,
               "kv pages: %d pages of kind %d; must be 0 to %d", o->n_pages[kind], kind, MAX_PAGES);
    GA_REQUIRE(o->n_host[kind] >= 0 && o->n_host[kind] <= MAX_PAGES, GA_ERR_ARG,
               "kv pages: %d pages of kind %d in host memory; must be 0 to %d", o->n_host[kind], kind, MAX_PAGES);
    GA_REQUIRE(!o->n_host[kind] || (o->n_pages[kind] && o->keep_prefixes), GA_ERR_ARG,
               "kv pages: %d pages of kind %d in host memory, %d on the device, keep_prefixes %d; both are needed",
               o->n_host[kind], kind, o->n_pages[kind], o->keep_prefixes);
  }
  GA_REQUIRE(o->n_pages[KV_FULL] || o->n_pages[KV_WINDOW], GA_ERR_ARG, "kv pages: no pages of any kind");
  GA_REQUIRE(o->page_tokens > 0 && (o->page_tokens & (o->page_tokens - 1)) == 0, GA_ERR_ARG,
             "kv pages: page_tokens = %d; must be a power of two", o->page_tokens);
  GA_REQUIRE(!o->n_pages[KV_WINDOW] || o->window > 0, GA_ERR_ARG, "kv pages: window = %d; must be at least 1",
             o->window);
  return GA_OK;
}

static ga_status create_pools(kv_pages *pages, const kv_pages_options *o) {
  void *p;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_TRY(create_pool(&pages->pool[kind], o->n_pages[kind]));
    GA_TRY(create_host_pool(&pages->host[kind], o->n_host[kind]));
  }
  /* Between two steps each page is written by one copy at most, and goes to host memory once at most. */
  const size_t copies = 2 * ((size_t)o->n_pages[KV_FULL] + (size_t)o->n_pages[KV_WINDOW]);
  GA_TRY(ga_mem_zalloc(copies, sizeof *pages->copies, "kv pages", &p));
  pages->copies = p;
  if (!o->keep_prefixes) return GA_OK;
  const int32_t full = o->n_pages[KV_FULL] + o->n_host[KV_FULL]; /* a node has one of them */
  const int32_t windows = (o->n_pages[KV_WINDOW] + o->n_host[KV_WINDOW]) * NODES_A_WINDOW_PAGE;
  return prefix_tree_init(&pages->tree, full ? full : windows, o->page_tokens);
}

ga_status kv_pages_create(const kv_pages_options *options, kv_pages **out) {
  ga_status status;
  void *p;
  *out = NULL;
  GA_TRY(check_pages_options(options));
  GA_TRY(ga_mem_zalloc(1, sizeof(kv_pages), "kv pages", &p));
  kv_pages *pages = p;
  pages->options = *options;
  for (int i = 0; i < 4; i++) kv_link_init(&pages->order[i / 2][i % 2], NULL);
  for (int i = 0; i < 3; i++) kv_link_init(&pages->window_order[i], NULL);
  kv_link_init(&pages->away_window, NULL);
  kv_link_init(&pages->keeping_used, NULL);
  pages->next_expiry = INFINITY;
  GA_TRY_OUT(create_pools(pages, options));
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
    ga_mem_free(pages->host[kind].free);
  }
  ga_mem_free(pages->copies);
  prefix_tree_free(&pages->tree);
  ga_mem_free(pages);
}

kv_pages_count kv_pages_counts(const kv_pages *pages, kv_kind kind) {
  const kv_pool *pool = &pages->pool[kind];
  const kv_host_pool *host = &pages->host[kind];
  return (kv_pages_count){.total = pool->total,
                          .held = pool->n_held,
                          .kept = pool->n_kept,
                          .host_total = host->total,
                          .host_used = host->total - host->n_free};
}

const kv_copy *kv_pages_copies(const kv_pages *pages, int32_t *n) {
  *n = pages->n_copies;
  return pages->copies;
}

void kv_pages_copied(kv_pages *pages) { pages->n_copies = pages->n_to_host = 0; }

int32_t kv_pages_page_tokens(const kv_pages *pages) { return pages->options.page_tokens; }

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
  const int64_t held = ga_max_i64(0, sequence->n_pages - sequence->first_in_window);
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
      sequence->table[kind][i] = kv_take_page(pages, (kv_kind)kind);
  sequence->n_pages = need;
  return GA_OK;
}

/* --- what a sequence leaves --- */

/* Pages that the new page begins with are of no more use. Until when the new one is to be kept for them. */
static double remove_begun(kv_pages *pages, kv_node *parent, const int32_t *ids, int32_t n) {
  double until = 0;
  for (kv_node *begun; (begun = prefix_tree_begun(&pages->tree, parent, ids, n)) != NULL;) {
    if (begun->keep_until > until) until = begun->keep_until;
    kv_drop_node(pages, begun);
  }
  return until;
}

/* A node with the sequence's i-th pages. NULL: the tree is full. */
static kv_node *add_node(kv_pages *pages, kv_node *parent, const kv_sequence *sequence, int32_t i, const int32_t *ids,
                         int32_t n) {
  const double until = remove_begun(pages, parent, ids, n);
  kv_node *node = prefix_tree_add(&pages->tree, parent, ids, n);
  if (!node && kv_oldest_node(pages)) {
    kv_drop_node(pages, kv_oldest_node(pages));
    node = prefix_tree_add(&pages->tree, parent, ids, n);
  }
  for (int kind = 0; node && kind < KV_KINDS; kind++)
    if (kv_has(pages, (kv_kind)kind)) kv_give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
  if (node && until > 0) kv_keep_node(pages, node, until);
  return node;
}

/* The tree has such a page, and nobody uses it: the sequence's take its place. */
static void replace_pages(kv_pages *pages, kv_node *node, const kv_sequence *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind) || sequence->table[kind][i] == KV_NO_PAGE) continue;
    kv_lose_page(pages, (kv_kind)kind, node);
    kv_give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
  }
}

/* The tree has such a page, and the sequence ends: it gives its own back, but where the tree has none. */
static void merge_pages(kv_pages *pages, kv_node *node, kv_sequence *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!kv_has(pages, (kv_kind)kind) || sequence->table[kind][i] == KV_NO_PAGE) continue;
    if (node->page[kind] == KV_NO_PAGE) {
      kv_give_page(pages, (kv_kind)kind, node, sequence->table[kind][i]);
      continue;
    }
    kv_hold_page(pages, (kv_kind)kind, node->page[kind]);
    kv_drop_page(pages, (kv_kind)kind, sequence->table[kind][i]);
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
    kv_use_node(pages, node);
    prefix_tree_touch(node);
    sequence->node = parent = node;
    sequence->n_nodes++;
  }
}

/* The begun page behind them becomes a leaf. NULL: there is none, or another one has its tokens. */
static kv_node *join_begun(kv_pages *pages, kv_node *root, const kv_sequence *sequence, const int32_t *ids, int32_t n) {
  const int32_t size = pages->options.page_tokens, rest = n % size;
  kv_node *parent = sequence->node ? sequence->node : root;
  int32_t same;
  if (!rest || sequence->n_nodes != n / size) return NULL;
  ids += n - rest;
  (void)prefix_tree_similar(&pages->tree, parent, ids, rest, kv_has(pages, KV_WINDOW), &same);
  if (same == rest) return NULL;
  kv_node *node = add_node(pages, parent, sequence, n / size, ids, rest);
  if (node) kv_link_node(pages, node);
  return node;
}

/* Perhaps by another request: it stays until its time has come. */
static bool is_leased(const kv_node *node) { return node->keep_until > 0; }

/* What earlier turns have left of it, unless it is leased. */
static void drop_begun(kv_pages *pages, kv_node *root, const kv_sequence *sequence, const int32_t *ids, int32_t n) {
  const int32_t size = pages->options.page_tokens, rest = n % size;
  kv_node *parent = sequence->node ? sequence->node : root;
  if (sequence->n_nodes != n / size) return;
  for (kv_node *begun;;) {
    begun = prefix_tree_begun(&pages->tree, parent, ids + (n - rest), rest + 1);
    if (!begun || is_leased(begun)) return;
    kv_drop_node(pages, begun);
  }
}

/* The sequence will come back: when others need its pages, these go to host memory. */
static void mark_swapped(kv_node *last) {
  for (kv_node *node = last; node && node->parent; node = node->parent) node->swapped = true;
}

/* Best effort: no more than half of the pages are kept so. */
static void keep_path(kv_pages *pages, kv_node *last, double until) {
  const int32_t total = pages->pool[KV_FULL].total ? pages->pool[KV_FULL].total : pages->pool[KV_WINDOW].total;
  int32_t n = 0;
  for (const kv_node *node = last; node && node->parent; node = node->parent) n += !(node->keep_until > 0);
  if (pages->n_keeping + n > total / 2) return;
  for (kv_node *node = last; node && node->parent; node = node->parent) kv_keep_node(pages, node, until);
}

/* Window pages of tokens that a token at position n does not see. */
static void drop_passed(kv_pages *pages, kv_sequence *sequence, int32_t n) {
  if (!kv_has(pages, KV_WINDOW)) return;
  const int32_t first_seen = kv_first_seen(pages, n);
  int32_t *table = sequence->table[KV_WINDOW];
  for (int32_t i = sequence->first_in_window; i < first_seen; i++) {
    kv_drop_page(pages, KV_WINDOW, table[i]);
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

/* The n nodes of a path lose a user, the last first, so that it stands before its parent in the order of eviction.
 * drops: those go that no other prompt goes on from, and that are not leased. */
static void leave_path(kv_pages *pages, kv_node *last, int32_t n, bool drops) {
  for (kv_node *node = last, *parent; n-- > 0; node = parent) {
    parent = node->parent;
    if (drops && node->users == 1 && !is_leased(node) && kv_link_empty(&node->children)) {
      node->users = 0;
      kv_drop_node(pages, node);
    } else {
      kv_unuse_node(pages, node);
    }
  }
}

static void drop_all(kv_pages *pages, kv_sequence *sequence, bool drops) {
  for (int32_t i = sequence->first_in_window; i < sequence->n_pages && kv_has(pages, KV_WINDOW); i++) {
    const int32_t page = sequence->table[KV_WINDOW][i];
    if (pages->pool[KV_WINDOW].owner[page]) pages->pool[KV_WINDOW].owner[page]->wanted = true;
    kv_drop_page(pages, KV_WINDOW, page);
  }
  for (int32_t i = sequence->n_pages; i-- > 0 && kv_has(pages, KV_FULL);)
    kv_drop_page(pages, KV_FULL, sequence->table[KV_FULL][i]);
  leave_path(pages, sequence->node, sequence->n_nodes, drops);
}

void kv_pages_leave(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n,
                    const kv_parting *parting) {
  kv_node *root = pages->options.keep_prefixes && n > 0 ? prefix_tree_root_make(&pages->tree, cache_key) : NULL;
  if (root) {
    root->users++;
    join_tree(pages, root, sequence, ids, n, true);
    if (parting->drops) drop_begun(pages, root, sequence, ids, n);
    kv_node *begun = parting->drops ? NULL : join_begun(pages, root, sequence, ids, n);
    kv_node *last = begun ? begun : sequence->node;
    if (parting->swaps) mark_swapped(last);
    if (parting->keep_until > 0) keep_path(pages, last, parting->keep_until);
  }
  drop_all(pages, sequence, parting->drops);
  if (root) {
    root->users--;
    prefix_tree_tidy(&pages->tree, root);
  }
  for (int kind = 0; kind < KV_KINDS; kind++) ga_mem_free(sequence->table[kind]);
  *sequence = (kv_sequence){.n_pages = 0};
}

void kv_pages_part(kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n, const kv_parting *parting) {
  const int32_t size = pages->options.page_tokens;
  kv_node *root = pages->options.keep_prefixes ? prefix_tree_root(&pages->tree, cache_key) : NULL, *last = root;
  int32_t n_nodes = 0;
  if (!root) return;
  root->users++;
  for (kv_node *node; n >= size && (node = prefix_tree_child(&pages->tree, last, ids)); ids += size, n -= size) {
    kv_use_node(pages, last = node);
    n_nodes++;
  }
  kv_node *begun = n > 0 && n < size ? prefix_tree_begun(&pages->tree, last, ids, n + 1) : NULL;
  if (begun) {
    kv_use_node(pages, last = begun);
    n_nodes++;
  }
  kv_clear_swapped(last);
  if (parting->keep_until > 0) keep_path(pages, last, parting->keep_until);
  leave_path(pages, last, n_nodes, parting->drops);
  root->users--;
  prefix_tree_tidy(&pages->tree, root);
}

void kv_pages_release(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n) {
  const kv_parting plain = {.keep_until = 0};
  kv_pages_leave(pages, cache_key, sequence, ids, n, &plain);
}
