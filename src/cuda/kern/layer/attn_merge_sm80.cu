/* KERNEL    attn_merge, sm80
 * COMPUTES  partial results of attention over two sets of keys, merged by their LSE (ga/layer.h)
 * CONTRACT  o f32, part f32, f16 or bf16; strides in elements, any alignment of the element (16 bytes at a time when
 *           a.vec16)
 * DATA      gmem -> registers, 8 columns a lane -> gmem; O and its LSE in place
 * BUDGET    THREADS lanes; a warp takes 1 to 32 rows at once, so that no lane idles where dim is 8 to 256 and a power
 *           of two
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/layer/layer_args.h"

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

#define LN2 0.693147181f
enum { WARP = 32, WARPS = GA_P_THREADS / WARP, E = 8 };

typedef const ga_kargs_attn_merge *args;

/* Loads 8 elements of `part` from element `at` on. */
GA_DEV void get_part(args a, int64_t at, float *x) {
  if (a->part_dtype == T_F32) {
    elem_get16_f32(x, a->part, at);
    elem_get16_f32(x + 4, a->part, at + 4);
  } else if (a->part_dtype == T_F16) {
    elem_get16_f16(x, a->part, at);
  } else {
    elem_get16_bf16(x, a->part, at);
  }
}
/* Merges columns [col, col + 8) of a row: o becomes mine * o + theirs * part. mine is 0 where o holds no result. */
GA_DEV void merge_columns(args a, float *o, int64_t part, int32_t col, float mine, float theirs) {
  float x[E], y[E];
  if (!a->vec16) {
    for (int32_t c = col; c < a->dim && c < col + E; c++)
      o[c] = (mine == 0.0f ? 0.0f : mine * o[c]) + theirs * plain_get(a->part_dtype, a->part, part + c);
    return;
  }
  get_part(a, part + col, x);
  GA_UNROLL for (int e = 0; e < E; e++) y[e] = 0.0f;
  if (mine != 0.0f) {
    elem_get16_f32(y, o, col);
    elem_get16_f32(y + 4, o, col + 4);
  }
  GA_UNROLL for (int e = 0; e < E; e++) y[e] = mine * y[e] + theirs * x[e];
  elem_put16_f32(o, col, y);
  elem_put16_f32(o, col + 4, y + 4);
}
/* Merges one row of a head, by `lanes` lanes of a warp. All lanes of the warp call it; `in` is 0 past the last row. */
GA_DEV void merge_attn_row(args a, int64_t row, int32_t head, int lane, int lanes, int in) {
  float *o = a->o + row * a->o_token + head * a->o_head, *lse = a->lse + head * a->lse_head + row;
  const int64_t part = row * a->part_token + head * a->part_head, at = head * a->part_lse_head + row;
  float l = 1.0f, more = GA_NEG_INFINITY, old = GA_NEG_INFINITY;
  if (in) {
    old = *lse;
    more = a->part_lse[at];
    if (a->part_l) {
      l = a->part_l[at];
      more = LN2 * (more + log2f(l));
    }
  }
  warp_sync(); /* all lanes have read the LSE */
  if (more == GA_NEG_INFINITY) return;
  const float top = old > more ? old : more, w_old = expf(old - top), w_more = expf(more - top);
  const float sum = w_old + w_more, mine = w_old / sum, theirs = w_more / (sum * l);
  for (int32_t col = lane * E; col < a->dim; col += lanes * E) merge_columns(a, o, part, col, mine, theirs);
  if (lane == 0) *lse = top + logf(sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_merge a) {
  const int64_t rows = a.rows * a.heads;
  const int warp = thread_index() / WARP, lane = thread_index() % WARP;
  int lanes = WARP; /* of a row */
  while (lanes > 1 && a.dim <= lanes / 2 * E) lanes /= 2;
  const int64_t step = WARP / lanes;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t i = ((int64_t)block_index() * WARPS + warp) * step; i < rows;
       i += (int64_t)block_count() * WARPS * step) {
    const int64_t r = i + lane / lanes;
    merge_attn_row(&a, r / a.heads, (int32_t)(r % a.heads), lane % lanes, lanes, r < rows);
  }
}
