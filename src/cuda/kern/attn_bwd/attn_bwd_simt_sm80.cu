/* KERNEL    attn_bwd, plain, sm_80 and newer: one warp per own row, columns over the lanes, no shared memory
 * COMPUTES  dK and dV of OWN rows of K and V (blocks of threads 0 .. blocks_k - 1), dQ of OWN rows of Q (the others),
 *           by the definition in ga/attn_bwd.h, in f32, other rows in ascending order: the same bits in every run
 * CONTRACT  f32, bf16 or f16; head dim and value dim 1 to D; any strides; every mask and feature by arguments; any
 *           scale; attn_bwd_pre has run (cuda/kern/attn_bwd/attn_bwd_args.h). For types and head dims that no
 *           tensor-core variant takes
 * DATA      gmem -> registers -> gmem: rows of the other side are read once an own row, through L1 and L2
 * BUDGET    32 OWN threads, registers for BLOCKS blocks a multiprocessor
 * MEASURED  not timed: the variant for calls that no other one takes
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"
#include "cuda/kern/attn_bwd/attn_bwd_pairs.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f32, bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: the widest head"
#endif
#ifndef GA_P_OWN
#error "GA_P_OWN: rows of a block, a warp each"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor that registers must suffice for"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { N = GA_P_D / 32, THREADS = 32 * OWN };

#define GET   GA_CAT(elem_get_, GA_P_DTYPE)
#define PUT   GA_CAT(elem_put_, GA_P_DTYPE)
#define LOG2E 1.442695041f /* log2 e */

/* A lane has columns lane, lane + 32, ... of the gradients. */
GA_DEV void put_gradient_row(const tile *t, const ga_kbwd_tensor *to, const float *x, int64_t at, int cols, float f) {
  args a = t->a;
  GA_UNROLL for (int e = 0; e < N; e++) {
    const int c = t->lane + 32 * e;
    if (32 * e >= cols || c >= cols) continue;
    if (a->out_f32)
      elem_put_f32(to->base, at + c,
                   x[e] * f + ((t->keys ? a->add_dkv : a->add_dq) ? elem_get_f32(to->base, at + c) : 0.f));
    else
      PUT(to->base, at + c, x[e] * f);
  }
}
/* Row `other`, of query head `head`, for own row `own`. */
GA_DEV void dot_row(const tile *t, int head, int own, int other, float *g1, float *g2) {
  args a = t->a;
  const int i = t->keys ? other : own, j = t->keys ? own : other, head_k = head / a->group;
  const int64_t q = row_at(t, &a->q, head, 1, i), k = row_at(t, &a->k, head_k, 0, j);
  const int64_t g = row_at(t, &a->dout, head, 1, i), v = row_at(t, &a->v, head_k, 0, j);
  const stat_rows stat = stat_of(t, head);
  float s = 0.f, dp = 0.f, derivative;
  if (!sees(t, i, j)) return;
  for (int c = t->lane; c < a->cols_k; c += 32) s += GET(a->q.base, q + c) * GET(a->k.base, k + c);
  for (int c = t->lane; c < a->cols_v; c += 32) dp += GET(a->dout.base, g + c) * GET(a->v.base, v + c);
  s = row_sum_warp(s);
  dp = row_sum_warp(dp);
  const float p = ex2(logit(a, s, stat.slope, j - i - t->shift, &derivative) * LOG2E - ldg_f32(stat.lse + i));
  const float ds = p * (dp - ldg_f32(stat.delta + i)) * derivative;
  GA_UNROLL for (int e = 0; e < N; e++) {
    const int c = t->lane + 32 * e;
    if (32 * e < a->cols_k && c < a->cols_k) g1[e] += ds * (t->keys ? GET(a->q.base, q + c) : GET(a->k.base, k + c));
    if (t->keys && 32 * e < a->cols_v && c < a->cols_v) g2[e] += p * GET(a->dout.base, g + c);
  }
}

GA_KERNEL(THREADS, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_fallback a) {
  const tile t = tile_of(&a, block_index());
  const int own = t.row0 + t.warp, first = t.keys ? t.head * a.group : t.head,
            last = t.keys ? first + a.group : first + 1;
  float g1[N], g2[N];
  if (own >= (t.keys ? t.rows_k : t.rows_q)) return;
  grid_dependency_wait();
  GA_UNROLL for (int e = 0; e < N; e++) g1[e] = g2[e] = 0.f;
  const range r = rows_met(&t);
  GA_ROLL for (int head = first; head < last; head++) GA_ROLL for (int other = r.lo; other < r.hi; other++)
      dot_row(&t, head, own, other, g1, g2);
  const ga_kbwd_tensor *to = t.keys ? &a.dk : &a.dq;
  put_gradient_row(&t, to, g1, row_at(&t, to, t.head, !t.keys, own), a.cols_k, scale_of(&t));
  if (t.keys) put_gradient_row(&t, &a.dv, g2, row_at(&t, &a.dv, t.head, 0, own), a.cols_v, 1.f);
}
