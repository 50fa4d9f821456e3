#include "engine/layer_memory.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/layer_memory_impl.h"

/* Nodes of a model that has window layers only: inner ones need no page. */
#define NODES_A_WINDOW_PAGE 4
#define MAX_PAGES           (INT32_MAX / (4 * NODES_A_WINDOW_PAGE))

/* --- making and freeing --- */

static ga_status create_pool(unit_pool *pool, int32_t n) {
  void *p;
  if (n == 0) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->free, "layer memory", &p));
  pool->free = p;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->refs, "layer memory", &p));
  pool->refs = p;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->owner, "layer memory", &p));
  pool->owner = p;
  pool->total = pool->n_free = n;
  for (int32_t i = 0; i < n; i++) pool->free[i] = n - 1 - i; /* page 0 goes first */
  return GA_OK;
}

static ga_status create_host_pool(host_pool *pool, int32_t n) {
  void *p;
  if (n == 0) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof *pool->free, "layer memory", &p));
  pool->free = p;
  pool->total = pool->n_free = n;
  for (int32_t i = 0; i < n; i++) pool->free[i] = n - 1 - i;
  return GA_OK;
}

static ga_status check_pages_options(const layer_memory_options *o) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_REQUIRE(o->n_units[kind] >= 0 && o->n_units[kind] <= MAX_PAGES, GA_ERR_ARG,
               "layer memory: %d pages of kind %d; must be 0 to %d", o->n_units[kind], kind, MAX_PAGES);
    GA_REQUIRE(o->n_host[kind] >= 0 && o->n_host[kind] <= MAX_PAGES, GA_ERR_ARG,
               "layer memory: %d pages of kind %d in host memory; must be 0 to %d", o->n_host[kind], kind, MAX_PAGES);
    GA_REQUIRE(!o->n_host[kind] || (o->n_units[kind] && o->keep_prefixes), GA_ERR_ARG,
               "layer memory: %d pages of kind %d in host memory, %d on the device, keep_prefixes %d; both are needed",
               o->n_host[kind], kind, o->n_units[kind], o->keep_prefixes);
  }
  GA_REQUIRE(o->n_units[KV_FULL] || o->n_units[KV_WINDOW], GA_ERR_ARG, "layer memory: no pages of any kind");
  GA_REQUIRE(o->page_tokens > 0 && (o->page_tokens & (o->page_tokens - 1)) == 0, GA_ERR_ARG,
             "layer memory: page_tokens = %d; must be a power of two", o->page_tokens);
  GA_REQUIRE(!o->n_units[KV_WINDOW] || o->window > 0, GA_ERR_ARG, "layer memory: window = %d; must be at least 1",
             o->window);
  return GA_OK;
}

static ga_status create_pools(layer_memory *memory, const layer_memory_options *o) {
  void *p;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_TRY(create_pool(&memory->pool[kind], o->n_units[kind]));
    GA_TRY(create_host_pool(&memory->host[kind], o->n_host[kind]));
  }
  /* Between two steps each page is written by one copy at most, and goes to host memory once at most. */
  const size_t copies = 2 * ((size_t)o->n_units[KV_FULL] + (size_t)o->n_units[KV_WINDOW]);
  GA_TRY(ga_mem_zalloc(copies, sizeof *memory->copies, "layer memory", &p));
  memory->copies = p;
  if (!o->keep_prefixes) return GA_OK;
  const int32_t full = o->n_units[KV_FULL] + o->n_host[KV_FULL]; /* a node has one of them */
  const int32_t windows = (o->n_units[KV_WINDOW] + o->n_host[KV_WINDOW]) * NODES_A_WINDOW_PAGE;
  return prefix_tree_init(&memory->tree, full ? full : windows, o->page_tokens);
}

ga_status layer_memory_create(const layer_memory_options *options, layer_memory **out) {
  ga_status status;
  void *p;
  *out = NULL;
  GA_TRY(check_pages_options(options));
  GA_TRY(ga_mem_zalloc(1, sizeof(layer_memory), "layer memory", &p));
  layer_memory *memory = p;
  memory->options = *options;
  for (int i = 0; i < 4; i++) prefix_link_init(&memory->order[i / 2][i % 2], NULL);
  for (int i = 0; i < 3; i++) prefix_link_init(&memory->window_order[i], NULL);
  prefix_link_init(&memory->away_window, NULL);
  prefix_link_init(&memory->keeping_used, NULL);
  memory->next_expiry = INFINITY;
  GA_TRY_OUT(create_pools(memory, options));
  *out = memory;
  return GA_OK;
out:
  layer_memory_destroy(memory);
  return status;
}

void layer_memory_destroy(layer_memory *memory) {
  if (!memory) return;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    ga_mem_free(memory->pool[kind].free);
    ga_mem_free(memory->pool[kind].refs);
    ga_mem_free(memory->pool[kind].owner);
    ga_mem_free(memory->host[kind].free);
  }
  ga_mem_free(memory->copies);
  prefix_tree_free(&memory->tree);
  ga_mem_free(memory);
}

unit_counts layer_memory_counts(const layer_memory *memory, kv_kind kind) {
  const unit_pool *pool = &memory->pool[kind];
  const host_pool *host = &memory->host[kind];
  return (unit_counts){.total = pool->total,
                       .used = pool->n_used,
                       .cached = pool->n_cached,
                       .host_total = host->total,
                       .host_used = host->total - host->n_free};
}

const unit_copy *layer_memory_copies(const layer_memory *memory, int32_t *n) {
  *n = memory->n_copies;
  return memory->copies;
}

void layer_memory_copied(layer_memory *memory) { memory->n_copies = memory->n_to_host = 0; }

int32_t layer_memory_page_tokens(const layer_memory *memory) { return memory->options.page_tokens; }

/* --- tables --- */

ga_status layer_memory_reserve(const layer_memory *memory, sequence_memory *sequence, int32_t length) {
  const int32_t need = memory_pages_of(memory, length);
  int32_t room = (int32_t)ga_max_i64(need, ga_min_i64((int64_t)sequence->room * 2, INT32_MAX));
  void *table[KV_KINDS] = {NULL};
  if (need <= sequence->room) return GA_OK;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!memory_has(memory, (kv_kind)kind)) continue;
    const ga_status status = ga_mem_zalloc((size_t)room, sizeof(int32_t), "table of units", &table[kind]);
    if (status == GA_OK) continue;
    ga_mem_free(table[KV_FULL]);
    return status;
  }
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!table[kind]) continue;
    if (sequence->n_pages) memcpy(table[kind], sequence->units[kind], (size_t)sequence->n_pages * sizeof(int32_t));
    ga_mem_free(sequence->units[kind]);
    sequence->units[kind] = table[kind];
  }
  sequence->room = room;
  return GA_OK;
}

void layer_memory_need(const layer_memory *memory, const sequence_memory *sequence, int32_t length, int32_t chunk,
                       int32_t need[KV_KINDS]) {
  const int64_t more = ga_max_i64(memory_pages_of(memory, length) - sequence->n_pages, 0);
  const int64_t size = memory->options.page_tokens;
  const int64_t seen = ga_div_up((int64_t)memory->options.window - 2 + chunk, size) + 1; /* wherever a page begins */
  const int64_t held = ga_max_i64(0, sequence->n_pages - sequence->first_in_window);
  need[KV_FULL] = memory_has(memory, KV_FULL) ? (int32_t)more : 0;
  need[KV_WINDOW] = memory_has(memory, KV_WINDOW) ? (int32_t)ga_max_i64(ga_min_i64(more, seen - held), 0) : 0;
}

bool layer_memory_fits(const layer_memory *memory, int32_t length) {
  const sequence_memory none = {.n_pages = 0};
  int32_t need[KV_KINDS];
  layer_memory_need(memory, &none, length, 1, need);
  return need[KV_FULL] <= memory->pool[KV_FULL].total && need[KV_WINDOW] <= memory->pool[KV_WINDOW].total;
}

int32_t layer_memory_room(const layer_memory *memory, const sequence_memory *sequence) {
  int64_t most = INT32_MAX;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const unit_pool *pool = &memory->pool[kind];
    if (pool->total) most = ga_min_i64(most, pool->n_free + pool->n_cached);
  }
  return (int32_t)ga_min_i64((most + sequence->n_pages) * memory->options.page_tokens, INT32_MAX);
}

bool layer_memory_has_room(const layer_memory *memory, const sequence_memory *sequence, int32_t length) {
  return length <= layer_memory_room(memory, sequence);
}

ga_status layer_memory_extend(layer_memory *memory, sequence_memory *sequence, int32_t length) {
  const int32_t need = memory_pages_of(memory, length);
  if (need <= sequence->n_pages) return GA_OK;
  GA_REQUIRE(layer_memory_has_room(memory, sequence, length), GA_ERR_BUSY,
             "layer memory: no room for %d tokens; there is for %d", length, layer_memory_room(memory, sequence));
  GA_TRY(layer_memory_reserve(memory, sequence, length));
  for (int kind = 0; kind < KV_KINDS; kind++)
    for (int32_t i = sequence->n_pages; i < need && memory_has(memory, (kv_kind)kind); i++)
      sequence->units[kind][i] = memory_take_unit(memory, (kv_kind)kind);
  sequence->n_pages = need;
  return GA_OK;
}

/* --- what a sequence leaves --- */

/* Pages that the new page begins with are of no more use. Until when the new one is to be kept for them. */
static double remove_begun(layer_memory *memory, prefix_node *parent, const int32_t *ids, int32_t n) {
  double until = 0;
  for (prefix_node *begun; (begun = prefix_tree_begun(&memory->tree, parent, ids, n)) != NULL;) {
    if (begun->keep_until > until) until = begun->keep_until;
    memory_drop_node(memory, begun);
  }
  return until;
}

/* A node with the sequence's i-th pages. NULL: the tree is full. */
static prefix_node *add_node(layer_memory *memory, prefix_node *parent, const sequence_memory *sequence, int32_t i,
                             const int32_t *ids, int32_t n) {
  const double until = remove_begun(memory, parent, ids, n);
  prefix_node *node = prefix_tree_add(&memory->tree, parent, ids, n);
  if (!node && memory_oldest_node(memory)) {
    memory_drop_node(memory, memory_oldest_node(memory));
    node = prefix_tree_add(&memory->tree, parent, ids, n);
  }
  for (int kind = 0; node && kind < KV_KINDS; kind++)
    if (memory_has(memory, (kv_kind)kind)) memory_give_unit(memory, (kv_kind)kind, node, sequence->units[kind][i]);
  if (node && until > 0) memory_keep_node(memory, node, until);
  return node;
}

/* The tree has such a page, and nobody uses it: the sequence's take its place. */
static void replace_pages(layer_memory *memory, prefix_node *node, const sequence_memory *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!memory_has(memory, (kv_kind)kind) || sequence->units[kind][i] == MEMORY_NO_UNIT) continue;
    memory_free_unit(memory, (kv_kind)kind, node);
    memory_give_unit(memory, (kv_kind)kind, node, sequence->units[kind][i]);
  }
}

/* The tree has such a page, and the sequence ends: it gives its own back, but where the tree has none. */
static void merge_pages(layer_memory *memory, prefix_node *node, sequence_memory *sequence, int32_t i) {
  for (int kind = 0; kind < KV_KINDS; kind++) {
    if (!memory_has(memory, (kv_kind)kind) || sequence->units[kind][i] == MEMORY_NO_UNIT) continue;
    if (node->unit[kind] == MEMORY_NO_UNIT) {
      memory_give_unit(memory, (kv_kind)kind, node, sequence->units[kind][i]);
      continue;
    }
    memory_pin_unit(memory, (kv_kind)kind, node->unit[kind]);
    memory_unpin_unit(memory, (kv_kind)kind, sequence->units[kind][i]);
    sequence->units[kind][i] = node->unit[kind];
  }
}

/* Whole pages of [0, n) become nodes of the tree. While the sequence runs its table must stay as it is: it stops where
 * another has put the same page there, and goes on when that one is no longer in use, or at its end. */
static void join_tree(layer_memory *memory, prefix_node *root, sequence_memory *sequence, const int32_t *ids, int32_t n,
                      bool ends) {
  const int32_t size = memory->options.page_tokens;
  prefix_node *parent = sequence->node ? sequence->node : root;
  for (int32_t i; (i = sequence->n_nodes) < n / size;) {
    const int32_t *page_ids = ids + (size_t)i * (size_t)size;
    prefix_node *node = prefix_tree_child(&memory->tree, parent, page_ids);
    if (!node)
      node = add_node(memory, parent, sequence, i, page_ids, size);
    else if (ends)
      merge_pages(memory, node, sequence, i);
    else if (!node->users)
      replace_pages(memory, node, sequence, i);
    else
      return;
    if (!node) return;
    memory_use_node(memory, node);
    prefix_tree_touch(node);
    sequence->node = parent = node;
    sequence->n_nodes++;
  }
}

/* The begun page behind them becomes a leaf. NULL: there is none, or another one has its tokens. */
static prefix_node *join_begun(layer_memory *memory, prefix_node *root, const sequence_memory *sequence,
                               const int32_t *ids, int32_t n) {
  const int32_t size = memory->options.page_tokens, rest = n % size;
  prefix_node *parent = sequence->node ? sequence->node : root;
  int32_t same;
  if (!rest || sequence->n_nodes != n / size) return NULL;
  ids += n - rest;
  (void)prefix_tree_similar(&memory->tree, parent, ids, rest, memory_has(memory, KV_WINDOW), &same);
  if (same == rest) return NULL;
  prefix_node *node = add_node(memory, parent, sequence, n / size, ids, rest);
  if (node) prefix_link_node(memory, node);
  return node;
}

/* Perhaps by another request: it stays until its time has come. */
static bool is_leased(const prefix_node *node) { return node->keep_until > 0; }

/* What earlier turns have left of it, unless it is leased. */
static void drop_begun(layer_memory *memory, prefix_node *root, const sequence_memory *sequence, const int32_t *ids,
                       int32_t n) {
  const int32_t size = memory->options.page_tokens, rest = n % size;
  prefix_node *parent = sequence->node ? sequence->node : root;
  if (sequence->n_nodes != n / size) return;
  for (prefix_node *begun;;) {
    begun = prefix_tree_begun(&memory->tree, parent, ids + (n - rest), rest + 1);
    if (!begun || is_leased(begun)) return;
    memory_drop_node(memory, begun);
  }
}

/* The sequence will come back: when others need its pages, these go to host memory. */
static void mark_swapped(prefix_node *last) {
  for (prefix_node *node = last; node && node->parent; node = node->parent) node->swapped = true;
}

/* Best effort: no more than half of the pages are kept so. */
static void keep_path(layer_memory *memory, prefix_node *last, double until) {
  const int32_t total = memory->pool[KV_FULL].total ? memory->pool[KV_FULL].total : memory->pool[KV_WINDOW].total;
  int32_t n = 0;
  for (const prefix_node *node = last; node && node->parent; node = node->parent) n += !(node->keep_until > 0);
  if (memory->n_keeping + n > total / 2) return;
  for (prefix_node *node = last; node && node->parent; node = node->parent) memory_keep_node(memory, node, until);
}

/* Window pages of tokens that a token at position n does not see. */
static void drop_passed(layer_memory *memory, sequence_memory *sequence, int32_t n) {
  if (!memory_has(memory, KV_WINDOW)) return;
  const int32_t first_seen = memory_first_seen(memory, n);
  int32_t *table = sequence->units[KV_WINDOW];
  for (int32_t i = sequence->first_in_window; i < first_seen; i++) {
    memory_unpin_unit(memory, KV_WINDOW, table[i]);
    table[i] = MEMORY_NO_UNIT;
  }
  if (first_seen > sequence->first_in_window) sequence->first_in_window = first_seen;
}

void layer_memory_computed(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                           int32_t n) {
  const int32_t whole = n / memory->options.page_tokens;
  prefix_node *root = NULL;
  if (memory->options.keep_prefixes && whole > sequence->n_tried) {
    sequence->n_tried = whole;
    root = prefix_tree_root_make(&memory->tree, cache_key);
  }
  if (root) {
    root->users++;
    join_tree(memory, root, sequence, ids, n, false);
    root->users--;
    prefix_tree_tidy(&memory->tree, root);
  }
  drop_passed(memory, sequence, n);
}

/* The n nodes of a path lose a user, the last first, so that it stands before its parent in the order of eviction.
 * drops: those go that no other prompt goes on from, and that are not leased. */
static void leave_path(layer_memory *memory, prefix_node *last, int32_t n, bool drops) {
  for (prefix_node *node = last, *parent; n-- > 0; node = parent) {
    parent = node->parent;
    if (drops && node->users == 1 && !is_leased(node) && prefix_link_empty(&node->children)) {
      node->users = 0;
      memory_drop_node(memory, node);
    } else {
      memory_unuse_node(memory, node);
    }
  }
}

static void drop_all(layer_memory *memory, sequence_memory *sequence, bool drops) {
  for (int32_t i = sequence->first_in_window; i < sequence->n_pages && memory_has(memory, KV_WINDOW); i++) {
    const int32_t page = sequence->units[KV_WINDOW][i];
    if (memory->pool[KV_WINDOW].owner[page]) memory->pool[KV_WINDOW].owner[page]->wanted = true;
    memory_unpin_unit(memory, KV_WINDOW, page);
  }
  for (int32_t i = sequence->n_pages; i-- > 0 && memory_has(memory, KV_FULL);)
    memory_unpin_unit(memory, KV_FULL, sequence->units[KV_FULL][i]);
  leave_path(memory, sequence->node, sequence->n_nodes, drops);
}

void layer_memory_release_as(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, const release_policy *parting) {
  prefix_node *root = memory->options.keep_prefixes && n > 0 ? prefix_tree_root_make(&memory->tree, cache_key) : NULL;
  if (root) {
    root->users++;
    join_tree(memory, root, sequence, ids, n, true);
    if (parting->drops) drop_begun(memory, root, sequence, ids, n);
    prefix_node *begun = parting->drops ? NULL : join_begun(memory, root, sequence, ids, n);
    prefix_node *last = begun ? begun : sequence->node;
    if (parting->swaps) mark_swapped(last);
    if (parting->keep_until > 0) keep_path(memory, last, parting->keep_until);
  }
  drop_all(memory, sequence, parting->drops);
  if (root) {
    root->users--;
    prefix_tree_tidy(&memory->tree, root);
  }
  for (int kind = 0; kind < KV_KINDS; kind++) ga_mem_free(sequence->units[kind]);
  *sequence = (sequence_memory){.n_pages = 0};
}

void layer_memory_abandon(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                          const release_policy *parting) {
  const int32_t size = memory->options.page_tokens;
  prefix_node *root = memory->options.keep_prefixes ? prefix_tree_root(&memory->tree, cache_key) : NULL, *last = root;
  int32_t n_nodes = 0;
  if (!root) return;
  root->users++;
  for (prefix_node *node; n >= size && (node = prefix_tree_child(&memory->tree, last, ids)); ids += size, n -= size) {
    memory_use_node(memory, last = node);
    n_nodes++;
  }
  prefix_node *begun = n > 0 && n < size ? prefix_tree_begun(&memory->tree, last, ids, n + 1) : NULL;
  if (begun) {
    memory_use_node(memory, last = begun);
    n_nodes++;
  }
  memory_clear_swapped(last);
  if (parting->keep_until > 0) keep_path(memory, last, parting->keep_until);
  leave_path(memory, last, n_nodes, parting->drops);
  root->users--;
  prefix_tree_tidy(&memory->tree, root);
}

void layer_memory_release(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                          int32_t n) {
  const release_policy plain = {.keep_until = 0};
  layer_memory_release_as(memory, cache_key, sequence, ids, n, &plain);
}
