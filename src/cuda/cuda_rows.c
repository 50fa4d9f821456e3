/* The table of CUDA rows, and what of it this build can run. */
#include <stdio.h>

#include "base/compiler.h"
#include "core/rows.h"
#include "cuda/cuda.h"
#include "cuda/cuda_layer.h"

static const ga_kernel rows[] = {
#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_, ...) \
  GA_ROW(op_, dtypes_, mode_, arch_, tile_, .source = file_, .launch = launch_, .ok = ok_, .dtype = {GA_##x_, GA_##y_}, \
         .score = score_, .tolerance = tolerance_,                                                                     \
         .impl = &(const cuda_variant){.params = #__VA_ARGS__, .threads = threads_}),
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_LAYER
};

const ga_kernel *cuda_rows(size_t *n) {
  *n = GA_COUNT_OF(rows);
  return rows;
}

const char *ga_cuda_build_text(void) {
  static GA_THREAD_LOCAL char text[96];
  size_t n = 0;
  for (size_t i = 0; i < GA_COUNT_OF(rows); i++) n += cuda_image_of(rows[i].id) != NULL;
  if (n) (void)snprintf(text, sizeof text, "%zu of %zu CUDA kernels are in this build", n, GA_COUNT_OF(rows));
  else (void)snprintf(text, sizeof text, "no CUDA kernel is in this build: nvcc was not found when it was configured");
  return text;
}
