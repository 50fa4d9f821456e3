/* For tools/cuda_build.py, never compiled: the preprocessor turns each row into
 *   @ROW "id" @ arch @ "source" @ "parameters"
 * where neighbouring strings are one. */
#include "cuda/kern/attn/attn_any_rows.h"
#include "cuda/kern/attn/attn_rows.h"
#include "cuda/kern/ladder/ladder_rows.h"

#define GA_KERNEL_ATTN(op, dt, d, dv, mask, arch, bm, bn, st, sched, turn, qreg, store, resident, blocks, features, \
                       ...)                                                                                         \
  @ROW GA_ATTN_ID(op, dt, d, dv, mask, arch, bm, bn, st, sched) @arch @GA_ATTN_SOURCE(sched, arch)                  \
      @GA_ATTN_PARAMS(dt, d, dv, mask, bm, bn, st, turn, qreg, store, resident, blocks, features)
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN

#include "cuda/kern/attn_fp8/attn8_rows.h"
#define GA_KERNEL_ATTN_FP8(qk, dt, d, mask, arch, bm, bn, st, sched, turn)                            \
  @ROW GA_ATTN_FP8_ID(qk, dt, d, mask, arch, bm, bn, st, sched, turn) @arch @GA_ATTN_FP8_SOURCE(arch) \
      @GA_ATTN_FP8_PARAMS(qk, dt, d, mask, bm, bn, st, sched, turn)
#define GA_KERNEL_ATTN_QUANT(y, dtype, d) \
  @ROW GA_ATTN_QUANT_ID(y, dtype, d) @sm90a @GA_ATTN_QUANT_SOURCE @GA_ATTN_QUANT_PARAMS(y, dtype, d)
#define GA_KERNEL_ATTN_VALUES(dtype, d) \
  @ROW GA_ATTN_VALUES_ID(dtype, d) @sm90a @GA_ATTN_VALUES_SOURCE @GA_ATTN_VALUES_PARAMS(dtype, d)
#define GA_STEP_ATTN_MEANS(dtype) @ROW GA_ATTN_MEANS_ID(dtype) @sm90a @GA_ATTN_MEANS_SOURCE @GA_ATTN_MEANS_PARAMS(dtype)
#include "cuda/kern/attn_fp8/attn8.def"
#undef GA_STEP_ATTN_MEANS
#undef GA_KERNEL_ATTN_VALUES
#undef GA_KERNEL_ATTN_QUANT
#undef GA_KERNEL_ATTN_FP8

#include "cuda/kern/attn_bwd/attn_bwd_rows.h"
#define GA_KERNEL_ATTN_BWD(op, dt, d, mask, arch, bm, st, sched, order, features)           \
  @ROW GA_ATTN_BWD_ID(op, dt, d, mask, arch, bm, st, sched) @arch @GA_ATTN_BWD_SOURCE(arch) \
      @GA_ATTN_BWD_PARAMS(dt, d, mask, bm, st, order, features)
#define GA_KERNEL_ATTN_BWD_WHOLE(op, dt, d, mask, arch, bm, st, features)                        \
  @ROW GA_ATTN_BWD_WHOLE_ID(op, dt, d, mask, arch, bm, st) @arch @GA_ATTN_BWD_WHOLE_SOURCE(arch) \
      @GA_ATTN_BWD_WHOLE_PARAMS(dt, d, mask, bm, st, features)
#define GA_KERNEL_ATTN_BWD_DUET(op, dtype, dk, dv, mask, arch, sched, order, features)                \
  @ROW GA_ATTN_BWD_DUET_ID(op, dtype, dk, dv, mask, arch, sched) @arch @GA_ATTN_BWD_DUET_SOURCE(arch) \
      @GA_ATTN_BWD_DUET_PARAMS(dtype, dk, dv, mask, order, features)
#define GA_STEP_ATTN_BWD(name, dt, d, arch) \
  @ROW GA_ATTN_BWD_STEP_ID(name, dt, d, arch) @arch @GA_ATTN_BWD_STEP_SOURCE(name, arch) @GA_ATTN_BWD_STEP_PARAMS(dt, d)
#include "cuda/kern/attn_bwd/attn_bwd.def"
#undef GA_STEP_ATTN_BWD
#undef GA_KERNEL_ATTN_BWD_DUET
#undef GA_KERNEL_ATTN_BWD_WHOLE
#undef GA_KERNEL_ATTN_BWD
#include "cuda/kern/attn_bwd/attn_bwd_any_rows.h"
#define GA_KERNEL_ATTN_BWD_ANY(form, dtype, d, own, other, warps, blocks)                        \
  @ROW GA_ATTN_BWD_ANY_ID(form, dtype, d, own, other, warps) @sm80 @GA_ATTN_BWD_ANY_SOURCE(form) \
      @GA_ATTN_BWD_ANY_PARAMS(dtype, d, own, other, warps, blocks)
#include "cuda/kern/attn_bwd/attn_bwd_any.def"
#undef GA_KERNEL_ATTN_BWD_ANY
#define GA_KERNEL_ATTN_ANY(dtype, d, bm, bn, warps, blocks)              \
  @ROW GA_ATTN_ANY_ID(dtype, d, bm, bn, warps) @sm80 @GA_ATTN_ANY_SOURCE \
      @GA_ATTN_ANY_PARAMS(dtype, d, bm, bn, warps, blocks)
#include "cuda/kern/attn/attn_any.def"
#undef GA_KERNEL_ATTN_ANY

#define GA_KERNEL_LADDER(step, arch, threads, bm, shared, maps, flags) \
  @ROW GA_LADDER_ID(step, arch) @arch @GA_LADDER_SOURCE(step) @GA_LADDER_PARAMS(shared)
#include "cuda/kern/ladder/ladder.def"
#undef GA_KERNEL_LADDER

#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_, \
                      ...)                                                                                          \
  @ROW #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_ @arch_ @file_ @ #__VA_ARGS__
#define GA_CUDA_SAMPLE(op_, dtypes_, mode_, arch_, tile_, file_, threads_, ...) \
  @ROW #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_ @arch_ @file_ @ #__VA_ARGS__
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_SAMPLE
#undef GA_CUDA_LAYER

#define GA_CUDA_PROBE(name_, arch_, file_, ...) @ROW "probe_" #name_ "_" #arch_ @arch_ @file_ @ #__VA_ARGS__
#include "cuda/kern/probe/probe.def"
#undef GA_CUDA_PROBE
#define GA_CUDA_GEMM(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, w_, x_, y_, layout_, min_, \
                     max_, score_, flags_, workspace_, ...)                                                       \
  @ROW #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_ @arch_ @file_ @ #__VA_ARGS__
#define GA_CUDA_GEMM_MMA(dtype, st)                                                     \
  @ROW "gemm_" #dtype "_mma_sm80_128x128" @sm80 @ "src/cuda/kern/gemm/gemm_mma_sm80.cu" \
                                                @ "DTYPE=" #dtype ",STAGES=" #st
#define GA_CUDA_T16(type_, TYPE_, threads_, depth_)                                  \
  @ROW "gemm_" #type_ "_t16_sm80_16x8" @sm80 @ "src/cuda/kern/gemm/gemm_t16_sm80.cu" \
                                             @ "W=" #TYPE_ ",DEPTH=" #depth_ ",THREADS=" #threads_
#include "cuda/kern/gemm/gemm_tile_rows.h"
#define GA_CUDA_GEMM_TILE(mode, dtype, bm, bn, st, pair, parts, xt, wt, sums) \
  @ROW GA_GEMM_TILE_ID(mode, dtype, bm, bn) @sm90a @GA_GEMM_TILE_SOURCE       \
      @GA_GEMM_TILE_PARAMS(dtype, bm, bn, st, pair, parts, xt, wt, sums)
#include "cuda/kern/gemm/gemm_wide_rows.h"
#define GA_CUDA_GEMM_WIDE(type, TYPE, bn, kw, xs, ws) \
  @ROW GA_GEMM_WIDE_ID(type, bn) @sm90a @GA_GEMM_WIDE_SOURCE @GA_GEMM_WIDE_PARAMS(TYPE, bn, kw, xs, ws)
#define GA_CUDA_GEMM_STEP(name, arch, source) @ROW GA_GEMM_STEP_ID(#name, #arch) @arch @source @ "NONE=0"
#define GA_CUDA_T16_RING(type_, TYPE_, threads_)                                              \
  @ROW "gemm_" #type_ "_t16_sm90a_16x1" @sm90a @ "src/cuda/kern/gemm/gemm_t16_sm90a.cu"       \
                                               @ "W=" #TYPE_ ",ROWS=1,THREADS=" #threads_ @ROW \
      "gemm_" #type_ "_t16_sm90a_16x8" @sm90a @ "src/cuda/kern/gemm/gemm_t16_sm90a.cu"        \
                                              @ "W=" #TYPE_ ",ROWS=8,THREADS=" #threads_
#include "cuda/kern/gemm/gemm.def"
#undef GA_CUDA_T16_RING
#undef GA_CUDA_GEMM_STEP
#undef GA_CUDA_GEMM_WIDE
#undef GA_CUDA_GEMM_TILE
#undef GA_CUDA_T16
#undef GA_CUDA_GEMM_MMA
#undef GA_CUDA_GEMM

#define GA_CUDA_ATTN_ROWS(type_, TYPE_)                                             \
  @ROW "attn_" #type_ "_rows_sm80_4" @sm80 @ "src/cuda/kern/attn/attn_rows_sm80.cu" \
                                           @ "KV=" #TYPE_ ",ROWS=4,THREADS=128"
#define GA_CUDA_ATTN_PROMPT(type_, TYPE_)                                                    \
  @ROW "attn_" #type_ "_prompt_sm90a_256" @sm90a @ "src/cuda/kern/attn/attn_prompt_sm90a.cu" \
                                                 @ "NONE=0"
#define GA_CUDA_ATTN_DECODE(type_, TYPE_, d_, keys_, warps_, stages_, from_, meet_)       \
  @ROW GA_ATTN_DECODE_ID(type_, d_, keys_, warps_, stages_) @sm90a @GA_ATTN_DECODE_SOURCE \
      @GA_ATTN_DECODE_PARAMS(TYPE_, d_, keys_, warps_, stages_, meet_)
#include "cuda/kern/attn/attn_rows.def"
