/* The results of one GPU for a document; results of ranks on GPUs are compared with them. */
#include <stdlib.h>

#include "base/status.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "verify/dist/batch.h"
#include "verify/dist/draw.h"

/* A tensor in the memory of a GPU, in its type; in the batch it is f32. */
typedef struct one_tensor {
  float *floats;
  int64_t n;
  int32_t dtype;
  bool is_input;
  void *at;
} one_tensor;

enum { ONE_Q, ONE_K, ONE_V, ONE_O, ONE_LSE, ONE_DOUT, ONE_DQ, ONE_DK, ONE_DV, ONES };

static size_t bytes_of_one(const one_tensor *x) { return (size_t)x->n * (x->dtype == GA_F32 ? 4 : 2); }

static ga_status upload_tensor(ga_ctx *host, ga_ctx *ctx, one_tensor *x) {
  float *narrow = NULL;
  GA_TRY(ga_buffer_alloc(ctx, bytes_of_one(x) + 1, &x->at));
  if (!x->is_input) return GA_OK;
  GA_TRY(dist_new_floats(x->n, &narrow));
  ga_status status = dist_convert(host, GA_F32, x->floats, x->dtype, narrow, x->n);
  if (status == GA_OK) status = ga_copy_to_device(ctx, x->at, narrow, bytes_of_one(x), NULL);
  free(narrow);
  return status;
}

static ga_status download(ga_ctx *host, ga_ctx *ctx, const one_tensor *x) {
  float *narrow = NULL;
  GA_TRY(dist_new_floats(x->n, &narrow));
  ga_status status = ga_copy_to_host(ctx, narrow, x->at, bytes_of_one(x), NULL);
  if (status == GA_OK) status = dist_convert(host, x->dtype, narrow, GA_F32, x->floats, x->n);
  free(narrow);
  return status;
}

static ga_status run_one_forward(ga_ctx *ctx, const ga_dist_desc *d, int32_t dtype, int64_t nq, int64_t nk,
                                 const one_tensor x[ONES]) {
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.max_q = nq, f.max_kv = nk, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim;
  f.v_dim = d->v_dim ? d->v_dim : d->head_dim, f.window = (int32_t)d->window;
  f.q_dtype = f.kv_dtype = f.o_dtype = dtype;
  f.flags = (uint32_t)GA_ATTN_LSE | (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  const ga_attn_io io = {.q = x[ONE_Q].at, .k = x[ONE_K].at, .v = x[ONE_V].at, .o = x[ONE_O].at, .lse = x[ONE_LSE].at};
  return ga_attn(ctx, &f, &io, NULL);
}

static ga_status run_one_backward(ga_ctx *ctx, const ga_dist_desc *d, int32_t dtype, int64_t nq, int64_t nk,
                                  const one_tensor x[ONES]) {
  ga_attn_bwd_desc g = GA_ATTN_BWD_DESC_INIT;
  g.max_q = nq, g.max_kv = nk, g.q_heads = d->q_heads, g.kv_heads = d->kv_heads, g.head_dim = d->head_dim;
  g.v_dim = d->v_dim ? d->v_dim : d->head_dim, g.window = (int32_t)d->window;
  g.dtype = dtype, g.grad_dtype = GA_F32;
  g.flags = (uint32_t)GA_ATTN_BWD_DETERMINISTIC | (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  const ga_attn_bwd_io io = {.q = x[ONE_Q].at,
                             .k = x[ONE_K].at,
                             .v = x[ONE_V].at,
                             .o = x[ONE_O].at,
                             .dout = x[ONE_DOUT].at,
                             .lse = x[ONE_LSE].at,
                             .dq = x[ONE_DQ].at,
                             .dk = x[ONE_DK].at,
                             .dv = x[ONE_DV].at};
  return ga_attn_bwd(ctx, &g, &io, NULL);
}

/* Copies the LSE of a document to its place in the LSE of the batch. */
static void put_lse(const ga_dist_desc *d, dist_batch *b, const float *lse, int64_t q0, int64_t nq) {
  for (int64_t h = 0; h < d->q_heads; h++)
    for (int64_t i = 0; i < nq; i++) b->lse_one[h * b->nq + q0 + i] = lse[h * nq + i];
}

ga_status dist_one_on_device(ga_ctx *host, ga_ctx *ctx, const ga_dist_desc *d, dist_batch *b, int64_t q0, int64_t nq,
                             int64_t k0, int64_t nk) {
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const bool backward = d->flags & GA_DIST_BACKWARD;
  float *lse = NULL;
  GA_TRY(dist_new_floats(nq * hq, &lse));
  one_tensor x[ONES] = {[ONE_Q] = {b->in_q + q0 * hq * hd, nq * hq * hd, b->dtype, true, NULL},
                        [ONE_K] = {b->in_k + k0 * hk * hd, nk * hk * hd, b->dtype, true, NULL},
                        [ONE_V] = {b->in_v + k0 * hk * vd, nk * hk * vd, b->dtype, true, NULL},
                        [ONE_O] = {b->o_one + q0 * hq * vd, nq * hq * vd, b->dtype, false, NULL},
                        [ONE_LSE] = {lse, nq * hq, GA_F32, false, NULL},
                        [ONE_DOUT] = {b->in_dout + q0 * hq * vd, nq * hq * vd, b->dtype, true, NULL},
                        [ONE_DQ] = {b->dq_one + q0 * hq * hd, nq * hq * hd, GA_F32, false, NULL},
                        [ONE_DK] = {b->dk_one + k0 * hk * hd, nk * hk * hd, GA_F32, false, NULL},
                        [ONE_DV] = {b->dv_one + k0 * hk * vd, nk * hk * vd, GA_F32, false, NULL}};
  ga_status status = GA_OK;
  for (int i = 0; i < ONES && status == GA_OK; i++) status = upload_tensor(host, ctx, &x[i]);
  if (status == GA_OK) status = run_one_forward(ctx, d, b->dtype, nq, nk, x);
  if (status == GA_OK && backward) status = run_one_backward(ctx, d, b->dtype, nq, nk, x);
  for (int i = ONE_O; i < ONES && status == GA_OK; i++)
    if (!x[i].is_input && (backward || i <= ONE_LSE)) status = download(host, ctx, &x[i]);
  if (status == GA_OK) put_lse(d, b, lse, q0, nq);
  for (int64_t i = 0; i < x[ONE_O].n && status == GA_OK; i++) b->o_in[q0 * hq * vd + i] = x[ONE_O].floats[i];
  for (int i = 0; i < ONES; i++) ga_buffer_free(ctx, x[i].at);
  free(lse);
  return status;
}
