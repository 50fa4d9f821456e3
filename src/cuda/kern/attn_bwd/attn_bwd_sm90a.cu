/* KERNEL    attn_bwd, sm90a, warp-specialised: 1 producer thread + 2 consumer warpgroups of 64 rows of K and V
 * COMPUTES  per 128 rows of K and V of a (batch, KV head), over the query heads of its group and their blocks of 64 or
 *           128 rows of Q: S^T = K Q^T, P^T = e^(S^T scale - lse), dP^T = V dO^T, dS^T = P^T (dP^T - delta);
 *           dV += P^T dO, dK += dS^T Q in registers; dQ += dS K in f32 in the workspace. Masks as in attn_fwd
 * CONTRACT  16-bit inputs, columns contiguous, 16-byte aligned, strides multiples of 8; dims <= D (zero padded by the
 *           tensor maps); scale > 0; attn_bwd_pre has run, attn_bwd_post follows (cuda/kern/attn_bwd/attn_bwd_args.h).
 *           Soft-cap: its derivative is taken from P, whose logarithm is the capped logit
 * SCHEDULE  step i of a warpgroup; each line ends at the wait behind it:
 *           1 issue S(i), dP(i); wait S. All of step i-1 is then complete: release its Q and dO. 128 rows, or features:
 *           dP is issued
 *             once step i-1 is complete, for want of registers
 *           2 in turn with the other warpgroup: exponentials, P to registers [dP runs]
 *           3 issue dV += P dO; both warpgroups have written dS(i-1): issue dQ(i-1) = dS K into the registers of S;
 *             wait dP, dV
 *           4 dS over P in registers, and to one of three buffers in shared memory [dQ(i-1) runs]
 *           5 issue dK += dS Q; wait dQ(i-1); its piece to shared memory and from there, added by the copy engine, to
 *           the
 *             workspace; 128 rows: from registers [dK runs]
 *           dQ lags a step, so that a warpgroup needs its partner's dS in the middle of a step only: the two may run
 *           half a step apart, one in elementwise code while the other feeds the matrix units; the turn at 2 keeps that
 *           distance. dQ(i-2) of the partner may still be reading when dS(i) is written: hence three buffers
 * ORDER     1: blocks take their tile by ticket and add to a block of dQ in descending order of tiles: the same bits in
 *           every run. A block waits only for blocks of lower tickets. The first tile stores, so that no zeros are
 *           needed; the last gets the sum back, adds its part in registers and writes dQ itself: no attn_bwd_post
 * BARRIERS  name     arrivals    waiter       orders
 *           k, v     1+tx        consumers    TMA write of K (V) -> wgmma read
 *           q_full   1+tx        consumers    TMA write of Q[s] and stat[s] -> wgmma read, ld.shared
 *           q_empty  2 (wgs)     producer     wgmma reads of Q[s], reads of stat[s] -> next TMA write
 *           o_full, o_empty      the same of dO[s]
 *           ds       8 (warps)   consumers    stmatrix of dS(i) -> wgmma reads of dQ(i)
 *           turn     named 2, 3  warpgroups   exponentials exclude each other
 *           ordered: ready 1+tx (writer) -> consumers: the buffer of dQ is free, or holds the sum; used 8 (warps) ->
 *           writer of even (odd) steps: it is written, or read; empty 1 (writer) -> the other writer: the step is done
 *           with it
 * BUDGET    384 threads, registers 24 + 240, 1 block per SM; smem: OFF_*; per consumer thread at D = 128: dK 64, dV 64,
 *           S or dQ 32, dP 32, P or dS 16; at D = 64 with 128 rows: dK 32, dV 32, S or dQ 64, dP 64, P or dS 32
 * MEASURED  docs/log/attention-bwd.md
 * REF       Dao 2023 (arXiv 2307.08691); Shah et al. 2024 (2407.08608)
 */
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

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
#error "GA_P_MASK: full, causal or window"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: stages of the ring of Q and of dO"
#endif
#ifndef GA_P_ORDER
#error "GA_P_ORDER: dQ is added up in a fixed order (1) or as it comes (0)"
#endif
#ifndef GA_P_FEATURES
#error "GA_P_FEATURES: soft-cap, alibi and varlen are compiled in (chosen by kargs.features)"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/kern/attn_bwd/attn_bwd_out.h"

#define GA_MASK_full   0
#define GA_MASK_causal 1
#define GA_MASK_window 2

enum {
  MASK = GA_CAT(GA_MASK_, GA_P_MASK),
  WINDOW = MASK == GA_MASK_window,
  MASKED = MASK != GA_MASK_full,
  D = GA_P_D,
  BM = GA_P_ROWS,
  BOXES = BM / GA_KBWD_ROWS, /* of Q, dO and stat in a step */
  BN = 128,
  ST = GA_P_STAGES,
  DS_BUFFERS = 3,
  ORDER = GA_P_ORDER,
  WHOLE = 0,
  FEATURES = GA_P_FEATURES,
  ANEW = FEATURES && GA_P_D == 128,
  WGS = 2,
  THREADS = 128 * (WGS + 1),
  PANELS = D / 64,
  EARLY = BM == 128 ? 8 : 0,    /* of BM / 8 pairs of delta: read before dP is waited for */
  DIRECT = BM == 128 && !ORDER, /* dQ goes from registers to the workspace: shared memory has no room for it */
  BOX_BYTES = GA_KBWD_ROWS * PANEL_ROW_BYTES,
  Q_PANEL = BM * PANEL_ROW_BYTES,
  K_PANEL = BN * PANEL_ROW_BYTES,
  NS = BM / 2,
  ND = D / 2,
  NQ = BM * D / 256,
  NP = BM / 4,
  BLOCK_LINES = BM * D / 256 /* of acc_map; registers per lane: S, dP NS; dK, dV ND; P, dS NP; dQ NQ */
};
enum {
  DQ_COLS = BM == 128 ? D : D / 2
};     /* of a warpgroup's 64 rows of dQ: the other has the other rows or the other columns */
enum { /* shared memory, bytes */
       Q_BYTES = PANELS * Q_PANEL,
       K_BYTES = PANELS * K_PANEL,
       DS_BYTES = WGS * Q_PANEL,       /* BM x BN: a panel a warpgroup */
       PIECE_BYTES = 16 * DQ_COLS * 4, /* of dQ, a warp's */
       STAT_BOX_BYTES = 2 * GA_KBWD_ROWS * 4,
       STAT_BYTES = BOXES * STAT_BOX_BYTES,
       OFF_K = 0,
       OFF_V = OFF_K + K_BYTES,
       OFF_Q = OFF_V + K_BYTES,
       OFF_O = OFF_Q + ST * Q_BYTES,
       OFF_DS = OFF_O + ST * Q_BYTES,
       OFF_DQ = OFF_DS + DS_BUFFERS * DS_BYTES,
       OFF_STAT = OFF_DQ + (DIRECT ? 0 : GA_KBWD_WARPS * PIECE_BYTES),
       OFF_BAR_K = OFF_STAT + ST * STAT_BYTES,
       OFF_BAR_V = OFF_BAR_K + 8,
       OFF_BAR_DS = OFF_BAR_V + 8,
       OFF_QF = OFF_BAR_DS + 8,
       OFF_QE = OFF_QF + 8 * ST,
       OFF_OF = OFF_QE + 8 * ST,
       OFF_OE = OFF_OF + 8 * ST,
       OFF_TILE = (OFF_OE + 8 * ST + 15) / 16 * 16,
       OFF_READY = OFF_TILE + 48,
       OFF_USED = OFF_READY + 8,
       OFF_EMPTY = OFF_USED + 16,
       SMEM_BYTES = OFF_EMPTY + 8
};
static_assert(BM == 64 ? D == 64 || D == 128 : BM == 128 && D == 64,
              "a warpgroup's part of dQ is one wgmma wide and lies in one panel");
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

/* Registers per thread after launch: 504 to share. The producer's grow with what features cost. */
#if GA_P_FEATURES && GA_P_D < 128
#define REGS_PRODUCER 56
#define REGS_CONSUMER 224
#else
#define REGS_PRODUCER 24
#define REGS_CONSUMER 240
#endif

#if GA_P_D == 128 || GA_P_ROWS == 128
#define WIDTH_DQ 64
#else
#define WIDTH_DQ 32
#endif
#define S_NEW  GA_CAT5(wgmma_m64n, GA_P_ROWS, k16_, GA_P_DTYPE, _ss0)
#define S_ADD  GA_CAT5(wgmma_m64n, GA_P_ROWS, k16_, GA_P_DTYPE, _ss)
#define KV_ADD GA_CAT5(wgmma_m64n, GA_P_D, k16_, GA_P_DTYPE, _rst)
#define DQ_NEW GA_CAT5(wgmma_m64n, WIDTH_DQ, k16_, GA_P_DTYPE, _sst0)
#define DQ_ADD GA_CAT5(wgmma_m64n, WIDTH_DQ, k16_, GA_P_DTYPE, _sst)
#define PACK   GA_CAT(pack_, GA_P_DTYPE)
#define WIDEN  GA_CAT(elem_f32_of_, GA_P_DTYPE)
#define LOG2E  1.442695041f

typedef const ga_kargs_attn_bwd *args;

#include "cuda/kern/attn_bwd/attn_bwd_tiles.h"

/* ------------------------------------------------------------------ producer: one thread */
GA_DEV void load_panels(uint32_t dst, const ga_tmap *map, uint32_t bar, int row, int head, int batch, uint64_t policy) {
  GA_UNROLL for (int i = 0; i < PANELS * BOXES; i++) bulk_load_4d(dst + i * BOX_BYTES, map, bar, i / BOXES * PANEL_COLS,
                                                                  row + i % BOXES * GA_KBWD_ROWS, head, batch, policy);
}
GA_DEV int is_packed(args a) { return FEATURES && (a->features & GA_KATTN_VARLEN); }
/* 128 rows of K or V: two boxes a panel. */
GA_DEV void load_kv(uint32_t sb, uint32_t dst, const ga_tmap *map, uint32_t bar, int packed) {
  const tile t = tile_get(sb + OFF_TILE);
  mbar_arrive_expect(bar, K_BYTES);
  GA_UNROLL for (int i = 0; i < 2 * PANELS; i++)
      bulk_load_4d(dst + i * BOX_BYTES, map, bar, i / 2 * PANEL_COLS, t.start_k + t.n * BN + i % 2 * GA_KBWD_ROWS,
                   t.head, packed ? 0 : t.batch, L2_EVICT_FIRST);
}
/* The tile's record is read again in every round: registers are few here. */
GA_DEV void producer(args a, uint32_t sb) {
  tmap_prefetch(&a->k); /* without rows of Q there are no maps, and no producer */
  tmap_prefetch(&a->q);
  tmap_prefetch(&a->stat);
  tmap_prefetch(&a->v);
  tmap_prefetch(&a->dout);
  grid_dependency_wait(); /* what the consumers read and write follows from here */
  load_kv(sb, sb + OFF_K, &a->k, sb + OFF_BAR_K, is_packed(a));
  const ga_i4 start = lds_i4(sb + OFF_TILE);
  int head = start.y * a->group, m = start.w, stage = 0, parity = 1;
  GA_ROLL for (int first = 1;; first = 0) {
    const uint32_t qf = sb + OFF_QF + 8 * stage, of = sb + OFF_OF + 8 * stage;
    mbar_wait(sb + OFF_QE + 8 * stage, parity);
    const int batch = lds_i4(sb + OFF_TILE).z, row = FEATURES ? lds_i4(sb + OFF_TILE + 32).y + m * BM : m * BM;
    mbar_arrive_expect(qf, Q_BYTES + STAT_BYTES);
    load_panels(sb + OFF_Q + stage * Q_BYTES, &a->q, qf, row, head, is_packed(a) ? 0 : batch, L2_EVICT_LAST);
    GA_UNROLL for (int b = 0; b < BOXES; b++)
        bulk_load_4d(sb + OFF_STAT + stage * STAT_BYTES + b * STAT_BOX_BYTES, &a->stat, qf, m * BM + b * GA_KBWD_ROWS,
                     0, head, batch, L2_EVICT_LAST);
    if (first) load_kv(sb, sb + OFF_V, &a->v, sb + OFF_BAR_V, is_packed(a));
    mbar_wait(sb + OFF_OE + 8 * stage, parity);
    mbar_arrive_expect(of, Q_BYTES);
    load_panels(sb + OFF_O + stage * Q_BYTES, &a->dout, of, row, head, is_packed(a) ? 0 : batch, L2_EVICT_LAST);
    if (++stage == ST) {
      stage = 0;
      parity ^= 1;
    }
    if (++m < lds_i4(sb + OFF_TILE + 16).x) continue;
    m = lds_i4(sb + OFF_TILE).w;
    if (++head == (lds_i4(sb + OFF_TILE).y + 1) * a->group) break;
  }
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
    turn_wait(a->turn + block, v.before);
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
  turn_done(a->turn + block);
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
typedef struct {
  args a;
  uint32_t sb;
  int w, wl, lane, q2; /* warpgroup, warp in it, lane, 2 (lane % 4) */
  int kv;              /* this lane's first row of K, relative to the diagonal of row 0: - (rows_k - rows_q) */
  int stage, parity;   /* of Q and dO */
  int ds;              /* buffer of dS */
} warpgroup;

/* Kept in registers, or read anew where they leave no room. */
GA_DEV int lane_of(const warpgroup *c) { return ANEW ? thread_index_anew() & 31 : c->lane; }
GA_DEV int warp_of(const warpgroup *c) { return ANEW ? thread_index_anew() >> 5 & 3 : c->wl; }
GA_DEV uint32_t tile_record(const warpgroup *c) { return c->sb + OFF_TILE; }
GA_DEV int kv_of(const warpgroup *c) { return c->kv; }
GA_DEV uint32_t stat_of(const warpgroup *c) { return c->sb + OFF_STAT + c->stage * STAT_BYTES + c->q2 * 4; }
/* C = A[64 rows at `a`] B[BM rows at `b`]^T, k contiguous in both; or added to what C holds. */
GA_DEV void issue_s(float *s, uint32_t a, uint32_t b, int add) {
  const uint64_t da = desc(a), db = desc(b);
  if (add) pin_f32(s, NS);
  wgmma_fence();
  if (add)
    S_ADD(s, da, db, 1);
  else
    S_NEW(s, da, db);
  GA_UNROLL for (int k = 1; k < D / 16; k++) S_ADD(s, da + (uint64_t)((k / 4) * (K_PANEL >> 4) + 2 * (k % 4)),
                                                   db + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), 1);
  wgmma_commit();
}
/* C += P B, P in registers, B [64 rows, D]. */
GA_DEV void issue_kv(float *x, uint32_t *p, uint32_t b) {
  const uint64_t db = desc(b);
  pin_u32(p, NP);
  pin_f32(x, ND);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BM / 16; k++) KV_ADD(x, p + 4 * k, db + (uint64_t)(k * 128), 1);
  wgmma_commit();
}
/* This warpgroup's part of dS K, from the buffer written a step ago. */
GA_DEV void issue_dq(const warpgroup *c, float *x) {
  const int before = c->ds ? c->ds - 1 : DS_BUFFERS - 1;
  const uint64_t da = desc(desc_k_major(c->sb + OFF_DS + before * DS_BYTES + (BM == 128 ? c->w * BOX_BYTES : 0)));
  const uint64_t db =
      desc(desc_n_major(c->sb + OFF_K + (BM == 128 ? 0 : c->w * (D == 128 ? K_PANEL : DQ_COLS * 2)), K_PANEL));
  wgmma_fence();
  DQ_NEW(x, da, db);
  GA_UNROLL for (int k = 1; k < BN / 16; k++)
      DQ_ADD(x, da + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), db + (uint64_t)(k * 128), 1);
  wgmma_commit();
}

/* Of the query head `left` from the end of the group, in log2 units. */
GA_DEV float slope_of(const warpgroup *c, int left) {
  args a = c->a;
  return ldg_f32(a->slope + (lds_i4(c->sb + OFF_TILE).y + 1) * a->group - left) * LOG2E;
}

#include "cuda/kern/attn_bwd/attn_bwd_math.h"

/* - delta, to which the product adds dP: takes fewer registers than a subtraction behind it. */
GA_DEV void start_dp(const warpgroup *c, float *dp) {
  GA_UNROLL for (int i = 0; i < NS; i++) dp[i] = 0;
  less_rest(c, dp, 0);
}
/* Of this warp's piece in a block of dQ: by rows, then by columns. */
GA_DEV int number_of(const warpgroup *c) { return BM == 128 ? c->w * 4 + warp_of(c) : warp_of(c) * 2 + c->w; }
GA_DEV uint32_t piece_of(const warpgroup *c) { return c->sb + OFF_DQ + number_of(c) * PIECE_BYTES; }
/* dS^T of this warp (16 rows of K) to the buffer, as rows of Q. */
GA_DEV void put_ds(const warpgroup *c, const uint32_t *p) {
  const uint32_t panel = c->sb + OFF_DS + c->ds * DS_BYTES + c->w * Q_PANEL;
  const uint32_t row = (uint32_t)((lane_of(c) >> 4) * 8 + (lane_of(c) & 7)),
                 chunk = (uint32_t)(warp_of(c) * 2 + (lane_of(c) >> 3 & 1));
  const uint32_t to = panel_chunk(panel, row, chunk);
  GA_UNROLL for (int k = 0; k < BM / 16; k++)
      stmatrix_x4_trans(to + k * (16 * PANEL_ROW_BYTES), p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]);
  fence_async_smem();
  warp_sync();
  if (lane_of(c) == 0) mbar_arrive(c->sb + OFF_BAR_DS);
}
/* This warp's piece of dQ of `block` to the workspace, added as it comes. */
GA_DEV void add_dq(const warpgroup *c, const float *x, int block) {
  float *to = c->a->acc + ((int64_t)block * GA_KBWD_WARPS + number_of(c)) * (PIECE_BYTES / 4);
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
  bwd_out o = bwd_out_of(&a->dq, t.start_q + row, head, batch, col, a->cols_k, a->out_f32, a->out_add);
  o.in0 = row < t.rows_q;
  o.in1 = row + 8 < t.rows_q;
  bwd_store(&o, x, DQ_COLS, a->scale, lane_of(c) & 3);
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
  if (ORDER)
    pass_dq(c, x, block, k);
  else
    add_dq(c, x, block);
}
/* Q and dO of the step before are free. */
GA_DEV void release(const warpgroup *c) {
  const int before = c->stage ? c->stage - 1 : ST - 1;
  if (warp_of(c) || lane_of(c)) return;
  mbar_arrive(c->sb + OFF_QE + 8 * before);
  mbar_arrive(c->sb + OFF_OE + 8 * before);
}
/* dK and dV of this warp's rows; zeros where nothing was seen. */
GA_DEV void results(const warpgroup *c, const float *dk, const float *dv) {
  args a = c->a;
  const tile record = tile_get(tile_record(c)), *t = &record;
  const int row = t->n * BN + c->w * 64 + warp_of(c) * 16 + lane_of(c) / 4;
  const int batch = is_packed(a) ? 0 : t->batch;
  bwd_out o = bwd_out_of(&a->dv, t->start_k + row, t->head, batch, 0, a->cols_v, a->out_f32, a->out_add);
  o.in0 = row < t->rows_k;
  o.in1 = row + 8 < t->rows_k;
  bwd_store(&o, dv, D, 1.f, lane_of(c) & 3);
  bwd_out k = bwd_out_of(&a->dk, t->start_k + row, t->head, batch, 0, a->cols_k, a->out_f32, a->out_add);
  k.in0 = o.in0;
  k.in1 = o.in1;
  bwd_store(&k, dk, D, a->scale, lane_of(c) & 3);
}
/* The buffer that step 0 multiplies for nothing holds zeros: a branch round a product would serialise them all. */
GA_DEV void clear_ds(const warpgroup *c) {
  const uint32_t to = c->sb + OFF_DS + (DS_BUFFERS - 1) * DS_BYTES + (c->w * 128 + warp_of(c) * 32 + lane_of(c)) * 16;
  GA_UNROLL for (int i = 0; i < DS_BYTES / 4096; i++) sts_i4(to + i * 4096, 0, 0, 0, 0);
  fence_async_smem();
  bar_sync(1, 256);
}

/* Behind a product that was issued since: the step before is complete. */
GA_DEV void settle(const warpgroup *c, uint32_t *p, float *dk, int i) {
  wgmma_wait(1);
  pin_u32(p, NP);
  pin_f32(dk, ND);
  if (i) release(c);
}
GA_DEV void consume(warpgroup *c, float *dk, float *dv) {
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
  if (c->w == 1) bar_arrive(2, 256); /* warpgroup 0 starts */
  GA_ROLL for (;; i++) {
    mbar_wait(sb + OFF_QF + 8 * c->stage, (uint32_t)c->parity);
    issue_s(s, k_rows, desc_k_major(sb + OFF_Q + c->stage * Q_BYTES), 0);
    if (FEATURES) start_dp(c, dp);
    if (i == 0) mbar_wait(sb + OFF_BAR_V, 0);
    mbar_wait(sb + OFF_OF + 8 * c->stage, (uint32_t)c->parity);
    if (BM == 128 || FEATURES) settle(c, p, dk, i); /* S, dP and dS of the step before do not fit */
    issue_s(dp, v_rows, desc_k_major(sb + OFF_O + c->stage * Q_BYTES), FEATURES);
    const int early = BM == 128 && is_partial(c, m); /* at 64 rows nothing was gained */
    if (BM == 64 && !FEATURES)
      settle(c, p, dk, i);
    else
      wgmma_wait(1);
    pin_f32(s, NS);
    bar_sync(2 + c->w, 256);
    probabilities(c, s, p, m, left, BM == 128 ? early : is_partial(c, m));
    bar_arrive(3 - c->w, 256);
    issue_kv(dv, p, desc_n_major(sb + OFF_O + c->stage * Q_BYTES, Q_PANEL));
    if (i) mbar_wait(sb + OFF_BAR_DS, (uint32_t)(i - 1) & 1u);
    issue_dq(c, s);
    float delta[EARLY ? 2 * EARLY : 1];
    read_delta(c, delta, 0, EARLY);
    wgmma_wait(1);
    pin_f32(dp, NS);
    pin_u32(p, NP);
    pin_f32(dv, ND);
    less_delta(dp, delta, EARLY);
    if (!FEATURES) less_rest(c, dp, EARLY);
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
  issue_dq(c, s);
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
  if (t->m_lo < t->m_hi) consume(&c, dk, dv);
  results(&c, dk, dv);
  if (!ORDER && !DIRECT && lane == 0) bulk_wait_read(); /* shared memory must outlive the last piece's reads */
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
    mbar_init(sb + OFF_BAR_V, 1);
    mbar_init(sb + OFF_BAR_DS, GA_KBWD_WARPS);
    for (int i = 0; i < ST; i++) {
      mbar_init(sb + OFF_QF + 8 * i, 1);
      mbar_init(sb + OFF_QE + 8 * i, WGS);
      mbar_init(sb + OFF_OF + 8 * i, 1);
      mbar_init(sb + OFF_OE + 8 * i, WGS);
    }
    if (ORDER) {
      mbar_init(sb + OFF_READY, 1);
      mbar_init(sb + OFF_USED, GA_KBWD_WARPS);
      mbar_init(sb + OFF_USED + 8, GA_KBWD_WARPS);
      mbar_init(sb + OFF_EMPTY, 1);
    }
    mbar_init_fence();
    const tile t = tile_of(&a, ORDER ? take_ticket(&a) : block_index());
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
    if (ORDER && warp > 4 * WGS && warp < 4 * WGS + 3 && works) writer(&a, sb, warp - 4 * WGS - 1);
  }
}
