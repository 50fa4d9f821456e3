/* LADDER 08  ping-pong of two warpgroups
 * CHANGES    products of block n + 1's scores are issued together with block n's O, and overlap block n + 1's softmax.
 *            The warpgroups take turns at issuing, by two named barriers, so that one takes exponentials while the
 *            tensor cores run the other's products. The producer gives its registers to the consumers, which hold S, P
 *            and O
 * WHY        exponentials take half as many cycles as the products (16 a cycle against 4096 operations), so they fit
 *            under the products
 * LIMITED BY the running maximum between S and the exponentials, and a tile's first and last products;
 *            attn_fwd_sm90a.cu continues from here
 * REF        Shah et al. 2024 (arXiv 2407.08608)
 */
#include "cuda/kern/ladder/special.h"

#define REGS_PRODUCER 24
#define REGS_CONSUMER 240

/* Every turn begins with one end of the other warpgroup's, never two. */
GA_DEV void pingpong_wait(int group) { bar_sync(1 + group, 256); }
GA_DEV void pingpong_signal(int group) { bar_arrive(1 + (group ^ 1), 256); }

GA_DEV void consumer(args a, const tile_coord *p, uint32_t sb, int group) {
  const int warp = warp_uniform(thread_index() / 32), lane = thread_index() % 32;
  const uint32_t q_tile = sb + OFF_Q + (uint32_t)(group * 2 * Q_PANEL);
  float s[BN / 2], o[D / 2], m[2], l[2], factor[2];
  uint32_t w[BN / 4];
  int n = 0;
  start_rows(o, m, l);
  if (group == 1) pingpong_signal(1); /* warpgroup 0 has the first turn */
  mbar_wait(sb + OFF_Q_FULL, 0);
  pingpong_wait(group);
  issue_qk(s, q_tile, wait_k(sb, 0));
  pingpong_signal(group);
  wgmma_wait(0);
  pin_f32(s, BN / 2);
  used_k(sb, 0);
  mask_tail(a, s, BN, 0, lane);
  online_softmax(s, BN, m, l, factor, a->scale_log2);
  to_p(s, w, BN);

  GA_ROLL for (; (n + 1) * BN < a->rows_k; n++) {
    const uint32_t k_tile = wait_k(sb, n + 1);
    pingpong_wait(group);
    issue_qk(s, q_tile, k_tile);
    issue_pv(o, w, wait_v(sb, n));
    pingpong_signal(group);
    wgmma_wait(1); /* the scores */
    pin_f32(s, BN / 2);
    used_k(sb, n + 1);
    mask_tail(a, s, BN, (n + 1) * BN, lane);
    online_softmax(s, BN, m, l, factor, a->scale_log2);
    pin_f32(s, BN / 2);
    wgmma_wait(0); /* O */
    pin_f32(o, D / 2);
    pin_u32(w, BN / 4);
    used_v(sb, n);
    tile_scale_rows(o, D, factor);
    to_p(s, w, BN);
  }
  issue_pv(o, w, wait_v(sb, n));
  wgmma_wait(0);
  pin_f32(o, D / 2);
  store_rows(a, p, o, m, l, p->row0 + warp * 16 + lane / 4, lane);
  if (group == 0) pingpong_wait(0); /* takes the last turn's end, which nobody else waits for */
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_ladder a) {
  const uint32_t sb = smem_base();
  const tile_coord p = tile_coord_of(&a, BM);
  const int group = warp_uniform(thread_index() / 128);
  init_barriers(sb);
  if (group < 2) {
    setmaxnreg_inc(REGS_CONSUMER);
    consumer(&a, &p, sb, group);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    if (thread_index() == 256) producer(&a, &p, sb);
  }
}
