/* LADDER 06  wgmma
 * CHANGES    four warps multiply together, 64 x 128 x 16 at a time, asynchronously; the tensor cores read K, V and Q
 *            from shared memory themselves. Two warpgroups a block, 128 rows, blocks of 128 keys
 * WHY        no ldmatrix, no fragments: the full rate of Hopper's tensor cores is open only to these instructions
 * LIMITED BY order: products, then softmax, then products; and every thread spends instructions on addresses of copies
 * NOTE       cp.async writes like ordinary stores, but wgmma reads through another proxy: fence_async_smem must come
 *            between them
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/kern/ladder/warpgroup_mma.h"

enum { THREADS = 256, OFF_Q = 0, OFF_KV = BM * D * 2 };
static_assert(GA_P_SMEM == OFF_KV + 4 * TILE, "the row's shared memory");

/* Copies n rows of 128 columns to a tile of two panels, with all threads; rows after the last one become zero. */
GA_DEV void load_tile(uint32_t to, const uint16_t *from, int64_t stride, int row, int rows, int n) {
  const int chunk = thread_index() % (D / 8);
  const uint32_t panel = to + (uint32_t)(chunk / 8 * n * PANEL_ROW_BYTES);
  GA_UNROLL for (int i = 0; i < n * (D / 8) / THREADS; i++) {
    const int r = thread_index() / (D / 8) + i * (THREADS / (D / 8)), in = row + r < rows;
    cp_async_16(panel_chunk(panel, (uint32_t)r, (uint32_t)(chunk % 8)),
                from + (in ? (row + r) * stride : 0) + 8 * chunk, in ? 16 : 0);
  }
}
GA_DEV void load_block(args a, const tile_coord *p, uint32_t sb, int n) {
  const uint32_t stage = sb + OFF_KV + (uint32_t)(n % 2 * 2 * TILE);
  if (n * BN < a->rows_k) {
    load_tile(stage, p->k, a->k_stride.token, n * BN, a->rows_k, BN);
    load_tile(stage + TILE, p->v, a->v_stride.token, n * BN, a->rows_k, BN);
  }
  cp_async_commit();
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const uint32_t sb = smem_base();
  const tile_coord p = tile_coord_of(&a, BM);
  const int warp = warp_uniform(thread_index() / 32), lane = thread_index() % 32, group = warp / 4;
  const uint32_t q_tile = sb + OFF_Q + (uint32_t)(group * 2 * Q_PANEL);
  float s[BN / 2], o[D / 2], m[2], l[2], factor[2];
  uint32_t w[BN / 4];
  start_rows(o, m, l);
  for (int g = 0; g < 2; g++)
    load_tile(sb + OFF_Q + (uint32_t)(g * 2 * Q_PANEL), p.q, a.q_stride.token, p.row0 + 64 * g, a.rows_q, 64);
  load_block(&a, &p, sb, 0);

  GA_ROLL for (int n = 0; n * BN < a.rows_k; n++) {
    const uint32_t stage = sb + OFF_KV + (uint32_t)(n % 2 * 2 * TILE);
    cp_async_wait(0);
    fence_async_smem();
    block_sync(); /* block n is here; everybody has read block n - 1 */
    load_block(&a, &p, sb, n + 1);
    issue_qk(s, q_tile, stage);
    wgmma_wait(0);
    pin_f32(s, BN / 2);
    mask_tail(&a, s, BN, n * BN, lane);
    online_softmax(s, BN, m, l, factor, a.scale_log2);
    tile_scale_rows(o, D, factor);
    to_p(s, w, BN);
    issue_pv(o, w, stage + TILE);
    wgmma_wait(0);
    pin_f32(o, D / 2);
  }
  store_rows(&a, &p, o, m, l, p.row0 + warp * 16 + lane / 4, lane);
}
