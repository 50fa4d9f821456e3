/* Emulator bodies of the functions in ../bulk.h. Cache policies and prefetches move no data: only their arguments are
 * checked. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

#define L2_EVICT_FIRST 0x12F0000000000000ull
#define L2_EVICT_LAST  0x14F0000000000000ull

GA_DEV void tmap_prefetch(const void *map, EMU_AT) { emu_tmap_check(map, file, line); }
GA_DEV void tmap_set_address(void *map, const void *base, EMU_AT) { emu_tmap_set_address(map, base, file, line); }
GA_DEV void tmap_release(EMU_AT) { emu_tmap_release(file, line); }
GA_DEV void tmap_acquire(const void *map, EMU_AT) { emu_tmap_acquire(map, file, line); }
GA_DEV void bulk_load_4d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, uint64_t,
                         EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, 0};
  emu_bulk_load_tensor(dst, map, bar, 4, c, 0, file, line);
}
GA_DEV void bulk_load_4d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3,
                                   uint16_t mask, uint64_t, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, 0};
  emu_bulk_load_tensor(dst, map, bar, 4, c, mask, file, line);
}
GA_DEV void bulk_prefetch_4d(const void *map, int, int, int, int, EMU_AT) { emu_tmap_check(map, file, line); }
GA_DEV void bulk_store_4d(const void *map, uint32_t src, int c0, int c1, int c2, int c3, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, 0};
  emu_bulk_store_tensor(0, map, src, 4, c, file, line);
}
GA_DEV void bulk_add_4d(const void *map, uint32_t src, int c0, int c1, int c2, int c3, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, 0};
  emu_bulk_store_tensor(1, map, src, 4, c, file, line);
}
GA_DEV void bulk_load_1d(uint32_t dst, const void *map, uint32_t bar, int c0, uint64_t, EMU_AT) {
  const int32_t c[5] = {c0};
  emu_bulk_load_tensor(dst, map, bar, 1, c, 0, file, line);
}
GA_DEV void bulk_store_1d(const void *map, uint32_t src, int c0, EMU_AT) {
  const int32_t c[5] = {c0};
  emu_bulk_store_tensor(0, map, src, 1, c, file, line);
}
GA_DEV void bulk_load_2d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint16_t mask, uint64_t,
                                   EMU_AT) {
  const int32_t c[5] = {c0, c1, 0, 0, 0};
  emu_bulk_load_tensor(dst, map, bar, 2, c, mask, file, line);
}
GA_DEV void bulk_load_2d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint64_t policy, EMU_AT) {
  bulk_load_2d_multicast(dst, map, bar, c0, c1, 0, policy, file, line);
}
GA_DEV void bulk_store_2d(const void *map, uint32_t src, int c0, int c1, EMU_AT) {
  const int32_t c[5] = {c0, c1, 0, 0, 0};
  emu_bulk_store_tensor(0, map, src, 2, c, file, line);
}
GA_DEV void bulk_load_3d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint16_t mask,
                                   uint64_t, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, 0, 0};
  emu_bulk_load_tensor(dst, map, bar, 3, c, mask, file, line);
}
GA_DEV void bulk_load_3d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint64_t policy, EMU_AT) {
  bulk_load_3d_multicast(dst, map, bar, c0, c1, c2, 0, policy, file, line);
}
GA_DEV void bulk_store_3d(const void *map, uint32_t src, int c0, int c1, int c2, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, 0, 0};
  emu_bulk_store_tensor(0, map, src, 3, c, file, line);
}
GA_DEV void bulk_load_5d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, int c4, uint64_t,
                         EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, c4};
  emu_bulk_load_tensor(dst, map, bar, 5, c, 0, file, line);
}
GA_DEV void bulk_prefetch_5d(const void *map, int, int, int, int, int, EMU_AT) { emu_tmap_check(map, file, line); }
GA_DEV void bulk_store_5d(const void *map, uint32_t src, int c0, int c1, int c2, int c3, int c4, EMU_AT) {
  const int32_t c[5] = {c0, c1, c2, c3, c4};
  emu_bulk_store_tensor(0, map, src, 5, c, file, line);
}
GA_DEV void bulk_load_bytes(uint32_t dst, const void *src, uint32_t bytes, uint32_t bar, uint64_t, EMU_AT) {
  emu_bulk_load(dst, src, bytes, bar, file, line);
}
GA_DEV void bulk_store_bytes(void *dst, uint32_t src, uint32_t bytes, EMU_AT) {
  emu_bulk_store(EMU_STORE, dst, src, bytes, file, line);
}
GA_DEV void bulk_copy_cluster(uint32_t dst, uint32_t src, uint32_t bytes, uint32_t bar, EMU_AT) {
  emu_bulk_send(dst, src, bytes, bar, file, line);
}
#define EMU_BULK_REDUCE(name, op) \
  GA_DEV void name(void *dst, uint32_t src, uint32_t bytes, EMU_AT) { emu_bulk_store(op, dst, src, bytes, file, line); }
EMU_BULK_REDUCE(bulk_add_f32, EMU_ADD_F32)
EMU_BULK_REDUCE(bulk_add_f16, EMU_ADD_F16)
EMU_BULK_REDUCE(bulk_add_bf16, EMU_ADD_BF16)
EMU_BULK_REDUCE(bulk_max_f16, EMU_MAX_F16)
EMU_BULK_REDUCE(bulk_max_bf16, EMU_MAX_BF16)
EMU_BULK_REDUCE(bulk_min_f16, EMU_MIN_F16)
EMU_BULK_REDUCE(bulk_min_bf16, EMU_MIN_BF16)
GA_DEV void bulk_commit(EMU_AT) { emu_bulk_commit(file, line); }
GA_DEV void bulk_wait_read(EMU_AT) { emu_bulk_wait(1, file, line); }
GA_DEV void bulk_wait(EMU_AT) { emu_bulk_wait(0, file, line); }
GA_DEV void fence_async_smem(EMU_AT) { emu_fence_async(file, line); }
GA_DEV void fence_async_global(EMU_AT) { emu_fence_async_global(file, line); }
