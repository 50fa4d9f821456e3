/* KERNEL    attn_bwd, sm90a, warp-specialised: 1 producer thread + 2 consumer warpgroups of 64 rows of K and V
 * COMPUTES  per 128 rows of K and V of a (batch, KV head), over the query heads of its group and their blocks of 64 or
 *           128 rows of Q: S^T = K Q^T, P^T = e^(S^T scale - lse), dP^T = V dO^T, dS^T = P^T (dP^T - delta);
 *           dV += P^T dO, dK += dS^T Q in registers; dQ += dS K in f32 in the workspace. Masks as in attn_fwd
 * CONTRACT  16-bit inputs, columns contiguous, 16-byte aligned, strides multiples of 8; dims <= D (zero padded by the
 *           tensor maps); scale > 0; attn_bwd_pre has run, attn_bwd_post follows (cuda/kern/attn_bwd/attn_bwd_args.h).
 *           Soft-cap: its derivative is taken from P, whose logarithm is the capped logit
 * SCHEDULE  step i of a warpgroup; each line ends with its wait:
 *           1 issue S(i), dP(i); wait S. All of step i-1 is then complete: release its Q and dO. 128 rows, or features:
 *             dP is issued once step i-1 is complete, because registers are short
 *           2 in turn with the other warpgroup: exponentials, P to registers [dP runs]
 *           3 issue dV += P dO; both warpgroups have written dS(i-1): issue dQ(i-1) = dS K into the registers of S;
 *             wait dP, dV
 *           4 dS over P in registers, and to one of three buffers in shared memory [dQ(i-1) runs]
 *           5 issue dK += dS Q; wait dQ(i-1); its piece to shared memory and from there, added by the copy engine, to
 *             the workspace; 128 rows: from registers [dK runs]
 *           dQ lags one step, so that a warpgroup needs its partner's dS in the middle of a step only. The two may run
 *           half a step apart, one in elementwise code while the other feeds the tensor cores; the turn at 2 keeps that
 *           distance. dQ(i-2) of the partner may still read when dS(i) is written, which takes three buffers
 * ORDER     1: blocks take their tile by ticket and add to a block of dQ in descending order of tiles: the same bits in
 *           every run. A block waits only for blocks of lower tickets. The first tile stores, so that no zeros are
 *           needed; the last reads the sum, adds its part in registers and writes dQ itself, without attn_bwd_post
 * BARRIERS  name         arrivals       waiter            orders
 *           k, v         1+tx           consumers         TMA write of K (V) -> wgmma read
 *           q_full[s]    1+tx           consumers         TMA write of Q[s] and stat[s] -> wgmma read, ld.shared
 *           q_empty[s]   2 (wgs)        producer          wgmma reads of Q[s], reads of stat[s] -> next TMA write
 *           o_full[s]    1+tx           consumers         TMA write of dO[s] -> wgmma read
 *           o_empty[s]   2 (wgs)        producer          wgmma reads of dO[s] -> next TMA write
 *           ds           8 (warps)      consumers         stmatrix of dS(i) -> wgmma reads of dQ(i)
 *           turn         named 2, 3     warpgroups        exponentials exclude each other
 *           clean        named 1        consumers         zeros over rows past a packed sequence -> all warps' wgmma
 *                                                         reads
 *           ready        1+tx (writer)  consumers         ORDER 1: the buffer of dQ is free, or holds the sum -> the
 *                                                         step's dQ in it
 *           used[k % 2]  8 (warps)      writer of step k  ORDER 1: the buffer is written, or read -> the copy out
 *           empty        1 (writer)     other writer      ORDER 1: the step is done with the buffer -> the next step's
 * BUDGET    what       how much
 *           threads    384
 *           registers  24 (producer) and 240 (consumers); with features and D < 128: 56 and 224. Of a consumer's at D =
 *                      128: dK 64, dV 64, S or dQ 32, dP 32, P or dS 16; at D = 64 with 128 rows: dK 32, dV 32, S or dQ
 *                      64, dP 64, P or dS 32
 *           blocks     1 per multiprocessor
 *           smem       OFF_*
 * MEASURED  docs/log/attention-bwd.md
 * REF       Dao 2023 (arXiv 2307.08691); Shah et al. 2024 (2407.08608)
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of q, k, v, padded: 64, 128"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: rows of Q of a step: 64 or, at D = 64, 128"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: GA_P_MASK_FULL, GA_P_MASK_CAUSAL or GA_P_MASK_WINDOW"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: stages of the ring of Q and of dO"
#endif
#ifndef GA_P_DETERMINISTIC
#error "GA_P_DETERMINISTIC: dQ is added up in a fixed order (1) or as it comes (0)"
#endif
#ifndef GA_P_EXTRAS
#error "GA_P_EXTRAS: 1: windows, soft-cap, alibi and packed sequences are compiled in (chosen by kargs.features)"
#endif
#ifndef GA_P_KV_RESIDENT
#error "GA_P_KV_RESIDENT: a block takes all tiles of keys of a KV head (1) or one tile (0)"
#endif
#ifndef GA_P_CLUSTER
#error "GA_P_CLUSTER: blocks that share a tile: 1, or 2 of a cluster"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

#include "cuda/kern/attn_bwd/attn_bwd_load.h"
#include "cuda/kern/attn_bwd/attn_bwd_math.h"
#include "cuda/kern/attn_bwd/attn_bwd_out.h"
#include "cuda/kern/attn_bwd/attn_bwd_step.h"
#include "cuda/kern/attn_bwd/attn_bwd_tiles.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

/* ------------------------------------------------------------------ producer: one thread */
GA_DEV void producer(args a, uint32_t sb) {
  tmap_prefetch(&a->k); /* without rows of Q there are no maps, and no producer */
  tmap_prefetch(&a->q);
  tmap_prefetch(&a->stat);
  tmap_prefetch(&a->v);
  tmap_prefetch(&a->dout);
  grid_dependency_wait(); /* what the consumers read and write follows from here */
  load_kv(sb + OFF_TILE, sb + OFF_K, &a->k, sb + OFF_BAR_K, is_packed(a));
  stages at = {0, 1};
  feed(a, sb, 0, &at);
}

/* ------------------------------------------------------------------ ordered: two writers, a thread each, for even and
 * for odd steps: one waits for its block's turn and for what it sent to arrive while the other's step is computed */
GA_DEV void send_dq(args a, uint32_t sb, int block, const visits *v) {
  if (!v->before)
    bulk_store_4d(&a->acc_map, sb + OFF_DQ, 0, block * BLOCK_LINES, 0, 0);
  else
    bulk_add_f32(a->acc + (int64_t)block * (BM * D), sb + OFF_DQ, BM * D * 4);
  bulk_commit();
  bulk_wait_read();
}
GA_DEV void step_dq(args a, uint32_t sb, int block, int k) {
  const visits v = visits_of(a, sb + OFF_TILE, block % a->blocks_q);
  const int fetches = !v.after && v.before;
  if (k) mbar_wait(sb + OFF_EMPTY, (uint32_t)(k - 1) & 1u);
  if (!fetches) mbar_arrive(sb + OFF_READY);
  if (v.before) {
    semaphore_wait(a->dq_semaphore + block, v.before);
    fence_async_global();
  }
  if (fetches) {
    mbar_arrive_expect(sb + OFF_READY, BM * D * 4);
    bulk_load_4d(sb + OFF_DQ, &a->acc_map, sb + OFF_READY, 0, block * BLOCK_LINES, 0, 0, L2_EVICT_FIRST);
  }
  mbar_wait(sb + OFF_USED + 8 * (k & 1), (uint32_t)(k >> 1) & 1u);
  if (v.after) send_dq(a, sb, block, &v);
  mbar_arrive(sb + OFF_EMPTY);
  if (!v.after) return;
  bulk_wait();
  semaphore_signal(a->dq_semaphore + block);
}
GA_DEV void writer(args a, uint32_t sb, int odd) {
  const tile t = tile_get(sb + OFF_TILE);
  const int count = t.m_hi - t.m_lo, steps = count * a->group;
  const int row0 = (t.batch * a->heads_q + t.head * a->group) * a->blocks_q;
  GA_ROLL for (int k = odd; k < steps; k += 2) {
    const int head = k / count;
    step_dq(a, sb, row0 + head * a->blocks_q + lds_i4(sb + OFF_TILE).w + k - head * count, k);
  }
}

/* ------------------------------------------------------------------ consumers */
GA_DEV uint32_t piece_of(const warpgroup *c) { return c->sb + OFF_DQ + warp_number(c) * PIECE_BYTES; }
/* dS^T of this warp (16 rows of K) to the buffer, as rows of Q. */
GA_DEV void put_ds(const warpgroup *c, const uint32_t *p) {
  const uint32_t panel = c->sb + OFF_DS + c->ds * DS_BYTES + c->w * Q_PANEL;
  const uint32_t row = (uint32_t)((lane_of(c) >> 4) * 8 + (lane_of(c) & 7)),
                 chunk = (uint32_t)(warp_of(c) * 2 + (lane_of(c) >> 3 & 1));
  store_ds(panel_chunk(panel, row, chunk), p);
  if (lane_of(c) == 0) mbar_arrive(c->sb + OFF_BAR_DS);
}
/* This warp's piece of dQ of `block` to the workspace, added as it comes. */
GA_DEV void add_dq(const warpgroup *c, const float *x, int block) {
  float *to = c->a->acc + ((int64_t)block * GA_KBWD_WARPS + warp_number(c)) * (PIECE_BYTES / 4);
  if (DIRECT) {
    GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++)
        red_add_f32x4(to + 128 * j + 4 * lane_of(c), x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]);
    return;
  }
  const uint32_t piece = piece_of(c);
  if (lane_of(c) == 0) bulk_wait_read();
  warp_sync();
  GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++) sts_f4(piece + j * 512 + lane_of(c) * 16, x + 4 * j);
  fence_async_smem();
  warp_sync();
  if (lane_of(c)) return;
  bulk_add_f32(to, piece, PIECE_BYTES);
  bulk_commit();
}
/* The whole sum, of block m: out. */
GA_DEV void finish_dq(const warpgroup *c, const float *x, int block, int m) {
  args a = c->a;
  const tile t = tile_get(tile_record(c));
  const int row = m * BM + (BM == 128 ? c->w * 64 : 0) + warp_of(c) * 16 + lane_of(c) / 4,
            head = block / a->blocks_q - t.batch * a->heads_q;
  const int batch = is_packed(a) ? 0 : t.batch, col = BM == 128 ? 0 : c->w * DQ_COLS;
  bwd_out o = bwd_out_of(&a->dq, t.start_q + row, head, batch, col, a->cols_k, a->out_f32, a->add_dq);
  o.in0 = row < t.rows_q;
  o.in1 = row + 8 < t.rows_q;
  bwd_store(&o, x, DQ_COLS, scale_of(a, &t), lane_of(c) & 3);
}
/* Ordered, step k: to the buffer, from where a writer takes it; the last tile adds what the others have summed up. */
GA_DEV void pass_dq(const warpgroup *c, float *x, int block, int k) {
  const int m = block % c->a->blocks_q;
  const visits v = visits_of(c->a, tile_record(c), m);
  const uint32_t piece = piece_of(c) + lane_of(c) * 16;
  uint32_t done = 0;
  mbar_wait(c->sb + OFF_READY, (uint32_t)k & 1u);
  if (v.after) {
    GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++) sts_f4(piece + j * 512, x + 4 * j);
    fence_async_smem();
  } else if (v.before) {
    GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++) {
      float y[4];
      lds_f4(y, piece + j * 512);
      GA_UNROLL for (int e = 0; e < 4; e++) x[4 * j + e] += y[e];
    }
    done = loads_done_f32(x, DQ_COLS / 2, 4);
  }
  warp_sync();
  if (lane_of(c) == 0) mbar_arrive(c->sb + OFF_USED + 8 * (k & 1) + done);
  if (!v.after) finish_dq(c, x, block, m);
}
GA_DEV void put_dq(const warpgroup *c, float *x, int block, int k) {
  if (DETERMINISTIC)
    pass_dq(c, x, block, k);
  else
    add_dq(c, x, block);
}
/* The buffer written a step ago. */
GA_DEV uint32_t ds_before(const warpgroup *c) { return (uint32_t)(c->ds ? c->ds - 1 : DS_BUFFERS - 1); }
/* dK and dV of this warp's rows; zeros where nothing was seen. */
GA_DEV void results(const warpgroup *c, const float *dk, const float *dv) {
  args a = c->a;
  const tile record = tile_get(tile_record(c)), *t = &record;
  const int row = t->n * BN + c->w * 64 + warp_of(c) * 16 + lane_of(c) / 4;
  const int batch = is_packed(a) ? 0 : t->batch;
  bwd_out o = bwd_out_of(&a->dv, t->start_k + row, t->head, batch, 0, a->cols_v, a->out_f32, a->add_dkv);
  o.in0 = row < t->rows_k;
  o.in1 = row + 8 < t->rows_k;
  bwd_store(&o, dv, D, 1.f, lane_of(c) & 3);
  bwd_out k = bwd_out_of(&a->dk, t->start_k + row, t->head, batch, 0, a->cols_k, a->out_f32, a->add_dkv);
  k.in0 = o.in0;
  k.in1 = o.in1;
  bwd_store(&k, dk, D, scale_of(a, t), lane_of(c) & 3);
}
/* Q and dO of the step before are free. */
GA_DEV void release(const warpgroup *c) {
  const int before = c->stage ? c->stage - 1 : ST - 1;
  if (warp_of(c) || lane_of(c)) return;
  mbar_arrive(c->sb + OFF_QE + 8 * before);
  mbar_arrive(c->sb + OFF_OE + 8 * before);
}
/* Behind a product that was issued since: the step before is complete. */
GA_DEV void settle(const warpgroup *c, uint32_t *p, float *dk, int i) {
  wgmma_wait(1);
  pin_u32(p, NP);
  pin_f32(dk, ND);
  if (i) release(c);
}
GA_DEV void consume_tile(warpgroup *c, float *dk, float *dv) {
  args a = c->a;
  const uint32_t sb = c->sb, k_rows = desc_k_major(sb + OFF_K + c->w * BOX_BYTES),
                 v_rows = desc_k_major(sb + OFF_V + c->w * BOX_BYTES);
  const ga_i4 first = lds_i4(sb + OFF_TILE);
  float s[NS], dp[NS];
  uint32_t p[NP];
  int i = 0, m = warp_uniform(first.w), before = -1, left = a->group; /* query heads to go */
  int row0 = warp_uniform((first.z * a->heads_q + first.y * a->group) * a->blocks_q);
  GA_UNROLL for (int r = 0; r < NP; r++) p[r] = 0;
  clear_ds(c);
  mbar_wait(sb + OFF_BAR_K, 0);
  if (EXTRAS) clean_kv(c, sb + OFF_K, sb + OFF_VF, 0);
  if (c->w == 1) bar_arrive(2, 256); /* warpgroup 0 starts */
  GA_ROLL for (;; i++) {
    mbar_wait(sb + OFF_QF + 8 * c->stage, (uint32_t)c->parity);
    if (EXTRAS) clean_q(c, m, (uint32_t)c->stage, (uint32_t)c->parity);
    issue_s(s, k_rows, desc_k_major(sb + OFF_Q + c->stage * Q_BYTES), D, 0);
    if (EXTRAS) start_dp(c, dp);
    if (i == 0) mbar_wait(sb + OFF_VF, 0);
    mbar_wait(sb + OFF_OF + 8 * c->stage, (uint32_t)c->parity);
    if (BM == 128 || EXTRAS) settle(c, p, dk, i); /* S, dP and dS of the step before do not fit */
    issue_s(dp, v_rows, desc_k_major(sb + OFF_O + c->stage * Q_BYTES), D, EXTRAS);
    const int early = BM == 128 && is_partial(c, m); /* at 64 rows nothing was gained */
    if (BM == 64 && !EXTRAS)
      settle(c, p, dk, i);
    else
      wgmma_wait(1);
    pin_f32(s, NS);
    bar_sync(2 + c->w, 256);
    probabilities(c, s, p, m, left, BM == 128 ? early : is_partial(c, m));
    bar_arrive(3 - c->w, 256);
    issue_kv(dv, p, desc_n_major(sb + OFF_O + c->stage * Q_BYTES, Q_PANEL));
    if (i) mbar_wait(sb + OFF_BAR_DS, (uint32_t)(i - 1) & 1u);
    issue_dq(c, s, 0, ds_before(c));
    float delta[EARLY ? 2 * EARLY : 1];
    read_delta(c, delta, 0, EARLY);
    wgmma_wait(1);
    pin_f32(dp, NS);
    pin_u32(p, NP);
    pin_f32(dv, ND);
    less_delta(dp, delta, EARLY);
    if (!EXTRAS) less_rest(c, dp, EARLY);
    gradients(c, dp, p, m, left);
    put_ds(c, p);
    issue_kv(dk, p, desc_n_major(sb + OFF_Q + c->stage * Q_BYTES, Q_PANEL));
    wgmma_wait(1);
    pin_f32(s, NQ);
    if (i) put_dq(c, s, before, i - 1);
    before = row0 + m;
    c->parity ^= c->stage == ST - 1;
    c->stage = c->stage == ST - 1 ? 0 : c->stage + 1;
    c->ds = c->ds == DS_BUFFERS - 1 ? 0 : c->ds + 1;
    if (++m < warp_uniform(lds_i4(sb + OFF_TILE + 16).x)) continue;
    m = warp_uniform(lds_i4(sb + OFF_TILE).w);
    row0 += a->blocks_q;
    if (--left) continue;
    mbar_wait(sb + OFF_BAR_DS, (uint32_t)i & 1u);
    break;
  }
  issue_dq(c, s, 0, ds_before(c));
  wgmma_wait(0);
  pin_f32(s, NQ);
  pin_f32(dk, ND);
  pin_f32(dv, ND);
  put_dq(c, s, before, i);
  if (c->w == 0) bar_sync(2, 256); /* the other one's last arrival */
}
GA_DEV void consumer(args a, uint32_t sb, const tile *t, int wg, int warp, int lane) {
  const int g = lane >> 2;
  warpgroup c = {
      a, sb, wg, warp & 3, lane, (lane & 3) * 2, t->n * BN + wg * 64 + (warp & 3) * 16 + g - t->rows_k + t->rows_q,
      0, 0,  0};
  float dk[ND], dv[ND];
  GA_UNROLL for (int i = 0; i < ND; i++) dk[i] = dv[i] = 0.f;
  if (t->m_lo < t->m_hi) consume_tile(&c, dk, dv);
  results(&c, dk, dv);
  if (!DETERMINISTIC && !DIRECT && lane == 0) bulk_wait_read(); /* shared memory must outlive the last piece's reads */
}

/* ------------------------------------------------------------------ the kernel */
/* Blocks may start in any order; tickets make the order of tiles that in which they run. */
GA_DEV int take_ticket(args a) {
  grid_dependency_wait();
  return atomic_add_i32(a->ticket, 1);
}
GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd a) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  if (thread_index() == 0) {
    mbar_init(sb + OFF_BAR_K, 1);
    mbar_init(sb + OFF_VF, 1);
    mbar_init(sb + OFF_BAR_DS, GA_KBWD_WARPS);
    init_ring(sb);
    if (DETERMINISTIC) {
      mbar_init(sb + OFF_READY, 1);
      mbar_init(sb + OFF_USED, GA_KBWD_WARPS);
      mbar_init(sb + OFF_USED + 8, GA_KBWD_WARPS);
      mbar_init(sb + OFF_EMPTY, 1);
    }
    mbar_init_fence();
    const tile t = tile_of(&a, DETERMINISTIC ? take_ticket(&a) : block_index());
    tile_put(sb + OFF_TILE, &t);
  }
  block_sync();
  grid_launch_dependents();
  const tile t = tile_get(sb + OFF_TILE);
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    if (t.n * BN < t.rows_k) consumer(&a, sb, &t, wg, warp, lane);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    const int works = lane == 0 && t.n * BN < t.rows_k && t.m_lo < t.m_hi;
    if (warp == 4 * WGS && works) producer(&a, sb);
    if (DETERMINISTIC && warp > 4 * WGS && warp < 4 * WGS + 3 && works) writer(&a, sb, warp - 4 * WGS - 1);
  }
}
