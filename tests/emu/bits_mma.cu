/* Products of one instance a block: a and b go to shared memory as rows of 128 bytes with the 128-byte swizzle, c to
 * the accumulators. */
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/tile/smem.h"
#include "tests/emu/bits.h"

typedef union acc {
  float f[32];
  int i[32];
} acc;

GA_DEV void put_bits_tile(uint32_t tile, const uint32_t *in, int t) {
  for (int i = t; i < 64 * 8; i += 128) {
    const int32_t *p = (const int32_t *)in + 4 * i;
    sts_i4(panel_chunk(tile, (uint32_t)i / 8, (uint32_t)i % 8), ldg_i32(p), ldg_i32(p + 1), ldg_i32(p + 2),
           ldg_i32(p + 3));
  }
}

/* Places of accumulator i in c, the same for wgmma and, tile by tile of 8 columns, for mma. */
GA_DEV int place_of_element(int i, int t) {
  return (t / 32 * 16 + t % 32 / 4 + 8 * (i / 2 % 2)) * 64 + 8 * (i / 4) + 2 * (t % 4) + i % 2;
}

#define SS(k, type, part)                                                \
  for (int s = 0; s < a.steps; s++)                                      \
  wgmma_m64n64k##k##_##type##_ss(d.part, desc(desc_k_major(sb) + 2 * s), \
                                 desc(desc_k_major(sb + BITS_TILE_BYTES) + 2 * s), 1)
#define RS(k, type, part)     \
  for (int s = 0; s < 4; s++) \
    if (s < a.steps)          \
  wgmma_m64n64k##k##_##type##_rs(d.part, ra + 4 * s, desc(desc_k_major(sb + BITS_TILE_BYTES) + 2 * s), 1)

#define WGMMA(name, products)  \
  if (a.what == BITS_##name) { \
    wgmma_fence();             \
    products;                  \
    wgmma_commit();            \
    wgmma_wait(0);             \
  }

/* Fragments of b: 8 columns, 32 bytes of k. */
#define MMA(name, op, part)                                                                                           \
  if (a.what == BITS_##name)                                                                                          \
    for (int s = 0; s < 4; s++)                                                                                       \
      for (int n = 0; n < 8 && s < a.steps; n++) {                                                                    \
        ldmatrix_x2(rb, panel_chunk(sb + BITS_TILE_BYTES, (uint32_t)(8 * n + t % 8), (uint32_t)(2 * s + t / 8 % 2))); \
        op(d.part + 4 * n, ra + 4 * s, rb[0], rb[1]);                                                                 \
      }
#define MMA_HALF(name, op)                                                                                            \
  if (a.what == BITS_##name)                                                                                          \
    for (int s = 0; s < 4; s++)                                                                                       \
      for (int n = 0; n < 8 && s < a.steps; n++) {                                                                    \
        ldmatrix_x2(rb, panel_chunk(sb + BITS_TILE_BYTES, (uint32_t)(8 * n + t % 8), (uint32_t)(2 * s + t / 8 % 2))); \
        op(d.f + 4 * n, ra + 4 * s, rb[0]);                                                                           \
      }

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST bits_args a) {
  const uint32_t sb = smem_base();
  const uint32_t *in = a.in + block_index() * BITS_MMA_WORDS;
  const int t = thread_index();
  uint32_t ra[16], rb[2];
  acc d;
  put_bits_tile(sb, in, t);
  put_bits_tile(sb + BITS_TILE_BYTES, in + BITS_TILE_BYTES / 4, t);
  GA_UNROLL for (int i = 0; i < 32; i++) d.i[i] =
      ldg_i32((const int32_t *)in + BITS_TILE_BYTES / 2 + place_of_element(i, t));
  fence_async_smem();
  block_sync();
  load_a(ra, sb, 0, t / 32 * 16, 4, t % 32);
  WGMMA(WGMMA_SS_BF16, SS(16, bf16, f))
  WGMMA(WGMMA_RS_BF16, RS(16, bf16, f))
  WGMMA(WGMMA_SS_F16, SS(16, f16, f))
  WGMMA(WGMMA_SS_E4M3, SS(32, e4m3, f))
  WGMMA(WGMMA_RS_E4M3, RS(32, e4m3, f))
  WGMMA(WGMMA_SS_E5M2, SS(32, e5m2, f))
  WGMMA(WGMMA_SS_S8, SS(32, s8, i))
  WGMMA(WGMMA_RS_S8, RS(32, s8, i))
  MMA(MMA_K16_BF16, mma_m16n8k16_bf16, f)
  MMA(MMA_K16_F16, mma_m16n8k16_f16, f)
  MMA_HALF(MMA_K8_BF16, mma_m16n8k8_bf16)
  MMA_HALF(MMA_K8_F16, mma_m16n8k8_f16)
  MMA(MMA_K8_TF32, mma_m16n8k8_tf32, f)
  MMA(MMA_K32_S8, mma_m16n8k32_s8, i)
  MMA(MMA_K32_E4M3, mma_m16n8k32_e4m3, f)
  MMA(MMA_K32_E5M2, mma_m16n8k32_e5m2, f)
  GA_UNROLL for (int i = 0; i < 32; i++)
      stg_i32((int32_t *)a.out + block_index() * BITS_MMA_OUT + place_of_element(i, t), d.i[i]);
}
