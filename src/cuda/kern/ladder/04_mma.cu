/* LADDER 04  tensor cores: mma.sync
 * CHANGES    both products run on the tensor cores, 16 x 8 x 16 at a time. A warp owns 16 rows, and S has the same
 *            register layout in which the second product takes P. Shared memory holds bf16 again, swizzled so that
 *            ldmatrix has no bank conflicts
 * WHY        one instruction does 4096 operations, where a fused multiply-add of a warp does 64
 * LIMITED BY waiting: the tensor cores idle while tiles arrive
 */
#include "cuda/kern/ladder/warp_mma.h"

enum {
  WARPS = 4,
  THREADS = 32 * WARPS,
  BM = 16 * WARPS,
  BN = 64,
  TILE = BN * D * 2,
  OFF_Q = 0,
  OFF_K = BM * D * 2,
  OFF_V = OFF_K + TILE
};
static_assert(GA_P_SMEM == OFF_V + TILE, "the row's shared memory");

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const uint32_t sb = smem_base();
  const tile_coord p = tile_coord_of(&a, BM);
  const int warp = warp_uniform(thread_index() / 32), lane = thread_index() % 32;
  float s[BN / 2], o[D / 2], m[2], l[2], factor[2];
  uint32_t q[D / 4], w[BN / 4];
  start_rows(o, m, l);
  load_tile(sb + OFF_Q, p.q, a.q_stride.token, p.row0, a.rows_q, BM, THREADS);
  cp_async_wait_all();
  block_sync();
  load_a(q, sb + OFF_Q, BM * PANEL_ROW_BYTES, warp * 16, D / 16, lane);

  GA_ROLL for (int j0 = 0; j0 < a.rows_k; j0 += BN) {
    block_sync(); /* the tiles before these have been read */
    load_tile(sb + OFF_K, p.k, a.k_stride.token, j0, a.rows_k, BN, THREADS);
    load_tile(sb + OFF_V, p.v, a.v_stride.token, j0, a.rows_k, BN, THREADS);
    cp_async_wait_all();
    block_sync();
    warp_qk(s, q, sb + OFF_K, BN, lane);
    mask_tail(&a, s, BN, j0, lane);
    online_softmax(s, BN, m, l, factor, a.scale_log2);
    tile_scale_rows(o, D, factor);
    to_p(s, w, BN);
    warp_pv(o, w, sb + OFF_V, BN, lane);
  }
  store_rows(&a, &p, o, m, l, p.row0 + warp * 16 + lane / 4, lane);
}
