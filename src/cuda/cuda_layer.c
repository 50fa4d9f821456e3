#include "cuda/cuda_layer.h"

#include "base/mem.h"
#include "base/status.h"
#include "core/kargs_layer.h"
#include "cuda/cuda.h"

#define WIDE_BYTES 16 /* what a lane moves at once */
#define BLOCKS_PER_SM 8 /* of 256 threads: a full multiprocessor */

static size_t bytes_of(ga_dtype dtype) {
  return (size_t)ga_dtype_info(dtype)->block_bytes;
}

static bool wide(const void *p, int64_t stride, int64_t rows, size_t each) {
  return (uintptr_t)p % WIDE_BYTES == 0 && (rows <= 1 || (uint64_t)stride * each % WIDE_BYTES == 0);
}

/* One-dimensional: blocks take units of work round-robin. */
static ga_status enqueue(const ga_kernel *k, ga_stream *stream, int64_t units, const void *args) {
  const cuda_variant *v = k->impl;
  int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}};
  return cuda_enqueue(stream, k, &l, args);
}

/* Units of an elementwise kernel: a row is cut into pieces of 16 bytes a thread. */
static int64_t pieces(const ga_kernel *k, int64_t rows, int64_t width) {
  const cuda_variant *v = k->impl;
  return rows * ga_div_up(width, (int64_t)(WIDE_BYTES / bytes_of(k->dtype[0]) * v->threads));
}

#define CHECK(name, dtype) GA_TRY(cuda_check_pointer(stream, k, #name, a->name, bytes_of(dtype)))

/* --- add --- */

const char *cuda_add_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return ((const ga_add_desc *)desc)->dtype == (int32_t)k->dtype[0] ? NULL : "dtype is another";
}

ga_status cuda_add(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(b, k->dtype[0]);
  CHECK(y, k->dtype[0]);
  size_t each = bytes_of(k->dtype[0]);
  const ga_kargs_add args = {
      .x = a->x, .b = a->b, .y = a->y, .rows = d->rows, .width = d->width, .x_stride = d->x_stride,
      .b_stride = d->b_rows == 1 ? 0 : d->b_stride, .y_stride = d->y_stride, .scale = d->scale,
      .wide = wide(a->x, d->x_stride, d->rows, each) && wide(a->b, d->b_stride, d->b_rows, each) &&
              wide(a->y, d->y_stride, d->rows, each)};
  return enqueue(k, stream, pieces(k, d->rows, d->width), &args);
}

/* --- act --- */

const char *cuda_act_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return ((const ga_act_desc *)desc)->dtype == (int32_t)k->dtype[0] ? NULL : "dtype is another";
}

ga_status cuda_act(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_act_desc *d = desc;
  const ga_act_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(g, k->dtype[0]);
  CHECK(y, k->dtype[0]);
  size_t each = bytes_of(k->dtype[0]);
  const ga_kargs_act args = {
      .x = a->x, .g = a->g, .y = a->y, .rows = d->rows, .width = d->width, .x_stride = d->x_stride, .g_stride = d->g_stride,
      .y_stride = d->y_stride, .act = d->act,
      .wide = wide(a->x, d->x_stride, d->rows, each) && wide(a->g, d->g_stride, d->rows, each) &&
              wide(a->y, d->y_stride, d->rows, each)};
  return enqueue(k, stream, pieces(k, d->rows, d->width), &args);
}

/* --- norm --- */

const char *cuda_norm_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_norm_desc *d = desc;
  if (d->x_dtype != (int32_t)k->dtype[0]) return "x_dtype is another";
  return d->y_dtype == (int32_t)k->dtype[1] ? NULL : "y_dtype is another";
}

ga_status cuda_norm(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_norm_desc *d = desc;
  const ga_norm_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, k->dtype[0]);
  CHECK(y, k->dtype[1]);
  CHECK(weight, GA_F32);
  CHECK(bias, GA_F32);
  const ga_kargs_norm args = {.x = a->x, .y = a->y, .weight = a->weight, .bias = a->bias, .rows = d->rows, .width = d->width,
                              .x_stride = d->x_stride, .y_stride = d->y_stride, .eps = d->eps, .kind = d->kind};
  return enqueue(k, stream, d->rows, &args);
}

/* --- softmax --- */

const char *cuda_softmax_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_softmax(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_softmax_desc *d = desc;
  const ga_softmax_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  CHECK(x, GA_F32);
  CHECK(y, GA_F32);
  const ga_kargs_softmax args = {.x = a->x, .y = a->y, .rows = d->rows, .width = d->width, .x_stride = d->x_stride,
                                 .y_stride = d->y_stride, .scale = d->scale, .log = d->log};
  return enqueue(k, stream, d->rows, &args);
}
