/* The table of CUDA rows, and what of it this build can run. */
#include <stdio.h>

#include "base/compiler.h"
#include "core/rows.h"
#include "cuda/cuda.h"
#include "cuda/cuda_attn.h"
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
#define GA_KERNEL_ATTN(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched, turn, qreg, store, resident_, blocks_,    \
                       features_)                                                                                      \
  {.id = GA_ATTN_ID(op_, dt, d_, dv_, mask_, arch_, bm_, bn_, st_, sched),                                             \
   .op = GA_OP_attn,                                                                                                   \
   .arch = GA_ARCH_##arch_,                                                                                            \
   .source = GA_ATTN_SOURCE(sched, arch_),                                                                               \
   .launch = cuda_attn_fwd,                                                                                            \
   .ok = cuda_attn_fwd_ok,                                                                                             \
   .dtype = {DTYPE_##dt, DTYPE_##dt, DTYPE_##dt},                                                                      \
   .align = 16,                                                                                                        \
   .score = GA_ATTN_SCORE(d_, dv_, bm_, resident_, features_),                                                         \
   .tolerance = 2,                                                                                                     \
   .impl = &(const cuda_attn_variant){.base = {.params = GA_ATTN_PARAMS(dt, d_, dv_, mask_, bm_, bn_, st_, turn, qreg, \
                                                                        store, resident_, blocks_, features_),         \
                                               .threads = GA_ATTN_THREADS(GA_ATTN_SHORT(sched), bm_),                                        \
                                               .shared_bytes = GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d_, dv_, bm_, bn_, st_, store)},           \
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
  _Static_assert(GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d, dv, bm, bn, st, store) <= 232448 &&                                                   \
                     (blocks) * (GA_ATTN_SMEM(GA_ATTN_SHORT(sched), d, dv, bm, bn, st, store) + 1024) <= 233472,                             \
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
