/* KERNEL    attn_quant, sm90a
 * COMPUTES  8-bit Q or K (after RoPE and Hadamard transform) and scales: ga/attn_quant.h, ROWS. Y fp8: e4m3; Y i8: also
 *           with a scale a token
 * CONTRACT  16-bit x of head dim D, contiguous, 16-byte aligned, strides multiples of 8; y 16-byte aligned, strides
 *           multiples of 16
 * DATA      gmem -> smem (cp.async; each lane fetches its own data one unit early) -> registers -> 8 bits -> gmem.
 *           The four lanes of a row have 8 of every 32 columns each, 64 values a lane: loads are 64 bytes a row and
 *           stores 32, whole sectors. At least 64 KB of a multiprocessor are in flight; twice that is no faster, three
 *           times is slower. The first unit is brought to L2 while the previous launch still runs
 * HADAMARD  computed as a Kronecker product. Four bits of the column (half of a register, register, lane of a row) are
 *           transformed by mma with the 16 x 16 matrix of +-1 times a power of two, which is exact; the other bits
 *           number registers of a lane. The results of RoPE are not 16-bit numbers, so two shuffles a value replace
 *           the products after it
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     maxima of the warps that share a scale, in two slots by turns -> their reads; none
 *                                    where scales are given or are per token
 * BUDGET    2 D threads, 128 tokens of a head at a time, round-robin; 16 warps of 128 registers a multiprocessor; smem:
 *           4 KB a warp and stage, in which RoPE also rotates rows, and maxima
 * MEASURED  H200, 16384 tokens of 2048 columns to e4m3, Hadamard: 27.5 us at D = 64 and 128, 29.2 at 256
 *           (docs/log/attention-fp8.md)
 * REF       Shah et al. 2024 (block scales, incoherent processing)
 */
#include "cuda/dev/ptx/bits.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/prefetch.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"
#include "cuda/kern/attn_fp8/attn_quant_unit.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
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
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#define GA_IS_fp8 0
#define GA_IS_i8  1

enum {
  I8 = GA_CAT(GA_IS_, GA_P_Y),
  D = GA_P_D,
  EACH = 64,          /* values of a lane */
  CHUNKS = EACH / 8,  /* of 16 bytes of x */
  E = D / 4,          /* columns of a lane */
  ROW_CHUNKS = E / 8, /* chunk j of a row begins at column 32 j + 8 q */
  R = EACH / E,       /* rows of a lane, 8 apart */
  ROWS = 8 * R,       /* of a warp */
  TOKENS = 128,
  WARPS = TOKENS / ROWS,
  THREADS = 32 * WARPS,
  BLOCKS = 16 / WARPS,         /* of a multiprocessor */
  STAGE_BYTES = 32 * EACH * 2, /* of a warp, which has two */
  OFF_MOST = WARPS * 2 * STAGE_BYTES,
  SMEM_BYTES = OFF_MOST + 2 * 4 * WARPS,
  NEOX = 1 /* ga_rope_pairs */
};
static_assert(D == 64 || D == 128 || D == 256, "4, 2 or 1 rows a lane");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define TO_F32  GA_CAT(elem_f32_of_, GA_P_DTYPE)
#define PRODUCT GA_CAT(mma_nv_, GA_P_DTYPE)
/* 1 / sqrt(D) is a power of two, so that matrices of it are exact and sums cannot overflow, times the rest. */
#define POWER      (D == 64 ? 0.125f : 0.0625f)
#define REST       (D == 128 ? 1.41421356f : 1.0f)
#define POWER_bf16 (D == 64 ? 0x3e00u : 0x3d80u)
#define POWER_f16  (D == 64 ? 0x3000u : 0x2c00u)

/* p + step, digit by digit: divisions are for the first unit alone. */
GA_DEV block_coord next_coord(args a, block_coord p, block_coord step) {
  p.head += step.head, p.block += step.block, p.batch += step.batch;
  if (p.head >= a->heads) p.head -= a->heads, p.block++;
  if (p.block >= a->units_per_head) p.block -= a->units_per_head, p.batch++;
  return p;
}
/* Row r of this lane. */
GA_DEV int token_of(block_coord p, int r) {
  return p.block * TOKENS + (thread_index() >> 5) * ROWS + 8 * r + (thread_index() >> 2 & 7);
}
GA_DEV float *scale_at(args a, block_coord p, int i) {
  return a->scale + ((int64_t)p.batch * a->heads + p.head) * a->blocks + i;
}
/* Where this lane's first 16 bytes of a stage lie; those of other chunks follow 512 bytes apart. */
GA_DEV uint32_t chunks_at(uint32_t stage) { return stage + 16 * (uint32_t)(thread_index() & 31); }
GA_DEV const uint16_t *head_pointer(args a, block_coord p) {
  return (const uint16_t *)a->x + p.batch * a->x_batch + p.head * a->x_head + 8 * (thread_index() & 3);
}
/* Behind the last token comes that again, which no maximum minds. */
GA_DEV const uint16_t *row_of_head(args a, block_coord p, const uint16_t *head, int r) {
  const int token = token_of(p, r), last = a->tokens - 1;
  return head + (token < last ? token : last) * a->x_token;
}
GA_DEV void prefetch_rows(args a, block_coord p) {
  const uint16_t *head = head_pointer(a, p);
  GA_UNROLL for (int r = 0; r < R; r++) {
    const uint16_t *row = row_of_head(a, p, head, r);
    GA_UNROLL for (int j = 0; j < ROW_CHUNKS; j += 2) prefetch_l2(row + 32 * j);
  }
}
GA_DEV void fetch_rows(args a, block_coord p, uint32_t stage) {
  const uint16_t *head = head_pointer(a, p);
  GA_UNROLL for (int r = 0; r < R; r++) {
    const uint16_t *row = row_of_head(a, p, head, r);
    GA_UNROLL for (int j = 0; j < ROW_CHUNKS; j++)
        cp_async_16(chunks_at(stage) + 512 * (uint32_t)(r * ROW_CHUNKS + j), row + 32 * j, 16);
  }
}
GA_DEV void load_f32(uint32_t stage, float *x) {
  GA_UNROLL for (int c = 0; c < CHUNKS; c++) {
    uint32_t w[4];
    lds_u4(w, chunks_at(stage) + 512 * (uint32_t)c);
    GA_UNROLL for (int i = 0; i < 8; i++) x[8 * c + i] = TO_F32((uint16_t)(w[i / 2] >> 16 * (i & 1)));
  }
}
/* RoPE of the rows of half of the lanes, in shared memory: 4 of every 8, a row after the other, its pairs shared out
 * among all lanes. The angle is reduced in double: far positions keep their phase. */
GA_DEV void rope_rows_smem(args a, block_coord p, uint32_t rows, int side) {
  const int half = a->rot_dim / 2, last = a->tokens - 1, first = token_of(p, 0) - (thread_index() >> 2 & 7) + 4 * side;
  GA_ROLL for (int row = 0; row < 4 * R; row++, rows += 4 * D) {
    const int token = first + row / 4 * 8 + row % 4;
    const int position = ldg_i32(a->positions + (int64_t)p.batch * a->tokens + (token < last ? token : last));
    GA_ROLL for (int i = thread_index() & 31; i < half; i += 32) {
      const uint32_t at0 = rows + 4 * (uint32_t)(a->pairs == NEOX ? i : 2 * i),
                     at1 = at0 + 4 * (uint32_t)(a->pairs == NEOX ? half : 1);
      const double turns = (double)position * (double)ldg_f32(a->inv_freq + i) * 0.15915494309189535 /* 1 / 2 pi */;
      const float x0 = lds_f1(at0), x1 = lds_f1(at1);
      float sine, cosine;
      sincos_pi((float)(2.0 * (turns - rint(turns))), &sine, &cosine);
      sts_f1(at0, a->magnitude * (x0 * cosine - x1 * sine));
      sts_f1(at1, a->magnitude * (x0 * sine + x1 * cosine));
    }
  }
}
/* The stage that x came from is room for half of it in f32. */
GA_DEV void rope(args a, block_coord p, uint32_t stage, float *x) {
  const int lane = thread_index() & 31;
  const uint32_t mine = stage + 4 * (uint32_t)((lane >> 2 & 3) * D + 8 * (lane & 3));
  GA_ROLL for (int side = 0; side < 2; side++) {
    warp_sync();
    if (lane >> 4 == side) GA_UNROLL
      for (int i = 0; i < EACH; i += 4) sts_f4(mine + 4 * (uint32_t)(i / E * 4 * D + i % E / 8 * 32 + i % 8), x + i);
    warp_sync();
    rope_rows_smem(a, p, stage, side);
    warp_sync();
    if (lane >> 4 == side) GA_UNROLL
      for (int i = 0; i < EACH; i += 4) lds_f4(x + i, mine + 4 * (uint32_t)(i / E * 4 * D + i % E / 8 * 32 + i % 8));
  }
  warp_sync();
}
/* Signs of chunk j of a row: of columns 2 i and 2 i + 1 in bits 15 - i and 31 - i. */
GA_DEV uint32_t signs_of(args a, int j) { return a->sign[j] << 4 * (thread_index() & 3); }
/* A butterfly of the values whose column differs in that bit, in a lane. */
GA_DEV void butterfly(float *x, int step) {
  GA_UNROLL for (int i = 0; i < EACH; i++) {
    if (i & step) continue;
    const float u = x[i], v = x[i + step];
    x[i] = u + v;
    x[i + step] = u - v;
  }
}
/* x = H16 S w times POWER, over four bits of a column: 0 (half of a register), 2 (one register of two), 3 and 4 (the
 * lane of a row). The 16 bytes of a chunk are an operand as they are: registers 0 and 2 are its row g, 1 and 3 its row
 * g + 8. Products with columns 0 to 7 of H16 give outputs without bit 2, the others are the same but for the sign of k
 * 8 to 15: all of H16 is a register and its negative. */
GA_DEV void hadamard_products(args a, uint32_t stage, float *x) {
  const int lane = thread_index() & 31, q = lane & 3, g = lane >> 2;
  const uint32_t low = (uint32_t)bit_count((uint32_t)(2 * q & g)), high = low + (uint32_t)g; /* H16's signs, in bit 0 */
  const uint32_t b = (GA_CAT(POWER_, GA_P_DTYPE) * 0x10001u) ^ (low & 1) << 15 ^ high << 31, minus = b ^ 0x80008000u;
  GA_UNROLL for (int i = 0; i < EACH; i++) x[i] = 0.f;
  GA_UNROLL for (int c = 0; c < CHUNKS; c++) {
    uint32_t w[4];
    lds_u4(w, chunks_at(stage) + 512 * (uint32_t)c);
    GA_UNROLL for (int i = 0; i < 4; i++) w[i] ^= signs_of(a, c % ROW_CHUNKS) << i & 0x80008000u;
    PRODUCT(x + 8 * c, w, b, b);
    PRODUCT(x + 8 * c + 4, w, b, minus);
  }
}
/* Computes in floats, by shuffles, what hadamard_products computes by tensor cores. */
GA_DEV void hadamard_shuffles(args a, float *x) {
  GA_UNROLL for (int i = 0; i < EACH; i++) {
    const uint32_t sign = signs_of(a, i / 8 % ROW_CHUNKS) << i % 8 / 2 << (i & 1 ? 0 : 16) & 0x80000000u;
    x[i] = POWER * float_of(bits_of(x[i]) ^ (int)sign);
  }
  GA_UNROLL for (int k = 1; k < 4; k *= 2) {
    const float own = thread_index() & k ? -1.f : 1.f;
    GA_UNROLL for (int i = 0; i < EACH; i++) x[i] = shfl_xor_f32(x[i], k) + own * x[i];
  }
  butterfly(x, 1);
  butterfly(x, 4);
}
/* The bits of a column that the products leave. */
GA_DEV void butterflies(float *x) {
  butterfly(x, 2);
  GA_UNROLL for (int step = 8; step < E; step *= 2) butterfly(x, step);
}
/* The larger of |a| and |x|; i8 cannot hold a NaN, which is the largest of all there, in the order of bits too. */
GA_DEV float larger(float a, float x) { return I8 ? max_size(a, x) : fmaxf(a, fabsf(x)); }
/* Returns the largest magnitude of n values, by four chains of operations instead of one. */
GA_DEV float most_of(const float *x, int n) {
  float most[4] = {};
  GA_UNROLL for (int i = 0; i < n; i++) most[i % 4] = larger(most[i % 4], x[i]);
  return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}
/* Returns the scale for a largest magnitude; 1 if it would be 0. */
GA_DEV float scale_from(float most) {
  const float scale = most * (I8 ? 1.f / 127.f : 1.f / 448.f);
  return scale == 0.f ? 1.f : scale;
}
/* 1 / scale of each row, which has its own; x is `rest` times too small. */
GA_DEV void row_scales(args a, block_coord p, const float *x, float rest, float *f) {
  GA_UNROLL for (int r = 0; r < R; r++) {
    float most = rest * most_of(x + r * E, E);
    GA_UNROLL for (int k = 1; k < 4; k *= 2) most = larger(most, shfl_xor_f32(most, k));
    const float scale = scale_from(most);
    const int token = token_of(p, r);
    if ((thread_index() & 3) == 0 && token < a->tokens) stg_f32(scale_at(a, p, token), scale);
    f[r] = rcp(scale);
  }
}
/* The scale of this warp's rows, written where it is made. */
GA_DEV float block_scale(args a, block_coord p, uint32_t slots, const float *x, float rest) {
  const int lane = thread_index() & 31, warp = thread_index() >> 5, sharing = a->scale_tokens / ROWS,
            first = warp & -sharing;
  const float own = warp_most(rest * most_of(x, EACH));
  if (lane == 0) sts_f1(slots + 4 * (uint32_t)warp, own);
  block_sync();
  const float scale = scale_from(warp_most(lds_f1(slots + 4 * (uint32_t)(first + (lane & (sharing - 1))))));
  const int block = (p.block * TOKENS + first * ROWS) / a->scale_tokens;
  if (warp == first && lane == 0 && block < a->blocks) stg_f32(scale_at(a, p, block), scale);
  return scale;
}
GA_DEV void scales(args a, block_coord p, uint32_t slots, const float *x, float rest, float *f) {
  if (I8 && a->scale_tokens == 1) return row_scales(a, p, x, rest, f);
  const float scale = a->scale_tokens ? block_scale(a, p, slots, x, rest)
                                      : ldg_f32(a->given + p.batch * a->given_batch + p.head * a->given_head);
  GA_UNROLL for (int r = 0; r < R; r++) f[r] = rcp(scale);
}
GA_DEV uint32_t pack4(const float *x, float f) {
  return I8 ? pack4_s8(x[0] * f, x[1] * f, x[2] * f, x[3] * f) : pack4_e4m3(x[0] * f, x[1] * f, x[2] * f, x[3] * f);
}
GA_DEV void store_codes(args a, block_coord p, const float *x, const float *f) {
  uint8_t *base = (uint8_t *)a->y + p.batch * a->y_batch + p.head * a->y_head + 8 * (thread_index() & 3);
  GA_UNROLL for (int r = 0; r < R; r++) {
    const int token = token_of(p, r);
    if (token >= a->tokens) continue;
    uint8_t *row = base + token * a->y_token;
    GA_UNROLL for (int j = 0; j < ROW_CHUNKS; j++) {
      const float *y = x + r * E + 8 * j;
      stg_u2(row + 32 * j, pack4(y, f[r]), pack4(y + 4, f[r]));
    }
  }
}

/* x of a unit, but for what is left of the transform. */
GA_DEV void take_rows(args a, block_coord p, uint32_t stage, float *x) {
  if (a->hadamard && !a->rot_dim) return hadamard_products(a, stage, x);
  load_f32(stage, x);
  if (a->rot_dim) rope(a, p, stage, x);
}

GA_KERNEL(THREADS, BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_quant k) {
  args a = &k;
  const float rest = a->hadamard ? REST : 1.f;
  uint32_t slots = smem_base() + OFF_MOST, stage = smem_base() + (uint32_t)((thread_index() >> 5) * 2 * STAGE_BYTES);
  const block_coord step = block_coord_of(a, block_count());
  block_coord p = block_coord_of(a, block_index());
  prefetch_rows(a, p); /* reads nothing: what is in L2 is as new as what is written until then */
  grid_dependency_wait();
  grid_launch_dependents();
  fetch_rows(a, p, stage);
  cp_async_commit();
  for (int u = block_index(); u < a->units; u += block_count()) {
    const block_coord next = next_coord(a, p, step);
    float x[EACH], f[R];
    if (u + block_count() < a->units) fetch_rows(a, next, stage ^ STAGE_BYTES);
    cp_async_commit();
    cp_async_wait(1);
    take_rows(a, p, stage, x);
    if (a->hadamard && a->rot_dim) hadamard_shuffles(a, x);
    if (a->hadamard) butterflies(x);
    scales(a, p, slots, x, rest, f);
    GA_UNROLL for (int r = 0; r < R; r++) f[r] *= rest;
    store_codes(a, p, x, f);
    p = next;
    stage ^= STAGE_BYTES;
    slots ^= 4 * WARPS; /* others may still read these */
  }
}
