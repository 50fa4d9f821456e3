/* LADDER 07  the copy engine and warps with different jobs
 * CHANGES    tensor maps describe Q, K and V. One thread of a third warpgroup issues copies of whole tiles; the copy
 *            engine fetches, swizzles, pads with zeros and reports to an mbarrier. The other warpgroups wait for data,
 *            not for each other: no block_sync in the loop
 * WHY        no instructions for addresses, no barrier of the whole block; the warpgroups drift apart, so that one's
 *            softmax overlaps the other's products
 * LIMITED BY each warpgroup's own chain: S, softmax, O
 */
#include "cuda/kern/ladder/special.h"

GA_DEV void consumer(args a, const tile_coord *p, uint32_t sb, int group) {
  const int warp = warp_uniform(thread_index() / 32), lane = thread_index() % 32;
  const uint32_t q_tile = sb + OFF_Q + (uint32_t)(group * 2 * Q_PANEL);
  float s[BN / 2], o[D / 2], m[2], l[2], factor[2];
  uint32_t w[BN / 4];
  start_rows(o, m, l);
  mbar_wait(sb + OFF_Q_FULL, 0);
  GA_ROLL for (int n = 0; n * BN < a->rows_k; n++) {
    issue_qk(s, q_tile, wait_k(sb, n));
    wgmma_wait(0);
    pin_f32(s, BN / 2);
    used_k(sb, n);
    mask_tail(a, s, BN, n * BN, lane);
    online_softmax(s, BN, m, l, factor, a->scale_log2);
    tile_scale_rows(o, D, factor);
    to_p(s, w, BN);
    issue_pv(o, w, wait_v(sb, n));
    wgmma_wait(0);
    pin_f32(o, D / 2);
    used_v(sb, n);
  }
  store_rows(a, p, o, m, l, p->row0 + warp * 16 + lane / 4, lane);
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const uint32_t sb = smem_base();
  const tile_coord p = tile_coord_of(&a, BM);
  const int group = warp_uniform(thread_index() / 128);
  init_barriers(sb);
  if (group < 2)
    consumer(&a, &p, sb, group);
  else if (thread_index() == 256)
    producer(&a, &p, sb);
}
