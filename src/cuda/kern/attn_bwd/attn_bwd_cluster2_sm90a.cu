/* KERNEL    attn_bwd, sm_90a, a cluster of two blocks for heads whose dK and dV do not fit into one block's registers
 * COMPUTES  as attn_bwd_sm90a.cu, per 128 rows of K and V: block 0 of the cluster has K and computes S, P and dV;
 *           block 1 has V and computes dP, dS and dK; both compute dQ = dS K, each for a part of the columns. P goes
 *           from registers of block 0 to the same thread's registers in block 1; dS is copied back as a whole
 * CONTRACT  16-bit inputs, columns contiguous, 16-byte aligned, strides multiples of 8; head dim <= DK, value dim <= DV
 *           (zero padded by the tensor maps); scale > 0; attn_bwd_pre has run, attn_bwd_post follows
 *           (cuda/kern/attn_bwd/attn_bwd_args.h)
 * SCHEDULE  each block: 1 producer thread + 2 consumer warpgroups of 64 rows of K and V. Step i of a warpgroup, a line
 *           a wait:
 *           block 0   issue S(i), dQ(i-2); wait S
 *                     in turn with the other warpgroup: exponentials; send P(i); issue dV += P dO; wait dQ
 *                     add dQ(i-2) to the workspace
 *           block 1   issue dP(i), dQ(i-1); wait dP
 *                     wait for P(i): dS(i), to registers and shared memory; issue dK += dS Q; wait dQ
 *                     add dQ(i-1); block 1's third thread sends dS(i)
 *           A block uses Q(i) once and dO(i) once a step: dO needs no second stage; Q has two, so that block 0 may run
 *           one step before block 1
 * BARRIERS  name          arrivals        waiter         orders
 *           main          1+tx            consumers      TMA writes of K (V, the other part of K) -> wgmma reads
 *           q_full[s]     1+tx            consumers      TMA write, half from each block, of Q[s], stat[s] -> wgmma
 *                                                        reads, ld.shared
 *           q_empty[s]    4 (both's wgs)  producer       reads of Q[s] and stat[s] in both blocks -> next TMA write
 *                                                        into both
 *           o_full        1+tx            consumers      TMA write of this block's dO -> wgmma reads
 *           o_empty       2 (wgs)         producer       wgmma reads of dO -> next TMA write
 *           p_full[b][w]  1+tx            block 1, wg w  st.async of P(i) -> ld.shared
 *           p_empty[b]    2 (1's wgs)     block 0        dQ(i-2) has read the buffer, as has its copy to block 0
 *                                                        (ds_full) -> P(i)
 *           ds_own[b]     8 (warps)       block 1        stmatrix of dS(i) -> wgmma reads, copy to block 0
 *           ds_full[b]    1+tx            block 0        copy of dS(i) -> wgmma reads
 *           ds_empty[b]   2 (0's wgs)     copier         dQ(i-2) has read the buffer -> copy of dS(i)
 *           turn          named 2, 3      block 0's wgs  exponentials exclude each other
 *           clean         named 1         consumers      zeros over rows past a packed sequence -> all warps' wgmma
 *                                                        reads
 *           cluster       all             all            at the start: barriers exist; at the end: no access to a block
 *                                                        that has ended
 * ORDER     1: clusters take their tile by ticket. A warp's part of a block of dQ is added in descending order of
 *           tiles, by a turn of that warp alone. The warp passes the turn a step late, when its additions are complete
 *           and the fence after them costs little. A cluster waits only for lower tickets
 * BUDGET    what       how much
 *           threads    384
 *           registers  24 (producer) and 240 (consumers); of these at D = 256: dK or dV 128, S or dP 32, dQ 32, P or dS
 *                      16
 *           blocks     1 per multiprocessor
 *           smem       OFF_*
 *           a step     of a block at D = 256: 2560 cycles of products, 256 KiB of shared memory read by them
 * MEASURED  docs/log/attention-bwd.md
 * REF       Dao 2023 (arXiv 2307.08691); Shah et al. 2024 (2407.08608)
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_DK
#error "GA_P_DK: head dim of q and k, padded: 192, 256"
#endif
#ifndef GA_P_DV
#error "GA_P_DV: head dim of v, padded: 128, 256"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: GA_P_MASK_FULL, GA_P_MASK_CAUSAL or GA_P_MASK_WINDOW"
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

#include "cuda/kern/attn_bwd/attn_bwd_clean.h"
#include "cuda/kern/attn_bwd/attn_bwd_math.h"
#include "cuda/kern/attn_bwd/attn_bwd_out.h"
#include "cuda/kern/attn_bwd/attn_bwd_products.h"
#include "cuda/kern/attn_bwd/attn_bwd_tiles.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

/* ------------------------------------------------------------------ producer: one thread a block */
/* 128 rows, `panels` panels from `first` on. */
GA_DEV void load_main(uint32_t sb, uint32_t dst, const ga_tmap *map, int first, int panels, int packed) {
  const tile t = tile_get(sb + OFF_TILE);
  GA_UNROLL for (int i = 0; i < 2 * panels; i++)
      bulk_load_4d(dst + i * Q_PANEL, map, sb + OFF_BAR_MAIN, (first + i / 2) * PANEL_COLS,
                   t.start_k + t.n * BN + i % 2 * BM, t.head, packed ? 0 : t.batch, L2_EVICT_FIRST);
}
/* This block's panels of Q, to both; stat comes from block 0. */
GA_DEV void load_q(args a, uint32_t sb, uint32_t rank, int stage, int m, int row, int head, int batch) {
  const uint32_t qf = sb + OFF_QF + 8 * stage;
  mbar_arrive_expect(qf, Q_BYTES + STAT_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_K; i++) {
    if ((uint32_t)i % 2 != rank) continue;
    bulk_load_4d_multicast(sb + OFF_Q + stage * Q_BYTES + i * Q_PANEL, &a->q, qf, i * PANEL_COLS, row, head,
                           is_packed(a) ? 0 : batch, 3, L2_EVICT_LAST);
  }
  if (rank) return;
  bulk_load_4d_multicast(sb + OFF_STAT + stage * STAT_BYTES, &a->stat, qf, m * BM, 0, head, batch, 3, L2_EVICT_LAST);
}
/* The tile's record is read again in every round: registers are few here. */
GA_DEV void producer(args a, uint32_t sb, uint32_t rank) {
  grid_dependency_wait(); /* what the consumers read and write follows from here */
  mbar_arrive_expect(sb + OFF_BAR_MAIN, rank ? MAIN_BYTES_1 : MAIN_BYTES_0);
  if (rank) {
    load_main(sb, sb + OFF_MAIN, &a->v, 0, PANELS_V, is_packed(a));
    load_main(sb, sb + OFF_K1, &a->k, 2, PANELS_1, is_packed(a));
  } else {
    load_main(sb, sb + OFF_MAIN, &a->k, 0, PANELS_K, is_packed(a));
  }
  const ga_i4 start = lds_i4(sb + OFF_TILE);
  int head = start.y * a->group, m = start.w, stage = 0, parity = 1;
  GA_ROLL for (uint32_t i = 0;; i++) {
    const int batch = lds_i4(sb + OFF_TILE).z, row = EXTRAS ? lds_i4(sb + OFF_TILE + 32).y + m * BM : m * BM;
    mbar_wait(sb + OFF_QE + 8 * stage, parity);
    load_q(a, sb, rank, stage, m, row, head, batch);
    mbar_wait(sb + OFF_OE, ~i & 1u);
    mbar_arrive_expect(sb + OFF_OF, O_BYTES);
    GA_UNROLL for (int p = 0; p < PANELS_V; p++)
        bulk_load_4d(sb + OFF_O + p * Q_PANEL, &a->dout, sb + OFF_OF, p * PANEL_COLS, row, head,
                     is_packed(a) ? 0 : batch, L2_EVICT_LAST);
    if (++stage == ST) {
      stage = 0;
      parity ^= 1;
    }
    if (++m < lds_i4(sb + OFF_TILE + 16).x) continue;
    m = lds_i4(sb + OFF_TILE).w;
    if (++head == (lds_i4(sb + OFF_TILE).y + 1) * a->group) break;
  }
}
/* Block 1, another thread: dS to block 0. */
GA_DEV void copier(args a, uint32_t sb) {
  const tile t = tile_get(sb + OFF_TILE);
  const int steps = (t.m_hi - t.m_lo) * a->group;
  GA_ROLL for (int i = 0; i < steps; i++) {
    const uint32_t b = (uint32_t)(i & 1), parity = (uint32_t)(i >> 1) & 1u, at = sb + OFF_DS + b * DS_BYTES;
    mbar_wait(sb + OFF_DSO + 8 * b, parity);
    mbar_wait(sb + OFF_DSE + 8 * b, parity);
    bulk_copy_cluster(cluster_address(at, 0), at, DS_BYTES, cluster_address(sb + OFF_DSF + 8 * b, 0));
  }
}

/* ------------------------------------------------------------------ consumers */
/* The first `panels` of what is in OFF_MAIN; of Q of a stage; dO. They are there. */
GA_DEV void clean_main(const warpgroup *c, int panels) {
  const int keep = keys_kept(c->a, tile_record(c));
  if (keep >= BN) return;
  clear_rows(c->sb + OFF_MAIN, panels, BN, keep);
  meet_cleared();
}
GA_DEV void clean_q_stage(const warpgroup *c, int m, int stage) {
  const int keep = queries_kept(c->a, tile_record(c), m);
  if (keep >= BM) return;
  clear_rows(c->sb + OFF_Q + stage * Q_BYTES, PANELS_K, BM, keep);
  meet_cleared();
}
GA_DEV void clean_dout(const warpgroup *c, int m) {
  const int keep = queries_kept(c->a, tile_record(c), m);
  if (keep >= BM) return;
  clear_rows(c->sb + OFF_O, PANELS_V, BM, keep);
  meet_cleared();
}

/* In a cluster shared addresses carry the block's rank from bit 24 on; in a descriptor it would end up in lbo. */
GA_DEV uint32_t desc_window(uint32_t a) { return a & 0x3ffffu; }
/* dV += P dO (block 0), dK += dS Q (block 1): P, dS in registers. */
GA_DEV void issue_kv(float *x, uint32_t *p, uint32_t b, int rank) {
  const uint64_t db = desc(desc_n_major(b, Q_PANEL));
  pin_u32(p, NP);
  pin_f32(x, (rank ? DK : DV) / 2);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BM / 16; k++) {
    if (rank)
      DK_ADD(x, p + 4 * k, db + (uint64_t)(k * 128), 1);
    else
      DV_ADD(x, p + 4 * k, db + (uint64_t)(k * 128), 1);
  }
  wgmma_commit();
}
/* Columns of dQ of a warpgroup. */
GA_DEV int dq_cols(int rank) { return rank && PANELS_1 == 1 ? 32 : 64; }
/* This warpgroup's columns of dS K, dS from buffer b. */
GA_DEV void issue_dq(const warpgroup *c, float *x, int b, int rank) {
  const int wide = dq_cols(rank) == 64;
  const uint64_t da = desc(desc_k_major(c->window + OFF_DS + b * DS_BYTES));
  const uint64_t db =
      desc(desc_n_major(c->window + (rank ? OFF_K1 : OFF_MAIN) + c->w * (wide ? K_PANEL : 64), K_PANEL));
  wgmma_fence();
  if (wide) {
    DQ_NEW_64(x, da, db);
    GA_UNROLL for (int k = 1; k < BN / 16; k++)
        DQ_ADD_64(x, da + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), db + (uint64_t)(k * 128), 1);
  } else {
    DQ_NEW_32(x, da, db);
    GA_UNROLL for (int k = 1; k < BN / 16; k++)
        DQ_ADD_32(x, da + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), db + (uint64_t)(k * 128), 1);
  }
  wgmma_commit();
}
/* Ordered: a warp's part of a block of dQ is the same warp's in all tiles, so that each has a turn of its own. What it
 * added is complete a step later, when nobody waits for that. */
GA_DEV int32_t *dq_semaphore_of(const warpgroup *c, int block, int rank) {
  return c->a->dq_semaphore + block * GA_KBWD_CLUSTER2_SEMAPHORES + rank * 8 + c->w * 4 + c->wl;
}
GA_DEV void dq_semaphore_signal(warpgroup *c, int rank) {
  if (!DETERMINISTIC || c->added < 0) return;
  warp_sync();
  if (c->lane == 0) semaphore_signal(dq_semaphore_of(c, c->added, rank));
  c->added = -1;
}
GA_DEV void dq_semaphore_wait(warpgroup *c, int block, int rank) {
  if (!DETERMINISTIC) return;
  dq_semaphore_signal(c, rank);
  const visits v = visits_of(c->a, tile_record(c), block % c->a->blocks_q);
  if (c->lane == 0 && v.before) semaphore_wait(dq_semaphore_of(c, block, rank), v.before);
  warp_sync();
  c->added = block;
}
/* To the workspace, in the order of registers: a warp's rows of all columns are one piece. */
GA_DEV void add_dq(warpgroup *c, const float *x, int block, int rank) {
  dq_semaphore_wait(c, block, rank);
  const int cols = dq_cols(rank), first = rank ? 128 + c->w * cols : c->w * cols;
  float *to = c->a->acc + ((int64_t)block * 4 + c->wl) * (16 * DK) + first * 16 + c->lane * 4;
  GA_UNROLL for (int j = 0; j < cols / 8; j++)
      red_add_f32x4(to + 128 * j, x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]);
}
GA_DEV int leads(const warpgroup *c) { return c->wl == 0 && c->lane == 0; }
GA_DEV void arrive_both(uint32_t bar) {
  mbar_arrive_cluster(bar, 0);
  mbar_arrive_cluster(bar, 1);
}

/* Where 16 bytes of a lane's P lie in a buffer: among the chunks that its warp overwrites with dS, 8 lanes in 8 banks.
 * */
GA_DEV uint32_t p_chunk(const warpgroup *c, int b, int j) {
  const int row = j * 16 + (c->lane >> 4) * 8 + (c->lane >> 1 & 3) * 2 + (c->lane >> 3 & 1);
  return panel_chunk(c->sb + OFF_DS + b * DS_BYTES + c->w * Q_PANEL, (uint32_t)row,
                     (uint32_t)(c->wl * 2 + (c->lane & 1)));
}
GA_DEV void send_p(const warpgroup *c, const uint32_t *p, int b) {
  const uint32_t bar = cluster_address(c->sb + OFF_PF + 8 * (b * WGS + c->w), 1);
  GA_UNROLL for (int j = 0; j < BM / 16; j++)
      sts_async_i4(cluster_address(p_chunk(c, b, j), 1), (int)p[4 * j], (int)p[4 * j + 1], (int)p[4 * j + 2],
                   (int)p[4 * j + 3], bar);
}
GA_DEV void get_p(const warpgroup *c, uint32_t *p, int b) {
  GA_UNROLL for (int j = 0; j < BM / 16; j++) {
    const ga_i4 x = lds_i4(p_chunk(c, b, j));
    p[4 * j] = (uint32_t)x.x;
    p[4 * j + 1] = (uint32_t)x.y;
    p[4 * j + 2] = (uint32_t)x.z;
    p[4 * j + 3] = (uint32_t)x.w;
  }
  warp_sync(); /* before one of them writes dS there */
}
/* P of step i is expected. */
GA_DEV void expect_p(const warpgroup *c, int i) {
  if (leads(c) && i < c->steps) mbar_arrive_expect(c->sb + OFF_PF + 8 * ((i & 1) * WGS + c->w), Q_PANEL);
}
/* dS^T of this warp (16 rows of K) to buffer b, as rows of Q. */
GA_DEV void put_ds(const warpgroup *c, const uint32_t *p, int b) {
  store_ds(ds_chunk(c->sb + OFF_DS + b * DS_BYTES + c->w * Q_PANEL, c->wl, c->lane), p);
  if (c->lane == 0) mbar_arrive(c->sb + OFF_DSO + 8 * b);
}
/* Buffers that the first steps multiply for nothing hold zeros: a branch round a product would serialise them all. */
GA_DEV void clear_ds(const warpgroup *c, int first) {
  const uint32_t to = c->sb + OFF_DS + (c->w * 128 + c->wl * 32 + c->lane) * 16;
  GA_UNROLL for (int i = first * DS_BYTES / 4096; i < ST * DS_BYTES / 4096; i++) sts_i4(to + i * 4096, 0, 0, 0, 0);
  fence_async_smem();
  bar_sync(1, 256);
}

/* Blocks of Q, head by head. */
typedef struct {
  int m, lo, hi, row0, left; /* block; of every head; number of the head's first; query heads to go */
} walk;
GA_DEV walk walk_of(const warpgroup *c) {
  args a = c->a;
  const tile t = tile_get(tile_record(c));
  const walk w = {warp_uniform(t.m_lo), warp_uniform(t.m_lo), warp_uniform(t.m_hi),
                  warp_uniform((t.batch * a->heads_q + t.head * a->group) * a->blocks_q), a->group};
  return w;
}
GA_DEV void walk_on(const warpgroup *c, walk *w) {
  if (++w->m < w->hi) return;
  w->m = w->lo;
  w->row0 += c->a->blocks_q;
  w->left--;
}

/* Called by block 0 after its last step: adds up dQ of step i; -1: of none. It is called once for each pending step,
 * as a loop would serialise the products of the step before. */
GA_DEV void last_dq(warpgroup *c, float *dq, int i, int block) {
  if (i >= 0) mbar_wait(c->sb + OFF_DSF + 8 * (i & 1), (uint32_t)(i >> 1) & 1u);
  issue_dq(c, dq, i & 1, 0);
  wgmma_wait(0);
  pin_f32(dq, NS);
  if (i >= 0) add_dq(c, dq, block, 0);
}
/* Block 0. */
GA_DEV void consume_p(warpgroup *c, float *dv) {
  const uint32_t sb = c->sb, k_rows = desc_k_major(c->window + OFF_MAIN + c->w * Q_PANEL);
  float s[NS], dq[NS];
  uint32_t p[NP];
  int before = -1, before2 = -1;
  walk at = walk_of(c);
  GA_UNROLL for (int r = 0; r < NP; r++) p[r] = 0;
  clear_ds(c, 0);
  mbar_wait(sb + OFF_BAR_MAIN, 0);
  if (EXTRAS) clean_main(c, PANELS_K);
  if (c->w == 1) bar_arrive(2, 256); /* warpgroup 0 starts */
  GA_ROLL for (int i = 0; i < c->steps; i++) {
    const int b = i & 1;
    mbar_wait(sb + OFF_QF + 8 * b, (uint32_t)(i >> 1) & 1u);
    c->stage = b;
    if (EXTRAS) clean_q_stage(c, at.m, b);
    issue_s(s, k_rows, desc_k_major(c->window + OFF_Q + b * Q_BYTES), DK, 0);
    if (i > 1) mbar_wait(sb + OFF_DSF + 8 * b, (uint32_t)((i >> 1) - 1) & 1u);
    issue_dq(c, dq, b, 0);
    wgmma_wait(2);
    pin_u32(p, NP);
    if (i && leads(c)) mbar_arrive(sb + OFF_OE);
    wgmma_wait(1);
    pin_f32(s, NS);
    pin_f32(dv, DV / 2);
    bar_sync(2 + c->w, 256);
    probabilities(c, s, p, at.m, at.left, is_partial(c, at.m));
    bar_arrive(3 - c->w, 256);
    const uint32_t done = loads_done(p, NP, 2);            /* P comes of all of stat that was read */
    if (leads(c)) arrive_both(sb + OFF_QE + 8 * b + done); /* Q and stat */
    if (i) mbar_wait(sb + OFF_PE + 8 * b, (uint32_t)((i - 1) >> 1) & 1u);
    send_p(c, p, b);
    mbar_wait(sb + OFF_OF, (uint32_t)i & 1u);
    if (EXTRAS) clean_dout(c, at.m);
    issue_kv(dv, p, c->window + OFF_O, 0);
    wgmma_wait(1);
    pin_f32(dq, NS);
    if (c->w == 0 && leads(c)) mbar_arrive_expect(sb + OFF_DSF + 8 * b, DS_BYTES); /* dS(i) */
    if (leads(c)) mbar_arrive_cluster(sb + OFF_DSE + 8 * b, 1);
    if (i > 1) add_dq(c, dq, before2, 0);
    before2 = before;
    before = at.row0 + at.m;
    walk_on(c, &at);
  }
  last_dq(c, dq, c->steps - 2, before2);
  pin_f32(dv, DV / 2);
  last_dq(c, dq, c->steps - 1, before);
  dq_semaphore_signal(c, 0);
  if (c->w == 0) bar_sync(2, 256); /* the other one's last arrival */
}
/* Block 1: dQ(i - 1) to the workspace; its buffer of dS may hold P(i + 1). */
GA_DEV void give_dq(warpgroup *c, float *dq, int i, int block) {
  pin_f32(dq, NS);
  if (leads(c)) mbar_arrive_cluster(c->sb + OFF_PE + 8 * (~i & 1), 0);
  if (i) add_dq(c, dq, block, 1);
}
/* Block 1. */
GA_DEV void consume_ds(warpgroup *c, float *dk) {
  const uint32_t sb = c->sb, v_rows = desc_k_major(c->window + OFF_MAIN + c->w * Q_PANEL);
  float dp[NS], dq[NS];
  uint32_t p[NP];
  int before = -1;
  walk at = walk_of(c);
  GA_UNROLL for (int r = 0; r < NP; r++) p[r] = 0;
  expect_p(c, 0);
  clear_ds(c, 1);
  mbar_wait(sb + OFF_BAR_MAIN, 0);
  if (EXTRAS) clean_main(c, PANELS_V + PANELS_1);
  GA_ROLL for (int i = 0; i < c->steps; i++) {
    const int b = i & 1;
    mbar_wait(sb + OFF_OF, (uint32_t)i & 1u);
    if (EXTRAS) clean_dout(c, at.m);
    issue_s(dp, v_rows, desc_k_major(c->window + OFF_O), DV, 0);
    if (i) mbar_wait(sb + OFF_DSO + 8 * (b ^ 1), (uint32_t)((i - 1) >> 1) & 1u);
    issue_dq(c, dq, b ^ 1, 1);
    wgmma_wait(1);
    pin_f32(dp, NS);
    pin_u32(p, NP);
    pin_f32(dk, DK / 2);
    if (leads(c)) mbar_arrive(sb + OFF_OE);
    if (i && leads(c)) arrive_both(sb + OFF_QE + 8 * (b ^ 1));
    if (EXTRAS) { /* before P has come: dQ and what the features need do not fit */
      wgmma_wait(0);
      give_dq(c, dq, i, before);
    }
    expect_p(c, i + 1);
    mbar_wait(sb + OFF_QF + 8 * b, (uint32_t)(i >> 1) & 1u);
    c->stage = b;
    if (EXTRAS) clean_q_stage(c, at.m, b);
    mbar_wait(sb + OFF_PF + 8 * (b * WGS + c->w), (uint32_t)(i >> 1) & 1u);
    get_p(c, p, b);
    less_rest(c, dp, 0);
    gradients(c, dp, p, at.m, at.left);
    put_ds(c, p, b);
    issue_kv(dk, p, c->window + OFF_Q + b * Q_BYTES, 1);
    if (!EXTRAS) {
      wgmma_wait(1);
      give_dq(c, dq, i, before);
    }
    before = at.row0 + at.m;
    walk_on(c, &at);
  }
  const int last = c->steps - 1;
  mbar_wait(sb + OFF_DSO + 8 * (last & 1), (uint32_t)(last >> 1) & 1u);
  issue_dq(c, dq, last & 1, 1);
  wgmma_wait(0);
  pin_f32(dq, NS);
  pin_f32(dk, DK / 2);
  add_dq(c, dq, before, 1);
  dq_semaphore_signal(c, 1);
}
/* dV (block 0) or dK of this warp's rows, n columns times f; zeros where nothing was seen. */
GA_DEV void result(const warpgroup *c, const float *x, const ga_kbwd_tensor *to, int cols, int n, float f) {
  args a = c->a;
  const tile t = tile_get(tile_record(c));
  const int row = t.n * BN + c->w * 64 + c->wl * 16 + c->lane / 4;
  bwd_out o = bwd_out_of(to, t.start_k + row, t.head, is_packed(a) ? 0 : t.batch, 0, cols, a->out_f32, a->add_dkv);
  o.in0 = row < t.rows_k;
  o.in1 = row + 8 < t.rows_k;
  bwd_store(&o, x, n, f, c->lane & 3);
}
GA_DEV void consumer(args a, uint32_t sb, uint32_t rank, int wg, int warp, int lane) {
  const tile t = tile_get(sb + OFF_TILE);
  const int kv = t.n * BN + wg * 64 + (warp & 3) * 16 + (lane >> 2) - t.rows_k + t.rows_q;
  warpgroup c = {a,
                 sb,
                 desc_window(sb),
                 wg,
                 warp & 3,
                 lane,
                 (lane & 3) * 2,
                 kv,
                 0,
                 t.m_lo < t.m_hi ? (t.m_hi - t.m_lo) * a->group : 0,
                 -1};
  float x[(DK > DV ? DK : DV) / 2];
  GA_UNROLL for (int i = 0; i < (DK > DV ? DK : DV) / 2; i++) x[i] = 0.f;
  if (rank) {
    if (c.steps) consume_ds(&c, x);
    result(&c, x, &a->dk, a->cols_k, DK, scale_of(a, &t));
  } else {
    if (c.steps) consume_p(&c, x);
    result(&c, x, &a->dv, a->cols_v, DV, 1.f);
  }
}

/* ------------------------------------------------------------------ the kernel */
/* Ordered: clusters may start in any order; a ticket for both blocks makes the order of tiles that in which they run.
 * */
GA_DEV void share_tile(args a, uint32_t sb, uint32_t rank) {
  cluster_sync(); /* the other block is there */
  if (rank || thread_index()) return;
  grid_dependency_wait();
  const tile t = tile_of(a, atomic_add_i32(a->ticket, 1));
  tile_put(sb + OFF_TILE, &t);
  GA_UNROLL for (int i = 0; i < 3; i++) {
    const ga_i4 x = lds_i4(sb + OFF_TILE + 16 * i);
    sts_cluster_i4(cluster_address(sb + OFF_TILE + 16 * i, 1), x.x, x.y, x.z, x.w);
  }
}
GA_DEV void init_barriers(uint32_t sb) {
  mbar_init(sb + OFF_BAR_MAIN, 1);
  mbar_init(sb + OFF_OF, 1);
  mbar_init(sb + OFF_OE, WGS);
  for (int i = 0; i < ST; i++) {
    mbar_init(sb + OFF_QF + 8 * i, 1);
    mbar_init(sb + OFF_QE + 8 * i, 2 * WGS);
    for (int w = 0; w < WGS; w++) mbar_init(sb + OFF_PF + 8 * (i * WGS + w), 1);
    mbar_init(sb + OFF_PE + 8 * i, WGS);
    mbar_init(sb + OFF_DSO + 8 * i, GA_KBWD_WARPS);
    mbar_init(sb + OFF_DSF + 8 * i, 1);
    mbar_init(sb + OFF_DSE + 8 * i, WGS);
  }
  mbar_init_fence();
}
GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd a) {
  const uint32_t sb = smem_base(), rank = cluster_rank();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  if (thread_index() == 0) {
    init_barriers(sb);
    if (!DETERMINISTIC) {
      const tile t = tile_of(&a, block_index() / 2);
      tile_put(sb + OFF_TILE, &t);
    }
  }
  if (DETERMINISTIC) share_tile(&a, sb, rank);
  cluster_sync();
  grid_launch_dependents();
  const tile t = tile_get(sb + OFF_TILE);
  const int exists = t.n * BN < t.rows_k;
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    if (exists) consumer(&a, sb, rank, wg, warp, lane);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    const int works = lane == 0 && exists && t.m_lo < t.m_hi;
    if (warp == 4 * WGS && works) producer(&a, sb, rank);
    if (warp == 4 * WGS + 1 && works && rank) copier(&a, sb);
    warp_sync();
  }
  cluster_sync();
}
