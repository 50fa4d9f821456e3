/* KERNEL    attn_quant, sm90a
 * COMPUTES  8-bit Q, K (after RoPE, Hadamard transform) or V (transposed, in the order of P's registers; also without its columns' means) and
 *           scales: ga/attn_quant.h. Y fp8: e4m3;
 *           Y i8: Q and K alone, also with a scale a token
 * CONTRACT  16-bit x of head dim D, contiguous, 16-byte aligned, strides multiples of 8; y 16-byte aligned, strides multiples of 16
 * DATA      gmem -> registers (16 rows a warp, D / 32 columns a lane) -> 8 bits -> gmem (rows), or -> smem -> gmem (values)
 * MEANS     of V's columns: a launch of its own before, kind MEANS, 16 columns of a head a block
 * BARRIERS  block_sync: maxima of the warps; the tile of values written, read; MEANS: the warps' sums
 * BUDGET    256 threads: 128 tokens of a head at a time, round-robin; smem: the tile of values, D x 128 bytes, maxima
 * MEASURED  docs/perf/attention-fp8.md
 * REF       Shah et al. 2024 (block scales, incoherent processing)
 */
#include "core/kargs_attn_fp8.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/e4m3.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_Y
#error "GA_P_Y: type of y: fp8 (e4m3) or i8"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of x: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim: 64, 128, 256"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor"
#endif

#define GA_IS_fp8 0
#define GA_IS_i8 1

enum {
  I8 = GA_CAT(GA_IS_, GA_P_Y),
  D = GA_P_D,
  E = D / 32, /* columns of a lane */
  WARPS = 8,
  ROWS = 16, /* of a warp */
  TOKENS = WARPS * ROWS,
  KEYS = TOKENS, /* bytes of a row of values */
  OFF_MOST = D * KEYS,
  SMEM_BYTES = OFF_MOST + 4 * WARPS,
  NEOX = 1,  /* ga_rope_pairs */
  VALUES = 1, /* ga_attn_quant_kind */
  MEANS = 2,  /* of cuda_attn_quant.c alone */
  MEAN_COLUMNS = 16,
  MEAN_ROWS = 128, /* tokens of a block at a time */
  AT_ONCE = 8      /* of a thread: loads under way */
};
static_assert(D == 64 || D == 128 || D == 256, "2, 4 or 8 columns a lane");
#ifdef GA_P_SMEM
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");
#endif

#define WIDEN   GA_CAT(elem_f32_of_, GA_P_DTYPE)

typedef const ga_kargs_attn_quant *args;

/* 128 tokens of a head. */
typedef struct {
  int64_t batch;
  int head, token0, lane, warp;
} place;

GA_DEV int token_of(const place *p, int r) {
  return p->token0 + p->warp * ROWS + r;
}
/* Rows behind the last token are 0. */
GA_DEV void load_rows(args a, const place *p, float *x) {
  const uint16_t *base = (const uint16_t *)a->x + p->batch * a->x_batch + p->head * a->x_head + p->lane * E;
  uint32_t w[ROWS * E / 2];
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    const uint16_t *row = base + token_of(p, r) * a->x_token;
    GA_UNROLL for (int i = 0; i < E / 2; i++) w[r * E / 2 + i] = 0;
    if (token_of(p, r) >= a->tokens) continue;
    if (E == 2) ldg_stream_u1(w + r, row);
    if (E == 4) ldg_stream_u2(w + 2 * r, row);
    if (E == 8) ldg_stream_u4(w + 4 * r, row);
  }
  GA_UNROLL for (int i = 0; i < ROWS * E / 2; i++) {
    x[2 * i] = WIDEN((uint16_t)w[i]);
    x[2 * i + 1] = WIDEN((uint16_t)(w[i] >> 16));
  }
}
/* Takes the means off x. */
GA_DEV void centre(args a, const place *p, float *x) {
  const int rows = a->tokens - token_of(p, 0);
  const float *mean = a->mean + (p->batch * a->heads + p->head) * D + p->lane * E;
  GA_UNROLL for (int e = 0; e < E; e++) {
    const float m = ldg_f32(mean + e);
    GA_UNROLL for (int r = 0; r < ROWS; r++) x[r * E + e] -= r < rows ? m : 0.f;
  }
}
/* Adds 8 columns of AT_ONCE tokens, from `row` on, 128 apart. */
GA_DEV void add_tokens(args a, const uint16_t *row, int token, float *sum) {
  uint32_t w[4 * AT_ONCE];
  GA_UNROLL for (int i = 0; i < AT_ONCE; i++) {
    GA_UNROLL for (int k = 0; k < 4; k++) w[4 * i + k] = 0;
    if (token + i * MEAN_ROWS < a->tokens) ldg_stream_u4(w + 4 * i, row + i * MEAN_ROWS * a->x_token);
  }
  GA_UNROLL for (int i = 0; i < AT_ONCE; i++) GA_UNROLL for (int k = 0; k < 4; k++) {
    sum[2 * k] += WIDEN((uint16_t)w[4 * i + k]);
    sum[2 * k + 1] += WIDEN((uint16_t)(w[4 * i + k] >> 16));
  }
}
/* The means of 16 columns of a head, two threads a token; always in the same order. */
GA_DEV void column_means(args a, uint32_t sb, int pair, int column) {
  const int token = thread_index() >> 1, part = thread_index() & 1, lane = thread_index() & 31, warp = thread_index() >> 5;
  const uint16_t *row = (const uint16_t *)a->x + pair / a->heads * a->x_batch + pair % a->heads * a->x_head + token * a->x_token + column + 8 * part;
  float sum[8] = {};
  GA_ROLL for (int t = token; t < a->tokens; t += AT_ONCE * MEAN_ROWS, row += AT_ONCE * MEAN_ROWS * a->x_token) add_tokens(a, row, t, sum);
  GA_UNROLL for (int i = 0; i < 8; i++) {
    GA_UNROLL for (int k = 2; k < 32; k *= 2) sum[i] += shfl_xor_f32(sum[i], k);
    if (lane < 2) sts_f1(sb + 4 * (uint32_t)(warp * MEAN_COLUMNS + 8 * part + i), sum[i]);
  }
  block_sync();
  if (thread_index() < MEAN_COLUMNS) {
    float all = 0.f;
    GA_UNROLL for (int w = 0; w < WARPS; w++) all += lds_f1(sb + 4 * (uint32_t)(w * MEAN_COLUMNS + thread_index()));
    stg_f32(a->mean + (int64_t)pair * D + column + thread_index(), all / (float)a->tokens);
  }
  block_sync(); /* before the next unit writes to shared memory */
}
/* RoPE of one row, in shared memory: pairs are shared out among the lanes. The angle is reduced in double: far positions keep their
 * phase. */
GA_DEV void turn_row(args a, const place *p, uint32_t row, int64_t token, float *x) {
  const int half = a->rot_dim / 2, position = ldg_i32(a->positions + token);
  GA_UNROLL for (int e = 0; e < E; e += 2) sts_f2(row + 4 * (uint32_t)(p->lane * E + e), x[e], x[e + 1]);
  warp_sync();
  GA_ROLL for (int i = p->lane; i < half; i += 32) {
    const uint32_t at0 = row + 4 * (uint32_t)(a->pairs == NEOX ? i : 2 * i), at1 = at0 + 4 * (uint32_t)(a->pairs == NEOX ? half : 1);
    const double turns = (double)position * (double)ldg_f32(a->inv_freq + i) * 0.15915494309189535 /* 1 / 2 pi */;
    const float x0 = lds_f1(at0), x1 = lds_f1(at1);
    float sine, cosine;
    sincos_pi((float)(2.0 * (turns - rint(turns))), &sine, &cosine);
    sts_f1(at0, a->magnitude * (x0 * cosine - x1 * sine));
    sts_f1(at1, a->magnitude * (x0 * sine + x1 * cosine));
  }
  warp_sync();
  GA_UNROLL for (int e = 0; e < E; e += 2) lds_f2(x + e, row + 4 * (uint32_t)(p->lane * E + e));
  warp_sync();
}
/* H S x / sqrt(D) of all rows: steps within a lane, then between lanes. */
GA_DEV void hadamard(args a, const place *p, float *x) {
  const uint32_t sign = a->sign[p->lane * E / 32] >> (p->lane * E % 32);
  const float scale = D == 64 ? 0.125f : D == 128 ? 0.0883883476f : 0.0625f;
  GA_UNROLL for (int e = 0; e < E; e++) {
    const float s = sign >> e & 1 ? -scale : scale;
    GA_UNROLL for (int r = 0; r < ROWS; r++) x[r * E + e] *= s;
  }
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    float *y = x + r * E;
    GA_UNROLL for (int step = 1; step < E; step *= 2) GA_UNROLL for (int e = 0; e < E; e++) {
      if (e & step) continue;
      const float u = y[e], v = y[e + step];
      y[e] = u + v;
      y[e + step] = u - v;
    }
    GA_UNROLL for (int k = 1; k < 32; k *= 2) GA_UNROLL for (int e = 0; e < E; e++) {
      const float v = shfl_xor_f32(y[e], k);
      y[e] = p->lane & k ? v - y[e] : y[e] + v;
    }
  }
}
/* The larger of a and |x|; i8 cannot hold a NaN, which is the largest of all there, in the order of bits. */
GA_DEV float larger(float a, float x) {
  const int u = bits_of(a), v = bits_of(fabsf(x));
  return I8 ? float_of(u > v ? u : v) : fmaxf(a, fabsf(x));
}
GA_DEV float warp_most(float most) {
  if (I8) return float_of(redux_max_i32(bits_of(most)));
  GA_UNROLL for (int k = 1; k < 32; k *= 2) most = fmaxf(most, shfl_xor_f32(most, k));
  return most;
}
GA_DEV float scale_from(float most) {
  return !I8 ? e4m3_scale(most) : most == 0.f ? 1.f : most * (1.f / 127.f);
}
/* 1 / scale of each row, which has its own; lane r writes that of row r. */
GA_DEV void row_scales(args a, const place *p, const float *x, float *f) {
  float mine = 0.f;
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    float most = 0.f;
    GA_UNROLL for (int e = 0; e < E; e++) most = larger(most, x[r * E + e]);
    const float scale = scale_from(warp_most(most));
    if (p->lane == r) mine = scale;
    f[r] = rcp(scale);
  }
  const int token = token_of(p, p->lane);
  if (p->lane < ROWS && token < a->tokens) stg_f32(a->scale + (p->batch * a->heads + p->head) * a->blocks + token, mine);
}
/* The scale of this warp's rows, written where it is made. */
GA_DEV float scale_of(args a, const place *p, uint32_t sb, const float *x) {
  if (!a->scale_tokens) return ldg_f32(a->given + p->batch * a->given_batch + p->head * a->given_head);
  float most = 0.f;
  GA_UNROLL for (int i = 0; i < ROWS * E; i++) most = larger(most, x[i]);
  most = warp_most(most);
  if (p->lane == 0) sts_f1(sb + OFF_MOST + 4 * (uint32_t)p->warp, most);
  block_sync();
  const int warps = a->scale_tokens / ROWS, first = p->warp / warps * warps;
  most = 0.f;
  GA_ROLL for (int w = first; w < first + warps; w++) most = larger(most, lds_f1(sb + OFF_MOST + 4 * (uint32_t)w));
  const float scale = scale_from(most);
  const int block = (p->token0 + first * ROWS) / a->scale_tokens;
  if (p->warp == first && p->lane == 0 && block < a->blocks) stg_f32(a->scale + (p->batch * a->heads + p->head) * a->blocks + block, scale);
  return scale;
}
GA_DEV uint32_t pack4(float a, float b, float c, float d) {
  return I8 ? pack4_s8(a, b, c, d) : pack4_e4m3(a, b, c, d);
}
GA_DEV void store_rows(args a, const place *p, const float *x, const float *f) {
  uint8_t *base = (uint8_t *)a->y + p->batch * a->y_batch + p->head * a->y_head + p->lane * E;
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    uint8_t *row = base + token_of(p, r) * a->y_token;
    const float *y = x + r * E;
    if (token_of(p, r) >= a->tokens) continue;
    if (E == 2) stg_u16((uint16_t *)row, (uint16_t)pack4(y[0] * f[r], y[1] * f[r], 0.f, 0.f));
    GA_UNROLL for (int e = 0; e + 3 < E; e += 4)
        stg_i32((int32_t *)(row + e), (int)pack4(y[e] * f[r], y[e + 1] * f[r], y[e + 2] * f[r], y[e + 3] * f[r]));
  }
}
/* A warp's 16 tokens are 16 bytes of each row of values: tokens 2 q, 2 q + 1, 2 q + 8, 2 q + 9 are word q. Chunks of 16 bytes are stored at
 * chunk ^ lane % 8 of their row: neither side has bank conflicts. */
GA_DEV void store_values(args a, const place *p, uint32_t sb, const float *x, float f) {
  GA_UNROLL for (int e = 0; e < E; e++) {
    uint32_t w[4];
    GA_UNROLL for (int q = 0; q < 4; q++)
        w[q] = pack4_e4m3(x[2 * q * E + e] * f, x[(2 * q + 1) * E + e] * f, x[(2 * q + 8) * E + e] * f, x[(2 * q + 9) * E + e] * f);
    sts_i4(sb + (uint32_t)((p->lane * E + e) * KEYS + ((p->warp ^ (p->lane & 7)) << 4)), (int)w[0], (int)w[1], (int)w[2], (int)w[3]);
  }
  block_sync();
  uint8_t *base = (uint8_t *)a->y + p->batch * a->y_batch + p->head * a->y_head + p->token0;
  const int chunk = p->lane & 7;
  GA_ROLL for (int row = p->warp * 4 + (p->lane >> 3); row < D; row += 4 * WARPS) {
    const ga_i4 v = lds_i4(sb + (uint32_t)(row * KEYS + ((chunk ^ (row / E & 7)) << 4)));
    stg_u4(base + row * a->y_token + 16 * chunk, (uint32_t)v.x, (uint32_t)v.y, (uint32_t)v.z, (uint32_t)v.w);
  }
}

GA_KERNEL(32 * WARPS, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_quant k) {
  args a = &k;
  const uint32_t sb = smem_base();
  grid_dependency_wait();
  grid_launch_dependents();
  for (int u = block_index(); u < a->units; u += block_count()) {
    const int pair = u / a->units_per_head;
    if (!I8 && a->kind == MEANS) {
      column_means(a, sb, pair, (u - pair * a->units_per_head) * MEAN_COLUMNS);
      continue;
    }
    const place p = {pair / a->heads, pair % a->heads, (u - pair * a->units_per_head) * TOKENS, thread_index() & 31, thread_index() >> 5};
    float x[ROWS * E];
    load_rows(a, &p, x);
    if (!I8 && a->centre) centre(a, &p, x);
    if (a->rot_dim) GA_UNROLL for (int r = 0; r < ROWS; r++) {
        if (token_of(&p, r) < a->tokens) turn_row(a, &p, sb + (uint32_t)p.warp * D * 4, p.batch * a->tokens + token_of(&p, r), x + r * E);
      }
    if (a->hadamard) hadamard(a, &p, x);
    float f[ROWS];
    if (I8 && a->scale_tokens == 1) {
      row_scales(a, &p, x, f);
    } else {
      f[0] = rcp(scale_of(a, &p, sb, x));
      GA_UNROLL for (int r = 1; r < ROWS; r++) f[r] = f[0];
    }
    if (!I8 && a->kind == VALUES)
      store_values(a, &p, sb, x, f[0]);
    else
      store_rows(a, &p, x, f);
    block_sync(); /* before the next unit writes to shared memory */
  }
}
