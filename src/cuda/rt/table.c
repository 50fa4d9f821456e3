/* The rows of this build: the generated table (tools/gen_kernels.py) and the images that were embedded. */
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

const char *cuda_step_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return "a step of other rows";
}

ga_status cuda_step(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)desc, (void)io, (void)workspace, (void)stream;
  return ga_fail(GA_ERR_INTERNAL, "%s: a step of other rows, not launched alone", kernel->id);
}

const char *ga_cuda_build_text(void) {
  static GA_THREAD_LOCAL char text[96];
  size_t n, rows = 0, images = 0;
  const ga_kernel *row = cuda_rows(&n);
  for (size_t i = 0; i < n; i++) rows += row[i].impl != NULL, images += cuda_image_of(row[i].id) != NULL;
  if (images)
    (void)snprintf(text, sizeof text, "%zu of %zu CUDA kernels are in this build", images, rows);
  else
    (void)snprintf(text, sizeof text, "no CUDA kernel is in this build: it was configured without nvcc");
  return text;
}
