/* KERNEL    mla_mma, sm80: latent attention over a cache of 16-bit elements or e4m3, on mma.sync
 * COMPUTES  O = softmax(scale Q C^T) V of ga/mla.h; LSE
 * CONTRACT  head_dim up to 576 and v_dim up to 512, multiples of 8; q, rows of the cache and strides at multiples of 16
 *           bytes; e4m3: scales are powers of two, at most 2^119; query_rows a multiple of 16, so that 16 packed
 *           rows have one query and see the same tokens. A token that a row does not see has no effect on it: its
 *           values are cleared in operands of such rows
 * PRODUCTS  f32 sums. Q and the weights are sums of PARTS numbers of the cache's type. With 3 parts of bf16 (24 bits)
 *           or 2 of f16 (22 bits) they are as good as f32. With f16 parts a row of Q is scaled to 2^15, and weights
 *           to 2^15 at most. Low parts are left out of a logit that is not finite. e4m3 is multiplied as bf16, in
 *           which codes times scales are exact
 * DATA      cache: gmem -> smem by cp.async, a step of KEYS tokens is read once, for logits and for values; of
 *           e4m3 a step's bytes become bf16 in smem, and the next ones are under way while it is multiplied. Q: smem
 *           once. Weights: registers -> smem -> operands of all warps. O: a warp has ROWS rows of DV / WARPS columns
 * WORK      a block has a tile of ROWS packed rows and a split of the tokens (mla_packed.h). For logits a warp has 16
 *           rows and KEYS / ACROSS tokens
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     three times a step: copies of the step -> products, and products of the step
 *                                    before -> copies of the next; maxima of rows -> weights; weights -> products.
 *                                    e4m3: once more, bf16 -> products
 * BUDGET    32 WARPS lanes; ROWS * DV / (32 WARPS) registers of O a lane
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/mla/mla_merge.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of the cache: F16, BF16 or E4M3"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: packed rows of a tile: a multiple of 16"
#endif
#ifndef GA_P_KEYS
#error "GA_P_KEYS: cached tokens of a step: a multiple of 16"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: warps of a block: a multiple of ROWS / 16"
#endif
#ifndef GA_P_PARTS
#error "GA_P_PARTS: numbers whose sum is an element of Q, or a weight: 1 to 3"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define KV GA_CAT(T_, GA_P_KV)
enum {
  D = 576,
  DV = 512,
  ROWS = GA_P_ROWS,
  KEYS = GA_P_KEYS,
  WARPS = GA_P_WARPS,
  PARTS = GA_P_PARTS,
  THREADS = 32 * WARPS,
  CODES = KV == T_E4M3,
  STAGES = CODES ? 1 : 2,
  IS_F16 = KV == T_F16,
  SCALED = IS_F16 && PARTS > 1 /* rows of Q and weights are scaled to the range of f16 */
};
enum {
  TILES = ROWS / 16 /* of 16 rows */,
  ACROSS = WARPS / TILES /* warps that share the tokens of a tile's logits */,
  OWN = KEYS / ACROSS /* tokens of a warp's logits */,
  COLS = DV / WARPS /* columns of O of a warp */
};
/* Shared memory: parts of Q, stages of the cache, bytes of e4m3 of a step, parts of the weights; then floats of each
 * row: a maximum and a sum of each of the ACROSS warps, the factor of O, the unit of logits. */
enum {
  PANELS = D / PANEL_COLS,
  Q_PANEL = ROWS * PANEL_ROW_BYTES,
  Q_BYTES = PANELS * Q_PANEL,
  KV_PANEL = KEYS * PANEL_ROW_BYTES,
  STAGE_BYTES = PANELS * KV_PANEL,
  RAW_PITCH = CODES ? DV + DV / 32 + 2 * (D - DV) : 0 /* bytes of a row of e4m3, at most */,
  P_PITCH = 2 * KEYS + 16 /* bytes; the 8 rows of a matrix lie in different banks */,
  P_BYTES = ROWS * P_PITCH
};
enum {
  OFF_RING = PARTS * Q_BYTES,
  OFF_RAW = OFF_RING + STAGES * STAGE_BYTES,
  OFF_P = OFF_RAW + KEYS * RAW_PITCH,
  OFF_MOST = OFF_P + PARTS * P_BYTES,
  OFF_SUM = OFF_MOST + 4 * ROWS * ACROSS,
  OFF_SHRINK = OFF_SUM + 4 * ROWS * ACROSS,
  OFF_UNIT = OFF_SHRINK + 4 * ROWS,
  OFF_END = OFF_UNIT + 4 * ROWS
};
static_assert(OFF_END == GA_P_SMEM, "the row's shared memory");
static_assert(OWN == 8 || OWN == 16, "tokens of a warp's logits");
static_assert(COLS % 16 == 0, "columns of a warp");
/* The number that stands for a weight of 1. */
#define P_UNIT (SCALED ? 32768.0f : 1.0f)

typedef const ga_kargs_mla *args;

/* A block's tile, its tokens, and shared memory. */
typedef struct {
  mla_unit u;
  mla_share own;
  uint32_t base;
  int steps16; /* products of 16 columns that a logit needs */
} tile;

GA_DEV uint32_t pack2(float x, float y) { return IS_F16 ? pack_f16(x, y) : pack_bf16(x, y); }
GA_DEV float low2(uint32_t w) { return IS_F16 ? elem_f32_of_f16((uint16_t)(w & 0xffffu)) : __uint_as_float(w << 16); }
GA_DEV float high2(uint32_t w) {
  return IS_F16 ? elem_f32_of_f16((uint16_t)(w >> 16)) : __uint_as_float(w & 0xffff0000u);
}
/* Returns what is left of x after its part: 0 where x is not finite. */
GA_DEV float rest_after(float x, float part) {
  const float rest = x - part;
  return rest != rest ? 0.0f : rest;
}
/* Splits two elements into PARTS numbers each. */
GA_DEV void split2(float x, float y, uint32_t *part) {
  GA_UNROLL for (int i = 0; i < PARTS; i++) {
    part[i] = pack2(x, y);
    x = rest_after(x, low2(part[i]));
    y = rest_after(y, high2(part[i]));
  }
}
GA_DEV void mla_product(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
  if (IS_F16)
    mma_m16n8k16_f16(d, a, b0, b1);
  else
    mma_m16n8k16_bf16(d, a, b0, b1);
}

/* Returns the shared address of 16-byte chunk `chunk` of row `row` of a tile whose panels have panel_bytes. */
GA_DEV uint32_t tile_chunk(uint32_t base, int panel_bytes, int row, int chunk) {
  return panel_chunk(base + (uint32_t)(chunk / 8 * panel_bytes), (uint32_t)row, (uint32_t)(chunk % 8));
}

/* ------------------------------------------------------------------ queries */

/* Returns the power of two by which a row of Q is multiplied: `most`, its largest magnitude, comes to 2^14 to 2^15. */
GA_DEV float scale_of_row(float most) {
  const uint32_t e = float_bits(most) >> 23 & 255u, by = 2 * 127 + 14 - e;
  return e == 0 || e == 255 ? 1.0f : __uint_as_float((by > 254 ? 254 : by) << 23);
}

/* Loads packed row r of Q as parts. A lane has pairs of columns. */
GA_DEV void split_query(args a, const tile *t, int r, int lane) {
  enum { PAIRS = D / 64 };
  const bool here = mla_has_row(a, &t->u, r);
  const int64_t at = (int64_t)(t->u.q_first + mla_query_of(a, &t->u, r)) * a->q_token +
                     (int64_t)mla_head_of(a, &t->u, r) * a->head_dim;
  float x[PAIRS][2], most = 0;
  GA_UNROLL for (int i = 0; i < PAIRS; i++) GA_UNROLL for (int e = 0; e < 2; e++) {
    const int c = 64 * i + 2 * lane + e;
    x[i][e] = here && c < a->head_dim ? plain_get(a->q_dtype, a->q, at + c) : 0.0f;
    most = fmaxf(most, fabsf(x[i][e]));
  }
  float by = 1;
  if (SCALED) {
    most = row_max_warp(most);
    by = scale_of_row(most);
  }
  if (lane == 0) sts_f1(t->base + OFF_UNIT + (uint32_t)(4 * r), a->scale * 1.44269504f /* log2 e */ / by);
  GA_UNROLL for (int i = 0; i < PAIRS; i++) {
    uint32_t part[PARTS];
    split2(x[i][0] * by, x[i][1] * by, part);
    const int c = 64 * i + 2 * lane;
    GA_UNROLL for (int p = 0; p < PARTS; p++)
        sts_u1(tile_chunk(t->base + (uint32_t)(p * Q_BYTES), Q_PANEL, r, c / 8) + (uint32_t)(c % 8 * 2), part[p]);
  }
}

/* Copies rows of Q of the cache's type. */
GA_DEV void copy_queries(args a, const tile *t) {
  const int chunks = 2 * t->steps16;
  for (int i = thread_index(); i < ROWS * chunks; i += THREADS) {
    const int r = i / chunks, chunk = i - r * chunks;
    const bool here = mla_has_row(a, &t->u, r) && 8 * chunk < a->head_dim;
    const int64_t at = here ? (int64_t)(t->u.q_first + mla_query_of(a, &t->u, r)) * a->q_token +
                                  (int64_t)mla_head_of(a, &t->u, r) * a->head_dim + 8 * chunk
                            : 0;
    cp_async_16(tile_chunk(t->base, Q_PANEL, r, chunk), (const uint16_t *)a->q + at, here ? 16 : 0);
  }
  for (int r = thread_index(); r < ROWS; r += THREADS)
    sts_f1(t->base + OFF_UNIT + (uint32_t)(4 * r), a->scale * 1.44269504f);
}

/* ------------------------------------------------------------------ cached tokens */

/* Begins copies of the step from token j0 on to a stage. THREADS / KEYS lanes have a token; tokens from own.last on and
 * columns from head_dim on become zero. */
GA_DEV void latents_to_smem(args a, const tile *t, int j0, int stage) {
  enum { EACH = THREADS / KEYS };
  const int key = thread_index() / EACH, j = j0 + key;
  const bool here = j < t->own.last;
  const uint8_t *row = here ? mla_row_at(a, &t->u, j) : (const uint8_t *)a->cache;
  const uint32_t to = t->base + (uint32_t)(OFF_RING + stage * STAGE_BYTES),
                 raw = t->base + (uint32_t)(OFF_RAW + key * RAW_PITCH);
  for (int at = 16 * (thread_index() % EACH); CODES && at < a->row_bytes; at += 16 * EACH)
    cp_async_16(raw + (uint32_t)at, row + (here ? at : 0), here ? 16 : 0);
  if (CODES) return;
  for (int chunk = thread_index() % EACH; chunk < 2 * t->steps16; chunk += EACH) {
    const bool in = here && 8 * chunk < a->head_dim;
    cp_async_16(tile_chunk(to, KV_PANEL, key, chunk), row + (in ? 16 * chunk : 0), in ? 16 : 0);
  }
}

/* Returns two codes, in the low bytes of x, times their scale as bf16, which is exact. */
GA_DEV uint32_t codes_to_bf16(uint32_t x, float scale) {
  return pack_bf16(quant_e4m3((uint8_t)x) * scale, quant_e4m3((uint8_t)(x >> 8)) * scale);
}

/* Turns the bytes of a step of e4m3 into bf16. A lane has 8 columns of a token at a time. */
GA_DEV void bytes_to_bf16(args a, const tile *t) {
  const int chunks = 2 * t->steps16;
  for (int i = thread_index(); i < KEYS * chunks; i += THREADS) {
    const int key = i / chunks, chunk = i - key * chunks, rotated = 8 * chunk - a->v_dim;
    const uint32_t raw = t->base + (uint32_t)(OFF_RAW + key * RAW_PITCH),
                   to = tile_chunk(t->base + OFF_RING, KV_PANEL, key, chunk);
    if (8 * chunk >= a->head_dim) {
      sts_i4(to, 0, 0, 0, 0);
    } else if (rotated >= 0) {
      const ga_i4 x = lds_i4(raw + (uint32_t)(a->v_dim + a->v_dim / 32 + 2 * rotated));
      sts_i4(to, x.x, x.y, x.z, x.w);
    } else {
      const float scale = lds_f1(raw + (uint32_t)(a->v_dim + chunk / 16 * 4));
      const uint32_t x = float_bits(lds_f1(raw + (uint32_t)(8 * chunk))),
                     y = float_bits(lds_f1(raw + (uint32_t)(8 * chunk + 4)));
      sts_i4(to, (int)codes_to_bf16(x, scale), (int)codes_to_bf16(x >> 16, scale), (int)codes_to_bf16(y, scale),
             (int)codes_to_bf16(y >> 16, scale));
    }
  }
}

/* ------------------------------------------------------------------ logits and weights */

/* Products of 16 rows of Q and OWN tokens from `key` on of a stage: s[4 i + e] has tokens 8 i + 2 q and 2 q + 1 of rows
 * g and g + 8. */
GA_DEV void logits(const tile *t, uint32_t stage, int row, int key, int lane, float *s) {
  float rest[OWN / 2];
  GA_UNROLL for (int i = 0; i < OWN / 2; i++) s[i] = rest[i] = 0;
  for (int k = 0; k < t->steps16; k++) {
    uint32_t b[4];
    if (OWN == 16)
      ldmatrix_x4(b, tile_chunk(stage, KV_PANEL, key + (lane & 7) + (lane >> 4 << 3), 2 * k + (lane >> 3 & 1)));
    else
      ldmatrix_x2(b, tile_chunk(stage, KV_PANEL, key + (lane & 7), 2 * k + (lane >> 3 & 1)));
    GA_UNROLL for (int p = 0; p < PARTS; p++) {
      uint32_t x[4];
      ldmatrix_x4(x, tile_chunk(t->base + (uint32_t)(p * Q_BYTES), Q_PANEL, row + (lane & 15), 2 * k + (lane >> 4)));
      GA_UNROLL for (int i = 0; i < OWN / 8; i++) mla_product((p ? rest : s) + 4 * i, x, b[2 * i], b[2 * i + 1]);
    }
  }
  if (PARTS > 1) GA_UNROLL
    for (int i = 0; i < OWN / 2; i++) s[i] += fabsf(s[i]) < __uint_as_float(0x7f800000u) ? rest[i] : 0.0f;
}

/* A lane's rows g and g + 8 of its warp's 16 rows: maximum so far in log2 units, this lane's part of the sum of
 * weights. */
typedef struct {
  float m[2], l[2];
} state;

/* Writes the maxima of the warp's logits, which become log2 units. Row h sees tokens below seen[h], from the warp's
 * first token on. */
GA_DEV void maxima_to_smem(const tile *t, int row, int across, int lane, int seen, float *s) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const uint32_t at = (uint32_t)(row + g + 8 * h);
    const float unit = lds_f1(t->base + OFF_UNIT + 4 * at);
    float most = GA_NEG_INFINITY;
    GA_UNROLL for (int i = 0; i < OWN / 8; i++) GA_UNROLL for (int e = 0; e < 2; e++) {
      float *x = s + 4 * i + 2 * h + e;
      *x = 8 * i + 2 * q + e < seen ? *x * unit : GA_NEG_INFINITY;
      most = fmaxf(most, *x);
    }
    most = fmaxf(most, shfl_xor_f32(most, 1));
    most = fmaxf(most, shfl_xor_f32(most, 2));
    if (q == 0) sts_f1(t->base + OFF_MOST + 4 * (at * ACROSS + (uint32_t)across), most);
  }
}

/* Turns the warp's logits into weights, which go to shared memory as parts, and writes the factors of O. */
GA_DEV void weights_to_smem(const tile *t, int row, int across, int lane, const float *s, state *z) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const uint32_t at = (uint32_t)(row + g + 8 * h);
    float m = z->m[h];
    GA_UNROLL for (int w = 0; w < ACROSS; w++) m =
        fmaxf(m, lds_f1(t->base + OFF_MOST + 4 * (at * ACROSS + (uint32_t)w)));
    const float ref = mla_reference(m), shrink = ex2(z->m[h] - ref);
    z->m[h] = m;
    z->l[h] *= shrink;
    if (across == 0 && q == 0) sts_f1(t->base + OFF_SHRINK + 4 * at, shrink);
    GA_UNROLL for (int i = 0; i < OWN / 8; i++) {
      uint32_t part[PARTS];
      const float x = ex2(s[4 * i + 2 * h] - ref), y = ex2(s[4 * i + 2 * h + 1] - ref);
      z->l[h] += x + y;
      split2(x * P_UNIT, y * P_UNIT, part);
      GA_UNROLL for (int p = 0; p < PARTS; p++) sts_u1(
          t->base + (uint32_t)(OFF_P + p * P_BYTES + 2 * (across * OWN + 8 * i + 2 * q)) + at * P_PITCH, part[p]);
    }
  }
}

/* ------------------------------------------------------------------ values */

/* Returns the bits of two elements, of tokens key and key + 1, of which those below `seen` are kept. */
GA_DEV uint32_t keep_seen(uint32_t w, int key, int seen) {
  return w & ((key < seen ? 0xffffu : 0u) | (key + 1 < seen ? 0xffff0000u : 0u));
}

/* Adds weights times values of a stage to the warp's columns of O, from `col` on: o[tile][pair of 8 columns][4].
 * clear: some rows do not see all tokens of the step; seen[i] is the number that rows of tile i see. */
GA_DEV void weigh_latents(args a, const tile *t, uint32_t stage, int col, int lane, bool clear, const int *seen,
                          float *o) {
  GA_UNROLL for (int k = 0; k < KEYS / 16; k++) {
    uint32_t x[TILES * PARTS][4];
    GA_UNROLL for (int i = 0; i < TILES * PARTS; i++)
        ldmatrix_x4(x[i], t->base + (uint32_t)(OFF_P + i % PARTS * P_BYTES + (i / PARTS * 16 + (lane & 15)) * P_PITCH +
                                               32 * k + (lane >> 4) * 16));
    GA_UNROLL for (int c = 0; c < COLS / 16; c++) {
      uint32_t b[4];
      if (col + 16 * c >= a->v_dim) continue;
      ldmatrix_x4_trans(b, tile_chunk(stage, KV_PANEL, 16 * k + (lane & 15), (col + 16 * c) / 8 + (lane >> 4)));
      GA_UNROLL for (int i = 0; i < TILES; i++) {
        uint32_t v[4] = {b[0], b[1], b[2], b[3]};
        if (clear) GA_UNROLL
          for (int e = 0; e < 4; e++) v[e] = keep_seen(b[e], 16 * k + e % 2 * 8 + lane % 4 * 2, seen[i]);
        GA_UNROLL for (int p = 0; p < PARTS; p++) GA_UNROLL for (int e = 0; e < 2; e++)
            mla_product(o + ((i * (COLS / 16) + c) * 2 + e) * 4, x[i * PARTS + p], v[2 * e], v[2 * e + 1]);
      }
    }
  }
}

/* Multiplies O by the factors of this step. */
GA_DEV void shrink_o(const tile *t, int lane, float *o) {
  GA_UNROLL for (int i = 0; i < TILES; i++) GA_UNROLL for (int h = 0; h < 2; h++) {
    const float by = lds_f1(t->base + OFF_SHRINK + (uint32_t)(4 * (16 * i + 8 * h + lane / 4)));
    if (!warp_any(by != 1.0f)) continue;
    GA_UNROLL for (int c = 0; c < COLS / 8; c++) {
      o[(i * (COLS / 8) + c) * 4 + 2 * h] *= by;
      o[(i * (COLS / 8) + c) * 4 + 2 * h + 1] *= by;
    }
  }
}

/* ------------------------------------------------------------------ results */

/* Writes the sums of weights of this lane's rows, and their maxima. */
GA_DEV void sums_to_smem(const tile *t, int row, int across, int lane, const state *z) {
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const float l = z->l[h] + shfl_xor_f32(z->l[h], 1), sum = l + shfl_xor_f32(l, 2);
    const uint32_t at = (uint32_t)(row + lane / 4 + 8 * h);
    if (lane % 4) continue;
    sts_f1(t->base + OFF_SUM + 4 * (at * ACROSS + (uint32_t)across), sum);
    if (across == 0) sts_f1(t->base + OFF_MOST + 4 * at * ACROSS, z->m[h]);
  }
}

GA_DEV float sum_of_row(const tile *t, int r) {
  float sum = 0;
  GA_UNROLL for (int w = 0; w < ACROSS; w++) sum += lds_f1(t->base + OFF_SUM + (uint32_t)(4 * (r * ACROSS + w)));
  return sum;
}

GA_DEV void put_pair(int type, void *p, int64_t i, float x, float y) {
  if (type == T_F32)
    stg_f2((float *)p + i, x, y);
  else
    stg_i32((int32_t *)((uint16_t *)p + i), (int)(type == T_F16 ? pack_f16(x, y) : pack_bf16(x, y)));
}

/* Writes columns of packed row r of O that this lane has, at o[4 c] and o[4 c + 1]: as results if keys are not split,
 * else as partial ones. */
GA_DEV void finish_latent_row(args a, const tile *t, int unit, int split, int r, int col, int lane, const float *o) {
  if (!mla_has_row(a, &t->u, r)) return;
  const float m = lds_f1(t->base + OFF_MOST + (uint32_t)(4 * r * ACROSS)), l = sum_of_row(t, r);
  const int64_t token = t->u.q_first + mla_query_of(a, &t->u, r);
  const int head = mla_head_of(a, &t->u, r);
  const bool none = m == GA_NEG_INFINITY && l == 0, whole = t->own.parts == 1;
  const float by = !whole ? 1.0f / P_UNIT : none ? 0.0f : 1.0f / (l * P_UNIT);
  float *part = whole ? NULL : mla_partial_at(a, unit, split, ROWS, r);
  GA_UNROLL for (int c = 0; c < COLS / 8; c++) {
    const int at = col + 8 * c + lane % 4 * 2;
    const float x = none ? 0.0f : o[4 * c] * by, y = none ? 0.0f : o[4 * c + 1] * by;
    if (at >= a->v_dim) continue;
    if (whole)
      put_pair(a->o_dtype, a->o, token * a->o_token + (int64_t)head * a->v_dim + at, x, y);
    else
      stg_f2(part + at, x, y);
  }
  if (col || lane % 4) return;
  if (!whole)
    stg_f2(part + mla_partial_floats(a->v_dim) - 4, m, l);
  else if (a->lse)
    a->lse[head * a->lse_stride + token] = mla_lse(m, l);
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_mla a) {
  GA_SHARED int flag;
  const int unit = block_index() / a.splits, split = block_index() % a.splits;
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const int row = warp % TILES * 16, across = warp / TILES, col = warp * COLS;
  grid_dependency_wait();
  grid_launch_dependents();
  tile t;
  t.u = mla_unit_of(&a, unit, ROWS);
  if (t.u.n <= 0) return; /* no such rows in this sequence: the same for all splits */
  t.own = mla_share_of(&a, &t.u, split, KEYS);
  if (split >= t.own.parts) return;
  t.base = smem_base();
  t.steps16 = (a.head_dim + 15) / 16;
  if (PARTS == 1 && a.q_dtype == (IS_F16 ? T_F16 : T_BF16))
    copy_queries(&a, &t);
  else
    for (int r = warp; r < ROWS; r += WARPS) split_query(&a, &t, r, lane);
  latents_to_smem(&a, &t, t.own.first, 0);
  cp_async_commit();
  state z = {{GA_NEG_INFINITY, GA_NEG_INFINITY}, {0, 0}};
  float o[ROWS * COLS / 32];
  int seen[TILES];
  GA_UNROLL for (int i = 0; i < ROWS * COLS / 32; i++) o[i] = 0;
  GA_UNROLL for (int i = 0; i < TILES; i++) seen[i] = mla_seen_by(&a, &t.u, 16 * i);
  const int own_seen = mla_seen_by(&a, &t.u, row);
  GA_ROLL for (int j = t.own.first, i = 0; j < t.own.last; j += KEYS, i++) {
    const uint32_t stage = t.base + (uint32_t)(OFF_RING + i % STAGES * STAGE_BYTES);
    float s[OWN / 2];
    int left[TILES];
    cp_async_wait(0);
    block_sync();
    if (CODES) {
      bytes_to_bf16(&a, &t);
      block_sync();
    }
    if (j + KEYS < t.own.last) latents_to_smem(&a, &t, j + KEYS, (i + 1) % STAGES);
    cp_async_commit();
    logits(&t, stage, row, across * OWN, lane, s);
    const int end = own_seen < t.own.last ? own_seen : t.own.last;
    maxima_to_smem(&t, row, across, lane, end - j - across * OWN, s);
    block_sync();
    weights_to_smem(&t, row, across, lane, s, &z);
    block_sync();
    shrink_o(&t, lane, o);
    bool clear = false;
    GA_UNROLL for (int x = 0; x < TILES; x++) {
      left[x] = seen[x] - j;
      clear = clear || left[x] < KEYS;
    }
    if (clear)
      weigh_latents(&a, &t, stage, col, lane, true, left, o);
    else
      weigh_latents(&a, &t, stage, col, lane, false, left, o);
  }
  cp_async_wait(0); /* of blocks without a step */
  sums_to_smem(&t, row, across, lane, &z);
  block_sync();
  GA_UNROLL for (int i = 0; i < TILES; i++) GA_UNROLL for (int h = 0; h < 2; h++)
      finish_latent_row(&a, &t, unit, split, 16 * i + 8 * h + lane / 4, col, lane, o + i * (COLS / 8) * 4 + 2 * h);
  if (t.own.parts == 1) return;
  if (mla_is_last(&a, &flag, unit, t.own.parts)) mla_merge_unit(&a, &t.u, unit, t.own.parts, ROWS, THREADS);
}
