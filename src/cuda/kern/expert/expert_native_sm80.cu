/* KERNEL    expert_native, sm80: products by experts with every weight type in the file's own blocks, any shape;
 *           correct, not fast
 * COMPUTES  Y of ga_expert_gemm (ga/experts.h), sums in f32
 * CONTRACT  w in its native layout; any number of tokens, n, k and strides
 * DATA      a warp takes one row of an expert's matrix, or one of each matrix of a gated IN, and one row of X, element
 *           by element: lanes along k
 * WORK      IN: a warp takes a slot and a column; OUT: a token and a column, slot after slot in the order of experts
 * BUDGET    THREADS lanes; a block has THREADS / 32 neighbouring columns of a row
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/expert/expert_rows.h"
#include "cuda/kern/expert/expert_turn.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { WARPS = GA_P_THREADS / 32, NO_SLOT = 0x7fffffff };

typedef const ga_kargs_expert *args;

/* Returns, to every lane, the products of row x_row of X with row col of an expert's matrix. */
GA_DEV float native_dot(args a, const void *w, int expert, int64_t col, int64_t x_row) {
  const int64_t of_w = (expert * a->expert_rows + col) * a->k, of_x = x_row * a->x_stride;
  float sum = 0;
  for (int64_t i = thread_index() % 32; i < a->k; i += 32)
    sum = fmaf(quant_at(a->w_dtype, w, of_w + i), plain_get(a->x_dtype, a->x, of_x + i), sum);
  return row_sum_warp(sum);
}

GA_DEV void write_slot(args a, int64_t slot, int64_t col) {
  const int64_t row = expert_slot_row(a, slot), token = slot / a->top_k;
  const int expert = a->flags & EXPERT_SORTED ? expert_of_row(a, (int)row) : expert_of_slot(a, slot);
  const float weight = expert_weight(a, slot);
  float g = 0;
  if (a->flags & EXPERT_GATED)
    g = expert_with_bias(a, a->bias_gate, expert, col, weight, native_dot(a, a->w_gate, expert, col, token));
  const float u = expert_with_bias(a, a->bias, expert, col, weight, native_dot(a, a->w, expert, col, token));
  if (thread_index() % 32 == 0) plain_put(a->y_dtype, a->y, row * a->y_stride + col, expert_into_slot(a, g, u));
}

/* Returns, to every lane, the slot of the token with the smallest key above *last, and its key in *last; -1: none. */
GA_DEV int next_slot(args a, int64_t token, int *last) {
  const int lane = thread_index() % 32;
  int key[2];
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const int slot = lane + 32 * i;
    key[i] = slot < a->top_k ? expert_slot_key(a, token * a->top_k + slot) : NO_SLOT;
    if (key[i] <= *last) key[i] = NO_SLOT;
  }
  const int least = redux_min_i32(key[0] < key[1] ? key[0] : key[1]);
  if (least == NO_SLOT) return -1;
  *last = least;
  const int mine = key[0] == least ? lane : key[1] == least ? lane + 32 : -1;
  return redux_max_i32(mine);
}

GA_DEV void write_token(args a, int64_t token, int64_t col) {
  const int64_t at = token * a->y_stride + col;
  float sum = a->flags & EXPERT_RESIDUAL ? plain_get(a->y_dtype, a->residual, at) : 0;
  int last = -1, slot;
  while ((slot = next_slot(a, token, &last)) >= 0) {
    const int64_t of_all = token * a->top_k + slot, row = expert_slot_row(a, of_all);
    const int expert = a->flags & EXPERT_SORTED ? expert_of_row(a, (int)row) : a->experts[of_all];
    sum +=
        expert_weight(a, of_all) * expert_with_bias(a, a->bias, expert, col, 1, native_dot(a, a->w, expert, col, row));
  }
  warp_sync(); /* all lanes have read the residual, which may be Y */
  if (thread_index() % 32 == 0) plain_put(a->y_dtype, a->y, at, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert a) {
  const int64_t across = (a.n + WARPS - 1) / WARPS, rows = a.form == EXPERT_IN ? a.tokens * a.top_k : a.tokens;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < across * rows; u += block_count()) {
    const int64_t col = u % across * WARPS + thread_index() / 32;
    if (col >= a.n) continue;
    if (a.form == EXPERT_IN)
      write_slot(&a, u / across, col);
    else
      write_token(&a, u / across, col);
  }
}
