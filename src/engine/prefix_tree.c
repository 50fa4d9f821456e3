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
    prefix_node **list = i < (size_t)capacity ? &tree->unused : &tree->unused_roots;
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

static uint64_t page_hash(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids) {
  return ga_siphash(tree->key, (uint64_t)parent->index, ids, (size_t)tree->page_tokens * sizeof *ids);
}

static uint64_t root_hash(const prefix_tree *tree, uint64_t cache_key) {
  return ga_siphash(tree->key, UINT64_MAX, &cache_key, sizeof cache_key);
}

static prefix_node **bucket_of(const prefix_tree *tree, uint64_t hash) {
  return &tree->buckets[(uint32_t)hash & tree->mask];
}

static void put_in_bucket(prefix_tree *tree, prefix_node *node, uint64_t hash) {
  prefix_node **bucket = bucket_of(tree, hash);
  node->hash = hash;
  node->chain = *bucket;
  *bucket = node;
}

static void take_from_bucket(prefix_tree *tree, const prefix_node *node) {
  prefix_node **at = bucket_of(tree, node->hash);
  while (*at != node) at = &(*at)->chain;
  *at = node->chain;
}

prefix_node *prefix_tree_root(const prefix_tree *tree, uint64_t cache_key) {
  const uint64_t hash = root_hash(tree, cache_key);
  prefix_node *node = *bucket_of(tree, hash);
  while (node && (node->hash != hash || node->parent || node->cache_key != cache_key)) node = node->chain;
  return node;
}

prefix_node *prefix_tree_child(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids) {
  const size_t bytes = (size_t)tree->page_tokens * sizeof *ids;
  const uint64_t hash = page_hash(tree, parent, ids);
  prefix_node *node = *bucket_of(tree, hash);
  while (node &&
         (node->hash != hash || node->parent != parent || memcmp(prefix_node_tokens(tree, node), ids, bytes) != 0))
    node = node->chain;
  return node;
}

/* --- children --- */

static int32_t n_same(const int32_t *a, const int32_t *b, int32_t n) {
  int32_t i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i;
}

/* Has the node a unit of each kind of the mask? */
static bool has_kinds(const prefix_node *node, uint32_t kinds) {
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++)
    if (kinds >> kind & 1 && node->unit[kind] == MEMORY_NO_UNIT && node->host[kind] == MEMORY_NO_UNIT) return false;
  return true;
}

prefix_node *prefix_tree_similar(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n,
                                 prefix_filter filter, int32_t *same) {
  prefix_node *best = NULL;
  int32_t looked = 0;
  *same = 0;
  for (const prefix_link *at = parent->children.next; at->node && looked < PREFIX_CHILDREN; at = at->next, looked++) {
    if (!has_kinds(at->node, filter.kinds)) continue;
    const int32_t most = at->node->n_tokens < n ? at->node->n_tokens : n;
    const int32_t here = n_same(prefix_node_tokens(tree, at->node), ids, most);
    if (here <= *same || (filter.whole && here < at->node->n_tokens)) continue;
    best = at->node;
    *same = here;
  }
  return best;
}

prefix_node *prefix_tree_begun(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n) {
  int32_t looked = 0;
  for (const prefix_link *at = parent->children.next; at->node && looked < PREFIX_CHILDREN; at = at->next, looked++) {
    const int32_t have = at->node->n_tokens;
    if (have < n && n_same(prefix_node_tokens(tree, at->node), ids, have) == have) return at->node;
  }
  return NULL;
}

void prefix_tree_touch(prefix_node *node) {
  prefix_link *ring = &node->parent->children;
  prefix_link_out(&node->sibling);
  prefix_link_last(ring->next, &node->sibling);
}

/* --- nodes --- */

static prefix_node *take_unused(prefix_node **list, prefix_node *parent, int32_t n_tokens) {
  prefix_node *node = *list;
  if (!node) return NULL;
  *list = node->chain;
  *node = (prefix_node){.parent = parent, .index = node->index, .n_tokens = n_tokens};
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    node->unit[kind] = node->host[kind] = MEMORY_NO_UNIT;
    prefix_link_init(&node->local[kind], node);
  }
  prefix_link_init(&node->children, NULL);
  prefix_link_init(&node->sibling, node);
  prefix_link_init(&node->lru, node);
  return node;
}

prefix_node *prefix_tree_root_make(prefix_tree *tree, uint64_t cache_key) {
  prefix_node *node = prefix_tree_root(tree, cache_key);
  if (node) return node;
  node = take_unused(&tree->unused_roots, NULL, 0);
  if (!node) return NULL;
  node->cache_key = cache_key;
  put_in_bucket(tree, node, root_hash(tree, cache_key));
  tree->n_roots++;
  return node;
}

prefix_node *prefix_tree_add(prefix_tree *tree, prefix_node *parent, const int32_t *ids, int32_t n) {
  prefix_node *node = take_unused(&tree->unused, parent, n);
  if (!node) return NULL;
  memcpy(prefix_node_tokens(tree, node), ids, (size_t)n * sizeof *ids);
  prefix_link_last(parent->children.next, &node->sibling);
  if (n == tree->page_tokens) put_in_bucket(tree, node, page_hash(tree, parent, ids));
  tree->n_nodes++;
  return node;
}

void prefix_tree_tidy(prefix_tree *tree, prefix_node *root) {
  if (root->parent || root->users || !prefix_link_empty(&root->children)) return;
  take_from_bucket(tree, root);
  root->chain = tree->unused_roots;
  tree->unused_roots = root;
  tree->n_roots--;
}

void prefix_tree_remove(prefix_tree *tree, prefix_node *node) {
  prefix_node *parent = node->parent;
  if (node->n_tokens == tree->page_tokens) take_from_bucket(tree, node);
  prefix_link_out(&node->sibling);
  prefix_link_out(&node->lru);
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) prefix_link_out(&node->local[kind]);
  node->chain = tree->unused;
  tree->unused = node;
  tree->n_nodes--;
  prefix_tree_tidy(tree, parent);
}
