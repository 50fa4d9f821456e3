/* Emulator bodies of the functions in ../cp_async.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV void cp_async_16(uint32_t dst, const void *src, int bytes, EMU_AT) {
  emu_cp_async(dst, src, 16, bytes, file, line);
}
GA_DEV void cp_async_8(uint32_t dst, const void *src, int bytes, EMU_AT) {
  emu_cp_async(dst, src, 8, bytes, file, line);
}
GA_DEV void cp_async_4(uint32_t dst, const void *src, int bytes, EMU_AT) {
  emu_cp_async(dst, src, 4, bytes, file, line);
}
GA_DEV void cp_async_commit(EMU_AT) { emu_cp_commit(file, line); }
#define cp_async_wait(n) emu_cp_wait(n, __FILE__, __LINE__)
GA_DEV void cp_async_wait_all(EMU_AT) { emu_cp_wait(-1, file, line); }
GA_DEV void cp_async_arrive_noinc(uint32_t bar, EMU_AT) { emu_cp_arrive(bar, 0, file, line); }
GA_DEV void cp_async_arrive(uint32_t bar, EMU_AT) { emu_cp_arrive(bar, 1, file, line); }
