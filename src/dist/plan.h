/* Internals of a plan of distributed attention. The builder writes a plan; the verifier, the executors, the simulator
 * and the drawings read it. */
#ifndef GA_DIST_PLAN_H
#define GA_DIST_PLAN_H

#include "base/status.h"
#include "dist/layout.h"
#include "ga/tensor.h"

/* Kinds of blocks. A block is rows of one rank (its owner), for some of the heads, of the tensors named below. */
typedef enum dist_tensor {
  DIST_Q,   /* Q of the owner's rows */
  DIST_KV,  /* K and V of the owner's rows */
  DIST_O,   /* partial O and LSE for the owner's rows */
  DIST_G,   /* inputs of the backward pass that have a row for each query: Q, O, dO, LSE */
  DIST_DQ,  /* partial dQ for the owner's rows */
  DIST_DKV, /* partial dK and dV for the owner's rows */
} dist_tensor;

/* Kinds of steps of a rank's program. A slot is memory of the rank for one block. */
typedef enum dist_kind {
  DIST_OPEN,    /* makes the slot hold an empty partial result */
  DIST_SEND,    /* begins to send the slot's block to peer; does not wait */
  DIST_RECEIVE, /* begins to receive a block from peer into the slot; does not wait */
  DIST_WAIT,    /* waits until the slot's block has been received */
  /* computes attention of a stretch of queries with a stretch of keys for some heads. Adds the result to slot, and in
   * the backward pass also to slot_dkv */
  DIST_TILE,
  DIST_MERGE, /* merges the partial result in slot `from` into slot `slot` */
  DIST_FREE   /* waits for the sends from the slot, then empties it */
} dist_kind;

/* Bits of dist_step.writes of a DIST_TILE step in the backward pass. A set bit means that the tile's first call
 * overwrites its rows of dQ (or dK and dV), which no earlier call has written. Without the bit the call adds to them.
 * The bits shifted left by 1 are for the tile's second call. */
enum { DIST_WRITES_DQ = 1, DIST_WRITES_DKV = 4 };

/* Slots of a rank's own tensors. These slots are the caller's memory and always hold their block. */
enum { DIST_SLOT_Q, DIST_SLOT_KV, DIST_SLOT_OUT, DIST_SLOT_DKV, DIST_OWN_SLOTS };

/* One step of a rank's program. A field that only some kinds of steps use names these kinds first. */
typedef struct dist_step {
  int32_t kind, stage;
  /* OPEN, SEND, RECEIVE, MERGE: kind (dist_tensor) and owner of the block. */
  int32_t tensor, owner;
  /* First head and number of heads. TILE: query heads. Other kinds of steps: heads of the block, which are KV heads in
   * KV and DKV blocks. */
  int32_t head, heads;
  int32_t slot, peer;
  int32_t from; /* MERGE: slot of the partial result that is merged. */
  /* TILE: slots of Q, of K with V, and of dK with dV. slot_dkv is -1 in the forward pass. */
  int32_t slot_q, slot_kv, slot_dkv;
  int32_t q_owner, kv_owner; /* TILE: ranks that own the queries and the keys. */
  /* TILE: index of the stretch of queries among q_owner's stretches, and of the stretch of keys among kv_owner's. */
  int32_t q_stretch, k_stretch;
  /* TILE, MERGE: position, from 0, of this step's result in the order in which results are added to slot (order) and to
   * slot_dkv (order_dkv). */
  int32_t order, order_dkv;
  /* OPEN, SEND, RECEIVE: the block has the owner's stretches with the indices plan->pieces[piece] to plan->pieces[piece
   * + pieces - 1]. */
  int64_t piece, pieces;
  /* OPEN, SEND, RECEIVE: size of the block in bytes. */
  int64_t bytes;
  /* OPEN in the backward pass: rows that are set to zero are the ranges plan->zeros[zero] to plan->zeros[zero + zeros -
   * 1]. */
  int64_t zero, zeros;
  /* TILE in the backward pass: bits DIST_WRITES_*. */
  int32_t writes, reserved;
} dist_step;

/* A range of rows, `from` to `to` - 1. */
typedef struct dist_rows {
  int64_t from, to;
} dist_rows;

typedef struct dist_program {
  dist_step *steps;
  int64_t n_steps, room;
  /* Size of each slot in bytes, [n_slots]. 0 for the first DIST_OWN_SLOTS slots, which are the caller's tensors. */
  int64_t *slot_bytes;
  int32_t n_slots, slot_room;
} dist_program;

/* A range of heads, `begin` to `end` - 1. */
typedef struct dist_heads {
  int32_t begin, end;
} dist_heads;

typedef struct dist_problem {
  const ga_dist_layout *q, *kv;
  int32_t ranks, q_heads, kv_heads, head_dim, v_dim;
  uint32_t flags;
  int32_t table; /* Rule by which tiles are assigned to ranks, a dist_table value. */
  /* Types of the tensors and of partial results (ga_dtype: f32, f16, bf16). partial_dtype is f32 or equals dtype. */
  int32_t dtype, partial_dtype;
  float softcap; /* Soft-cap of the logits, cap * tanh(logit / cap). 0: no soft-cap. */
  float scale;   /* Factor by which logits are multiplied. 0: 1 / sqrt(head_dim). */
  /* Sliding window: a query at position p sees keys at positions above p - window only. 0: no window. */
  int64_t window;
  ga_dist_grid grid;
  /* True: ranks split the heads, and each has all tokens of its heads (gather.h). Results are then complete when they
   * are sent. */
  bool splits_heads;
} dist_problem;

/* Rules by which tiles are assigned to ranks. */
typedef enum dist_table {
  DIST_PRODUCT, /* the grid (ga_dist_grid) determines the rank of each tile */
  DIST_HELPERS, /* DistFlashAttn: ranks that have finished the tiles of their own rows compute tiles of other ranks */
  DIST_BALANCED /* each tile is assigned to a rank that has free time and must receive few bytes for the tile */
} dist_table;

struct ga_dist_plan {
  dist_problem p;
  dist_program *programs; /* One program per rank, [ranks]. */
  /* Indices of stretches, which steps refer to (dist_step.piece). */
  int32_t *pieces;
  int64_t n_pieces, piece_room;
  dist_rows *zeros; /* Ranges of rows that OPEN steps set to zero (dist_step.zero). */
  int64_t n_zeros, zero_room;
  int32_t stages;
  uint64_t hash;
};

/* Returns the query heads of group x, where all query heads are divided into grid.heads groups. The number of groups
 * need not divide the number of heads. */
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
/* Returns the bytes of one row and one head of a block of kind `tensor` whose elements have type dtype. An LSE always
 * has 4 bytes. */
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

/* Returns the position of the first query of document doc, counted from the document's first key. */
static inline int64_t dist_shift(const dist_problem *p, int64_t doc) {
  return (p->kv->doc_start[doc + 1] - p->kv->doc_start[doc]) - (p->q->doc_start[doc + 1] - p->q->doc_start[doc]);
}

/* Band of visible keys of a tile: query i sees the keys j with i + low <= j <= i + high. i and j count from the starts
 * of the tile's stretches. */
typedef struct dist_band {
  int64_t low, high;
} dist_band;
dist_band dist_band_of(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* Returns whether some query of stretch q sees some key of stretch k. */
bool dist_sees(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
int64_t dist_pairs(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* Returns the index of the rank's first stretch whose document is doc or a later one. */
int64_t dist_first_of_doc(const ga_dist_layout *l, int32_t rank, int64_t doc);

/* --- the builder --- */

/* Sets p->grid from the caller's grid `asked` and checks it. Zeros in `asked` are replaced by the method's values; NULL
 * stands for zeros only. */
GA_NODISCARD ga_status dist_method_fill(const char *method, const ga_dist_grid *asked, dist_problem *p);

/* Tiles that one rank computes in one stage for one group of heads. They are between stretches of q_owner's queries and
 * stretches of kv_owner's keys. */
typedef struct dist_work {
  int32_t stage, rank, q_owner, kv_owner, group;
  int32_t q_stretch, k_stretch; /* Index of one stretch of the owner. -1: all stretches of the owner. */
  bool sees;                    /* True: some query of the tiles sees some key. */
} dist_work;

/* A transfer of a block from one rank to another. The block has kind `tensor`, head group `group`, and the owner's
 * stretches plan->pieces[piece] to plan->pieces[piece + pieces - 1]. */
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

/* Returns an error if the problem has more than 2^26 tiles. A tile is a stretch of queries with a stretch of keys of
 * the same document, for one group of heads. */
GA_NODISCARD ga_status dist_check_pairs(const dist_problem *p);
GA_NODISCARD ga_status dist_assign(const dist_problem *p, dist_schedule *s);
GA_NODISCARD ga_status dist_assign_balanced(const dist_problem *p, dist_schedule *s);
/* Return the first index, and the index after the last, of the stretches that dist_work.q_stretch or k_stretch stands
 * for. */
static inline int64_t dist_work_begin(int32_t stretch) { return stretch < 0 ? 0 : stretch; }
static inline int64_t dist_work_end(const ga_dist_layout *l, int32_t rank, int32_t stretch) {
  return stretch < 0 ? dist_stretches(l, rank) : (int64_t)stretch + 1;
}
GA_NODISCARD ga_status dist_route(ga_dist_plan *plan, dist_schedule *s);
GA_NODISCARD ga_status dist_emit(ga_dist_plan *plan, const dist_schedule *s);

/* --- tiles that overwrite results: first.c --- */

/* Sets dist_step.writes of the rank's tiles that overwrite their results. Lists the rows that OPEN steps set to zero
 * because no tile overwrites them first. */
GA_NODISCARD ga_status dist_find_first(ga_dist_plan *plan, int32_t rank);
/* Adds the range `rows` to *list, an array of *n ranges of rows to be set to zero. Entries of the current block begin
 * at index `first`. If at most `apart` rows lie between the new range and the last entry, the last entry is extended
 * instead. */
GA_NODISCARD ga_status dist_add_rows(dist_rows **list, int64_t first, int64_t *n, int64_t *room, dist_rows rows,
                                     int64_t apart);
/* Returns how many rows of row_bytes bytes a device sets to zero in the time of one kernel launch. */
int64_t dist_fill_rows(int64_t row_bytes);

/* Makes room for element n in a growing array. array is the address of the array's pointer, *room the capacity, `each`
 * the bytes of an element. `what` is the name of the array in the error's text. */
GA_NODISCARD ga_status dist_grow(void *array, int64_t n, int64_t *room, size_t each, const char *what);

#endif
