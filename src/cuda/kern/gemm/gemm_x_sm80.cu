/* KERNEL    gemm_x, sm80: X for gemm_wide
 * COMPUTES  X in bf16, zeros from k to width; each 16 columns in the order in which packed weights meet them on tensor cores: place
 *           8h + 2q + e has column 4q + 2h + e (dev/tile/packed.h)
 * BUDGET    256 lanes; a lane takes 16 columns of a row
 */
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/quant.h"
#include "core/kargs_gemm.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif

GA_DEV void get_16(const ga_kargs_gemm_x *a, int64_t row, int64_t k, float *x) {
  const int64_t at = row * a->stride + k;
  if (a->dtype == T_F32 && k + 16 <= a->k && (uint64_t)((const float *)a->x + at) % 16 == 0) {
    GA_UNROLL for (int i = 0; i < 16; i += 4) elem_get16_f32(x + i, a->x, at + i);
  } else {
    GA_UNROLL for (int i = 0; i < 16; i++) x[i] = k + i < a->k ? plain_get(a->dtype, a->x, at + i) : 0.0f;
  }
}

GA_KERNEL(256, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_x a) {
  const int64_t per = a.width / 16, n = a.m * per;
  grid_launch_dependents();
  grid_dependency_wait();
  for (int64_t i = (int64_t)block_index() * 256 + thread_index(); i < n; i += (int64_t)block_count() * 256) {
    float x[16];
    uint32_t y[8];
    get_16(&a, i / per, i % per * 16, x);
    GA_UNROLL for (int p = 0; p < 8; p++) y[p] = pack_bf16(x[4 * (p % 4) + 2 * (p / 4)], x[4 * (p % 4) + 2 * (p / 4) + 1]);
    uint16_t *out = (uint16_t *)a.out + i * 16;
    stg_u4(out, y[0], y[1], y[2], y[3]);
    stg_u4(out + 8, y[4], y[5], y[6], y[7]);
  }
}
