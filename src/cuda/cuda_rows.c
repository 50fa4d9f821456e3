/* The table of CUDA rows, and what of it this build can run. */
#include <stdio.h>

#include "base/compiler.h"
#include "core/rows.h"
#include "cuda/cuda.h"
#include "cuda/cuda_attn.h"
#include "cuda/cuda_attn_rows.h"
#include "cuda/cuda_gemm.h"
#include "cuda/cuda_layer.h"
#include "cuda/kern/attn/attn_rows.h"

#define DTYPE_bf16 GA_BF16
#define DTYPE_f16  GA_F16

static const ga_kernel rows[] = {
#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_,    \
                      ...)                                                                                             \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_,                             \
         .dtype = {GA_##x_, GA_##y_}, .score = score_, .tolerance = tolerance_,                                        \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_LAYER
#define GA_CUDA_GEMM(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, w_, x_, y_, layout_, min_, max_, score_, flags_,  \
                     workspace_, ...)                                                                                  \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_,                             \
         .dtype = {GA_##w_, GA_##x_, GA_##y_}, .layout = GA_LAYOUT_##layout_, .rows_min = min_, .rows_max = max_,      \
         .score = score_, .flags = flags_, .tolerance = 2, .workspace = workspace_,                                    \
         .out_bytes = GA_OP_##op_ == GA_OP_pack ? cuda_pack_bytes : NULL,                                              \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#define GA_CUDA_T16(type_, TYPE_, threads_, depth_)                                                                                      \
  GA_ROW(gemm, type_, t16, sm80, 16x8, .source = "src/cuda/kern/gemm/gemm_t16_sm80.cu", .launch = cuda_gemm_t16,       \
         .ok = cuda_gemm_t16_ok, .dtype = {GA_##TYPE_, GA_F32, GA_F32}, .layout = GA_LAYOUT_T16, .score = 60,          \
         .flags = GA_KERNEL_Q15_ACT, .tolerance = 2, .workspace = cuda_gemm_t16_workspace,                             \
         .impl = &(const cuda_variant){.params = "W=" #TYPE_ ",DEPTH=" #depth_ ",THREADS=" #threads_, .threads = threads_, .shared_bytes = 231424, .static_bytes = 1024}),
#include "cuda/kern/gemm/gemm.def"
#undef GA_CUDA_T16
#undef GA_CUDA_GEMM
#define GA_CUDA_ATTN_ROWS(type_, TYPE_)                                                                                \
  GA_ROW(attn, type_, rows, sm80, 4, .source = "src/cuda/kern/attn/attn_rows_sm80.cu", .launch = cuda_attn_rows,       \
         .ok = cuda_attn_rows_ok, .workspace = cuda_attn_rows_workspace, .dtype = {GA_DTYPE_NONE, GA_##TYPE_, GA_DTYPE_NONE}, \
         .align = 16, .score = 40, .tolerance = 2,                                                                     \
         .impl = &(const cuda_variant){.params = "KV=" #TYPE_ ",ROWS=4,THREADS=128", .threads = CUDA_ATTN_THREADS}),
#include "cuda/kern/attn/attn_rows.def"
#undef GA_CUDA_ATTN_ROWS
#define GA_KERNEL_ATTN(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched, turn, qreg, store, resident_, blocks_,    \
                       features_)                                                                                      \
  {.id = GA_ATTN_ID(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched),                                             \
   .op = GA_OP_attn,                                                                                                   \
   .arch = GA_ARCH_##arch_,                                                                                            \
   .source = GA_ATTN_SOURCE(op_, arch_),                                                                               \
   .launch = cuda_attn_fwd,                                                                                            \
   .ok = cuda_attn_fwd_ok,                                                                                             \
   .dtype = {DTYPE_##dt, DTYPE_##dt, DTYPE_##dt},                                                                      \
   .align = 16,                                                                                                        \
   .score = GA_ATTN_SCORE(d_, dv_, bm_, resident_, features_),                                                         \
   .tolerance = 2,                                                                                                     \
   .impl = &(const cuda_attn_variant){.base = {.params = GA_ATTN_PARAMS(dt, d_, dv_, mask_, bm_, bn_, st_, turn, qreg, \
                                                                        store, resident_, blocks_, features_),         \
                                               .threads = GA_ATTN_THREADS(bm_),                                        \
                                               .shared_bytes = GA_ATTN_SMEM(d_, dv_, bm_, bn_, st_, store)},           \
                                      .d = d_,                                                                         \
                                      .dv = dv_,                                                                       \
                                      .bm = bm_,                                                                       \
                                      .bn = bn_,                                                                       \
                                      .stages = st_,                                                                   \
                                      .resident = resident_,                                                           \
                                      .blocks = blocks_,                                                               \
                                      .features = features_,                                                           \
                                      .mask = CUDA_ATTN_##mask_}},
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN
};

/* Shared memory of a block and of a multiprocessor, which keeps 1 KiB a block for itself. */
#define GA_KERNEL_ATTN(op, dt, d, dv, mask, arch, bm, bn, st, sched, turn, qreg, store, resident, blocks, features)    \
  _Static_assert(GA_ATTN_SMEM(d, dv, bm, bn, st, store) <= 232448 &&                                                   \
                     (blocks) * (GA_ATTN_SMEM(d, dv, bm, bn, st, store) + 1024) <= 233472,                             \
                 "shared memory of " GA_ATTN_ID(op, dt, d, dv, mask, arch, bm, bn, st, sched));
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN

const ga_kernel *cuda_rows(size_t *n) {
  *n = GA_COUNT_OF(rows);
  return rows;
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
