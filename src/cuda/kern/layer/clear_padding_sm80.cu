/* KERNEL    clear_padding, sm80
 * COMPUTES  zeros in rows that no packed sequence has, -infinity in their LSE (ga/attn.h)
 * CONTRACT  plain types, strides in units of 16 bytes or of elements; rows of sequences are neither read nor written
 * DATA      borders from gmem; a lane looks for one row, then its warp clears the rows that were found
 * BUDGET    THREADS lanes; a block takes THREADS rows of one side, or the LSE of one sequence, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/bits.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/clear_padding_args.h"

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

enum { WARP = 32 };

GA_DEV int64_t sequence_end(const ga_kargs_padded_side *s, int64_t b) {
  return s->len ? (int64_t)ldg_i32(s->start + b) + ldg_i32(s->len + b) : ldg_i32(s->start + b + 1);
}

/* Returns 1 for a row of the side that lies in no sequence. Without lengths sequences follow one another. */
GA_DEV int is_padding(const ga_kargs_padded_side *s, int64_t batch, int64_t row) {
  if (row >= s->tokens) return 0;
  if (batch == 0) return 1;
  if (!s->len) return row < ldg_i32(s->start) || row >= ldg_i32(s->start + batch);
  for (int64_t b = 0; b < batch; b++)
    if (row >= ldg_i32(s->start + b) && row < sequence_end(s, b)) return 0;
  return 1;
}

/* Writes zeros to one row of a tensor, with one warp. */
GA_DEV void clear_row(const ga_kargs_padded *t, int heads, int64_t row, int lane) {
  if (!t->x) return;
  for (int64_t i = lane; i < (int64_t)heads * t->units; i += WARP) {
    const int64_t at = row * t->token + i / t->units * t->head + i % t->units;
    char *p = (char *)t->x + at * t->unit;
    if (t->unit == 16)
      stg_u4(p, 0, 0, 0, 0);
    else if (t->unit == 4)
      stg_i32((int32_t *)p, 0);
    else
      stg_u16((uint16_t *)p, 0);
  }
}

GA_DEV void clear_tile(const ga_kargs_clear_padding *a, const ga_kargs_padded_side *s, int64_t tile, float *lse) {
  const int lane = thread_index() % WARP;
  const int64_t row = tile * GA_P_THREADS + thread_index();
  const int padding = is_padding(s, a->batch, row);
  for (int h = 0; padding && lse && h < s->heads; h++) stg_f32(lse + h * a->lse_stride + row, GA_NEG_INFINITY);
  for (uint32_t found = warp_ballot(padding); found; found &= found - 1)
    for (int i = 0; i < 2; i++) clear_row(&s->x[i], s->heads, row - lane + lowest_bit(found), lane);
}

/* Fills the LSE of one sequence, [heads, max_q], from its last row on. */
GA_DEV void clear_lse_end(const ga_kargs_clear_padding *a, int64_t b) {
  const int64_t rows = sequence_end(&a->q, b) - ldg_i32(a->q.start + b);
  float *lse = a->lse + b * a->q.heads * a->max_q;
  for (int h = 0; h < a->q.heads; h++)
    for (int64_t i = rows + thread_index(); i < a->max_q; i += GA_P_THREADS)
      stg_f32(lse + h * a->max_q + i, GA_NEG_INFINITY);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_clear_padding a) {
  const int64_t tiles = (int64_t)a.q.tiles + a.kv.tiles, ends = a.lse && !a.lse_stride ? a.batch : 0;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t i = block_index(); i < tiles + ends; i += block_count()) {
    if (i < a.q.tiles)
      clear_tile(&a, &a.q, i, a.lse_stride ? a.lse : 0);
    else if (i < tiles)
      clear_tile(&a, &a.kv, i - a.q.tiles, 0);
    else
      clear_lse_end(&a, i - tiles);
  }
}
