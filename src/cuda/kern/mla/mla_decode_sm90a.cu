/* KERNEL    mla_decode, sm90a: absorbed latent attention over pages of 16-bit rows of 512 + 64 elements, on wgmma
 * COMPUTES  O = softmax(scale Q C^T) V, V the first 512 elements of a row of C; log-sum-exp of each row
 * CONTRACT  head_dim 576, v_dim 512; C f16 or bf16; Q and O f32, f16, bf16, with tokens at multiples of 16 bytes; pages
 *           of 8, 16, 32 or a multiple of 64 tokens. Q and weights are rounded to the type of C; sums in f32. Lengths
 *           are read on the device. Tokens reach no row that does not see them: weights are zero, and so are elements
 *           of V that are not finite, if another row of the tile sees them; these are added to that row in the end
 * WORK      a unit is 64 packed rows of a sequence. Its splits are blocks of one or more clusters (1, 2 or 8 blocks)
 *           and share the keys, in blocks of 64. Warpgroups 0 and 1 have 256 columns of O each and copy their halves of
 *           V; the first one copies the rotated parts, too. Warpgroup 2 has scores and weights, with 496 columns of Q
 *           in registers: it starts the products of block i + 1 when the weights of block i have left its registers
 * DATA      C: boxes of a page's rows by 256 columns of V, twice, and by the 64 rotated ones, into a ring. P:
 *           registers, the place of the rotated parts, operand A of both halves of O
 * ORDER     weights of block i are announced after the products of block i + 1 are issued. Else the tensor cores share
 *           their time among all warpgroups, and scores, for which the longest chain waits, come late
 * SOFTMAX   running maximum; O is multiplied by the rows' factors where one of the warp's 16 is not 1
 * MERGE     blocks of a cluster put O, maxima and sums into their shared memory, and each adds the share of columns
 *           that it writes. Clusters of a unit write such sums to gmem, and the last one of them adds. All sums are in
 *           the order of the splits
 * BARRIERS  name        arrivals    waiter            orders
 *           V[s]        1+tx each   scores, values    two, of halves: TMA write of V -> wgmma reads
 *           R[s]        1+tx        scores            TMA write of rotated parts -> wgmma read
 *           FACTORS[s]  1/warp: 4   values            writes of factors -> reads
 *           P[s]        1/warp: 4   values            writes of P, and zeros in V -> wgmma reads
 *           FREE[s]     1/wg: 2     copier            wgmma reads of P -> TMA write of rotated parts
 *           block       384         all               barriers are initialised; maxima and sums -> reads; last reads
 *                                                     of V -> O over them
 *           named 1     128         scores            writes of Q -> wgmma reads; wgmma reads of rotated parts -> P
 *                                                     over them, or zeros in V
 *           named 2     256         values            partial results -> their count; the count -> its reads
 *           cluster     all         all               O of all blocks -> their sum; the sum -> the end of blocks
 * BUDGET    what       how much
 *           threads    384
 *           registers  of values 160, of scores 184
 *           blocks     1 per multiprocessor
 *           smem       OFF_*: three stages of V and rotated parts, 80 columns of Q, factors, barriers
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of the cache: bf16 or f16"
#endif
#ifndef GA_P_KV_TYPE
#error "GA_P_KV_TYPE: the same in capitals"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/dev/ptx/wgmma_t.h"
#include "cuda/dev/tile.h"
#include "cuda/kern/mla/mla_decode_copy.h"
#include "cuda/kern/mla/mla_decode_results.h"
#include "cuda/kern/mla/mla_decode_scores.h"
#include "cuda/kern/mla/mla_decode_shape.h"

#define VALUE GA_CAT3(wgmma_m64n256k16_, GA_P_KV, _sst)

/* --- values: two warpgroups --- */

/* Adds weights times V of block i to this warpgroup's half of O. */
GA_DEV void add_value_block(uint32_t sb, int i, int half, float *o) {
  const uint32_t v = desc_n_major(in_block(ring_at(sb, i)) + (uint32_t)(half * HALF), PANEL),
                 weights = desc_k_major(in_block(ring_at(sb, i)) + ROTATED),
                 at = factors_at(sb, i) + (uint32_t)(thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4) * 4;
  wait_block(sb, i, BAR_FACTORS);
  const float f[2] = {lds_f1(at), lds_f1(at + 32)};
  if (warp_any(i > 0 && (f[0] != 1.0f || f[1] != 1.0f))) tile_scale_rows(o, HALF_COLS, f);
  wait_block(sb, i, BAR_V + 8 * half);
  wait_block(sb, i, BAR_P);
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < KEYS / 16; j++)
      VALUE(o, desc(weights + (uint32_t)(2 * j)), desc(v + (uint32_t)(16 * PANEL_ROW_BYTES / 16 * j)), 1);
  wgmma_commit();
  wgmma_wait(0);
  pin_f32(o, HALF_COLS / 2);
  if (thread_index() % 128 == 0) mbar_arrive(bar_at(sb, i, BAR_FREE));
}

/* Adds weights times V of all blocks to this warpgroup's half of O, and copies what follows into stages that are
 * read. */
GA_DEV void add_value_blocks(args a, uint32_t sb, const work *w, int half, float *o) {
  const bool copies = warp_uniform(thread_index() / 32) % 4 == 0;
  pages p = {-1, 0};
  if (copies) {
    GA_ROLL for (int i = 0; i < STAGES && i < w->n; i++) {
      copy_half(a, sb, w, &p, i, half);
      if (half == 0) copy_rotated_parts(a, sb, w, &p, i);
    }
  }
  tile_fill(o, HALF_COLS, 0);
  GA_ROLL for (int i = 0; i < w->n; i++) {
    add_value_block(sb, i, half, o);
    if (!copies || i + STAGES >= w->n) continue;
    copy_half(a, sb, w, &p, i + STAGES, half);
    if (half == 1) continue;
    wait_block(sb, i, BAR_FREE);
    copy_rotated_parts(a, sb, w, &p, i + STAGES);
  }
}

/* Makes columns of O NaN where a row sees a token whose V is not finite in that column, among tokens that other rows do
 * not see. Such a token's logit is not finite, so that its weight times V is NaN, whatever its sign. */
GA_DEV void spread_values(args a, const work *w, int half, float *o) {
  const int row = thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4, own = w->first + w->n * KEYS,
            end = own < w->u.to ? own : w->u.to,
            seen[2] = {mla_seen_by(&a->m, &w->u, row), mla_seen_by(&a->m, &w->u, row + 8)};
  const float none = __uint_as_float(0x7fc00000u);
  GA_ROLL for (int t = w->all > w->first ? w->all : w->first; t < end; t++) {
    const uint8_t *v = mla_row_at(&a->m, &w->u, t) + half * HALF_COLS * 2 + thread_index() % 4 * 4;
    GA_UNROLL for (int j = 0; j < HALF_COLS / 8; j++) {
      const uint32_t x = *(const uint32_t *)(v + 16 * j);
      GA_UNROLL for (int e = 0; e < 4; e++) if (t < seen[e / 2] && !is_finite(x >> (e % 2 * 16))) o[4 * j + e] = none;
    }
  }
}

/* --- the kernel --- */

GA_DEV void init_barriers(args a, uint32_t sb) {
  tmap_prefetch(&a->latent);
  tmap_prefetch(&a->rope);
  for (int s = 0; s < STAGES; s++) {
    mbar_init(bar_at(sb, s, BAR_V), 1);
    mbar_init(bar_at(sb, s, BAR_V + 8), 1);
    mbar_init(bar_at(sb, s, BAR_R), 1);
    mbar_init(bar_at(sb, s, BAR_P), 4);
    mbar_init(bar_at(sb, s, BAR_FREE), 2);
    mbar_init(bar_at(sb, s, BAR_FACTORS), 4);
  }
  sts_u1(sb + OFF_FLAG, 0);
  mbar_init_fence();
}

GA_KERNEL(LANES, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_mla_decode a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  if (thread_index() == LANES - 1) init_barriers(&a, sb);
  grid_launch_dependents();
  grid_dependency_wait();
  const work w = own_work(&a);
  block_sync();
  if (w.u.n <= 0 || w.parts <= 0) return; /* all blocks of the cluster */
  if (wg < 2) {
    float o[HALF_COLS / 2];
    setmaxnreg_dec(160);
    add_value_blocks(&a, sb, &w, wg, o);
    block_sync();
    if (float_bits(lds_f1(sb + OFF_FLAG)) != 0) spread_values(&a, &w, wg, o);
    write_results(&a, sb, &w, wg, o);
    return;
  }
  setmaxnreg_inc(184);
  weigh_blocks(&a, sb, &w);
  block_sync();
  if (a.m.splits > 1) {
    cluster_sync();
    cluster_sync();
  }
}
