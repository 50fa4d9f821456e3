#include "base/mem.h"
#include "base/status.h"
#include "engine/kv_pages_impl.h"

#define KV_EXPECT(cond, ...) GA_REQUIRE(cond, GA_ERR_INTERNAL, "kv pages: " __VA_ARGS__)

/* What the sequences say of each page and node. */
typedef struct kv_tally {
  int32_t *refs[KV_KINDS], *host[KV_KINDS], *users, *order;
} kv_tally;

static ga_status alloc_tally(const kv_pages *pages, kv_tally *tally) {
  const size_t nodes = (size_t)pages->tree.capacity + (size_t)pages->tree.roots + 1;
  void *p;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_TRY(ga_mem_zalloc((size_t)pages->pool[kind].total + 1, sizeof(int32_t), "check of kv pages", &p));
    tally->refs[kind] = p;
    GA_TRY(ga_mem_zalloc((size_t)pages->host[kind].total + 1, sizeof(int32_t), "check of kv pages", &p));
    tally->host[kind] = p;
  }
  GA_TRY(ga_mem_zalloc(nodes, sizeof(int32_t), "check of kv pages", &p));
  tally->users = p;
  GA_TRY(ga_mem_zalloc(nodes, sizeof(int32_t), "check of kv pages", &p));
  tally->order = p;
  return GA_OK;
}

static ga_status verify_sequence(const kv_pages *pages, const kv_sequence *q, const kv_tally *tally) {
  KV_EXPECT(q->n_nodes <= q->n_pages && q->n_pages <= q->room, "sequence: %d nodes, %d pages, room for %d", q->n_nodes,
            q->n_pages, q->room);
  const kv_node *node = q->node;
  for (int32_t i = q->n_nodes; i-- > 0; node = node->parent) {
    KV_EXPECT(node && node->parent && node->n_tokens == pages->options.page_tokens, "path of a sequence breaks at %d",
              i);
    tally->users[node->index]++;
    for (int kind = 0; kind < KV_KINDS; kind++) {
      if (!kv_has(pages, (kv_kind)kind) || (kind == KV_WINDOW && i < q->first_in_window)) continue;
      KV_EXPECT(q->table[kind][i] == node->page[kind], "table of kind %d says page %d at %d, its node says %d", kind,
                q->table[kind][i], i, node->page[kind]);
    }
  }
  KV_EXPECT(!node || !node->parent, "path of a sequence is longer than %d", q->n_nodes);
  for (int kind = 0; kind < KV_KINDS; kind++) {
    for (int32_t i = 0; i < q->n_pages && kv_has(pages, (kv_kind)kind); i++) {
      const int32_t page = q->table[kind][i];
      if (kind == KV_WINDOW && i < q->first_in_window) {
        KV_EXPECT(page == KV_NO_PAGE, "page %d behind the window", page);
        continue;
      }
      KV_EXPECT(page >= 0 && page < pages->pool[kind].total, "page %d of kind %d in a table", page, kind);
      tally->refs[kind][page]++;
    }
  }
  return GA_OK;
}

static ga_status verify_pool(const kv_pages *pages, kv_kind kind, const kv_tally *tally) {
  const kv_pool *pool = &pages->pool[kind];
  int32_t held = 0, kept = 0, freed = 0;
  for (int32_t i = 0; i < pool->n_free; i++) {
    const int32_t page = pool->free[i];
    KV_EXPECT(!pool->refs[page] && !pool->owner[page], "page %d of kind %d is free and in use", page, kind);
  }
  for (int32_t i = 0; i < pool->total; i++) {
    KV_EXPECT(pool->refs[i] == tally->refs[kind][i], "page %d of kind %d: %d references, %d tables have it", i, kind,
              pool->refs[i], tally->refs[kind][i]);
    KV_EXPECT(!pool->owner[i] || pool->owner[i]->page[kind] == i, "page %d of kind %d is not its node's", i, kind);
    held += pool->refs[i] > 0;
    kept += !pool->refs[i] && pool->owner[i];
    freed += !pool->refs[i] && !pool->owner[i];
  }
  KV_EXPECT(held == pool->n_held && kept == pool->n_kept && freed == pool->n_free,
            "kind %d: %d held, %d kept, %d free; counted %d, %d, %d", kind, pool->n_held, pool->n_kept, pool->n_free,
            held, kept, freed);
  return GA_OK;
}

/* Nodes of one order of eviction, numbered from *n on. */
static ga_status verify_order(const kv_pages *pages, const kv_link *ring, const kv_tally *tally, int32_t *n) {
  for (const kv_link *at = ring->next; at->node; at = at->next) {
    KV_EXPECT(at->next->prev == at, "order of eviction: a link is broken");
    KV_EXPECT(!at->node->users && ++*n <= pages->tree.capacity, "order of eviction: a node in use");
    const bool is_away = at->node->host[KV_FULL] != KV_NO_PAGE, keeps = at->node->keep_until > 0;
    KV_EXPECT(ring == &pages->order[is_away][keeps], "node %d is in the wrong order", at->node->index);
    tally->order[at->node->index] = *n;
  }
  return GA_OK;
}

/* Each node that is to be kept stands where its time will be seen. */
static ga_status verify_keeping(const kv_pages *pages) {
  const kv_link *const rings[] = {&pages->order[0][1], &pages->order[1][1], &pages->keeping_used};
  int32_t n = 0;
  for (size_t i = 0; i < GA_COUNT_OF(rings); i++) {
    for (const kv_link *at = rings[i]->next; at->node; at = at->next, n++) {
      KV_EXPECT(at->node->keep_until >= pages->next_expiry, "node %d will be kept for ever", at->node->index);
      KV_EXPECT((at->node->users > 0) == (i == 2), "node %d, of %d users, is to be kept", at->node->index,
                at->node->users);
    }
  }
  KV_EXPECT(n == pages->n_keeping, "%d nodes are to be kept, counted %d", n, pages->n_keeping);
  return GA_OK;
}

/* What is in host memory goes before what is on the device, and what is to be kept behind what is not. */
static ga_status verify_rings(const kv_pages *pages, const kv_tally *tally) {
  int32_t n = 0, in_rings = 0, away = 0;
  GA_TRY(verify_keeping(pages));
  for (int i = 0; i < 4; i++) GA_TRY(verify_order(pages, &pages->order[i < 2][i % 2], tally, &n));
  for (int list = 0; list < 3; list++) {
    for (const kv_link *at = pages->window_order[list].next; at->node; at = at->next) {
      const int32_t page = at->node->page[KV_WINDOW];
      KV_EXPECT(page != KV_NO_PAGE && !pages->pool[KV_WINDOW].refs[page], "window page %d stands to be evicted", page);
      in_rings++;
    }
  }
  KV_EXPECT(in_rings == pages->pool[KV_WINDOW].n_kept, "%d of %d kept window pages stand to be evicted", in_rings,
            pages->pool[KV_WINDOW].n_kept);
  for (const kv_link *at = pages->away_window.next; at->node; at = at->next, away++)
    KV_EXPECT(at->node->host[KV_WINDOW] != KV_NO_PAGE, "node %d has no window page in host memory", at->node->index);
  KV_EXPECT(away == pages->host[KV_WINDOW].total - pages->host[KV_WINDOW].n_free,
            "%d window pages in host memory stand to be evicted", away);
  return GA_OK;
}

/* Each page in host memory is free or one node's. */
static ga_status verify_host(const kv_pages *pages, kv_kind kind, const kv_tally *tally) {
  const kv_host_pool *host = &pages->host[kind];
  for (int32_t i = 0; i < host->n_free; i++) tally->host[kind][host->free[i]]++;
  for (int32_t i = 0; i < host->total; i++)
    KV_EXPECT(tally->host[kind][i] == 1, "page %d of kind %d in host memory has %d owners", i, kind,
              tally->host[kind][i]);
  return GA_OK;
}

static ga_status verify_node(const kv_pages *pages, const kv_node *node, const kv_tally *tally) {
  const prefix_tree *tree = &pages->tree;
  const kv_node *parent = node->parent;
  const int32_t i = node->index;
  KV_EXPECT(node->users == tally->users[i], "node %d: %d users, %d sequences", i, node->users, tally->users[i]);
  if (!parent) {
    KV_EXPECT(prefix_tree_root(tree, node->cache_key) == node, "root %d is not found", i);
    KV_EXPECT(!kv_link_empty(&node->children), "root %d without children", i);
    return GA_OK;
  }
  KV_EXPECT((node->users == 0) == (tally->order[i] > 0), "node %d: %d users, place %d", i, node->users,
            tally->order[i]);
  KV_EXPECT(!parent->parent || parent->users >= node->users, "node %d has more users than its parent", i);
  KV_EXPECT(!parent->parent || parent->users || tally->order[i] < tally->order[parent->index],
            "node %d would be evicted after its parent", i);
  KV_EXPECT(!parent->parent || parent->keep_until >= node->keep_until, "node %d is to be kept longer than its parent",
            i);
  KV_EXPECT(!parent->parent || parent->swapped >= node->swapped, "node %d is swapped, its parent not", i);
  KV_EXPECT(node->users || !kv_node_useless(pages, node), "node %d is of no use", i);
  KV_EXPECT(!kv_has(pages, KV_FULL) || kv_node_has(node, KV_FULL), "node %d without a page", i);
  KV_EXPECT(!node->users || node->host[KV_FULL] == KV_NO_PAGE, "node %d is in use and in host memory", i);
  for (int kind = 0; kind < KV_KINDS; kind++) {
    KV_EXPECT(node->page[kind] == KV_NO_PAGE || node->host[kind] == KV_NO_PAGE, "node %d has two pages of kind %d", i,
              kind);
    if (node->host[kind] != KV_NO_PAGE) tally->host[kind][node->host[kind]]++;
    KV_EXPECT(node->page[kind] == KV_NO_PAGE || pages->pool[kind].owner[node->page[kind]] == node,
              "node %d is not the owner of page %d", i, node->page[kind]);
  }
  if (node->n_tokens == tree->page_tokens)
    KV_EXPECT(prefix_tree_child(tree, parent, kv_node_tokens(tree, node)) == node, "node %d is not found", i);
  else
    KV_EXPECT(kv_link_empty(&node->children) && node->n_tokens > 0, "begun node %d has children", i);
  return GA_OK;
}

/* All nodes below the root, each once. */
static ga_status verify_below(const kv_pages *pages, const kv_node *root, const kv_tally *tally, int32_t *n_nodes) {
  const kv_node *node = root;
  while (node) {
    GA_TRY(verify_node(pages, node, tally));
    if (node->parent) ++*n_nodes;
    KV_EXPECT(*n_nodes <= pages->tree.n_nodes, "the tree has more than its %d nodes", pages->tree.n_nodes);
    if (!kv_link_empty(&node->children)) {
      const kv_node *child = node->children.next->node;
      KV_EXPECT(child->parent == node, "child %d of another parent", child->index);
      node = child;
      continue;
    }
    while (node != root && !node->sibling.next->node) node = node->parent;
    node = node == root ? NULL : node->sibling.next->node;
  }
  return GA_OK;
}

static ga_status verify_tree(const kv_pages *pages, const kv_tally *tally) {
  const prefix_tree *tree = &pages->tree;
  int32_t n_nodes = 0, n_roots = 0;
  if (!pages->options.keep_prefixes) return GA_OK;
  GA_TRY(verify_rings(pages, tally));
  for (uint32_t i = 0; i <= tree->mask; i++) {
    for (const kv_node *node = tree->buckets[i]; node; node = node->chain) {
      if (node->parent) continue;
      n_roots++;
      GA_TRY(verify_below(pages, node, tally, &n_nodes));
    }
  }
  for (int kind = 0; kind < KV_KINDS; kind++) GA_TRY(verify_host(pages, (kv_kind)kind, tally));
  KV_EXPECT(n_nodes == tree->n_nodes && n_roots == tree->n_roots, "%d nodes and %d roots; %d and %d are in use",
            n_nodes, n_roots, tree->n_nodes, tree->n_roots);
  return GA_OK;
}

ga_status kv_pages_verify(const kv_pages *pages, const kv_sequence *const *sequences, int32_t n) {
  kv_tally tally = {.users = NULL};
  ga_status status;
  GA_TRY_OUT(alloc_tally(pages, &tally));
  for (int32_t i = 0; i < n; i++) GA_TRY_OUT(verify_sequence(pages, sequences[i], &tally));
  for (int kind = 0; kind < KV_KINDS; kind++) GA_TRY_OUT(verify_pool(pages, (kv_kind)kind, &tally));
  status = verify_tree(pages, &tally);
out:
  for (int kind = 0; kind < KV_KINDS; kind++) {
    ga_mem_free(tally.refs[kind]);
    ga_mem_free(tally.host[kind]);
  }
  ga_mem_free(tally.users);
  ga_mem_free(tally.order);
  return status;
}
