/* KERNEL    attn_decode, sm90a: attention of few query rows over a long cache, at the speed of memory
 * COMPUTES  O = softmax(scale Q K^T + mask) V in f32: soft-cap, ALiBi, sinks, window, packed sequences, pages, GQA, LSE
 * CONTRACT  head_dim and v_dim up to D; K and V of one type: f16, bf16, e4m3 (rows of multiples of 16 bytes; scales in
 *           arrays of their own), q8_0 and q4_0 (rows at even addresses, at multiples of 8 best).
 *           Lengths are read on the device, so that a recorded graph serves every length up to rows_k.
 *           A NaN or infinity in V may spread over its column of O (GA_ATTN_ROW_V_FINITE). Keys that no row of the tile
 *           sees are not read, except up to 8 bytes of the neighbours of a block row. f16 products: a weight is
 *           rounded to 2^-40 of the largest weight of its warp
 * PRODUCTS  f32 sums. Q and the weights are sums of two numbers (22 bits), the high parts of 8 packed rows in rows 0 to
 *           7 of an operand, the low parts in rows 8 to 15; K and V (codes of blocks) are exact in the products' type:
 *           f16, or tf32 where f16's range is too small (bf16; weights times the scales of V's blocks). In f16 rows of
 *           Q are scaled to 2^15, and weights to 2^15 at most. An e4m3 scale of K multiplies the logit, one of V the
 *           weight; weights are in units of the largest scale of V so far
 * WORK      steps of KEYS (16 or 32) keys are distributed round-robin over the warps of all blocks of a tile, so that
 *           a warp's first step does not depend on the length; only blocks that have steps take part
 * DATA      K and V by cp.async to a ring of STAGES steps per warp; no block barrier inside the loop. Whole steps
 *           inside a page are runs of 16-byte copies. With GA_ATTN_KV_READY the first steps are copied before the
 *           previous grid has ended, except steps with keys that it may write; all data that it writes is read after
 *           grid_dependency_wait
 * MERGE     warps through shared memory. Blocks of a cluster (`cluster`): each owns a share of the columns, and all
 *           others send it that share. Other blocks through gmem: the last block adds the parts. All sums are in the
 *           order of the parts, so results do not depend on which block is last. The plan that needs divisions (owners,
 *           addresses of rows) is computed before the wait for the previous grid
 * BARRIERS  name     arrivals  waiter  orders
 *           cluster  all       all     `sent` is initialised (arrival when a block begins) -> st.async to it; waited
 *                                      for before Q is read, or before a block without keys ends
 *           sent     1+tx      block   st.async of all parts of the block's share -> ld.shared; waited for before the
 *                                      block ends
 *           block    all       all     in turn: Q in shared memory -> its reads; reads of the ring -> the warps' sums
 *                                      over it; sums -> their addition; where parts are added in gmem: writes of the
 *                                      block's parts -> choice of the last block
 * BUDGET    what       how much
 *           threads    32 WARPS
 *           blocks     1 of a launch per multiprocessor; 2 (TWICE) where the ring leaves room for the next launch
 *           registers  no spills
 *           smem       GA_P_SMEM: Q, a ring of STAGES steps per warp, parts that are sent, the plan of the merge
 * MEASURED  H200, one sequence, 32/8 heads of 128, in a chain, at 512, 4096, 16384 keys: f16 3.7, 8.5, 19.5 us; e4m3
 *           3.9, 7.2, 14.5; q8_0 4.2, 9.0, 20.0 (docs/log/cuda-decode.md)
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of K and V: F16, BF16, E4M3, Q8_0 or Q4_0"
#endif
#ifndef GA_P_D
#error "GA_P_D: room for head_dim and v_dim: 64, 128 or 256"
#endif
#ifndef GA_P_KEYS
#error "GA_P_KEYS: keys of a step, 16 or 32"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: warps of a block"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: steps of keys that a warp has under way"
#endif

#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn/attn_decode_merge.h"
#include "cuda/kern/attn/attn_decode_state.h"
#include "cuda/kern/attn/attn_packed.h"

/* ---- the steps of a warp ---- */

/* Place of a lane's key, lane % KEYS of a step, in a sequence's pages, and what a step further adds. Without pages all
 * is one. */
typedef struct {
  int index, token, by_index, by_token, page_size;
} walk;

GA_DEV walk walk_from(const ga_kargs_attn_decode *a, int key, int keys_a_stride) {
  walk w;
  w.page_size = a->page_table ? a->page_size : 0x7fffffff;
  w.index = key / w.page_size;
  w.token = key - w.index * w.page_size;
  w.by_index = keys_a_stride / w.page_size;
  w.by_token = keys_a_stride - w.by_index * w.page_size;
  return w;
}
GA_DEV void walk_on(walk *w) {
  w->index += w->by_index;
  w->token += w->by_token; /* both below the page size, which is below 2^30 or for no step */
  if (w->token >= w->page_size) w->token -= w->page_size, w->index++;
}
/* Pages of a sequence: the one they are all in where table is null. */
typedef struct {
  const int32_t *table;
  int last, one;
} pages;

GA_DEV pages pages_of(const ga_kargs_attn_decode *a, int b) {
  pages p = {a->page_table ? a->page_table + b * a->page_stride : a->page_table,
             a->page_stride > 1 << 30 ? 1 << 30 : (int)a->page_stride - 1, a->kv_start ? 0 : b};
  if (a->page_table && p.last < 0) p.table = 0, p.one = 0;
  return p;
}
/* Past the end of the table its last entry is read: it is not used. */
GA_DEV int page_at(const pages *p, int index) {
  return p->table ? ldg_i32(p->table + (index < p->last ? index : p->last)) : p->one;
}

/* ---- K and V to shared memory ---- */

GA_DEV int64_t bytes_of_elements(int64_t elements) {
  return BLOCKS ? elements / 32 * BLOCK_BYTES : IS_16BIT ? 2 * elements : elements;
}
/* Which 16-byte chunk of row r holds chunk c: lanes that read together meet different banks. K is read by rows 0 to 7
 * and 64-byte (8-bit types: 32-byte) pieces, V by rows 0, 2, 4, 6 and 32-byte pieces. Rows of 64 bytes have two such
 * pieces only. */
GA_DEV int swizzle_k(int r) {
  return BLOCKS ? 0 : IS_16BIT ? (r & 1) << 2 : PITCH < 128 ? (r >> 1 & 1) << 1 : (r & 3) << 1;
}
GA_DEV int swizzle_v(int r) { return BLOCKS ? 0 : PITCH < 128 ? (r >> 1 & 1) << 1 : (r >> 1 & 3) << 1; }

/* Bytes from the start of K, or V, to a row, as lane `row` has them. */
GA_DEV int64_t offset_of(int64_t own, int row) {
  const uint32_t lo = shfl_idx_u32((uint32_t)own, row), hi = shfl_idx_u32((uint32_t)(own >> 32), row);
  return (int64_t)((uint64_t)hi << 32 | lo);
}

/* K and V of a step and where they go. own: from the start of each to the lane's key; there: bit for each key of the
 * step. */
typedef struct {
  const uint8_t *k, *v;
  int64_t own_k, own_v;
  uint32_t there, to_k, to_v;
  int k_bytes, v_bytes; /* of a row */
} copies;

GA_DEV void copy_kv_unit(uint32_t to, const uint8_t *src, int unit, bool has) {
  if (unit == 16)
    cp_async_16(to, src, has ? 16 : 0);
  else
    cp_async_4(to, src, has ? 4 : 0);
}

/* All keys of a step, rows of blocks, at equal distances of `step` bytes from src on, by 16 bytes. */
GA_DEV void copy_run_of_blocks(const uint8_t *src, int64_t step, uint32_t dst, int lane) {
  enum { UNITS = (ROW_BYTES + 15) / 16, EACH = 32 / UNITS /* rows at once */ };
  uint32_t mine = (uint32_t)lane;
  pin_u32(&mine, 1); /* what follows from it takes no registers from step to step */
  const int first = (int)mine / UNITS, c = (int)mine - first * UNITS;
  if (first >= EACH) return; /* UNITS does not divide 32 */
  const uint8_t *from = src + first * step + 16 * c;
  const uint32_t to = dst + (uint32_t)(first * PITCH + 16 * c);
  GA_UNROLL for (int row = 0; row < KEYS;
                 row += EACH, from += EACH * step) if (row + EACH <= KEYS || row + first < KEYS)
      cp_async_16(to + (uint32_t)(row * PITCH), from, 16);
}
/* As copy_run_of_blocks, for types without blocks. 8 lanes copy 128 bytes of a row, so that the swizzle depends on the
 * lane or on the row, never on both. */
GA_DEV void copy_run(const uint8_t *src, int64_t step, bool of_v, uint32_t dst, int lane) {
  enum { SPAN = PITCH < 128 ? 64 : 128, EACH = 512 / SPAN /* rows at once */ };
  uint32_t mine = (uint32_t)lane;
  pin_u32(&mine, 1); /* what follows from it takes no registers from step to step */
  const int row = (int)mine / (SPAN / 16), c = (int)mine % (SPAN / 16);
  const uint32_t to = dst + (uint32_t)(row * PITCH + 16 * (c ^ (of_v ? swizzle_v(row) : swizzle_k(row))));
  const uint8_t *from = src + row * step + 16 * c;
  GA_UNROLL for (int r = 0; r < KEYS; r += EACH, from += EACH * step) /* the bits of `row` and `r` do not meet */
      GA_UNROLL for (int at = 0; at < PITCH; at += SPAN) cp_async_16(
          (to ^ (uint32_t)(16 * (of_v ? swizzle_v(r) : swizzle_k(r)))) + (uint32_t)(r * PITCH + at), from + at, 16);
}
/* Keys anywhere, K and V by `unit` bytes. alike: own_k is own_v, in all lanes. */
GA_DEV void copy_rows(const copies *y, int unit, bool alike, int lane) {
  const int units = (BLOCKS ? PITCH - 8 /* of the shift */ : PITCH) / unit;
  static_assert(PITCH * KEYS % 512 == 0 || BLOCKS, "whole turns of all lanes");
  uint32_t mine = (uint32_t)lane;
  pin_u32(&mine, 1);
  GA_ROLL for (int at = (int)mine; at < KEYS * units; at += 32) {
    const int row = at / units, c = at - row * units;
    const int64_t off_k = offset_of(y->own_k, row), off_v = alike ? off_k : offset_of(y->own_v, row);
    const bool has = y->there >> row & 1, has_k = has && c * unit < y->k_bytes, has_v = has && c * unit < y->v_bytes;
    copy_kv_unit(y->to_k + (uint32_t)(row * PITCH + (c ^ swizzle_k(row)) * unit),
                 has_k ? y->k + off_k + c * unit : y->k, unit, has_k);
    copy_kv_unit(y->to_v + (uint32_t)(row * PITCH + (c ^ swizzle_v(row)) * unit),
                 has_v ? y->v + off_v + c * unit : y->v, unit, has_v);
  }
}
/* Rows that lie at multiples of 2 bytes only: right, not fast. */
GA_DEV void copy_rows_2(const uint8_t *base, int64_t own, uint32_t there, int width, uint32_t dst, int lane) {
  const int words = PITCH / 4, bytes = (int)bytes_of_elements(width);
  GA_ROLL for (int at = lane; at < KEYS * words; at += 32) {
    const int row = at / words, c = (at - row * words) * 4;
    const uint16_t *src = (const uint16_t *)(base + offset_of(own, row) + c);
    const bool has = there >> row & 1;
    uint32_t w = 0;
    if (has && c < bytes) w = ldg_u16(src);
    if (has && c + 2 < bytes) w |= (uint32_t)ldg_u16(src + 1) << 16;
    sts_f1(dst + (uint32_t)(row * PITCH + c), __uint_as_float(w));
  }
}

/* How keys are copied: steps as runs by 16 bytes, or each key for itself by 16, 4 or 2. */
enum { RUNS, BY_16, BY_4, BY_2 };
/* Rows of blocks lie at any even address. For runs sequences and tokens must lie at multiples of 16 bytes, and heads,
 * or every second head: then the last one ends at such a multiple, and others may be read up to the next one. */
GA_DEV bool blocks_fit_runs(const ga_kargs_attn_decode *a) {
  const int64_t rows = a->k_batch | a->k_token | a->v_batch | a->v_token;
  const bool half = ROW_BYTES % 16, even = a->q_heads / a->group % 2 == 0; /* 34 and 18 are odd multiples of 2 */
  const int64_t part = half ? 4 : 0;
  return D > 64 && (rows >> 5) % 8 == 0 && (a->k_head >> 5) % 8 == part && (a->v_head >> 5) % 8 == part &&
         (!half || even) && ((uint64_t)a->k | (uint64_t)a->v) % 16 == 0;
}
GA_DEV int way_of(const ga_kargs_attn_decode *a) {
  const bool whole =
      (!a->page_table || a->page_size % KEYS == 0) && a->head_dim == D && a->v_dim == D; /* steps lie in pages */
  const bool alike = a->k_batch == a->v_batch && a->k_token == a->v_token;
  if (whole && (BLOCKS ? blocks_fit_runs(a) : alike)) return RUNS;
  if (!BLOCKS) return BY_16;
  const int64_t elements =
      a->k_batch | a->k_token | a->k_head | a->v_batch | a->v_token | a->v_head | a->head_dim | a->v_dim;
  return (elements >> 5) % 2 || ((uint64_t)a->k | (uint64_t)a->v) % 4 ? BY_2 : BY_4;
}
/* Where rows of a head lie in their 16 bytes. */
GA_DEV int way_shift(const void *base, int64_t at, int way) {
  return BLOCKS && way == RUNS ? (int)(((uint64_t)base + (uint64_t)at) & 15) : 0;
}

/* Scales of key lane % KEYS: of 16 keys a lane has K's, or in the upper half V's, of 32 both. 0 where the tile sees no
 * such key. */
GA_DEV void copy_kv_scales(const ga_kargs_attn_decode *a, const unit *u, int j, int page, int token, uint32_t stage,
                           int lane) {
  const bool has = j + lane % KEYS >= u->from && j + lane % KEYS < u->to;
  const int64_t k =
      (int64_t)page * a->k_scale_batch + (int64_t)token * a->k_scale_token + (int64_t)u->h * a->k_scale_head;
  const int64_t v =
      (int64_t)page * a->v_scale_batch + (int64_t)token * a->v_scale_token + (int64_t)u->h * a->v_scale_head;
  const float *from = KEYS == 16 && lane >= KEYS ? a->v_scale + v : a->k_scale + k;
  cp_async_4(stage + (uint32_t)(SCALE_OFF + 4 * lane), has ? from : a->k_scale, has ? 4 : 0);
  if (KEYS == 32)
    cp_async_4(stage + (uint32_t)(SCALE_OFF + 4 * (KEYS + lane)), has ? a->v_scale + v : a->v_scale, has ? 4 : 0);
}

/* The step at key j, whose lanes are in `page` at `token` each. */
GA_DEV void copy_step(const ga_kargs_attn_decode *a, const unit *u, int j, int64_t page, int64_t token, int way,
                      uint32_t stage, int lane) {
  const int64_t head_k = bytes_of_elements(u->h * a->k_head), head_v = bytes_of_elements(u->h * a->v_head);
  const uint8_t *k = (const uint8_t *)a->k + head_k, *v = (const uint8_t *)a->v + head_v;
  const int shift_k = way_shift(a->k, head_k, way), shift_v = way_shift(a->v, head_v, way);
  if (SCALES) copy_kv_scales(a, u, j, (int)page, (int)token, stage, lane);
  if (way == RUNS && j >= u->from && j + KEYS <= u->to && (!BLOCKS || D > 64)) {
    const int64_t first = token - lane % KEYS, at = bytes_of_elements(page * a->k_batch + first * a->k_token);
    if (BLOCKS) {
      copy_run_of_blocks(k - shift_k + at, bytes_of_elements(a->k_token), stage, lane);
      copy_run_of_blocks(v - shift_v + bytes_of_elements(page * a->v_batch + first * a->v_token),
                         bytes_of_elements(a->v_token), stage + KEYS * PITCH, lane);
    } else {
      copy_run(k + at, bytes_of_elements(a->k_token), false, stage, lane);
      copy_run(v + at, bytes_of_elements(a->k_token), true, stage + KEYS * PITCH, lane);
    }
    return;
  }
  const copies y = {k,
                    v,
                    bytes_of_elements(page * a->k_batch + token * a->k_token),
                    bytes_of_elements(page * a->v_batch + token * a->v_token),
                    warp_ballot(j + lane % KEYS >= u->from && j + lane % KEYS < u->to) & 0xffffffffu >> (32 - KEYS),
                    stage + (uint32_t)shift_k,
                    stage + (uint32_t)(KEYS * PITCH + shift_v),
                    (int)bytes_of_elements(a->head_dim),
                    (int)bytes_of_elements(a->v_dim)};
  const bool alike = a->k_batch == a->v_batch && a->k_token == a->v_token;
  if (!BLOCKS) {
    copy_rows(&y, 16, alike, lane);
  } else if (way != BY_2) {
    copy_rows(&y, 4, alike, lane);
  } else {
    copy_rows_2(y.k, y.own_k, y.there, a->head_dim, y.to_k, lane);
    copy_rows_2(y.v, y.own_v, y.there, a->v_dim, y.to_v, lane);
  }
}

/* ---- elements from shared memory. Lane numbers: g = lane / 4, q = lane % 4 ---- */

/* From a stage to what a lane reads of it. k: row g, columns 8q and on; v: row 2q, columns 4g and on; both of the first
 * 32 columns. Other columns of rows that are swizzled lie at an address with the bits of 32 of them flipped. */
typedef struct {
  uint32_t k, v, scale_k, scale_v; /* of scales: row 2q */
  int high_k, high_v;              /* of 4-bit codes: 4 where the lane's are the high ones */
} lane_offsets;

GA_DEV lane_offsets lane_offsets_of(int lane, int shift_k, int shift_v) {
  const int g = lane / 4, q = lane % 4, row_v = KEYS + 2 * q, size = IS_16BIT ? 2 : 1;
  const bool four = KV == T_Q4_0; /* low codes are elements 0 to 15, high ones 16 to 31 */
  const int k = BLOCKS ? shift_k + 8 * (four ? q % 2 : q) : 8 * q * size ^ swizzle_k(g) * 16;
  const int v = BLOCKS ? shift_v + 4 * (four ? g % 4 : g) : 4 * g * size ^ swizzle_v(2 * q) * 16;
  const lane_offsets p = {(uint32_t)(g * PITCH + k),
                          (uint32_t)(row_v * PITCH + v),
                          (uint32_t)(2 * q * PITCH + shift_k),
                          (uint32_t)(row_v * PITCH + shift_v),
                          q / 2 * 4,
                          g / 4 * 4};
  return p;
}

/* n words, 1 or 2, at the even distance `off`, known when compiled, from a multiple of 4. */
GA_DEV void take_words(uint32_t *w, uint32_t at, int off, int n) {
  uint32_t x[3];
  const int even = off / 4 * 4;
  GA_UNROLL for (int i = 0; i < n + (off % 4 != 0); i++) lds_nv_u1(&x[i], at + (uint32_t)(even + 4 * i));
  GA_UNROLL for (int i = 0; i < n; i++) w[i] = off % 4 ? prmt(x[i], x[i + 1], 0x5432) : x[i];
}
/* n words of codes of the lane's in block `first` + c: unsigned, over CODE_BIAS. */
enum { CODE_BIAS = KV == T_Q8_0 ? 128 : 8 };
GA_DEV void take_codes(uint32_t *w, uint32_t at, int first, int c, int high, int n) {
  take_words(w, at + (uint32_t)(first * BLOCK_BYTES), c * BLOCK_BYTES + 2, n);
  GA_UNROLL for (int i = 0; i < n; i++) w[i] = KV == T_Q8_0 ? w[i] ^ 0x80808080u : w[i] >> high & 0x0f0f0f0fu;
}
GA_DEV float scale_of(uint32_t at, int first, int c) {
  return elem_f32_of_f16(lds_nv_u16(at + (uint32_t)((first + c) * BLOCK_BYTES)));
}

/* Code e of four as a number. */
GA_DEV float code_value(uint32_t w, int e) {
  return __uint_as_float(prmt(w, 0x4b000000u, 0x7540u + (uint32_t)e)) - (8388608.0f + CODE_BIAS);
}
/* Codes 2e and 2e + 1 of four as a pair: 1024 + code, less that and the bias, exact. */
GA_DEV uint32_t pair_of_codes(uint32_t w, int e) {
  return add_f16x2(prmt(w, 0x64646464u, e ? 0x4342 : 0x4140), KV == T_Q8_0 ? 0xe480e480u : 0xe408e408u);
}
GA_DEV float half_bf16(uint32_t w, int e) { return __uint_as_float(e ? w & 0xffff0000u : w << 16); }

/* The lane's 8 columns of a key, of chunk first + c of 32 columns, as right operands: four pairs of f16, or eight tf32.
 * */
GA_DEV void take_k(uint32_t *y, uint32_t at, int high, int first, int c) {
  uint32_t w[4];
  const uint32_t there = at ^ (uint32_t)((first + c) * CHUNK_BYTES);
  if (KV == T_F16) {
    lds_nv_u4(y, there);
  } else if (KV == T_BF16) {
    lds_nv_u4(w, there);
    GA_UNROLL for (int e = 0; e < 8; e++) y[e] = float_bits(half_bf16(w[e / 2], e % 2));
  } else if (!BLOCKS) {
    lds_nv_u2(w, there);
    GA_UNROLL for (int e = 0; e < 4; e++) y[e] = f16x2_of_e4m3(e % 2 ? w[e / 2] >> 16 : w[e / 2] & 0xffffu);
  } else {
    take_codes(w, at, first, c, high, 2);
    GA_UNROLL for (int e = 0; e < 4; e++) y[e] = pair_of_codes(w[e / 2], e % 2);
  }
}

/* ---- products ---- */

/* x to the nearest tf32. What is no number, or would become infinite, is only cut. */
GA_DEV float tf32_of(float x) {
  const uint32_t bits = float_bits(x), near = (bits + 0x1000u) & 0xffffe000u;
  if (x != x) return x;
  if (x != 0 && !(near & 0x7fffffffu)) return __uint_as_float(near | 0x2000u); /* not 0, for an infinity of K to meet */
  return __uint_as_float((near & 0x7f800000u) == 0x7f800000u ? bits & 0xffffe000u : near);
}
GA_DEV float rest_of(float x, float high) {
  const float rest = x - high;
  return rest != rest ? 0.0f : rest; /* what an infinity leaves is 0 */
}
/* x as the sum of two tf32; two of them as sums of pairs of f16. */
GA_DEV void split_tf32(float x, uint32_t *hi, uint32_t *lo) {
  const float h = tf32_of(x);
  *hi = float_bits(h);
  *lo = float_bits(tf32_of(rest_of(x, h)));
}
GA_DEV void split_f16(float x, float y, uint32_t *hi, uint32_t *lo) {
  *hi = pack_f16(x, y);
  *lo = pack_f16(rest_of(x, elem_f32_of_f16((uint16_t)*hi)), rest_of(y, elem_f32_of_f16((uint16_t)(*hi >> 16))));
}
/* As split_tf32 and split_f16, for weights: they are positive or NaN, so that a shorter sequence is exact. */
GA_DEV void split_weight_tf32(float x, uint32_t *hi, uint32_t *lo) {
  *hi = (float_bits(x) + 0x1000u) & 0xffffe000u;
  *lo = float_bits(x - __uint_as_float(*hi)); /* the units cut it */
}
GA_DEV void split_weights_f16(float x, float y, uint32_t *hi, uint32_t *lo) {
  *hi = pack_f16(x, y);
  *lo = pack_f16(x - elem_f32_of_f16((uint16_t)*hi), y - elem_f32_of_f16((uint16_t)(*hi >> 16)));
}

/* 2^n that brings a row of Q to [2^14, 2^15), and its inverse: from the bits of the largest size. */
GA_DEV float row_unit(int most, float *inverse) {
  const int field = 268 - (most >> 23), n = field > 253 ? 253 : field;
  *inverse = __uint_as_float((uint32_t)(254 - n) << 23);
  return __uint_as_float((uint32_t)n << 23);
}
/* x in that unit: what is not 0 stays so in f16, too. */
GA_DEV float in_unit(float x, float unit) {
  const float least = 5.9604644775390625e-8f /* 2^-24 */, y = x * unit;
  return x != 0 && fabsf(y) < least ? copysignf(least, x) : y;
}
/* Q as left operands: for each step s of a chunk of 32 columns, at which lane (g, q) has row g of the columns 8q + s *
 * EACH and on. factors: what makes a row's products logits. */
GA_DEV int64_t q_offset(const ga_kargs_attn_decode *a, const unit *u, int r) {
  return (a->q_start ? 0 : u->b * a->q_batch) + (u->q_first + query_of(a, u, r)) * a->q_token +
         head_of(a, u, r) * a->q_head;
}
/* at: where the warp's first row is. */
GA_DEV void put_q(const ga_kargs_attn_decode *a, const unit *u, int64_t at, uint32_t q, uint32_t factors, int warp,
                  int lane) {
  enum { EACH = 8 / Q_STEPS, ITEMS = D / EACH, STEPS_PER_LANE = (ITEMS + 31) / 32 };
  GA_ROLL for (int r = warp; r < u->n; r += WARPS) {
    if (r != warp) at = q_offset(a, u, r);
    float x[STEPS_PER_LANE][EACH], inverse = 1;
    int most = 0;
    GA_UNROLL for (int n = 0; n < STEPS_PER_LANE; n++) GA_UNROLL for (int e = 0; e < EACH; e++) {
      const int i = 32 * n + lane, col = i * EACH + e;
      x[n][e] = i < ITEMS && col < a->head_dim ? plain_get(a->q_dtype, a->q, at + col) : 0.0f;
      const int size = (int)(float_bits(x[n][e]) & 0x7fffffffu);
      if (size < 0x7f800000 && size > most) most = size;
    }
    const float unit = F16_K ? row_unit(redux_max_i32(most), &inverse) : 1.0f;
    if (lane == 0) sts_f1(factors + (uint32_t)(4 * r), a->scale * inverse);
    GA_UNROLL for (int n = 0; n < STEPS_PER_LANE; n++) {
      const int i = 32 * n + lane, col = i * EACH, step = col / 32 * Q_STEPS + col % 8 / EACH;
      uint32_t w[4];
      GA_UNROLL for (int e = 0; e < 2; e++) {
        const float *y = x[n] + 2 * e % EACH;
        if (F16_K)
          split_f16(in_unit(y[0], unit), in_unit(y[1], unit), w + 2 * e, w + 2 * e + 1);
        else
          split_tf32(x[n][e], w + 2 * e, w + 2 * e + 1);
      }
      if (i >= ITEMS) continue;
      const uint32_t to = q + (uint32_t)((step * 32 + r * 4 + col % 32 / 8) * 16);
      sts_u2(to, w[0], w[1]);
      sts_u2(to + 8, w[2], w[3]);
    }
  }
}
/* Rows that the tile does not have. */
GA_DEV void put_no_q(const unit *u, uint32_t q, uint32_t factors, int warp, int lane) {
  GA_ROLL for (int r = u->n + warp; r < ROWS; r += WARPS) {
    if (lane == 0) sts_f1(factors + (uint32_t)(4 * r), 0);
    GA_ROLL for (int i = lane; i < D / 32 * Q_STEPS * 4; i += 32)
        sts_i4(q + (uint32_t)((i / 4 * 32 + r * 4 + i % 4) * 16), 0, 0, 0, 0);
  }
}

enum { CHUNKS = Q_REGS ? D / 32 : 2 /* of 32 columns at once: as many as there are registers for */ };
/* x[2t + e]: the dot product of row g and key 8t + 2q + e. */
GA_DEV void dots(uint32_t q, uint32_t qs[][4], const lane_offsets *p, uint32_t stage, int lane, float *x) {
  float sum[TILES][4] = {{0}};
  if (!Q_REGS) pin_u32(&q, 1); /* to be read anew */
  GA_ROLL for (int first = 0; first < D / 32; first += CHUNKS) GA_UNROLL for (int c = 0; c < CHUNKS; c++) {
    float part[TILES][4] = {{0}};
    uint32_t y[TILES][8];
    GA_UNROLL for (int t = 0; t < TILES; t++)
        take_k(y[t], stage + (uint32_t)(8 * t * PITCH) + p->k, p->high_k, first, c);
    GA_UNROLL for (int s = 0; s < Q_STEPS; s++) {
      uint32_t w[4];
      if (!Q_REGS) lds_nv_u4(w, q + (uint32_t)((((first + c) * Q_STEPS + s) * 32 + lane) * 16));
      const uint32_t *left = Q_REGS ? qs[(first + c) * Q_STEPS + s] : w;
      GA_UNROLL for (int t = 0; t < TILES; t++) {
        if (F16_K)
          mma_nv_f16(part[t], left, y[t][2 * s], y[t][2 * s + 1]);
        else
          mma_nv_tf32(part[t], left, y[t][2 * s], y[t][2 * s + 1]);
      }
    }
    GA_UNROLL for (int t = 0; t < TILES; t++) GA_UNROLL for (int e = 0; e < 2; e++) {
      const float scale = BLOCKS ? scale_of(stage + p->scale_k + (uint32_t)((8 * t + e) * PITCH), first, c) : 1.0f;
      GA_UNROLL for (int i = e; i < 4; i += 2) sum[t][i] =
          BLOCKS ? fmaf(scale, part[t][i], sum[t][i]) : sum[t][i] + part[t][i];
    }
  }
  GA_UNROLL for (int i = 0; i < 2 * TILES; i++) {
    const float hi = sum[i / 2][i % 2], both = hi + sum[i / 2][2 + i % 2];
    x[i] = both != both && hi == hi ? hi : both; /* an infinity of K by a low part of 0 */
  }
}

/* 1 over a unit for scales up to `most`; 2^126, the finest, for none at all. */
GA_DEV float per_unit_of(float most) {
  const int field = 253 - (int)(float_bits(most) >> 23);
  return __uint_as_float((uint32_t)(field < 1 ? 1 : field) << 23);
}
/* The scales of a lane's keys 8t + 2q + e: of K in logits, of V as [2t + e]. */
GA_DEV void take_scales(uint32_t stage, int lane, float *x, float *v) {
  GA_UNROLL for (int t = 0; t < TILES; t++) {
    const uint32_t at = stage + (uint32_t)(SCALE_OFF + 32 * t + lane % 4 * 8);
    float k[2];
    lds_nv_f2(k, at);
    lds_nv_f2(v + 2 * t, at + 4 * KEYS);
    GA_UNROLL for (int e = 0; e < 2; e++) x[2 * t + e] *= k[e];
  }
}

/* Columns 0 to 3 of two keys' words as right operands. */
GA_DEV uint32_t pair_of_keys(const uint32_t *one, const uint32_t *two, int i) {
  if (IS_16BIT) return prmt(one[i / 2], two[i / 2], i % 2 ? 0x7632 : 0x5410);
  const uint32_t pairs = prmt(one[0], two[0], i < 2 ? 0x5140 : 0x7362);
  return f16x2_of_e4m3(i % 2 ? pairs >> 16 : pairs & 0xffffu);
}
/* o += p V, in f16: p[2t + e] of key 8t + 2q + e. */
GA_DEV void add_values_f16(const float *p, uint32_t at, state *s) {
  uint32_t w[TILES / 2][4]; /* of 16 keys */
  GA_UNROLL for (int t = 0; t < TILES; t++)
      split_weights_f16(p[2 * t] * P_UNIT, p[2 * t + 1] * P_UNIT, &w[t / 2][2 * (t % 2)], &w[t / 2][2 * (t % 2) + 1]);
  GA_UNROLL for (int b = 0; b < D / 32; b++) {
    if (D > 128) pin_u32(&at, 1);
    GA_UNROLL for (int h = 0; h < TILES / 2; h++) {
      uint32_t y[4][2];
      GA_UNROLL for (int n = 0; n < 4; n++) {
        const uint32_t from = (at ^ (uint32_t)(b * CHUNK_BYTES)) + (uint32_t)((16 * h + 8 * (n / 2) + n % 2) * PITCH);
        if (IS_16BIT)
          lds_nv_u2(y[n], from);
        else
          lds_nv_u1(y[n], from);
      }
      GA_UNROLL for (int i = 0; i < 4; i++)
          mma_nv_f16(s->o[4 * b + i], w[h], pair_of_keys(y[0], y[1], i), pair_of_keys(y[2], y[3], i));
    }
  }
}
/* The same in tf32. */
GA_DEV void add_values_tf32(const float *p, uint32_t at, uint32_t at_scale, int high, state *s) {
  uint32_t w[TILES][4];
  GA_UNROLL for (int i = 0; i < 2 * TILES && !BLOCKS; i++)
      split_weight_tf32(p[i], &w[i / 2][2 * (i % 2)], &w[i / 2][2 * (i % 2) + 1]);
  GA_UNROLL for (int b = 0; b < D / 32; b++) {
    if (D > 128) pin_u32(&at, 1);
    GA_UNROLL for (int t = 0; t < TILES; t++) {
      uint32_t y[2][2];
      GA_UNROLL for (int e = 0; e < 2; e++) {
        const uint32_t row = (uint32_t)((8 * t + e) * PITCH);
        if (BLOCKS) {
          take_codes(y[e], at + row, 0, b, high, 1);
          split_weight_tf32(p[2 * t + e] * scale_of(at_scale + row, 0, b), &w[t][2 * e], &w[t][2 * e + 1]);
        } else {
          lds_nv_u2(y[e], (at ^ (uint32_t)(b * CHUNK_BYTES)) + row);
        }
      }
      GA_UNROLL for (int i = 0; i < 4; i++) {
        float v[2];
        GA_UNROLL for (int e = 0; e < 2; e++) v[e] = BLOCKS ? code_value(y[e][0], i) : half_bf16(y[e][i / 2], i % 2);
        mma_nv_tf32(s->o[4 * b + i], w[t], float_bits(v[0]), float_bits(v[1]));
      }
    }
  }
}

/* To a unit for the warp's scales up to `largest`, if the one there is too small: what sums are to be multiplied by. */
GA_DEV float raise_unit(state *s, float largest) {
  largest = fmaxf(largest, shfl_xor_f32(largest, 1));
  largest = fmaxf(largest, shfl_xor_f32(largest, 2));
  const float before = s->per_unit, now = fminf(before, per_unit_of(largest));
  s->per_unit = now;
  return now * __uint_as_float(0x7f000000u - float_bits(before)) /* 1 / before */;
}

/* A step's keys, from j on, in the stage at `stage`. */
GA_DEV void take_step(const ga_kargs_attn_decode *a, const unit *u, int j, uint32_t q, uint32_t qs[][4],
                      const lane_offsets *p, uint32_t stage, int lane, state *s) {
  enum { OWN = 2 * TILES /* logits of a lane */ };
  float x[OWN], of_v[OWN], most = s->m, largest = 0;
  dots(q, qs, p, stage, lane, x);
  GA_UNROLL for (int i = 0; i < OWN; i++) x[i] *= s->factor;
  if (SCALES) take_scales(stage, lane, x, of_v);
  if (a->softcap > 0) GA_UNROLL
    for (int i = 0; i < OWN; i++) x[i] = a->softcap * tanhf(x[i] * rcp(a->softcap));
  const int key = j + lane % 4 * 2; /* of x[2t + e] 8t + e on */
  if (a->alibi && s->keys) {
    const int row = thread_index_anew() % 32 / 4;
    const float slope = a->alibi[head_of(a, u, row)];
    GA_UNROLL for (int i = 0; i < OWN; i++) x[i] += slope * (float)(key + 8 * (i / 2) + i % 2 - place_of(a, u, row));
  }
  GA_UNROLL for (int i = 0; i < OWN; i++) {
    if ((uint32_t)(key - s->first + 8 * (i / 2) + i % 2) >= s->keys) {
      x[i] = NONE;
      if (SCALES) of_v[i] = 0; /* a row's unit follows from the keys that it sees */
    }
    most = fmaxf(most, x[i]);
  }
  most = fmaxf(most, shfl_xor_f32(most, 1));
  most = fmaxf(most, shfl_xor_f32(most, 2));
  if (SCALES) GA_UNROLL
    for (int i = 0; i < OWN; i++) largest = fmaxf(largest, of_v[i]);
  if (warp_any(most > s->m || (SCALES && largest * s->per_unit >= 1))) {
    float shrink = weight_of(s->m, reference(most));
    s->l *= shrink;
    if (SCALES) shrink *= raise_unit(s, largest);
    GA_UNROLL for (int n = 0; n < D / 8; n++) GA_UNROLL for (int e = 0; e < 4; e++) s->o[n][e] *= shrink;
    s->m = most;
  }
  GA_UNROLL for (int i = 0; i < OWN; i++) {
    x[i] = weight_of(x[i], reference(most));
    s->l += x[i];
    if (SCALES) x[i] *= of_v[i] * s->per_unit;
  }
  if (F16_V)
    add_values_f16(x, stage + p->v, s);
  else
    add_values_tf32(x, stage + p->v, stage + p->scale_v, p->high_v, s);
}

/* ---- the kernel ---- */

GA_KERNEL(32 * GA_P_WARPS, 1 + TWICE) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_decode a) {
  const int tile = block_index() / a.splits, split = block_index() - tile * a.splits,
            b = tile / a.tiles / (a.q_heads / a.group);
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32), way = way_of(&a);
  const uint32_t q = smem_base(), ring = q + Q_BYTES, sent = ring + RING_BYTES, mine = sent + SENT_BYTES,
                 factors = mine + OFF_FACTORS;
  if (in_cluster(&a)) {
    if (thread_index() == 0) {
      mbar_init(mine, 1);
      mbar_init_fence();
    }
    warp_sync();
    cluster_arrive();
  }
  uint32_t own = ring + (uint32_t)(warp * STAGES * STAGE_BYTES);
  int page[STAGES]; /* of the steps to come */
  walk w = walk_from(&a, (split * WARPS + warp) * KEYS + lane % KEYS, a.splits * WARPS * KEYS), load_pos = w;
  const pages table = pages_of(&a, b);
  bool waited = !a.kv_ready;
  if (waited) grid_dependency_wait();
  /* Without a window the pages are known before the lengths. */
  GA_UNROLL for (int s = 0; s < STAGES; s++, walk_on(&load_pos)) page[s] =
      a.window ? 0 : page_at(&table, load_pos.index);
  const unit u = unit_of(&a, tile, ROWS);
  const share sh = share_of(&a, &u, split, warp);
  if (u.n <= 0 ||
      (split >= sh.parts && split > 0)) { /* no such rows in this sequence: the same for all splits; or no keys */
    if (in_cluster(&a)) cluster_wait();
    if (!waited) grid_dependency_wait(); /* the end of a grid is that of those before it */
    return;
  }
  if (a.window) {
    load_pos = w = walk_from(&a, sh.first + sh.step * KEYS + lane % KEYS, sh.stride * KEYS);
    GA_UNROLL for (int s = 0; s < STAGES; s++, walk_on(&load_pos)) page[s] = page_at(&table, load_pos.index);
  }
  const int r = lane / 4, there = r < u.n, p = place_of(&a, &u, r);
  const int first = a.window && p - a.window + 1 > u.from ? p - a.window + 1 : u.from;
  const int end = a.causal && p + 1 < u.to ? p + 1 : u.to;
  state s = {first, there && end > first ? (uint32_t)(end - first) : 0, 0, NONE, 0, per_unit_of(0), {{0}}};
  const lane_offsets of = lane_offsets_of(lane, way_shift(a.k, bytes_of_elements(u.h * a.k_head), way),
                                          way_shift(a.v, bytes_of_elements(u.h * a.v_head), way));
  uint32_t qs[Q_REGS ? D / 32 * Q_STEPS : 1][4] = {{0}};
  pin_u32(&own, 1);
  const int64_t q_at = q_offset(&a, &u, warp);
  put_no_q(&u, q, factors, warp, lane);
  put_merge(&a, &u, &sh, mine);
  int stage = 0, turn = 0;
  GA_ROLL for (int step = sh.step - STAGES * sh.stride; step < sh.steps; step += sh.stride, turn++) {
    uint32_t at = own + (uint32_t)(stage * STAGE_BYTES);
    if (turn >= STAGES) {
      cp_async_wait(STAGES - 1);
      warp_sync();
      pin_u32(&at, 1);
      take_step(&a, &u, sh.first + step * KEYS, q, qs, &of, at, lane, &s);
      GA_UNROLL for (int n = 0; n < D / 8; n++) pin_f32(s.o[n], 4); /* the stage has been read */
      if (step + sh.stride >= sh.steps) break;
      warp_sync();
    }
    const int more = step + STAGES * sh.stride, key = sh.first + more * KEYS;
    if (!waited && more < sh.steps && key + KEYS > u.n_kv - u.n_q) { /* the keys that the grid ahead may write */
      grid_dependency_wait();
      waited = true;
    }
    if (more < sh.steps) copy_step(&a, &u, key, page[0], u.kv_first + w.token, way, at, lane);
    cp_async_commit();
    GA_UNROLL for (int i = 0; i < STAGES - 1; i++) page[i] = page[i + 1];
    walk_on(&w);
    if (more + STAGES * sh.stride < sh.steps) page[STAGES - 1] = page_at(&table, load_pos.index);
    walk_on(&load_pos);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    if (turn != STAGES - 1) continue;
    if (in_cluster(&a)) cluster_wait(); /* its blocks have begun, and their barriers are there */
    if (!waited) grid_dependency_wait();
    waited = true;
    grid_launch_dependents();
    put_q(&a, &u, q_at, q, factors, warp, lane); /* in every warp: the first STAGES turns are for all */
    block_sync();
    GA_UNROLL for (int i = 0; i < D / 32 * Q_STEPS && Q_REGS; i++) lds_u4(qs[i], q + (uint32_t)((i * 32 + lane) * 16));
    s.factor = lds_f1(factors + (uint32_t)(4 * r));
  }
  block_sync();
  put_state(ring, warp, lane, u.n, &s);
  const merge how = merge_of(mine);
  const int row_floats = a.v_dim + 4, left = how.quads - split * how.per,
            owned = left < how.per ? left : how.per; /* of a cluster's block */
  const bool alone = how.parts == 1, cluster_reduce = in_cluster(&a) && !alone;
  float *parts = a.partial + (int64_t)tile * a.splits * ROWS * row_floats,
        *part = parts + (int64_t)split * ROWS * row_floats;
  if (cluster_reduce && thread_index() == 0 && owned > 0) mbar_arrive_expect(mine, (uint32_t)(owned * how.parts * 32));
  block_sync();
  GA_ROLL for (int i = thread_index(); i < how.quads; i += THREADS) {
    const uint32_t p = plan_at(mine, i);
    const int row = plan_row(p), c = plan_column(p);
    const quad x = add_warps(ring, row, c);
    if (cluster_reduce)
      send_quad(sent, mine, plan_owner(p), split * how.per + plan_slot(p), &x);
    else if (alone)
      finish_merge(&a, &u, mine, row, c, &x);
    else
      put_split(part + row * row_floats, c, a.v_dim, &x);
  }
  GA_ROLL for (int i = thread_index(); cluster_reduce && i < owned; i += THREADS) {
    const uint32_t p = plan_at(mine, split * how.per + i);
    mbar_wait(mine, 0);
    const quad x = add_sent(sent + (uint32_t)(i * 32), how.per * 32, how.parts);
    finish_merge(&a, &u, mine, plan_row(p), plan_column(p), &x);
  }
  if (cluster_reduce || alone) return;
  block_sync();
  if (thread_index() == 0) sts_f1(mine + OFF_FLAG, count_split(&a, tile, sh.parts) ? 1.0f : 0.0f);
  block_sync();
  if (lds_f1(mine + OFF_FLAG) == 0) return; /* another block is last */
  GA_ROLL for (int i = thread_index(); i < how.quads; i += THREADS) {
    const uint32_t p = plan_at(mine, i);
    const int row = plan_row(p), c = plan_column(p);
    const quad x = add_splits_of(parts + (int64_t)row * row_floats, ROWS * row_floats, how.parts, c, a.v_dim);
    finish_merge(&a, &u, mine, row, c, &x);
  }
}
