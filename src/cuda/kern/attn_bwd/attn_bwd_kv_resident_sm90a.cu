/* KERNEL    attn_bwd, sm90a, blocks that take all keys of a KV head, tile after tile: 1 producer thread + 2 consumer
 *           warpgroups of 64 rows of K and V
 * COMPUTES  as attn_bwd_sm90a.cu, with the same schedule of a step: per 128 rows of K and V of a (batch, KV head), over
 *           the query heads of its group and their blocks of 64 or 128 rows of Q: S^T = K Q^T,
 *           P^T = e^(S^T scale - lse), dP^T = V dO^T, dS^T = P^T (dP^T - delta); dV += P^T dO, dK += dS^T Q in
 *           registers; dQ += dS K in f32 in the workspace. Masks as in attn_fwd
 * CONTRACT  16-bit inputs, columns contiguous, 16-byte aligned, strides multiples of 8; dims <= D (zero padded by the
 *           tensor maps); scale > 0; attn_bwd_pre has run (cuda/kern/attn_bwd/attn_bwd_args.h). Soft-cap: its
 *           derivative is taken from P, whose logarithm is the capped logit
 * SCHEDULE  step i of a warpgroup; each line ends with its wait:
 *           1 issue S(i), dP(i); wait S. All of step i-1 is then complete: release its Q and dO. 128 rows, or features:
 *             dP is issued once step i-1 is complete, because registers are short
 *           2 in turn with the other warpgroup: exponentials, P to registers [dP runs]
 *           3 issue dV += P dO; both warpgroups have written dS(i-1): issue dQ(i-1) = dS K into the registers of S;
 *             wait dP, dV
 *           4 dS over P in registers, and to one of three buffers in shared memory [dQ(i-1) runs]
 *           5 issue dK += dS Q; wait dQ(i-1), which goes to the workspace from registers [dK runs]
 *           dQ lags one step, so that a warpgroup needs its partner's dS in the middle of a step only. The two may run
 *           half a step apart, one in elementwise code while the other feeds the tensor cores; the turn at 2 keeps that
 *           distance. dQ(i-2) of the partner may still read when dS(i) is written, which takes three buffers
 * TILES     The producer draws a ticket for a head and takes its tiles from the last to the first. It writes their
 *           records and loads K, and V once the last dP of the tile before is complete. dQ of a tile's last step is
 *           computed in the first step of the next, which takes two buffers of K. A warpgroup stores dK and dV between
 *           two tiles, while the other computes
 * ORDER     each thread accumulates its part of dQ at its own place in the workspace (the first tile stores, the last
 *           takes the sum and writes dQ): the same bits in every run, and no thread waits
 * BARRIERS  name        arrivals    waiter      orders
 *           k_full[b]   1+tx        consumers   record, TMA write of K -> ld.shared, wgmma read; b: of two buffers
 *           k_empty[b]  8 (warps)   producer    reads of K and of the record -> next tile's
 *           v_full      1+tx        consumers   TMA write of V -> wgmma read
 *           v_empty     2 (wgs)     producer    wgmma reads of V -> next TMA write
 *           q_full[s]   1+tx        consumers   TMA write of Q[s] and stat[s] -> wgmma read, ld.shared
 *           q_empty[s]  2 (wgs)     producer    wgmma reads of Q[s], reads of stat[s] -> next TMA write
 *           o_full[s]   1+tx        consumers   TMA write of dO[s] -> wgmma read
 *           o_empty[s]  2 (wgs)     producer    wgmma reads of dO[s] -> next TMA write
 *           ds          8 (warps)   consumers   stmatrix of dS(i) -> wgmma reads of dQ(i)
 *           turn        named 2, 3  warpgroups  exponentials exclude each other
 *           clean       named 1     consumers   zeros over rows past a packed sequence -> all warps' wgmma reads; the
 *                                               last reads of V of a tile without a last step -> v_empty
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
/* Rows of Q see the tile. Without any there may be no tensor maps. */
GA_DEV int has_steps(uint32_t record) { return lds_i4(record).w < lds_i4(record + 16).x; }
/* Behind work item `item`, tile n of its head: the next one of its head (they go down), or the first of the next
 * ticket's. */
GA_DEV int next_item(args a, int item, int n) {
  return n > 0 ? item + 1 : (block_count() + atomic_add_i32(a->ticket, 1)) * a->tiles_k;
}
/* Writes the record of tile i, the first that exists from *item on; none is left: n = -1. */
GA_DEV void find_tile(args a, uint32_t record, int *item) {
  tile t;
  GA_ROLL for (;; *item = next_item(a, *item, t.n)) {
    t.n = -1;
    t.m_lo = t.m_hi = 0;
    if (*item >= a->tiles_k * a->heads_total) break;
    t = tile_of(a, *item);
    if (t.n * BN < t.rows_k) break;
  }
  tile_put(record, &t);
}
GA_DEV void producer(args a, uint32_t sb) {
  int item = block_index() * a->tiles_k;
  stages at = {0, 1};
  grid_dependency_wait(); /* what the consumers read and write follows from here */
  GA_ROLL for (uint32_t i = 0;; i++) {
    const uint32_t record = record_of(sb, i), kf = sb + OFF_KF + i % K_BUFFERS * 8;
    mbar_wait(sb + OFF_KE + i % K_BUFFERS * 8, ~(i / K_BUFFERS) & 1u);
    find_tile(a, record, &item);
    if (has_steps(record)) {
      load_kv(record, sb + OFF_K + i % K_BUFFERS * K_BYTES, &a->k, kf, is_packed(a));
      feed(a, sb, i, &at);
    } else {
      mbar_arrive(kf);
      if (lds_i4(record).x < 0) return;
      mbar_wait(sb + OFF_VE, ~i & 1u);
      mbar_arrive(sb + OFF_VF);
    }
    item = next_item(a, item, lds_i4(record).x);
  }
}

/* ------------------------------------------------------------------ consumers */
/* Where dS^T of this warp goes. */
GA_DEV uint32_t ds_offset(const warpgroup *c) {
  return ds_chunk(c->sb + OFF_DS + c->step % DS_BUFFERS * DS_BYTES + c->w * Q_PANEL, warp_of(c), lane_of(c));
}
GA_DEV void put_ds(const warpgroup *c, const uint32_t *p, uint32_t to) {
  store_ds(to, p);
  if (lane_of(c) == 0) mbar_arrive(c->sb + OFF_BAR_DS);
}
/* Where this lane's part of a block of dQ lies in the workspace. */
GA_DEV float *acc_of(const warpgroup *c, int64_t block) {
  return c->a->acc + (block * GA_KBWD_WARPS + warp_number(c)) * (PIECE_BYTES / 4) + 4 * lane_of(c);
}
/* dQ of `block` to the workspace, added as it comes. */
GA_DEV void add_dq(const float *x, float *to) {
  GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++)
      red_add_f32x4(to + 128 * j, x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]);
}
/* The whole sum, of block m of a query head: out. `record`: its tile's. */
GA_DEV void finish_dq(const warpgroup *c, const float *x, uint32_t record, int head, int m) {
  args a = c->a;
  const tile t = tile_get(record);
  const int lane = lane_of(c), row = m * BM + (BM == 128 ? c->w * 64 : 0) + warp_of(c) * 16 + lane / 4;
  const int batch = is_packed(a) ? 0 : t.batch, col = BM == 128 ? 0 : c->w * DQ_COLS;
  bwd_out o = bwd_out_of(&a->dq, t.start_q + row, head, batch, col, a->cols_k, a->out_f32, a->add_dq);
  o.in0 = row < t.rows_q;
  o.in1 = row + 8 < t.rows_q;
  bwd_store(&o, x, DQ_COLS, scale_of(a, &t), lane & 3);
}
/* Returns the value of `before` for block m of the query head that is `left` heads from the end of its group: 4
 * times the block's number in the KV head, + 1 if this tile is the first that sees the block, + 2 if it is the last. */
GA_DEV int tag_of(const warpgroup *c, int m, int left) {
  args a = c->a;
  const visits v = visits_of(a, tile_record(c), m);
  return ((a->group - left) * a->blocks_q + m) * 4 + !v.before + 2 * !v.after;
}
/* The workspace is this block's own, and each of its places a thread's own. The first tile stores, the last takes the
 * sum and writes dQ. */
GA_DEV float *own_of(const warpgroup *c) {
  return acc_of(c, (int64_t)block_index() * (c->a->group * c->a->blocks_q) + (c->before >> 2));
}
/* The first `FETCHED` values that others have summed up, while dQ is made. */
GA_DEV void fetch_dq(const warpgroup *c, float *sum, int first) {
  const float *from = own_of(c) + first / 4 * 128;
  GA_UNROLL for (int j = 0; j < FETCHED / 4; j++) {
    const ga_i4 v = ldg_i4_cg(from + 128 * j);
    sum[4 * j] = __uint_as_float((uint32_t)v.x);
    sum[4 * j + 1] = __uint_as_float((uint32_t)v.y);
    sum[4 * j + 2] = __uint_as_float((uint32_t)v.z);
    sum[4 * j + 3] = __uint_as_float((uint32_t)v.w);
  }
}
GA_DEV int is_last(const warpgroup *c) { return c->before >= 0 && (c->before & 3) == 2; }
/* dQ of the step before, which was one of the tile of `record`. */
GA_DEV void keep_dq(const warpgroup *c, float *x, float *sum, uint32_t record) {
  float *to = own_of(c);
  if ((c->before & 3) == 1) {
    GA_UNROLL for (int j = 0; j < DQ_COLS / 8; j++) {
      stg_f2(to + 128 * j, x[4 * j], x[4 * j + 1]);
      stg_f2(to + 128 * j + 2, x[4 * j + 2], x[4 * j + 3]);
    }
  } else if ((c->before & 3) == 0) {
    add_dq(x, to);
  } else {
    args a = c->a;
    const int block = c->before >> 2, head = block / a->blocks_q;
    if (!(c->before & 1)) GA_UNROLL
      for (int first = 0; first < NQ; first += FETCHED) {
        if (first) fetch_dq(c, sum, first);
        GA_UNROLL for (int i = 0; i < FETCHED; i++) x[first + i] += sum[i];
      }
    finish_dq(c, x, record, lds_i4(record).y * a->group + head, block - head * a->blocks_q);
  }
}
/* The buffer written a step ago. */
GA_DEV uint32_t ds_before(const warpgroup *c) { return (c->step + DS_BUFFERS - 1) % DS_BUFFERS; }
/* dK and dV of this warp's rows; zeros where nothing was seen. */
GA_DEV void results(const warpgroup *c, const float *dk, const float *dv) {
  args a = c->a;
  const tile record = tile_get(tile_record(c)), *t = &record;
  const int lane = lane_of(c), q = lane & 3, row = t->n * BN + c->w * 64 + warp_of(c) * 16 + lane / 4;
  const int batch = is_packed(a) ? 0 : t->batch;
  bwd_out o = bwd_out_of(&a->dv, t->start_k + row, t->head, batch, 0, a->cols_v, a->out_f32, a->add_dkv);
  o.in0 = row < t->rows_k;
  o.in1 = row + 8 < t->rows_k;
  bwd_store(&o, dv, D, 1.f, q);
  bwd_out k = bwd_out_of(&a->dk, t->start_k + row, t->head, batch, 0, a->cols_k, a->out_f32, a->add_dkv);
  k.in0 = o.in0;
  k.in1 = o.in1;
  bwd_store(&k, dk, D, scale_of(a, t), q);
}
/* Q and dO of the step before are free. */
GA_DEV void release(const warpgroup *c) {
  const uint32_t before = (c->step - 1) % ST;
  if (!leads()) return;
  mbar_arrive(c->sb + OFF_QE + 8 * before);
  mbar_arrive(c->sb + OFF_OE + 8 * before);
}
/* Behind a product that was issued since: the step before is complete. */
GA_DEV void settle(const warpgroup *c, uint32_t *p, float *dk) {
  wgmma_wait(1);
  pin_u32(p, NP);
  pin_f32(dk, ND);
  if (c->step) release(c);
}
/* This warp needs K and the record of that tile no more. */
GA_DEV void leave(const warpgroup *c, uint32_t tile) {
  warp_sync();
  if (lane_of(c) == 0) mbar_arrive(c->sb + OFF_KE + tile % K_BUFFERS * 8);
}
/* All blocks of Q of a tile. */
GA_DEV void steps(warpgroup *c, float *dk, float *dv) {
  args a = c->a;
  const uint32_t sb = c->sb, v_rows = desc_k_major(sb + OFF_V + c->w * BOX_BYTES);
  const uint32_t k_rows = desc_k_major(sb + OFF_K + c->tile % K_BUFFERS * K_BYTES + c->w * BOX_BYTES);
  float s[NS], dp[NS];
  uint32_t p[NP];
  int m = lds_i4(tile_record(c)).w, first = 1, left = a->group; /* the tile's first step; query heads to go */
  GA_UNROLL for (int r = 0; r < NP; r++) p[r] = 0;
  if (EXTRAS) clean_kv(c, sb + OFF_K + c->tile % K_BUFFERS * K_BYTES, sb + OFF_VF, c->tile & 1u);
  GA_ROLL for (;;) {
    mbar_wait(sb + OFF_QF + 8 * stage_of(c), c->step / ST & 1u);
    if (EXTRAS) clean_q(c, m, stage_of(c), c->step / ST & 1u);
    issue_s(s, k_rows, desc_k_major(sb + OFF_Q + stage_of(c) * Q_BYTES), D, 0);
    if (EXTRAS) start_dp(c, dp);
    if (first) mbar_wait(sb + OFF_VF, c->tile & 1u);
    mbar_wait(sb + OFF_OF + 8 * stage_of(c), c->step / ST & 1u);
    if (BM == 128 || EXTRAS) settle(c, p, dk); /* S, dP and dS of the step before do not fit */
    issue_s(dp, v_rows, desc_k_major(sb + OFF_O + stage_of(c) * Q_BYTES), D, EXTRAS);
    const int early = BM == 128 && is_partial(c, m); /* at 64 rows nothing was gained */
    if (BM == 64 && !EXTRAS)
      settle(c, p, dk);
    else
      wgmma_wait(1);
    pin_f32(s, NS);
    bar_sync(2 + c->w, 256);
    probabilities(c, s, p, m, left, BM == 128 ? early : is_partial(c, m));
    bar_arrive(3 - c->w, 256);
    issue_kv(dv, p, desc_n_major(sb + OFF_O + stage_of(c) * Q_BYTES, Q_PANEL));
    if (c->step) mbar_wait(sb + OFF_BAR_DS, ~c->step & 1u);
    issue_dq(c, s, (c->tile - (uint32_t)(first && c->before >= 0)) % K_BUFFERS, ds_before(c));
    float delta[EARLY ? 2 * EARLY : 1];
    read_delta(c, delta, 0, EARLY);
    const uint32_t to = ds_offset(c);
    wgmma_wait(1);
    pin_f32(dp, NS);
    pin_u32(p, NP);
    pin_f32(dv, ND);
    const int next = m + 1 < lds_i4(tile_record(c) + 16).x;
    if (!next && left == 1 && leads()) mbar_arrive(sb + OFF_VE);
    less_delta(dp, delta, EARLY);
    if (!EXTRAS) less_rest(c, dp, EARLY);
    gradients(c, dp, p, m, left);
    put_ds(c, p, to);
    issue_kv(dk, p, desc_n_major(sb + OFF_Q + stage_of(c) * Q_BYTES, Q_PANEL));
    if (is_last(c)) fetch_dq(c, dp, 0);
    wgmma_wait(1);
    pin_f32(s, NQ);
    if (c->before >= 0) {
      keep_dq(c, s, dp, first ? record_of(sb, c->tile - 1) : tile_record(c));
      if (first) leave(c, c->tile - 1);
    }
    c->before = tag_of(c, m, left);
    c->step = c->step == CYCLE ? 1 : c->step + 1;
    first = 0;
    m++;
    if (next) continue;
    m = lds_i4(tile_record(c)).w;
    if (--left == 0) break;
  }
}
/* dQ of the step before, one of tile number `tile`, where no other follows at once. */
GA_DEV void drain(warpgroup *c, uint32_t tile) {
  float x[NQ], sum[FETCHED];
  mbar_wait(c->sb + OFF_BAR_DS, ~c->step & 1u);
  issue_dq(c, x, tile % K_BUFFERS, ds_before(c));
  if (is_last(c)) fetch_dq(c, sum, 0);
  wgmma_wait(0);
  pin_f32(x, NQ);
  keep_dq(c, x, sum, record_of(c->sb, tile));
  leave(c, tile);
  c->before = -1;
}
/* A tile that no row of Q sees: its turn of V is over once all have seen it come. */
GA_DEV void pass(const warpgroup *c) {
  mbar_wait(c->sb + OFF_VF, c->tile & 1u);
  bar_sync(1, 256);
  if (leads()) mbar_arrive(c->sb + OFF_VE);
}
/* Tile after tile, until a record says that there is none. */
GA_DEV void consumer(args a, uint32_t sb, int wg) {
  warpgroup c = {a, sb, wg, (thread_index() & 3) * 2, 0, 0, -1};
  clear_ds(&c);
  if (c.w == 1) bar_arrive(2, 256); /* warpgroup 0 starts */
  GA_ROLL for (;; c.tile++) {
    float dk[ND], dv[ND];
    GA_UNROLL for (int i = 0; i < ND; i++) dk[i] = dv[i] = 0.f;
    const uint32_t record = record_of(sb, c.tile);
    mbar_wait(sb + OFF_KF + c.tile % K_BUFFERS * 8, c.tile / K_BUFFERS & 1u);
    const int some = has_steps(record);
    if (!some && c.before >= 0) drain(&c, c.tile - 1);
    if (lds_i4(record).x < 0) break;
    if (some) {
      steps(&c, dk, dv);
      wgmma_wait(0);
      pin_f32(dk, ND);
    } else {
      pass(&c);
    }
    results(&c, dk, dv);
    if (!some) leave(&c, c.tile);
  }
  if (c.w == 0) bar_sync(2, 256); /* the other one's last arrival */
}

/* ------------------------------------------------------------------ the kernel */
GA_DEV void init_barriers(uint32_t sb) {
  for (int i = 0; i < 2; i++) {
    mbar_init(sb + OFF_KF + 8 * i, 1);
    mbar_init(sb + OFF_KE + 8 * i, GA_KBWD_WARPS);
  }
  mbar_init(sb + OFF_VF, 1);
  mbar_init(sb + OFF_VE, WGS);
  mbar_init(sb + OFF_BAR_DS, GA_KBWD_WARPS);
  init_ring(sb);
  mbar_init_fence();
}
GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd a) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  if (thread_index() == 0) init_barriers(sb);
  block_sync();
  grid_launch_dependents();
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    consumer(&a, sb, wg);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    if (lane == 0 && (thread_index_anew() >> 5) == 4 * WGS) producer(&a, sb);
  }
}
