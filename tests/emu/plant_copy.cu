/* C (128 m x 64, f32) = A (128 m x k) B (64 x k)^T as on sm_80: four warps copy by cp.async into two stages, read them
 * by ldmatrix and multiply by mma.sync. The last 16 bytes of every row of k are filled with zeros instead of read: rows
 * are 8 short. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/smem.h"
#include "tests/emu/plant.h"

#define IS(p)   (a->plant == PLANT_##p)
#define FULL(s) (sb + PLANT_OFF_BARS + 8 * (s))
#define EMPTY   (sb + PLANT_OFF_BARS + 16)

/* 64 columns of `rows` rows; the row's last 8 values are zero. */
GA_DEV void copy_tile(const plant_args *a, uint32_t dst, const uint16_t *src, int rows, int k0, int t) {
  const int wide = a->steps * 64;
  for (int i = t; i < rows * 8; i += 128) {
    const int row = i / 8, chunk = i % 8, k = k0 + 8 * chunk, in = k + 8 < wide;
    const uint16_t *p = src + row * wide + k;
    cp_async_16(panel_chunk(dst, (uint32_t)row, (uint32_t)chunk), in ? p + (IS(CP_MISALIGNED) && t == 5) : src,
                in                ? 16
                : IS(CP_TOO_MANY) ? 17
                                  : 0);
  }
}

GA_DEV void copy_stage(const plant_args *a, uint32_t sb, int k, int t) {
  const uint32_t s = (uint32_t)k % PLANT_ST;
  if (k < a->steps) {
    copy_tile(a, sb + s * PLANT_A_BYTES, a->pa + block_index() * 128 * a->steps * 64, 128, k * 64, t);
    copy_tile(a, sb + PLANT_OFF_B + s * PLANT_B_BYTES, a->pb, 64, k * 64, t);
  }
  cp_async_commit();
}

/* One warp's 32 rows and all 64 columns. */
GA_DEV void multiply_step(const plant_args *a, uint32_t sb, float (*c)[8][4], int k, int t) {
  const uint32_t s = (uint32_t)k % PLANT_ST, tb = sb + PLANT_OFF_B + s * PLANT_B_BYTES, lane = (uint32_t)t % 32;
  uint32_t ra[4], rb[4];
  for (int i = 0; i < 2; i++)
    for (int step = 0; step < 4; step++) {
      ldmatrix_x4(ra, panel_chunk(sb + s * PLANT_A_BYTES, (uint32_t)(t / 32 * 32 + 16 * i) + lane % 16,
                                  (uint32_t)(2 * step) + lane / 16));
      for (int n = 0; n < 8; n += 2) { /* columns 8n.. and 8n + 8..: k of the first, k + 8, then the second */
        ldmatrix_x4(rb,
                    panel_chunk(tb, (uint32_t)(8 * n) + lane % 8 + lane / 16 * 8, (uint32_t)(2 * step) + lane / 8 % 2));
        mma_m16n8k16_bf16(c[i][n], ra, rb[0], rb[1]);
        mma_m16n8k16_bf16(c[i][n + 1], ra, rb[2], rb[3]);
      }
    }
  if (IS(CP_TOUCH) && k + 1 < a->steps && t == 3)
    sts_i4(panel_chunk(sb + (s ^ 1) * PLANT_A_BYTES, (uint32_t)t / 8, (uint32_t)t % 8), 0, 0, 0, 0);
}

GA_DEV void store_product(const plant_args *a, float (*c)[8][4], int t) {
  for (int i = 0; i < 2; i++)
    for (int n = 0; n < 8; n++)
      for (int e = 0; e < 4; e++) {
        const int row = t / 32 * 32 + 16 * i + t % 32 / 4 + 8 * (e / 2), column = 8 * n + 2 * (t % 4) + e % 2;
        stg_f32(a->pc + (block_index() * 128 + row) * 64 + column, c[i][n][e]);
      }
}

/* A chunk of 16 bytes from another thread's copy, by way of an mbarrier, and back out by a bulk add. */
GA_DEV void by_mbarrier(const plant_args *a, uint32_t sb, int t) {
  const uint32_t own = sb + PLANT_OFF_C + 16 * t, other = sb + PLANT_OFF_C + 16 * (t ^ 65);
  if (t == 0) {
    mbar_init(FULL(0), 128);
    mbar_init_fence();
  }
  block_sync();
  cp_async_4(own, a->pa, 4);
  cp_async_4(own + 4, a->pa, IS(CP_MISALIGNED) ? 4 : 0);
  cp_async_8(own + 8, a->pa, 3);
  if (IS(CP_COUNTED_TWICE))
    cp_async_arrive(FULL(0));
  else if (IS(CP_NO_TRACKING))
    mbar_arrive(FULL(0));
  else
    cp_async_arrive_noinc(FULL(0));
  if (!IS(CP_NO_BAR_WAIT)) mbar_wait(FULL(0), 0);
  const ga_i4 x = lds_i4(other);
  if (x.y || x.w) stg_f32(a->pc + block_index() * 128 * 64, 12345.f);
  if (!IS(CP_NO_PROXY_FENCE)) fence_async_smem();
  block_sync();
  if (t == 0) {
    bulk_add_f32(a->out + 1024 + block_index() * 4, sb + PLANT_OFF_C, 16);
    bulk_commit();
    bulk_wait();
  }
}

/* 2 KiB come by the copy engine, round by round, and are read by ordinary loads; the last warp to have done so lets the
 * next round in. */
GA_DEV void by_bulk(const plant_args *a, uint32_t sb, int t) {
  const uint32_t buffer = sb + PLANT_OFF_C, lane = (uint32_t)t % 32;
  uint32_t sum = 0, done = 0;
  if (t == 0) {
    mbar_init(FULL(1), 1);
    mbar_init(EMPTY, 4);
    mbar_init_fence();
  }
  fence_async_smem(); /* by_mbarrier wrote here */
  block_sync();
  for (int round = 0; round < 4; round++) {
    if (t == 0) {
      if (round && !IS(LOAD_BLOCK_SYNC)) mbar_wait(EMPTY, (uint32_t)(round - 1) & 1);
      mbar_arrive_expect(FULL(1), 2048);
      bulk_load_bytes(buffer, a->pb + 1024 * round, 2048, FULL(1), L2_EVICT_FIRST);
    }
    mbar_wait(FULL(1), (uint32_t)round & 1);
    if (IS(LOAD_DONE_EARLY)) done = loads_done(&sum, 1, 1);
    uint32_t r[4];
    if (round & 1)
      ldmatrix_x4(r, buffer + 16 * (uint32_t)t);
    else
      lds_u4(r, buffer + 16 * (uint32_t)t);
    sum += r[0] + r[1] + r[2] + r[3];
    if (!IS(LOAD_NOT_DONE) && !IS(LOAD_DONE_EARLY) && (lane == 0 || !IS(LOAD_DONE_ONE_LANE)) && !IS(LOAD_BLOCK_SYNC))
      done = loads_done(r, 1, 1);
    warp_sync();
    if (lane == 0) mbar_arrive(EMPTY + done);
    if (IS(LOAD_BLOCK_SYNC)) block_sync();
  }
  if (sum == 1) stg_f32(a->pc + block_index() * 128 * 64, 12345.f);
}

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST plant_args args) {
  const plant_args *a = &args;
  const uint32_t sb = smem_base();
  const int t = thread_index();
  float c[2][8][4] = {};
  copy_stage(a, sb, 0, t);
  for (int k = 0; k < a->steps; k++) {
    copy_stage(a, sb, k + 1, t);
    if (IS(CP_WAIT_LESS))
      cp_async_wait(2);
    else if (!IS(CP_NO_WAIT))
      cp_async_wait(1);
    if (!IS(CP_NO_SYNC)) block_sync();
    multiply_step(a, sb, c, k, t);
    if (!IS(CP_NO_RELEASE)) block_sync();
  }
  cp_async_wait_all();
  store_product(a, c, t);
  by_mbarrier(a, sb, t);
  by_bulk(a, sb, t);
  if (IS(CP_NEVER_WAITED)) cp_async_4(sb + PLANT_OFF_C + 8192 + 4 * t, a->pa, 4);
}
