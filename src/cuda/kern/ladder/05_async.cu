/* LADDER 05  copies in the background: cp.async, two stages
 * CHANGES    while a block of K and V is multiplied, the next one is copied to the other stage; one barrier a block
 * WHY        the wait for memory overlaps the products
 * LIMITED BY mma.sync itself: fragments pass through registers (one ldmatrix for two products), and on Hopper these
 *            products reach about 60 % of the tensor cores' rate
 */
#include "cuda/kern/ladder/warp_mma.h"

enum { WARPS = 4, THREADS = 32 * WARPS, BM = 16 * WARPS, BN = 64, TILE = BN * D * 2, OFF_Q = 0, OFF_KV = BM * D * 2 };
static_assert(GA_P_SMEM == OFF_KV + 4 * TILE, "the row's shared memory");

/* Starts the copy of K and V of block n to its stage, as one group; after the last block the group is empty. */
GA_DEV void load_block(args a, const tile_coord *p, uint32_t sb, int n) {
  const uint32_t stage = sb + OFF_KV + (uint32_t)(n % 2 * 2 * TILE);
  if (n * BN < a->rows_k) {
    load_tile(stage, p->k, a->k_stride.token, n * BN, a->rows_k, BN, THREADS);
    load_tile(stage + TILE, p->v, a->v_stride.token, n * BN, a->rows_k, BN, THREADS);
  }
  cp_async_commit();
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const uint32_t sb = smem_base();
  const tile_coord p = tile_coord_of(&a, BM);
  const int warp = warp_uniform(thread_index() / 32), lane = thread_index() % 32;
  float s[BN / 2], o[D / 2], m[2], l[2], factor[2];
  uint32_t q[D / 4], w[BN / 4];
  start_rows(o, m, l);
  load_tile(sb + OFF_Q, p.q, a.q_stride.token, p.row0, a.rows_q, BM, THREADS);
  cp_async_commit();
  load_block(&a, &p, sb, 0);
  cp_async_wait(1); /* Q, not yet the block */
  block_sync();
  load_a(q, sb + OFF_Q, BM * PANEL_ROW_BYTES, warp * 16, D / 16, lane);

  GA_ROLL for (int n = 0; n * BN < a.rows_k; n++) {
    const uint32_t stage = sb + OFF_KV + (uint32_t)(n % 2 * 2 * TILE);
    cp_async_wait(0);
    block_sync(); /* block n is here; everybody has read block n - 1 */
    load_block(&a, &p, sb, n + 1);
    warp_qk(s, q, stage, BN, lane);
    mask_tail(&a, s, BN, n * BN, lane);
    online_softmax(s, BN, m, l, factor, a.scale_log2);
    tile_scale_rows(o, D, factor);
    to_p(s, w, BN);
    warp_pv(o, w, stage + TILE, BN, lane);
  }
  store_rows(&a, &p, o, m, l, p.row0 + warp * 16 + lane / 4, lane);
}
