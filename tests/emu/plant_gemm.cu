/* C (128 m x 64, f32) = A (128 m x k) B (64 x k)^T: one copying thread, two warpgroups of products, a ring of two
 * stages, a bulk store. a.plant leaves out or adds one thing: see plant.h. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/smem.h"
#include "tests/emu/plant.h"

#define IS(p)    (a->plant == PLANT_##p)
#define FULL(s)  (sb + PLANT_OFF_BARS + 8 * (s))
#define EMPTY(s) (sb + PLANT_OFF_BARS + 16 + 8 * (s))

GA_DEV void producer(const plant_args *a, uint32_t sb) {
  const int row = block_index() * 128;
  for (int k = 0; k < a->steps; k++) {
    const uint32_t s = (uint32_t)k % PLANT_ST, parity = (uint32_t)k / PLANT_ST & 1;
    const uint32_t bytes = PLANT_A_BYTES + PLANT_B_BYTES, more = IS(TX_MORE) ? 128 : 0, less = IS(TX_LESS) ? 128 : 0;
    if (!IS(NO_EMPTY_WAIT)) mbar_wait(EMPTY(s), parity ^ 1);
    mbar_arrive_expect(FULL(s), bytes + more - less);
    if (IS(ARRIVE_TWICE)) mbar_arrive(FULL(s));
    const uint32_t off = IS(COPY_MISALIGNED) ? 128 : 0;
    bulk_load_4d(sb + s * PLANT_A_BYTES + off, IS(NOT_A_MAP) ? (const void *)&a->out : &a->a, FULL(s), k * 64, row, 0,
                 0, L2_EVICT_FIRST);
    bulk_load_4d(sb + PLANT_OFF_B + s * PLANT_B_BYTES, &a->b, FULL(s), k * 64, 0, 0, 0, L2_EVICT_LAST);
  }
}

GA_DEV void products(const plant_args *a, uint32_t sb, float *c, uint32_t *regs, int wg, int s, int first) {
  const uint32_t da = desc_k_major(sb + s * PLANT_A_BYTES + wg * 64 * 128),
                 db = desc_k_major(sb + PLANT_OFF_B + s * PLANT_B_BYTES);
  const uint32_t other = IS(UNEVEN_PRODUCT) && thread_index() % 128 / 32 == 1 ? 2 : 0;
  if (!IS(NO_WGMMA_FENCE)) wgmma_fence();
  if (IS(FENCE_BEFORE_WRITE) && first)
    for (int i = 0; i < 32; i++) c[i] = 0;
  for (int k = 0; k < 4; k++) {
    if (IS(PRODUCT_ONE_WARP) && k == 3 && !first && thread_index() % 128 < 32) break;
    if (k == 0)
      wgmma_m64n64k16_bf16_rs(c, regs, desc(db) | (uint64_t)IS(BASE_OFFSET) << 49, !first || IS(FENCE_BEFORE_WRITE));
    else
      wgmma_m64n64k16_bf16_ss(c, desc(da + 2 * k + other), desc(db + 2 * k), 1);
  }
  if (IS(COMMIT_ONE_WARP) && !first && s == 1 && thread_index() % 128 >= 96) return;
  wgmma_commit();
}

GA_DEV void store_accumulators(const plant_args *a, uint32_t sb, float *c, int wg) {
  const int t = thread_index() % 128, w = t / 32, l = t % 32;
  const uint32_t tile = sb + PLANT_OFF_C + wg * PLANT_C_BYTES;
  for (int i = 0; i < 32; i += 2) { /* pairs of columns; two lanes' pairs make 16 bytes */
    const float x = shfl_xor_f32(c[i], 1), y = shfl_xor_f32(c[i + 1], 1);
    const uint32_t at = tile + (16 * w + l / 4 + 8 * (i / 2 & 1)) * 256 + (8 * (i / 4) + 2 * (l % 4)) * 4;
    if (l % 2 == 0) sts_i4(at, (int)emu_bits(c[i]), (int)emu_bits(c[i + 1]), (int)emu_bits(x), (int)emu_bits(y));
  }
  if (!IS(NO_PROXY_FENCE)) fence_async_smem();
  if (!IS(NO_STORE_SYNC)) bar_sync(1 + wg, 128);
  if (t == 0) {
    bulk_store_4d(&a->c, tile, 0, block_index() * 128 + wg * 64, 0, 0);
    if (!IS(NO_STORE_COMMIT)) bulk_commit();
    if (IS(REUSE_UNDER_STORE)) sts_i4(tile, 0, 0, 0, 0);
    if (!IS(NO_STORE_WAIT)) bulk_wait_read();
  }
}

GA_DEV void consumer(const plant_args *a, uint32_t sb, int wg) {
  float c[32];
  uint32_t regs[4];
  const int t = thread_index() % 128;
  for (int k = 0; k < a->steps; k++) {
    const uint32_t s = (uint32_t)k % PLANT_ST, parity = (uint32_t)k / PLANT_ST & 1;
    if (!IS(NO_FULL_WAIT)) mbar_wait(FULL(s), parity ^ (IS(WRONG_PARITY) ? 1 : 0));
    load_a(regs, sb + s * PLANT_A_BYTES + wg * 64 * 128, 0, t / 32 * 16, 1, t % 32);
    products(a, sb, c, regs, wg, s, k == 0);
    if (IS(EARLY_RELEASE) && t == 0) mbar_arrive(EMPTY(s));
    if (IS(TOUCH_ACC) && k == 1) c[5] += 1;
    if (IS(TOUCH_A) && k == 1) regs[2] = 0;
    if (!(IS(NO_WGMMA_WAIT) && k == a->steps - 1) && !(IS(NEVER_WAITED) && k == a->steps - 1)) wgmma_wait(0);
    if (!IS(EARLY_RELEASE) && !IS(NO_RELEASE)) {
      bar_sync(3 + wg + (int)loads_done(regs, 1, 1), 128); /* ldmatrix reads of all warps */
      if (t == 0) mbar_arrive(EMPTY(s));
    }
  }
  if (!IS(NEVER_WAITED)) store_accumulators(a, sb, c, wg);
}

GA_KERNEL(384, 1) GA_KERNEL_ID(GA_GRID_CONST plant_args args) {
  const plant_args *a = &args;
  const uint32_t sb = smem_base();
  const int wg = thread_index() / 128;
  if (thread_index() == 0) {
    for (int s = 0; s < PLANT_ST; s++) {
      mbar_init(FULL(s), 1);
      mbar_init(EMPTY(s), 2);
    }
    if (!IS(NO_INIT_FENCE)) mbar_init_fence();
  }
  if (!IS(NO_INIT_SYNC)) block_sync();
  if (wg == 2) {
    if (IS(REGISTERS_ONE_WARP)) {
      if (thread_index() % 128 < 96) setmaxnreg_dec(40);
    } else if (IS(REGISTERS_ODD))
      setmaxnreg_dec(41);
    else
      setmaxnreg_dec(40);
    if (thread_index() == 256) producer(a, sb);
  } else {
    if (IS(REGISTERS_MANY))
      setmaxnreg_inc(248);
    else
      setmaxnreg_inc(232);
    consumer(a, sb, wg);
  }
}
