/* Plans from the inside: what the builder writes, and the verifier, the executor and the drawings read. */
#ifndef GA_DIST_PLAN_H
#define GA_DIST_PLAN_H

#include "base/status.h"
#include "dist/layout.h"
#include "ga/tensor.h"

/* Blocks of rows of one rank, for some heads. */
typedef enum dist_tensor {
  DIST_Q,   /* Q */
  DIST_KV,  /* K, V */
  DIST_O,   /* partial O and LSE */
  DIST_G,   /* what queries bring to the backward: Q, O, dO, LSE */
  DIST_DQ,  /* partial dQ */
  DIST_DKV, /* partial dK, dV */
} dist_tensor;

typedef enum dist_kind {
  DIST_OPEN,    /* slot becomes an empty partial result */
  DIST_SEND,    /* posts a block out of slot to peer; goes on */
  DIST_RECEIVE, /* posts slot for a block from peer; goes on */
  DIST_WAIT,    /* until what slot was posted for is there */
  DIST_TILE,    /* stretch of queries x stretch of keys x heads, added to slot (and slot_dkv) */
  DIST_MERGE,   /* partial result in `from` is added to slot */
  DIST_FREE     /* waits for sends out of slot, then slot is empty */
} dist_kind;

/* Backward, of a TILE: its first call writes its rows of dQ, or of dK and dV, as none before has them. Its second call:
 * the same, shifted to the left by 1. Else what the sums hold is added to. */
enum { DIST_WRITES_DQ = 1, DIST_WRITES_DKV = 4 };

/* The slots of a rank's own tensors; they are the caller's memory and always hold their block. */
enum { DIST_SLOT_Q, DIST_SLOT_KV, DIST_SLOT_OUT, DIST_SLOT_DKV, DIST_OWN_SLOTS };

typedef struct dist_step {
  int32_t kind, stage;
  int32_t tensor, owner; /* OPEN, SEND, RECEIVE, MERGE: the block; its first head and heads (KV, DKV: of keys) */
  int32_t head, heads;   /* TILE: of queries */
  int32_t slot, peer;
  int32_t from;                      /* MERGE: slot of the partial result */
  int32_t slot_q, slot_kv, slot_dkv; /* TILE; slot_dkv -1 forward */
  int32_t q_owner, kv_owner;         /* TILE */
  int32_t q_stretch, k_stretch;      /* TILE: of these owners */
  int32_t order, order_dkv;          /* TILE, MERGE: the how many-th result that slot (slot_dkv) takes, from 0 */
  int64_t piece, pieces;             /* OPEN, SEND, RECEIVE: stretches of owner that the block has, in plan->pieces */
  int64_t bytes;                     /* SEND, RECEIVE, OPEN: of the block */
  int64_t zero, zeros;               /* OPEN, backward: rows that begin at zero, in plan->zeros */
  int32_t writes, reserved;          /* TILE: DIST_WRITES_ */
} dist_step;

/* Rows [from, to). */
typedef struct dist_rows {
  int64_t from, to;
} dist_rows;

typedef struct dist_program {
  dist_step *steps;
  int64_t n_steps, room;
  int64_t *slot_bytes; /* [n_slots]; those of its own are 0 */
  int32_t n_slots, slot_room;
} dist_program;

/* Heads of group x of n: [begin, end). Any n up to the number of heads. */
typedef struct dist_heads {
  int32_t begin, end;
} dist_heads;

typedef struct dist_problem {
  const ga_dist_layout *q, *kv;
  int32_t ranks, q_heads, kv_heads, head_dim, v_dim;
  uint32_t flags;
  int32_t table;                /* dist_table */
  int32_t dtype, partial_dtype; /* ga_dtype: f32, f16, bf16; partial_dtype is f32 or dtype */
  float softcap;                /* 0 = none */
  float scale;                  /* 0 = 1 / sqrt(head_dim) */
  int64_t window;               /* 0 = none */
  ga_dist_grid grid;
  bool splits_heads; /* gather.h: a rank has all tokens of its heads, so that results are whole when they travel */
} dist_problem;

/* Who computes which tile. */
typedef enum dist_table {
  DIST_PRODUCT, /* the grid */
  DIST_HELPERS, /* DistFlashAttn: ranks that have done their own rows take tiles of those that have not */
  DIST_BALANCED /* each tile to a rank that has room for it, few bytes away */
} dist_table;

struct ga_dist_plan {
  dist_problem p;
  dist_program *programs; /* [ranks] */
  int32_t *pieces;
  int64_t n_pieces, piece_room;
  dist_rows *zeros; /* of blocks that steps open */
  int64_t n_zeros, zero_room;
  int32_t stages;
  uint64_t hash;
};

static inline dist_heads dist_q_group(const dist_problem *p, int32_t x) {
  return (dist_heads){(int32_t)((int64_t)p->q_heads * x / p->grid.heads),
                      (int32_t)((int64_t)p->q_heads * (x + 1) / p->grid.heads)};
}
/* Heads of keys that these heads of queries read. */
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
/* Of a block in memory, and of one that travels. */
static inline int32_t dist_dtype_of(const dist_problem *p, int32_t tensor) {
  return dist_is_result(tensor) ? p->partial_dtype : p->dtype;
}
static inline int32_t dist_sent_dtype(const dist_problem *p, int32_t tensor) {
  return p->splits_heads ? p->dtype : dist_dtype_of(p, tensor);
}
static inline int64_t dist_dtype_bytes(int32_t dtype) { return dtype == GA_F32 ? 4 : 2; }
/* Of one row and one head of a block whose parts have a type; an LSE has 4 bytes whatever that is. */
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

/* The place of a document's first query among its keys. */
static inline int64_t dist_shift(const dist_problem *p, int64_t doc) {
  return (p->kv->doc_start[doc + 1] - p->kv->doc_start[doc]) - (p->q->doc_start[doc + 1] - p->q->doc_start[doc]);
}

/* Query i of a tile sees its keys j with i + low <= j <= i + high. */
typedef struct dist_band {
  int64_t low, high;
} dist_band;
dist_band dist_band_of(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* Some query of one sees some key of the other. */
bool dist_sees(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
int64_t dist_pairs(const dist_problem *p, const dist_stretch *q, const dist_stretch *k);
/* First stretch of a rank whose document is doc or behind it. */
int64_t dist_first_of_doc(const ga_dist_layout *l, int32_t rank, int64_t doc);

/* --- the builder --- */

/* Fills what grid leaves open, and checks what it says. */
GA_NODISCARD ga_status dist_method_fill(const char *method, const ga_dist_grid *asked, dist_problem *p);

/* Tiles of two ranks' stretches, for a group of heads, on one rank in one stage: all pairs, or one. */
typedef struct dist_work {
  int32_t stage, rank, q_owner, kv_owner, group;
  int32_t q_stretch, k_stretch; /* -1 = all */
  bool sees;                    /* some tile of it is not empty */
} dist_work;

/* A block that goes from one rank to another. */
typedef struct dist_travel {
  int32_t stage, from, to;
  int32_t tensor, owner, group;
  int32_t merge_stage; /* results */
  int64_t piece, pieces;
} dist_travel;

typedef struct dist_schedule {
  dist_work *works;
  int64_t n_works, work_room;
  dist_travel *travels;
  int64_t n_travels, travel_room;
} dist_schedule;

/* A tile is a pair of stretches of a document, for a group of heads: a plan has at most 2^26. */
GA_NODISCARD ga_status dist_check_pairs(const dist_problem *p);
GA_NODISCARD ga_status dist_assign(const dist_problem *p, dist_schedule *s);
GA_NODISCARD ga_status dist_assign_balanced(const dist_problem *p, dist_schedule *s);
/* Stretches [begin, end) of a side of a work. */
static inline int64_t dist_work_begin(int32_t stretch) { return stretch < 0 ? 0 : stretch; }
static inline int64_t dist_work_end(const ga_dist_layout *l, int32_t rank, int32_t stretch) {
  return stretch < 0 ? dist_stretches(l, rank) : (int64_t)stretch + 1;
}
GA_NODISCARD ga_status dist_route(ga_dist_plan *plan, dist_schedule *s);
GA_NODISCARD ga_status dist_emit(ga_dist_plan *plan, const dist_schedule *s);

/* --- what is written first: first.c --- */

/* Which tiles of a rank's steps write, and which rows begin at zero. */
GA_NODISCARD ga_status dist_find_first(ga_dist_plan *plan, int32_t rank);
/* Rows that begin at zero, one more entry or a longer last one: up to `apart` rows between two of them are zeros, too.
 * The list begins at `first`. */
GA_NODISCARD ga_status dist_add_rows(dist_rows **list, int64_t first, int64_t *n, int64_t *room, dist_rows rows,
                                     int64_t apart);
/* So many rows are written while one more fill of a device begins. */
int64_t dist_fill_rows(int64_t row_bytes);

/* "KV": static. */
const char *dist_tensor_name(int32_t tensor);

/* Room for one more element of an array that grows. */
GA_NODISCARD ga_status dist_grow(void *array, int64_t n, int64_t *room, size_t each, const char *what);

#endif
