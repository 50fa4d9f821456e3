/* Pages that change hands: held, kept, free; and where kept ones go when others need their place. */
#include <math.h>

#include "engine/kv_pages_impl.h"

/* --- orders of eviction --- */

void kv_link_node(kv_pages *pages, kv_node *node) {
  const bool is_away = node->host[KV_FULL] != KV_NO_PAGE, keeps = node->keep_until > 0;
  kv_link_out(&node->lru);
  kv_link_last(&pages->order[is_away][keeps], &node->lru);
}

static void link_used(kv_pages *pages, kv_node *node) {
  kv_link_out(&node->lru);
  if (node->keep_until > 0) kv_link_last(&pages->keeping_used, &node->lru);
}

static void link_window(kv_pages *pages, kv_node *node) {
  kv_link_out(&node->window);
  kv_link_last(&pages->window_order[!node->wanted ? 0 : node->keep_until > 0 ? 2 : 1], &node->window);
}

/* The first of the rings that has one; NULL: none. */
static kv_node *first_of(const kv_link *rings, int n) {
  for (int i = 0; i < n; i++)
    if (!kv_link_empty(&rings[i])) return rings[i].next->node;
  return NULL;
}

kv_node *kv_oldest_node(const kv_pages *pages) {
  kv_node *away = first_of(pages->order[1], 2);
  return away ? away : first_of(pages->order[0], 2);
}

void kv_keep_node(kv_pages *pages, kv_node *node, double until) {
  const bool was_kept = node->keep_until > 0;
  if (until > 0 && until <= node->keep_until) return;
  pages->n_keeping += (until > 0) - was_kept;
  node->keep_until = until;
  if (until > 0 && until < pages->next_expiry) pages->next_expiry = until;
  if (was_kept == (until > 0)) return;
  if (node->users)
    link_used(pages, node);
  else if (!kv_link_empty(&node->lru))
    kv_link_node(pages, node);
  if (!kv_link_empty(&node->window) && node->page[KV_WINDOW] != KV_NO_PAGE) link_window(pages, node);
}

/* --- one page --- */

void kv_hold_page(kv_pages *pages, kv_kind kind, int32_t page) {
  kv_pool *pool = &pages->pool[kind];
  if (pool->refs[page]++) return;
  pool->n_kept--;
  pool->n_held++;
  if (kind == KV_WINDOW) kv_link_out(&pool->owner[page]->window);
}

static void free_page(kv_pool *pool, int32_t page) { pool->free[pool->n_free++] = page; }

void kv_drop_page(kv_pages *pages, kv_kind kind, int32_t page) {
  kv_pool *pool = &pages->pool[kind];
  if (--pool->refs[page]) return;
  pool->n_held--;
  kv_node *owner = pool->owner[page];
  if (!owner) {
    free_page(pool, page);
    return;
  }
  pool->n_kept++;
  if (kind == KV_WINDOW) link_window(pages, owner);
}

static void lose_host_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  kv_host_pool *host = &pages->host[kind];
  if (node->host[kind] == KV_NO_PAGE) return;
  host->free[host->n_free++] = node->host[kind];
  node->host[kind] = KV_NO_PAGE;
  if (kind == KV_WINDOW) kv_link_out(&node->window);
}

static void lose_device_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  kv_pool *pool = &pages->pool[kind];
  const int32_t page = node->page[kind];
  if (page == KV_NO_PAGE) return;
  node->page[kind] = KV_NO_PAGE;
  pool->owner[page] = NULL;
  pool->n_kept--;
  free_page(pool, page);
  if (kind == KV_WINDOW) kv_link_out(&node->window);
}

void kv_lose_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  lose_device_page(pages, kind, node);
  lose_host_page(pages, kind, node);
}

void kv_give_page(kv_pages *pages, kv_kind kind, kv_node *node, int32_t page) {
  if (page == KV_NO_PAGE) return;
  lose_host_page(pages, kind, node);
  node->page[kind] = page;
  pages->pool[kind].owner[page] = node;
}

void kv_note_copy(kv_pages *pages, kv_copy copy) {
  pages->copies[pages->n_copies++] = copy;
  pages->n_to_host += copy.way == KV_TO_HOST;
}

/* --- nodes that go --- */

/* A leaf without users goes, and what it leaves useless above it. */
static void remove_node(kv_pages *pages, kv_node *node) {
  for (;;) {
    kv_node *parent = node->parent;
    for (int kind = 0; kind < KV_KINDS; kind++) kv_lose_page(pages, (kv_kind)kind, node);
    const bool is_root = !parent->parent; /* it may go with the node */
    kv_keep_node(pages, node, 0);
    prefix_tree_remove(&pages->tree, node);
    if (is_root || parent->users || !kv_node_useless(pages, parent)) return;
    node = parent;
  }
}

void kv_drop_node(kv_pages *pages, kv_node *node) {
  for (;;) {
    kv_node *leaf = node;
    while (!kv_link_empty(&leaf->children)) leaf = leaf->children.next->node;
    if (leaf == node) break;
    for (int kind = 0; kind < KV_KINDS; kind++) kv_lose_page(pages, (kv_kind)kind, leaf);
    kv_keep_node(pages, leaf, 0);
    prefix_tree_remove(&pages->tree, leaf);
  }
  remove_node(pages, node);
}

/* --- to host memory, and back --- */

static bool goes_to_host(const kv_pages *pages, kv_kind kind, const kv_node *node) {
  if (!pages->host[kind].total || !(node->swapped || node->keep_until > 0 || pages->options.offload_prefixes))
    return false;
  return pages->n_to_host < pages->pool[KV_FULL].total + pages->pool[KV_WINDOW].total;
}

/* A free page in host memory; the least recently used one there goes for it. false: all are being brought back. */
static bool make_host_room(kv_pages *pages, kv_kind kind) {
  while (!pages->host[kind].n_free) {
    kv_node *oldest = kind == KV_FULL ? first_of(pages->order[1], 2) : pages->away_window.next->node;
    if (!oldest) return false;
    if (kind == KV_FULL) {
      kv_drop_node(pages, oldest);
      continue;
    }
    lose_host_page(pages, KV_WINDOW, oldest);
    if (!oldest->users && kv_node_useless(pages, oldest)) kv_drop_node(pages, oldest);
  }
  return true;
}

/* There is room. */
static void send_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  kv_host_pool *host = &pages->host[kind];
  const int32_t to = host->free[--host->n_free];
  kv_note_copy(pages, (kv_copy){kind, KV_TO_HOST, node->page[kind], to});
  lose_device_page(pages, kind, node);
  node->host[kind] = to;
  if (kind == KV_WINDOW) kv_link_last(&pages->away_window, &node->window);
}

/* Its window page first: while that is on the device, the node is of use and stays. */
static void send_node(kv_pages *pages, kv_node *node) {
  if (node->page[KV_WINDOW] != KV_NO_PAGE) {
    if (node->wanted && goes_to_host(pages, KV_WINDOW, node) && make_host_room(pages, KV_WINDOW))
      send_page(pages, KV_WINDOW, node);
    else
      kv_lose_page(pages, KV_WINDOW, node);
  }
  if (kv_node_useless(pages, node)) {
    kv_drop_node(pages, node);
    return;
  }
  send_page(pages, KV_FULL, node);
  kv_link_node(pages, node);
}

int32_t kv_bring_page(kv_pages *pages, kv_kind kind, kv_node *node) {
  const int32_t to = kv_take_page(pages, kind);
  kv_note_copy(pages, (kv_copy){kind, KV_FROM_HOST, node->host[kind], to});
  kv_give_page(pages, kind, node, to);
  return to;
}

/* --- eviction --- */

static bool evict_full(kv_pages *pages) {
  const kv_pool *pool = &pages->pool[KV_FULL];
  kv_node *first = first_of(pages->order[0], 2);
  if (!first) return false;
  const bool sends = goes_to_host(pages, KV_FULL, first) && make_host_room(pages, KV_FULL);
  if (pool->n_free) return true; /* what went for room in host memory has left useless nodes on the device */
  if (sends)
    send_node(pages, first);
  else
    kv_drop_node(pages, first);
  return true;
}

/* What a next turn does not need goes first. */
static bool evict_window(kv_pages *pages) {
  kv_node *node = first_of(pages->window_order, 3);
  if (!node) return false;
  if (node->wanted && goes_to_host(pages, KV_WINDOW, node) && make_host_room(pages, KV_WINDOW)) {
    send_page(pages, KV_WINDOW, node);
    return true;
  }
  kv_lose_page(pages, KV_WINDOW, node);
  if (!node->users && kv_node_useless(pages, node)) kv_drop_node(pages, node);
  return true;
}

int32_t kv_take_page(kv_pages *pages, kv_kind kind) {
  kv_pool *pool = &pages->pool[kind];
  while (!pool->n_free)
    if (!(kind == KV_FULL ? evict_full(pages) : evict_window(pages))) return KV_NO_PAGE;
  const int32_t page = pool->free[--pool->n_free];
  pool->refs[page] = 1;
  pool->n_held++;
  return page;
}

/* --- nodes of a sequence's path --- */

void kv_use_node(kv_pages *pages, kv_node *node) {
  if (node->users++ == 0) link_used(pages, node);
}

void kv_unuse_node(kv_pages *pages, kv_node *node) {
  if (--node->users) return;
  if (kv_node_useless(pages, node))
    kv_drop_node(pages, node);
  else
    kv_link_node(pages, node);
}

static bool leads_to_swapped(const kv_node *node) {
  for (const kv_link *at = node->children.next; at->node; at = at->next)
    if (at->node->swapped) return true;
  return false;
}

void kv_clear_swapped(kv_node *last) {
  for (kv_node *node = last; node && node->parent; node = node->parent) {
    if (!node->swapped) continue;
    if (leads_to_swapped(node)) return;
    node->swapped = false;
  }
}

/* --- time --- */

/* Those of a ring, in their order, whose time has come. */
static void expire_ring(kv_pages *pages, const kv_link *ring, double now) {
  for (kv_link *at = ring->next, *next; at->node; at = next) {
    next = at->next;
    if (at->node->keep_until <= now)
      kv_keep_node(pages, at->node, 0);
    else if (at->node->keep_until < pages->next_expiry)
      pages->next_expiry = at->node->keep_until;
  }
}

void kv_pages_expire(kv_pages *pages, double now) {
  if (now < pages->next_expiry) return;
  pages->next_expiry = INFINITY;
  for (int is_away = 0; is_away < 2; is_away++) expire_ring(pages, &pages->order[is_away][1], now);
  expire_ring(pages, &pages->keeping_used, now);
}
