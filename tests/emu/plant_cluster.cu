/* Two blocks: the first copies each tile to both, the second releases its copy at the first one's barrier; both add up
 * what they see. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "tests/emu/plant.h"

#define IS(p) (a->plant == PLANT_##p)
#define FULL  (sb + PLANT_OFF_BARS)
#define EMPTY (sb + PLANT_OFF_BARS + 8)

GA_DEV int sum_tile(uint32_t sb, int t) {
  const ga_i4 x = lds_i4(sb + 16 * t);
  return x.x + x.y + x.z + x.w;
}

/* 16 bytes of every thread reach the other block in three ways: read from there, stored asynchronously, sent by the
 * copy engine. */
GA_DEV void exchange(const plant_args *a, uint32_t sb, uint32_t rank, int t) {
  const uint32_t mine = sb + PLANT_OFF_B + 16 * t, stored = mine + 2048, sent = mine + 4096,
                 bar = sb + PLANT_OFF_BARS + 24;
  const uint32_t other = rank ^ 1;
  sts_i4(mine, t, (int)rank, 0, 0);
  if (IS(SEND_NO_FENCE))
    block_sync();
  else
    fence_async_smem();
  if (IS(WAIT_NO_ARRIVE)) cluster_wait();
  if (!IS(REMOTE_NO_SYNC)) cluster_sync();
  ga_i4 x = lds_cluster_i4(cluster_address(IS(REMOTE_BEYOND) ? sb + PLANT_SHARED + 16 * t : mine, other));
  sts_async_i4(cluster_address(stored, other), x.x, t, 0, 0, cluster_address(bar, other));
  if (t == 0) {
    mbar_arrive_expect(bar, 2 * 2048 - (IS(ASYNC_BYTES) ? 16 : 0));
    bulk_copy_cluster(cluster_address(sb + PLANT_OFF_B + 4096, other), sb + PLANT_OFF_B, 2048,
                      cluster_address(bar, IS(SEND_OTHER_BAR) ? rank : other));
  }
  if (IS(SEND_REUSE)) sts_i4(mine, 7, 7, 7, 7);
  if (!IS(ASYNC_NO_WAIT)) mbar_wait(bar, 0);
  x = lds_i4(stored);
  const ga_i4 y = lds_i4(sent);
  if (x.x != t || x.y != t || y.x != t || y.y != (int)other) stg_i32(a->words + 63, 1);
  cluster_arrive();
  if (IS(ARRIVE_NO_WAIT)) cluster_arrive();
  cluster_wait();
}

/* Sums in global memory by the copy engine and by atomics, and a copy of what was just written there. */
GA_DEV void sums(const plant_args *a, uint32_t sb, uint32_t rank, int t) {
  const uint32_t src = sb + PLANT_OFF_C + 16 * t, back = src + 2048, bar = sb + PLANT_OFF_BARS + 32;
  float *const sum = a->out + 1024 + 4 * t, *const own = a->out + 512 + (int)rank * 4;
  sts_i4(src, 0x3f800000, 0x3f800000, 0, 0);
  fence_async_smem();
  block_sync();
  if (t == 0) {
    bulk_add_f32(a->out + 1024, sb + PLANT_OFF_C, 2048);
    bulk_commit();
    bulk_wait();
  }
  if (t < 64)
    red_add_f32x4(sum, 1, 0, 0, 2);
  else if (IS(REDUCE_RACE))
    (void)ldg_f32(sum);
  if (t == 0) {
    stg_f32(own, 3);
    if (IS(GLOBAL_NO_FENCE))
      fence_async_smem();
    else
      fence_async_global();
    mbar_arrive_expect(bar, 16);
    bulk_load_bytes(back, own, 16, bar, L2_EVICT_FIRST);
    mbar_wait(bar, 0);
    if (lds_i4(back).x != 0x40400000) stg_i32(a->words + 63, 1);
  }
}

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST plant_args args) {
  const plant_args *a = &args;
  const uint32_t sb = smem_base(), rank = cluster_rank();
  const int t = thread_index();
  int sum = 0;
  if (t == 0) {
    mbar_init(FULL, 1);
    mbar_init(EMPTY, 2);
    mbar_init(FULL + 24, 1);
    mbar_init(FULL + 32, 1);
    mbar_init_fence();
  }
  if (IS(NO_CLUSTER_SYNC))
    block_sync();
  else
    cluster_sync();
  for (int k = 0; k < a->steps; k++) {
    if (t == 0) mbar_arrive_expect(FULL, PLANT_B_BYTES);
    if (rank == 0 && t == 0) {
      if (!IS(NO_REMOTE_WAIT)) mbar_wait(EMPTY, (k & 1) ^ 1);
      bulk_load_4d_multicast(sb, &a->b, FULL, k * 64, 0, 0, 0, IS(NO_SUCH_BLOCK) ? 7 : 3, L2_EVICT_LAST);
    }
    if (IS(LEAVES_EARLY) && rank == 1) return;
    mbar_wait(FULL, k & 1);
    sum += sum_tile(sb, t);
    bar_sync((int)loads_done((const uint32_t *)&sum, 1, 1), 128);
    if (t == 0) mbar_arrive_cluster(EMPTY, 0);
  }
  stg_f32(a->out + rank * 128 + t, (float)(sum & 1));
  exchange(a, sb, rank, t);
  sums(a, sb, rank, t);
  if (IS(REMOTE_LATE) && rank == 1) return;
  if (IS(REMOTE_LATE)) {
    for (int i = 0; i < 500; i++) warp_sync();
    (void)lds_cluster_i4(cluster_address(sb + PLANT_OFF_B, 1));
    return;
  }
  cluster_sync(); /* the first block's barrier must outlive the other's arrivals */
}
