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
#ifndef GA_ENGINE_KV_PAGES_H
#define GA_ENGINE_KV_PAGES_H

#include "ga/base.h"
#include "model/kv_kind.h"

#define KV_NO_PAGE (-1)

typedef struct kv_pages_options {
  int32_t n_pages[KV_KINDS]; /* 0: no layer is of that kind; not both */
  int32_t page_tokens;       /* a power of two */
  int32_t window;            /* a query at p sees keys above p - window; with KV_WINDOW pages at least 1 */
  bool keep_prefixes;
  int32_t n_host[KV_KINDS]; /* pages in host memory; needs keep_prefixes */
  bool offload_prefixes;    /* every evicted page goes there, not only those of preempted sequences */
} kv_pages_options;

typedef struct kv_pages kv_pages;
typedef struct kv_node kv_node;

/* One sequence's pages. All zeros: none yet. */
typedef struct kv_sequence {
  int32_t *table[KV_KINDS]; /* [n_pages]; KV_WINDOW: KV_NO_PAGE behind the window; a kind without pages: NULL */
  int32_t n_pages, room;
  int32_t first_in_window; /* entries of table[KV_WINDOW] before it are KV_NO_PAGE */
  int32_t n_nodes;         /* leading pages that are of the tree */
  kv_node *node;           /* the last of those; NULL: none */
  int32_t n_tried;         /* whole pages up to which kv_pages_computed has looked at the tree */
} kv_sequence;

/* Where a page's contents go to, in all layers of the kind. */
typedef enum kv_way { KV_WITHIN, KV_TO_HOST, KV_FROM_HOST } kv_way;
typedef struct kv_copy {
  kv_kind kind;
  kv_way way;
  int32_t from, to;
} kv_copy;

/* What a prompt has found. */
typedef struct kv_found {
  int32_t tokens;  /* the first so many of the prompt */
  int32_t n_nodes; /* whole pages */
  kv_node *node;   /* of the last of them; NULL: none */
  kv_node *leaf;   /* the first `same` tokens of its page follow; NULL: none */
  int32_t same;
} kv_found;

GA_NODISCARD ga_status kv_pages_create(const kv_pages_options *options, kv_pages **out);
void kv_pages_destroy(kv_pages *pages); /* NULL is fine; all sequences have been released */

int32_t kv_pages_page_tokens(const kv_pages *pages);

/* Copies to make, in this order, behind all steps enqueued so far and before the next one. Pages change hands at once,
 * so that copies may read what an earlier one has written, and write what an earlier one has read. */
const kv_copy *kv_pages_copies(const kv_pages *pages, int32_t *n);
/* They have been enqueued. */
void kv_pages_copied(kv_pages *pages);

/* Finds the longest kept prefix of ids, at most n - 1 tokens. cache_key: sequences of different keys share nothing. The
 * empty sequence gets the leading pages of it that are on the device. GA_ERR_NOMEM only for host memory; then the
 * sequence is empty. */
GA_NODISCARD ga_status kv_pages_match(kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n,
                                      kv_sequence *sequence, kv_found *found);
/* The sequence gets the rest, from host memory and as a copy. Right behind kv_pages_match; there is room for as many
 * tokens. */
void kv_pages_load(kv_pages *pages, kv_sequence *sequence, const kv_found *found);
/* How many tokens kv_pages_match would give; changes nothing. */
int32_t kv_pages_peek(const kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n);

/* Can the sequence get pages for tokens [0, length)? */
bool kv_pages_has_room(const kv_pages *pages, const kv_sequence *sequence, int32_t length);
/* The greatest length of which that is true. */
int32_t kv_pages_room(const kv_pages *pages, const kv_sequence *sequence);
/* Pages that it takes besides its own to come to `length` tokens, at most `chunk` of them a step. */
void kv_pages_need(const kv_pages *pages, const kv_sequence *sequence, int32_t length, int32_t chunk,
                   int32_t need[KV_KINDS]);
/* Can a sequence that has all pages for itself come to `length` tokens? */
bool kv_pages_fits(const kv_pages *pages, int32_t length);
/* Takes memory for tables of `length` tokens: up to there kv_pages_match and kv_pages_extend need none. */
GA_NODISCARD ga_status kv_pages_reserve(const kv_pages *pages, kv_sequence *sequence, int32_t length);
/* Takes pages for [0, length), evicting kept ones where none is free. GA_ERR_BUSY: not enough; GA_ERR_NOMEM: no host
 * memory for tables; nothing has changed then. */
GA_NODISCARD ga_status kv_pages_extend(kv_pages *pages, kv_sequence *sequence, int32_t length);
/* Tokens [0, n) of the sequence are computed, and ids are known: whole pages join the tree, pages behind the window
 * come back. */
void kv_pages_computed(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n);
/* Gives back all pages and empties the sequence; those of the tree stay as kept pages, also the begun one of the last
 * tokens, of which [0, n) are computed. ids may be NULL when n is 0. */
void kv_pages_release(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n);
/* How a sequence leaves what it has computed. */
typedef struct kv_parting {
  double keep_until; /* its pages are evicted behind all that are not kept so; 0: as any. Best effort, half of the pages
                        at most */
  bool swaps;        /* it is preempted: its pages go to host memory when others need them */
  bool drops; /* nobody will come back: pages that no other sequence has, goes on from or wants kept become free */
} kv_parting;
void kv_pages_leave(kv_pages *pages, uint64_t cache_key, kv_sequence *sequence, const int32_t *ids, int32_t n,
                    const kv_parting *parting);
/* A sequence that has left with `swaps` does not come back: what is there of its tokens [0, n) is left so instead. */
void kv_pages_part(kv_pages *pages, uint64_t cache_key, const int32_t *ids, int32_t n, const kv_parting *parting);
/* It is so late: what was to be kept until now is kept as any. */
void kv_pages_expire(kv_pages *pages, double now);

/* Pages a kind has; those held by sequences; those that only the tree has; in host memory: all, and those in use. */
typedef struct kv_pages_count {
  int32_t total, held, kept;
  int32_t host_total, host_used;
} kv_pages_count;
kv_pages_count kv_pages_counts(const kv_pages *pages, kv_kind kind);

/* Checks everything that must hold (each page is free, held or kept; counts of references; order of the tree), for
 * tests. The text of a failure says what does not. */
GA_NODISCARD ga_status kv_pages_verify(const kv_pages *pages, const kv_sequence *const *sequences, int32_t n);

#endif
