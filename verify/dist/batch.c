#include "verify/dist/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "verify/dist/devices.h"
#include "verify/dist/draw.h"

void dist_free_batch(dist_batch *b) {
  float *const all[] = {b->in_q,  b->in_k,    b->in_v,   b->in_dout, b->o_in,
                        b->o_one, b->lse_one, b->dq_one, b->dk_one,  b->dv_one};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) free(all[i]);
}

ga_status dist_make_batch(const dist_task *t, int64_t seed, dist_batch *b) {
  const ga_dist_desc *d = &t->desc;
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim;
  *b = (dist_batch){.dtype = d->dtype ? d->dtype : GA_F32,
                    .nq = ga_dist_layout_tokens(t->q, -1),
                    .nk = ga_dist_layout_tokens(t->kv, -1)};
  b->q = b->nq * d->q_heads * d->head_dim, b->o = b->nq * d->q_heads * vd;
  b->k = b->nk * d->kv_heads * d->head_dim, b->v = b->nk * d->kv_heads * vd;
  const int64_t lse = b->nq * d->q_heads;
  const struct {
    int64_t n;
    float **at;
  } all[] = {{b->q, &b->in_q},  {b->k, &b->in_k},   {b->v, &b->in_v},   {b->o, &b->in_dout}, {b->o, &b->o_in},
             {b->o, &b->o_one}, {lse, &b->lse_one}, {b->q, &b->dq_one}, {b->k, &b->dk_one},  {b->v, &b->dv_one}};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) GA_TRY(dist_new_floats(all[i].n, all[i].at));
  dist_fill_random(b->in_q, b->q, (uint64_t)seed + 1), dist_fill_random(b->in_k, b->k, (uint64_t)seed + 2);
  dist_fill_random(b->in_v, b->v, (uint64_t)seed + 3), dist_fill_random(b->in_dout, b->o, (uint64_t)seed + 4);
  return GA_OK;
}

/* --- types --- */

/* Rounds to the type and back. */
static ga_status round_floats(ga_ctx *ctx, int32_t dtype, float *x, int64_t n) {
  float *narrow;
  if (dtype == GA_F32) return GA_OK;
  GA_TRY(dist_new_floats(n, &narrow));
  ga_status status = dist_convert(ctx, GA_F32, x, dtype, narrow, n);
  if (status == GA_OK) status = dist_convert(ctx, dtype, narrow, GA_F32, x, n);
  free(narrow);
  return status;
}

static ga_status round_inputs(ga_ctx *ctx, dist_batch *b) {
  GA_TRY(round_floats(ctx, b->dtype, b->in_q, b->q));
  GA_TRY(round_floats(ctx, b->dtype, b->in_k, b->k));
  GA_TRY(round_floats(ctx, b->dtype, b->in_v, b->v));
  return round_floats(ctx, b->dtype, b->in_dout, b->o);
}

/* --- one rank, a document at a time, in f32 --- */

static ga_status one_document(ga_ctx *ctx, const ga_dist_desc *d, dist_batch *b, int64_t q0, int64_t nq, int64_t k0,
                              int64_t nk) {
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const uint32_t causal = d->flags & GA_DIST_CAUSAL ? GA_ATTN_CAUSAL : 0u;
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.max_q = nq, f.max_kv = nk, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim;
  f.v_dim = (int32_t)vd, f.window = (int32_t)d->window, f.flags = GA_ATTN_LSE | causal;
  float *lse;
  GA_TRY(dist_new_floats(nq * hq, &lse));
  ga_attn_io io = {0};
  io.q = b->in_q + q0 * hq * hd, io.k = b->in_k + k0 * hk * hd, io.v = b->in_v + k0 * hk * vd;
  io.o = b->o_one + q0 * hq * vd, io.lse = lse;
  ga_status status = ga_attn(ctx, &f, &io, NULL);
  for (int64_t h = 0; h < hq; h++)
    for (int64_t i = 0; i < nq; i++) b->lse_one[h * b->nq + q0 + i] = lse[h * nq + i];
  if (status == GA_OK && d->flags & GA_DIST_BACKWARD) {
    memcpy(b->o_in + q0 * hq * vd, io.o, (size_t)(nq * hq * vd) * sizeof(float));
    status = round_floats(ctx, b->dtype, b->o_in + q0 * hq * vd, nq * hq * vd);
  }
  if (status == GA_OK && d->flags & GA_DIST_BACKWARD) {
    ga_attn_bwd_desc g = GA_ATTN_BWD_DESC_INIT;
    g.max_q = nq, g.max_kv = nk, g.q_heads = d->q_heads, g.kv_heads = d->kv_heads, g.head_dim = d->head_dim;
    g.v_dim = (int32_t)vd, g.window = (int32_t)d->window, g.flags = causal;
    ga_attn_bwd_io gio = {0};
    gio.q = io.q, gio.k = io.k, gio.v = io.v, gio.o = b->o_in + q0 * hq * vd, gio.lse = lse,
    gio.dout = b->in_dout + q0 * hq * vd;
    gio.dq = b->dq_one + q0 * hq * hd, gio.dk = b->dk_one + k0 * hk * hd, gio.dv = b->dv_one + k0 * hk * vd;
    status = ga_attn_bwd(ctx, &g, &gio, NULL);
  }
  free(lse);
  return status;
}

ga_status dist_run_one(const char *devices, int32_t rank, const dist_task *t, dist_batch *b) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  char name[DIST_DEVICE_BYTES];
  options.device = "cpu";
  ga_ctx *host, *ctx = NULL;
  GA_TRY(ga_ctx_create(&options, &host));
  dist_device_of(devices, rank < 0 ? 0 : rank, name);
  options.device = name;
  ga_status status = dist_is_on_host(devices) ? GA_OK : ga_ctx_create(&options, &ctx);
  if (status == GA_OK) status = round_inputs(host, b);
  int64_t q0 = 0, k0 = 0;
  for (int32_t i = 0; i < t->documents && status == GA_OK; i++) {
    const int64_t nq = t->q_lengths[i], nk = t->kv_lengths[i];
    status = ctx ? dist_one_on_device(host, ctx, &t->desc, b, q0, nq, k0, nk)
                 : one_document(host, &t->desc, b, q0, nq, k0, nk);
    q0 += nq, k0 += nk;
  }
  ga_ctx_destroy(ctx);
  ga_ctx_destroy(host);
  return status;
}
