/* Second body of ../bulk.h. Cache policies and prefetches move no data: only their arguments are checked. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

#define L2_EVICT_FIRST 0x12F0000000000000ull
#define L2_EVICT_LAST 0x14F0000000000000ull

GA_DEV void tmap_prefetch(const void *map, EMU_AT) { emu_tmap_check(map, file, line); }
GA_DEV void bulk_load_4d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, uint64_t, EMU_AT)
{
    const int32_t c[5] = { c0, c1, c2, c3, 0 };
    emu_bulk_load_tensor(dst, map, bar, 4, c, 0, file, line);
}
GA_DEV void bulk_load_4d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, int c3, uint16_t mask, uint64_t, EMU_AT)
{
    const int32_t c[5] = { c0, c1, c2, c3, 0 };
    emu_bulk_load_tensor(dst, map, bar, 4, c, mask, file, line);
}
GA_DEV void bulk_prefetch_4d(const void *map, int, int, int, int, EMU_AT) { emu_tmap_check(map, file, line); }
GA_DEV void bulk_store_4d(const void *map, uint32_t src, int c0, int c1, int c2, int c3, EMU_AT)
{
    const int32_t c[5] = { c0, c1, c2, c3, 0 };
    emu_bulk_store_tensor(map, src, 4, c, file, line);
}
GA_DEV void bulk_load_2d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint16_t mask, uint64_t, EMU_AT)
{
    const int32_t c[5] = { c0, c1, 0, 0, 0 };
    emu_bulk_load_tensor(dst, map, bar, 2, c, mask, file, line);
}
GA_DEV void bulk_load_2d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, uint64_t policy, EMU_AT)
{
    bulk_load_2d_multicast(dst, map, bar, c0, c1, 0, policy, file, line);
}
GA_DEV void bulk_store_2d(const void *map, uint32_t src, int c0, int c1, EMU_AT)
{
    const int32_t c[5] = { c0, c1, 0, 0, 0 };
    emu_bulk_store_tensor(map, src, 2, c, file, line);
}
GA_DEV void bulk_load_3d_multicast(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint16_t mask, uint64_t, EMU_AT)
{
    const int32_t c[5] = { c0, c1, c2, 0, 0 };
    emu_bulk_load_tensor(dst, map, bar, 3, c, mask, file, line);
}
GA_DEV void bulk_load_3d(uint32_t dst, const void *map, uint32_t bar, int c0, int c1, int c2, uint64_t policy, EMU_AT)
{
    bulk_load_3d_multicast(dst, map, bar, c0, c1, c2, 0, policy, file, line);
}
GA_DEV void bulk_store_3d(const void *map, uint32_t src, int c0, int c1, int c2, EMU_AT)
{
    const int32_t c[5] = { c0, c1, c2, 0, 0 };
    emu_bulk_store_tensor(map, src, 3, c, file, line);
}
GA_DEV void bulk_add_f32(void *dst, uint32_t src, uint32_t bytes, EMU_AT) { emu_bulk_add_f32(dst, src, bytes, file, line); }
GA_DEV void bulk_commit(EMU_AT) { emu_bulk_commit(file, line); }
GA_DEV void bulk_wait_read(EMU_AT) { emu_bulk_wait(1, file, line); }
GA_DEV void bulk_wait(EMU_AT) { emu_bulk_wait(0, file, line); }
GA_DEV void fence_async_smem(EMU_AT) { emu_fence_async(file, line); }
GA_DEV void fence_async_global(void) {} /* global memory has one proxy here */
