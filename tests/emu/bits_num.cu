/* Functions of one word: approximations and conversions. 256 words a block. */
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "tests/emu/bits.h"

GA_DEV uint32_t bits(float x) {
  union {
    float f;
    uint32_t u;
  } v = {x};
  return v.u;
}
GA_DEV float number_from(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {u};
  return v.f;
}

GA_KERNEL(256, 1) GA_KERNEL_ID(GA_GRID_CONST bits_args a) {
  const int i = block_index() * 256 + thread_index();
  const uint32_t u = (uint32_t)ldg_i32((const int32_t *)a.in + i);
  const float x = number_from(u), y = number_from(u * 2654435761u);
  uint32_t r = 0;
  switch (a.what) {
  case BITS_EX2: r = bits(ex2(x)); break;
  case BITS_LG2: r = bits(lg2(x)); break;
  case BITS_RCP: r = bits(rcp(x)); break;
  case BITS_TANH: r = bits(tanh_approx(x)); break;
  case BITS_PACK_BF16: r = pack_bf16(x, y); break;
  case BITS_PACK_F16: r = pack_f16(x, y); break;
  case BITS_PACK_E4M3: r = pack_e4m3(x, y); break;
  case BITS_PACK_E5M2: r = pack_e5m2(x, y); break;
  case BITS_F16X2_OF_E4M3: r = f16x2_of_e4m3(u >> 16); break;
  case BITS_F16X2_OF_E5M2: r = f16x2_of_e5m2(u >> 16); break;
  default: break;
  }
  stg_i32((int32_t *)a.out + i, (int)r);
}
