/* Rows of a latent cache: the latent vector normed, the key rotated, both in double, rounded once. */
#include <math.h>

#include "base/status.h"
#include "ref/ref.h"

/* Factor of the latent vector's elements, before those of io.norm. */
static double latent_factor(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t at) {
  double squares = 0;
  for (int i = 0; i < d->v_dim; i++) {
    const double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, at + i);
    squares += x * x;
  }
  return 1 / sqrt(squares / d->v_dim + (double)d->norm_eps);
}

/* Stores pair p of the key, of which element 0 is element `from` of X. */
static void store_turned_pair(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t token, int64_t from,
                              int64_t to, int p) {
  const bool neox = d->pairs == GA_ROPE_NEOX;
  const int first = neox ? p : 2 * p, second = neox ? p + d->rot_dim / 2 : 2 * p + 1;
  const double angle = (double)a->positions[token] * (double)a->inv_freq[p], m = (double)d->magnitude;
  const double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, from + first),
               y = ga_ref_load((ga_dtype)d->x_dtype, a->x, from + second);
  ga_ref_store((ga_dtype)d->kv_dtype, a->cache, to + first, m * (x * cos(angle) - y * sin(angle)));
  ga_ref_store((ga_dtype)d->kv_dtype, a->cache, to + second, m * (x * sin(angle) + y * cos(angle)));
}

ga_status ga_ref_mla_store(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_mla_store_desc *d = desc;
  const ga_mla_store_io *a = io;
  for (int64_t t = 0; t < d->tokens; t++)
    GA_REQUIRE(a->slot[t] >= -1 && a->slot[t] < d->slots, GA_ERR_ARG, "mla_store: slot[%lld] is %d; must be -1 to %lld",
               (long long)t, a->slot[t], (long long)d->slots - 1);
  for (int64_t t = 0; t < d->tokens; t++) {
    const int64_t from = t * d->x_stride, to = a->slot[t] * (int64_t)(d->v_dim + d->rot_dim);
    if (a->slot[t] < 0) continue;
    const double factor = a->norm ? latent_factor(d, a, from) : 1;
    for (int i = 0; i < d->v_dim; i++)
      ga_ref_store((ga_dtype)d->kv_dtype, a->cache, to + i,
                   ga_ref_load((ga_dtype)d->x_dtype, a->x, from + i) * factor * (a->norm ? (double)a->norm[i] : 1));
    for (int p = 0; p < d->rot_dim / 2; p++) store_turned_pair(d, a, t, from + d->v_dim, to + d->v_dim, p);
  }
  return GA_OK;
}
