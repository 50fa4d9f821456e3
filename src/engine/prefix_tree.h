/* The tree of prefixes of layer_memory.h: its nodes, and how they are found.
 *
 * A root stands for a cache key and has no tokens. Every other node holds a page of tokens that follows its parent's.
 * Whole pages are in a hash table, by parent and tokens; its hash has a secret key, and a hit is compared token by
 * token. A begun page (of fewer tokens) is a leaf in its parent's ring of children, and not in the table.
 */
#ifndef GA_ENGINE_PREFIX_TREE_H
#define GA_ENGINE_PREFIX_TREE_H

#include "base/compiler.h"
#include "engine/layer_memory.h"

/* How many children of a node are compared with a prompt's begun page: those used last. */
#define PREFIX_CHILDREN 16
/* The most cache keys that have pages at one time; requests with further keys cache nothing. */
#define PREFIX_ROOTS 65536

/* An element of a ring. One that is in no ring points to itself. */
typedef struct prefix_link {
  struct prefix_link *next, *prev;
  prefix_node *node; /* NULL: the ring's head */
} prefix_link;

struct prefix_node {
  prefix_node *parent; /* NULL: a root */
  prefix_node *chain;  /* the next one of its bucket, or of the unused ones */
  prefix_link children;
  prefix_link sibling;                 /* in the parent's children, the last used first */
  prefix_link lru;                     /* in one of layer_memory.order, or in keeping_used */
  prefix_link local[MEMORY_KINDS_MAX]; /* in one of layer_memory.local_order, or in local_swapped */
  uint64_t hash, cache_key;
  int32_t index;
  int32_t n_tokens;               /* page_tokens; a begun page: fewer; a root: 0 */
  int32_t users;                  /* sequences whose path it is on */
  int32_t unit[MEMORY_KINDS_MAX]; /* on the device */
  int32_t host[MEMORY_KINDS_MAX]; /* in host memory; at most one of unit and host is set */
  double keep_until;              /* evicted after all nodes without; 0: none. A parent's is no earlier */
  bool swapped; /* a preempted request has it: its units go to host memory. Its parent is swapped, too */
  bool wanted;  /* a sequence began or ended where its local units are needed: they are evicted later than others */
};

typedef struct prefix_tree {
  uint64_t key[2];
  int32_t page_tokens, capacity, roots; /* nodes [0, capacity) have tokens, [capacity, capacity + roots) are roots */
  int32_t n_nodes, n_roots;             /* in use */
  uint32_t mask;
  prefix_node *nodes, **buckets, *unused, *unused_roots;
  int32_t *tokens; /* [capacity][page_tokens] */
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
/* Appends a link at the end of a ring. */
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
void prefix_tree_free(prefix_tree *tree); /* one of zeros is fine */

prefix_node *prefix_tree_root(const prefix_tree *tree, uint64_t cache_key); /* NULL: none */
prefix_node *prefix_tree_root_make(prefix_tree *tree, uint64_t cache_key);  /* NULL: too many */
/* Finds the child for the whole page ids of a parent; NULL: none. */
prefix_node *prefix_tree_child(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids);
/* Children that a search may find. */
typedef struct prefix_filter {
  uint32_t kinds; /* bit k: with a unit of kind k, on the device or in host memory */
  bool whole;     /* only if all of their tokens are the same */
} prefix_filter;
/* Finds the child whose first tokens equal the most of ids[n], *same of them; NULL: no child has one. */
prefix_node *prefix_tree_similar(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n,
                                 prefix_filter filter, int32_t *same);
/* Finds a begun page among parent's children with which ids[n] begin, n being more than its tokens; NULL: none. */
prefix_node *prefix_tree_begun(const prefix_tree *tree, const prefix_node *parent, const int32_t *ids, int32_t n);
/* Adds a node without units, for a whole page or a begun one (n tokens). NULL: all nodes are in use. */
prefix_node *prefix_tree_add(prefix_tree *tree, prefix_node *parent, const int32_t *ids, int32_t n);
/* Moves a child to the front of those that are compared. */
void prefix_tree_touch(prefix_node *node);
/* Removes a node without children, units and users, and its root if that has no other children. */
void prefix_tree_remove(prefix_tree *tree, prefix_node *node);
/* Removes a root that has neither children nor users. */
void prefix_tree_tidy(prefix_tree *tree, prefix_node *root);

#endif
