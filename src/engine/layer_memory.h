/* Layer memory: the data of sequences that layers keep between steps, in units (a page of keys and values, or a state).
 * This part records which units are free, which sequence has which units, and which units are cached for later prompts.
 *
 * It is bookkeeping on the host: nothing here touches a device. One thread at a time may use it.
 *
 * A model's layers are of one or more kinds (model/memory_kind.h), each with units of its own. For each kind a sequence
 * has either one state or a table of pages. Entry i of a table is the page of tokens [i * page_tokens, (i + 1) *
 * page_tokens). Pages of kinds with a sliding window are released once no later token reads them.
 *
 *                  shared by    a match of n tokens needs        evicted
 *   pages          reading      all pages of the n tokens        with their node, leaves first
 *   window pages   reading      the pages that token n reads     one by one, least recently used first
 *   states         copies       the snapshot at n tokens         one by one, least recently used first
 *
 * Whole pages of computed tokens join a tree of prefixes: a node stands for the page of tokens that follows its
 * parent's page. It is found by a keyed hash and compared token by token. A node has at most one unit of each kind; of
 * a kind of states this is a snapshot after its last token. A prompt takes the longest prefix for which every kind has
 * its units. Where only the beginning of the next page is the same, the prompt gets a copy of that page (copy on
 * write).
 *
 * Evicted units may go to host memory: those of preempted sequences, and with offload_prefixes all. They stay in the
 * tree and are copied back for the prompt that finds them.
 */
#ifndef GA_ENGINE_LAYER_MEMORY_H
#define GA_ENGINE_LAYER_MEMORY_H

#include "ga/base.h"
#include "model/memory_kind.h"

#define MEMORY_NO_UNIT       (-1)
#define MEMORY_SNAPSHOTS_MAX 16 /* largest number of snapshots of a sequence that are not in the tree of prefixes */

typedef struct layer_memory_options {
  int32_t n_kinds;
  memory_kind kinds[MEMORY_KINDS_MAX];
  int32_t n_units[MEMORY_KINDS_MAX]; /* [kind] number of units on the device; 0: no layer has the kind */
  int32_t n_host[MEMORY_KINDS_MAX];  /* [kind] number of units in host memory; other than 0 only with keep_prefixes */
  int32_t page_tokens;               /* tokens of a page: a power of two, and unit_tokens of all kinds of pages */
  bool keep_prefixes;                /* computed pages stay cached when their sequence ends or is preempted */
  bool offload_prefixes;             /* all evicted units go to host memory, not only those of preempted sequences */
} layer_memory_options;

typedef struct layer_memory layer_memory;
typedef struct prefix_node prefix_node;

/* Copies of a sequence's states as they were after n_tokens tokens. Snapshots in the tree of prefixes have no such
 * record. */
typedef struct memory_snapshot {
  int32_t n_tokens;
  int32_t unit[MEMORY_KINDS_MAX];
} memory_snapshot;

/* The units of one sequence. All zeros: it has none yet. */
typedef struct sequence_memory {
  /* [kind][n_pages] units of the sequence's pages; NULL for kinds of states and kinds without units */
  int32_t *units[MEMORY_KINDS_MAX];
  int32_t n_pages, room;
  /* [kind] first page that the sequence still has. Earlier pages were released: their entries are MEMORY_NO_UNIT */
  int32_t first_seen[MEMORY_KINDS_MAX];
  int32_t state[MEMORY_KINDS_MAX]; /* [kind] the sequence's unit of a kind of states, valid if has_state */
  bool has_state;
  int32_t n_snapshots;
  memory_snapshot snapshots[MEMORY_SNAPSHOTS_MAX]; /* [n_snapshots] in order of rising n_tokens */
  /* number of pages, from the first on, that are in the tree of prefixes */
  int32_t n_nodes;
  prefix_node *node; /* node of page n_nodes - 1 in the tree of prefixes; NULL: n_nodes is 0 */
  /* number of whole pages, from the first on, for which layer_memory_computed has searched the tree of prefixes */
  int32_t n_tried;
} sequence_memory;

/* The direction of a copy: within the device, from the device to the host, or from the host to the device. */
typedef enum unit_way { UNIT_WITHIN, UNIT_TO_HOST, UNIT_FROM_HOST } unit_way;
/* A copy of unit `from` to unit `to`, in all layers of the kind. */
typedef struct unit_copy {
  int32_t kind;
  unit_way way;
  int32_t from, to;
} unit_copy;

/* The longest cached prefix of a prompt. */
typedef struct prefix_match {
  int32_t tokens;    /* length of the prefix in tokens, from the beginning of the prompt */
  int32_t n_nodes;   /* number of whole pages in the prefix */
  prefix_node *node; /* node of the prefix's last whole page; NULL: the prefix has no whole page */
  prefix_node *leaf; /* node whose page begins with the next `same` tokens of the prompt; NULL: none */
  int32_t same;
} prefix_match;

GA_NODISCARD ga_status layer_memory_create(const layer_memory_options *options, layer_memory **out);
void layer_memory_destroy(layer_memory *memory); /* NULL is fine; all sequences must have been released */

int32_t layer_memory_n_kinds(const layer_memory *memory);
const memory_kind *layer_memory_kind(const layer_memory *memory, int32_t kind);
int32_t layer_memory_page_tokens(const layer_memory *memory);
/* Writes the number of units of each kind as text for the log. */
void layer_memory_describe(const layer_memory *memory, char *text, size_t size);

/* Returns the array of pending copies and writes their number to *n. The caller enqueues them in this order, after all
 * steps enqueued so far and before the next step. Units are reused at once: a copy may read a unit that an earlier copy
 * writes, and write a unit that an earlier copy reads. */
const unit_copy *layer_memory_copies(const layer_memory *memory, int32_t *n);
/* Clears the list of pending copies, after the caller has enqueued them. */
void layer_memory_copied(layer_memory *memory);

/* Finds the longest cached prefix of ids, at most n - 1 tokens. Sequences with different cache keys share nothing.
 * The sequence must be empty; it gets the leading pages of the prefix that are on the device. GA_ERR_NOMEM: no host
 * memory for tables; then the sequence is empty. */
GA_NODISCARD ga_status layer_memory_match(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                                          sequence_memory *sequence, prefix_match *found);
/* Gives the sequence, by copies, the units of the prefix that layer_memory_match did not give it. The caller calls it
 * directly after layer_memory_match, and has checked that there is room for found->tokens tokens. */
void layer_memory_load(layer_memory *memory, sequence_memory *sequence, const prefix_match *found);
/* Returns how many tokens layer_memory_match would find; changes nothing. */
int32_t layer_memory_peek(const layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n);

/* Returns whether the sequence can get units for tokens [0, length). */
bool layer_memory_has_room(const layer_memory *memory, const sequence_memory *sequence, int32_t length);
/* Returns the greatest length, in tokens, for which the sequence can get units. */
int32_t layer_memory_room(const layer_memory *memory, const sequence_memory *sequence);
/* Returns the greatest length, in tokens, for which the sequence can get units if only spare[kind] units are
 * available besides its own. */
int32_t layer_memory_room_within(const layer_memory *memory, const sequence_memory *sequence,
                                 const int32_t spare[MEMORY_KINDS_MAX]);
/* Writes to need[kind] how many more units the sequence needs to reach `length` tokens, in steps of at most `chunk`
 * tokens. */
void layer_memory_need(const layer_memory *memory, const sequence_memory *sequence, int32_t length, int32_t chunk,
                       int32_t need[MEMORY_KINDS_MAX]);
/* Returns whether a sequence that has all units to itself can reach `length` tokens. */
bool layer_memory_fits(const layer_memory *memory, int32_t length);
/* Returns the largest number of tokens, of the n from `begin` on, that the next step should evaluate. With kinds of
 * states, a step does not go past a place where a snapshot is needed. */
int32_t layer_memory_chunk(const layer_memory *memory, int32_t begin, int32_t n);
/* Allocates the sequence's tables for `length` tokens. Up to that length layer_memory_match and layer_memory_extend
 * allocate nothing. */
GA_NODISCARD ga_status layer_memory_reserve(const layer_memory *memory, sequence_memory *sequence, int32_t length);
/* Gives the sequence units for tokens [0, length). Cached units are evicted where no unit is free. GA_ERR_BUSY: not
 * enough units; GA_ERR_NOMEM: no host memory for tables. Both change nothing. */
GA_NODISCARD ga_status layer_memory_extend(layer_memory *memory, sequence_memory *sequence, int32_t length);
/* Returns whether the same step may be evaluated twice. Pages are overwritten with the same values; states would
 * advance twice. */
bool layer_memory_can_repeat(const layer_memory *memory);
/* Takes a snapshot of the sequence's states, which are the states after n tokens once all enqueued steps have run. Does
 * nothing if n is not a multiple of page_tokens, or if that snapshot exists. If no unit is available, it takes none. */
void layer_memory_snapshot(layer_memory *memory, sequence_memory *sequence, int32_t n);
/* Records that tokens [0, n) of the sequence are computed and that their ids are known. Whole pages and snapshots join
 * the tree of prefixes. Pages that no later token reads are released. */
void layer_memory_computed(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                           int32_t n);
/* Shortens the sequence from n_tokens computed tokens to n. Returns its new length: n, or less where a kind cannot
 * go back exactly. The caller then extends the sequence and evaluates the rest again. */
int32_t layer_memory_rewind(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                            int32_t n_tokens, int32_t n);

/* Says how the units of a sequence that ends are treated. */
typedef struct release_policy {
  /* time until which the units are evicted after all others; 0: no such priority. It is not set if more than half of
   * all units would then have one */
  double keep_until;
  bool swap; /* the sequence is preempted: its units are copied to host memory when other sequences need them */
  /* units become free at once. Exceptions are pages that other sequences use, that other cached pages follow, or that
   * have a keep_until */
  bool discard;
  /* number of tokens after the first n that enqueued steps evaluate (n of layer_memory_release_as). If it is not 0, no
   * snapshot after token n is taken: the states belong to a later token */
  int32_t n_beyond;
} release_policy;
/* Releases all units and empties the sequence, whose tokens [0, n) are computed. Its pages stay cached, including
 * the last one if it is partly filled, and its states as a snapshot after token n. ids may be NULL when n is 0. */
void layer_memory_release(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                          int32_t n);
/* Does the same as layer_memory_release, with a policy. */
void layer_memory_release_as(layer_memory *memory, uint64_t cache_key, sequence_memory *sequence, const int32_t *ids,
                             int32_t n, const release_policy *policy);
/* Applies another policy to the units that remain of a sequence's tokens [0, n). The sequence was released with
 * `swap` and will not resume. */
void layer_memory_abandon(layer_memory *memory, uint64_t cache_key, const int32_t *ids, int32_t n,
                          const release_policy *policy);
/* Sets the time: nodes whose keep_until has passed lose their priority. */
void layer_memory_expire(layer_memory *memory, double now);

/* Returns the sequence's units of a kind, and their number in *n. Pages: one entry for each page, MEMORY_NO_UNIT
 * where it was released. States: one entry. */
const int32_t *layer_memory_units(const layer_memory *memory, const sequence_memory *sequence, int32_t kind,
                                  int32_t *n);

typedef struct unit_counts {
  int32_t total;      /* units on the device */
  int32_t used;       /* number of units that sequences have */
  int32_t cached;     /* number of units that no sequence has and the tree of prefixes keeps */
  int32_t host_total; /* units in host memory */
  int32_t host_used;
} unit_counts;
unit_counts layer_memory_counts(const layer_memory *memory, int32_t kind);

/* Checks all invariants, for tests: each unit is free, used or cached; reference counts; orders of eviction. The
 * error text says which invariant does not hold. */
GA_NODISCARD ga_status layer_memory_verify(const layer_memory *memory, const sequence_memory *const *sequences,
                                           int32_t n);

#endif
