/* What the files of kv_pages see of each other. */
#ifndef GA_ENGINE_KV_PAGES_IMPL_H
#define GA_ENGINE_KV_PAGES_IMPL_H

#include "engine/prefix_tree.h"

/* Pages of one kind. A page is held (refs > 0), kept (only the tree has it) or free. */
typedef struct kv_pool {
  int32_t total, n_free, n_held, n_kept;
  int32_t *free;   /* [n_free] the last one goes first */
  int32_t *refs;   /* [total] tables that have the page */
  kv_node **owner; /* [total] the node that has it; NULL: none */
} kv_pool;

/* Pages of one kind in host memory. One is free, or a node's. */
typedef struct kv_host_pool {
  int32_t total, n_free;
  int32_t *free; /* [n_free] */
} kv_host_pool;

struct kv_pages {
  kv_pages_options options;
  kv_pool pool[KV_KINDS];
  kv_host_pool host[KV_KINDS];
  prefix_tree tree;
  /* Nodes without users, the least recently used first, each before its parent. By where the full page is: what is
   * below a node in host memory is there too. Those that are to be kept go behind all others. */
  kv_link order[2][2];  /* [in host memory][to be kept] */
  kv_link keeping_used; /* nodes with users that are to be kept: their time passes, too */
  /* Window pages that only the tree has, the least recently used first: behind their window, wanted, to be kept. */
  kv_link window_order[3];
  kv_link away_window; /* window pages in host memory */
  int32_t n_keeping;   /* nodes that are to be kept */
  double next_expiry;  /* the first of their times that may have come; INFINITY: none */
  kv_copy *copies;     /* [2 * all pages] that have not been made yet, in order */
  int32_t n_copies, n_to_host;
};

GA_INLINE bool kv_has(const kv_pages *pages, kv_kind kind) { return pages->pool[kind].total > 0; }
/* Pages of n tokens. */
GA_INLINE int32_t kv_pages_of(const kv_pages *pages, int32_t n) {
  return n / pages->options.page_tokens + (n % pages->options.page_tokens != 0);
}
/* The first page of which a token at position n still sees something. */
GA_INLINE int32_t kv_first_seen(const kv_pages *pages, int32_t n) {
  const int32_t behind = kv_has(pages, KV_WINDOW) ? n - pages->options.window + 1 : 0;
  return behind > 0 ? behind / pages->options.page_tokens : 0;
}
/* Is that page of the node anywhere? */
GA_INLINE bool kv_node_has(const kv_node *node, kv_kind kind) {
  return node->page[kind] != KV_NO_PAGE || node->host[kind] != KV_NO_PAGE;
}
/* A leaf that no prompt can take: the page before its end has no window page. */
GA_INLINE bool kv_node_useless(const kv_pages *pages, const kv_node *node) {
  return kv_link_empty(&node->children) && kv_has(pages, KV_WINDOW) && !kv_node_has(node, KV_WINDOW) &&
         (pages->options.window > 1 || !kv_has(pages, KV_FULL));
}

/* --- kv_evict.c --- */

/* One table more has the page, or one less. */
void kv_hold_page(kv_pages *pages, kv_kind kind, int32_t page);
void kv_drop_page(kv_pages *pages, kv_kind kind, int32_t page);
/* What the node has of that kind, on the device only in the tree, becomes free. */
void kv_lose_page(kv_pages *pages, kv_kind kind, kv_node *node);
void kv_give_page(kv_pages *pages, kv_kind kind, kv_node *node, int32_t page);
/* For one table. There is one: the caller has counted. */
int32_t kv_take_page(kv_pages *pages, kv_kind kind);
/* The node's page comes from host memory, for one table. */
int32_t kv_bring_page(kv_pages *pages, kv_kind kind, kv_node *node);
void kv_note_copy(kv_pages *pages, kv_copy copy);
/* A node without users, and all below it; then what it leaves useless above it. */
void kv_drop_node(kv_pages *pages, kv_node *node);
/* The node that goes first when the tree is full; NULL: all are in use. */
kv_node *kv_oldest_node(const kv_pages *pages);
void kv_use_node(kv_pages *pages, kv_node *node);
void kv_unuse_node(kv_pages *pages, kv_node *node);
/* A path from its last node on, which may be NULL, is as any again, but for what leads to other swapped nodes. */
void kv_clear_swapped(kv_node *last);
/* Into the order of eviction, as the last. */
void kv_link_node(kv_pages *pages, kv_node *node);
/* At least until then; 0: no longer. */
void kv_keep_node(kv_pages *pages, kv_node *node, double until);

#endif
