#include "engine/layer_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/layer_memory_impl.h"

/* Nodes for each unit of models without chained kinds: most nodes have no unit. */
#define NODES_A_WINDOW_PAGE 4
#define NODES_A_STATE       16
#define MAX_UNITS           (INT32_MAX / 16)
#define MAX_NODES           (INT32_MAX / 2)

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
  for (int32_t i = 0; i < n; i++) pool->free[i] = n - 1 - i; /* unit 0 is taken first */
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

static ga_status check_kind(const layer_memory_options *o, int32_t kind) {
  const memory_kind *k = &o->kinds[kind];
  GA_REQUIRE(o->n_units[kind] >= 0 && o->n_units[kind] <= MAX_UNITS, GA_ERR_ARG,
             "layer memory: %d units of kind %d; must be 0 to %d", o->n_units[kind], kind, MAX_UNITS);
  GA_REQUIRE(o->n_host[kind] >= 0 && o->n_host[kind] <= MAX_UNITS, GA_ERR_ARG,
             "layer memory: %d units of kind %d in host memory; must be 0 to %d", o->n_host[kind], kind, MAX_UNITS);
  GA_REQUIRE(!o->n_host[kind] || (o->n_units[kind] && o->keep_prefixes), GA_ERR_ARG,
             "layer memory: %d units of kind %d in host memory, %d on the device, keep_prefixes %d; both are needed",
             o->n_host[kind], kind, o->n_units[kind], o->keep_prefixes);
  GA_REQUIRE(!k->unit_tokens || k->unit_tokens == o->page_tokens, GA_ERR_ARG,
             "layer memory: kind %d has pages of %d tokens; must be 0 or %d", kind, k->unit_tokens, o->page_tokens);
  GA_REQUIRE(k->is_shared == (k->unit_tokens > 0) && k->exact_rewind >= 0, GA_ERR_ARG,
             "layer memory: kind %d: is_shared %d, exact_rewind %d; pages are shared, states are not", kind,
             k->is_shared, k->exact_rewind);
  GA_REQUIRE(k->window >= 0 && (k->unit_tokens || !k->window), GA_ERR_ARG,
             "layer memory: kind %d: window = %d; must be 0, or at least 1 for pages", kind, k->window);
  return GA_OK;
}

static ga_status check_memory_options(const layer_memory_options *o) {
  int64_t all = 0;
  GA_REQUIRE(o->n_kinds > 0 && o->n_kinds <= MEMORY_KINDS_MAX, GA_ERR_ARG,
             "layer memory: n_kinds = %d; must be 1 to %d", o->n_kinds, MEMORY_KINDS_MAX);
  GA_REQUIRE(o->page_tokens > 0 && (o->page_tokens & (o->page_tokens - 1)) == 0, GA_ERR_ARG,
             "layer memory: page_tokens = %d; must be a power of two", o->page_tokens);
  for (int32_t kind = 0; kind < o->n_kinds; kind++) {
    GA_TRY(check_kind(o, kind));
    all += o->n_units[kind];
  }
  GA_REQUIRE(all, GA_ERR_ARG, "layer memory: no units of any kind");
  return GA_OK;
}

static void list_kind(kind_list *list, int32_t kind) { list->at[list->n++] = kind; }

static void list_kinds(layer_memory *memory) {
  const layer_memory_options *o = &memory->options;
  for (int32_t kind = 0; kind < o->n_kinds; kind++) {
    const bool is_page = o->kinds[kind].unit_tokens, is_window = o->kinds[kind].window;
    if (!o->n_units[kind]) continue;
    list_kind(is_page ? &memory->pages : &memory->states, kind);
    list_kind(is_page && !is_window ? &memory->chained : &memory->local, kind);
    if (is_window) list_kind(&memory->windows, kind);
    memory->n_units += o->n_units[kind];
  }
  for (int32_t i = 0; i < memory->local.n; i++) memory->leaves.kinds |= 1u << memory->local.at[i];
  memory->leaves.whole = memory->states.n > 0;
}

/* Nodes that the tree has room for. A node has a unit of each chained kind. */
static int32_t node_capacity(const layer_memory *memory) {
  const layer_memory_options *o = &memory->options;
  int64_t most = 0;
  for (int32_t i = 0; i < memory->chained.n; i++) {
    const int32_t kind = memory->chained.at[i];
    const int64_t n = (int64_t)o->n_units[kind] + o->n_host[kind];
    most = i ? ga_min_i64(most, n) : n;
  }
  if (memory->chained.n) return (int32_t)most;
  for (int32_t i = 0; i < memory->local.n; i++) {
    const int32_t kind = memory->local.at[i];
    const int64_t n = (int64_t)o->n_units[kind] + o->n_host[kind];
    most = ga_max_i64(most, n * (o->kinds[kind].unit_tokens ? NODES_A_WINDOW_PAGE : NODES_A_STATE));
  }
  return (int32_t)ga_min_i64(most, MAX_NODES);
}

/* Half of the units of the kind that nodes need most. */
static int32_t most_kept(const layer_memory *memory) {
  const kind_list *list = memory->chained.n ? &memory->chained : &memory->local;
  int32_t least = INT32_MAX;
  for (int32_t i = 0; i < list->n; i++) least = (int32_t)ga_min_i64(least, memory->options.n_units[list->at[i]]);
  return least / 2;
}

static ga_status create_all_pools(layer_memory *memory) {
  const layer_memory_options *o = &memory->options;
  void *p;
  list_kinds(memory);
  memory->most_kept = most_kept(memory);
  for (int32_t kind = 0; kind < o->n_kinds; kind++) {
    GA_TRY(create_pool(&memory->pool[kind], o->n_units[kind]));
    GA_TRY(create_host_pool(&memory->host[kind], o->n_host[kind]));
  }
  memory->max_copies = 4 * (memory->n_units + MEMORY_KINDS_MAX); /* memory_can_copy */
  GA_TRY(ga_mem_zalloc((size_t)memory->max_copies, sizeof *memory->copies, "layer memory", &p));
  memory->copies = p;
  return o->keep_prefixes ? prefix_tree_init(&memory->tree, node_capacity(memory), o->page_tokens) : GA_OK;
}

ga_status layer_memory_create(const layer_memory_options *options, layer_memory **out) {
  ga_status status;
  void *p;
  *out = NULL;
  GA_TRY(check_memory_options(options));
  GA_TRY(ga_mem_zalloc(1, sizeof(layer_memory), "layer memory", &p));
  layer_memory *memory = p;
  memory->options = *options;
  for (int i = 0; i < 4; i++) prefix_link_init(&memory->order[i / 2][i % 2], NULL);
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    for (int i = 0; i < LOCAL_ORDERS; i++) prefix_link_init(&memory->local_order[kind][i], NULL);
    prefix_link_init(&memory->local_swapped[kind], NULL);
  }
  prefix_link_init(&memory->keeping_used, NULL);
  memory->next_expiry = INFINITY;
  GA_TRY_OUT(create_all_pools(memory));
  *out = memory;
  return GA_OK;
out:
  layer_memory_destroy(memory);
  return status;
}

void layer_memory_destroy(layer_memory *memory) {
  if (!memory) return;
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    ga_mem_free(memory->pool[kind].free);
    ga_mem_free(memory->pool[kind].refs);
    ga_mem_free(memory->pool[kind].owner);
    ga_mem_free(memory->host[kind].free);
  }
  ga_mem_free(memory->copies);
  prefix_tree_free(&memory->tree);
  ga_mem_free(memory);
}

unit_counts layer_memory_counts(const layer_memory *memory, int32_t kind) {
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

int32_t layer_memory_n_kinds(const layer_memory *memory) { return memory->options.n_kinds; }
const memory_kind *layer_memory_kind(const layer_memory *memory, int32_t kind) { return &memory->options.kinds[kind]; }
int32_t layer_memory_page_tokens(const layer_memory *memory) { return memory->options.page_tokens; }

void layer_memory_describe(const layer_memory *memory, char *text, size_t size) {
  size_t at = 0;
  text[0] = 0;
  for (int32_t kind = 0; kind < memory->options.n_kinds && at < size; kind++)
    at += (size_t)snprintf(text + at, size - at, "%s%d units of %s", kind ? ", " : "", memory->pool[kind].total,
                           memory->options.kinds[kind].name);
}

/* --- units of a sequence --- */

ga_status layer_memory_reserve(const layer_memory *memory, sequence_memory *sequence, int32_t length) {
  const int32_t need = memory_pages_of(memory, length);
  int32_t room = (int32_t)ga_max_i64(need, ga_min_i64((int64_t)sequence->room * 2, INT32_MAX));
  void *units[MEMORY_KINDS_MAX] = {NULL};
  if (need <= sequence->room) return GA_OK;
  for (int32_t i = 0; i < memory->pages.n; i++) {
    const ga_status status = ga_mem_zalloc((size_t)room, sizeof(int32_t), "table of units", &units[i]);
    if (status == GA_OK) continue;
    while (i-- > 0) ga_mem_free(units[i]);
    return status;
  }
  for (int32_t i = 0; i < memory->pages.n; i++) {
    int32_t **table = &sequence->units[memory->pages.at[i]];
    if (sequence->n_pages) memcpy(units[i], *table, (size_t)sequence->n_pages * sizeof(int32_t));
    ga_mem_free(*table);
    *table = units[i];
  }
  sequence->room = room;
  return GA_OK;
}

void layer_memory_need(const layer_memory *memory, const sequence_memory *sequence, int32_t length, int32_t chunk,
                       int32_t need[MEMORY_KINDS_MAX]) {
  const int64_t more = ga_max_i64(memory_pages_of(memory, length) - sequence->n_pages, 0);
  const int64_t size = memory->options.page_tokens;
  memset(need, 0, MEMORY_KINDS_MAX * sizeof *need);
  for (int32_t i = 0; i < memory->chained.n; i++) need[memory->chained.at[i]] = (int32_t)more;
  for (int32_t i = 0; i < memory->windows.n; i++) {
    const int32_t kind = memory->windows.at[i];
    const int64_t window = memory->options.kinds[kind].window;
    const int64_t seen = ga_div_up(window - 2 + chunk, size) + 1; /* wherever a page begins */
    const int64_t held = ga_max_i64(0, sequence->n_pages - sequence->first_seen[kind]);
    need[kind] = (int32_t)ga_max_i64(ga_min_i64(more, seen - held), 0);
  }
  for (int32_t i = 0; i < memory->states.n; i++) need[memory->states.at[i]] = !sequence->has_state;
}

bool layer_memory_fits(const layer_memory *memory, int32_t length) {
  const sequence_memory none = {.n_pages = 0};
  int32_t need[MEMORY_KINDS_MAX];
  bool fits = true;
  layer_memory_need(memory, &none, length, 1, need);
  for (int32_t kind = 0; kind < memory->options.n_kinds; kind++) fits = fits && need[kind] <= memory->pool[kind].total;
  return fits;
}

int32_t layer_memory_room_within(const layer_memory *memory, const sequence_memory *sequence,
                                 const int32_t spare[MEMORY_KINDS_MAX]) {
  int64_t most = INT32_MAX;
  for (int32_t i = 0; i < memory->pages.n; i++) most = ga_min_i64(most, spare[memory->pages.at[i]]);
  for (int32_t i = 0; i < memory->states.n; i++)
    if (!sequence->has_state && spare[memory->states.at[i]] < 1) return 0;
  return (int32_t)ga_max_i64(0, ga_min_i64((most + sequence->n_pages) * memory->options.page_tokens, INT32_MAX));
}

int32_t layer_memory_room(const layer_memory *memory, const sequence_memory *sequence) {
  int32_t available[MEMORY_KINDS_MAX];
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) available[kind] = memory_available(memory, kind);
  return layer_memory_room_within(memory, sequence, available);
}

bool layer_memory_has_room(const layer_memory *memory, const sequence_memory *sequence, int32_t length) {
  return length <= layer_memory_room(memory, sequence);
}

int32_t layer_memory_chunk(const layer_memory *memory, int32_t begin, int32_t n) {
  const int32_t border = (begin + n) / memory->options.page_tokens * memory->options.page_tokens;
  return memory->states.n && border > begin ? border - begin : n;
}

ga_status layer_memory_extend(layer_memory *memory, sequence_memory *sequence, int32_t length) {
  const int32_t need = memory_pages_of(memory, length);
  const bool lacks_state = memory->states.n && !sequence->has_state;
  if (need <= sequence->n_pages && !lacks_state) return GA_OK;
  GA_REQUIRE(layer_memory_has_room(memory, sequence, length), GA_ERR_BUSY,
             "layer memory: no room for %d tokens; there is for %d", length, layer_memory_room(memory, sequence));
  GA_TRY(layer_memory_reserve(memory, sequence, length));
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k];
    for (int32_t i = sequence->n_pages; i < need; i++) sequence->units[kind][i] = memory_take_unit(memory, kind);
  }
  if (need > sequence->n_pages) sequence->n_pages = need;
  if (lacks_state) memory_load_states(memory, sequence, NULL);
  return GA_OK;
}

const int32_t *layer_memory_units(const layer_memory *memory, const sequence_memory *sequence, int32_t kind,
                                  int32_t *n) {
  const bool is_page = memory->options.kinds[kind].unit_tokens;
  *n = is_page ? sequence->n_pages : sequence->has_state;
  return is_page ? sequence->units[kind] : &sequence->state[kind];
}

/* --- joining the tree --- */

/* Removes begun pages that the new page begins with, unless they have snapshots of their own. Returns until when the
 * new page is to be kept for them. */
static double remove_begun(layer_memory *memory, prefix_node *parent, const int32_t *ids, int32_t n) {
  double until = 0;
  if (memory->states.n) return 0;
  for (prefix_node *begun; (begun = prefix_tree_begun(&memory->tree, parent, ids, n)) != NULL;) {
    if (begun->keep_until > until) until = begun->keep_until;
    memory_drop_node(memory, begun);
  }
  return until;
}

/* Adds a node with the sequence's i-th pages. NULL: the tree is full. */
static prefix_node *add_node(layer_memory *memory, prefix_node *parent, const sequence_memory *sequence, int32_t i,
                             const int32_t *ids, int32_t n) {
  const double until = remove_begun(memory, parent, ids, n);
  prefix_node *node = prefix_tree_add(&memory->tree, parent, ids, n);
  if (!node && memory_oldest_node(memory)) {
    memory_drop_node(memory, memory_oldest_node(memory));
    node = prefix_tree_add(&memory->tree, parent, ids, n);
  }
  for (int32_t k = 0; node && k < memory->pages.n; k++)
    memory_give_unit(memory, memory->pages.at[k], node, sequence->units[memory->pages.at[k]][i]);
  if (node && until > 0) memory_keep_node(memory, node, until);
  return node;
}

/* Replaces the pages of a node that no sequence uses by the sequence's i-th. */
static void replace_pages(layer_memory *memory, prefix_node *node, const sequence_memory *sequence, int32_t i) {
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k], unit = sequence->units[kind][i];
    if (unit == MEMORY_NO_UNIT) continue;
    memory_free_unit(memory, kind, node);
    memory_give_unit(memory, kind, node, unit);
  }
}

/* Exchanges the i-th pages of a sequence that ends for the node's; gives the node those that it lacks. */
static void merge_pages(layer_memory *memory, prefix_node *node, sequence_memory *sequence, int32_t i) {
  for (int32_t k = 0; k < memory->pages.n; k++) {
    const int32_t kind = memory->pages.at[k], unit = sequence->units[kind][i];
    if (unit == MEMORY_NO_UNIT) continue;
    if (node->unit[kind] == MEMORY_NO_UNIT) {
      memory_give_unit(memory, kind, node, unit);
      continue;
    }
    memory_pin_unit(memory, kind, node->unit[kind]);
    memory_unpin_unit(memory, kind, unit);
    sequence->units[kind][i] = node->unit[kind];
  }
}

/* Makes whole pages of [0, n) nodes of the tree. A running sequence keeps its table as it is: it stops where another
 * sequence uses a node for the same page, and goes on when that node is unused, or at its end. */
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

/* Makes the begun page after the whole ones a leaf. NULL: there is none, or another leaf has its tokens. */
static prefix_node *join_begun(layer_memory *memory, prefix_node *root, const sequence_memory *sequence,
                               const int32_t *ids, int32_t n) {
  const int32_t size = memory->options.page_tokens, rest = n % size;
  prefix_node *parent = sequence->node ? sequence->node : root;
  int32_t same;
  if (!rest || sequence->n_nodes != n / size) return NULL;
  ids += n - rest;
  (void)prefix_tree_similar(&memory->tree, parent, ids, rest, memory->leaves, &same);
  if (same == rest) return NULL;
  prefix_node *node = add_node(memory, parent, sequence, n / size, ids, rest);
  if (node) memory_link_node(memory, node);
  return node;
}

/* A request wants the node kept until its time has come. */
static bool has_lease(const prefix_node *node) { return node->keep_until > 0; }

/* Removes what earlier turns have left of the begun page, unless it is to be kept. */
static void drop_begun(layer_memory *memory, prefix_node *root, const sequence_memory *sequence, const int32_t *ids,
                       int32_t n) {
  const int32_t size = memory->options.page_tokens, rest = n % size;
  prefix_node *parent = sequence->node ? sequence->node : root;
  if (sequence->n_nodes != n / size) return;
  for (prefix_node *begun;;) {
    begun = prefix_tree_begun(&memory->tree, parent, ids + (n - rest), rest + 1);
    if (!begun || has_lease(begun)) return;
    memory_drop_node(memory, begun);
  }
}

static void mark_swapped(prefix_node *last) {
  for (prefix_node *node = last; node && node->parent; node = node->parent) node->swapped = true;
}

/* Best effort: no more than most_kept nodes. */
static void keep_path(layer_memory *memory, prefix_node *last, double until) {
  int32_t n = 0;
  for (const prefix_node *node = last; node && node->parent; node = node->parent) n += !has_lease(node);
  if (memory->n_keeping + n > memory->most_kept) return;
  for (prefix_node *node = last; node && node->parent; node = node->parent) memory_keep_node(memory, node, until);
}

/* Gives back pages of tokens that a token at position n does not read. */
static void drop_passed(layer_memory *memory, sequence_memory *sequence, int32_t n) {
  for (int32_t k = 0; k < memory->windows.n; k++) {
    const int32_t kind = memory->windows.at[k], first = memory_first_needed(memory, kind, n);
    int32_t *units = sequence->units[kind];
    for (int32_t i = sequence->first_seen[kind]; i < first; i++) {
      memory_unpin_unit(memory, kind, units[i]);
      units[i] = MEMORY_NO_UNIT;
    }
    if (first > sequence->first_seen[kind]) sequence->first_seen[kind] = first;
  }
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
    memory_join_snapshots(memory, sequence);
    root->users--;
    prefix_tree_tidy(&memory->tree, root);
  }
  drop_passed(memory, sequence, n);
}

/* --- the end of a sequence --- */

/* Takes a user from the n nodes of a path, the last first, so that it is evicted before its parent. discard: removes
 * nodes that no other prompt continues, and that are not to be kept. */
static void leave_path(layer_memory *memory, prefix_node *last, int32_t n, bool discard) {
  for (prefix_node *node = last, *parent; n-- > 0; node = parent) {
    parent = node->parent;
    if (discard && node->users == 1 && !has_lease(node) && prefix_link_empty(&node->children)) {
      node->users = 0;
      memory_drop_node(memory, node);
    } else {
      memory_unuse_node(memory, node);
    }
  }
}

static void drop_all(layer_memory *memory, sequence_memory *sequence, bool discard) {
  for (int32_t k = 0; k < memory->windows.n; k++) {
    const int32_t kind = memory->windows.at[k];
    for (int32_t i = sequence->first_seen[kind]; i < sequence->n_pages; i++) {
      const int32_t unit = sequence->units[kind][i];
      if (memory->pool[kind].owner[unit]) memory->pool[kind].owner[unit]->wanted = true;
      memory_unpin_unit(memory, kind, unit);
    }
  }
  for (int32_t k = 0; k < memory->chained.n; k++) {
    const int32_t kind = memory->chained.at[k];
    for (int32_t i = sequence->n_pages; i-- > 0;) memory_unpin_unit(memory, kind, sequence->units[kind][i]);
  }
  memory_drop_states(memory, sequence);
  leave_path(memory, sequence->node, sequence->n_nodes, discard);
}

/* Makes the end of a sequence of n tokens a leaf or, of states, a snapshot. Returns the last node of the sequence. */
static prefix_node *join_end(layer_memory *memory, prefix_node *root, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, bool has_states) {
  const bool is_whole = sequence->n_nodes * memory->options.page_tokens == n;
  prefix_node *begun = !memory->states.n || has_states ? join_begun(memory, root, sequence, ids, n) : NULL;
  if (has_states && (begun || (is_whole && sequence->node)))
    memory_join_states(memory, sequence, begun ? begun : sequence->node);
  memory_join_snapshots(memory, sequence);
  return begun ? begun : sequence->node;
}

static void join_all(layer_memory *memory, prefix_node *root, sequence_memory *sequence, const int32_t *ids, int32_t n,
                     const release_policy *policy) {
  prefix_node *last;
  join_tree(memory, root, sequence, ids, n, true);
  if (policy->discard) {
    drop_begun(memory, root, sequence, ids, n);
    last = sequence->node;
  } else {
    last = join_end(memory, root, sequence, ids, n, sequence->has_state && !policy->n_beyond);
  }
  if (policy->swap) mark_swapped(last);
  if (policy->keep_until > 0) keep_path(memory, last, policy->keep_until);
}

void layer_memory_release_as(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, const release_policy *policy) {
  prefix_node *root = memory->options.keep_prefixes && n > 0 ? prefix_tree_root_make(&memory->tree, cache_key) : NULL;
  if (root) {
    root->users++;
    join_all(memory, root, sequence, ids, n, policy);
  }
  drop_all(memory, sequence, policy->discard);
  if (root) {
    root->users--;
    prefix_tree_tidy(&memory->tree, root);
  }
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) ga_mem_free(sequence->units[kind]);
  *sequence = (sequence_memory){.n_pages = 0};
}

void layer_memory_abandon(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                          const release_policy *policy) {
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
  if (policy->keep_until > 0) keep_path(memory, last, policy->keep_until);
  leave_path(memory, last, n_nodes, policy->discard);
  root->users--;
  prefix_tree_tidy(&memory->tree, root);
}

void layer_memory_release(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                          int32_t n) {
  const release_policy plain = {.keep_until = 0};
  layer_memory_release_as(memory, cache_key, sequence, ids, n, &plain);
}

/* --- going back --- */

/* The greatest length up to n to which the sequence can go back with what it has itself; -1: none. Pages of the tree
 * must not be written, and pages that have been given back are missing. */
static int32_t rewind_in_place(const layer_memory *memory, const sequence_memory *sequence, int32_t n_tokens,
                               int32_t n) {
  int32_t length = n;
  if (n < sequence->n_nodes * memory->options.page_tokens) return -1;
  for (int32_t k = 0; k < memory->states.n; k++) {
    if (n_tokens - n <= memory->options.kinds[memory->states.at[k]].exact_rewind) continue;
    int32_t i = sequence->n_snapshots;
    while (i > 0 && sequence->snapshots[i - 1].n_tokens > n) i--;
    length = i ? sequence->snapshots[i - 1].n_tokens : 0;
  }
  for (int32_t k = 0; k < memory->windows.n; k++) {
    const int32_t kind = memory->windows.at[k];
    if (memory_first_needed(memory, kind, length) < sequence->first_seen[kind]) return -1;
  }
  return length < sequence->n_nodes * memory->options.page_tokens ? -1 : length;
}

/* Makes the states those of the sequence's own snapshot at `length` tokens, if they have to change. */
static void restore_states(layer_memory *memory, sequence_memory *sequence, int32_t length) {
  for (int32_t i = 0; i < sequence->n_snapshots; i++) {
    if (sequence->snapshots[i].n_tokens != length) continue;
    for (int32_t k = 0; k < memory->states.n; k++) {
      const int32_t kind = memory->states.at[k];
      memory_add_copy(memory, (unit_copy){kind, UNIT_WITHIN, sequence->snapshots[i].unit[kind], sequence->state[kind]});
    }
  }
  memory_drop_snapshots(memory, sequence, length);
}

int32_t layer_memory_rewind(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                            int32_t n_tokens, int32_t n) {
  prefix_match found;
  if (n >= n_tokens) return n_tokens;
  const int32_t length = rewind_in_place(memory, sequence, n_tokens, n);
  if (length >= 0 && (length == n || !memory->options.keep_prefixes) && memory_can_copy(memory)) {
    restore_states(memory, sequence, length);
    sequence->n_tried = (int32_t)ga_min_i64(sequence->n_tried, length / memory->options.page_tokens);
    return length;
  }
  layer_memory_release(memory, cache_key, sequence, ids, n_tokens);
  if (layer_memory_match(memory, cache_key, ids, n + 1, sequence, &found) != GA_OK) return 0;
  layer_memory_load(memory, sequence, &found);
  return found.tokens;
}
