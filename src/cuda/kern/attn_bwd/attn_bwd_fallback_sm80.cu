/* KERNEL    attn_bwd, any legal shape, sm_80 and newer: warp-level products, copies by cp.async
 * COMPUTES  dK and dV of OWN rows of K and V (blocks of threads 0 .. blocks_k - 1), dQ of OWN rows of Q (the others).
 *           Own rows X1, X2 stay in shared memory; OTHER rows Y1, Y2 of the other side are streamed. X1, X2 = K, V and
 *           Y1, Y2 = Q, dO, or the other way round. S = X1 Y1^T, P = e^(logit - lse), dP = X2 Y2^T,
 *           dS = P (dP - delta) d logit; dK or dQ += dS Y1, dV += P Y2. Seven products instead of five avoid sums
 *           between blocks, so that the bits are the same in every run
 * CONTRACT  16-bit inputs; head dim and value dim 1 to D; any strides; every mask and feature by arguments; any scale;
 *           attn_bwd_pre has run (cuda/kern/attn_bwd/attn_bwd_args.h). `wide`: 16-byte copies, else element by element
 * DATA      gmem -cp.async-> smem -ldmatrix-> fragments -mma.sync-> S, dP -> P, dS -> smem as operand A's fragments
 *           -mma.sync-> gmem. A warp has 16 own rows, shared with one other warp: half of the other rows in S and dP,
 *           half of the columns in the products after them
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     per block of other rows: cp.async of it -> its reads; writes of P and dS -> their
 *                                    reads; reads of both -> the next block's writes
 * BUDGET    32 WARPS threads, registers for BLOCKS blocks a multiprocessor, whose products cover each other's copies
 * MEASURED  docs/log/attention-bwd.md
 * REF       Dao 2023 (arXiv 2307.08691)
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/chunk.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"
#include "cuda/kern/attn_bwd/attn_bwd_pairs.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: columns of Q, K, V in shared memory: 64, 128, 256"
#endif
#ifndef GA_P_OWN
#error "GA_P_OWN: rows of a tile that stays"
#endif
#ifndef GA_P_OTHER
#error "GA_P_OTHER: rows of a step"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: two for each 16 own rows"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor that registers must suffice for"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  D = GA_P_D,
  OTHER = GA_P_OTHER,
  THREADS = 32 * GA_P_WARPS,
  BANDS = OWN / 16,  /* of 16 own rows */
  WIDTH = OTHER / 2, /* other rows of a warp in S and dP */
  HALF = D / 2,      /* columns of a warp in dK, dV, dQ */
  NS = WIDTH / 2,
  NO = HALF / 2, /* registers of S, dP; of a gradient */
  CHUNKS = D / 8,
  OWN_PANEL = OWN * PANEL_ROW_BYTES,
  OTHER_PANEL = OTHER * PANEL_ROW_BYTES,
  FRAGMENTS = OWN * OTHER * 2, /* bytes of P or dS */
  OFF_X1 = 0,
  OFF_X2 = OFF_X1 + OWN * D * 2,
  OFF_Y1 = OFF_X2 + OWN * D * 2,
  OFF_Y2 = OFF_Y1 + OTHER * D * 2,
  OFF_P = OFF_Y2 + OTHER * D * 2,
  OFF_DS = OFF_P + FRAGMENTS,
  SMEM_BYTES = OFF_DS + FRAGMENTS
};
static_assert(D % 64 == 0 && OTHER % 32 == 0 && GA_P_WARPS == 2 * BANDS, "panels of 64 columns, products of 16 rows");
static_assert(THREADS % CHUNKS == 0 && OWN % (THREADS / CHUNKS) == 0 && OTHER % (THREADS / CHUNKS) == 0,
              "a thread copies one column of chunks");
static_assert(SMEM_BYTES <= 99 * 1024, "shared memory of a block on sm_86 and sm_89");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define MMA   GA_CAT(mma_m16n8k16_, GA_P_DTYPE)
#define PACK  GA_CAT(pack_, GA_P_DTYPE)
#define PUT   GA_CAT(elem_put_, GA_P_DTYPE)
#define LOG2E 1.442695041f /* log2 e */

/* ------------------------------------------------------------------ global to shared memory */
/* Rows row0 .. row0 + n - 1 of a head; those that do not exist become zero: a product with 0 must be 0. */
GA_DEV void load_rows(const tile *t, uint32_t to, int n, const ga_kbwd_tensor *x, int head, int of_q, int row0,
                      int cols) {
  enum { STEP = THREADS / CHUNKS };
  args a = t->a;
  const int chunk = thread_index() % CHUNKS, rows = of_q ? t->rows_q : t->rows_k;
  const uint32_t panel = to + (uint32_t)(chunk / 8 * n * PANEL_ROW_BYTES);
  GA_ROLL for (int r = thread_index() / CHUNKS; r < n; r += STEP) {
    const int in = row0 + r < rows;
    const int64_t at = in ? row_at(t, x, head, of_q, row0 + r) : 0;
    chunk_copy(panel_chunk(panel, (uint32_t)r, (uint32_t)(chunk % 8)), x->base, at, 8 * chunk, cols, in, a->vec16);
  }
}
/* Q and dO, or K and V. */
GA_DEV void load_pair(const tile *t, uint32_t to1, uint32_t to2, int n, int head, int of_q, int row0) {
  args a = t->a;
  load_rows(t, to1, n, of_q ? &a->q : &a->k, head, of_q, row0, a->cols_k);
  load_rows(t, to2, n, of_q ? &a->dout : &a->v, head, of_q, row0, a->cols_v);
  cp_async_commit();
}

/* ------------------------------------------------------------------ products */
GA_DEV int band(const tile *t) { return t->warp % BANDS; }
GA_DEV int side(const tile *t) { return t->warp / BANDS; }

/* s = X Y^T of the warp's 16 own rows and its half of the other rows. */
GA_DEV void scores(const tile *t, uint32_t x, uint32_t y, float *s) {
  const uint32_t row = (uint32_t)(band(t) * 16 + (t->lane & 15)), half = (uint32_t)(t->lane >> 4);
  const uint32_t other = (uint32_t)(side(t) * WIDTH + (t->lane & 7) + (t->lane >> 4 << 3)),
                 other_half = (uint32_t)(t->lane >> 3 & 1);
  GA_UNROLL for (int i = 0; i < NS; i++) s[i] = 0.f;
  GA_UNROLL for (int k = 0; k < D / 16; k++) {
    uint32_t p[4], q[4];
    ldmatrix_x4(p, panel_chunk(x + (uint32_t)(k / 4 * OWN_PANEL), row, (uint32_t)(k % 4 * 2) + half));
    GA_UNROLL for (int j = 0; j < WIDTH / 16; j++) {
      ldmatrix_x4(q, panel_chunk(y + (uint32_t)(k / 4 * OTHER_PANEL), (uint32_t)(16 * j) + other,
                                 (uint32_t)(k % 4 * 2) + other_half));
      MMA(s + 8 * j, p, q[0], q[1]);
      MMA(s + 8 * j + 4, p, q[2], q[3]);
    }
  }
}
/* 16 own x 16 other rows of P or dS, as every lane wants them of operand A. */
GA_DEV uint32_t fragment(const tile *t, int off, int k) {
  return smem_base() + (uint32_t)(off + (band(t) * (OTHER / 16) + k) * 512 + t->lane * 16);
}
GA_DEV void put_fragments(const tile *t, int off, const float *s) {
  GA_UNROLL for (int k = 0; k < WIDTH / 16; k++) {
    const float *x = s + 8 * k;
    sts_i4(fragment(t, off, side(t) * (WIDTH / 16) + k), (int)PACK(x[0], x[1]), (int)PACK(x[2], x[3]),
           (int)PACK(x[4], x[5]), (int)PACK(x[6], x[7]));
  }
}
/* x += (P or dS) Y, the warp's half of the columns. */
GA_DEV void add_product(const tile *t, int off, uint32_t y, float *x) {
  const uint32_t row = (uint32_t)(t->lane & 15), half = (uint32_t)(t->lane >> 4),
                 first = (uint32_t)(side(t) * (HALF / 8));
  GA_UNROLL for (int k = 0; k < OTHER / 16; k++) {
    const ga_i4 f = lds_i4(fragment(t, off, k));
    const uint32_t p[4] = {(uint32_t)f.x, (uint32_t)f.y, (uint32_t)f.z, (uint32_t)f.w};
    GA_UNROLL for (int j = 0; j < HALF / 16; j++) {
      uint32_t q[4];
      const uint32_t chunk = first + (uint32_t)(2 * j) + half;
      ldmatrix_x4_trans(q, panel_chunk(y + chunk / 8 * OTHER_PANEL, (uint32_t)(16 * k) + row, chunk % 8));
      MMA(x + 8 * j, p, q[0], q[1]);
      MMA(x + 8 * j + 4, p, q[2], q[3]);
    }
  }
}

/* ------------------------------------------------------------------ S to P, dP to dS */
GA_DEV void gradients(const tile *t, float *s, float *dp, int head, int row0) {
  args a = t->a;
  const int own0 = t->row0 + band(t) * 16 + (t->lane >> 2), other0 = row0 + side(t) * WIDTH + 2 * (t->lane & 3);
  const stat_rows stat = stat_of(t, head);
  GA_UNROLL for (int e = 0; e < NS; e++) {
    const int own = own0 + e / 2 % 2 * 8, other = other0 + e / 4 * 8 + e % 2, i = t->keys ? other : own,
              j = t->keys ? own : other;
    float p = 0.f, ds = 0.f, derivative;
    if (sees(t, i, j)) {
      p = ex2(logit(a, s[e], stat.slope, j - i - t->shift, &derivative) * LOG2E - ldg_f32(stat.lse + i));
      ds = p * (dp[e] - ldg_f32(stat.delta + i)) * derivative;
    }
    s[e] = p;
    dp[e] = ds;
  }
}

/* All other rows of a query head: g1 is dK or dQ, g2 is dV. */
GA_DEV void sweep_tiles(const tile *t, int head, range r, float *g1, float *g2) {
  const uint32_t sb = smem_base();
  const int group = t->a->group;
  float s[NS], dp[NS];
  GA_ROLL for (int row0 = r.lo; row0 < r.hi; row0 += OTHER) {
    block_sync(); /* nobody reads the block before any more */
    load_pair(t, sb + OFF_Y1, sb + OFF_Y2, OTHER, t->keys ? head : head / group, t->keys, row0);
    cp_async_wait(0);
    block_sync();
    scores(t, sb + OFF_X1, sb + OFF_Y1, s);
    scores(t, sb + OFF_X2, sb + OFF_Y2, dp);
    gradients(t, s, dp, head, row0);
    if (t->keys) put_fragments(t, OFF_P, s);
    put_fragments(t, OFF_DS, dp);
    block_sync();
    add_product(t, OFF_DS, sb + OFF_Y1, g1);
    if (t->keys) add_product(t, OFF_P, sb + OFF_Y2, g2);
  }
}

/* ------------------------------------------------------------------ results */
GA_DEV void store_gradient(const tile *t, const ga_kbwd_tensor *to, const float *x, int cols, float f) {
  args a = t->a;
  const int rows = t->keys ? t->rows_k : t->rows_q;
  GA_UNROLL for (int e = 0; e < NO; e++) {
    const int row = t->row0 + band(t) * 16 + (t->lane >> 2) + e / 2 % 2 * 8,
              col = side(t) * HALF + e / 4 * 8 + 2 * (t->lane & 3) + e % 2;
    if (row >= rows || col >= cols) continue;
    const int64_t at = row_at(t, to, t->head, !t->keys, row) + col;
    if (a->out_f32)
      elem_put_f32(to->base, at, x[e] * f + ((t->keys ? a->add_dkv : a->add_dq) ? elem_get_f32(to->base, at) : 0.f));
    else
      PUT(to->base, at, x[e] * f);
  }
}

/* ------------------------------------------------------------------ the kernel */
GA_KERNEL(THREADS, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_fallback a) {
  const tile t = tile_of(&a, block_index());
  const int first = t.keys ? t.head * a.group : t.head, last = t.keys ? first + a.group : first + 1;
  float g1[NO], g2[NO];
  if (t.row0 >= (t.keys ? t.rows_k : t.rows_q)) return; /* a shorter sequence than the longest */
  GA_UNROLL for (int e = 0; e < NO; e++) g1[e] = g2[e] = 0.f;
  grid_dependency_wait();
  load_pair(&t, smem_base() + OFF_X1, smem_base() + OFF_X2, OWN, t.head, !t.keys, t.row0);
  GA_ROLL for (int head = first; head < last; head++) sweep_tiles(&t, head, rows_met(&t), g1, g2);
  cp_async_wait(0); /* of a tile that meets nothing */
  store_gradient(&t, t.keys ? &a.dk : &a.dq, g1, a.cols_k, scale_of(&t));
  if (t.keys) store_gradient(&t, &a.dv, g2, a.cols_v, 1.f);
}
