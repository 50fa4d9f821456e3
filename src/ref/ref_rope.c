/* Rotary position embedding (RoFormer, arXiv 2104.09864): pair p of a head turns by position * inv_freq[p]. */
#include <math.h>

#include "ref/ref.h"

static void rotate_pair(ga_dtype t, void *x, int64_t at0, int64_t at1, double cosine, double sine) {
  double a = ga_ref_load(t, x, at0), b = ga_ref_load(t, x, at1);
  ga_ref_store(t, x, at0, a * cosine - b * sine);
  ga_ref_store(t, x, at1, a * sine + b * cosine);
}

ga_status ga_ref_rope(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_rope_desc *d = desc;
  const ga_rope_io *a = io;
  const int half = d->rot_dim / 2;
  for (int64_t t = 0; t < d->tokens; t++)
    for (int h = 0; h < d->heads; h++)
      for (int p = 0; p < half; p++) {
        double angle = (double)a->positions[t] * (double)a->inv_freq[p], m = (double)d->magnitude;
        int64_t head = t * d->x_stride + (int64_t)h * d->head_dim;
        int64_t at0 = head + (d->pairs == GA_ROPE_NEOX ? p : 2 * p);
        int64_t at1 = d->pairs == GA_ROPE_NEOX ? at0 + half : at0 + 1;
        rotate_pair((ga_dtype)d->x_dtype, a->x, at0, at1, m * cos(angle), m * sin(angle));
      }
  return GA_OK;
}
