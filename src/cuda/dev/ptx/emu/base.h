/* Emulator bodies of the functions in ../base.h, which includes this file when GA_EMU is defined. */
#pragma once
#include "core/emu_calls.h"
#include <math.h>
#include <string.h>

#define GA_DEV                static inline __attribute__((always_inline, unused))
#define GA_GRID_CONST         const
#define EMU_FIRST(t, ...)     t
#define EMU_SECOND(t, b, ...) b
/* Declares a kernel, and makes its launch bounds constants from which the emulator checks the register budget. */
#define GA_KERNEL(...)                                                                                        \
  enum { EMU_LAUNCH_THREADS = EMU_FIRST(__VA_ARGS__, 1), EMU_LAUNCH_BLOCKS = EMU_SECOND(__VA_ARGS__, 1, 1) }; \
  extern "C" void
/* Storage class of a block's shared variables. Without a cluster one block runs at a time, so that a static object
 * suffices. The emulator checks accesses to section emu_shared. */
#define GA_SHARED static __attribute__((section("emu_shared")))
#define GA_UNROLL
#define GA_ROLL
#define GA_CAT_(a, b)          a##b
#define GA_CAT(a, b)           GA_CAT_(a, b)
#define GA_CAT3(a, b, c)       GA_CAT(GA_CAT(a, b), c)
#define GA_CAT5(a, b, c, d, e) GA_CAT(GA_CAT3(a, b, c), GA_CAT(d, e))
/* Last parameters of every emulated instruction: file and line of the caller. */
#define EMU_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* ---- index of the thread and of the block ---- */
GA_DEV int thread_index(void) { return emu_thread_index(); }
GA_DEV int thread_index_anew(void) { return emu_thread_index(); }
GA_DEV int block_index(void) { return emu_block_index(); }
GA_DEV int block_count(void) { return emu_block_count(); }
GA_DEV int64_t clock_cycles(void) { return emu_clock_cycles(); }
GA_DEV uint32_t smem_base(void) { return emu_smem_base(); }

/* ---- within a warp ---- */
GA_DEV uint32_t emu_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
GA_DEV float emu_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
#define __uint_as_float(u) emu_float(u)
GA_DEV int warp_uniform(int x, EMU_AT) { return (int)emu_shfl((uint32_t)x, 0, 1, file, line); }
GA_DEV uint32_t shfl_idx_u32(uint32_t x, int lane, EMU_AT) { return emu_shfl(x, lane, 1, file, line); }
GA_DEV float shfl_idx_f32(float x, int lane, EMU_AT) { return emu_float(emu_shfl(emu_bits(x), lane, 1, file, line)); }
GA_DEV uint32_t shfl_up_u32(uint32_t x, int d, EMU_AT) {
  return emu_shfl(x, emu_thread_index() % 32 - d, 0, file, line);
}
GA_DEV float shfl_up_f32(float x, int d, EMU_AT) { return emu_float(shfl_up_u32(emu_bits(x), d, file, line)); }
GA_DEV uint32_t shfl_down_u32(uint32_t x, int d, EMU_AT) {
  return emu_shfl(x, emu_thread_index() % 32 + d, 0, file, line);
}
GA_DEV float shfl_down_f32(float x, int d, EMU_AT) { return emu_float(shfl_down_u32(emu_bits(x), d, file, line)); }
GA_DEV uint32_t shfl_xor_u32(uint32_t x, int mask, EMU_AT) { return emu_shfl_xor(x, mask, file, line); }
GA_DEV float shfl_xor_f32(float x, int mask, EMU_AT) { return emu_float(emu_shfl_xor(emu_bits(x), mask, file, line)); }
GA_DEV uint32_t warp_ballot(int x, EMU_AT) { return emu_warp_ballot(x, file, line); }
GA_DEV int warp_any(int x, EMU_AT) { return emu_warp_ballot(x, file, line) != 0; }
GA_DEV int warp_all(int x, EMU_AT) { return emu_warp_ballot(x, file, line) == ~0u; }
GA_DEV uint32_t redux_add_u32(uint32_t x, EMU_AT) { return emu_redux(EMU_REDUX_ADD, 0, x, file, line); }
GA_DEV uint32_t redux_and_u32(uint32_t x, EMU_AT) { return emu_redux(EMU_REDUX_AND, 0, x, file, line); }
GA_DEV uint32_t redux_or_u32(uint32_t x, EMU_AT) { return emu_redux(EMU_REDUX_OR, 0, x, file, line); }
GA_DEV int redux_min_i32(int x, EMU_AT) { return (int)emu_redux(EMU_REDUX_MIN, 1, (uint32_t)x, file, line); }
GA_DEV int redux_max_i32(int x, EMU_AT) { return (int)emu_redux(EMU_REDUX_MAX, 1, (uint32_t)x, file, line); }
GA_DEV int warp_elect(EMU_AT) { return emu_elect(file, line); }
GA_DEV void warp_sync(EMU_AT) { emu_warp_sync(file, line); }

/* ---- the whole block ---- */
GA_DEV void block_sync(EMU_AT) { emu_bar(0, 0, 1, file, line); }

/* ---- pins: nothing to do on a CPU ---- */
GA_DEV void pin_f32(float *, int) {}
GA_DEV void pin_u32(uint32_t *, int) {}

#define setmaxnreg_dec(n) emu_setmaxnreg(n, 0, __FILE__, __LINE__)
#define setmaxnreg_inc(n) emu_setmaxnreg(n, 1, __FILE__, __LINE__)

/* ---- programmatic dependent launch ---- */
GA_DEV void grid_dependency_wait(EMU_AT) { emu_grid_wait(file, line); }
GA_DEV void grid_launch_dependents(void) {
} /* Does nothing, because the emulator runs launches one after the other. grid_dependency_wait checks the order. */
