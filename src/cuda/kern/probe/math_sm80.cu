/* KERNEL    probe of arithmetic, sm80: f32 multiply-adds, ex2, mma.sync m16n8k16 of bf16 in registers; and an
 *           empty kernel
 * COMPUTES  nothing. A round: REPEATS x CHAINS multiply-adds, CHAINS exponentials or products a thread or warp, each
 *           chain depends on itself only
 * CONTRACT  cycles: one number a block, from the clock of its multiprocessor. Operands are random, because equal ones
 *           draw less power
 * BUDGET    512 threads, 1 block a multiprocessor
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/kern/probe/probe_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_WHAT
#error "GA_P_WHAT: nothing, fma, exp2, mma"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");
#define WHAT_nothing 0
#define WHAT_fma     1
#define WHAT_exp2    2
#define WHAT_mma     3
enum {
  WHAT = GA_CAT(WHAT_, GA_P_WHAT),
  THREADS = 512,
  CHAINS = 8,
  REPEATS = 16 /* the loop itself takes three instructions */
};
#define NEVER 123456789.0f /* a result that would be stored, so that the loop stays */

GA_DEV float fma_chains(int rounds, float seed) {
  float x[CHAINS], sum = 0;
  GA_UNROLL for (int i = 0; i < CHAINS; i++) x[i] = seed + (float)i;
  GA_ROLL for (int r = 0; r < rounds; r++) GA_UNROLL for (int i = 0; i < CHAINS * REPEATS; i++) x[i % CHAINS] =
      fmaf(x[i % CHAINS], 0.999f, seed);
  GA_UNROLL for (int i = 0; i < CHAINS; i++) sum += x[i];
  return sum;
}
GA_DEV float exp2_chains(int rounds, float seed) {
  float x[CHAINS], sum = 0;
  GA_UNROLL for (int i = 0; i < CHAINS; i++) x[i] = -seed - (float)i;
  GA_ROLL for (int r = 0; r < rounds; r++) GA_UNROLL for (int i = 0; i < CHAINS; i++) x[i] = ex2(x[i]);
  GA_UNROLL for (int i = 0; i < CHAINS; i++) sum += x[i];
  return sum;
}

/* Two bf16 of random sign in [0.5, 1). */
GA_DEV uint32_t random_pair(uint32_t i) {
  return (((i + 1u) * 2654435761u ^ (i * 40503u) >> 7) & 0x807f807fu) | 0x3f003f00u;
}
GA_DEV float mma_chains(int rounds) {
  float d[CHAINS][4], sum = 0;
  uint32_t a[CHAINS][4], b[CHAINS];
  GA_UNROLL for (int i = 0; i < CHAINS; i++) {
    GA_UNROLL for (int e = 0; e < 4; e++) d[i][e] = 0,
                                          a[i][e] = random_pair((uint32_t)(thread_index() * 64 + i * 8 + e));
    b[i] = random_pair((uint32_t)(thread_index() * 64 + i * 8 + 4));
  }
  GA_ROLL for (int r = 0; r < rounds; r++) GA_UNROLL for (int i = 0; i < CHAINS; i++)
      mma_m16n8k16_bf16(d[i], a[(i + 3) % CHAINS], b[i], b[(i + 1) % CHAINS]);
  GA_UNROLL for (int i = 0; i < CHAINS; i++) GA_UNROLL for (int e = 0; e < 4; e++) sum += d[i][e];
  return sum;
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_probe a) {
  float x = 0;
  if (WHAT == WHAT_nothing) return;
  block_sync();
  const int64_t start = clock_cycles();
  if (WHAT == WHAT_fma) x = fma_chains(a.rounds, (float)thread_index());
  if (WHAT == WHAT_exp2) x = exp2_chains(a.rounds, (float)thread_index() * 0.001f);
  if (WHAT == WHAT_mma) x = mma_chains(a.rounds);
  block_sync();
  if (thread_index() == 0) a.cycles[block_index()] = clock_cycles() - start;
  if (x == NEVER) stg_f32((float *)a.dst, x);
}
