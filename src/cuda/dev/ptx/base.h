/* dev/ptx: one device instruction per inline function. This folder is the only place for inline assembly and for names
 * that only CUDA has.
 *
 * Kernels reach their environment only through these headers, so that a second body of each function can emulate it on
 * a CPU. Shared memory is named by 32-bit addresses (byte offsets into the block's window), never by pointers. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/base.h"
#else
#include <stdint.h>

#define GA_DEV                 static __device__ __forceinline__
#define GA_GRID_CONST          const __grid_constant__
/* Declares the kernel of a translation unit, with t threads a block and b blocks per multiprocessor. Both fix the
 * register budget, which setmaxnreg needs. */
#define GA_KERNEL(t, b)        extern "C" __global__ void __launch_bounds__(t, b)
#define GA_SHARED              __shared__ /* storage class of a static variable of the block */
#define GA_UNROLL              _Pragma("unroll")
#define GA_ROLL                _Pragma("unroll 1")
#define GA_CAT_(a, b)          a##b
#define GA_CAT(a, b)           GA_CAT_(a, b)
#define GA_CAT3(a, b, c)       GA_CAT(GA_CAT(a, b), c)
#define GA_CAT5(a, b, c, d, e) GA_CAT(GA_CAT3(a, b, c), GA_CAT(d, e))

/* ---- index of the thread and of the block ---- */
GA_DEV int thread_index(void) { return (int)threadIdx.x; }
/* Reads the thread index again. Code that runs rarely uses it, so that no value derived from the index occupies a
 * register elsewhere. */
GA_DEV int thread_index_anew(void) {
  int r;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r));
  return r;
}
GA_DEV int block_index(void) { return (int)blockIdx.x; }
GA_DEV int block_count(void) { return (int)gridDim.x; }
/* Returns the multiprocessor's cycle counter. The compiler moves neither loads nor barriers across it. */
GA_DEV int64_t clock_cycles(void) {
  int64_t c;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c)::"memory");
  return c;
}
/* Returns the address of the block's dynamic shared memory, 1024-byte aligned (the period of the 128-byte swizzle). */
GA_DEV uint32_t smem_base(void) {
  extern __shared__ __align__(1024) unsigned char ga_smem[];
  return (uint32_t)__cvta_generic_to_shared(ga_smem);
}

/* ---- within a warp: all 32 lanes must take part ---- */
GA_DEV int warp_uniform(int x) { return __shfl_sync(~0u, x, 0); } /* lane 0's value, known to the compiler as uniform */
GA_DEV float shfl_xor_f32(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
GA_DEV uint32_t shfl_xor_u32(uint32_t x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
/* Return the x of lane `lane` modulo 32. */
GA_DEV float shfl_idx_f32(float x, int lane) { return __shfl_sync(~0u, x, lane); }
GA_DEV uint32_t shfl_idx_u32(uint32_t x, int lane) { return __shfl_sync(~0u, x, lane); }
/* Return the x of the lane whose index is lower by d. Lanes below d get their own x. */
GA_DEV float shfl_up_f32(float x, int d) { return __shfl_up_sync(~0u, x, d); }
GA_DEV uint32_t shfl_up_u32(uint32_t x, int d) { return __shfl_up_sync(~0u, x, d); }
/* Return the x of the lane whose index is higher by d. Lanes from 32 - d on get their own x. */
GA_DEV float shfl_down_f32(float x, int d) { return __shfl_down_sync(~0u, x, d); }
GA_DEV uint32_t shfl_down_u32(uint32_t x, int d) { return __shfl_down_sync(~0u, x, d); }
GA_DEV int warp_any(int x) { return __any_sync(~0u, x); }
GA_DEV int warp_all(int x) { return __all_sync(~0u, x); }
/* bit i of the result is set when x of lane i is not 0 */
GA_DEV uint32_t warp_ballot(int x) { return __ballot_sync(~0u, x); }
/* Return the reduction of x over the warp to every lane (sm_80). */
GA_DEV uint32_t redux_add_u32(uint32_t x) { return __reduce_add_sync(~0u, x); }
GA_DEV uint32_t redux_and_u32(uint32_t x) { return __reduce_and_sync(~0u, x); }
GA_DEV uint32_t redux_or_u32(uint32_t x) { return __reduce_or_sync(~0u, x); }
GA_DEV int redux_min_i32(int x) { return __reduce_min_sync(~0u, x); }
GA_DEV int redux_max_i32(int x) { return __reduce_max_sync(~0u, x); }
/* Returns 1 in one lane, the same at every call, and 0 in the others (sm_90). */
GA_DEV int warp_elect(void) {
  int one;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p;}" : "=r"(one)::"memory");
  return one;
}
GA_DEV void warp_sync(void) { __syncwarp(); } /* also orders the memory accesses of the warp's threads */

/* ---- the whole block ---- */
GA_DEV void block_sync(void) { __syncthreads(); }

/* ---- pins: empty instructions that keep the values of a register array at this place of the program. The compiler may
 * not move a use or a definition of x[i] across a pin. ---- */
GA_DEV void pin_f32(float *x, int n) { GA_UNROLL for (int i = 0; i < n; i++) asm volatile("" : "+f"(x[i])::"memory"); }
GA_DEV void pin_u32(uint32_t *x, int n) {
  GA_UNROLL for (int i = 0; i < n; i++) asm volatile("" : "+r"(x[i])::"memory");
}

/* ---- registers: the 128 threads of a warpgroup call together. n is a literal multiple of 8 in 24 to 256.
 * setmaxnreg_dec reduces a thread's registers to n; setmaxnreg_inc raises them to n and waits until enough are free.
 * ---- */
#define setmaxnreg_dec(n)      asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define setmaxnreg_inc(n)      asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

/* ---- programmatic dependent launch ---- */
/* Waits until every grid that this grid depends on has finished and its writes are visible. */
GA_DEV void grid_dependency_wait(void) {
#if __CUDA_ARCH__ >= 900 /* GPUs before Hopper start grids one after the other */
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/* Lets dependent grids start. They still wait for the end of this grid at their own grid_dependency_wait. */
GA_DEV void grid_launch_dependents(void) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif
