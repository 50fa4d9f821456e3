/* Launch side of the conversion to e4m3 with scales (src/cuda/kern/layer/convert_sm80.cu). */
#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/layer/convert_args.h"
#include "cuda/kern/layer/layer.h"
#include "cuda/rt/cuda.h"
#include "opdef/convert_at.h"

#define ROWS          16 /* of 1 x 128 that a block takes at once */
#define BLOCKS_PER_SM 8

static int64_t convert_units_of(const ga_convert_desc *d) {
  return ga_div_up(d->rows, d->scales == GA_CONVERT_SCALES_ROW ? ROWS : GA_CONVERT_BLOCK) *
         ga_div_up(d->width, GA_CONVERT_BLOCK);
}

const char *cuda_convert_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_convert_desc *d = desc;
  if (!d->scales) return "it makes scales";
  return d->y_dtype == GA_E4M3 && (d->x_dtype == GA_F32 || d->x_dtype == GA_F16 || d->x_dtype == GA_BF16)
             ? NULL
             : "x must be f32, f16, bf16, y e4m3";
}

ga_status cuda_convert(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_convert_desc *d = desc;
  const ga_convert_io *a = io;
  const size_t each = (size_t)ga_dtype_info((ga_dtype)d->x_dtype)->block_bytes;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, each));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, 1));
  GA_TRY(cuda_check_pointer(stream, k, "scale", a->scale, sizeof(float)));
  const ga_kargs_convert args = {.x = a->x,
                                 .y = a->y,
                                 .scale = a->scale,
                                 .rows = d->rows,
                                 .width = d->width,
                                 .x_dtype = d->x_dtype,
                                 .blocks = d->scales == GA_CONVERT_SCALES_BLOCK,
                                 .vec16 = (uintptr_t)a->x % 16 == 0 && (uintptr_t)a->y % 4 == 0 && d->width % 8 == 0};
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_variant *v = k->impl;
  const cuda_launch l = {
      .grid = {(uint32_t)ga_min_i64(convert_units_of(d), most), 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
