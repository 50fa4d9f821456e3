/* Layer memory: which units are free, which sequence has which, and which are cached for later prompts.
 *
 * Bookkeeping on the host: nothing here touches a device. One thread at a time.
 *
 * A model's layers are of one or more kinds (model/memory_kind.h), each with units of its own. A sequence has for each
 * kind either a table of pages, whose entry i is the page of tokens [i * page_tokens, (i + 1) * page_tokens), or one
 * state. Pages of kinds with a window are given back once no later token reads them.
 *
 *                  shared by    a match of n tokens needs        evicted
 *   pages          reading      all pages of the n tokens        with their node, leaves first
 *   window pages   reading      the pages that token n reads     one by one, least recently used first
 *   states         copies       the snapshot at n tokens         one by one, least recently used first
 *
 * Whole pages of computed tokens join a tree of prefixes: a node stands for a page of tokens after its parent's, found
 * by a keyed hash and compared token by token. A node has at most one unit of each kind; of a state it has a snapshot
 * at its last token. A prompt takes the longest prefix that every kind has. Where only the beginning of the next page
 * is the same, the prompt gets a copy of that page (copy on write).
 *
 * Evicted units may go to host memory: those of preempted sequences, and with offload_prefixes all. They stay in the
 * tree and are copied back for the prompt that finds them.
 */
#ifndef GA_ENGINE_LAYER_MEMORY_H
#define GA_ENGINE_LAYER_MEMORY_H

#include "ga/base.h"
#include "model/memory_kind.h"

#define MEMORY_NO_UNIT       (-1)
#define MEMORY_SNAPSHOTS_MAX 16 /* of a sequence, outside of the tree */

typedef struct layer_memory_options {
  int32_t n_kinds;
  memory_kind kinds[MEMORY_KINDS_MAX];
  int32_t n_units[MEMORY_KINDS_MAX]; /* on the device; 0: no layer has the kind */
  int32_t n_host[MEMORY_KINDS_MAX];  /* in host memory; needs keep_prefixes */
  int32_t page_tokens;               /* a power of two; unit_tokens of all kinds of pages */
  bool keep_prefixes;
  bool offload_prefixes; /* all evicted units go to host memory, not only those of preempted sequences */
} layer_memory_options;

typedef struct layer_memory layer_memory;
typedef struct prefix_node prefix_node;

/* Copies of a sequence's states after n_tokens tokens, which are not in the tree. */
typedef struct memory_snapshot {
  int32_t n_tokens;
  int32_t unit[MEMORY_KINDS_MAX];
} memory_snapshot;

/* Units of one sequence. All zeros: none yet. */
typedef struct sequence_memory {
  int32_t *units[MEMORY_KINDS_MAX]; /* kinds of pages: [n_pages]; other kinds, and kinds without units: NULL */
  int32_t n_pages, room;
  int32_t first_seen[MEMORY_KINDS_MAX]; /* pages before it were given back: their entries are MEMORY_NO_UNIT */
  int32_t state[MEMORY_KINDS_MAX];      /* kinds of states: the sequence's unit, if has_state */
  bool has_state;
  int32_t n_snapshots;
  memory_snapshot snapshots[MEMORY_SNAPSHOTS_MAX]; /* by rising n_tokens */
  int32_t n_nodes;                                 /* leading pages that are in the tree */
  prefix_node *node;                               /* of the last of them; NULL: none */
  int32_t n_tried;                                 /* whole pages up to which layer_memory_computed has searched */
} sequence_memory;

/* A copy of a unit in all layers of its kind. */
typedef enum unit_way { UNIT_WITHIN, UNIT_TO_HOST, UNIT_FROM_HOST } unit_way;
typedef struct unit_copy {
  int32_t kind;
  unit_way way;
  int32_t from, to;
} unit_copy;

/* The longest cached prefix of a prompt. */
typedef struct prefix_match {
  int32_t tokens;    /* of the prompt, from its beginning */
  int32_t n_nodes;   /* whole pages */
  prefix_node *node; /* of the last of them; NULL: none */
  prefix_node *leaf; /* the first `same` tokens of its page follow; NULL: none */
  int32_t same;
} prefix_match;

GA_NODISCARD ga_status layer_memory_create(const layer_memory_options *options, layer_memory **out);
void layer_memory_destroy(layer_memory *memory); /* NULL is fine; all sequences have been released */

int32_t layer_memory_n_kinds(const layer_memory *memory);
const memory_kind *layer_memory_kind(const layer_memory *memory, int32_t kind);
int32_t layer_memory_page_tokens(const layer_memory *memory);
/* Writes how many units of which kinds there are. */
void layer_memory_describe(const layer_memory *memory, char *text, size_t size);

/* Copies to enqueue in this order, after all steps enqueued so far and before the next one. Units are reused at once:
 * a copy may read what an earlier one has written, and write what an earlier one has read. */
const unit_copy *layer_memory_copies(const layer_memory *memory, int32_t *n);
/* Forgets the copies, which have been enqueued. */
void layer_memory_copied(layer_memory *memory);

/* Finds the longest cached prefix of ids, at most n - 1 tokens. cache_key: sequences of different keys share nothing.
 * The empty sequence gets the leading pages of the prefix that are on the device. GA_ERR_NOMEM only for host memory;
 * then the sequence is empty. */
GA_NODISCARD ga_status layer_memory_match(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                                          sequence_memory *sequence, prefix_match *found);
/* Gives the sequence the rest of the prefix, by copies. Comes right after layer_memory_match; the caller has checked
 * that there is room for as many tokens. */
void layer_memory_load(layer_memory *memory, sequence_memory *sequence, const prefix_match *found);
/* Returns how many tokens layer_memory_match would find; changes nothing. */
int32_t layer_memory_peek(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n);

/* Can the sequence get units for tokens [0, length)? */
bool layer_memory_has_room(const layer_memory *memory, const sequence_memory *sequence, int32_t length);
/* Returns the greatest length for which there are units. */
int32_t layer_memory_room(const layer_memory *memory, const sequence_memory *sequence);
/* The same with spare[kind] units besides the sequence's own. */
int32_t layer_memory_room_within(const layer_memory *memory, const sequence_memory *sequence,
                                 const int32_t spare[MEMORY_KINDS_MAX]);
/* Units that the sequence lacks to come to `length` tokens, at most `chunk` of them a step. */
void layer_memory_need(const layer_memory *memory, const sequence_memory *sequence, int32_t length, int32_t chunk,
                       int32_t need[MEMORY_KINDS_MAX]);
/* Can a sequence that has all units for itself come to `length` tokens? */
bool layer_memory_fits(const layer_memory *memory, int32_t length);
/* Returns how many of n tokens from `begin` on a step should evaluate at most: with kinds of states it ends where they
 * have a snapshot, if it comes to one. */
int32_t layer_memory_chunk(const layer_memory *memory, int32_t begin, int32_t n);
/* Allocates tables for `length` tokens: up to there layer_memory_match and layer_memory_extend allocate nothing. */
GA_NODISCARD ga_status layer_memory_reserve(const layer_memory *memory, sequence_memory *sequence, int32_t length);
/* Gives the sequence units for [0, length), evicting cached ones where none is free. GA_ERR_BUSY: not enough units;
 * GA_ERR_NOMEM: no host memory for tables; both change nothing. */
GA_NODISCARD ga_status layer_memory_extend(layer_memory *memory, sequence_memory *sequence, int32_t length);
/* May a step be evaluated twice? Pages are written again; states would go on twice. */
bool layer_memory_can_repeat(const layer_memory *memory);
/* Takes a snapshot of the sequence's states, which are those after n tokens once all enqueued steps are done. Does
 * nothing unless n is a multiple of page_tokens, or if there is such a snapshot. Best effort: units may be short. */
void layer_memory_snapshot(layer_memory *memory, sequence_memory *sequence, int32_t n);
/* Records that tokens [0, n) of the sequence are computed, with known ids: whole pages and snapshots join the tree,
 * pages that no later token reads are given back. */
void layer_memory_computed(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                           int32_t n);
/* Takes the sequence of n_tokens computed tokens back to n of them. Returns the length that it has then: n, or less
 * where a kind cannot go back exactly. The caller extends it and evaluates the rest again. */
int32_t layer_memory_rewind(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                            int32_t n_tokens, int32_t n);

/* How the units of a sequence that ends are treated. */
typedef struct release_policy {
  double keep_until; /* time until which its units are evicted after all others, at most half of the pool; 0: no such
                        protection */
  bool swap;         /* it is preempted: its units go to host memory when others need them */
  bool discard;      /* units become free, but for those that other sequences use, continue or protect */
  int32_t
      n_beyond; /* tokens after the n kept ones that enqueued steps evaluate: states are then those of a later end */
} release_policy;
/* Releases all units and empties the sequence, of which tokens [0, n) are computed. Its pages stay cached, also the
 * begun one of the last tokens, and its states as a snapshot there. ids may be NULL when n is 0. */
void layer_memory_release(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                          int32_t n);
void layer_memory_release_as(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, const release_policy *policy);
/* Applies another policy to what a sequence released with `swap` has left of its tokens [0, n): it does not resume. */
void layer_memory_abandon(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                          const release_policy *policy);
/* Sets the time: nodes whose keep_until has passed lose their priority. */
void layer_memory_expire(layer_memory *memory, double now);

/* Units of the sequence by place: of pages *n entries, MEMORY_NO_UNIT where they were given back; of a state one. */
const int32_t *layer_memory_units(const layer_memory *memory, const sequence_memory *sequence, int32_t kind,
                                  int32_t *n);

typedef struct unit_counts {
  int32_t total, used, cached; /* on the device: all; of sequences; only in the tree */
  int32_t host_total, host_used;
} unit_counts;
unit_counts layer_memory_counts(const layer_memory *memory, int32_t kind);

/* Checks all invariants, for tests: each unit is free, used or cached; counts of references; orders of eviction. The
 * error text says which invariant does not hold. */
GA_NODISCARD ga_status layer_memory_verify(const layer_memory *memory, const sequence_memory *const *sequences,
                                           int32_t n);

#endif
