/* 128 threads: values travel through shared memory within a warp and within the block, then to global memory. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/peer.h"
#include "tests/emu/plant.h"

#define IS(p) (a->plant == PLANT_##p)

GA_DEV void exchange_words(const plant_args *a, uint32_t sb, int t) {
  const uint32_t mine = sb + 16 * t, other = sb + 16 * (t ^ 1), far = sb + 2048 + 16 * (127 - t);
  sts_i4(mine, t, t, t, t);
  if (!IS(NO_WARP_SYNC)) warp_sync();
  const ga_i4 x = lds_i4(other);
  sts_i4(sb + 2048 + 16 * t, x.x, 0, 0, 0);
  if (!IS(NO_BLOCK_SYNC)) block_sync();
  const ga_i4 y = lds_i4(far);
  if (IS(UNWRITTEN_SHARED)) (void)lds_i4(sb + 4096 + 16 * t);
  if (IS(BEYOND_SHARED)) sts_i4(sb + PLANT_SHARED + 16 * t, 0, 0, 0, 0);
  if (IS(MISALIGNED_SHARED)) sts_i4(sb + 4100, 0, 0, 0, 0);
  if (IS(MISALIGNED_GLOBAL)) stg_u4(a->out + 1, 0, 0, 0, 0);
  stg_f32(a->out + block_index() * 128 + t, (float)(y.x + warp_any(t == 3)));
}

GA_DEV void barriers(const plant_args *a, uint32_t sb, int t) {
  uint32_t r[4];
  if (IS(HALF_WARP_VOTES)) {
    if (t % 32 < 16)
      (void)warp_any(1);
    else
      (void)shfl_xor_u32(1, 1);
  }
  if (IS(TWO_LDMATRIX)) {
    if (t % 2)
      ldmatrix_x4(r, sb + 16 * (t % 32));
    else
      ldmatrix_x4(r, sb + 16 * (t % 32));
  }
  if (IS(LANE_0_AT_BARRIER)) {
    if (t % 32 == 0) bar_sync(2, 128);
  } else if (IS(BARRIER_COUNTS)) {
    if (t < 64) bar_sync(2, t < 32 ? 64 : 96);
  } else if (IS(BARRIER_TWICE)) {
    if (t < 32) bar_arrive(2, 64);
    if (t < 32) bar_arrive(2, 64);
  } else if (IS(BARRIER_SHORT)) {
    if (t < 96) bar_sync(2, 128);
  } else if (t < 64) {
    bar_arrive(2, 128);
  } else {
    bar_sync(2, 128);
  }
  if (IS(BARRIER_UNSET)) mbar_wait(sb + 8192, 0);
}

GA_DEV void global(const plant_args *a, int t) {
  if (!IS(NO_GRID_WAIT)) grid_dependency_wait();
  const float x = ldg_f32(a->out + 512 + t); /* the grid before wrote it, or the host */
  if (t == 0) (void)atomic_add_i32(a->words, (int)x);
  if (t == 0) { /* the block that comes last reads what the others wrote */
    stg_i32(a->words + 16 + block_index(), 1);
    if (!IS(NO_DEVICE_FENCE)) fence_device();
    const int last = atomic_add_i32(a->words + 1, 1) == block_count() - 1;
    if (!IS(NO_DEVICE_FENCE)) fence_device();
    if (last)
      for (int b = 0; b < block_count(); b++) (void)ldg_i32(a->words + 16 + b);
  }
  if (IS(UNWRITTEN_GLOBAL)) (void)ldg_i32(a->words + 64 + t);
  if (IS(BEYOND_GLOBAL)) stg_i32(a->words + 256 + t, 1);
  if (IS(SAME_WORD) && t % 32 == 0) stg_i32(a->words + 8, 1);
  if (IS(SAME_WORD_BLOCKS) && t == 0) stg_i32(a->words + 8, 1);
}

/* One thread waits for a word of another, as of another device. */
GA_DEV void poll_word(const plant_args *a, int t) {
  int32_t *words = a->words + 20;
  uint32_t r[4] = {0, 0, 0, 0};
  if (t == 0) stg_peer_i32(words, 1);
  if (t == 64 && IS(PEER_PLAIN_READ)) (void)ldg_i32(words);
  while (t == 96 && r[0] != 1) {
    ldg_peer_u4(r, words);
    peer_pause();
  }
}

/* Block 0 points the map elsewhere, then copies by it in another thread. */
GA_DEV void maps(const plant_args *a, uint32_t sb, int t) {
  const uint32_t bar = sb + 8200;
  if (t == 0) {
    mbar_init(bar, 1);
    mbar_init_fence();
    tmap_set_address(a->map, a->pb + 64);
    if (!IS(MAP_NO_RELEASE)) tmap_release();
  }
  if (!IS(MAP_NO_SYNC))
    block_sync();
  else
    warp_sync();
  if (t == 64) {
    if (!IS(MAP_NO_ACQUIRE)) tmap_acquire(a->map);
    if (IS(MAP_NO_SYNC)) return;
    mbar_arrive_expect(bar, PLANT_B_BYTES);
    bulk_load_4d(sb + 9216, a->map, bar, 0, 0, 0, 0, L2_EVICT_FIRST);
    mbar_wait(bar, 0);
  }
}

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST plant_args args) {
  const plant_args *a = &args;
  const uint32_t sb = smem_base();
  const int t = thread_index();
  if (block_index() == 0) poll_word(a, t); /* first: it ends only when the other thread comes */
  global(a, t);
  exchange_words(a, sb, t);
  barriers(a, sb, t);
  if (block_index() == 0 && a->map) maps(a, sb, t);
  if (block_index() == 0 && !IS(MISALIGNED_GLOBAL)) stg_f32(a->out + 1024 + t, 1);
}
