/* What kv_pages.c and its check see of the pages. */
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

struct kv_pages {
  kv_pages_options options;
  kv_pool pool[KV_KINDS];
  prefix_tree tree;
  kv_link lru;            /* nodes without users, the least recently used first; each stands before its parent */
  kv_link passed, wanted; /* window pages that only the tree has, the least recently used first */
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
/* A leaf that no prompt can take: the page before its end has no window page. */
GA_INLINE bool kv_node_useless(const kv_pages *pages, const kv_node *node) {
  return kv_link_empty(&node->children) && kv_has(pages, KV_WINDOW) && node->page[KV_WINDOW] == KV_NO_PAGE &&
         (pages->options.window > 1 || !kv_has(pages, KV_FULL));
}

#endif
