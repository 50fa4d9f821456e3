/* The table of CUDA rows, and what of it this build can run. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "core/rows.h"
#include "cuda/kern/attn/attn_any_rows.h"
#include "cuda/kern/attn/attn_decode_sm90a.h"
#include "cuda/kern/attn/attn_fwd_sm80.h"
#include "cuda/kern/attn/attn_fwd_sm90a.h"
#include "cuda/kern/attn/attn_prompt_sm90a.h"
#include "cuda/kern/attn/attn_rows.h"
#include "cuda/kern/attn_bwd/attn_bwd_any_rows.h"
#include "cuda/kern/attn_bwd/attn_bwd_rows.h"
#include "cuda/kern/attn_bwd/attn_bwd_sm90a.h"
#include "cuda/kern/attn_fp8/attn8_rows.h"
#include "cuda/kern/attn_fp8/attn_fp8_sm90a.h"
#include "cuda/kern/gemm/gemm.h"
#include "cuda/kern/gemm/gemm_t16_sm90a.h"
#include "cuda/kern/gemm/gemm_tile_rows.h"
#include "cuda/kern/gemm/gemm_tile_sm90a.h"
#include "cuda/kern/gemm/gemm_wide_rows.h"
#include "cuda/kern/gemm/gemm_wide_sm90a.h"
#include "cuda/kern/ladder/ladder_host.h"
#include "cuda/kern/ladder/ladder_rows.h"
#include "cuda/kern/layer/layer.h"
#include "cuda/rt/cuda.h"

#define DTYPE_bf16 GA_BF16
#define DTYPE_f16  GA_F16
#define DTYPE_fp8  GA_E4M3
#define DTYPE_i8   GA_I8
#define DTYPE_f32  GA_F32
#define DTYPE_e4m3 GA_E4M3

static const ga_kernel rows[] = {
#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_, \
                      ...)                                                                                          \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_,                          \
         .dtype = {GA_##x_, GA_##y_}, .score = score_, .tolerance = tolerance_,                                     \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#define GA_CUDA_SAMPLE(op_, dtypes_, mode_, arch_, tile_, file_, threads_, ...)                           \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = cuda_sample, .ok = cuda_sample_ok, \
         .workspace = cuda_sample_workspace, .dtype = {GA_F32, GA_F32}, .score = 50, .tolerance = 2,      \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_SAMPLE
#undef GA_CUDA_LAYER
#define GA_CUDA_GEMM(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, w_, x_, y_, layout_, min_, \
                     max_, score_, flags_, workspace_, ...)                                                       \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_,                        \
         .dtype = {GA_##w_, GA_##x_, GA_##y_}, .layout = GA_LAYOUT_##layout_, .rows_min = min_, .rows_max = max_, \
         .score = score_, .flags = flags_, .tolerance = 2, .workspace = workspace_,                               \
         .out_bytes = GA_OP_##op_ == GA_OP_pack ? cuda_pack_bytes : NULL,                                         \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#define GA_CUDA_T16(type_, TYPE_, threads_, depth_)                                                              \
  GA_ROW(gemm, type_, t16, sm80, 16x8, .source = "src/cuda/kern/gemm/gemm_t16_sm80.cu", .launch = cuda_gemm_t16, \
         .ok = cuda_gemm_t16_ok, .dtype = {GA_##TYPE_, GA_F32, GA_F32}, .layout = GA_LAYOUT_T16, .score = 60,    \
         .flags = GA_KERNEL_Q15_ACT, .tolerance = 2, .workspace = cuda_gemm_t16_workspace,                       \
         .impl = &(const cuda_variant){.params = "W=" #TYPE_ ",DEPTH=" #depth_ ",THREADS=" #threads_,            \
                                       .threads = threads_,                                                      \
                                       .shared_bytes = 231424,                                                   \
                                       .static_bytes = 1024}),
#define GA_CUDA_GEMM_MMA(dt, st)                                                                                 \
  GA_ROW(gemm, dt, mma, sm80, 128x128, .source = "src/cuda/kern/gemm/gemm_mma_sm80.cu", .launch = cuda_gemm_mma, \
         .ok = cuda_gemm_mma_ok, .dtype = {DTYPE_##dt, DTYPE_##dt}, .align = 16, .score = 20,                    \
         .flags = GA_KERNEL_TENSOR, .tolerance = 2,                                                              \
         .impl = &(const cuda_variant){                                                                          \
             .params = "DTYPE=" #dt ",STAGES=" #st, .threads = 256, .shared_bytes = (st)*32768}),
#define GA_CUDA_GEMM_TILE(mode_, dt, bm_, bn_, st_, pair_, parts_, xt_, wt_, short_)               \
  {.id = GA_GEMM_TILE_ID(mode_, dt, bm_, bn_),                                                     \
   .op = GA_OP_gemm,                                                                               \
   .arch = GA_ARCH_sm90a,                                                                          \
   .source = GA_GEMM_TILE_SOURCE,                                                                  \
   .launch = cuda_gemm_tile,                                                                       \
   .ok = cuda_gemm_tile_ok,                                                                        \
   .fit = cuda_gemm_tile_fit,                                                                      \
   .workspace = cuda_gemm_tile_workspace,                                                          \
   .dtype = {DTYPE_##dt, DTYPE_##dt},                                                              \
   .align = 16,                                                                                    \
   .score = 100,                                                                                   \
   .flags = GA_KERNEL_TENSOR | (DTYPE_##dt == GA_E4M3 && !(short_) ? GA_KERNEL_FAST_SUM : 0),      \
   .tolerance = 2,                                                                                 \
   .impl = &(const cuda_gemm_tile_variant){                                                        \
       .base = {.params = GA_GEMM_TILE_PARAMS(dt, bm_, bn_, st_, pair_, parts_, xt_, wt_, short_), \
                .threads = GA_GEMM_TILE_THREADS(bm_),                                              \
                .shared_bytes = GA_GEMM_TILE_SMEM(bm_, bn_, st_, short_)},                         \
       .bm = bm_,                                                                                  \
       .bn = bn_,                                                                                  \
       .pair = pair_,                                                                              \
       .parts = parts_,                                                                            \
       .across = ((xt_) ? GA_GEMM_XT : 0) | ((wt_) ? GA_GEMM_WT : 0)}},
#define GA_CUDA_GEMM_WIDE(type_, TYPE_, bn_, kw_, xs_, ws_)                                      \
  {.id = GA_GEMM_WIDE_ID(type_, bn_),                                                            \
   .op = GA_OP_gemm,                                                                             \
   .arch = GA_ARCH_sm90a,                                                                        \
   .source = GA_GEMM_WIDE_SOURCE,                                                                \
   .launch = cuda_gemm_wide,                                                                     \
   .ok = cuda_gemm_wide_ok,                                                                      \
   .fit = cuda_gemm_wide_fit,                                                                    \
   .workspace = cuda_gemm_wide_workspace,                                                        \
   .dtype = {GA_##TYPE_, GA_F32, GA_F32},                                                        \
   .layout = GA_LAYOUT_T16,                                                                      \
   .rows_min = CUDA_GEMM_WIDE_LEAST,                                                             \
   .align = 16,                                                                                  \
   .score = 100,                                                                                 \
   .flags = GA_KERNEL_BF16 | GA_KERNEL_TENSOR,                                                   \
   .tolerance = 2,                                                                               \
   .impl = &(const cuda_gemm_wide_variant){                                                      \
       .base = {.params = GA_GEMM_WIDE_PARAMS(TYPE_, bn_, kw_, xs_, ws_),                        \
                .threads = GA_GEMM_WIDE_THREADS(kw_),                                            \
                .shared_bytes = GA_GEMM_WIDE_SMEM(GA_PACKED_BYTES_##TYPE_, bn_, kw_, xs_, ws_)}, \
       .bn = bn_,                                                                                \
       .kw = kw_}},
#define GA_CUDA_GEMM_STEP(name_, arch_, source_) \
  {.id = GA_GEMM_STEP_ID(#name_, #arch_),        \
   .op = GA_OP_gemm,                             \
   .arch = GA_ARCH_##arch_,                      \
   .source = source_,                            \
   .launch = cuda_step,                          \
   .ok = cuda_step_ok,                           \
   .flags = GA_KERNEL_STEP,                      \
   .tolerance = 2,                               \
   .impl = &(const cuda_variant){.params = "NONE=0", .threads = 256}},
#define GA_CUDA_T16_RING(type_, TYPE_, threads_)    \
  GA_CUDA_RING_ROW(type_, TYPE_, threads_, 1, 1, 1) \
  GA_CUDA_RING_ROW(type_, TYPE_, threads_, 8, 2, 0)
#define GA_CUDA_RING_ROW(type_, TYPE_, threads_, rows_, min_, max_)                                            \
  GA_ROW(gemm, type_, t16, sm90a, 16x##rows_, .source = "src/cuda/kern/gemm/gemm_t16_sm90a.cu",                \
         .launch = cuda_gemm_ring, .ok = cuda_gemm_ring_ok, .dtype = {GA_##TYPE_, GA_F32, GA_F32},             \
         .layout = GA_LAYOUT_T16, .score = 100, .fit = cuda_gemm_ring_fit, .rows_min = min_, .rows_max = max_, \
         .flags = GA_KERNEL_Q15_ACT, .tolerance = 2, .workspace = cuda_gemm_ring_workspace,                    \
         .impl = &(const cuda_variant){.params = "W=" #TYPE_ ",ROWS=" #rows_ ",THREADS=" #threads_,            \
                                       .threads = threads_,                                                    \
                                       .shared_bytes = 231424,                                                 \
                                       .static_bytes = 1024}),
#include "cuda/kern/gemm/gemm.def"
#undef GA_CUDA_RING_ROW
#undef GA_CUDA_T16_RING
#undef GA_CUDA_GEMM_STEP
#undef GA_CUDA_GEMM_WIDE
#undef GA_CUDA_GEMM_TILE
#undef GA_CUDA_T16
#undef GA_CUDA_GEMM_MMA
#undef GA_CUDA_GEMM
#define GA_CUDA_ATTN_ROWS(type_, TYPE_)                                                                          \
  GA_ROW(attn, type_, rows, sm80, 4, .source = "src/cuda/kern/attn/attn_rows_sm80.cu", .launch = cuda_attn_rows, \
         .ok = cuda_attn_rows_ok, .workspace = cuda_attn_rows_workspace,                                         \
         .dtype = {GA_DTYPE_NONE, GA_##TYPE_, GA_DTYPE_NONE}, .align = 16, .score = 40, .tolerance = 2,          \
         .impl = &(const cuda_variant){.params = "KV=" #TYPE_ ",ROWS=4,THREADS=128", .threads = CUDA_ATTN_THREADS}),
#define GA_CUDA_ATTN_PROMPT(type_, TYPE_)                                                                          \
  GA_ROW(attn, type_, prompt, sm90a, 256, .source = "src/cuda/kern/attn/attn_prompt_sm90a.cu",                     \
         .launch = cuda_attn_prompt, .ok = cuda_attn_prompt_ok, .fit = cuda_attn_prompt_fit,                       \
         .workspace = cuda_attn_prompt_workspace, .dtype = {GA_F32, GA_##TYPE_, GA_F32}, .align = 16, .score = 60, \
         .tolerance = 2, .flags = GA_KERNEL_V_FINITE | GA_KERNEL_TENSOR | GA_KERNEL_AS_KV,                         \
         .impl = &(const cuda_variant){.params = "NONE=0", .threads = 256}),
#define GA_CUDA_ATTN_DECODE(type_, TYPE_, d_, keys_, warps_, stages_, from_, meet_)             \
  {.id = GA_ATTN_DECODE_ID(type_, d_, keys_, warps_, stages_),                                  \
   .op = GA_OP_attn,                                                                            \
   .arch = GA_ARCH_sm90a,                                                                       \
   .source = GA_ATTN_DECODE_SOURCE,                                                             \
   .launch = cuda_attn_decode,                                                                  \
   .ok = cuda_attn_decode_ok,                                                                   \
   .fit = cuda_attn_decode_fit,                                                                 \
   .workspace = cuda_attn_decode_workspace,                                                     \
   .dtype = {GA_DTYPE_NONE, GA_##TYPE_, GA_DTYPE_NONE},                                         \
   .align = 16,                                                                                 \
   .score = 44,                                                                                 \
   .flags = GA_KERNEL_V_FINITE | GA_KERNEL_TENSOR,                                              \
   .tolerance = 2,                                                                              \
   .impl = &(const cuda_attn_decode_variant){                                                   \
       .base = {.params = GA_ATTN_DECODE_PARAMS(TYPE_, d_, keys_, warps_, stages_, meet_),      \
                .threads = 32 * (warps_),                                                       \
                .shared_bytes = GA_ATTN_DECODE_SMEM(TYPE_, d_, keys_, warps_, stages_, meet_)}, \
       .d = d_,                                                                                 \
       .keys = keys_,                                                                           \
       .from = from_,                                                                           \
       .meet = meet_}},
#include "cuda/kern/attn/attn_rows.def"
#define GA_KERNEL_ATTN(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched, turn, qreg, store, resident_, blocks_, \
                       features_, from_, to_, crowd_)                                                               \
  {.id = GA_ATTN_ID(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched),                                          \
   .op = GA_OP_attn,                                                                                                \
   .arch = GA_ARCH_##arch_,                                                                                         \
   .source = GA_ATTN_SOURCE(sched, arch_),                                                                          \
   .launch = cuda_attn_fwd,                                                                                         \
   .ok = cuda_attn_fwd_ok,                                                                                          \
   .fit = cuda_attn_fwd_fit,                                                                                        \
   .workspace = cuda_attn_fwd_workspace,                                                                            \
   .flags = GA_KERNEL_V_FINITE | GA_KERNEL_TENSOR,                                                                  \
   .dtype = {DTYPE_##dt, DTYPE_##dt, DTYPE_##dt},                                                                   \
   .align = 16,                                                                                                     \
   .score = GA_ATTN_SCORE(d_, dv_, crowd_, features_),                                                              \
   .tolerance = 2,                                                                                                  \
   .impl = &(const cuda_attn_variant){                                                                              \
       .base = {.params = GA_ATTN_PARAMS(dt, d_, dv_, mask_, bm_, bn_, st_, turn, qreg, store, resident_, blocks_,  \
                                         features_),                                                                \
                .threads = GA_ATTN_THREADS(GA_ATTN_SHORT(sched), bm_),                                              \
                .shared_bytes = GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d_, dv_, bm_, bn_, st_, store, resident_)},      \
       .d = d_,                                                                                                     \
       .dv = dv_,                                                                                                   \
       .bm = bm_,                                                                                                   \
       .bn = bn_,                                                                                                   \
       .stages = st_,                                                                                               \
       .resident = resident_,                                                                                       \
       .blocks = blocks_,                                                                                           \
       .features = features_,                                                                                       \
       .mask = CUDA_ATTN_##mask_,                                                                                   \
       .keys_from = from_,                                                                                          \
       .keys_to = to_,                                                                                              \
       .crowd = crowd_}},
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN
#define GA_KERNEL_ATTN_FP8(qk, dt, d_, mask_, arch_, bm_, bn_, st_, sched, turn)             \
  {.id = GA_ATTN_FP8_ID(qk, dt, d_, mask_, arch_, bm_, bn_, st_, sched, turn),               \
   .op = GA_OP_attn,                                                                         \
   .arch = GA_ARCH_##arch_,                                                                  \
   .source = GA_ATTN_FP8_SOURCE(arch_),                                                      \
   .launch = cuda_attn_fp8,                                                                  \
   .ok = cuda_attn_fp8_ok,                                                                   \
   .dtype = {DTYPE_##qk, GA_E4M3, DTYPE_##dt},                                               \
   .align = 16,                                                                              \
   .score = GA_ATTN_FP8_SCORE(sched),                                                        \
   .flags = GA_KERNEL_V_FINITE | GA_KERNEL_TENSOR | GA_ATTN_FP8_FLAGS_##sched,               \
   .tolerance = 2,                                                                           \
   .impl = &(const cuda_attn_variant){                                                       \
       .base = {.params = GA_ATTN_FP8_PARAMS(qk, dt, d_, mask_, bm_, bn_, st_, sched, turn), \
                .threads = GA_ATTN_FP8_THREADS(bm_),                                         \
                .shared_bytes = GA_ATTN_FP8_SMEM(d_, bm_, bn_, st_, sched)},                 \
       .d = d_,                                                                              \
       .dv = d_,                                                                             \
       .bm = bm_,                                                                            \
       .bn = bn_,                                                                            \
       .stages = st_,                                                                        \
       .blocks = 1,                                                                          \
       .mask = CUDA_ATTN_##mask_}},
#define GA_KERNEL_ATTN_QUANT(y_, dt, d_)                                                         \
  {.id = GA_ATTN_QUANT_ID(y_, dt, d_),                                                           \
   .op = GA_OP_attn_quant,                                                                       \
   .arch = GA_ARCH_sm90a,                                                                        \
   .source = GA_ATTN_QUANT_SOURCE,                                                               \
   .launch = cuda_attn_quant,                                                                    \
   .ok = cuda_attn_quant_ok,                                                                     \
   .dtype = {DTYPE_##dt, DTYPE_##y_},                                                            \
   .align = 16,                                                                                  \
   .score = 50,                                                                                  \
   .tolerance = 2,                                                                               \
   .impl = &(const cuda_attn_quant_variant){.base = {.params = GA_ATTN_QUANT_PARAMS(y_, dt, d_), \
                                                     .threads = GA_ATTN_QUANT_THREADS(d_),       \
                                                     .shared_bytes = GA_ATTN_QUANT_SMEM(d_)},    \
                                            .d = d_,                                             \
                                            .blocks = GA_ATTN_QUANT_BLOCKS(d_)}},
#define GA_KERNEL_ATTN_VALUES(dt, d_)                                                         \
  {.id = GA_ATTN_VALUES_ID(dt, d_),                                                           \
   .op = GA_OP_attn_quant,                                                                    \
   .arch = GA_ARCH_sm90a,                                                                     \
   .source = GA_ATTN_VALUES_SOURCE,                                                           \
   .launch = cuda_attn_quant,                                                                 \
   .ok = cuda_attn_quant_ok,                                                                  \
   .dtype = {DTYPE_##dt, GA_E4M3},                                                            \
   .align = 16,                                                                               \
   .score = 50,                                                                               \
   .tolerance = 2,                                                                            \
   .impl = &(const cuda_attn_quant_variant){.base = {.params = GA_ATTN_VALUES_PARAMS(dt, d_), \
                                                     .threads = GA_ATTN_QUANT_THREADS(d_),    \
                                                     .shared_bytes = GA_ATTN_QUANT_SMEM(d_)}, \
                                            .d = d_,                                          \
                                            .blocks = GA_ATTN_QUANT_BLOCKS(d_),               \
                                            .kind = GA_ATTN_QUANT_VALUES,                     \
                                            .means = GA_ATTN_MEANS_ID(dt)}},
#define GA_STEP_ATTN_MEANS(dt)     \
  {.id = GA_ATTN_MEANS_ID(dt),     \
   .op = GA_OP_attn_quant,         \
   .arch = GA_ARCH_sm90a,          \
   .source = GA_ATTN_MEANS_SOURCE, \
   .launch = cuda_step,            \
   .ok = cuda_step_ok,             \
   .dtype = {DTYPE_##dt},          \
   .flags = GA_KERNEL_STEP,        \
   .tolerance = 2,                 \
   .impl =                         \
       &(const cuda_variant){.params = GA_ATTN_MEANS_PARAMS(dt), .threads = 256, .shared_bytes = GA_ATTN_MEANS_SMEM}},
#include "cuda/kern/attn_fp8/attn8.def"
#undef GA_STEP_ATTN_MEANS
#undef GA_KERNEL_ATTN_VALUES
#undef GA_KERNEL_ATTN_QUANT
#undef GA_KERNEL_ATTN_FP8
#define GA_KERNEL_ATTN_BWD(op_, dt, d_, mask_, arch_, bm_, st_, sched, order_, features_) \
  {.id = GA_ATTN_BWD_ID(op_, dt, d_, mask_, arch_, bm_, st_, sched),                      \
   .op = GA_OP_attn_bwd,                                                                  \
   .arch = GA_ARCH_##arch_,                                                               \
   .source = GA_ATTN_BWD_SOURCE(arch_),                                                   \
   .launch = cuda_attn_bwd,                                                               \
   .ok = cuda_attn_bwd_ok,                                                                \
   .fit = cuda_attn_bwd_fit,                                                              \
   .workspace = cuda_attn_bwd_workspace,                                                  \
   .dtype = {DTYPE_##dt},                                                                 \
   .align = 16,                                                                           \
   .score = GA_ATTN_BWD_SCORE(d_, order_, features_),                                     \
   .flags = (order_) ? 0 : GA_KERNEL_NONDET,                                              \
   .tolerance = 2,                                                                        \
   .impl = &(const cuda_attn_bwd_variant){                                                \
       .base = {.params = GA_ATTN_BWD_PARAMS(dt, d_, mask_, bm_, st_, order_, features_), \
                .threads = GA_ATTN_BWD_THREADS,                                           \
                .shared_bytes = GA_ATTN_BWD_SMEM(d_, bm_, st_, order_)},                  \
       .d = d_,                                                                           \
       .dv = d_,                                                                          \
       .rows = bm_,                                                                       \
       .order = order_,                                                                   \
       .features = features_,                                                             \
       .mask = CUDA_ATTN_##mask_,                                                         \
       .pre = GA_ATTN_BWD_STEP_ID(pre, dt, 0, arch_),                                     \
       .sink = GA_ATTN_BWD_STEP_ID(sink, f32, 0, sm80),                                   \
       .post = GA_ATTN_BWD_STEP_ID(post, dt, d_, arch_)}},
#define GA_KERNEL_ATTN_BWD_WHOLE(op_, dt, d_, mask_, arch_, bm_, st_, features_)                                       \
  {.id = GA_ATTN_BWD_WHOLE_ID(op_, dt, d_, mask_, arch_, bm_, st_),                                                    \
   .op = GA_OP_attn_bwd,                                                                                               \
   .arch = GA_ARCH_##arch_,                                                                                            \
   .source = GA_ATTN_BWD_WHOLE_SOURCE(arch_),                                                                          \
   .launch = cuda_attn_bwd,                                                                                            \
   .ok = cuda_attn_bwd_ok,                                                                                             \
   .fit = cuda_attn_bwd_fit,                                                                                           \
   .workspace = cuda_attn_bwd_workspace,                                                                               \
   .dtype = {DTYPE_##dt},                                                                                              \
   .align = 16,                                                                                                        \
   .score = GA_ATTN_BWD_WHOLE_SCORE(d_, features_),                                                                    \
   .tolerance = 2,                                                                                                     \
   .impl =                                                                                                             \
       &(const cuda_attn_bwd_variant){.base = {.params = GA_ATTN_BWD_WHOLE_PARAMS(dt, d_, mask_, bm_, st_, features_), \
                                               .threads = GA_ATTN_BWD_THREADS,                                         \
                                               .shared_bytes = GA_ATTN_BWD_WHOLE_SMEM(d_, bm_, st_)},                  \
                                      .d = d_,                                                                         \
                                      .dv = d_,                                                                        \
                                      .rows = bm_,                                                                     \
                                      .order = CUDA_ATTN_BWD_WHOLE,                                                    \
                                      .features = features_,                                                           \
                                      .mask = CUDA_ATTN_##mask_,                                                       \
                                      .pre = GA_ATTN_BWD_STEP_ID(pre, dt, 0, arch_),                                   \
                                      .sink = GA_ATTN_BWD_STEP_ID(sink, f32, 0, sm80),                                 \
                                      .post = GA_ATTN_BWD_STEP_ID(post, dt, d_, arch_)}},
#define GA_KERNEL_ATTN_BWD_DUET(op_, dt, dk_, dv_, mask_, arch_, sched, order_, features_) \
  {.id = GA_ATTN_BWD_DUET_ID(op_, dt, dk_, dv_, mask_, arch_, sched),                      \
   .op = GA_OP_attn_bwd,                                                                   \
   .arch = GA_ARCH_##arch_,                                                                \
   .source = GA_ATTN_BWD_DUET_SOURCE(arch_),                                               \
   .launch = cuda_attn_bwd,                                                                \
   .ok = cuda_attn_bwd_ok,                                                                 \
   .workspace = cuda_attn_bwd_workspace,                                                   \
   .dtype = {DTYPE_##dt},                                                                  \
   .align = 16,                                                                            \
   .score = GA_ATTN_BWD_SCORE(dk_, order_, features_),                                     \
   .flags = (order_) ? 0 : GA_KERNEL_NONDET,                                               \
   .tolerance = 2,                                                                         \
   .impl = &(const cuda_attn_bwd_variant){                                                 \
       .base = {.params = GA_ATTN_BWD_DUET_PARAMS(dt, dk_, dv_, mask_, order_, features_), \
                .threads = GA_ATTN_BWD_THREADS,                                            \
                .shared_bytes = GA_ATTN_BWD_DUET_SMEM(dk_, dv_)},                          \
       .d = dk_,                                                                           \
       .dv = dv_,                                                                          \
       .rows = GA_KBWD_ROWS,                                                               \
       .order = order_,                                                                    \
       .duet = 1,                                                                          \
       .features = features_,                                                              \
       .mask = CUDA_ATTN_##mask_,                                                          \
       .pre = GA_ATTN_BWD_STEP_ID(pre, dt, 0, arch_),                                      \
       .sink = GA_ATTN_BWD_STEP_ID(sink, f32, 0, sm80),                                    \
       .post = GA_ATTN_BWD_STEP_ID(post, dt, dk_, arch_)}},
#define GA_STEP_ATTN_BWD(name, dt, d_, arch_)      \
  {.id = GA_ATTN_BWD_STEP_ID(name, dt, d_, arch_), \
   .op = GA_OP_attn_bwd,                           \
   .arch = GA_ARCH_##arch_,                        \
   .source = GA_ATTN_BWD_STEP_SOURCE(name, arch_), \
   .launch = cuda_step,                            \
   .ok = cuda_step_ok,                             \
   .dtype = {DTYPE_##dt},                          \
   .flags = GA_KERNEL_STEP,                        \
   .tolerance = 2,                                 \
   .impl = &(const cuda_variant){.params = GA_ATTN_BWD_STEP_PARAMS(dt, d_), .threads = GA_ATTN_BWD_STEP_THREADS}},
#include "cuda/kern/attn_bwd/attn_bwd.def"
#undef GA_STEP_ATTN_BWD
#undef GA_KERNEL_ATTN_BWD_DUET
#undef GA_KERNEL_ATTN_BWD_WHOLE
#undef GA_KERNEL_ATTN_BWD
#define GA_KERNEL_ATTN_BWD_ANY(form, dt, d_, own_, other_, warps_, blocks_)              \
  {.id = GA_ATTN_BWD_ANY_ID(form, dt, d_, own_, other_, warps_),                         \
   .op = GA_OP_attn_bwd,                                                                 \
   .arch = GA_ARCH_sm80,                                                                 \
   .source = GA_ATTN_BWD_ANY_SOURCE(form),                                               \
   .launch = cuda_attn_bwd_any,                                                          \
   .ok = cuda_attn_bwd_any_ok,                                                           \
   .workspace = cuda_attn_bwd_any_workspace,                                             \
   .dtype = {DTYPE_##dt},                                                                \
   .score = GA_ATTN_BWD_ANY_SCORE(d_),                                                   \
   .tolerance = 2,                                                                       \
   .impl = &(const cuda_attn_bwd_any_variant){                                           \
       .base = {.params = GA_ATTN_BWD_ANY_PARAMS(dt, d_, own_, other_, warps_, blocks_), \
                .threads = 32 * (warps_),                                                \
                .shared_bytes = GA_ATTN_BWD_SMEM_##form(d_, own_, other_)},              \
       .d = d_,                                                                          \
       .own = own_,                                                                      \
       .pre = GA_ATTN_BWD_STEP_ID(pre, dt, 0, sm80),                                     \
       .sink = GA_ATTN_BWD_STEP_ID(sink, f32, 0, sm80)}},
#include "cuda/kern/attn_bwd/attn_bwd_any.def"
#undef GA_KERNEL_ATTN_BWD_ANY
#define GA_KERNEL_ATTN_ANY(dt, d_, bm_, bn_, warps_, blocks_)                                                       \
  {.id = GA_ATTN_ANY_ID(dt, d_, bm_, bn_, warps_),                                                                  \
   .op = GA_OP_attn,                                                                                                \
   .arch = GA_ARCH_sm80,                                                                                            \
   .source = GA_ATTN_ANY_SOURCE,                                                                                    \
   .launch = cuda_attn_any,                                                                                         \
   .ok = cuda_attn_any_ok,                                                                                          \
   .fit = cuda_attn_any_fit,                                                                                        \
   .dtype = {DTYPE_##dt, DTYPE_##dt, DTYPE_##dt},                                                                   \
   .score = GA_ATTN_ANY_SCORE(d_),                                                                                  \
   .flags = GA_KERNEL_TENSOR,                                                                                       \
   .tolerance = 2,                                                                                                  \
   .impl = &(const cuda_attn_any_variant){.base = {.params = GA_ATTN_ANY_PARAMS(dt, d_, bm_, bn_, warps_, blocks_), \
                                                   .threads = 32 * (warps_),                                        \
                                                   .shared_bytes = GA_ATTN_ANY_SMEM(d_, bm_, bn_)},                 \
                                          .d = d_,                                                                  \
                                          .bm = bm_}},
#include "cuda/kern/attn/attn_any.def"
#undef GA_KERNEL_ATTN_ANY
#define GA_KERNEL_LADDER(step, arch_, threads_, bm_, shared, maps_, flags_)                       \
  {.id = GA_LADDER_ID(step, arch_),                                                               \
   .op = GA_OP_attn,                                                                              \
   .arch = GA_ARCH_##arch_,                                                                       \
   .source = GA_LADDER_SOURCE(step),                                                              \
   .launch = cuda_ladder,                                                                         \
   .ok = cuda_ladder_ok,                                                                          \
   .dtype = {GA_BF16, GA_BF16, GA_BF16},                                                          \
   .align = 16,                                                                                   \
   .flags = GA_KERNEL_TEACHING | (flags_),                                                        \
   .tolerance = 2,                                                                                \
   .impl = &(const cuda_ladder_variant){                                                          \
       .base = {.params = GA_LADDER_PARAMS(shared), .threads = threads_, .shared_bytes = shared}, \
       .bm = bm_,                                                                                 \
       .maps = maps_}},
#include "cuda/kern/ladder/ladder.def"
#undef GA_KERNEL_LADDER
};

/* Shared memory of a block and of a multiprocessor, which keeps 1 KiB a block for itself. */
#define GA_KERNEL_ATTN(op, dt, d, dv, mask, arch, bm, bn, st, sched, turn, qreg, store, resident, blocks, features, \
                       ...)                                                                                         \
  _Static_assert(GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d, dv, bm, bn, st, store, resident) <= 232448 &&                \
                     (blocks) * (GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d, dv, bm, bn, st, store, resident) + 1024) <=  \
                         233472,                                                                                    \
                 "shared memory of " GA_ATTN_ID(op, dt, d, dv, mask, arch, bm, bn, st, sched));
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN

#define GA_CUDA_GEMM(...)
#define GA_CUDA_T16(...)
#define GA_CUDA_GEMM_MMA(...)
#define GA_CUDA_T16_RING(...)
#define GA_CUDA_GEMM_STEP(...)
#define GA_CUDA_GEMM_TILE(mode, dt, bm, bn, st, pair, parts, xt, wt, sums) \
  _Static_assert(GA_GEMM_TILE_SMEM(bm, bn, st, sums) <= 232448, "shared memory of " GA_GEMM_TILE_ID(mode, dt, bm, bn));
#define GA_CUDA_GEMM_WIDE(type, TYPE, bn, kw, xs, ws)                                 \
  _Static_assert(GA_GEMM_WIDE_SMEM(GA_PACKED_BYTES_##TYPE, bn, kw, xs, ws) <= 232448, \
                 "shared memory of " GA_GEMM_WIDE_ID(type, bn));
#include "cuda/kern/gemm/gemm.def"
#undef GA_CUDA_GEMM_WIDE
#undef GA_CUDA_GEMM_TILE
#undef GA_CUDA_GEMM_STEP
#undef GA_CUDA_T16_RING
#undef GA_CUDA_T16
#undef GA_CUDA_GEMM_MMA
#undef GA_CUDA_GEMM

#define GA_KERNEL_ATTN_BWD(op, dt, d, mask, arch, bm, st, sched, order, features) \
  _Static_assert(GA_ATTN_BWD_SMEM(d, bm, st, order) <= 232448,                    \
                 "shared memory of " GA_ATTN_BWD_ID(op, dt, d, mask, arch, bm, st, sched));
#define GA_KERNEL_ATTN_BWD_WHOLE(op, dt, d, mask, arch, bm, st, features) \
  _Static_assert(GA_ATTN_BWD_WHOLE_SMEM(d, bm, st) <= 232448,             \
                 "shared memory of " GA_ATTN_BWD_WHOLE_ID(op, dt, d, mask, arch, bm, st));
#define GA_KERNEL_ATTN_BWD_DUET(op, dt, dk, dv, mask, arch, sched, order, features) \
  _Static_assert(GA_ATTN_BWD_DUET_SMEM(dk, dv) <= 232448,                           \
                 "shared memory of " GA_ATTN_BWD_DUET_ID(op, dt, dk, dv, mask, arch, sched));
#define GA_STEP_ATTN_BWD(name, dt, d, arch)
#include "cuda/kern/attn_bwd/attn_bwd.def"
#undef GA_STEP_ATTN_BWD
#undef GA_KERNEL_ATTN_BWD_DUET
#undef GA_KERNEL_ATTN_BWD_WHOLE
#undef GA_KERNEL_ATTN_BWD

const ga_kernel *cuda_rows(size_t *n) {
  *n = GA_COUNT_OF(rows);
  return rows;
}

const ga_kernel *cuda_step_of(const char *id) {
  for (size_t i = 0; i < GA_COUNT_OF(rows); i++)
    if (!strcmp(rows[i].id, id)) return &rows[i];
  return NULL;
}

const char *ga_cuda_build_text(void) {
  static GA_THREAD_LOCAL char text[96];
  size_t n = 0;
  for (size_t i = 0; i < GA_COUNT_OF(rows); i++) n += cuda_image_of(rows[i].id) != NULL;
  if (n)
    (void)snprintf(text, sizeof text, "%zu of %zu CUDA kernels are in this build", n, GA_COUNT_OF(rows));
  else
    (void)snprintf(text, sizeof text, "no CUDA kernel is in this build: it was configured without nvcc");
  return text;
}
