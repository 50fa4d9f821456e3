/* Common parts of the products with packed weights of every type (gemm_split_int8_sm90a.cu, gemm_split_bf16_sm90a.cu):
 * division of a launch among blocks and warps, X, sums, epilogues. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/prefetch.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/gemm/epilogue.h"
#include "cuda/kern/gemm/gemm_split_int8_sm90a_args.h"
#include "cuda/kern/gemm/packed_s8.h"

#define T GA_CAT(T_, GA_P_W)
enum {
  SPLITS_X = GA_P_SPLITS_X /* number of parts of an element of X, each a column of operand B */
};
enum {
  WARPS = GA_P_THREADS / 32,
  COLS = 8 /* number of columns of operand B of one product */,
  MOST_ROWS = 8 /* largest number of rows of X */
};
enum { BARS_BYTES = GA_RING_BARS /* bytes of the mbarriers of a warp */, CONSTANTS_BYTES = GA_RING_CONSTANTS };
enum { PART_ALIGN = 16 }; /* alignment in bytes: sums are read four at a time */
/* WIDTH is the number of columns of operand B for `rows` rows of X, rounded up to an even number. PRODUCTS is the
 * number of products of 8 columns.
 *
 * X is laid out for 1, 2, 4 or 8 rows (m rounded up), as constants, so that addresses are constants too. */
#define WIDTH(rows)    ((SPLITS_X * (rows) + 1) / 2 * 2)
#define PRODUCTS(rows) ((SPLITS_X * (rows) + COLS - 1) / COLS)

/* The share of the work of a block, and its addresses in shared memory. Column p * rows + c of operand B is part p of
 * row c of X; part 0 is the highest. */
typedef struct {
  /* Shared addresses of X, its scales, its sums over runs, and the warps' sums of tiles (parts). table has constants,
   * then for each tile the warps that sum it. */
  uint32_t x, scales, sums, parts, table;
  /* part is the index of the block's part of k, group the index of its group of tiles. */
  int part, group;
  /* rows is the number of rows of X, rounded up to 1, 2, 4 or 8. width is the number of columns of operand B. */
  int rows, width;
  /* k0 is the block's first unit along k, nb the number of its units along k. */
  int k0, nb;
  int ni; /* Number of items (the data of a ring's stage, one or two units) along k. */
  /* tile is the number of the block's first tile, tiles the number of its tiles; with `gated`, of each matrix. */
  int tile, tiles;
  int n;      /* Number of the block's items, tiles * ni; with `gated`, of both matrices. */
  int unused; /* Padding to a multiple of 16 bytes. */
} share;
static_assert(sizeof(share) % 16 == 0, "put_words");

/* put_words copies a struct to shared memory, and get_words copies it back. Its size is a multiple of 16 bytes. */
GA_DEV void put_words(uint32_t at, const void *from, int bytes) {
  GA_UNROLL for (int i = 0; i < bytes; i += 16) {
    int w[4];
    memcpy(w, (const char *)from + i, sizeof w);
    sts_i4(at + (uint32_t)i, w[0], w[1], w[2], w[3]);
  }
}
GA_DEV void get_words(uint32_t at, void *to, int bytes) {
  GA_UNROLL for (int i = 0; i < bytes; i += 16) {
    const ga_i4 w = lds_i4(at + (uint32_t)i);
    memcpy((char *)to + i, &w, sizeof w);
  }
}
GA_DEV share get_share(uint32_t at) {
  share s;
  get_words(at, &s, sizeof s);
  return s;
}

/* Returns the start of part i if the first `longer` parts have `each` + 1 elements and the others `each`. */
GA_DEV int cut_at(int each, int longer, int i) { return i * each + (i < longer ? i : longer); }

/* Return the first item of a warp, and the warp of an item. The block's items are divided evenly among its warps. */
GA_DEV int first_item(const share *s, int warp) {
  return cut_at((int)((uint32_t)s->n / WARPS), (int)((uint32_t)s->n % WARPS), warp);
}
GA_DEV int warp_of_item(const share *s, int item) {
  const int each = (int)((uint32_t)s->n / WARPS), longer = (int)((uint32_t)s->n % WARPS), turn = longer * (each + 1);
  return item < turn ? item / (each + 1) : longer + (item - turn) / each;
}
/* Returns a word that says which warps sum tile t: the first and the last warp, and the slot of the first warp's sum.
 * The other warps use slot 0. The word is computed before the products, while weights are in flight. */
GA_DEV uint32_t sums_of_tile(const share *s, int t) {
  const int begin = t * s->ni, first = warp_of_item(s, begin), last = warp_of_item(s, begin + s->ni - 1);
  return (uint32_t)(first | last << 8 | (t - first_item(s, first) / s->ni) << 16);
}
GA_DEV packed_constants get_constants(uint32_t table) {
  uint32_t w[3];
  lds_nv_u2(w, table);
  lds_nv_u1(w + 2, table + 8);
  packed_constants k = {w[2], w[0], w[1]};
  return k;
}

/* --- loading of X, and its split into digits --- */

/* Loads four elements of row `row` of X from column k on. Elements outside X become zeros. */
GA_DEV void get_x(const ga_kargs_gemm *a, int row, int64_t k, float *x) {
  const float *from = (const float *)a->x + row * a->x_stride + k;
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = 0;
  if (row >= a->m || k >= a->k) return;
  if (k + 4 <= a->k && (uint64_t)from % 16 == 0)
    elem_get16_f32(x, from, 0);
  else GA_UNROLL
    for (int e = 0; e < 4; e++)
      if (k + e < a->k) x[e] = from[e];
}

/* Splits x * scale, rounded, into three signed digits of 8 bits; |x * scale| must be at most 2^21. words[p] has digit p
 * of elements 0, 2, 1, 3.
 *
 * The float is offset by 1.5 * 2^23, plus 128 for each lower digit, so that its bytes are the digits. The highest digit
 * is then 64 too large, which is subtracted. */
GA_DEV void split_int8(const float *x, float scale, uint32_t *words) {
  uint32_t u[4];
  GA_UNROLL for (int e = 0; e < 4; e++) u[e] = float_bits(fmaf(x[e], scale, 12582912.0f + 32896.0f));
  const uint32_t low02 = prmt(u[0], u[2], 0x5410u), low13 = prmt(u[1], u[3], 0x5410u);
  words[0] = (prmt(prmt(u[0], u[2], 0x0062u), prmt(u[1], u[3], 0x0062u), 0x5410u) + 0x40404040u) ^ 0x80808080u;
  words[1] = prmt(low02, low13, 0x7531u) ^ 0x80808080u;
  words[2] = prmt(low02, low13, 0x6420u) ^ 0x80808080u;
}

/* Returns 2^e for e >= -149. */
GA_DEV float pow2_any(int e) { return __uint_as_float(e >= -126 ? (uint32_t)(e + 127) << 23 : 1u << (e + 149)); }

/* Loads four elements of a row of n elements from element k on. Elements outside the row become zeros. whole: all four
 * exist and are aligned to 16 bytes. */
GA_DEV void get_row(const bool whole, const float *row, int64_t n, int64_t k, float *x) {
  if (whole)
    elem_get16_f32(x, row + k, 0);
  else GA_UNROLL
    for (int e = 0; e < 4; e++) x[e] = k + e < n ? row[k + e] : 0;
}

/* Multiplies x by the norm's weights. Returns the sum of squares of x before the multiplication. */
GA_DEV float apply_norm(const int quads, float (*x)[4], float (*weight)[4]) {
  float square = 0;
  GA_UNROLL for (int v = 0; v < quads; v++) GA_UNROLL for (int e = 0; e < 4; e++) {
    square = fmaf(x[v][e], x[v][e], square);
    x[v][e] *= weight[v][e];
  }
  return square;
}

/* Prefetches the weights of norms into L2. They do not depend on the previous kernel. */
GA_DEV void prefetch_norm(const ga_kargs_gemm_split_int8 *ring) {
  if (!ring->norm) return;
  GA_ROLL for (int64_t k = 32 * thread_index(); k < ring->gemm.k; k += 32 * GA_P_THREADS) {
    prefetch_l2(ring->norm + k);
    if (ring->add) prefetch_l2(ring->add_norm + k);
  }
}

/* --- products --- */

/* Shared addresses of a lane's data of X, for the first 8 columns of operand B and for the last 8. Lanes without a
 * column use the last column, and their results are ignored. has_sum is true if row lane / 4 of X exists, whose sums
 * over runs this lane uses. */
typedef struct {
  uint32_t x[2], scales[2], sums;
  bool has_sum;
} lane_view;

GA_DEV lane_view view_of(const int rows, const share *s, int lane) {
  lane_view v;
  const int g = lane / 4, q = lane % 4, cols = SPLITS_X * rows, tail = COLS * (PRODUCTS(rows) - 1), last = tail + g,
            pair = tail + 2 * q;
  v.x[0] = s->x + (uint32_t)(g * 64 + q * 16);
  v.x[1] = s->x + (uint32_t)((last < cols ? last : cols - 1) * 64 + q * 16);
  v.scales[0] = s->scales + (uint32_t)(8 * q);
  v.scales[1] = s->scales + (uint32_t)(pair < cols ? pair : WIDTH(rows) - 2) * 4;
  v.has_sum = g < rows;
  v.sums = s->sums + (uint32_t)(q * rows + (v.has_sum ? g : 0)) * 4;
  return v;
}

/* Adds the products of minimums (registers a) and sums of X to cm. sum0 and sum1 are the sums for the two runs of this
 * lane. Each is split into two tf32 numbers, so that it is exact. */
GA_DEV void add_sums(float *cm, const uint32_t *a, float sum0, float sum1) {
  const uint32_t high0 = float_bits(sum0) & 0xffffe000u, high1 = float_bits(sum1) & 0xffffe000u;
  mma_nv_tf32(cm, a, high0, high1);
  mma_nv_tf32(cm, a, float_bits(sum0 - __uint_as_float(high0)), float_bits(sum1 - __uint_as_float(high1)));
}

/* A sum of products over a unit, before it is multiplied by the unit's scale: an integer, or a float if runs have float
 * scales. */
typedef union {
  int i;
  float f;
} unit_sum;

/* Returns the number of the block's i-th tile. With `gated`, tiles of W and of the gate alternate. */
GA_DEV int tile_index(const ga_kargs_gemm_split_int8 *ring, int tile, int i) {
  return !ring->gated ? tile + i : i % 2 ? ring->begin[0] + tile + i / 2 : tile + i / 2;
}

/* Returns the address of the block's next tile. w is the end of the previous tile, where the next tile usually begins.
 *
 * The matrix of the previous tile is found by comparing w with limits. This saves registers, because the limits are
 * constants of the launch. */
GA_DEV uint64_t next_tile(const ga_kargs_gemm_split_int8 *ring, uint64_t w) {
  const uint64_t more = (uint64_t)ring->w_more[0];
  if (ring->gated) return w + (uint64_t)(w > more && w <= (uint64_t)ring->end[1] ? ring->hop[1] : ring->hop[0]);
  if (w == (uint64_t)ring->end[0]) return more;
  return w == (uint64_t)ring->end[1] ? (uint64_t)ring->w_more[1] : w;
}

/* --- sums over warps, and results --- */

/* Returns the sum of accumulator e over the parts of a row of X, the lowest part first. Part p of the rows has columns
 * p * rows to p * rows + rows - 1. The result is valid in the lanes that hold the columns of part 0. */
GA_DEV float fold(const int rows, float (*acc)[4], int e) {
  if (SPLITS_X == 2) {
    if (rows == 8) return acc[1][e] + acc[0][e];
    if (rows == 1) return acc[0][e + 1] + acc[0][e]; /* valid for even e */
    return shfl_down_f32(acc[0][e], rows / 2) + acc[0][e];
  }
  if (rows == 8) return acc[2][e] + acc[1][e] + acc[0][e];
  if (rows == 4) return acc[1][e] + shfl_down_f32(acc[0][e], 2) + acc[0][e];
  if (rows == 2) return shfl_down_f32(acc[0][e], 2) + shfl_down_f32(acc[0][e], 1) + acc[0][e];
  return shfl_down_f32(acc[0][e], 1) + acc[0][e + 1] + acc[0][e]; /* valid for even e */
}

/* Stores a warp's sums of a tile in slot `slot` of the warp's `slots` slots, and sets acc to zero. */
GA_DEV void put_split(const int rows, int slots, const share *sh, int warp, int slot, int lane, float (*acc)[4]) {
  const int col = lane % 4 * 2;
  const uint32_t at = sh->parts + (uint32_t)(((warp * slots + slot) * GA_PACKED_ROWS + lane / 4) * rows + col) * 4;
  GA_UNROLL for (int r = 0; r < 2; r++) { /* rows g, g+8 */
    const uint32_t to = at + (uint32_t)(8 * r * rows) * 4;
    const float x = fold(rows, acc, 2 * r), y = rows == 1 ? 0 : fold(rows, acc, 2 * r + 1);
    if (rows == 1 && col == 0) sts_f1(to, x);
    if (rows > 1 && col < rows) sts_f2(to, x, y);
  }
  GA_UNROLL for (int n = 0; n < PRODUCTS(rows); n++) GA_UNROLL for (int e = 0; e < 4; e++) acc[n][e] = 0;
}

/* Shared addresses of the warps' sums of a tile: `first` is of the first warp, `next` of the second. Further warps
 * follow at distances of `step` bytes. `more` is the number of warps after the first. */
typedef struct {
  uint32_t first, next, step;
  int more;
} tile_parts;
GA_DEV tile_parts parts_of(int slots, const share *sh, int t) {
  const uint32_t who = float_bits(lds_f1(sh->table + (uint32_t)(CONSTANTS_BYTES + 4 * t))), warp = who & 255,
                 last = who >> 8 & 255, slot = who >> 16;
  const uint32_t tile = (uint32_t)(GA_PACKED_ROWS * sh->rows) * 4, step = (uint32_t)slots * tile,
                 at = sh->parts + warp * step;
  const tile_parts p = {at + slot * tile, at + step, step, (int)(last - warp)};
  return p;
}

/* Returns the sum over all warps for row `row` of the block's tile t and for row `col` of X. A warp has `slots`
 * slots. */
GA_DEV float add_splits_of(int slots, const share *sh, int t, int row, int col) {
  const tile_parts p = parts_of(slots, sh, t);
  const uint32_t at = (uint32_t)(row * sh->rows + col) * 4;
  float sum = lds_f1(p.first + at);
  for (int w = 0; w < p.more; w += 4) { /* four loads in flight */
    float more[4] = {0, 0, 0, 0};
    GA_UNROLL for (int i = 0; i < 4; i++) if (w + i < p.more) more[i] =
        lds_f1(p.next + (uint32_t)(w + i) * p.step + at);
    GA_UNROLL for (int i = 0; i < 4; i++) sum += more[i];
  }
  return sum;
}

/* Returns the norm's factor for a row of X whose sum of squares is `squares`. */
GA_DEV float norm_factor(const ga_kargs_gemm_split_int8 *ring, float squares) {
  return 1.0f / sqrtf(squares / (float)ring->gemm.k + ring->norm_eps);
}

/* Applies the epilogue like gemm_finish, with a short path for most products: at the end of a launch, time passes while
 * instructions are fetched. */
GA_DEV void ring_finish(const ga_kargs_gemm *a, int64_t row, int64_t col, float sum) {
  if (a->y_dtype != T_F32 || a->act || a->gate) {
    gemm_finish(a, row, col, sum);
    return;
  }
  const int64_t at = row * a->y_stride + col;
  float t = a->scale * sum;
  if (a->bias) t += a->bias[col];
  if (a->residual) t += ((const float *)a->residual)[at];
  ((float *)a->y)[at] = t;
}

/* Writes the element of Y for row `col` of X and row `row` of the block's rows of W. sum is its sum of products. With
 * `gated`, gate_sum is the sum of products for the gate. */
GA_DEV void put_result(const ga_kargs_gemm_split_int8 *ring, const share *sh, float sum, float gate_sum, int row,
                       int col) {
  const int i = row / GA_PACKED_ROWS, in = row % GA_PACKED_ROWS, tile = sh->tile + i;
  ga_kargs_gemm a = ring->gemm;
  int first = 0;
  if (ring->gated) {
    const float gate = a.scale * gate_sum;
    const int64_t at = (int64_t)tile * GA_PACKED_ROWS + in;
    if (at < a.n) plain_put(a.y_dtype, a.y, col * a.y_stride + at, act_of(a.act, gate) * (a.scale * sum));
    return;
  }
  GA_UNROLL for (int j = 0; j < 2; j++) if (tile >= ring->begin[j]) {
    first = ring->begin[j];
    a.y = ring->y_more[j], a.bias = ring->bias_more[j], a.n = ring->n_more[j], a.y_stride = ring->y_more_stride[j];
  }
  const int64_t at = (int64_t)(tile - first) * GA_PACKED_ROWS + in;
  if (at < a.n) ring_finish(&a, col, at, sum);
}

/* Writes the element of Y for row `col` of X and row `row` of the block's rows of W. The sum over the warps is
 * multiplied by `factor`, the norm's factor. The block must have all of k. */
GA_DEV void finish_output(const ga_kargs_gemm_split_int8 *ring, const share *sh, float factor, int row, int col) {
  const int i = row / GA_PACKED_ROWS, in = row % GA_PACKED_ROWS;
  const float sum = add_splits_of(ring->gemm.slots, sh, ring->gated ? 2 * i : i, in, col) * factor;
  put_result(ring, sh, sum, ring->gated ? add_splits_of(ring->gemm.slots, sh, 2 * i + 1, in, col) * factor : 0, row,
             col);
}
