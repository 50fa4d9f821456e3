/* Rows of a latent cache: the latent vector normed, the key rotated, both in double, rounded once. */
#include <math.h>

#include "base/status.h"
#include "opdef/mla_at.h"
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

/* Returns element i of the token's latent vector, normed. */
static double latent_element(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t from, double factor, int i) {
  return ga_ref_load((ga_dtype)d->x_dtype, a->x, from + i) * factor * (a->norm ? (double)a->norm[i] : 1);
}

/* Stores blocks of codes, and their scales, to the row at `row`. */
static void store_latent_codes(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t from, double factor,
                               uint8_t *row) {
  for (int first = 0; first < d->v_dim; first += GA_MLA_BLOCK) {
    float most = 0;
    for (int i = first; i < first + GA_MLA_BLOCK; i++)
      most = fmaxf(most, fabsf((float)latent_element(d, a, from, factor, i)));
    const float scale = ga_mla_scale(most);
    ga_ref_store(GA_F32, row + ga_mla_scale_at(d->v_dim, first), 0, (double)scale);
    for (int i = first; i < first + GA_MLA_BLOCK; i++)
      ga_ref_store(GA_E4M3, row, i, latent_element(d, a, from, factor, i) / (double)scale);
  }
}

/* Stores pair p of the key, of which element 0 is element `from` of X, to the elements of type dtype at `to`. */
static void store_turned_pair(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t token, int64_t from,
                              ga_dtype dtype, void *to, int p) {
  const bool neox = d->pairs == GA_ROPE_NEOX;
  const int first = neox ? p : 2 * p, second = neox ? p + d->rot_dim / 2 : 2 * p + 1;
  const double angle = (double)a->positions[token] * (double)a->inv_freq[p], m = (double)d->magnitude;
  const double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, from + first),
               y = ga_ref_load((ga_dtype)d->x_dtype, a->x, from + second);
  ga_ref_store(dtype, to, first, m * (x * cos(angle) - y * sin(angle)));
  ga_ref_store(dtype, to, second, m * (x * sin(angle) + y * cos(angle)));
}

static void store_token_row(const ga_mla_store_desc *d, const ga_mla_store_io *a, int64_t t) {
  const ga_dtype dtype = (ga_dtype)d->kv_dtype;
  const int64_t from = t * d->x_stride, bytes = ga_mla_row_bytes(dtype, d->v_dim, d->rot_dim);
  uint8_t *row = (uint8_t *)a->cache + a->slot[t] * bytes;
  const double factor = a->norm ? latent_factor(d, a, from) : 1;
  if (dtype == GA_E4M3)
    store_latent_codes(d, a, from, factor, row);
  else
    for (int i = 0; i < d->v_dim; i++) ga_ref_store(dtype, row, i, latent_element(d, a, from, factor, i));
  uint8_t *key = row + bytes - d->rot_dim * (dtype == GA_E4M3 ? 2 : (int64_t)ga_dtype_info(dtype)->block_bytes);
  for (int p = 0; p < d->rot_dim / 2; p++)
    store_turned_pair(d, a, t, from + d->v_dim, dtype == GA_E4M3 ? GA_BF16 : dtype, key, p);
}

ga_status ga_ref_mla_store(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_mla_store_desc *d = desc;
  const ga_mla_store_io *a = io;
  for (int64_t t = 0; t < d->tokens; t++)
    GA_REQUIRE(a->slot[t] >= -1 && a->slot[t] < d->slots, GA_ERR_ARG, "mla_store: slot[%lld] is %d; must be -1 to %lld",
               (long long)t, a->slot[t], (long long)d->slots - 1);
  for (int64_t t = 0; t < d->tokens; t++)
    if (a->slot[t] >= 0) store_token_row(d, a, t);
  return GA_OK;
}
