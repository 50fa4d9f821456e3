/* The residual and the norm of a sum over ranks, on CPUs. */
#include <math.h>

#include "base/half.h"
#include "comm/all_reduce.h"

static float get_number(const ga_all_reduce *r, const void *p, int64_t i) {
  if (r->desc.dtype == GA_F32) return ((const float *)p)[i];
  const uint16_t h = ((const uint16_t *)p)[i];
  return r->desc.dtype == GA_F16 ? ga_f16_to_f32(h) : ga_bf16_to_f32(h);
}

static void put_rounded(const ga_all_reduce *r, void *p, int64_t i, float x) {
  if (r->desc.dtype == GA_F32)
    ((float *)p)[i] = x;
  else
    ((uint16_t *)p)[i] = r->desc.dtype == GA_F16 ? ga_f32_to_f16(x) : ga_f32_to_bf16(x);
}

static void norm_host_row(const ga_all_reduce *r, const ga_all_reduce_norm_io *io, int64_t row) {
  const int64_t at = row * io->width;
  double squares = 0;
  for (int64_t i = at; i < at + io->width; i++) {
    put_rounded(r, io->residual, i, get_number(r, io->residual, i) + get_number(r, io->y, i));
    const double x = (double)get_number(r, io->residual, i);
    squares += x * x;
  }
  const double factor = 1 / sqrt(squares / (double)io->width + (double)io->eps);
  for (int64_t i = 0; i < io->width; i++)
    put_rounded(r, io->y, at + i,
                (float)((double)get_number(r, io->residual, at + i) * factor * (double)io->weight[i]));
}

void reduce_host_norm(const ga_all_reduce *r, const ga_all_reduce_norm_io *io) {
  for (int64_t row = 0; row < io->rows; row++) norm_host_row(r, io, row);
}
