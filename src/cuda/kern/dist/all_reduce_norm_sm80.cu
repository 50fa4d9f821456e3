/* KERNEL    all_reduce_norm, sm80: rows summed over 1 to 8 devices, added to a residual, and normed
 * COMPUTES  s = x of rank 0 + x of rank 1 + ..., rounded; residual = residual + s, rounded;
 *           y = residual / sqrt(mean residual^2 + eps) * weight, rounded: the same bits as three separate ops
 * CONTRACT  all ranks launch it with equal rows, width and eps; width a multiple of a unit; x, y, residual, weight at
 *           multiples of 16 bytes; y may be x. At most GA_REDUCE_BLOCKS blocks, which must all fit on the device at
 *           once. ranks = 1: x is the sum, and no slot is used. rows = 0: nothing happens
 * DATA      as all_reduce_sm80.cu in one shot; the residual of further units is read again from L2. The weight is read
 *           before the previous launch has ended
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     after the sends: reads of the block's turn -> write of the next turn; twice a row:
 *                                    its warps' sums -> their sum, and its reads
 * BUDGET    THREADS lanes, one block a row, rows round-robin; 256 B of shared memory
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f32, f16 or bf16"
#endif
#ifndef GA_P_RANKS
#error "GA_P_RANKS: devices, at most: what loops over them are unrolled to"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/dist/all_reduce.h"
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");
static_assert(GA_P_THREADS == GA_REDUCE_NORM_THREADS && GA_P_THREADS >= GA_REDUCE_BLOCKS,
              "the host's launch, pass_turn");

/* The values that all rows of a block share. */
typedef struct {
  const ga_kargs_all_reduce *a;
  row_shared *shared;
  int64_t row_units, units; /* of a row, of all */
  int slot;
  float weight[IN_UNIT]; /* of this lane's first unit */
} norm_rows;

GA_DEV void get_weight(const ga_kargs_all_reduce *a, int64_t unit, int64_t row_units, float *w) {
  GA_UNROLL for (int e = 0; e < IN_UNIT; e += 4) if (unit < row_units)
      elem_get16_f32(w + e, a->weight, unit * IN_UNIT + e);
}

/* The sum of a unit over all ranks, added to the residual: its new value, as it is stored. */
GA_DEV void residual_of_unit(const norm_rows *r, int64_t unit, float *x, int *in_vain) {
  const ga_kargs_all_reduce *a = r->a;
  uint32_t got[GA_P_RANKS][WORDS], w[WORDS], old[WORDS];
  float sum[IN_UNIT];
  get_unit(w, a->x, unit, a->n);
  get_unit(old, a->residual, unit, a->n);
  mark_there(w);
  take_units(a, r->slot, unit, r->units, got, in_vain);
  add_ranks(a, got, w, w);
  unpack_unit(sum, w);
  unpack_unit(x, old);
  GA_UNROLL for (int e = 0; e < IN_UNIT; e++) x[e] += sum[e];
  pack_unit(w, x);
  store_unit(a->residual, unit, a->n, w);
  unpack_unit(x, w);
}

GA_DEV void put_normed(const norm_rows *r, int64_t unit, const float *x, float factor, const float *weight) {
  float y[IN_UNIT];
  uint32_t w[WORDS];
  GA_UNROLL for (int e = 0; e < IN_UNIT; e++) y[e] = x[e] * factor * weight[e];
  pack_unit(w, y);
  store_unit(r->a->y, unit, r->a->n, w);
}

GA_DEV void norm_own_row(const norm_rows *r, int64_t row, int *in_vain) {
  const int64_t at = row * r->row_units;
  float first[IN_UNIT], x[IN_UNIT], weight[IN_UNIT], squares = 0;
  for (int64_t c = thread_index(); c < r->row_units; c += GA_P_THREADS) {
    residual_of_unit(r, at + c, x, in_vain);
    GA_UNROLL for (int e = 0; e < IN_UNIT; e++) squares += x[e] * x[e];
    if (c < GA_P_THREADS) GA_UNROLL
      for (int e = 0; e < IN_UNIT; e++) first[e] = x[e];
  }
  squares = row_sum(r->shared, 0, GA_P_THREADS, squares);
  const float factor = 1.0f / sqrtf(squares / (float)r->a->width + r->a->eps);
  if (thread_index() < r->row_units) put_normed(r, at + thread_index(), first, factor, r->weight);
  for (int64_t c = thread_index() + GA_P_THREADS; c < r->row_units; c += GA_P_THREADS) {
    uint32_t w[WORDS];
    get_unit(w, r->a->residual, at + c, r->a->n); /* this lane has written it */
    unpack_unit(x, w);
    get_weight(r->a, c, r->row_units, weight);
    put_normed(r, at + c, x, factor, weight);
  }
  block_sync(); /* slots of this row's sum are read before the next row's are written */
}

/* first: the words of this lane's first unit. */
GA_DEV void send_rows(const norm_rows *r, const uint32_t *first) {
  for (int64_t row = block_index(); row < r->a->rows; row += block_count())
    for (int64_t c = thread_index(); c < r->row_units; c += GA_P_THREADS) {
      uint32_t w[WORDS];
      if (row < block_count() && c < GA_P_THREADS) GA_UNROLL
        for (int e = 0; e < WORDS; e++) w[e] = first[e];
      else
        get_unit(w, r->a->x, row * r->row_units + c, r->a->n);
      mark_there(w);
      send_to_all(r->a, r->slot, r->a->rank * r->units + row * r->row_units + c, w);
    }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_all_reduce a) {
  GA_SHARED row_shared shared;
  norm_rows r;
  int in_vain = 0;
  r.a = &a;
  r.shared = &shared;
  r.row_units = a.width / IN_UNIT;
  r.units = a.rows * r.row_units;
  if (a.rows) get_weight(&a, thread_index(), r.row_units, r.weight);
  grid_launch_dependents();
  grid_dependency_wait();
  if (!a.rows) return;
  uint32_t first[WORDS]; /* under way together with the turn */
  if (thread_index() < r.row_units) get_unit(first, a.x, block_index() * r.row_units + thread_index(), a.n);
  const ga_reduce_turn t = turn_of_block(&a);
  if (t.failed) return;
  r.slot = t.slot;
  if (a.ranks > 1) {
    send_rows(&r, first);
    pass_turn(&a, &t, GA_P_THREADS, a.ranks * r.units);
  }
  for (int64_t row = block_index(); row < a.rows; row += block_count()) norm_own_row(&r, row, &in_vain);
}
