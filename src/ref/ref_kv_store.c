/* Rows of K and V into their cache slots, rounded to the cache's type, in e4m3 with a scale a head. With rot_dim K
 * turns on the way, and Q in place; with head_norm heads are normed before that, both in double, so that results are
 * rounded once. */
#include <math.h>

#include "base/mem.h"
#include "base/quant.h"
#include "base/status.h"
#include "opdef/convert_at.h"
#include "ref/ref.h"

/* A token's row of K, Q or V. turns: elements of a head that are turned; norm: weights, or NULL. */
typedef struct row {
  const ga_kv_store_fused_desc *d;
  const ga_kv_store_fused_io *a;
  const void *x;
  int64_t token, from;
  int rope_dims;
  const float *norm;
} row;

/* Element i, normed. */
static double normed(const row *r, int64_t i) {
  const ga_kv_store_fused_desc *d = r->d;
  const ga_dtype t = (ga_dtype)d->plain.x_dtype;
  const double x = ga_ref_load(t, r->x, r->from + i);
  if (!r->norm) return x;
  const int64_t dim = d->plain.head_dim, head = r->from + i / dim * dim;
  double squares = 0;
  for (int64_t e = 0; e < dim; e++) squares += ga_ref_load(t, r->x, head + e) * ga_ref_load(t, r->x, head + e);
  return x / sqrt(squares / (double)dim + (double)d->norm_eps) * (double)r->norm[i % dim];
}

/* Element i, normed and turned. */
static double kv_element(const row *r, int64_t i) {
  const ga_kv_store_fused_desc *d = r->d;
  const double x = normed(r, i);
  const int e = r->rope_dims ? (int)(i % d->plain.head_dim) : 0, half = r->rope_dims / 2;
  if (e >= r->rope_dims) return x;
  const bool neox = d->pairs == GA_ROPE_NEOX, first = neox ? e < half : e % 2 == 0;
  const int p = neox ? e % half : e / 2, step = neox ? half : 1;
  const double other = normed(r, i + (first ? step : -step));
  const double angle = (double)r->a->positions[r->token] * (double)r->a->inv_freq[p];
  return (double)d->magnitude * (first ? x * cos(angle) - other * sin(angle) : other * sin(angle) + x * cos(angle));
}

/* n elements to cache[to]; block types by their quantiser, which is defined on f32. */
static void store_row(const row *r, void *cache, int64_t to, int64_t n) {
  const ga_dtype ct = (ga_dtype)r->d->plain.kv_dtype;
  const ga_dtype_traits *t = ga_dtype_info(ct);
  for (int64_t i = 0; i < n; i += t->block_elems) {
    float block[GA_QUANT_MAX_BLOCK];
    for (int e = 0; e < t->block_elems; e++) block[e] = (float)kv_element(r, i + e);
    if (t->is_quant)
      ga_quantise_block(ct, block, (uint8_t *)cache + (to + i) / t->block_elems * t->block_bytes);
    else
      ga_ref_store(ct, cache, to + i, kv_element(r, i));
  }
}

/* n elements of a head to cache[to], in units of the scale that their largest makes. */
static void store_scaled(const row *r, int64_t first, uint8_t *cache, int64_t to, int64_t n, float *scale) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf((float)kv_element(r, first + i)));
  *scale = ga_convert_scale(most);
  for (int64_t i = 0; i < n; i++)
    ga_ref_store(GA_E4M3, cache, to + i, (double)((float)kv_element(r, first + i) / *scale));
}

/* All heads of a token. scale: of the first head; null but for e4m3. */
static void store_token(const row *r, void *cache, int64_t slot, int64_t dim, float *scale) {
  const ga_kv_store_desc *d = &r->d->plain;
  const int64_t width = d->heads * dim;
  if (d->kv_dtype != GA_E4M3) store_row(r, cache, slot * width, width);
  for (int64_t h = 0; h < d->heads && d->kv_dtype == GA_E4M3; h++)
    store_scaled(r, h * dim, cache, slot * width + h * dim, dim, scale + h * d->slots + slot);
}

/* Q in place, a head after the other. */
static ga_status rope_q(const ga_kv_store_fused_desc *d, const ga_kv_store_fused_io *a) {
  const int64_t dim = d->plain.head_dim;
  void *p;
  GA_TRY(ga_mem_alloc((size_t)dim * sizeof(double), "a head", &p));
  double *head = p;
  for (int64_t t = 0; t < d->plain.tokens; t++)
    for (int64_t h = 0; h < d->q_heads; h++) {
      const row r = {d, a, a->q, t, t * d->q_stride + h * dim, d->rot_dim, d->head_norm ? a->q_norm : NULL};
      for (int64_t e = 0; e < dim; e++) head[e] = kv_element(&r, e);
      for (int64_t e = 0; e < dim; e++) ga_ref_store((ga_dtype)d->plain.x_dtype, a->q, r.from + e, head[e]);
    }
  ga_mem_free(p);
  return GA_OK;
}

ga_status ga_ref_kv_store(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_kv_store_fused_desc *fused = desc;
  const ga_kv_store_fused_io *fused_io = io;
  const ga_kv_store_desc *d = &fused->plain;
  const ga_kv_store_io *a = &fused_io->plain;
  const float *norm = fused->head_norm ? fused_io->k_norm : NULL;
  for (int64_t t = 0; t < d->tokens; t++)
    GA_REQUIRE(a->slot[t] >= -1 && a->slot[t] < d->slots, GA_ERR_ARG, "kv_store: slot[%lld] is %d; must be -1 to %lld",
               (long long)t, a->slot[t], (long long)d->slots - 1);
  for (int64_t t = 0; t < d->tokens; t++) {
    if (a->slot[t] < 0) continue;
    const row k = {fused, fused_io, a->k, t, t * d->k_stride, fused->rot_dim, norm};
    const row v = {fused, fused_io, a->v, t, t * d->v_stride, 0, NULL};
    store_token(&k, a->k_cache, a->slot[t], d->head_dim, a->k_scale);
    store_token(&v, a->v_cache, a->slot[t], d->v_dim, a->v_scale);
  }
  return fused->rot_dim ? rope_q(fused, fused_io) : GA_OK;
}
