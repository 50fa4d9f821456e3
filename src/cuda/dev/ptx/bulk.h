/* The bulk-copy engine (TMA), and the fences between it and ordinary accesses. One thread issues a copy; the engine
 * does the rest. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/bulk.h"
#else
#include "cuda/dev/ptx/base.h"

/* L2 cache policies, as createpolicy.fractional.L2::evict_first and evict_last return them for whole lines. They are
 * constants, because the result of this instruction would occupy registers. */
#define L2_EVICT_FIRST 0x12F0000000000000ull
#define L2_EVICT_LAST  0x14F0000000000000ull

/* ---- tensor maps: 128 bytes, 64-byte aligned, in kernel parameters ---- */
GA_DEV void tmap_prefetch(const void *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
/* Functions that change the base address of a tensor map in global memory. One thread calls tmap_set_address, then
 * tmap_release. Each thread that copies by the map then calls tmap_acquire. An ordinary barrier orders the release
 * before the acquires. */
GA_DEV void tmap_set_address(void *map, const void *base) {
  asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(base) : "memory");
}
GA_DEV void tmap_release(void) { asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory"); }
GA_DEV void tmap_acquire(const void *map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
/* Copies the box at (c0..c3) to shared memory at dst (128-byte aligned, 1024 with the 128-byte swizzle). Elements
 * outside the tensor read as zero and still count towards the bytes that `bar` expects. */
GA_DEV void bulk_load_4d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "l"(policy)
               : "memory");
}
/* Copies the box at (c0..c3) to offset dst of the shared memory of every block of the cluster whose bit is set in
 * `mask`. Signals the mbarrier at offset `bar` in each of these blocks. */
GA_DEV void bulk_load_4d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3,
                                   uint16_t mask, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2:"
               ":cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7, %8;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"(mask), "l"(policy)
               : "memory");
}
/* Copies the box at (c0..c3) into L2 only. */
GA_DEV void bulk_prefetch_4d(const void *map, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1),
               "r"(c2), "r"(c3)
               : "memory");
}
/* Copies shared memory to the box at (c0..c3); elements outside the tensor are not written. The copy belongs to the
 * thread's next bulk_commit group. */
GA_DEV void bulk_store_4d(const void *map, uint32_t src, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
/* Adds the elements at shared address src to the box at (c0..c3) of the tensor. The map gives the type: f32, f16, bf16
 * or a 32-bit integer. */
GA_DEV void bulk_add_4d(const void *map, uint32_t src, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}

/* ---- tensors of 1, 2, 3 and 5 dimensions; see the functions for 4 dimensions above ---- */
GA_DEV void bulk_load_1d(uint32_t dst, const void *map, uint32_t bar, int c0, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%3}], [%2], %4;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "l"(policy)
               : "memory");
}
GA_DEV void bulk_store_1d(const void *map, uint32_t src, int c0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%0, {%2}], [%1];" ::"l"(map), "r"(src),
               "r"(c0)
               : "memory");
}
GA_DEV void bulk_load_2d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%3, %4}], [%2], %5;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "l"(policy)
               : "memory");
}
GA_DEV void bulk_load_2d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint16_t mask,
                                   uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2:"
               ":cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "h"(mask), "l"(policy)
               : "memory");
}
GA_DEV void bulk_store_2d(const void *map, uint32_t src, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(src),
               "r"(c0), "r"(c1)
               : "memory");
}
GA_DEV void bulk_load_3d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "l"(policy)
               : "memory");
}
GA_DEV void bulk_load_3d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint16_t mask,
                                   uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2:"
               ":cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "h"(mask), "l"(policy)
               : "memory");
}
GA_DEV void bulk_store_3d(const void *map, uint32_t src, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(src), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
GA_DEV void bulk_load_5d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, int c4,
                         uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
               "[%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(dst),
               "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "l"(policy)
               : "memory");
}
GA_DEV void bulk_prefetch_5d(const void *map, int c0, int c1, int c2, int c3, int c4) {
  asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(map), "r"(c0),
               "r"(c1), "r"(c2), "r"(c3), "r"(c4)
               : "memory");
}
GA_DEV void bulk_store_5d(const void *map, uint32_t src, int c0, int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

/* ---- contiguous bytes: addresses and counts are multiples of 16 ---- */
GA_DEV void bulk_load_bytes(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(dst),
      "l"(src), "r"(bytes), "r"(bar), "l"(policy)
      : "memory");
}
GA_DEV void bulk_store_bytes(void *dst, uint32_t src, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src), "r"(bytes)
               : "memory");
}
/* Copies `bytes` bytes to another block of the cluster, whose mbarrier `bar` counts the bytes. dst and bar come from
 * cluster_address. */
GA_DEV void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
      "r"(src), "r"(bytes), "r"(bar)
      : "memory");
}
/* Defines a function that combines elements in global memory with elements in shared memory: by their sum, maximum or
 * minimum. Each element is updated atomically, in no defined order. */
#define GA_BULK_REDUCE(name, op)                                                                                   \
  GA_DEV void name(void *dst, uint32_t src, uint32_t bytes) {                                                      \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." op " [%0], [%1], %2;" ::"l"(dst), "r"(src), \
                 "r"(bytes)                                                                                        \
                 : "memory");                                                                                      \
  }
GA_BULK_REDUCE(bulk_add_f32, "add.f32")
GA_BULK_REDUCE(bulk_add_f16, "add.noftz.f16")
GA_BULK_REDUCE(bulk_add_bf16, "add.noftz.bf16")
GA_BULK_REDUCE(bulk_max_f16, "max.f16")
GA_BULK_REDUCE(bulk_max_bf16, "max.bf16")
GA_BULK_REDUCE(bulk_min_f16, "min.f16")
GA_BULK_REDUCE(bulk_min_bf16, "min.bf16")

GA_DEV void bulk_commit(void) { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/* Waits until all copies that this thread has committed have read their shared memory, which may then be
 * overwritten. */
GA_DEV void bulk_wait_read(void) { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/* Waits until all copies that this thread has committed are complete, their writes included. */
GA_DEV void bulk_wait(void) { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* Orders this thread's ordinary writes to shared memory before later accesses by the copy engine or wgmma. A barrier
 * must carry the order to the thread that issues those accesses. */
GA_DEV void fence_async_smem(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* Orders this thread's ordinary writes to global memory, and the writes it has observed there, before later accesses by
 * the copy engine. */
GA_DEV void fence_async_global(void) { asm volatile("fence.proxy.async.global;" ::: "memory"); }
#endif
