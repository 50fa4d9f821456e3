#include "engine/prefix_tree.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"

ga_status prefix_tree_init(prefix_tree *tree, int32_t capacity, int32_t page_tokens) {
  void *p;
  *tree = (prefix_tree){.page_tokens = page_tokens, .capacity = capacity};
  tree->roots = (int32_t)ga_min_i64(capacity, PREFIX_ROOTS);
  ga_secret_keys(tree->key, GA_COUNT_OF(tree->key));
  const size_t n = (size_t)capacity + (size_t)tree->roots;
  size_t buckets = 64;
  while (buckets < n) buckets *= 2;
  tree->mask = (uint32_t)(buckets - 1);
  GA_TRY(ga_mem_zalloc(buckets, sizeof *tree->buckets, "prefix tree", &p));
  tree->buckets = p;
  GA_TRY(ga_mem_zalloc(n, sizeof *tree->nodes, "prefix tree", &p));
  tree->nodes = p;
  GA_TRY(ga_mem_zalloc((size_t)capacity * (size_t)page_tokens, sizeof *tree->tokens, "prefix tree", &p));
  tree->tokens = p;
  for (size_t i = n; i-- > 0;) {
    kv_node **list = i < (size_t)capacity ? &tree->unused : &tree->unused_roots;
    tree->nodes[i].index = (int32_t)i;
    tree->nodes[i].chain = *list;
    *list = &tree->nodes[i];
  }
  return GA_OK;
}

void prefix_tree_free(prefix_tree *tree) {
  ga_mem_free(tree->buckets);
  ga_mem_free(tree->nodes);
  ga_mem_free(tree->tokens);
  *tree = (prefix_tree){0};
}

/* --- the hash table --- */

static uint64_t page_hash(const prefix_tree *tree, const kv_node *parent, const int32_t *ids) {
  return ga_siphash(tree->key, (uint64_t)parent->index, ids, (size_t)tree->page_tokens * sizeof *ids);
}

static uint64_t root_hash(const prefix_tree *tree, uint64_t cache_key) {
  return ga_siphash(tree->key, UINT64_MAX, &cache_key, sizeof cache_key);
}

static kv_node **bucket_of(const prefix_tree *tree, uint64_t hash) {
  return &tree->buckets[(uint32_t)hash & tree->mask];
}

static void put_in_bucket(prefix_tree *tree, kv_node *node, uint64_t hash) {
  kv_node **bucket = bucket_of(tree, hash);
  node->hash = hash;
  node->chain = *bucket;
  *bucket = node;
}

static void take_from_bucket(prefix_tree *tree, const kv_node *node) {
  kv_node **at = bucket_of(tree, node->hash);
  while (*at != node) at = &(*at)->chain;
  *at = node->chain;
}

kv_node *prefix_tree_root(const prefix_tree *tree, uint64_t cache_key) {
  const uint64_t hash = root_hash(tree, cache_key);
  kv_node *node = *bucket_of(tree, hash);
  while (node && (node->hash != hash || node->parent || node->cache_key != cache_key)) node = node->chain;
  return node;
}

kv_node *prefix_tree_child(const prefix_tree *tree, const kv_node *parent, const int32_t *ids) {
  const size_t bytes = (size_t)tree->page_tokens * sizeof *ids;
  const uint64_t hash = page_hash(tree, parent, ids);
  kv_node *node = *bucket_of(tree, hash);
  while (node && (node->hash != hash || node->parent != parent || memcmp(kv_node_tokens(tree, node), ids, bytes) != 0))
    node = node->chain;
  return node;
}

/* --- children --- */

static int32_t n_same(const int32_t *a, const int32_t *b, int32_t n) {
  int32_t i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i;
}

kv_node *prefix_tree_similar(const prefix_tree *tree, const kv_node *parent, const int32_t *ids, int32_t n,
                             bool need_window, int32_t *same) {
  kv_node *best = NULL;
  int32_t looked = 0;
  *same = 0;
  for (const kv_link *at = parent->children.next; at->node && looked < PREFIX_CHILDREN; at = at->next, looked++) {
    if (need_window && at->node->page[KV_WINDOW] == KV_NO_PAGE && at->node->host[KV_WINDOW] == KV_NO_PAGE) continue;
    const int32_t most = at->node->n_tokens < n ? at->node->n_tokens : n;
    const int32_t here = n_same(kv_node_tokens(tree, at->node), ids, most);
    if (here <= *same) continue;
    best = at->node;
    *same = here;
  }
  return best;
}

kv_node *prefix_tree_begun(const prefix_tree *tree, const kv_node *parent, const int32_t *ids, int32_t n) {
  int32_t looked = 0;
  for (const kv_link *at = parent->children.next; at->node && looked < PREFIX_CHILDREN; at = at->next, looked++) {
    const int32_t have = at->node->n_tokens;
    if (have < n && n_same(kv_node_tokens(tree, at->node), ids, have) == have) return at->node;
  }
  return NULL;
}

void prefix_tree_touch(kv_node *node) {
  kv_link *ring = &node->parent->children;
  kv_link_out(&node->sibling);
  kv_link_last(ring->next, &node->sibling);
}

/* --- nodes --- */

static kv_node *take_unused(kv_node **list, kv_node *parent, int32_t n_tokens) {
  kv_node *node = *list;
  if (!node) return NULL;
  *list = node->chain;
  *node = (kv_node){.parent = parent, .index = node->index, .n_tokens = n_tokens};
  for (int kind = 0; kind < KV_KINDS; kind++) node->page[kind] = node->host[kind] = KV_NO_PAGE;
  kv_link_init(&node->children, NULL);
  kv_link_init(&node->sibling, node);
  kv_link_init(&node->lru, node);
  kv_link_init(&node->window, node);
  return node;
}

kv_node *prefix_tree_root_make(prefix_tree *tree, uint64_t cache_key) {
  kv_node *node = prefix_tree_root(tree, cache_key);
  if (node) return node;
  node = take_unused(&tree->unused_roots, NULL, 0);
  if (!node) return NULL;
  node->cache_key = cache_key;
  put_in_bucket(tree, node, root_hash(tree, cache_key));
  tree->n_roots++;
  return node;
}

kv_node *prefix_tree_add(prefix_tree *tree, kv_node *parent, const int32_t *ids, int32_t n) {
  kv_node *node = take_unused(&tree->unused, parent, n);
  if (!node) return NULL;
  memcpy(kv_node_tokens(tree, node), ids, (size_t)n * sizeof *ids);
  kv_link_last(parent->children.next, &node->sibling);
  if (n == tree->page_tokens) put_in_bucket(tree, node, page_hash(tree, parent, ids));
  tree->n_nodes++;
  return node;
}

void prefix_tree_tidy(prefix_tree *tree, kv_node *root) {
  if (root->parent || root->users || !kv_link_empty(&root->children)) return;
  take_from_bucket(tree, root);
  root->chain = tree->unused_roots;
  tree->unused_roots = root;
  tree->n_roots--;
}

void prefix_tree_remove(prefix_tree *tree, kv_node *node) {
  kv_node *parent = node->parent;
  if (node->n_tokens == tree->page_tokens) take_from_bucket(tree, node);
  kv_link_out(&node->sibling);
  kv_link_out(&node->lru);
  kv_link_out(&node->window);
  node->chain = tree->unused;
  tree->unused = node;
  tree->n_nodes--;
  prefix_tree_tidy(tree, parent);
}
