/* dev/ptx: one device instruction per inline function; the only place for inline assembly and for CUDA-only names.
 * Everything a kernel does to its surroundings goes through these headers, so that a second body can act it out on a CPU.
 * Shared memory is named by 32-bit addresses (byte offsets into the block's window), never by pointers. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/base.h"
#else
#include <stdint.h>

#define GA_DEV static __device__ __forceinline__
#define GA_GRID_CONST const __grid_constant__
/* One kernel of a translation: t threads, b blocks per multiprocessor (a fixed register budget, which setmaxnreg needs). */
#define GA_KERNEL(t, b) extern "C" __global__ void __launch_bounds__(t, b)
#define GA_SHARED __shared__ /* a static variable of the block */
#define GA_UNROLL _Pragma("unroll")
#define GA_ROLL _Pragma("unroll 1")
#define GA_CAT_(a, b) a##b
#define GA_CAT(a, b) GA_CAT_(a, b)
#define GA_CAT3(a, b, c) GA_CAT(GA_CAT(a, b), c)
#define GA_CAT5(a, b, c, d, e) GA_CAT(GA_CAT3(a, b, c), GA_CAT(d, e))

/* ---- where am I ---- */
GA_DEV int thread_index(void) { return (int)threadIdx.x; }
/* The same, read anew: in code that is seldom run, so that nothing worked out from it is kept in registers elsewhere. */
GA_DEV int thread_index_anew(void)
{
    int r;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(r));
    return r;
}
GA_DEV int block_index(void) { return (int)blockIdx.x; }
GA_DEV int block_count(void) { return (int)gridDim.x; }
/* Address of the block's dynamic shared memory, 1024-byte aligned (the period of the 128-byte swizzle). */
GA_DEV uint32_t smem_base(void)
{
    extern __shared__ __align__(1024) unsigned char ga_smem[];
    return (uint32_t)__cvta_generic_to_shared(ga_smem);
}

/* ---- within a warp: all 32 lanes must be there ---- */
GA_DEV int warp_uniform(int x) { return __shfl_sync(~0u, x, 0); }               /* lane 0's value; tells the compiler it is uniform */
GA_DEV float shfl_xor_f32(float x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
GA_DEV uint32_t shfl_xor_u32(uint32_t x, int mask) { return __shfl_xor_sync(~0u, x, mask); }
GA_DEV int warp_any(int x) { return __any_sync(~0u, x); }
GA_DEV void warp_sync(void) { __syncwarp(); }                                   /* also orders the warp's memory accesses */

/* ---- the whole block ---- */
GA_DEV void block_sync(void) { __syncthreads(); }

/* ---- pins: empty instructions that keep a register array where the programmer put it.
 * The compiler may not move a use or a definition of x[i] across them; they emit nothing. ---- */
GA_DEV void pin_f32(float *x, int n)
{
    GA_UNROLL for (int i = 0; i < n; i++) asm volatile("" : "+f"(x[i]) :: "memory");
}
GA_DEV void pin_u32(uint32_t *x, int n)
{
    GA_UNROLL for (int i = 0; i < n; i++) asm volatile("" : "+r"(x[i]) :: "memory");
}

/* ---- registers: the 128 threads of a warpgroup together; n a literal multiple of 8 in 24..256.
 * dec gives registers back, inc blocks until that many are free. ---- */
#define setmaxnreg_dec(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
#define setmaxnreg_inc(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))

/* ---- dependent launch ---- */
/* Waits until every grid this one depends on has finished and its writes are visible. */
GA_DEV void grid_dependency_wait(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/* Lets dependent grids start (they still wait for our end at their own grid_dependency_wait). */
GA_DEV void grid_launch_dependents(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#endif
