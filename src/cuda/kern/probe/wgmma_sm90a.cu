/* KERNEL    probe of wgmma, sm90a: 64 x N products of two warpgroups from shared memory, or with A in registers
 * COMPUTES  nothing. A round of a warpgroup: STEPS products of 64 x N x 16 (8-bit types: x 32), STAGES tiles of A and
 *           of B in turn
 * CONTRACT  cols one of SHAPES; cycles: one number a block, from the clock of its multiprocessor. Operands are random
 *           in [0.5, 1) with random sign, because equal ones draw less power and run at higher clocks than real data
 * BUDGET    256 threads, 1 block a multiprocessor; smem: STAGES tiles of A for each warpgroup, of B (256 x 64) for
 *           both: 96 KiB
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/probe/probe_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16, f16, e4m3"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
#define K_bf16 k16_
#define K_f16  k16_
#define K_e4m3 k32_
/* Bits of a word that are random, and those that are set: sign and mantissa, exponent. */
#define RANDOM_bf16    0x807f807fu
#define FIXED_bf16     0x3f003f00u
#define RANDOM_f16     0x83ff83ffu
#define FIXED_f16      0x38003800u
#define RANDOM_e4m3    0x87878787u
#define FIXED_e4m3     0x30303030u
#define SHAPES_bf16(X) X(8) X(16) X(32) X(64) X(80) X(96) X(112) X(128) X(160) X(176) X(192) X(256)
#define SHAPES_f16     SHAPES_bf16
#define SHAPES_e4m3(X) X(8) X(16) X(32) X(64) X(96) X(128) X(160) X(192) X(224) X(256)
#define SHAPES         GA_CAT(SHAPES_, GA_P_DTYPE)
enum {
  THREADS = 256,
  STAGES = 2,
  STEPS = 32,
  A_BYTES = 64 * 128,
  B_BYTES = 256 * 128,
  WORDS = (2 * STAGES * A_BYTES + STAGES * B_BYTES) / 16
};
static_assert(16 * WORDS == GA_P_SMEM, "the row's shared memory");
#define NEVER            123456789.0f /* a result that would be stored, so that the loop stays */
#define PRODUCT(n, form) GA_CAT5(wgmma_m64n, n, GA_CAT(K_, GA_P_DTYPE), GA_CAT(GA_P_DTYPE, _), form)

GA_DEV uint32_t hash(uint32_t i) {
  i = (i ^ i >> 16) * 0x7feb352du;
  return (i ^ i >> 15) * 0x846ca68bu;
}
GA_DEV int random_word(uint32_t i) {
  return (int)((hash(i) & GA_CAT(RANDOM_, GA_P_DTYPE)) | GA_CAT(FIXED_, GA_P_DTYPE));
}
GA_DEV void fill_smem(uint32_t sb) {
  for (int i = thread_index(); i < WORDS; i += THREADS) {
    const uint32_t at = (uint32_t)(4 * i + 1);
    sts_i4(sb + 16u * (uint32_t)i, random_word(at), random_word(at + 1), random_word(at + 2), random_word(at + 3));
  }
  fence_async_smem();
  block_sync();
}

#define RATE(n)                                                                                      \
  GA_DEV float rate_##n(int rounds, int from_registers, uint32_t a, uint32_t b) {                    \
    float d[n / 2], sum = 0;                                                                         \
    uint32_t regs[4];                                                                                \
    GA_UNROLL                                                                                        \
    for (int i = 0; i < n / 2; i++) d[i] = 0;                                                        \
    GA_UNROLL                                                                                        \
    for (int i = 0; i < 4; i++) regs[i] = (uint32_t)random_word((uint32_t)(thread_index() * 4 + i)); \
    GA_ROLL for (int r = 0; r < rounds; r++) {                                                       \
      wgmma_fence();                                                                                 \
      GA_UNROLL                                                                                      \
      for (int s = 0; s < STEPS; s++) {                                                              \
        const uint32_t stage = (uint32_t)(s / 4 % STAGES), k = (uint32_t)(s % 4) * 2;                \
        const uint64_t db = desc(b + stage * (B_BYTES >> 4) + k);                                    \
        if (from_registers)                                                                          \
          PRODUCT(n, rs)(d, regs, db, 1);                                                            \
        else                                                                                         \
          PRODUCT(n, ss)(d, desc(a + stage * (A_BYTES >> 4) + k), db, 1);                            \
      }                                                                                              \
      wgmma_commit();                                                                                \
      wgmma_wait(0);                                                                                 \
    }                                                                                                \
    GA_UNROLL                                                                                        \
    for (int i = 0; i < n / 2; i++) sum += d[i];                                                     \
    return sum;                                                                                      \
  }
SHAPES(RATE)

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_probe args) {
  const ga_kargs_probe *p = &args;
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  const uint32_t a = desc_k_major(sb + (uint32_t)(wg * STAGES * A_BYTES)), b = desc_k_major(sb + 2 * STAGES * A_BYTES);
  float x = 0;
  fill_smem(sb);
  const int64_t start = clock_cycles();
#define CALL(n)                                                            \
  if (p->cols == n && p->from_registers) x = rate_##n(p->rounds, 1, a, b); \
  if (p->cols == n && !p->from_registers) x = rate_##n(p->rounds, 0, a, b);
  SHAPES(CALL)
  block_sync();
  if (thread_index() == 0) p->cycles[block_index()] = clock_cycles() - start;
  if (x == NEVER) stg_f32((float *)p->dst, x);
}
