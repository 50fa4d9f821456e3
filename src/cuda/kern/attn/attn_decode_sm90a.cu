/* KERNEL    attn_decode, sm90a: attention of few query rows over a long cache, at the speed of memory
 * COMPUTES  O = softmax(scale Q K^T + mask) V in f32: soft-cap, ALiBi, sinks, window, packed sequences, pages, GQA, LSE
 * CONTRACT  head_dim and v_dim up to D; K and V of one type: f16, bf16, e4m3 (rows of multiples of 16 bytes), q8_0 and q4_0
 *           (rows at even addresses, at multiples of 8 best).
 *           Lengths are read on the device, so that a recorded graph serves every length up to rows_k.
 *           A NaN or infinity in V may spread over its column of O (GA_KERNEL_V_FINITE); keys that no row of the tile sees are
 *           not read
 * PRODUCTS  tf32 with f32 sums: K and V (codes of blocks) are exact in tf32; Q and the weights are sums of two tf32 (22 bits),
 *           the high parts of 8 packed rows in rows 0 to 7 of an operand, the low parts in rows 8 to 15
 * WORK      steps of 16 keys go round the warps of all blocks of a tile, so that what a warp looks up first does not depend on the
 *           length; only as many blocks as have steps take part
 * DATA      K and V by cp.async to a ring of the warp's own, STAGES steps; no barrier of the block inside the loop
 * MERGE     warps through shared memory, blocks through gmem: the last one adds the parts in order, so results do not depend on
 *           who is last
 * BUDGET    WARPS warps, one block a multiprocessor; no spills
 * MEASURED  32/8 heads of 128 over f16 on an H200: 8.0 us at 512 keys, 12.7 at 4096, 26.8 at 16384 (docs/perf/cuda-decode.md)
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn/attn_packed.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of K and V: F16, BF16, E4M3, Q8_0 or Q4_0"
#endif
#ifndef GA_P_D
#error "GA_P_D: room for head_dim and v_dim: 64, 128 or 256"
#endif
#ifndef GA_P_WARPS
#error "GA_P_WARPS: warps of a block"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: steps of keys that a warp has under way"
#endif

#define KV GA_CAT(T_, GA_P_KV)
enum { D = GA_P_D, WARPS = GA_P_WARPS, THREADS = 32 * WARPS, STAGES = GA_P_STAGES, ROWS = 8 /* packed, of a tile */, KEYS = 16 /* of a step */ };
enum { BLOCKS = KV == T_Q8_0 || KV == T_Q4_0, BLOCK_BYTES = KV == T_Q8_0 ? 34 : 18, WIDE = KV == T_F16 || KV == T_BF16 };
/* Bytes of a row of K or V, and from row to row in shared memory: rows of blocks do not lie on swizzled 16-byte chunks, and a word behind them is
 * read. */
enum { ROW_BYTES = BLOCKS ? D / 32 * BLOCK_BYTES : WIDE ? 2 * D : D, PITCH = BLOCKS ? (ROW_BYTES + 16) / 16 * 16 : ROW_BYTES };
enum { STAGE_BYTES = 2 * KEYS * PITCH, Q_BYTES = D / 8 * 512, O_PITCH = D + 4 };
enum { Q_REGS = D <= 128 /* there is room for Q in registers */ };
enum { AHEAD = D > 128 ? 8 : 16 /* parts that are read at once */ };
static_assert(WARPS * STAGES * STAGE_BYTES >= WARPS * ROWS * (O_PITCH + 2) * 4, "the merge lies in the ring");

/* ---- the steps of a warp ---- */

typedef struct {
  int first, steps;  /* key of step 0, a multiple of KEYS; steps of the whole tile */
  int step, stride;  /* this warp's first; from one of its own to the next */
  int parts;         /* blocks that have steps */
} share;

GA_DEV share share_of(const ga_kargs_attn_rows *a, const unit *u, int split, int warp) {
  share s;
  s.first = u->from / KEYS * KEYS;
  s.steps = u->to > u->from ? (u->to - s.first + KEYS - 1) / KEYS : 0;
  s.step = split * WARPS + warp;
  s.stride = a->splits * WARPS;
  s.parts = (s.steps + WARPS - 1) / WARPS;
  if (s.parts > a->splits) s.parts = a->splits;
  return s;
}

/* Place of a lane's key, lane % KEYS of a step, in a sequence's pages, and what a step further adds. Without pages all is one. */
typedef struct {
  int index, token, by_index, by_token, page_size;
} walk;

GA_DEV walk walk_from(const ga_kargs_attn_rows *a, int key, int keys_a_stride) {
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
/* Page of the place. Past the end of the table its last entry is read: it is not used. */
GA_DEV int page_of(const ga_kargs_attn_rows *a, int b, const walk *w) {
  if (!a->page_table) return a->kv_start ? 0 : b;
  const int64_t i = w->index < a->page_stride ? w->index : a->page_stride - 1;
  return i < 0 ? 0 : ldg_i32(a->page_table + b * a->page_stride + i);
}

/* ---- K and V to shared memory ---- */

GA_DEV int64_t bytes_of(int64_t elements) {
  return BLOCKS ? elements / 32 * BLOCK_BYTES : WIDE ? 2 * elements : elements;
}
/* Which 16-byte chunk of row r holds chunk c: lanes that read together meet different banks. K is read by rows 0 to 7 and 64-byte
 * (8-bit types: 32-byte) pieces, V by rows 0, 2, 4, 6 and 32-byte pieces. Rows of 64 bytes have two such pieces only. */
GA_DEV int swizzle_k(int r) { return BLOCKS ? 0 : WIDE ? (r & 1) << 2 : PITCH < 128 ? (r >> 1 & 1) << 1 : (r & 3) << 1; }
GA_DEV int swizzle_v(int r) { return BLOCKS ? 0 : PITCH < 128 ? (r >> 1 & 1) << 1 : (r >> 1 & 3) << 1; }

/* Bytes from the start of K, or V, to a row, as lane `row` has them. */
GA_DEV int64_t offset_of(int64_t own, int row) {
  const uint32_t lo = shfl_idx_u32((uint32_t)own, row), hi = shfl_idx_u32((uint32_t)(own >> 32), row);
  return (int64_t)((uint64_t)hi << 32 | lo);
}

/* K and V of a step and where they go. own: from the start of each to the lane's key; there: bit for each key of the step. */
typedef struct {
  const uint8_t *k, *v;
  int64_t own_k, own_v;
  uint32_t there, stage;
  int k_bytes, v_bytes; /* of a row */
} copies;

GA_DEV void copy(uint32_t to, const uint8_t *src, int unit, bool has) {
  if (unit == 16) cp_async_16(to, src, has ? 16 : 0);
  else if (unit == 8) cp_async_8(to, src, has ? 8 : 0);
  else cp_async_4(to, src, has ? 4 : 0);
}

/* `unit` bytes a copy, zeros for keys that are not there and past a row's end. alike: own_k is own_v, in all lanes. */
GA_DEV void copy_rows(const copies *y, int unit, bool alike, int lane) {
  enum { EACH = D > 128 ? 1 : 2 }; /* copies in a row: more cost registers and code, fewer time */
  const int units = PITCH / unit, turns = KEYS * units / 32;
  static_assert(PITCH * KEYS % 256 == 0, "whole turns of all lanes");
  GA_ROLL for (int turn = 0; turn < turns; turn += EACH) GA_UNROLL for (int i = turn; i < turn + EACH; i++) {
    if (turns % EACH && i >= turns) break;
    const int at = i * 32 + lane, row = at / units, c = at - row * units;
    const int64_t off_k = offset_of(y->own_k, row), off_v = alike ? off_k : offset_of(y->own_v, row);
    const bool has = y->there >> row & 1, has_k = has && c * unit < y->k_bytes, has_v = has && c * unit < y->v_bytes;
    const uint32_t to = y->stage + (uint32_t)(row * PITCH);
    copy(to + (uint32_t)((c ^ swizzle_k(row)) * unit), has_k ? y->k + off_k + c * unit : y->k, unit, has_k);
    copy(to + (uint32_t)(KEYS * PITCH + (c ^ swizzle_v(row)) * unit), has_v ? y->v + off_v + c * unit : y->v, unit, has_v);
  }
}
/* Rows that lie at multiples of 2 bytes only: right, not fast. */
GA_DEV void copy_rows_2(const uint8_t *base, int64_t own, uint32_t there, int width, uint32_t dst, int lane) {
  const int words = PITCH / 4, bytes = (int)bytes_of(width);
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

/* The largest copy whose size all rows lie at multiples of: rows of blocks lie at any even address. */
GA_DEV int copy_unit(const ga_kargs_attn_rows *a) {
  if (!BLOCKS) return 16;
  const int64_t elements = a->k_batch | a->k_token | a->k_head | a->v_batch | a->v_token | a->v_head | a->head_dim | a->v_dim;
  const int blocks = (int)(elements >> 5 & 3); /* 34 and 18 are odd multiples of 2 */
  const uint64_t bits = (uint64_t)a->k | (uint64_t)a->v | (uint64_t)(blocks & 1 ? 2 : blocks ? 4 : 8);
  return bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

/* The step at key j, whose lanes are in `page` at `token` each. */
GA_DEV void copy_step(const ga_kargs_attn_rows *a, const unit *u, int j, int64_t page, int64_t token, int unit_bytes, uint32_t stage, int lane) {
  const copies y = {
      (const uint8_t *)a->k + bytes_of(u->h * a->k_head), (const uint8_t *)a->v + bytes_of(u->h * a->v_head),
      bytes_of(page * a->k_batch + token * a->k_token),   bytes_of(page * a->v_batch + token * a->v_token),
      warp_ballot(j + lane % KEYS >= u->from && j + lane % KEYS < u->to), stage,
      (int)bytes_of(a->head_dim), (int)bytes_of(a->v_dim)};
  const bool alike = a->k_batch == a->v_batch && a->k_token == a->v_token;
  if (!BLOCKS) {
    copy_rows(&y, 16, alike, lane);
  } else if (unit_bytes == 8) {
    copy_rows(&y, 8, alike, lane);
  } else if (unit_bytes == 4) {
    copy_rows(&y, 4, alike, lane);
  } else {
    copy_rows_2(y.k, y.own_k, y.there, a->head_dim, stage, lane);
    copy_rows_2(y.v, y.own_v, y.there, a->v_dim, stage + KEYS * PITCH, lane);
  }
}

/* ---- elements from shared memory ---- */

/* Bytes from `at` on, n = 4 or 8, at any even address. */
GA_DEV void take_bytes(uint32_t *w, uint32_t at, int n) {
  const uint32_t base = at & ~3u, sel = at & 2 ? 0x5432 : 0x3210;
  uint32_t x[3];
  GA_UNROLL for (int i = 0; i <= n / 4; i++) lds_free_u1(&x[i], base + 4 * (uint32_t)i);
  GA_UNROLL for (int i = 0; i < n / 4; i++) w[i] = prmt(x[i], x[i + 1], sel);
}
/* Byte e of w, an unsigned number, less `bias`. */
GA_DEV float number_of(uint32_t w, int e, float bias) {
  return __uint_as_float(prmt(w, 0x4b000000u, 0x7540u + (uint32_t)e)) - (8388608.0f + bias);
}

/* Elements [col, col + n) of the row at `row`: n is 4 or 8, and col a multiple of it. Of blocks: codes, without their scale. */
GA_DEV void take(float *x, uint32_t row, int swizzle, int col, int n) {
  uint32_t w[4];
  if (WIDE) {
    const uint32_t at = row + (uint32_t)(((col / 8 ^ swizzle) << 4) + col % 8 * 2);
    if (n == 8) lds_free_u4(w, at);
    else lds_free_u2(w, at);
    GA_UNROLL for (int e = 0; e < n; e++) {
      const uint32_t half = e % 2 ? w[e / 2] >> 16 : w[e / 2] & 0xffffu;
      x[e] = KV == T_F16 ? elem_f32_of_f16((uint16_t)half) : elem_f32_of_bf16((uint16_t)half);
    }
  } else if (!BLOCKS) {
    const uint32_t at = row + (uint32_t)(((col / 16 ^ swizzle) << 4) + col % 16);
    if (n == 8) lds_free_u2(w, at);
    else lds_free_u1(w, at);
    GA_UNROLL for (int e = 0; e < n / 2; e++) {
      const uint32_t two = f16x2_of_e4m3(e % 2 ? w[e / 2] >> 16 : w[e / 2] & 0xffffu);
      x[2 * e] = elem_f32_of_f16((uint16_t)two);
      x[2 * e + 1] = elem_f32_of_f16((uint16_t)(two >> 16));
    }
  } else if (KV == T_Q8_0) {
    take_bytes(w, row + (uint32_t)(col / 32 * BLOCK_BYTES + 2 + col % 32), n);
    GA_UNROLL for (int e = 0; e < n; e++) x[e] = number_of(w[e / 4] ^ 0x80808080u, e % 4, 128);
  } else { /* low nibbles are elements 0 to 15, high ones 16 to 31 */
    take_bytes(w, row + (uint32_t)(col / 32 * BLOCK_BYTES + 2 + col % 16), n);
    GA_UNROLL for (int e = 0; e < n; e++) x[e] = number_of(w[e / 4] >> (col % 32 < 16 ? 0 : 4) & 0x0f0f0f0fu, e % 4, 8);
  }
}
GA_DEV float scale_of(uint32_t row, int block) {
  const uint32_t at = row + (uint32_t)(block * BLOCK_BYTES);
  uint32_t word;
  lds_free_u1(&word, at & ~3u);
  return elem_f32_of_f16((uint16_t)(word >> 8 * (at & 2)));
}

/* ---- products. Lane numbers: g = lane / 4, q = lane % 4 ---- */

/* x to the nearest tf32. What is no number, or would become infinite, is only cut. */
GA_DEV float tf32_of(float x) {
  const uint32_t bits = float_bits(x), near = (bits + 0x1000u) & 0xffffe000u;
  if (x != x) return x;
  return __uint_as_float((near & 0x7f800000u) == 0x7f800000u ? bits & 0xffffe000u : near);
}
/* x as the sum of two tf32: what an infinity leaves is 0. */
GA_DEV void split_tf32(float x, uint32_t *hi, uint32_t *lo) {
  const float h = tf32_of(x), rest = x - h;
  *hi = float_bits(h);
  *lo = rest != rest ? 0u : float_bits(tf32_of(rest));
}

/* Q as left operands: for each 8 columns of a chunk of 32, at which lane (g, q) has row g of columns 8q + 2s and 8q + 2s + 1. */
GA_DEV void put_q(const ga_kargs_attn_rows *a, const unit *u, uint32_t q) {
  GA_ROLL for (int i = thread_index(); i < ROWS * D / 2; i += THREADS) {
    const int r = i / (D / 2), col = 2 * (i % (D / 2)), chunk = col / 32, lane = r * 4 + col % 32 / 8, s = col % 8 / 2;
    const int64_t token = u->q_first + query_of(a, u, r), head = head_of(a, u, r);
    const int64_t at = (a->q_start ? 0 : u->b * a->q_batch) + token * a->q_token + head * a->q_head + col;
    uint32_t w[4] = {0, 0, 0, 0};
    GA_UNROLL for (int e = 0; e < 2; e++)
      if (r < u->n && col < a->head_dim) split_tf32(plain_get(a->q_dtype, a->q, at + e), w + 2 * e, w + 2 * e + 1);
    sts_u2(q + (uint32_t)(((chunk * 4 + s) * 32 + lane) * 16), w[0], w[1]);
    sts_u2(q + (uint32_t)(((chunk * 4 + s) * 32 + lane) * 16 + 8), w[2], w[3]);
  }
}

enum { CHUNKS = D > 128 ? 2 : D / 32 /* of 32 columns at once: as many as there are registers for */ };
/* x[2t + e]: the dot product of row g and key 8t + 2q + e. */
GA_DEV void dots(uint32_t q, uint32_t qs[][4], uint32_t stage, int lane, float *x) {
  float sum[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  GA_ROLL for (int first = 0; first < D / 32; first += CHUNKS) GA_UNROLL for (int c = first; c < first + CHUNKS; c++) {
    float y[2][8], part[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    GA_UNROLL for (int t = 0; t < 2; t++)
      take(y[t], stage + (uint32_t)((8 * t + lane / 4) * PITCH), swizzle_k(lane / 4), 32 * c + lane % 4 * 8, 8);
    GA_UNROLL for (int s = 0; s < 4; s++) {
      uint32_t w[4];
      if (!Q_REGS) lds_free_u4(w, q + (uint32_t)(((c * 4 + s) * 32 + lane) * 16));
      GA_UNROLL for (int t = 0; t < 2; t++)
        mma_free_tf32(part[t], Q_REGS ? qs[c * 4 + s] : w, float_bits(y[t][2 * s]), float_bits(y[t][2 * s + 1]));
    }
    GA_UNROLL for (int t = 0; t < 2; t++) GA_UNROLL for (int e = 0; e < 4; e++) {
      const float scale = BLOCKS ? scale_of(stage + (uint32_t)((8 * t + lane % 4 * 2 + e % 2) * PITCH), c) : 1.0f;
      sum[t][e] = BLOCKS ? fmaf(scale, part[t][e], sum[t][e]) : sum[t][e] + part[t][e];
    }
  }
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const float hi = sum[i / 2][i % 2], both = hi + sum[i / 2][2 + i % 2];
    x[i] = both != both && hi == hi ? hi : both; /* an infinity of K by a low part of 0 */
  }
}

/* e^(x - m), where m is a running maximum: what has seen nothing has 0 in its place, so that e^(-inf - 0) = 0. Off by 2^-23 of 1. */
GA_DEV float reference(float m) { return m == NONE ? 0.0f : m; }
GA_DEV float weight_of(float x, float ref) { return ex2(elem_mul(x - ref, 1.44269504f /* log2 e */)); }

/* What a row sees, and its running sums. o[4b + i]: columns 32b + 8q + i and + 4 of row g, high parts, then low parts. */
typedef struct {
  int row, from, to;
  float m, l, o[D / 8][4];
} state;

/* o += p V; p[2t + e] of key 8t + 2q + e. */
GA_DEV void add_values(const float *p, uint32_t stage, int lane, state *s) {
  uint32_t w[2][4];
  GA_UNROLL for (int i = 0; i < 4 && !BLOCKS; i++) split_tf32(p[i], &w[i / 2][2 * (i % 2)], &w[i / 2][2 * (i % 2) + 1]);
  GA_UNROLL for (int b = 0; b < D / 32; b++) {
    if (D > 128) pin_u32(&stage, 1);
    GA_UNROLL for (int t = 0; t < 2; t++) {
      float y[2][4];
      GA_UNROLL for (int e = 0; e < 2; e++) {
        const int row = 8 * t + lane % 4 * 2 + e;
        const uint32_t at = stage + (uint32_t)(row * PITCH);
        take(y[e], at, swizzle_v(row), 32 * b + lane / 4 * 4, 4);
        if (BLOCKS) split_tf32(p[2 * t + e] * scale_of(at, b), &w[t][2 * e], &w[t][2 * e + 1]);
      }
      GA_UNROLL for (int i = 0; i < 4; i++) mma_free_tf32(s->o[4 * b + i], w[t], float_bits(y[0][i]), float_bits(y[1][i]));
    }
  }
}

/* A step's keys, from j on, in the stage at `stage`. */
GA_DEV void take_step(const ga_kargs_attn_rows *a, const unit *u, int j, uint32_t q, uint32_t qs[][4], uint32_t stage, int lane, state *s) {
  float x[4], most = s->m;
  dots(q, qs, stage, lane, x);
  GA_UNROLL for (int i = 0; i < 4; i++) x[i] *= a->scale;
  if (a->softcap > 0) GA_UNROLL for (int i = 0; i < 4; i++) x[i] = a->softcap * tanhf(x[i] / a->softcap);
  const int key = j + lane % 4 * 2; /* of x[2t + e] 8t + e on */
  if (a->alibi && s->to) {
    const float slope = a->alibi[head_of(a, u, s->row)];
    GA_UNROLL for (int i = 0; i < 4; i++) x[i] += slope * (float)(key + 8 * (i / 2) + i % 2 - place_of(a, u, s->row));
  }
  uint32_t seen = 0;
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const int at = key + 8 * (i / 2) + i % 2;
    if (at < s->from || at >= s->to) continue;
    seen |= 1u << i;
    most = fmaxf(most, x[i]);
  }
  most = fmaxf(most, shfl_xor_f32(most, 1));
  most = fmaxf(most, shfl_xor_f32(most, 2));
  if (warp_any(most > s->m)) {
    const float shrink = weight_of(s->m, reference(most));
    s->l *= shrink;
    GA_UNROLL for (int n = 0; n < D / 8; n++) GA_UNROLL for (int e = 0; e < 4; e++) s->o[n][e] *= shrink;
    s->m = most;
  }
  GA_UNROLL for (int i = 0; i < 4; i++) {
    x[i] = seen >> i & 1 ? weight_of(x[i], reference(most)) : 0.0f;
    s->l += x[i];
  }
  add_values(x, stage + KEYS * PITCH, lane, s);
}

/* ---- merging ---- */

/* Rows of O of each warp, then their maxima and sums, in the ring. */
GA_DEV uint32_t warp_o(uint32_t ring, int warp, int r) { return ring + (uint32_t)((warp * ROWS + r) * O_PITCH * 4); }
GA_DEV uint32_t warp_ml(uint32_t ring, int warp, int r) { return ring + (uint32_t)(WARPS * ROWS * O_PITCH * 4 + (warp * ROWS + r) * 8); }

GA_DEV void put_state(uint32_t ring, int warp, int lane, const state *s) {
  const float l = s->l + shfl_xor_f32(s->l, 1), sum = l + shfl_xor_f32(l, 2);
  if (lane % 4 == 0) sts_f2(warp_ml(ring, warp, lane / 4), s->m, sum);
  GA_UNROLL for (int b = 0; b < D / 32; b++) GA_UNROLL for (int e = 0; e < 2; e++) {
    float x[4];
    GA_UNROLL for (int i = 0; i < 4; i++) x[i] = s->o[4 * b + i][e] + s->o[4 * b + i][2 + e];
    sts_f4(warp_o(ring, warp, lane / 4) + (uint32_t)(32 * b + lane % 4 * 8 + 4 * e) * 4, x);
  }
}

/* Four columns of a row: their sum, and the row's maximum and weight. */
typedef struct {
  float m, l, o[4];
} quad;

GA_DEV quad quad_none(void) {
  const quad r = {NONE, 0, {0, 0, 0, 0}};
  return r;
}
/* Takes up parts [0, n) of which it is given m, l and o. */
GA_DEV void quad_add(quad *r, int n, const float *m, const float *l, float o[][4]) {
  float most = r->m;
  GA_UNROLL for (int e = 0; e < n; e++) most = fmaxf(most, m[e]);
  const float ref = reference(most), shrink = weight_of(r->m, ref);
  r->m = most;
  r->l *= shrink;
  GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] *= shrink;
  GA_UNROLL for (int e = 0; e < n; e++) {
    const float weight = weight_of(m[e], ref);
    r->l += weight * l[e];
    GA_UNROLL for (int i = 0; i < 4; i++) r->o[i] += weight * o[e][i];
  }
}

GA_DEV quad add_warps(uint32_t ring, int r, int c) {
  quad sum = quad_none();
  float m[WARPS], l[WARPS], o[WARPS][4];
  GA_UNROLL for (int w = 0; w < WARPS; w++) {
    float ml[2];
    lds_f2(ml, warp_ml(ring, w, r));
    m[w] = ml[0];
    l[w] = ml[1];
    lds_f4(o[w], warp_o(ring, w, r) + (uint32_t)c * 4);
  }
  quad_add(&sum, WARPS, m, l, o);
  return sum;
}

/* The same of the blocks' parts. at: of the first, from one to the next `step` floats. */
GA_DEV quad add_parts(const float *at, int64_t step, int parts, int c, int v_dim) {
  quad sum = quad_none();
  GA_ROLL for (int first = 0; first < parts; first += AHEAD) {
    float m[AHEAD], l[AHEAD], o[AHEAD][4];
    GA_UNROLL for (int e = 0; e < AHEAD; e++) {
      const float *p = at + (first + e) * step;
      const bool there = first + e < parts;
      m[e] = NONE;
      l[e] = 0;
      GA_UNROLL for (int i = 0; i < 4; i++) o[e][i] = 0;
      if (!there) continue;
      ldg_f4(o[e], p + c);
      m[e] = ldg_f32(p + v_dim);
      l[e] = ldg_f32(p + v_dim + 1);
    }
    quad_add(&sum, AHEAD, m, l, o);
  }
  return sum;
}

/* O and LSE of row r from the sum over all its keys: columns c to c + 3. */
GA_DEV void finish(const ga_kargs_attn_rows *a, const unit *u, int r, int c, const quad *x) {
  const int head = head_of(a, u, r), i = query_of(a, u, r);
  const bool none = x->m == NONE && x->l == 0;
  float m = x->m, l = x->l, shrink = 1;
  if (a->sinks && !none) {
    const float sink = a->sinks[head];
    m = fmaxf(m, sink);
    shrink = expf(x->m - m);
    l = l * shrink + expf(sink - m);
  }
  const float factor = none ? 0.0f : shrink / l;
  const int64_t at = (a->q_start ? 0 : u->b * a->o_batch) + (int64_t)(u->q_first + i) * a->o_token + head * a->o_head + c;
  GA_UNROLL for (int e = 0; e < 4; e++) plain_put(a->o_dtype, a->o, at + e, none ? 0.0f : x->o[e] * factor);
  if (a->lse && c == 0) a->lse[((int64_t)u->b * a->q_heads + head) * a->rows_q + i] = none ? NONE : m + logf(l);
}

/* ---- the kernel ---- */

GA_KERNEL(32 * GA_P_WARPS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_rows a) {
  GA_SHARED int is_last;
  const int tile = block_index() / a.splits, split = block_index() % a.splits, b = tile / a.tiles / (a.q_heads / a.group);
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32), unit_bytes = copy_unit(&a);
  const uint32_t q = smem_base(), ring = q + Q_BYTES;
  uint32_t own = ring + (uint32_t)(warp * STAGES * STAGE_BYTES);
  int page[STAGES + 1]; /* of the steps to come, then of the next one only */
  walk w = walk_from(&a, (split * WARPS + warp) * KEYS + lane % KEYS, a.splits * WARPS * KEYS), ahead = w;
  grid_dependency_wait();
  grid_launch_dependents();
  /* Without a window the pages are known before the lengths. */
  GA_UNROLL for (int s = 0; s <= STAGES; s++, walk_on(&ahead)) page[s] = a.window ? 0 : page_of(&a, b, &ahead);
  const unit u = unit_of(&a, tile, ROWS);
  if (u.n <= 0) return; /* no such rows in this sequence: the same for all splits */
  const share sh = share_of(&a, &u, split, warp);
  if (split >= sh.parts && split > 0) return;
  if (a.window) {
    ahead = w = walk_from(&a, sh.first + sh.step * KEYS + lane % KEYS, sh.stride * KEYS);
    GA_UNROLL for (int s = 0; s <= STAGES; s++, walk_on(&ahead)) page[s] = page_of(&a, b, &ahead);
  }
  const int r = lane / 4, there = r < u.n, p = place_of(&a, &u, r);
  const int first = a.window && p - a.window + 1 > u.from ? p - a.window + 1 : u.from;
  state s = {r, first, !there ? 0 : a.causal && p + 1 < u.to ? p + 1 : u.to, NONE, 0, {{0}}};
  uint32_t qs[Q_REGS ? D / 8 : 1][4] = {{0}};
  pin_u32(&own, 1);
  int stage = 0, turn = 0;
  GA_ROLL for (int step = sh.step - STAGES * sh.stride; step < sh.steps; step += sh.stride, turn++) {
    uint32_t at = own + (uint32_t)(stage * STAGE_BYTES);
    if (turn >= STAGES) {
      cp_async_wait(STAGES - 1);
      warp_sync();
      pin_u32(&at, 1);
      take_step(&a, &u, sh.first + step * KEYS, q, qs, at, lane, &s);
      GA_UNROLL for (int n = 0; n < D / 8; n++) pin_f32(s.o[n], 4); /* the stage has been read */
      warp_sync();
    }
    const int more = step + STAGES * sh.stride;
    if (more < sh.steps) copy_step(&a, &u, sh.first + more * KEYS, page[0], u.kv_first + w.token, unit_bytes, at, lane);
    cp_async_commit();
    GA_UNROLL for (int i = 0; i < STAGES; i++) page[i] = page[i + 1];
    walk_on(&w);
    if (more + (STAGES + 1) * sh.stride < sh.steps) page[STAGES] = page_of(&a, b, &ahead);
    walk_on(&ahead);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    if (turn != STAGES - 1) continue;
    put_q(&a, &u, q); /* in every warp: the first STAGES turns are for all */
    block_sync();
    GA_UNROLL for (int i = 0; i < D / 8 && Q_REGS; i++) lds_u4(qs[i], q + (uint32_t)((i * 32 + lane) * 16));
  }
  block_sync();
  put_state(ring, warp, lane, &s);
  block_sync();
  const int quads = a.v_dim / 4, row_floats = a.v_dim + 4;
  float *part = a.partial + (int64_t)tile * a.splits * ROWS * row_floats;
  for (int i = thread_index(); i < u.n * quads; i += THREADS) {
    const int row = i / quads, c = i % quads * 4;
    const quad x = add_warps(ring, row, c);
    if (sh.parts <= 1) {
      finish(&a, &u, row, c, &x);
      continue;
    }
    float *mine = part + ((int64_t)split * ROWS + row) * row_floats;
    stg_u4(mine + c, float_bits(x.o[0]), float_bits(x.o[1]), float_bits(x.o[2]), float_bits(x.o[3]));
    if (c == 0) stg_f32(mine + a.v_dim, x.m), stg_f32(mine + a.v_dim + 1, x.l);
  }
  if (sh.parts <= 1 || !is_last_part(&a, &is_last, tile, sh.parts)) return;
  for (int i = thread_index(); i < u.n * quads; i += THREADS) {
    const int row = i / quads, c = i % quads * 4;
    const quad x = add_parts(part + (int64_t)row * row_floats, (int64_t)ROWS * row_floats, sh.parts, c, a.v_dim);
    finish(&a, &u, row, c, &x);
  }
}
