/* The tree of cached prefixes of prompts, for layer_memory.h: its nodes, and how they are found.
 *
 * A root stands for a cache key and has no tokens. Every other node holds a page of tokens that follows its parent's.
 * Whole pages are in a hash table, by parent and tokens; its hash has a secret key, and a hit is compared token by
 * token. A partly filled page is a leaf in its parent's list of children, and not in the table.
 */
#ifndef GA_ENGINE_PREFIX_TREE_H
#define GA_ENGINE_PREFIX_TREE_H

#include "base/compiler.h"
#include "engine/layer_memory.h"

/* Largest number of a node's children that are compared with the prompt's next tokens when no whole page matches: the
 * most recently used ones. */
#define PREFIX_CHILDREN 16
/* Largest number of cache keys that have pages at one time. Requests with further keys cache nothing. */
#define PREFIX_ROOTS 65536

/* An element of a circular list. A link that is in no list points to itself. */
typedef struct prefix_link {
  struct prefix_link *next, *prev;
  prefix_node *node; /* node that the link belongs to; NULL: the head of the list */
} prefix_link;

struct prefix_node {
  prefix_node *parent;                 /* NULL: the node is a root */
  prefix_node *chain;                  /* next node of the same hash bucket, or of the list of unused nodes */
  prefix_link children;                /* head of the list of the node's children, the most recently used first */
  prefix_link sibling;                 /* link in the parent's children */
  prefix_link lru;                     /* link in one of the lists layer_memory.order, or in the list keeping_used */
  prefix_link local[MEMORY_KINDS_MAX]; /* [kind] link in one of the lists layer_memory.local_order, or local_swapped */
  uint64_t hash, cache_key;
  int32_t index;
  /* tokens of the node's page: page_tokens, fewer if it is partly filled; 0 for a root */
  int32_t n_tokens;
  int32_t users;                  /* number of sequences that have the node on their path from the root */
  int32_t unit[MEMORY_KINDS_MAX]; /* [kind] unit on the device; MEMORY_NO_UNIT: none */
  /* [kind] unit in host memory; MEMORY_NO_UNIT: none. At most one of unit and host is set */
  int32_t host[MEMORY_KINDS_MAX];
  /* time until which the node is evicted after nodes without this priority; 0: no priority. The parent's time is at
   * least as late */
  double keep_until;
  /* a preempted request uses the node: its units are copied to host memory before eviction. The parent is swapped,
   * too */
  bool swapped;
  /* a sequence began or ended where the node's local units are needed: they are evicted later than the local units of
   * other nodes */
  bool wanted;
};

typedef struct prefix_tree {
  uint64_t key[2];
  int32_t page_tokens, capacity, roots; /* nodes [0, capacity) have tokens, [capacity, capacity + roots) are roots */
  int32_t n_nodes;                      /* number of nodes in use, without roots */
  int32_t n_roots;                      /* roots in use */
  uint32_t mask;
  prefix_node *nodes, **buckets, *unused, *unused_roots;
  int32_t *tokens; /* [capacity][page_tokens] token ids of each node */
} prefix_tree;

GA_INLINE void prefix_link_init(prefix_link *link, prefix_node *node) {
  link->next = link->prev = link;
  link->node = node;
}
GA_INLINE bool prefix_link_empty(const prefix_link *link) { return link->next == link; }
GA_INLINE void prefix_link_out(prefix_link *link) {
  link->next->prev = link->prev;
  link->prev->next = link->next;
  link->next = link->prev = link;
}
/* Appends a link at the end of a circular list. */
GA_INLINE void prefix_link_last(prefix_link *ring, prefix_link *link) {
  link->prev = ring->prev;
  link->next = ring;
  ring->prev->next = link;
  ring->prev = link;
}
GA_INLINE int32_t *prefix_node_tokens(const prefix_tree *tree, const prefix_node *node) {
  return tree->tokens + (size_t)node->index * (size_t)tree->page_tokens;
}

GA_NODISCARD ga_status prefix_tree_init(prefix_tree *tree, int32_t capacity, int32_t page_tokens);
void prefix_tree_free(prefix_tree *tree); /* a tree of zeros is fine */

/* Returns the root of a cache key; NULL: it has none. */
prefix_node *prefix_tree_root(const prefix_tree *tree, uint64_t cache_key);
/* Returns the root of a cache key, which is made if there is none; NULL: there are too many roots. */
prefix_node *prefix_tree_root_make(prefix_tree *tree, uint64_t cache_key);
/* Finds the parent's child whose whole page has the tokens ids[page_tokens]; NULL: none. */
prefix_node *prefix_tree_child(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids);
/* Selects the children that a search may find. */
typedef struct prefix_filter {
  uint32_t kinds; /* bit k is set: the child must have a unit of kind k, on the device or in host memory */
  bool whole;     /* the child counts only if all of its tokens equal those of the prompt */
} prefix_filter;
/* Finds the child of `parent` whose page begins with the most tokens of ids[n], and writes their number to *same. NULL:
 * no child that passes the filter begins with ids[0]. */
prefix_node *prefix_tree_similar(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n,
                                 prefix_filter filter, int32_t *same);
/* Finds a child of `parent` whose page is partly filled with the first tokens of ids[n], fewer than n. NULL: there is
 * none. */
prefix_node *prefix_tree_begun(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n);
/* Adds a node without units for n tokens: page_tokens for a whole page, or fewer. NULL: all nodes are in use. */
prefix_node *prefix_tree_add(prefix_tree *tree, prefix_node *parent, const int32_t *ids, int32_t n);
/* Moves a child to the front of its parent's children. */
void prefix_tree_touch(prefix_node *node);
/* Removes a node without children, units and users, and its root if that has no other children. */
void prefix_tree_remove(prefix_tree *tree, prefix_node *node);
/* Removes a root that has neither children nor users; else does nothing. */
void prefix_tree_tidy(prefix_tree *tree, prefix_node *root);

#endif
