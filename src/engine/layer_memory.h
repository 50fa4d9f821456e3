/* Pages of the KV cache: which are free, which sequence has which, and which are kept for later prompts.
 *
 * Bookkeeping on the host: nothing here touches a device. One thread at a time.
 *
 * Layers are of two kinds: full attention, and attention in a window. Each kind has pages of its own, and a sequence
 * has a table for each: entry i is the page of tokens [i * page_tokens, (i + 1) * page_tokens). Pages of window layers
 * come back once no later token can see them.
 *
 * Whole pages of computed tokens join a tree of prefixes: a node is a page of tokens behind its parent's, found by a
 * keyed hash and compared token by token. A page that only the tree has is evictable: the least recently used leaf goes
 * first. A prompt takes the longest path that it finds; where only the beginning of the next page is the same, that
 * page is copied (copy on write).
 *
 * Pages that are evicted may go to host memory: those of preempted sequences, and with offload_prefixes all. They stay
 * in the tree and are brought back for the prompt that finds them; of those, too, the least recently used leaf goes
 * first.
 */
#ifndef GA_ENGINE_LAYER_MEMORY_H
#define GA_ENGINE_LAYER_MEMORY_H

#include "ga/base.h"
#include "model/kv_kind.h"

#define MEMORY_NO_UNIT (-1)

typedef struct layer_memory_options {
  int32_t n_units[KV_KINDS]; /* 0: no layer is of that kind; not both */
  int32_t page_tokens;       /* a power of two */
  int32_t window;            /* a query at p sees keys above p - window; with KV_WINDOW pages at least 1 */
  bool keep_prefixes;
  int32_t n_host[KV_KINDS]; /* pages in host memory; needs keep_prefixes */
  bool offload_prefixes;    /* every evicted page goes there, not only those of preempted sequences */
} layer_memory_options;

typedef struct layer_memory layer_memory;
typedef struct prefix_node prefix_node;

/* One sequence's pages. All zeros: none yet. */
typedef struct sequence_memory {
  int32_t *units[KV_KINDS]; /* [n_pages]; KV_WINDOW: MEMORY_NO_UNIT behind the window; a kind without pages: NULL */
  int32_t n_pages, room;
  int32_t first_in_window; /* entries of table[KV_WINDOW] before it are MEMORY_NO_UNIT */
  int32_t n_nodes;         /* leading pages that are of the tree */
  prefix_node *node;       /* the last of those; NULL: none */
  int32_t n_tried;         /* whole pages up to which layer_memory_computed has looked at the tree */
} sequence_memory;

/* Where a page's contents go to, in all layers of the kind. */
typedef enum unit_way { UNIT_WITHIN, UNIT_TO_HOST, UNIT_FROM_HOST } unit_way;
typedef struct unit_copy {
  kv_kind kind;
  unit_way way;
  int32_t from, to;
} unit_copy;

/* What a prompt has found. */
typedef struct prefix_match {
  int32_t tokens;    /* the first so many of the prompt */
  int32_t n_nodes;   /* whole pages */
  prefix_node *node; /* of the last of them; NULL: none */
  prefix_node *leaf; /* the first `same` tokens of its page follow; NULL: none */
  int32_t same;
} prefix_match;

GA_NODISCARD ga_status layer_memory_create(const layer_memory_options *options, layer_memory **out);
void layer_memory_destroy(layer_memory *memory); /* NULL is fine; all sequences have been released */

int32_t layer_memory_page_tokens(const layer_memory *memory);

/* Copies to make, in this order, behind all steps enqueued so far and before the next one. Pages change hands at once,
 * so that copies may read what an earlier one has written, and write what an earlier one has read. */
const unit_copy *layer_memory_copies(const layer_memory *memory, int32_t *n);
/* They have been enqueued. */
void layer_memory_copied(layer_memory *memory);

/* Finds the longest kept prefix of ids, at most n - 1 tokens. cache_key: sequences of different keys share nothing. The
 * empty sequence gets the leading pages of it that are on the device. GA_ERR_NOMEM only for host memory; then the
 * sequence is empty. */
GA_NODISCARD ga_status layer_memory_match(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                                          sequence_memory *sequence, prefix_match *found);
/* The sequence gets the rest, from host memory and as a copy. Right behind layer_memory_match; there is room for as
 * many tokens. */
void layer_memory_load(layer_memory *memory, sequence_memory *sequence, const prefix_match *found);
/* How many tokens layer_memory_match would give; changes nothing. */
int32_t layer_memory_peek(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n);

/* Can the sequence get pages for tokens [0, length)? */
bool layer_memory_has_room(const layer_memory *memory, const sequence_memory *sequence, int32_t length);
/* The greatest length of which that is true. */
int32_t layer_memory_room(const layer_memory *memory, const sequence_memory *sequence);
/* Pages that it takes besides its own to come to `length` tokens, at most `chunk` of them a step. */
void layer_memory_need(const layer_memory *memory, const sequence_memory *sequence, int32_t length, int32_t chunk,
                       int32_t need[KV_KINDS]);
/* Can a sequence that has all pages for itself come to `length` tokens? */
bool layer_memory_fits(const layer_memory *memory, int32_t length);
/* Takes memory for tables of `length` tokens: up to there layer_memory_match and layer_memory_extend need none. */
GA_NODISCARD ga_status layer_memory_reserve(const layer_memory *memory, sequence_memory *sequence, int32_t length);
/* Takes pages for [0, length), evicting kept ones where none is free. GA_ERR_BUSY: not enough; GA_ERR_NOMEM: no host
 * memory for tables; nothing has changed then. */
GA_NODISCARD ga_status layer_memory_extend(layer_memory *memory, sequence_memory *sequence, int32_t length);
/* Tokens [0, n) of the sequence are computed, and ids are known: whole pages join the tree, pages behind the window
 * come back. */
void layer_memory_computed(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                           int32_t n);
/* Gives back all pages and empties the sequence; those of the tree stay as kept pages, also the begun one of the last
 * tokens, of which [0, n) are computed. ids may be NULL when n is 0. */
void layer_memory_release(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                          int32_t n);
/* How a sequence leaves what it has computed. */
typedef struct release_policy {
  double keep_until; /* its pages are evicted behind all that are not kept so; 0: as any. Best effort, half of the pages
                        at most */
  bool swaps;        /* it is preempted: its pages go to host memory when others need them */
  bool drops; /* nobody will come back: pages that no other sequence has, goes on from or wants kept become free */
} release_policy;
void layer_memory_release_as(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, const release_policy *parting);
/* A sequence that has left with `swaps` does not come back: what is there of its tokens [0, n) is left so instead. */
void layer_memory_abandon(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                          const release_policy *parting);
/* It is so late: what was to be kept until now is kept as any. */
void layer_memory_expire(layer_memory *memory, double now);

/* Pages a kind has; those held by sequences; those that only the tree has; in host memory: all, and those in use. */
typedef struct unit_counts {
  int32_t total, used, cached;
  int32_t host_total, host_used;
} unit_counts;
unit_counts layer_memory_counts(const layer_memory *memory, kv_kind kind);

/* Checks everything that must hold (each page is free, held or kept; counts of references; order of the tree), for
 * tests. The text of a failure says what does not. */
GA_NODISCARD ga_status layer_memory_verify(const layer_memory *memory, const sequence_memory *const *sequences,
                                           int32_t n);

#endif
