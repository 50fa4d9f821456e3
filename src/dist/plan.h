/* Internals of a plan. The builder writes it; the verifier, the executors, the simulator and the drawings read it. */
#ifndef GA_DIST_PLAN_H
#define GA_DIST_PLAN_H

#include "base/status.h"
#include "dist/layout.h"
#include "ga/tensor.h"

/* Kinds of blocks. A block is rows of one rank for some of the heads, with the tensors named below. */
typedef enum dist_tensor {
  DIST_Q,   /* Q of the owner's rows */
  DIST_KV,  /* K and V of the owner's rows */
  DIST_O,   /* partial O and LSE for the owner's rows */
  DIST_G,   /* inputs of the backward with a row per query: Q, O, dO, LSE */
  DIST_DQ,  /* partial dQ for the owner's rows */
  DIST_DKV, /* partial dK and dV for the owner's rows */
} dist_tensor;

typedef enum dist_kind {
  DIST_OPEN,    /* makes the slot an empty partial result */
  DIST_SEND,    /* begins to send the slot's block to peer; does not wait */
  DIST_RECEIVE, /* begins to receive a block from peer into the slot; does not wait */
  DIST_WAIT,    /* waits until the slot's block has been received */
  /* computes a stretch of queries with a stretch of keys for some heads, and adds the result to slot (and slot_dkv) */
  DIST_TILE,
  DIST_MERGE, /* adds the partial result in slot `from` to slot */
  DIST_FREE   /* waits for sends out of the slot, then empties it */
} dist_kind;

/* Bits of dist_step.writes of a DIST_TILE in the backward, for its first call; shifted left by 1 for its second. A set
 * bit: the call overwrites its rows of dQ (or of dK and dV), because no earlier call has written them. Otherwise it
 * adds. */
enum { DIST_WRITES_DQ = 1, DIST_WRITES_DKV = 4 };

/* Slots of a rank's own tensors. They are the caller's memory and always hold their block. */
enum { DIST_SLOT_Q, DIST_SLOT_KV, DIST_SLOT_OUT, DIST_SLOT_DKV, DIST_OWN_SLOTS };

typedef struct dist_step {
  int32_t kind, stage;
  /* OPEN, SEND, RECEIVE, MERGE: tensor and owner of the block. */
  int32_t tensor, owner;
  /* First head and number of heads. TILE: query heads. Other kinds: heads of the block, which are KV heads for KV and
   * DKV. */
  int32_t head, heads;
  int32_t slot, peer;
  int32_t from; /* MERGE: slot of the partial result. */
  /* TILE: slots of Q, of K and V, and of dK and dV. slot_dkv is -1 in the forward. */
  int32_t slot_q, slot_kv, slot_dkv;
  int32_t q_owner, kv_owner; /* TILE: ranks that own the queries and the keys. */
  /* TILE: indices of the owners' stretches of queries and of keys. */
  int32_t q_stretch, k_stretch;
  /* TILE, MERGE: number of the step's result, from 0, among the results added to slot (order) and to slot_dkv
   * (order_dkv). */
  int32_t order, order_dkv;
  /* OPEN, SEND, RECEIVE: index in plan->pieces, and number, of the owner's stretches that the block has. */
  int64_t piece, pieces;
  /* OPEN, SEND, RECEIVE: bytes of the block. */
  int64_t bytes;
  /* OPEN in the backward: index in plan->zeros, and number, of the ranges of rows that are set to zero. */
  int64_t zero, zeros;
  /* TILE: bits DIST_WRITES_*. */
  int32_t writes, reserved;
} dist_step;

/* Rows `from` to `to` - 1. */
typedef struct dist_rows {
  int64_t from, to;
} dist_rows;

typedef struct dist_program {
  dist_step *steps;
  int64_t n_steps, room;
  int64_t *slot_bytes; /* Bytes of each slot, [n_slots]. 0 for the first DIST_OWN_SLOTS slots. */
  int32_t n_slots, slot_room;
} dist_program;

/* Heads `begin` to `end` - 1. */
typedef struct dist_heads {
  int32_t begin, end;
} dist_heads;

typedef struct dist_problem {
  const ga_dist_layout *q, *kv;
  int32_t ranks, q_heads, kv_heads, head_dim, v_dim;
  uint32_t flags;
  int32_t table; /* Rule by which tiles are assigned to ranks, a dist_table value. */
  /* Type of the tensors, and type of partial results (ga_dtype: f32, f16, bf16). partial_dtype is f32 or dtype. */
  int32_t dtype, partial_dtype;
  float softcap;  /* Soft-cap of the logits. 0: none. */
  float scale;    /* Factor of the logits. 0: 1 / sqrt(head_dim). */
  int64_t window; /* Number of keys that a query sees. 0: no window. */
  ga_dist_grid grid;
  /* True: a rank has all tokens of its heads (gather.h), so that results are complete when they are sent. */
  bool splits_heads;
} dist_problem;

/* Rules by which tiles are assigned to ranks. */
typedef enum dist_table {
  DIST_PRODUCT, /* the grid determines the rank of each tile */
  DIST_HELPERS, /* DistFlashAttn: ranks that have finished their own rows compute tiles of other ranks */
  DIST_BALANCED /* each tile is assigned to a rank with free time that needs few bytes for it */
} dist_table;

struct ga_dist_plan {
  dist_problem p;
  dist_program *programs; /* One program per rank, [ranks]. */
  int32_t *pieces;
  int64_t n_pieces, piece_room;
  dist_rows *zeros; /* Ranges of rows that OPEN steps set to zero. */
  int64_t n_zeros, zero_room;
  int32_t stages;
  uint64_t hash;
};

/* Returns the query heads of group x of grid.heads groups. The number of groups need not divide the number of heads. */
static inline dist_heads dist_q_group(const dist_problem *p, int32_t x) {
  return (dist_heads){(int32_t)((int64_t)p->q_heads * x / p->grid.heads),
                      (int32_t)((int64_t)p->q_heads * (x + 1) / p->grid.heads)};
}
/* Returns the KV heads that query heads [head, head + heads) read. */
static inline dist_heads dist_kv_of(const dist_problem *p, int32_t head, int32_t heads) {
  const int32_t group = p->q_heads / p->kv_heads;
  return (dist_heads){head / group, (head + heads - 1) / group + 1};
}
static inline bool dist_is_result(int32_t tensor) {
  return tensor == DIST_O || tensor == DIST_DQ || tensor == DIST_DKV;
}
static inline bool dist_is_of_keys(int32_t tensor) { return tensor == DIST_KV || tensor == DIST_DKV; }
static inline const ga_dist_layout *dist_layout_of(const dist_problem *p, int32_t tensor) {
  return dist_is_of_keys(tensor) ? p->kv : p->q;
}
/* Return the type (ga_dtype) of a block's elements: dist_dtype_of in memory, dist_sent_dtype in a message. */
static inline int32_t dist_dtype_of(const dist_problem *p, int32_t tensor) {
  return dist_is_result(tensor) ? p->partial_dtype : p->dtype;
}
static inline int32_t dist_sent_dtype(const dist_problem *p, int32_t tensor) {
  return p->splits_heads ? p->dtype : dist_dtype_of(p, tensor);
}
static inline int64_t dist_dtype_bytes(int32_t dtype) { return dtype == GA_F32 ? 4 : 2; }
/* Returns the bytes of one row and one head of a block whose tensors have type dtype. An LSE always has 4 bytes. */
static inline int64_t dist_row_bytes_in(const dist_problem *p, int32_t tensor, int32_t dtype) {
  const int64_t each = dist_dtype_bytes(dtype);
  switch (tensor) {
  case DIST_O: return p->v_dim * each + 4;
  case DIST_G: return (p->head_dim + 2 * (int64_t)p->v_dim) * each + 4;
  case DIST_KV:
  case DIST_DKV: return ((int64_t)p->head_dim + p->v_dim) * each;
  default: return p->head_dim * each;
  }
}
static inline int64_t dist_row_bytes(const dist_problem *p, int32_t tensor) {
  return dist_row_bytes_in(p, tensor, dist_dtype_of(p, tensor));
}

/* Returns the position of a document's first query, counted from the document's first key. */
static inline int64_t dist_shift(const dist_problem *p, int64_t doc) {
  return (p->kv->doc_start[doc + 1] - p->kv->doc_start[doc]) - (p->q->doc_start[doc + 1] - p->q->doc_start[doc]);
}

/* Band of a tile: query i sees the keys j with i + low <= j <= i + high. i and j count from the starts of the tile's
 * stretches. */
typedef struct dist_band {
  int64_t low, high;
} dist_band;
dist_band dist_band_of(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* Returns whether some query of stretch q sees some key of stretch k. */
bool dist_sees(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
int64_t dist_pairs(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* Returns the rank's first stretch whose document is doc or a later one. */
int64_t dist_first_of_doc(const ga_dist_layout *l, int32_t rank, int64_t doc);

/* --- the builder --- */

/* Sets p->grid from the caller's grid and checks it. The method's values replace zeros. NULL: all values are the
 * method's. */
GA_NODISCARD ga_status dist_method_fill(const char *method, const ga_dist_grid *asked, dist_problem *p);

/* Work for one rank in one stage and one group of heads: tiles between the stretches of two owners, all pairs of
 * stretches or one. */
typedef struct dist_work {
  int32_t stage, rank, q_owner, kv_owner, group;
  int32_t q_stretch, k_stretch; /* Indices of the owners' stretches. -1: all. */
  bool sees;                    /* True: some query of the tiles sees some key. */
} dist_work;

/* A block that is sent from one rank to another. */
typedef struct dist_travel {
  int32_t stage, from, to;
  int32_t tensor, owner, group;
  int32_t merge_stage; /* Stage in which the receiver merges the block, if it is a result. */
  int64_t piece, pieces;
} dist_travel;

typedef struct dist_schedule {
  dist_work *works;
  int64_t n_works, work_room;
  dist_travel *travels;
  int64_t n_travels, travel_room;
} dist_schedule;

/* Checks the number of tiles, which may be at most 2^26. A tile is a pair of stretches of a document, for a group of
 * heads. */
GA_NODISCARD ga_status dist_check_pairs(const dist_problem *p);
GA_NODISCARD ga_status dist_assign(const dist_problem *p, dist_schedule *s);
GA_NODISCARD ga_status dist_assign_balanced(const dist_problem *p, dist_schedule *s);
/* Return the first index, and the index after the last, of the stretches that q_stretch or k_stretch stands for. */
static inline int64_t dist_work_begin(int32_t stretch) { return stretch < 0 ? 0 : stretch; }
static inline int64_t dist_work_end(const ga_dist_layout *l, int32_t rank, int32_t stretch) {
  return stretch < 0 ? dist_stretches(l, rank) : (int64_t)stretch + 1;
}
GA_NODISCARD ga_status dist_route(ga_dist_plan *plan, dist_schedule *s);
GA_NODISCARD ga_status dist_emit(ga_dist_plan *plan, const dist_schedule *s);

/* --- what is written first: first.c --- */

/* Finds the tiles of a rank that overwrite their results (dist_step.writes), and the rows that must be set to zero
 * before. */
GA_NODISCARD ga_status dist_find_first(ga_dist_plan *plan, int32_t rank);
/* Adds rows to a list of rows to be set to zero. The entries of this block begin at index `first`. If at most `apart`
 * rows lie between the new rows and the last entry, that entry is extended instead. */
GA_NODISCARD ga_status dist_add_rows(dist_rows **list, int64_t first, int64_t *n, int64_t *room, dist_rows rows,
                                     int64_t apart);
/* Returns the number of rows that a device sets to zero in the time of one launch. */
int64_t dist_fill_rows(int64_t row_bytes);

/* Makes room for element n of the growing array *(void **)array, whose elements have `each` bytes. */
GA_NODISCARD ga_status dist_grow(void *array, int64_t n, int64_t *room, size_t each, const char *what);

#endif
