/* KERNEL    gemm_t16, sm90a: up to 8 rows of X by packed quantised weights (GA_LAYOUT_T16), one row near the speed of memory
 * COMPUTES  Y = epilogue(X W^T), of up to three W in turn, or with the gate worked out by a second one. Codes of W are 8-bit integers.
 *           X becomes, for each unit of k, a power of two times integers of 22 bits, cut into three signed digits of 8: three columns of 8-bit
 *           products, whose sums are exact. An infinity or a NaN in a row of X makes all of its row of Y NaN.
 *           Norm: digits are those of X times the norm's weights; sums get the row's factor at the end, so that products do not wait for it
 * DATA      W: the copy engine brings items, of a unit or two, into a ring of shared memory, one ring a warp: an elected lane asks, the warp
 *           waits. `early` stages are asked for before the kernel ahead has ended (dependent launch), the others behind the loads of X, which
 *           would have to queue. X: digits, scales and sums in shared memory once a block
 * BARRIERS  full[warp][stage]: an item's bytes have come. A stage is free once its warp has read it (warp_sync), so no one waits for that
 * WORK      a block has a run of tiles of 16 rows and a part of k; its items, tile after tile, are cut evenly among the warps, each
 *           of which sums what it has of a tile; the parts meet in shared memory, those of other blocks in gmem, always in one order
 * BUDGET    THREADS lanes, one block a multiprocessor
 * SPEED     docs/perf/cuda-decode.md. H200, 1 x 4096 x 14336, chained: q4_k 10.3 us (3.2 TB/s), q8_0 17.7 (3.5), q6_k 14.3 (3.4)
 */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/prefetch.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/epilogue.h"
#include "cuda/dev/tile/packed_s8.h"
#include "core/kargs_gemm_ring.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, MXFP4, ..."
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

#define T GA_CAT(T_, GA_P_W)
enum { WARPS = GA_P_THREADS / 32, WORDS = PACKED_WORDS(T), GROUPS = PACKED_GROUPS(T), UNIT_K = PACKED_K(T), UNIT_BYTES = PACKED_BYTES(T) };
enum { HALVES = PACKED_HALVES(T) ? 2 : 1, RUNS = GROUPS * HALVES, DIGITS = 3, COLS = 8 /* of a product */, MOST_ROWS = 8 /* of X */ };
/* X is laid out for 1, 2, 4 or 8 rows (m filled up): constants, so that addresses are. Of `rows` rows: the columns, filled up to an even
 * number, and the products of 8 columns. */
#define WIDTH(rows) ((DIGITS * (rows) + 1) / 2 * 2)
#define PRODUCTS(rows) ((DIGITS * (rows) + COLS - 1) / COLS)

/* A warp's barriers, of up to 8 stages, and its ring. A stage is an item: a unit of 256, or two of 128, the last of an odd number alone. */
enum { BARS_BYTES = 64, CONSTANTS_BYTES = GA_RING_CONSTANTS, PER = GA_RING_ITEM(UNIT_K, UNIT_BYTES), ITEM_BYTES = PER * UNIT_BYTES };
#define RING_BYTES(depth) (BARS_BYTES + (depth) * ITEM_BYTES)

#define X(name, number, k, bytes) static_assert(number != T || (k == UNIT_K && bytes == UNIT_BYTES), "unit of " #name);
GA_PACKED_TYPES(X)
#undef X

/* Where things are in shared memory, and this block's share of the work. Column p * rows + c of X is digit p of row c, the highest first. */
typedef struct {
  uint32_t ring, x, scales, sums, parts, table; /* table: constants, then who sums a tile */
  int part, group;      /* of k, of the tiles */
  int rows, width;      /* of X, filled up; its columns */
  int k0, nb;           /* units along k: first and number */
  int ni;               /* the same in items */
  int tile, tiles;      /* first and number; gated: of each matrix */
  int n;                /* items: tiles * ni; gated: of both */
} share;

/* Where piece i of things cut in pieces begins: `longer` of them, the first, have one more than `each`. */
GA_DEV int cut(int each, int longer, int i) { return i * each + (i < longer ? i : longer); }

GA_DEV share share_of(const ga_kargs_gemm_ring *ring) {
  const ga_kargs_gemm *a = &ring->gemm;
  const int block = block_index();
  share s;
  s.group = a->splits == 1 ? block : block / a->splits;
  s.part = a->splits == 1 ? 0 : block - s.group * a->splits;
  s.k0 = cut(ring->units_each, ring->units_longer, s.part);
  s.nb = ring->units_each + (s.part < ring->units_longer);
  s.tile = cut(ring->tiles_each, ring->tiles_longer, s.group);
  s.tiles = ring->tiles_each + (s.group < ring->tiles_longer);
  s.ni = (s.nb + PER - 1) / PER;
  s.n = (ring->gated ? 2 * s.tiles : s.tiles) * s.ni;
  s.rows = a->copies / DIGITS;
  s.width = WIDTH(s.rows);
  s.ring = smem_base();
  s.x = s.ring + (uint32_t)(WARPS * RING_BYTES(ring->depth));
  s.scales = s.x + (uint32_t)(a->x_units * UNIT_K * a->copies);
  s.sums = s.scales + (uint32_t)(a->x_units * s.width * 4);
  s.parts = s.sums + (PACKED_MIN(T) ? (uint32_t)(a->x_units * RUNS * s.rows * 4) : 0);
  s.table = s.parts + (uint32_t)(WARPS * a->slots * GA_PACKED_ROWS * s.rows * 4);
  return s;
}
/* The block's items are cut among warps; which has a given one? */
GA_DEV int first_item(const share *s, int warp) { return cut((int)((uint32_t)s->n / WARPS), (int)((uint32_t)s->n % WARPS), warp); }
GA_DEV int warp_of(const share *s, int item) {
  const int each = (int)((uint32_t)s->n / WARPS), longer = (int)((uint32_t)s->n % WARPS), turn = longer * (each + 1);
  return item < turn ? item / (each + 1) : longer + (item - turn) / each;
}
/* Who summed tile t: the first warp, the last one, and the first one's slot; the others begin with it. Worked out ahead, while weights are
 * under way. */
GA_DEV uint32_t sums_of_tile(const share *s, int t) {
  const int begin = t * s->ni, first = warp_of(s, begin), last = warp_of(s, begin + s->ni - 1);
  return (uint32_t)(first | last << 8 | (t - first_item(s, first) / s->ni) << 16);
}
GA_DEV void fill_table(const ga_kargs_gemm_ring *ring, const share *s) {
  const int tiles = ring->gated ? 2 * s->tiles : s->tiles;
  const packed_constants k = packed_constants_of(T);
  if (thread_index() == 0) {
    sts_u2(s->table, k.low, k.high);
    sts_u1(s->table + 8, k.top);
  }
  GA_ROLL for (int t = GA_P_THREADS - 1 - thread_index(); t < tiles; t += GA_P_THREADS) /* warps at the end have less of X */
    sts_u1(s->table + (uint32_t)(CONSTANTS_BYTES + 4 * t), sums_of_tile(s, t));
}
GA_DEV packed_constants get_constants(uint32_t table) {
  uint32_t w[3];
  lds_free_u2(w, table);
  lds_free_u1(w + 2, table + 8);
  packed_constants k = {w[2], w[0], w[1]};
  return k;
}

/* --- X to shared memory --- */

/* Four elements of row `row` from k on; zeros outside. */
GA_DEV void get_x(const ga_kargs_gemm *a, int row, int64_t k, float *x) {
  const float *from = (const float *)a->x + row * a->x_stride + k;
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = 0;
  if (row >= a->m || k >= a->k) return;
  if (k + 4 <= a->k && (uint64_t)from % 16 == 0) elem_get16_f32(x, from, 0);
  else GA_UNROLL for (int e = 0; e < 4; e++) if (k + e < a->k) x[e] = from[e];
}

/* Digits of x * scale, |x * scale| <= 2^21, which it rounds: word p has digit p of elements 0, 2, 1, 3. The number lies 1.5 * 2^23 and 128 for
 * each lower digit higher, so that its bytes are digits; the highest one is 64 too large. */
GA_DEV void digits_of(const float *x, float scale, uint32_t *words) {
  uint32_t u[4];
  GA_UNROLL for (int e = 0; e < 4; e++) u[e] = float_bits(fmaf(x[e], scale, 12582912.0f + 32896.0f));
  const uint32_t low02 = prmt(u[0], u[2], 0x5410u), low13 = prmt(u[1], u[3], 0x5410u);
  words[0] = (prmt(prmt(u[0], u[2], 0x0062u), prmt(u[1], u[3], 0x0062u), 0x5410u) + 0x40404040u) ^ 0x80808080u;
  words[1] = prmt(low02, low13, 0x7531u) ^ 0x80808080u;
  words[2] = prmt(low02, low13, 0x6420u) ^ 0x80808080u;
}

/* 2^e, e >= -149 */
GA_DEV float pow2_any(int e) { return __uint_as_float(e >= -126 ? (uint32_t)(e + 127) << 23 : 1u << (e + 149)); }

/* A unit of one of `rows` rows of X, whose elements 128v + 4 lane... are x[v]. */
GA_DEV void put_x(const int rows, const share *s, int unit, int row, int lane, float (*x)[4]) {
  const uint32_t pair = s->x + (uint32_t)((unit * (GROUPS / 2) + lane / 16) * DIGITS * rows * 64);
  const uint32_t at = pair + (uint32_t)(row * 64 + lane % 4 * 16 + lane / 8 % 2 * 8 + lane / 4 % 2 * 4);
  float most = 0;
  GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++)
    GA_UNROLL for (int e = 0; e < 4; e++) most = max_size(most, x[v][e]);
  const int exponent = redux_max_i32((int)(float_bits(most) & 0x7fffffffu)) >> 23; /* of the largest, which is below 2^(exponent - 126) */
  if (PACKED_MIN(T)) GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++) {
    const int group = 4 * v + lane / 8, run = HALVES == 2 ? 2 * group + lane / 4 % 2 : group;
    float sum = x[v][0] + x[v][1] + x[v][2] + x[v][3];
    GA_UNROLL for (int b = 1; b < 8 / HALVES; b *= 2) sum += shfl_xor_f32(sum, b);
    if (lane % (8 / HALVES) == 0) sts_f1(s->sums + (uint32_t)((unit * RUNS + run) * rows + row) * 4, sum);
  }
  if (exponent < 21) GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++)
    GA_UNROLL for (int e = 0; e < 4; e++) x[v][e] *= 18446744073709551616.0f; /* 2^64 */
  const float up = __uint_as_float((uint32_t)((exponent < 21 ? 210 : 274) - exponent) << 23);
  GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++) {
    uint32_t words[DIGITS];
    digits_of(x[v], up, words);
    GA_UNROLL for (int p = 0; p < DIGITS; p++) sts_u1(at + (uint32_t)((2 * v * DIGITS + p) * rows * 64), words[p]);
  }
  const int width = WIDTH(rows);
  const uint32_t scales = s->scales + (uint32_t)(unit * width) * 4;
  const float scale = exponent == 255 ? __uint_as_float(0x7fc00000u) : pow2_any(exponent - 131 - 8 * (lane < DIGITS ? lane : 0));
  if (lane < DIGITS) sts_f1(scales + (uint32_t)(lane * rows + row) * 4, scale);
  if (lane == DIGITS && row == rows - 1 && width > DIGITS * rows) sts_f1(scales + (uint32_t)(DIGITS * rows) * 4, 0);
}

/* --- products --- */

/* A lane's addresses of what it takes of X: of the first 8 columns, and of the last 8, where lanes without a column take the last one
 * (nobody looks at what they get). */
typedef struct {
  uint32_t x[2], scales[2], sums;
  bool has_sum;
} lane_view;

GA_DEV lane_view view_of(const int rows, const share *s, int lane) {
  lane_view v;
  const int g = lane / 4, q = lane % 4, cols = DIGITS * rows, tail = COLS * (PRODUCTS(rows) - 1), last = tail + g, pair = tail + 2 * q;
  v.x[0] = s->x + (uint32_t)(g * 64 + q * 16);
  v.x[1] = s->x + (uint32_t)((last < cols ? last : cols - 1) * 64 + q * 16);
  v.scales[0] = s->scales + (uint32_t)(8 * q);
  v.scales[1] = s->scales + (uint32_t)(pair < cols ? pair : WIDTH(rows) - 2) * 4;
  v.has_sum = g < rows;
  v.sums = s->sums + (uint32_t)(q * rows + (v.has_sum ? g : 0)) * 4;
  return v;
}

/* cm += mins (registers a) * sums of X, as two tf32 each: registers b0 and b1 of the product. */
GA_DEV void add_sums(float *cm, const uint32_t *a, float sum0, float sum1) {
  const uint32_t high0 = float_bits(sum0) & 0xffffe000u, high1 = float_bits(sum1) & 0xffffe000u;
  mma_free_tf32(cm, a, high0, high1);
  mma_free_tf32(cm, a, float_bits(sum0 - __uint_as_float(high0)), float_bits(sum1 - __uint_as_float(high1)));
}

GA_DEV void take_mins(const int rows, const lane_view *v, const uint32_t *scales, int at, int q, float *acc) {
  const uint32_t sums = v->sums + (uint32_t)(at * RUNS * rows) * 4;
  uint32_t mins[4];
  if (PACKED_FLOAT_MIN(T)) { /* the second half of k takes the low parts of the same sums */
    const float sum = v->has_sum ? lds_free_f1(sums) : 0.0f;
    const uint32_t high = float_bits(sum) & 0xffffe000u;
    GA_UNROLL for (int i = 0; i < 4; i++) mins[i] = float_bits(packed_f16(scales[4], i % 2));
    mma_free_tf32(acc, mins, high, float_bits(sum - __uint_as_float(high)));
    return;
  }
  float cm[4] = {0, 0, 0, 0};
  GA_UNROLL for (int j = 0; j < RUNS / 8; j++) {
    const uint32_t low = sums + (uint32_t)(8 * j * rows) * 4;
    packed_mins(T, scales, j, q, mins);
    add_sums(cm, mins, v->has_sum ? lds_free_f1(low) : 0.0f, v->has_sum ? lds_free_f1(low + (uint32_t)(4 * rows) * 4) : 0.0f);
  }
  GA_UNROLL for (int e = 0; e < 4; e++) acc[e] = fmaf(packed_shared_min(T, scales, e / 2), cm[e], acc[e]);
}

/* Sums of a unit so far: integers, or floats where runs have scales of their own. */
typedef union {
  int i;
  float f;
} unit_sum;

/* sum += scale * products of one run; products of float scales start at 1.5 * 2^23, which makes floats of them. ready: MXFP4's scales. */
enum { START = PACKED_INT_SCALE(T) ? 0 : 0x4b400000 };
GA_DEV void add_run(const uint32_t *scales, float (*ready)[2], int group, int half, const int *c, unit_sum *sum) {
  GA_UNROLL for (int e = 0; e < 4; e++) {
    if (PACKED_INT_SCALE(T)) {
      sum[e].i += packed_pick_scale(T, scales, group, half, e / 2) * c[e];
    } else {
      const float down = packed_pow2(-PACKED_LIFT(T, e / 2)), f = fmaf(__uint_as_float((uint32_t)c[e]), down, -12582912.0f * down);
      sum[e].f = fmaf(T == T_MXFP4 ? ready[group][e / 2] : packed_float_scale(T, scales, group, half, e / 2), f, sum[e].f);
    }
  }
}

/* One unit, its words in w, by the X of position `at` (units of this block's part of k). */
GA_DEV void take_unit(const int rows, const lane_view *v, const packed_constants *k, const uint32_t *w, int at, int lane, float (*acc)[4]) {
  const int nt = PRODUCTS(rows), step = DIGITS * rows * 64; /* bytes of X for two groups */
  const uint32_t *scales = w + PACKED_CODES(T);
  unit_sum sum[DIGITS][4];
  float ready[GROUPS][2];
  if (T == T_MXFP4) packed_e8m0_scales(scales, ready);
  GA_UNROLL for (int n = 0; n < nt; n++)
    GA_UNROLL for (int e = 0; e < 4; e++) sum[n][e].i = 0;
  GA_UNROLL for (int pair = 0; pair < GROUPS / 2; pair++) {
    uint32_t b[DIGITS][4];
    GA_UNROLL for (int n = 0; n < nt; n++) {
      const int last = n == nt - 1;
      lds_free_u4(b[n], v->x[last] + (uint32_t)((last ? 0 : 64 * COLS * n) + (at * (GROUPS / 2) + pair) * step));
    }
    GA_UNROLL for (int i = 0; i < 2; i++) {
      const int group = 2 * pair + i;
      uint32_t a[4], more[4];
      if (PACKED_LOOKED_UP(T)) packed_fragments(T, k, w, group, a, more);
      else packed_fragment(T, k, w, group, a);
      GA_UNROLL for (int n = 0; n < nt; n++) {
        int c[4];
        if (HALVES == 1) {
          if (PACKED_NIBBLES(T)) mma_free_u8_s8(c, a, b[n][2 * i], b[n][2 * i + 1], START);
          else mma_free_s8(c, a, b[n][2 * i], b[n][2 * i + 1], START);
          if (PACKED_LOOKED_UP(T)) mma_free_add_s8(c, more, b[n][2 * i], b[n][2 * i + 1]);
          add_run(scales, ready, group, 0, c, sum[n]);
        }
        if (HALVES == 2) GA_UNROLL for (int s = 0; s < 2; s++) {
          mma_free_s8_k16(c, a + 2 * s, b[n][2 * i + s], START);
          if (PACKED_LOOKED_UP(T)) mma_free_add_s8_k16(c, more + 2 * s, b[n][2 * i + s]);
          add_run(scales, ready, group, s, c, sum[n]);
        }
      }
    }
  }
  if (PACKED_MIN(T)) take_mins(rows, v, scales, at, lane % 4, acc[0]);
  GA_UNROLL for (int n = 0; n < nt; n++) {
    float scale[2];
    lds_free_f2(scale, v->scales[n == nt - 1] + (uint32_t)((n == nt - 1 ? 0 : COLS * n) + at * WIDTH(rows)) * 4);
    GA_UNROLL for (int e = 0; e < 4; e++) {
      const float f = PACKED_INT_SCALE(T) ? (float)sum[n][e].i * packed_shared_scale(T, scales, e / 2) : sum[n][e].f;
      acc[n][e] = fmaf(f, scale[e % 2], acc[n][e]);
    }
  }
}

/* --- the stream of weights --- */

/* A warp's items, in the order of memory but for the turns from tile to tile. */
typedef struct {
  uint64_t w;       /* address of the item to ask for next; no pointer, of which the compiler keeps two forms */
  int at;           /* its place along k, of ni here */
  uint32_t ring;    /* stages; the barriers of up to 8 lie before them */
} stream;

/* Unit k0 of a tile. Tiles of further matrices are numbered behind those of the first. */
GA_DEV uint64_t unit_at(const ga_kargs_gemm_ring *ring, int tile, int k0) {
  const void *w = ring->gemm.w;
  int first = 0;
  GA_UNROLL for (int j = 0; j < 2; j++)
    if (tile >= ring->begin[j]) w = ring->w_more[j], first = ring->begin[j];
  return (uint64_t)w + (uint64_t)(((int64_t)(tile - first) * ring->gemm.units + k0) * UNIT_BYTES);
}

/* Number of the block's tile i; gated: tiles of W and of the gate in turn. */
GA_DEV int tile_of(const ga_kargs_gemm_ring *ring, int tile, int i) {
  return !ring->gated ? tile + i : i % 2 ? ring->begin[0] + tile + i / 2 : tile + i / 2;
}

/* To the block's next tile: mostly it follows in memory. Where the last one was is told by its address, which spares registers, as constants
 * of the launch do. */
GA_DEV void turn(const ga_kargs_gemm_ring *ring, stream *s, int nb) {
  const uint64_t more = (uint64_t)ring->w_more[0];
  s->at = 0;
  if (ring->gemm.splits > 1) s->w += (uint64_t)((int64_t)(ring->gemm.units - nb) * UNIT_BYTES);
  else if (ring->gated) s->w += (uint64_t)(s->w > more && s->w <= (uint64_t)ring->end[1] ? ring->hop[1] : ring->hop[0]);
  else if (s->w == (uint64_t)ring->end[0]) s->w = more;
  else if (s->w == (uint64_t)ring->end[1]) s->w = (uint64_t)ring->w_more[1];
}

/* An item of fewer units than others? */
GA_DEV bool is_short(int nb, int at) { return PER == 2 && 2 * at + 1 == nb; }

GA_DEV void ask(const ga_kargs_gemm_ring *ring, stream *s, int nb, int ni, int stage) {
  const uint32_t bar = s->ring - BARS_BYTES + (uint32_t)(stage * 8), bytes = UNIT_BYTES * (is_short(nb, s->at) ? 1 : PER);
  if (warp_elect()) {
    mbar_arrive_expect(bar, bytes);
    bulk_load_bytes(s->ring + (uint32_t)(stage * ITEM_BYTES), (const void *)s->w, bytes, bar, L2_EVICT_FIRST);
  }
  s->w += bytes;
  if (++s->at == ni) turn(ring, s, nb);
}

/* Register e of the sum of a row's three digits, the lowest first. Columns of digit p begin at p * rows; the sum comes out where those of
 * the highest digit are. */
GA_DEV float fold(const int rows, float (*acc)[4], int e) {
  if (rows == 8) return acc[2][e] + acc[1][e] + acc[0][e];
  if (rows == 4) return acc[1][e] + shfl_down_f32(acc[0][e], 2) + acc[0][e];
  if (rows == 2) return shfl_down_f32(acc[0][e], 2) + shfl_down_f32(acc[0][e], 1) + acc[0][e];
  return shfl_down_f32(acc[0][e], 1) + acc[0][e + 1] + acc[0][e]; /* even e alone */
}

/* A warp's sum of what it has of a tile goes to its slot, and starts anew. */
GA_DEV void put_part(const int rows, const ga_kargs_gemm *a, const share *sh, int warp, int slot, int lane, float (*acc)[4]) {
  const int col = lane % 4 * 2;
  const uint32_t at = sh->parts + (uint32_t)(((warp * a->slots + slot) * GA_PACKED_ROWS + lane / 4) * rows + col) * 4;
  GA_UNROLL for (int r = 0; r < 2; r++) { /* g, g+8 */
    const uint32_t to = at + (uint32_t)(8 * r * rows) * 4;
    const float x = fold(rows, acc, 2 * r), y = rows == 1 ? 0 : fold(rows, acc, 2 * r + 1);
    if (rows == 1 && col == 0) sts_f1(to, x);
    if (rows > 1 && col < rows) sts_f2(to, x, y);
  }
  GA_UNROLL for (int n = 0; n < PRODUCTS(rows); n++)
    GA_UNROLL for (int e = 0; e < 4; e++) acc[n][e] = 0;
}

/* The warp's items, the first at place `at` along k; as many as fit have been asked for. */
GA_DEV void take_items(const int rows, const ga_kargs_gemm_ring *ring, const share *sh, stream *next, int warp, int lane, int items, int at) {
  const ga_kargs_gemm *a = &ring->gemm;
  const int nt = PRODUCTS(rows);
  lane_view v = view_of(rows, sh, lane);
  uint32_t table = sh->table;
  float acc[DIGITS][4];
  int stage = 0;
  uint32_t turns = 0; /* bit 0: of the ring, even or odd; above: tiles begun, the slot */
  GA_UNROLL for (int n = 0; n < nt; n++)
    GA_UNROLL for (int e = 0; e < 4; e++) acc[n][e] = 0;
  pin_u32(v.x, 2); /* loads from here on are behind the barrier */
  pin_u32(v.scales, 2);
  pin_u32(&v.sums, 1);
  pin_u32(&table, 1);
  const bool tight = nt == DIGITS && PACKED_256(T) && PACKED_LOOKED_UP(T); /* no registers left for constants */
  const packed_constants k = tight ? packed_constants_of(T) : get_constants(table);
  GA_ROLL for (; items > 0; items--) {
    const bool both = PER == 2 && !is_short(sh->nb, at);
    uint32_t w[PER][WORDS], item = next->ring + (uint32_t)(stage * ITEM_BYTES);
    mbar_wait(next->ring - BARS_BYTES + (uint32_t)(stage * 8), turns & 1);
    pin_u32(&item, 1);
    packed_fetch(T, w[0], item, lane);
    if (both) packed_fetch(T, w[PER - 1], item + UNIT_BYTES, lane);
    if (nt == 1) { /* all of the item to registers, so that its stage is free at once */
      GA_UNROLL for (int i = 0; i < PER; i++) pin_u32(w[i], WORDS);
      int done = 0;
      GA_UNROLL for (int i = 0; i < PER; i++) done += (int)packed_fetched(T, w[i], WORDS);
      warp_sync();
      if (items > ring->depth) ask(ring, next, sh->nb, sh->ni, stage + done);
    }
    take_unit(rows, &v, &k, w[0], PER * at, lane, acc);
    if (both) take_unit(rows, &v, &k, w[PER - 1], 2 * at + 1, lane, acc);
    if (nt > 1) { /* too many sums for that */
      GA_UNROLL for (int n = 0; n < nt; n++) pin_f32(acc[n], 4);
      const int done = (int)loads_done_f32(acc[0], 3, 2); /* rows g, g+8: they come of all words */
      warp_sync();
      if (items > ring->depth) ask(ring, next, sh->nb, sh->ni, stage + done);
    }
    if (++at == sh->ni || items == 1) put_part(rows, a, sh, warp, (int)(turns >> 1), lane, acc), turns += 2;
    at = at == sh->ni ? 0 : at;
    if (++stage == ring->depth) stage = 0, turns ^= 1;
  }
}

/* --- sums of parts --- */

/* Row `row` of the block's tile t, row col of X: the sum of the warps that had a part of it. */
GA_DEV float add_parts(const ga_kargs_gemm *a, const share *sh, int t, int row, int col) {
  const uint32_t who = float_bits(lds_f1(sh->table + (uint32_t)(CONSTANTS_BYTES + 4 * t))), warp = who & 255, last = who >> 8 & 255, slot = who >> 16;
  const uint32_t step = (uint32_t)(a->slots * GA_PACKED_ROWS * sh->rows) * 4, at = sh->parts + (uint32_t)(row * sh->rows + col) * 4;
  float sum = lds_f1(at + warp * step + slot * (uint32_t)(GA_PACKED_ROWS * sh->rows) * 4);
  for (uint32_t w = warp + 1; w <= last; w += 4) { /* four under way at once */
    float more[4] = {0, 0, 0, 0};
    GA_UNROLL for (uint32_t i = 0; i < 4; i++) if (w + i <= last) more[i] = lds_f1(at + (w + i) * step);
    GA_UNROLL for (int i = 0; i < 4; i++) sum += more[i];
  }
  return sum;
}

GA_DEV bool is_last_part(const ga_kargs_gemm *a, const share *sh) {
  block_sync();
  if (thread_index() == 0) {
    fence_device(); /* the block's writes, which the barrier has brought here */
    const bool last = atomic_add_i32(a->counter + sh->group, 1) == a->splits - 1;
    if (last) stg_i32(a->counter + sh->group, 0);
    fence_device();
    sts_f1(sh->parts, last ? 1.0f : 0.0f); /* the sums there have been read */
  }
  block_sync();
  return lds_f1(sh->parts) != 0;
}

/* --- the block --- */

/* The warp's first items, from stage `from` on. */
GA_DEV void ask_first(const ga_kargs_gemm_ring *ring, const share *s, stream *next, int items, int from, int to) {
  GA_ROLL for (int d = from; d < to && d < items; d++) ask(ring, next, s->nb, s->ni, d);
}

/* Weights of the norm from k on; zeros outside. */
GA_DEV void get_norm(const bool whole, const ga_kargs_gemm_ring *ring, int64_t k, float *weight) {
  if (whole) elem_get16_f32(weight, ring->norm + k, 0);
  else GA_UNROLL for (int e = 0; e < 4; e++) weight[e] = k + e < ring->gemm.k ? ring->norm[k + e] : 0;
}

/* X times the weights; returns the sum of squares of what it was. */
GA_DEV float apply_norm(const int quads, float (*x)[4], float (*weight)[4]) {
  float square = 0;
  GA_UNROLL for (int v = 0; v < quads; v++)
    GA_UNROLL for (int e = 0; e < 4; e++) {
      square = fmaf(x[v][e], x[v][e], square);
      x[v][e] *= weight[v][e];
    }
  return square;
}

/* Weights of the norm to L2: they do not depend on the kernel ahead. */
GA_DEV void prefetch_norm(const ga_kargs_gemm_ring *ring) {
  if (!ring->norm) return;
  GA_ROLL for (int64_t k = 32 * thread_index(); k < ring->gemm.k; k += 32 * GA_P_THREADS) prefetch_l2(ring->norm + k);
}

/* Warps take units of rows of X in turn; AHEAD loads of a lane are under way at once, and only then the rest of the ring is asked for,
 * which X would have to wait for. whole: 16 bytes at a time, nothing outside. Returns the lane's sum of squares, when there is a norm: a warp's
 * units are of one row. */
GA_DEV float convert_x(const bool whole, const int rows, const ga_kargs_gemm_ring *ring, const share *s, stream *next, int items, int warp,
                       int lane) {
  enum { QUADS = UNIT_K / 128, MOST = QUADS == 2 ? 4 : 8 };
  const ga_kargs_gemm *a = &ring->gemm;
  const int AHEAD = whole ? MOST : 1, all = s->nb * rows, shift = rows == 1 ? 0 : rows == 2 ? 1 : rows == 4 ? 2 : 3;
  float square = 0;
  GA_ROLL for (int base = warp; base == warp || base < all; base += AHEAD * WARPS) {
    float x[MOST][QUADS][4], weight[MOST][QUADS][4];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * WARPS, unit = i >> shift, row = i - (unit << shift);
      const int64_t k = (int64_t)(s->k0 + unit) * UNIT_K + 4 * lane;
      GA_UNROLL for (int v = 0; v < QUADS; v++) {
        if (whole) GA_UNROLL for (int e = 0; e < 4; e++) x[b][v][e] = weight[b][v][e] = 0;
        if (i >= all || (whole && row >= a->m)) continue;
        if (whole) elem_get16_f32(x[b][v], (const float *)a->x + row * a->x_stride + k + 128 * v, 0);
        else get_x(a, row, k + 128 * v, x[b][v]);
        if (ring->norm) get_norm(whole, ring, k + 128 * v, weight[b][v]);
      }
    }
    if (base == warp) ask_first(ring, s, next, items, ring->early, ring->depth);
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * WARPS, unit = i >> shift;
      if (ring->norm && i < all) square += apply_norm(QUADS, x[b], weight[b]);
      if (i < all) put_x(rows, s, unit, i - (unit << shift), lane, x[b]);
    }
  }
  return square;
}

/* Barriers of stages, before any is asked for. */
GA_DEV void init_stages(const stream *s, int from, int to) {
  GA_ROLL for (int d = from; d < to; d++) mbar_init(s->ring - BARS_BYTES + (uint32_t)(d * 8), 1);
  mbar_init_fence();
}

/* Fills the rings, makes X, takes all items: what is left are the parts. */
GA_DEV void take_share(const ga_kargs_gemm_ring *ring, share *kept, float *squares) {
  const ga_kargs_gemm *a = &ring->gemm;
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const share sh = share_of(ring);
  const int first = first_item(&sh, warp), items = first_item(&sh, warp + 1) - first, tile = first / sh.ni, at = first - tile * sh.ni;
  const int number = tile_of(ring, sh.tile, tile);
  stream next = {unit_at(ring, number, sh.k0 + PER * at), at, sh.ring + (uint32_t)(warp * RING_BYTES(ring->depth)) + BARS_BYTES};
  if (lane == 0) init_stages(&next, 0, ring->early);
  warp_sync();
  ask_first(ring, &sh, &next, items, 0, ring->early);
  if (lane == 0) {
    init_stages(&next, ring->early, ring->depth);
    if (warp == 0) *kept = sh;
  }
  warp_sync();
  prefetch_norm(ring);
  fill_table(ring, &sh);
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; all else does */
  const bool whole = a->k % UNIT_K == 0 && ((uint64_t)a->x | (uint64_t)a->x_stride * 4 | (uint64_t)ring->norm) % 16 == 0;
  const float square = !whole        ? convert_x(false, sh.rows, ring, &sh, &next, items, warp, lane)
                       : sh.rows > 1 ? convert_x(true, sh.rows, ring, &sh, &next, items, warp, lane)
                                     : convert_x(true, 1, ring, &sh, &next, items, warp, lane);
  if (ring->norm) {
    const float all = row_sum_warp(square);
    if (lane == 0) squares[warp] = all;
  }
  block_sync();
  if (sh.rows == 1) take_items(1, ring, &sh, &next, warp, lane, items, at);
  else if (sh.rows == 2) take_items(2, ring, &sh, &next, warp, lane, items, at);
  else if (sh.rows == 4) take_items(4, ring, &sh, &next, warp, lane, items, at);
  else take_items(8, ring, &sh, &next, warp, lane, items, at);
}

/* By what the norm multiplies row col of X. */
GA_DEV float factor_of(const ga_kargs_gemm_ring *ring, const share *sh, const float *squares, int col) {
  float sum = 0;
  if (!ring->norm) return 1;
  for (int w = col; w < WARPS; w += sh->rows) sum += squares[w];
  return 1.0f / sqrtf(sum / (float)ring->gemm.k + ring->norm_eps);
}

/* Result `row` of the block's, of row col of X: all of k is here. */
GA_DEV void finish(const ga_kargs_gemm_ring *ring, const share *sh, const float *squares, int row, int col) {
  const int i = row / GA_PACKED_ROWS, in = row % GA_PACKED_ROWS, tile = sh->tile + i;
  const float factor = factor_of(ring, sh, squares, col), sum = add_parts(&ring->gemm, sh, ring->gated ? 2 * i : i, in, col) * factor;
  ga_kargs_gemm a = ring->gemm;
  int first = 0;
  if (ring->gated) {
    const float gate = a.scale * (add_parts(&ring->gemm, sh, 2 * i + 1, in, col) * factor);
    const int64_t at = (int64_t)tile * GA_PACKED_ROWS + in;
    if (at < a.n) plain_put(a.y_dtype, a.y, col * a.y_stride + at, act_of(a.act, gate) * (a.scale * sum));
    return;
  }
  GA_UNROLL for (int j = 0; j < 2; j++)
    if (tile >= ring->begin[j]) {
      first = ring->begin[j];
      a.y = ring->y_more[j], a.bias = ring->bias_more[j], a.n = ring->n_more[j], a.y_stride = ring->y_more_stride[j];
    }
  const int64_t at = (int64_t)(tile - first) * GA_PACKED_ROWS + in;
  if (at < a.n) gemm_finish(&a, col, at, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_ring args) {
  const ga_kargs_gemm *a = &args.gemm;
  grid_launch_dependents();
  GA_SHARED share sh; /* kept from registers while units are taken */
  GA_SHARED float squares[WARPS]; /* of a warp's part of a row of X */
  take_share(&args, &sh, squares);
  block_sync();
  const int rows = sh.tiles * GA_PACKED_ROWS;
  const int64_t padded = (int64_t)a->tiles * GA_PACKED_ROWS, row0 = (int64_t)sh.tile * GA_PACKED_ROWS;
  for (int i = thread_index(); i < rows * (int)a->m; i += GA_P_THREADS) {
    const int col = a->m == 1 ? 0 : i / rows, row = i - col * rows;
    if (a->splits == 1) finish(&args, &sh, squares, row, col);
    else stg_f32(a->partial + ((int64_t)sh.part * MOST_ROWS + col) * padded + row0 + row,
                 add_parts(a, &sh, row / GA_PACKED_ROWS, row % GA_PACKED_ROWS, col));
  }
  if (a->splits == 1 || !is_last_part(a, &sh)) return;
  for (int i = thread_index(); i < rows * (int)a->m; i += GA_P_THREADS) {
    const int col = a->m == 1 ? 0 : i / rows, row = i - col * rows;
    float sum = 0;
    for (int p = 0; p < a->splits; p++) sum += ldg_f32(a->partial + ((int64_t)p * MOST_ROWS + col) * padded + row0 + row);
    if (row0 + row < a->n) gemm_finish(a, col, row0 + row, sum);
  }
}
