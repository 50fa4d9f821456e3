/* Common parts of the ladder's kernels: O = softmax(Q K^T scale) V for bf16 with 128 columns, where every row sees
 * every key. One thread block computes BM rows of one head. docs/guide/ladder.md explains the kernels. */
#pragma once
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/ladder/ladder_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum { D = 128 };

typedef const ga_kargs_ladder *args;

/* The tile of a thread block: row0 is its first row. q, k, v, o and lse point to row 0 of its head in each tensor. */
typedef struct {
  int row0, head, head_k, batch;
  const uint16_t *q, *k, *v;
  uint16_t *o;
  float *lse;
} tile_coord;

/* Returns the tile of this thread block. Blocks with neighbouring indices have the same head, so that they find its K
 * and V in L2. */
GA_DEV tile_coord tile_coord_of(args a, int bm) {
  const int pair = block_index() / a->tiles, batch = pair / a->heads_q, head = pair - batch * a->heads_q;
  const int head_k = head / a->group;
  const tile_coord p = {(block_index() - pair * a->tiles) * bm,
                        head,
                        head_k,
                        batch,
                        a->q + batch * a->q_stride.batch + head * a->q_stride.head,
                        a->k + batch * a->k_stride.batch + head_k * a->k_stride.head,
                        a->v + batch * a->v_stride.batch + head_k * a->v_stride.head,
                        a->o + batch * a->o_stride.batch + head * a->o_stride.head,
                        a->lse ? a->lse + (int64_t)pair * a->rows_q : (float *)0};
  return p;
}

/* --- functions for kernels 04 to 08 of the ladder, which use register tiles (tile/reg.h) --- */
/* Sets the logits of keys after the last one to -infinity. s has n keys from key j0 on. */
GA_DEV void mask_tail(args a, float *s, int n, int j0, int lane) {
  const int last = a->rows_k - 1 - j0;
  if (last < n - 1) tile_mask_above(s, n, last, last, 2 * (lane & 3));
}
/* Computes P from S in place (online softmax) and adds this lane's part of the row sums to l. O must be multiplied by
 * `factor` before P V is added. m is the rows' maximum so far. */
GA_DEV void online_softmax(float *s, int n, float *m, float *l, float *factor, float scale_log2) {
  float most[2], reference[2], sum[2];
  tile_row_max(s, n, most);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    most[i] = fmaxf(m[i], most[i]);
    factor[i] = ex2((m[i] - most[i]) * scale_log2);
    reference[i] = most[i] * scale_log2;
    m[i] = most[i];
  }
  tile_exp2(s, n, scale_log2, reference, sum);
  GA_UNROLL for (int i = 0; i < 2; i++) l[i] = l[i] * factor[i] + sum[i];
}
GA_DEV void start_rows(float *o, float *m, float *l) {
  GA_UNROLL for (int i = 0; i < D / 2; i++) o[i] = 0.f;
  GA_UNROLL for (int i = 0; i < 2; i++) {
    m[i] = GA_NEG_INF;
    l[i] = 0.f;
  }
}
/* Divides the lane's rows `row` and row + 8 of O by their sums and stores them, 16 bytes at a time, with their
 * log-sum-exp. */
GA_DEV void store_rows(args a, const tile_coord *p, const float *o, const float *m, const float *l, int row, int lane) {
  GA_UNROLL for (int h = 0; h < 2; h++, row += 8) {
    const float sum = quad_sum(l[h]), v = 1.f / sum;
    const int in = row < a->rows_q;
    if (in && p->lse && (lane & 3) == 0) stg_f32(p->lse + row, m[h] * a->scale + logf(sum));
    GA_UNROLL for (int j = 0; j < D / 32; j++) {
      uint32_t r[4];
      GA_UNROLL for (int i = 0; i < 4; i++) {
        const float *x = o + 16 * j + 4 * i + 2 * h;
        r[i] = pack_bf16(x[0] * v, x[1] * v);
      }
      quad_transpose(r, lane & 3);
      if (in) stg_u4(p->o + row * a->o_stride.token + 32 * j + 8 * (lane & 3), r[0], r[1], r[2], r[3]);
    }
  }
}
/* Packs P as operand A of the next product. Operand A has the layout of the accumulators of S. */
GA_DEV void to_p(const float *s, uint32_t *p, int n) {
  GA_UNROLL for (int i = 0; i < n / 4; i++) p[i] = pack_bf16(s[2 * i], s[2 * i + 1]);
}
