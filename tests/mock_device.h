/* What every test over the mock driver (mockcu.h) begins and ends with. */
#ifndef GA_TESTS_MOCK_DEVICE_H
#define GA_TESTS_MOCK_DEVICE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "cuda/rt/cuda.h"
#include "tests/mockcu.h"

static const cuda_source no_sources[] = {{0}};

/* The driver is the mock, and the build's images are these. */
static inline void mock_begin(const cuda_image *images) {
  mockcu_reset();
  ga_cu_replace(&mockcu_table);
  cuda_replace_tables(images, no_sources);
}

/* Nothing is alive and no rule of the driver was broken; else 1. */
static inline int mock_end(void) {
  ga_cu_replace(NULL);
  cuda_replace_tables(NULL, NULL);
  if (mockcu.live || mockcu.misuse[0]) print_error("alive: %ld; misuse: %s\n", mockcu.live, mockcu.misuse);
  return mockcu.live || mockcu.misuse[0];
}

static inline ga_status open_as(const char *name, ga_ctx **ctx) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  return ga_ctx_create(&o, ctx);
}

/* Rows that have no device half: they run on each device that has any code. */
static inline size_t rows_without_code(void) {
  size_t n, found = 0;
  const ga_kernel *all = cuda_rows(&n);
  for (size_t i = 0; i < n; i++) found += all[i].impl == NULL;
  return found;
}

static inline const ga_kernel *row_by_id(const ga_ctx *ctx, const char *id) {
  for (size_t i = 0; i < ctx->device->n_kernels; i++)
    if (!strcmp(ctx->device->kernels[i].id, id)) return &ctx->device->kernels[i];
  fail_msg("no row %s", id);
  return NULL;
}

#endif
