/* KERNEL    gemm_x, sm80: X for gemm_wide
 * COMPUTES  X in bf16, zeros from k to width; each 16 columns in the order in which packed weights meet them on tensor
 *           cores: place 8h + 2q + e has column 4q + 2h + e (cuda/kern/gemm/packed.h)
 * WORK      a block has 4096 columns of a row, a lane 4 runs of 4; all loads are under way before the first store.
 *           Lanes 2p and 2p + 1 exchange halves, so that each stores 8 bytes and a warp 256 neighbouring ones
 * BUDGET    256 lanes
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/gemm/gemm_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { LANES = 256, RUNS = 4, STEP = LANES * 4, SEGMENT = RUNS * STEP };

/* Columns k .. k + 3 of a row of X; zeros from a->k on. */
GA_DEV void get_4(const ga_kargs_gemm_x *a, int64_t row, int64_t k, float *x) {
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = k + e < a->k ? plain_get(a->dtype, a->x, row * a->stride + k + e) : 0.0f;
}

/* The lane's four columns 4q .. 4q + 3 of 16, the first at `out`: words q of both halves; it keeps the half that its
 * parity says. */
GA_DEV void put_4(uint16_t *out, const float *x) {
  const int odd = thread_index() % 2, pair = thread_index() / 2 % 2;
  const uint32_t first = pack_bf16(x[0], x[1]), second = pack_bf16(x[2], x[3]),
                 other = shfl_xor_u32(odd ? first : second, 1);
  stg_u2(out + (8 * odd + 4 * pair - 4 * (thread_index() % 4)), odd ? other : first, odd ? second : other);
}

GA_KERNEL(LANES, 8) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_x a) {
  const int segments = (int)((a.width + SEGMENT - 1) / SEGMENT), row = block_index() / segments,
            segment = block_index() % segments;
  const int64_t first = (int64_t)segment * SEGMENT + 4 * thread_index();
  const float *from = (const float *)a.x + row * a.stride + first;
  uint16_t *out = (uint16_t *)a.out + row * a.width + first;
  const bool whole = a.dtype == T_F32 && ((uint64_t)a.x | (uint64_t)a.stride * 4) % 16 == 0 &&
                     a.k % 128 == 0; /* warps are inside, or outside */
  float x[RUNS][4];
  grid_launch_dependents();
  grid_dependency_wait();
  if (whole) {
    GA_UNROLL for (int i = 0; i < RUNS; i++) GA_UNROLL for (int e = 0; e < 4; e++) x[i][e] = 0;
    GA_UNROLL for (int i = 0; i < RUNS; i++) if (first + i * STEP < a.k) elem_get16_f32(x[i], from, i * STEP);
    GA_UNROLL for (int i = 0; i < RUNS; i++) if (first + i * STEP < a.width) put_4(out + i * STEP, x[i]);
    return;
  }
  GA_ROLL for (int i = 0; i < RUNS && first + i * STEP < a.width; i++) { /* whole warps: width is a multiple of 128 */
    get_4(&a, row, first + i * STEP, x[0]);
    put_4(out + i * STEP, x[0]);
  }
}
