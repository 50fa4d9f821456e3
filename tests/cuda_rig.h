/* What the tests over the mock driver share: a device, three buffers, an op. */
#ifndef GA_TESTS_CUDA_RIG_H
#define GA_TESTS_CUDA_RIG_H

#include <stdio.h>

#include "base/mem.h"
#include "tests/mock_device.h"

#define ADD     "add_f32_rows_sm80_256x4"
#define SOFTMAX "softmax_f32_rows_sm80_256"

static const unsigned char image[] = "an image";
static const cuda_image images[] = {{ADD, image, image + 8}, {SOFTMAX, image, image + 8}, {0}};

static inline int by_image_id(const void *a, const void *b) {
  return strcmp(((const cuda_image *)a)->id, ((const cuda_image *)b)->id);
}

/* An image of every row of the table, also in builds without nvcc; sorted as the build's, ends with an empty one. */
static inline const cuda_image *image_of_every_row(void) {
  static cuda_image list[1024];
  size_t n;
  const ga_kernel *rows = cuda_rows(&n);
  assert_true(n < sizeof list / sizeof *list);
  for (size_t i = 0; i < n; i++) list[i] = (cuda_image){rows[i].id, image, image + 8};
  qsort(list, n, sizeof *list, by_image_id);
  return list;
}

static inline int reset(void **state) {
  (void)state;
  mock_begin(images);
  unsetenv("GA_JIT");
  unsetenv("GA_PEER");
  return 0;
}

/* Every test ends with nothing alive and no rule of the driver broken. */
static inline int no_leaks(void **state) {
  (void)state;
  ga_mem_fail_after(0);
  return mock_end();
}

static inline ga_ctx *open_cuda(void) {
  ga_ctx *ctx;
  assert_int_equal(open_as("cuda:0", &ctx), GA_OK);
  return ctx;
}

#define assert_text(part)                                                                       \
  do {                                                                                          \
    if (!strstr(ga_error_text(), (part))) fail_msg("'%s' lacks '%s'", ga_error_text(), (part)); \
  } while (0)

typedef struct data {
  void *x, *b, *y;
} data;

static inline ga_status launch_one_add(ga_ctx *ctx, const data *v, ga_stream *stream) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = 3;
  d.width = 100;
  ga_add_io io = {.x = v->x, .b = v->b, .y = v->y};
  return ga_add(ctx, &d, &io, stream);
}

static inline ga_status make_data(ga_ctx *ctx, data *v) {
  *v = (data){0};
  ga_status status = ga_buffer_alloc(ctx, 1200, &v->x);
  if (status == GA_OK) status = ga_buffer_alloc_for(ctx, 1200, "weights", &v->b);
  return status == GA_OK ? ga_buffer_alloc(ctx, 1200, &v->y) : status;
}

static inline void free_data(ga_ctx *ctx, const data *v) {
  ga_buffer_free(ctx, v->x);
  ga_buffer_free(ctx, v->b);
  ga_buffer_free(ctx, v->y);
}

#endif
