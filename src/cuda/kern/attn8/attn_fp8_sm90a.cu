/* KERNEL    attn_fp8, sm90a, warp-specialised: 1 producer warp + BM/64 consumer warpgroups of 64 rows
 * COMPUTES  per (batch, head, BM rows of Q):  S = sq Q (sk K)^T * scale, masked;  O = softmax(S) (sv V);  lse = log sum exp S.
 *           Q head h reads kv head h / group. The causal mask is aligned to the bottom right.
 * CONTRACT  e4m3 Q, K, columns contiguous, strides multiples of 16 bytes; head dim = D. V transposed and permuted by
 *           attn_quant (ga/attn_quant.h): rows of keys, padded to whole blocks of 128; what lies behind the last key is
 *           finite. Scales are positive and finite. o aliases nothing; scale > 0. Writes o, lse; leaves counter zeroed.
 *           A row that sees no column: o = 0, lse = -inf. An e4m3 NaN in V makes NaN of its column (GA_KERNEL_V_FINITE).
 * DATA      gmem -TMA-> smem (2 x Q; K, V rings); Q x K smem -wgmma-> S regs -exp2, e4m3-> P regs;
 *           P regs x V smem -wgmma-> part regs -f32-> O regs -> gmem
 * SOFTMAX   Running maximum: a row's largest weight so far is 2^OFFSET, which e4m3 has exactly, so that a row of one large weight
 *           is as exact as V. The rows' sums are of unrounded weights.
 * SUMS      wgmma adds e4m3 products with 13 fraction bits (docs/EMULATOR.md): a block's P V starts from zero and is added
 *           to O in f32, with the block's scale of V. Where the two 64-key halves of a block have scales of their own, the
 *           smaller one is folded into the exponents of its weights.
 * BARRIERS  name     arrivals    waiter       orders
 *           q_full   1+tx        consumers    TMA write of Q[b], and the tile record -> wgmma, ld.shared
 *           q_empty  4/wg        producer     wgmma reads of Q[b], reads of the records before its own -> their next writes
 *           k_full   1+tx        consumers    TMA write of K[s], and the block's scales -> wgmma read, ld.shared
 *           k_empty  4/wg        producer     reads of K[s] and of the scales -> next TMA write
 *           v_full   1+tx        consumers    TMA write of V[s] -> wgmma read
 *           v_empty  1/wg        producer     wgmma reads of V[s] -> next TMA write
 *           turn w   named 1+w   warpgroup w  its turn to issue products (TURN 1) or to take exponentials (TURN 2)
 * BUDGET    threads 128 + 2 BM, registers 40 + 232 (2 warpgroups), 32 + 160 (3), 1 block per SM; smem: OFF_*
 * MEASURED  docs/perf/attention-fp8.md
 * REF       Shah et al. 2024 (fp8, block scales, incoherent processing); Micikevicius et al. 2022 (e4m3)
 */
#include "core/kargs_attn_fp8.h"
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_lse.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of o: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of q, k, v, o: 64, 128, 256"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: full or causal"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of Q per tile: 64 per consumer warpgroup"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: stages of the K ring and of the V ring"
#endif
#ifndef GA_P_TURN
#error "GA_P_TURN: warpgroups take turns at: 0 nothing, 1 issuing products, 2 exponentials"
#endif
#ifndef GA_P_QUEUE
#error "GA_P_QUEUE: P V has registers of its own and the next S is issued behind it (1), or it uses those of S, in parts of 128 columns (0)"
#endif

#define GA_MASK_full   0
#define GA_MASK_causal 1

enum {
  MASKED = GA_CAT(GA_MASK_, GA_P_MASK) == GA_MASK_causal,
  D = GA_P_D,
  DV = GA_P_D,
  BM = GA_P_BM,
  BN = 128,
  ST = GA_P_STAGES,
  TURN = GA_P_TURN,
  QUEUE = GA_P_QUEUE,
  WGS = BM / 64,
  THREADS = 128 * (WGS + 1),
  /* of attn_tiles.h and attn_results.h, which know more */
  WINDOW = 0,
  FEATURES = 0,
  CARRY = 0,
  PAGES = 0,
  PACKS = 0,
  RESIDENT = 0,
  STORE_REG = 1,
  ROW_BYTES = D < 128 ? D : 128, /* of a panel of Q or K */
  PANELS_K = D / ROW_BYTES,
  K_PANEL = BN * ROW_BYTES,
  Q_PANEL = 64 * ROW_BYTES,
  PANELS_V = 1,
  O_PANEL = 0,
  PART = DV > 128 ? 128 : DV, /* columns of a part of P V */
  NS = BN / 2,
  NO = DV / 2,
  NPART = PART / 2,
  NP = BN / 8 /* registers of S, O, a part, P per lane */
};
enum { /* shared memory, bytes */
       Q_BYTES = PANELS_K * Q_PANEL, /* of a warpgroup */
       K_BYTES = PANELS_K * K_PANEL,
       V_BYTES = DV * BN,
       O_BYTES = 0,
       OFF_Q = 0,
       OFF_K = OFF_Q + 2 * WGS * Q_BYTES,
       OFF_V = OFF_K + ST * K_BYTES,
       OFF_O = OFF_V + ST * V_BYTES,
       OFF_QF = OFF_O,
       OFF_QE = OFF_QF + 16,
       OFF_KF = OFF_QE + 16,
       OFF_KE = OFF_KF + 8 * ST,
       OFF_VF = OFF_KE + 8 * ST,
       OFF_VE = OFF_VF + 8 * ST,
       OFF_SCALE = (OFF_VE + 8 * ST + 15) / 16 * 16,
       SCALE_BYTES = 32,
       OFF_TILE = OFF_SCALE + ST * SCALE_BYTES,
       TILE_BYTES = 64, /* and Q's scales */
       TILE_SLOTS = 4,
       SMEM_BYTES = OFF_TILE + TILE_SLOTS * TILE_BYTES
};
static_assert(BM % 64 == 0 && WGS >= 2 && WGS <= 3, "one warpgroup per 64 rows; registers end at three");
static_assert(QUEUE ? PART == DV : PART / 2 <= BN / 2, "a part of P V fits its registers");
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
#ifdef GA_P_SMEM
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");
#endif

/* Registers per thread after launch: 504 (two consumers) or 512 (three) to share. */
#if GA_P_BM == 192
#define REGS_PRODUCER 32
#define REGS_CONSUMER 160
#else
#define REGS_PRODUCER 40
#define REGS_CONSUMER 232
#endif

#define GA_PART_64  64
#define GA_PART_128 128
#define GA_PART_256 128
#define QK          wgmma_m64n128k32_e4m3_ss
#define PV          GA_CAT3(wgmma_m64n, GA_CAT(GA_PART_, GA_P_D), k32_e4m3_rs)
#define PACK        GA_CAT(pack_, GA_P_DTYPE)

#define OFFSET  8.f          /* doublings from 1 up to a row's largest weight; e4m3 ends at 448 */
#define LEAST   -60.f        /* doublings that a half's scale may lie below the other's; further down nothing is left of it */
#define LOG2E   1.442695041f /* log2 e */

typedef const ga_kargs_attn_fwd *args;

#include "cuda/kern/attn/attn_tiles.h"

GA_DEV const ga_kargs_attn_fp8 *fp8_args(args a) {
  return (const ga_kargs_attn_fp8 *)a; /* fwd is its first member */
}
/* wgmma descriptor of a tile of rows of ROW_BYTES: see desc of smem.h; 64-byte rows have the 64-byte swizzle, eight of them 512 bytes. */
GA_DEV uint64_t desc_rows(uint32_t low) {
  return ROW_BYTES == 128 ? desc(low) : (uint64_t)low | (uint64_t)(2u << 30 | 512 >> 4) << 32;
}

/* ------------------------------------------------------------------ producer: one thread */
typedef struct {
  args a;
  uint32_t sb;
  uint32_t k;    /* blocks of K loaded; V's follow from it */
  int tiles;     /* records written */
} loader;

/* The scale of the 64 tokens that are the i-th of their sequence. */
GA_DEV float scale_of(const ga_kattn_scales *s, int batch, int head, int i) {
  return ldg_f32(s->data + batch * s->batch + head * s->head + imin(i >> s->shift, s->last) * s->block);
}
/* What the consumers of block n need of its scales, by halves of 64 keys: K's; doublings that the weights are made smaller by
 * for the scale of V, not positive; the inverse of that; V's. */
typedef struct {
  float k[2], down[2], up[2], v;
} block_scales;
GA_DEV block_scales load_scales(const loader *p, const work *t, int n) {
  const ga_kargs_attn_fp8 *a = fp8_args(p->a);
  block_scales x;
  float v[2];
  GA_UNROLL for (int h = 0; h < 2; h++) {
    x.k[h] = scale_of(&a->scale_k, t->batch, t->head_k, 2 * n + h);
    v[h] = scale_of(&a->scale_v, t->batch, t->head_k, 2 * n + h);
  }
  x.v = fmaxf(v[0], v[1]);
  GA_UNROLL for (int h = 0; h < 2; h++) {
    x.down[h] = v[h] == x.v ? 0.f : fmaxf(lg2(v[h]) - lg2(x.v), LEAST);
    x.up[h] = ex2(-x.down[h]);
  }
  return x;
}
GA_DEV void load_k(loader *p, const work *t, int n) {
  const uint32_t stage = ring_stage(p->k, ST), bar = p->sb + OFF_KF + 8 * stage, dst = p->sb + OFF_K + stage * K_BYTES;
  const block_scales x = load_scales(p, t, n); /* on its way during the wait */
  const float first[4] = {x.k[0], x.k[1], x.down[0], x.down[1]}, second[4] = {x.up[0], x.up[1], x.v, 0.f};
  mbar_wait(p->sb + OFF_KE + 8 * stage, ring_empty_parity(p->k, ST));
  sts_f4(p->sb + OFF_SCALE + stage * SCALE_BYTES, first);
  sts_f4(p->sb + OFF_SCALE + stage * SCALE_BYTES + 16, second);
  mbar_arrive_expect(bar, K_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(dst + i * K_PANEL, &p->a->k, bar, i * ROW_BYTES, n * BN, t->head_k, t->batch, L2_EVICT_LAST);
  p->k++;
}
GA_DEV void load_v(loader *p, const work *t, int n) /* after load_k of the block before it, if there is one */
{
  const uint32_t r = p->k - 1 - (n > t->n_lo), stage = ring_stage(r, ST), bar = p->sb + OFF_VF + 8 * stage;
  mbar_wait(p->sb + OFF_VE + 8 * stage, ring_empty_parity(r, ST));
  mbar_arrive_expect(bar, V_BYTES);
  bulk_load_4d(p->sb + OFF_V + stage * V_BYTES, &p->a->v, bar, n * BN, 0, t->head_k, t->batch, L2_EVICT_LAST);
}
/* The record of the next tile goes to slot tiles % 4 before the wait for its Q buffer: consumers are at most two edges behind. */
GA_DEV uint32_t next_slot(const loader *p) {
  return p->sb + OFF_TILE + (p->tiles % TILE_SLOTS) * TILE_BYTES;
}
/* The tile's Q into the buffer that the tile before the last one had. Coordinates come from the record: they would cost registers. */
GA_DEV void load_q(loader *p, const work *t) {
  const ga_i4 x = lds_i4(next_slot(p));
  const uint32_t buffer = (uint32_t)p->tiles & 1, bar = p->sb + OFF_QF + 8 * buffer;
  mbar_wait(p->sb + OFF_QE + 8 * buffer, ~(p->tiles >> 1) & 1);
  if (t->n_hi < 0) {
    mbar_arrive(bar);
  } else {
    float scale[4] = {};
    GA_UNROLL for (int w = 0; w < WGS; w++) scale[w] = scale_of(&fp8_args(p->a)->scale_q, t->batch, x.y, x.x / 64 + w);
    sts_f4(next_slot(p) + 48, scale);
    mbar_arrive_expect(bar, WGS * Q_BYTES);
    GA_ROLL for (int w = 0; w < WGS; w++) {
      const uint32_t dst = p->sb + OFF_Q + (buffer * WGS + (uint32_t)w) * Q_BYTES;
      GA_UNROLL for (int i = 0; i < PANELS_K; i++)
          bulk_load_4d(dst + i * Q_PANEL, &p->a->q, bar, i * ROW_BYTES, x.x + w * 64, x.y, t->batch, L2_EVICT_FIRST);
    }
  }
  p->tiles++;
}
/* Loads in the order of need: K runs one block ahead of V, also into the next tile, and Q a tile ahead. */
GA_DEV void producer(args a, uint32_t sb) {
  loader p = {a, sb, 0, 0};
  int i = block_index() - block_count(), sub = 0;
  grid_dependency_wait(); /* the inputs may be the previous kernel's outputs; everything the consumers do follows from here */
  work t = tile_next(a, &i, &sub, next_slot(&p), 1);
  load_q(&p, &t);
  if (t.n_hi >= 0) load_k(&p, &t, t.n_hi);
  while (t.n_hi >= 0) {
    int n = t.n_hi;
    if (n > t.n_lo) load_k(&p, &t, n - 1);
    load_v(&p, &t, n);
    const work next = tile_next(a, &i, &sub, next_slot(&p), 0);
    load_q(&p, &next);
    GA_ROLL for (n--; n >= t.n_lo; n--) {
      if (n > t.n_lo) load_k(&p, &t, n - 1);
      load_v(&p, &t, n);
    }
    if (next.n_hi >= 0) load_k(&p, &next, next.n_hi);
    t = next;
  }
  if (MASKED && atomic_add_i32(a->counter + 1, 1) == block_count() - 1) { /* the last block out resets the order */
    stg_i32(a->counter, 0);
    stg_i32(a->counter + 1, 0);
    fence_device();
  }
}

/* ------------------------------------------------------------------ consumers */
typedef struct {
  args a;
  uint32_t sb;
  int w, wl, lane, g, q2;          /* warpgroup, warp in it, lane, lane / 4, 2 (lane % 4) */
  uint32_t desc_q, desc_k, desc_v; /* wgmma descriptors (low words) of Q's buffer and stage 0 */
  uint32_t stage_k, parity_k;      /* the current K block's place in its ring; V's is one behind */
  int tiles;                       /* records read */
  int n, mask_hi;                  /* block whose S is next, and the current tile's limit */
  float factor;                    /* from the tile's Q K to log2 units, but for K's scale */
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
/* Takes the next tile: its limits and scales. */
GA_DEV void next_tile(warpgroup *c) {
  const uint32_t buffer = (uint32_t)c->tiles & 1;
  mbar_wait(c->sb + OFF_QF + 8 * buffer, c->tiles >> 1 & 1);
  const uint32_t slot = tile_slot(c, 0);
  const ga_i4 x = lds_i4(slot), y = lds_i4(slot + 16);
  c->tiles++;
  c->n = warp_uniform(x.w);
  c->mask_hi = MASKED ? warp_uniform(y.y) : 0;
  c->desc_q = desc_k_major(c->sb + OFF_Q + (buffer * WGS + (uint32_t)c->w) * Q_BYTES);
  if (c->n < 0) return;
  float scale[4];
  lds_f4(scale, slot + 48);
  c->factor = c->a->scale_log2 * (c->w == 0 ? scale[0] : c->w == 1 ? scale[1] : scale[2]);
}
GA_DEV uint32_t stage_v(const warpgroup *c) {
  return c->stage_k ? c->stage_k - 1 : ST - 1;
}
GA_DEV void wait_k(const warpgroup *c) {
  mbar_wait(c->sb + OFF_KF + 8 * c->stage_k, c->parity_k);
}
GA_DEV void wait_v(const warpgroup *c) {
  mbar_wait(c->sb + OFF_VF + 8 * stage_v(c), c->parity_k ^ (c->stage_k == 0));
}
/* S is complete and the scales are read: K may go, and after the tile's last block its Q. */
GA_DEV void release_k(const warpgroup *c) {
  warp_sync();
  if (c->lane) return;
  mbar_arrive(c->sb + OFF_KE + 8 * c->stage_k);
  if (c->n == 0) mbar_arrive(c->sb + OFF_QE + 8 * ((c->tiles - 1) & 1));
}
GA_DEV void release_v(const warpgroup *c) {
  if (c->lane == 0 && c->wl == 0) mbar_arrive(c->sb + OFF_VE + 8 * stage_v(c));
}
/* The block whose S was computed becomes the one whose PV is next. */
GA_DEV void advance(warpgroup *c) {
  c->stage_k = c->stage_k + 1 == ST ? 0 : c->stage_k + 1;
  c->parity_k ^= c->stage_k == 0;
}
/* Every begin is matched by one end of the previous warpgroup, never two. */
GA_DEV void turn_begin(const warpgroup *c, int what) {
  if (TURN == what) bar_sync(1 + c->w, 256);
}
GA_DEV void turn_end(const warpgroup *c, int what) {
  if (TURN == what) bar_arrive(1 + (c->w + 1) % WGS, 256);
}

/* S = Q K^T of the current K stage. */
GA_DEV void issue_qk(const warpgroup *c, float *s) {
  const uint64_t dk = desc_rows(c->desc_k + c->stage_k * (K_BYTES >> 4)), dq = desc_rows(c->desc_q);
  enum { STEPS = ROW_BYTES / 32 }; /* of k in a panel */
  pin_f32(s, NS);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < D / 32; k++)
      QK(s, dq + (uint64_t)((k / STEPS) * (Q_PANEL >> 4) + 2 * (k % STEPS)), dk + (uint64_t)((k / STEPS) * (K_PANEL >> 4) + 2 * (k % STEPS)), k != 0);
  wgmma_commit();
}
/* Columns column .. column + PART of P V of the current V stage, from zero. */
GA_DEV void issue_pv(const warpgroup *c, float *part, uint32_t *p, int column) {
  const uint64_t dv = desc(c->desc_v + stage_v(c) * (V_BYTES >> 4) + (uint32_t)column * (BN >> 4));
  pin_u32(p, NP);
  pin_f32(part, NPART);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BN / 32; k++) PV(part, p + 4 * k, dv + (uint64_t)(2 * k), k != 0);
  wgmma_commit();
}
/* O += scale * part, of the columns that o begins with. */
GA_DEV void add_part(float *o, float *part, float scale) {
  pin_f32(part, NPART);
  GA_UNROLL for (int i = 0; i < NPART; i++) o[i] = fmaf(part[i], scale, o[i]);
}

GA_DEV void apply_mask(const warpgroup *c, float *s) {
  const ga_i4 t = lds_i4(tile_slot(c, 1) + 32); /* rows_q, rows_k, start_q, column */
  const int base = c->n * BN, row = t.w + c->w * 64 + c->wl * 16 + c->g - base, last = t.y - 1 - base;
  int hi0 = last, hi1 = last;
  if (MASKED) {
    hi0 = imin(hi0, row);
    hi1 = imin(hi1, row + 8);
  }
  if (MASKED || last < BN - 1) tile_mask_above(s, BN, hi0, hi1, c->q2);
}
/* Reference of the exponent from m (log2 units); a row that has seen nothing yet gets 0, so that 2^(-inf - 0) = 0. */
GA_DEV void reference(const float *m, float *ref) {
  ref[0] = m[0] == GA_NEG_INF ? 0.f : m[0];
  ref[1] = m[1] == GA_NEG_INF ? 0.f : m[1];
}
/* Of the current K stage. */
GA_DEV block_scales scales_of(const warpgroup *c) {
  float x[4], y[4];
  lds_f4(x, c->sb + OFF_SCALE + c->stage_k * SCALE_BYTES);
  lds_f4(y, c->sb + OFF_SCALE + c->stage_k * SCALE_BYTES + 16);
  const block_scales s = {{x[0], x[1]}, {x[2], x[3]}, {y[0], y[1]}, y[2]};
  return s;
}
/* References from the block's maxima, where those are larger; l and O follow. f: from S to log2 units, by halves. */
GA_DEV void raise_reference(const float *s, const float *f, float *m, float *l, float *o) {
  float most[2][2], factor[2];
  GA_UNROLL for (int h = 0; h < 2; h++) tile_row_max(s + h * (NS / 2), BN / 2, most[h]);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = fmaxf(m[i], fmaxf(most[0][i] * f[0], most[1][i] * f[1]) - OFFSET);
    factor[i] = now == GA_NEG_INF ? 1.f : ex2(m[i] - now);
    m[i] = now;
    l[i] *= factor[i];
  }
  tile_scale_rows(o, DV, factor);
}
/* P of the block, in the order of operand A: byte 4 q + 2 b + e of 16-byte group h of a row is the weight of key
 * 16 h + 8 b + 2 q + e, as V has them. sum: this lane's part of the row sums. */
GA_DEV void weights(const float *s, const float *f, const block_scales *x, const float *ref, uint32_t *p, float *sum) {
  sum[0] = sum[1] = 0.f;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const float r0 = ref[0] - x->down[h], r1 = ref[1] - x->down[h];
    float a0 = 0, a1 = 0, b0 = 0, b1 = 0;
    GA_UNROLL for (int k = 2 * h; k < 2 * h + 2; k++) {
      float e[16];
      GA_UNROLL for (int j = 0; j < 4; j++) {
        e[4 * j] = ex2(fmaf(s[16 * k + 4 * j], f[h], -r0));
        e[4 * j + 1] = ex2(fmaf(s[16 * k + 4 * j + 1], f[h], -r0));
        e[4 * j + 2] = ex2(fmaf(s[16 * k + 4 * j + 2], f[h], -r1));
        e[4 * j + 3] = ex2(fmaf(s[16 * k + 4 * j + 3], f[h], -r1));
        a0 += e[4 * j];
        a1 += e[4 * j + 1];
        b0 += e[4 * j + 2];
        b1 += e[4 * j + 3];
      }
      GA_UNROLL for (int j = 0; j < 2; j++) {
        p[4 * k + 2 * j] = pack4_e4m3(e[8 * j], e[8 * j + 1], e[8 * j + 4], e[8 * j + 5]);
        p[4 * k + 2 * j + 1] = pack4_e4m3(e[8 * j + 2], e[8 * j + 3], e[8 * j + 6], e[8 * j + 7]);
      }
    }
    sum[0] = fmaf(a0 + a1, x->up[h], sum[0]);
    sum[1] = fmaf(b0 + b1, x->up[h], sum[1]);
  }
}
/* S to P, m, l and O. first: of its tile; O is 0 then. */
GA_DEV void softmax(const warpgroup *c, float *s, const block_scales *x, uint32_t *p, float *m, float *l, float *o, int first) {
  const float f[2] = {c->factor * x->k[0], c->factor * x->k[1]};
  float sum[2], ref[2];
  if (first) {
    m[0] = m[1] = GA_NEG_INF;
    l[0] = l[1] = 0.f;
  }
  if (MASKED ? first || c->n >= c->mask_hi : first) apply_mask(c, s);
  raise_reference(s, f, m, l, o);
  reference(m, ref);
  weights(s, f, x, ref, p, sum);
  l[0] += sum[0];
  l[1] += sum[1];
}

#include "cuda/kern/attn/attn_packed.h"
#include "cuda/kern/attn/attn_results.h"

/* O (+)= P V of the current V stage. s: registers of the next S, free when they are those of a part too. */
GA_DEV void values(const warpgroup *c, float *o, float *part, uint32_t *p, float scale) {
  GA_UNROLL for (int i = 0; i < DV / PART; i++) {
    issue_pv(c, part, p, i * PART);
    wgmma_wait(0);
    pin_u32(p, NP);
    add_part(o + i * NPART, part, scale);
  }
  release_v(c);
}
/* The first block of the stream: S, softmax, P. Returns its scale of V. */
GA_DEV float start_stream(warpgroup *c, float *s, uint32_t *p, float *m, float *l, float *o) {
  tile_fill(o, DV, 0.f);
  wait_k(c);
  issue_qk(c, s);
  const block_scales x = scales_of(c);
  wgmma_wait(0);
  pin_f32(s, NS);
  release_k(c);
  softmax(c, s, &x, p, m, l, o, 1);
  advance(c);
  return x.v;
}
/* One flat stream of blocks across tiles: each turn issues O += P V of the current block and S of the next (of this tile or of
 * the next one). The other warpgroup's products run under a warpgroup's softmax. */
GA_DEV void consume(warpgroup *c) {
  float s[NS], part[NPART], o[NO], m[2], l[2];
  float *t = QUEUE ? part : s;
  uint32_t p[NP];
  next_tile(c);
  if (c->n < 0) return;
  float v = start_stream(c, s, p, m, l, o);
  GA_ROLL for (;;) {
    const int edge = c->n == 0;
    if (edge)
      next_tile(c);
    else
      c->n--;
    if (c->n < 0) break;
    wait_v(c);
    wait_k(c);
    turn_begin(c, 1);
    if (QUEUE) {
      issue_pv(c, t, p, 0);
      issue_qk(c, s);
      turn_end(c, 1);
      wgmma_wait(1);
      pin_u32(p, NP);
      add_part(o, t, v);
      release_v(c);
    } else {
      values(c, o, t, p, v);
      issue_qk(c, s);
      turn_end(c, 1);
    }
    if (edge) {
      epilogue(c, o, m, l, 2);
      tile_fill(o, DV, 0.f);
    }
    const block_scales x = scales_of(c);
    wgmma_wait(0);
    pin_f32(s, NS);
    release_k(c);
    turn_begin(c, 2);
    softmax(c, s, &x, p, m, l, o, edge);
    turn_end(c, 2);
    v = x.v;
    advance(c);
  }
  wait_v(c);
  values(c, o, t, p, v);
  epilogue(c, o, m, l, 2);
}
GA_DEV void consumer(args a, uint32_t sb, int wg, int warp, int lane) {
  warpgroup c = {};
  c.a = a, c.sb = sb, c.w = wg, c.wl = warp & 3, c.lane = lane, c.g = lane >> 2, c.q2 = (lane & 3) * 2;
  c.desc_k = desc_k_major(sb + OFF_K);
  c.desc_v = desc_k_major(sb + OFF_V);
  if (TURN && c.w == WGS - 1) bar_arrive(1, 256); /* warpgroup 0 starts */
  consume(&c);
}

/* ------------------------------------------------------------------ the kernel */
GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fp8 k) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  args a = &k.fwd;
  if (thread_index() == 0) {
    tmap_prefetch(&a->q);
    tmap_prefetch(&a->k);
    tmap_prefetch(&a->v);
    for (int i = 0; i < 2; i++) {
      mbar_init(sb + OFF_QF + 8 * i, 1);
      mbar_init(sb + OFF_QE + 8 * i, 4 * WGS);
    }
    for (int i = 0; i < ST; i++) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_KE + 8 * i, 4 * WGS);
      mbar_init(sb + OFF_VF + 8 * i, 1);
      mbar_init(sb + OFF_VE + 8 * i, WGS);
    }
    mbar_init_fence();
  }
  block_sync();
  grid_launch_dependents();
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    consumer(a, sb, wg, warp, lane);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    if (warp == 4 * WGS && lane == 0) producer(a, sb);
  }
}
