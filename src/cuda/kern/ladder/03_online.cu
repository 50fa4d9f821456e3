/* LADDER 03  online softmax
 * CHANGES    one pass: a running maximum; when it grows, the sums so far are multiplied by 2^(old - new)
 * WHY        every score is computed once instead of twice, and K is loaded once
 * REF        Milakov, Gimelshein 2018 (arXiv 1805.02867); Dao et al. 2022 (arXiv 2205.14135)
 * LIMITED BY multiply-adds and loads from shared memory: the tensor cores idle
 */
#include "cuda/kern/ladder/rows_smem.h"

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  GA_SHARED smem_rows k, v;
  const tile_coord p = tile_coord_of(&a, BM);
  const int row = p.row0 + thread_index() / 2, first = thread_index() % 2 * HALF;
  float q[HALF], o[HALF], s[BN], most = GA_NEG_INF, sum = 0.f;
  load_half(&a, &p, row, first, q);
  GA_UNROLL for (int c = 0; c < HALF; c++) o[c] = 0.f;

  GA_ROLL for (int j0 = 0; j0 < a.rows_k; j0 += BN) {
    block_sync(); /* the tile before it has been read */
    load_rows(&k, p.k, a.k_stride.token, j0, a.rows_k);
    load_rows(&v, p.v, a.v_stride.token, j0, a.rows_k);
    block_sync();
    float now = most;
    GA_UNROLL for (int j = 0; j < BN; j++) {
      s[j] = pair_sum(half_dot(q, k.x[j] + first));
      if (j0 + j >= a.rows_k) s[j] = GA_NEG_INF;
      now = fmaxf(now, s[j]);
    }
    const float factor = ex2((most - now) * a.scale_log2);
    most = now;
    sum *= factor;
    GA_UNROLL for (int c = 0; c < HALF; c++) o[c] *= factor;
    GA_UNROLL for (int j = 0; j < BN; j++) {
      const float weight = ex2((s[j] - most) * a.scale_log2);
      sum += weight;
      GA_UNROLL for (int c = 0; c < HALF; c++) o[c] += weight * v.x[j][first + c];
    }
  }
  store_half(&a, &p, row, first, o, most, sum);
}
