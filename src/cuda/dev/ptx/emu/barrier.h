/* Emulator bodies of the functions in ../barrier.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV void mbar_init(uint32_t bar, uint32_t count, EMU_AT) { emu_mbar_init(bar, count, file, line); }
GA_DEV void mbar_init_fence(EMU_AT) { emu_mbar_init_fence(file, line); }
GA_DEV void mbar_arrive_expect(uint32_t bar, uint32_t bytes, EMU_AT) { emu_mbar_arrive(bar, bytes, -1, file, line); }
GA_DEV void mbar_expect(uint32_t bar, uint32_t bytes, EMU_AT) { emu_mbar_expect(bar, bytes, file, line); }
GA_DEV void mbar_arrive(uint32_t bar, EMU_AT) { emu_mbar_arrive(bar, 0, -1, file, line); }
GA_DEV int mbar_arrive_last(uint32_t bar, EMU_AT) { return emu_mbar_arrive(bar, 0, -1, file, line); }
GA_DEV void mbar_arrive_cluster(uint32_t bar, uint32_t rank, EMU_AT) { emu_mbar_arrive(bar, 0, (int)rank, file, line); }
GA_DEV uint32_t mbar_try_wait(uint32_t bar, uint32_t parity, EMU_AT) {
  return emu_mbar_try_wait(bar, parity, file, line);
}
GA_DEV void mbar_wait(uint32_t bar, uint32_t parity, EMU_AT) { emu_mbar_wait(bar, parity, file, line); }

GA_DEV void bar_sync(int id, int n, EMU_AT) { emu_bar(id, n, 1, file, line); }
GA_DEV void bar_arrive(int id, int n, EMU_AT) { emu_bar(id, n, 0, file, line); }

GA_DEV void cluster_sync(EMU_AT) {
  emu_cluster_arrive(file, line);
  emu_cluster_wait(file, line);
}
GA_DEV void cluster_arrive(EMU_AT) { emu_cluster_arrive(file, line); }
GA_DEV void cluster_wait(EMU_AT) { emu_cluster_wait(file, line); }
GA_DEV uint32_t cluster_address(uint32_t a, uint32_t rank) { return emu_cluster_address(a, rank); }
GA_DEV uint32_t cluster_rank(void) { return (uint32_t)emu_cluster_rank(); }
