/* The copy engine: two blocks of a cluster; what lies in shared memory or in `out` afterwards. */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "tests/emu/bits.h"

#define BAR (sb + BITS_BULK_BYTES)

GA_DEV void load_box(const bits_args *a, uint32_t sb) {
  const int *c = a->c;
  mbar_arrive_expect(BAR, a->box_bytes);
  if (a->rank == 1) bulk_load_1d(sb, &a->map, BAR, c[0], L2_EVICT_FIRST);
  if (a->rank == 2) bulk_load_2d(sb, &a->map, BAR, c[0], c[1], L2_EVICT_FIRST);
  if (a->rank == 3) bulk_load_3d(sb, &a->map, BAR, c[0], c[1], c[2], L2_EVICT_FIRST);
  if (a->rank == 4) bulk_load_4d(sb, &a->map, BAR, c[0], c[1], c[2], c[3], L2_EVICT_FIRST);
  if (a->rank == 5) bulk_load_5d(sb, &a->map, BAR, c[0], c[1], c[2], c[3], c[4], L2_EVICT_FIRST);
  mbar_wait(BAR, 0);
}

GA_DEV void store_box(const bits_args *a, uint32_t sb) {
  const int *c = a->c;
  if (a->rank == 1) bulk_store_1d(&a->map, sb, c[0]);
  if (a->rank == 2) bulk_store_2d(&a->map, sb, c[0], c[1]);
  if (a->rank == 3) bulk_store_3d(&a->map, sb, c[0], c[1], c[2]);
  if (a->rank == 5) bulk_store_5d(&a->map, sb, c[0], c[1], c[2], c[3], c[4]);
  if (a->rank == 4) bulk_add_4d(&a->map, sb, c[0], c[1], c[2], c[3]);
}

GA_DEV void reduce_box(const bits_args *a, uint32_t sb) {
  const uint32_t n = BITS_BULK_BYTES;
  void *p = a->out;
  if (a->what == BITS_BY_REDUCE_F32) bulk_add_f32(p, sb, n);
  if (a->what == BITS_BY_REDUCE_ADD_F16) bulk_add_f16(p, sb, n);
  if (a->what == BITS_BY_REDUCE_ADD_BF16) bulk_add_bf16(p, sb, n);
  if (a->what == BITS_BY_REDUCE_MAX_F16) bulk_max_f16(p, sb, n);
  if (a->what == BITS_BY_REDUCE_MIN_F16) bulk_min_f16(p, sb, n);
  if (a->what == BITS_BY_REDUCE_MAX_BF16) bulk_max_bf16(p, sb, n);
  if (a->what == BITS_BY_REDUCE_MIN_BF16) bulk_min_bf16(p, sb, n);
}

GA_DEV void atomics(const bits_args *a, int t) {
  for (int i = t; i < BITS_BULK_BYTES / 4; i += 128) {
    const uint32_t x = (uint32_t)ldg_i32((const int32_t *)a->in + 4096 + i);
    union {
      uint32_t u;
      float f;
    } v = {x};
    if (a->what == BITS_BY_RED_F32) red_add_f32((float *)a->out + i, v.f);
    if (a->what == BITS_BY_RED_F16X2) red_add_f16x2(a->out + i, x);
    if (a->what == BITS_BY_RED_BF16X2) red_add_bf16x2(a->out + i, x);
  }
}

/* One thread's part. */
GA_DEV void act(const bits_args *a, uint32_t sb, uint32_t rank) {
  const uint32_t half = BITS_BULK_BYTES / 2, other = rank ^ 1;
  if (a->what == BITS_BY_LOAD) {
    load_box(a, sb);
  } else if (a->what == BITS_BY_MULTICAST) {
    mbar_arrive_expect(BAR, a->box_bytes);
    if (rank == 0) bulk_load_4d_multicast(sb, &a->map, BAR, a->c[0], a->c[1], a->c[2], a->c[3], 3, L2_EVICT_LAST);
    mbar_wait(BAR, 0);
  } else if (a->what == BITS_BY_BYTES) {
    mbar_arrive_expect(BAR, half);
    bulk_load_bytes(sb + half, a->in + 64 * (rank + 1), half, BAR, L2_EVICT_FIRST);
    mbar_wait(BAR, 0);
  } else if (a->what == BITS_BY_SEND) {
    mbar_arrive_expect(BAR, half - 16);
    bulk_copy_cluster(cluster_address(sb + half, other), sb + 16, half - 16, cluster_address(BAR, other));
    mbar_wait(BAR, 0);
  } else if (a->what == BITS_BY_ST_ASYNC) {
    mbar_arrive_expect(BAR, 64);
    for (int i = 0; i < 4; i++)
      sts_async_i4(cluster_address(sb + half + 32 * i, other), i, 5 * i, 7, (int)rank, cluster_address(BAR, other));
    mbar_wait(BAR, 0);
  } else if (rank == 0) {
    if (a->what == BITS_BY_STORE || a->what == BITS_BY_ADD)
      store_box(a, sb);
    else
      reduce_box(a, sb);
    bulk_commit();
    bulk_wait();
  }
}

GA_KERNEL(128, 1) GA_KERNEL_ID(GA_GRID_CONST bits_args args) {
  const bits_args *a = &args;
  const uint32_t sb = smem_base(), rank = cluster_rank();
  const int t = thread_index();
  const int dumps = a->what == BITS_BY_LOAD || (a->what >= BITS_BY_MULTICAST && a->what <= BITS_BY_ST_ASYNC);
  for (int i = t; i < BITS_BULK_BYTES / 16; i += 128) {
    const int32_t *p = (const int32_t *)a->in + 8192 + 4 * i;
    sts_i4(sb + 16 * i, ldg_i32(p), ldg_i32(p + 1), ldg_i32(p + 2), ldg_i32(p + 3));
  }
  fence_async_smem();
  if (t == 0) {
    mbar_init(BAR, 1);
    mbar_init_fence();
  }
  warp_sync(); /* cluster_sync is aligned: the lanes must be together again */
  cluster_sync();
  if (a->what >= BITS_BY_RED_F32 && rank == 0) atomics(a, t);
  if (a->what < BITS_BY_RED_F32 && t == 0) act(a, sb, rank);
  warp_sync();
  cluster_sync();
  for (int i = t; i < BITS_BULK_BYTES / 16 && dumps; i += 128) {
    const ga_i4 x = lds_i4(sb + 16 * i);
    stg_u4(a->out + rank * (BITS_BULK_BYTES / 4) + 4 * i, (uint32_t)x.x, (uint32_t)x.y, (uint32_t)x.z, (uint32_t)x.w);
  }
}
