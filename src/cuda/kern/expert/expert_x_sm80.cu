/* KERNEL    expert_x, sm80: X for expert_tile
 * COMPUTES  sorted rows of X in bf16, zeros from k to width; each 16 columns in the order of packed weights on tensor
 *           cores: place 8h + 2q + e has column 4q + 2h + e (cuda/kern/gemm/packed.h)
 * CONTRACT  SORTED; x f32. IN: out row p is the row of the token whose slot is sorted row p; OUT: row p itself. out
 *           [tokens * top_k, width], width a multiple of 64. OUT: zeros for slots that are left out
 * WORK      a thread has 16 columns of a row, round-robin
 * BUDGET    THREADS lanes
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/kern/expert/expert_rows.h"

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

enum { EACH = 16 };

/* Columns col to col + 15 of a row of X; zeros from k on. */
GA_DEV void get_columns(const ga_kargs_expert *a, const float *row, int64_t col, float *x) {
  if (col + EACH <= a->k && (uint64_t)(row + col) % 16 == 0) {
    GA_UNROLL for (int i = 0; i < EACH; i += 4) elem_get16_f32(x + i, row, col + i);
    return;
  }
  GA_UNROLL for (int i = 0; i < EACH; i++) x[i] = col + i < a->k ? row[col + i] : 0.0f;
}

GA_KERNEL(GA_P_THREADS, 4) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_expert_x a) {
  const int64_t across = a.width / EACH, items = a.e.tokens * a.e.top_k * across;
  grid_launch_dependents();
  grid_dependency_wait();
  for (int64_t i = (int64_t)block_index() * GA_P_THREADS + thread_index(); i < items;
       i += (int64_t)block_count() * GA_P_THREADS) {
    const int64_t p = i / across, col = i % across * EACH, row = a.e.form == EXPERT_IN ? a.e.order[p] / a.e.top_k : p;
    float x[EACH];
    uint32_t w[8];
    const bool is_there = a.e.form == EXPERT_IN || !a.e.matrices || a.e.matrices[expert_of_row(&a.e, (int)p)] >= 0;
    if (is_there)
      get_columns(&a.e, (const float *)a.e.x + row * a.e.x_stride, col, x);
    else GA_UNROLL
      for (int e = 0; e < EACH; e++) x[e] = 0;
    GA_UNROLL for (int h = 0; h < 2; h++) GA_UNROLL for (int q = 0; q < 4; q++) w[4 * h + q] =
        pack_bf16(x[4 * q + 2 * h], x[4 * q + 2 * h + 1]);
    uint16_t *to = (uint16_t *)a.out + p * a.width + col;
    stg_u4(to, w[0], w[1], w[2], w[3]);
    stg_u4(to + 8, w[4], w[5], w[6], w[7]);
  }
}
