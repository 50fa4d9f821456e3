/* LADDER 02  tiles in shared memory
 * CHANGES    32 rows of K (then of V) at a time are loaded into shared memory, for all 64 rows of the block; a row of Q
 *            and of O stays in the registers of two threads
 * WHY        a value from global memory now serves 64 rows instead of one
 * LIMITED BY the first pass, which computes every score only for its maximum; loads from shared memory, one for each
 *            multiplication and addition
 */
#include "cuda/kern/ladder/rows_smem.h"

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  GA_SHARED smem_rows k, v;
  const tile_coord p = tile_coord_of(&a, BM);
  const int row = p.row0 + thread_index() / 2, first = thread_index() % 2 * HALF;
  float q[HALF], o[HALF], most = GA_NEG_INF, sum = 0.f;
  load_half(&a, &p, row, first, q);
  GA_UNROLL for (int c = 0; c < HALF; c++) o[c] = 0.f;

  GA_ROLL for (int j0 = 0; j0 < a.rows_k; j0 += BN) {
    block_sync(); /* the tile before it has been read */
    load_rows(&k, p.k, a.k_stride.token, j0, a.rows_k);
    block_sync();
    GA_ROLL for (int j = 0; j < BN && j0 + j < a.rows_k; j++) most = fmaxf(most, pair_sum(half_dot(q, k.x[j] + first)));
  }

  GA_ROLL for (int j0 = 0; j0 < a.rows_k; j0 += BN) {
    block_sync();
    load_rows(&k, p.k, a.k_stride.token, j0, a.rows_k);
    load_rows(&v, p.v, a.v_stride.token, j0, a.rows_k);
    block_sync();
    GA_ROLL for (int j = 0; j < BN && j0 + j < a.rows_k; j++) {
      const float weight = ex2((pair_sum(half_dot(q, k.x[j] + first)) - most) * a.scale_log2);
      sum += weight;
      GA_UNROLL for (int c = 0; c < HALF; c++) o[c] += weight * v.x[j][first + c];
    }
  }
  store_half(&a, &p, row, first, o, most, sum);
}
