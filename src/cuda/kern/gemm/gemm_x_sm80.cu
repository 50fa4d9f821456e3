/* KERNEL    gemm_x, sm80: X for gemm_prefill
 * COMPUTES  X in bf16 or f16, zeros from k to width; each 16 columns in the order of packed weights on tensor
 *           cores: place 8h + 2q + e has column 4q + 2h + e (cuda/kern/gemm/packed.h). f16: a row is multiplied by the
 *           power of two that brings its largest finite element between 2^14 and 2^15, or by 2^114 at most. Elements
 *           2^39 times smaller than the largest become 0; the others are rounded to 11 bits. e4m3: 128 of k of a row
 *           have a scale, largest magnitude / 448, and X / scale is rounded; quotients are IEEE in f32, as in
 *           ga_convert. Of each four columns the second and the third are swapped
 * CONTRACT  x of any plain type [m, k]; out [m, width], width a multiple of 128; e4m3: k a multiple of 128, scales [k /
 *           128, m rounded up to 4]
 * WORK      a block has 4096 columns of a row, a lane 4 runs of 4; all loads are in flight before the first store.
 *           Lanes 2p and 2p + 1 exchange halves, so that each stores 8 bytes and a warp 256 neighbouring ones. f16: a
 *           block has a row, and reads it twice. e4m3: a warp has 128 columns of 4 rows, a lane 4 of each, a block 8
 *           warps side by side
 * BUDGET    256 lanes
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/e4m3.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/gemm/gemm_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: what X becomes: BF16, F16 or E4M3"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { LANES = 256, RUNS = 4, STEP = LANES * 4, SEGMENT = RUNS * STEP };
#define DTYPE GA_CAT(T_, GA_P_DTYPE)
enum { MOST_EXPONENT = 14 /* of a row's largest */, LEAST_EXPONENT = -100 /* of X */ };
static_assert(DTYPE == T_BF16 || DTYPE == T_F16 || DTYPE == T_E4M3, "types of tensor cores");

/* Columns k .. k + 3 of a row of X; zeros from a->k on. */
GA_DEV void get_4(const ga_kargs_gemm_x *a, int64_t row, int64_t k, float *x) {
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = k + e < a->k ? plain_get(a->dtype, a->x, row * a->stride + k + e) : 0.0f;
}

/* The lane's four columns 4q .. 4q + 3 of 16, the first at `out`: words q of both halves; it keeps the half that its
 * parity says. */
GA_DEV void put_4(uint16_t *out, const float *x) {
  const int odd = thread_index() % 2, pair = thread_index() / 2 % 2;
  const bool f16 = DTYPE == T_F16;
  const uint32_t first = f16 ? pack_f16(x[0], x[1]) : pack_bf16(x[0], x[1]),
                 second = f16 ? pack_f16(x[2], x[3]) : pack_bf16(x[2], x[3]),
                 other = shfl_xor_u32(odd ? first : second, 1);
  stg_u2(out + (8 * odd + 4 * pair - 4 * (thread_index() % 4)), odd ? other : first, odd ? second : other);
}

/* A segment of a row, times `up`; out: the lane's first place. */
GA_DEV void convert_segment(const ga_kargs_gemm_x *a, int64_t row, int segment, bool whole, float up) {
  const int64_t first = (int64_t)segment * SEGMENT + 4 * thread_index();
  const float *from = (const float *)a->x + row * a->stride + first;
  uint16_t *out = (uint16_t *)a->out + row * a->width + first;
  float x[RUNS][4];
  if (whole) {
    GA_UNROLL for (int i = 0; i < RUNS; i++) GA_UNROLL for (int e = 0; e < 4; e++) x[i][e] = 0;
    GA_UNROLL for (int i = 0; i < RUNS; i++) if (first + i * STEP < a->k) elem_get16_f32(x[i], from, i * STEP);
    GA_UNROLL for (int i = 0; i < RUNS; i++) {
      if (DTYPE == T_F16) GA_UNROLL
        for (int e = 0; e < 4; e++) x[i][e] *= up;
      if (first + i * STEP < a->width) put_4(out + i * STEP, x[i]);
    }
    return;
  }
  GA_ROLL for (int i = 0; i < RUNS && first + i * STEP < a->width; i++) { /* whole warps: width is a multiple of 128 */
    get_4(a, row, first + i * STEP, x[0]);
    if (DTYPE == T_F16) GA_UNROLL
      for (int e = 0; e < 4; e++) x[0][e] *= up;
    put_4(out + i * STEP, x[0]);
  }
}

/* Exponent of the row's largest finite element, at least LEAST_EXPONENT. */
GA_DEV int row_exponent(const ga_kargs_gemm_x *a, int64_t row, bool whole) {
  GA_SHARED int most[LANES / 32];
  const float *from = (const float *)a->x + row * a->stride;
  int size = 0; /* bits without sign: they are ordered as the numbers are */
  GA_ROLL for (int64_t k = 4 * thread_index(); k < a->k; k += SEGMENT) {
    float x[RUNS][4];
    GA_UNROLL for (int i = 0; i < RUNS; i++) {
      GA_UNROLL for (int e = 0; e < 4; e++) x[i][e] = 0;
      if (k + i * STEP >= a->k) continue;
      if (whole)
        elem_get16_f32(x[i], from, k + i * STEP);
      else
        get_4(a, row, k + i * STEP, x[i]);
    }
    GA_UNROLL for (int i = 0; i < RUNS; i++) GA_UNROLL for (int e = 0; e < 4; e++) {
      const int bits = (int)(float_bits(x[i][e]) & 0x7fffffffu);
      if (bits < 0x7f800000 && bits > size) size = bits;
    }
  }
  size = redux_max_i32(size);
  if (thread_index() % 32 == 0) most[thread_index() / 32] = size;
  block_sync();
  GA_UNROLL for (int w = 0; w < LANES / 32; w++) size = most[w] > size ? most[w] : size;
  const int exponent = (size >> 23) - 127;
  return exponent > LEAST_EXPONENT ? exponent : LEAST_EXPONENT;
}

/* --- e4m3 --- */

/* The lane's 4 of 128 columns of a row: their codes, and the scale. */
GA_DEV uint32_t quantise_4(const float *x, float *scale) {
  int size = 0; /* bits without sign: they are ordered as the numbers are */
  GA_UNROLL for (int e = 0; e < 4; e++) {
    const int bits = (int)(float_bits(x[e]) & 0x7fffffffu);
    size = bits > size ? bits : size;
  }
  *scale = e4m3_scale(__uint_as_float((uint32_t)redux_max_i32(size)));
  return pack4_e4m3(x[0] / *scale, x[2] / *scale, x[1] / *scale, x[3] / *scale);
}

/* Rounds rows [row, row + 4) of the warp's 128 columns. Rows after the last one get a scale, too. */
GA_DEV void quantise_block(const ga_kargs_gemm_x *a, int64_t row, int64_t k, bool whole) {
  enum { ROWS = 4 };
  const int lane = thread_index() % 32;
  const int64_t at = k + 4 * lane, rows = (a->m + ROWS - 1) / ROWS * ROWS;
  float x[ROWS][4], scale, own = 1;
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    GA_UNROLL for (int e = 0; e < 4; e++) x[r][e] = 0;
    if (row + r >= a->m) continue;
    if (whole)
      elem_get16_f32(x[r], a->x, (row + r) * a->stride + at);
    else
      get_4(a, row + r, at, x[r]);
  }
  GA_UNROLL for (int r = 0; r < ROWS; r++) {
    const uint32_t codes = quantise_4(x[r], &scale);
    if (row + r < a->m) stg_i32((int32_t *)((uint8_t *)a->out + (row + r) * a->width + at), (int)codes);
    if (lane == r) own = scale;
  }
  if (lane < ROWS) stg_f32(a->scale + k / 128 * rows + row + lane, own);
}

GA_KERNEL(LANES, DTYPE == T_BF16 ? 8 : 4) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_x a) {
  const int segments = (int)((a.width + SEGMENT - 1) / SEGMENT);
  const bool whole = a.dtype == T_F32 && ((uint64_t)a.x | (uint64_t)a.stride * 4) % 16 == 0 &&
                     a.k % 128 == 0; /* warps are inside, or outside */
  grid_launch_dependents();
  grid_dependency_wait();
  if (DTYPE == T_E4M3) {
    const int across = (int)((a.width + LANES * 4 - 1) / (LANES * 4));
    const int64_t k = (int64_t)(block_index() % across) * (LANES * 4) + thread_index() / 32 * 128;
    if (k < a.width) quantise_block(&a, (int64_t)(block_index() / across) * 4, k, whole);
    return;
  }
  if (DTYPE == T_BF16) {
    convert_segment(&a, block_index() / segments, block_index() % segments, whole, 1);
    return;
  }
  const int up = MOST_EXPONENT - row_exponent(&a, block_index(), whole);
  if (thread_index() == 0) stg_f32(a.scale + block_index(), __uint_as_float((uint32_t)(127 - up) << 23));
  GA_ROLL for (int s = 0; s < segments; s++)
      convert_segment(&a, block_index(), s, whole, __uint_as_float((uint32_t)(127 + up) << 23));
}
