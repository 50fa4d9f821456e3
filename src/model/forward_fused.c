/* Products with the norm of X in them, and several of one X in a launch, where a row of the device takes that; else one
 * by one. */
#include "base/mem.h"
#include "base/status.h"
#include "model/forward.h"

#define FEW 8 /* tokens: rows for more norm nothing */
enum { REFUSED_QKV = 1, REFUSED_GATED = 2, REFUSED_HEAD = 4, ADD = 8 /* times these: with ADD_NORM */ };

/* Refused for one token is refused for good, and not asked again. */
static bool worth_trying(const ga_forward *f, int64_t m, int il, unsigned what) {
  return m <= FEW && !(f->refused[il] & what);
}

static bool taken(ga_forward *f, int64_t m, int il, unsigned what, ga_status status) {
  if (status != GA_ERR_UNSUPPORTED) return true;
  if (m == 1) f->refused[il] |= (uint8_t)what;
  return false;
}

static bool alike(const ga_matrix *a, const ga_matrix *b) { return a->dtype == b->dtype && a->layout == b->layout; }

/* y = w norm(x), its further parts left to the caller. */
static ga_gemm_desc normed(const ga_forward *f, int64_t m, const ga_matrix *w) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = m;
  d.n = w->rows;
  d.k = w->cols;
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  d.flags = GA_GEMM_NORM;
  d.norm_eps = f->model->hparams.norm_eps;
  return d;
}

/* Such a product of the stream, to which it adds first what fwd_add_rms has left, where a row takes that. last: of
 * those of one stream; it leaves the sum in the other of the stream's rows, since all read the one that was. */
static ga_status run(ga_forward *f, int il, unsigned what, const ga_gemm_desc *d, const ga_gemm_io *io, bool last) {
  if (!f->add_norm) return ga_gemm(f->ctx, d, io, NULL);
  ga_gemm_desc sum = *d;
  ga_gemm_io also = *io;
  sum.flags |= GA_GEMM_ADD_NORM;
  also.x = f->h;
  also.add = f->x;
  also.add_norm = f->add_norm;
  if (last) also.sum = f->x == f->stream ? f->stream + f->max_tokens * f->model->hparams.width : f->stream;
  if (!(f->refused[il] & ADD * what)) {
    const ga_status status = ga_gemm(f->ctx, &sum, &also, NULL);
    if (status == GA_OK && last) {
      f->x = also.sum;
      f->add_norm = NULL;
    }
    if (taken(f, 1, il, ADD * what, status)) return status;
  }
  GA_TRY(fwd_add_now(f));
  also.x = f->x;
  return ga_gemm(f->ctx, d, &also, NULL);
}

/* --- q, k, v --- */

typedef struct product {
  const ga_matrix *w;
  ga_vector bias;
  float *y;
  int64_t stride;
} product;

/* The first n products, of weights alike, in one launch; last: no others follow. */
static ga_status together(ga_forward *f, int il, ga_vector norm, const product *p, int n, bool last) {
  ga_gemm_desc d = normed(f, f->step->n_tokens, p->w);
  ga_gemm_io io = {.x = f->x, .w = p->w->data, .y = p->y, .bias = p->bias, .norm = norm};
  d.y_stride = p->stride;
  if (p->bias) d.flags |= GA_GEMM_BIAS;
  for (int i = 1; i < n; i++) {
    d.n_more[i - 1] = p[i].w->rows;
    d.y_more_stride[i - 1] = p[i].stride;
    io.w_more[i - 1] = p[i].w->data;
    io.y_more[i - 1] = p[i].y;
    io.bias_more[i - 1] = p[i].bias;
  }
  return run(f, il, REFUSED_QKV, &d, &io, last);
}

static ga_status few_qkv(ga_forward *f, int il, ga_vector norm, const product *p) {
  for (int first = 0, n; first < 3; first += n) {
    for (n = 1; first + n < 3 && alike(p[first].w, p[first + n].w) && !p[first].bias == !p[first + n].bias;) n++;
    GA_TRY(together(f, il, norm, p + first, n, first + n == 3));
  }
  return GA_OK;
}

ga_status fwd_qkv(ga_forward *f, int il) {
  const ga_layer *l = &f->model->layers[il];
  const product p[3] = {
      {&l->q, l->q_b, f->q, f->q_stride}, {&l->k, l->k_b, f->k, f->kv_stride}, {&l->v, l->v_b, f->v, 0}};
  if (worth_trying(f, f->step->n_tokens, il, REFUSED_QKV)) {
    const ga_status status = few_qkv(f, il, l->attn_norm, p);
    if (taken(f, f->step->n_tokens, il, REFUSED_QKV, status)) return status;
  }
  GA_TRY(fwd_add_now(f));
  GA_TRY(fwd_rms(f, f->x, l->attn_norm, f->h));
  for (int i = 0; i < 3; i++) GA_TRY(fwd_linear(f, f->h, p[i].w, &(fwd_epilogue){.bias = p[i].bias}, p[i].y));
  return GA_OK;
}

/* --- gate and up --- */

static ga_status few_gated(ga_forward *f, int il, int32_t act) {
  const ga_layer *l = &f->model->layers[il];
  ga_gemm_desc d = normed(f, f->step->n_tokens, &l->up);
  d.flags |= GA_GEMM_GATED;
  d.act = act;
  return run(f, il, REFUSED_GATED, &d,
             &(ga_gemm_io){.x = f->x, .w = l->up.data, .y = f->up, .norm = l->ffn_norm, .w_more = {l->gate.data}},
             true);
}

ga_status fwd_gated(ga_forward *f, int il, int32_t act) {
  const ga_layer *l = &f->model->layers[il];
  if (worth_trying(f, f->step->n_tokens, il, REFUSED_GATED) && alike(&l->gate, &l->up) && !l->gate_b && !l->up_b) {
    const ga_status status = few_gated(f, il, act);
    if (taken(f, f->step->n_tokens, il, REFUSED_GATED, status)) return status;
  }
  GA_TRY(fwd_add_now(f));
  GA_TRY(fwd_rms(f, f->x, l->ffn_norm, f->h));
  GA_TRY(fwd_linear(f, f->h, &l->gate, &(fwd_epilogue){.bias = l->gate_b}, f->gate));
  return fwd_linear(f, f->h, &l->up, &(fwd_epilogue){.bias = l->up_b, .act = act, .gate = f->gate}, f->up);
}

/* --- the head --- */

ga_status fwd_head(ga_forward *f, int64_t rows, const float *x) {
  const ga_model *m = f->model;
  if (worth_trying(f, rows, 0, REFUSED_HEAD)) {
    const ga_gemm_desc d = normed(f, rows, &m->output);
    const ga_status status =
        run(f, 0, REFUSED_HEAD, &d, &(ga_gemm_io){.x = x, .w = m->output.data, .y = f->logits, .norm = m->output_norm},
            true);
    if (taken(f, rows, 0, REFUSED_HEAD, status)) return status;
  }
  if (f->add_norm) { /* of one token */
    GA_TRY(fwd_add_now(f));
    x = f->x;
  }
  GA_TRY(fwd_norm_rows(f, rows, x, m->output_norm, NULL, f->h));
  return fwd_linear_rows(f, rows, f->h, &m->output, f->logits);
}
