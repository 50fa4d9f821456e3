#include "model/forward.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"
#include "model/widen.h"

static ga_status alloc_rows(ga_forward *f, int64_t rows, int64_t width, float **out) {
  void *p;
  GA_TRY(ga_buffer_alloc_for(f->ctx, (size_t)rows * (size_t)width * sizeof(float), "activations", &p));
  *out = p;
  return GA_OK;
}

static ga_status alloc_all(ga_forward *f) {
  const ga_hparams *p = &f->model->hparams;
  const int64_t t = f->max_tokens, q = (int64_t)p->n_heads * p->head_dim, k = (int64_t)p->n_kv_heads * p->head_dim;
  const int64_t v = (int64_t)p->n_kv_heads * p->v_dim;
  GA_TRY(alloc_rows(f, t + 1, p->width, &f->stream));
  f->x = f->stream;
  GA_TRY(alloc_rows(f, t, p->width, &f->h));
  GA_TRY(alloc_rows(f, t, p->arch == GA_MODEL_gpt2 ? q + k + v : q, &f->q));
  if (p->arch != GA_MODEL_gpt2) {
    GA_TRY(alloc_rows(f, t, k, &f->k));
    GA_TRY(alloc_rows(f, t, v, &f->v));
  }
  GA_TRY(alloc_rows(f, t, (int64_t)p->n_heads * p->v_dim, &f->o));
  GA_TRY(alloc_rows(f, t, p->ff_width, &f->gate));
  GA_TRY(alloc_rows(f, t, p->ff_width, &f->up));
  if (f->max_out) GA_TRY(alloc_rows(f, f->max_out, p->vocab, &f->logits));
  return GA_OK;
}

uint64_t fwd_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out) {
  const ga_hparams *p = &model->hparams;
  const uint64_t q = (uint64_t)p->n_heads * (uint64_t)(p->head_dim + p->v_dim),
                 k = (uint64_t)p->n_kv_heads * (uint64_t)(p->head_dim + p->v_dim);
  const uint64_t row = 2 * (uint64_t)p->width + q + k + 2 * (uint64_t)p->ff_width;
  return ((uint64_t)max_tokens * row + (uint64_t)p->width + (uint64_t)max_out * (uint64_t)p->vocab) * sizeof(float);
}

ga_status fwd_create(ga_model *model, const ga_place *place, int32_t max_tokens, int32_t max_out, ga_forward *out) {
  *out = (ga_forward){.model = model, .place = place, .ctx = place->ctx, .max_tokens = max_tokens};
  if (fwd_ends(out)) out->max_out = max_out;
  ga_status status = alloc_all(out);
  if (status != GA_OK) fwd_destroy(out);
  return status;
}

void fwd_destroy(ga_forward *f) {
  if (!f->ctx) return;
  float *k = f->model->hparams.arch == GA_MODEL_gpt2 ? NULL : f->k, *v = k ? f->v : NULL;
  float *all[] = {f->stream, f->h, f->q, k, v, f->o, f->gate, f->up, f->logits};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(f->ctx, all[i]);
  *f = (ga_forward){0};
}

ga_status fwd_run(ga_forward *f) {
  static ga_status (*const archs[])(ga_forward *) = {
#define X(name) ga_arch_##name,
      GA_MODEL_ARCHS(X)
#undef X
  };
  f->x = f->stream;
  f->add_norm = NULL;
  GA_TRY(archs[f->model->hparams.arch](f));
  return fwd_ends(f) ? GA_OK : fwd_add_now(f); /* the next place reads it */
}

ga_status fwd_embed(ga_forward *f, const ga_matrix *table, const int32_t *ids, float scale, float *y) {
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = f->step->n_tokens;
  d.vocab = table->rows;
  d.width = table->cols;
  d.w_dtype = (int32_t)table->dtype;
  d.scale = scale;
  return ga_embed(f->ctx, &d, &(ga_embed_io){.ids = ids, .table = table->data, .y = y}, NULL);
}

/* y = norm of x, + residual if there is one. */
static ga_status norm(ga_forward *f, int32_t kind, int64_t rows, int64_t width, const float *x, ga_vector weight,
                      ga_vector bias, const float *residual, float *y) {
  ga_norm_desc d = GA_NORM_DESC_INIT;
  d.kind = kind;
  d.rows = rows;
  d.width = width;
  d.eps = f->model->hparams.norm_eps;
  return ga_norm(f->ctx, &d, &(ga_norm_io){.x = x, .y = y, .weight = weight, .bias = bias, .residual = residual}, NULL);
}

ga_status fwd_rms(ga_forward *f, const float *x, ga_vector weight, float *y) {
  const int64_t width = f->model->hparams.width;
  return norm(f, GA_NORM_RMS, f->step->n_tokens, width, x, weight, NULL, NULL, y);
}

ga_status fwd_add_rms(ga_forward *f, ga_vector weight) {
  f->add_norm = weight;
  return f->step->n_tokens == 1 ? GA_OK : fwd_add_now(f);
}

ga_status fwd_add_now(ga_forward *f) {
  const ga_vector weight = f->add_norm;
  const float *x = f->x;
  if (!weight) return GA_OK;
  f->add_norm = NULL;
  f->x = f->stream;
  return norm(f, GA_NORM_RMS, f->step->n_tokens, f->model->hparams.width, f->h, weight, NULL, x, f->x);
}

ga_status fwd_layer_norm(ga_forward *f, const float *x, ga_vector weight, ga_vector bias, float *y) {
  const int64_t width = f->model->hparams.width;
  return norm(f, GA_NORM_LAYER, f->step->n_tokens, width, x, weight, bias, NULL, y);
}

ga_status fwd_head_rms(ga_forward *f, ga_vector q_norm, ga_vector k_norm) {
  const ga_hparams *p = &f->model->hparams;
  const int64_t dim = p->head_dim, tokens = f->step->n_tokens;
  if (f->kv && f->store_norms) {
    f->q_norm = q_norm;
    f->k_norm = k_norm;
    return GA_OK;
  }
  GA_REQUIRE(f->q_stride == p->n_heads * dim && f->kv_stride == p->n_kv_heads * dim, GA_ERR_INTERNAL,
             "head norm: heads must be contiguous");
  GA_TRY(norm(f, GA_NORM_RMS, tokens * p->n_heads, dim, f->q, q_norm, NULL, NULL, f->q));
  return norm(f, GA_NORM_RMS, tokens * p->n_kv_heads, dim, f->k, k_norm, NULL, NULL, f->k);
}

static ga_status linear(ga_forward *f, int64_t m, const float *x, const ga_matrix *w, const fwd_epilogue *e, float *y) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = m;
  d.n = w->rows;
  d.k = w->cols;
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  ga_gemm_io io = {.x = x, .w = w->data, .y = y};
  if (e) {
    d.act = e->act;
    d.flags = (e->bias ? GA_GEMM_BIAS : 0u) | (e->gate ? GA_GEMM_GLU : 0u) | (e->residual ? GA_GEMM_RESIDUAL : 0u);
    io.bias = e->bias;
    io.gate = e->gate;
    io.residual = e->residual;
  }
  return ga_gemm(f->ctx, &d, &io, NULL);
}

ga_status fwd_linear(ga_forward *f, const float *x, const ga_matrix *w, const fwd_epilogue *e, float *y) {
  return linear(f, f->step->n_tokens, x, w, e, y);
}

ga_status fwd_linear_rows(ga_forward *f, int64_t rows, const float *x, const ga_matrix *w, float *y) {
  return linear(f, rows, x, w, NULL, y);
}

ga_status fwd_norm_rows(ga_forward *f, int64_t rows, const float *x, ga_vector weight, ga_vector bias, float *y) {
  const int64_t width = f->model->hparams.width;
  return norm(f, f->model->hparams.arch == GA_MODEL_gpt2 ? GA_NORM_LAYER : GA_NORM_RMS, rows, width, x, weight, bias,
              NULL, y);
}

ga_status fwd_add(ga_forward *f, const float *x, const float *y, float *out) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = f->step->n_tokens;
  d.width = f->model->hparams.width;
  return ga_add(f->ctx, &d, &(ga_add_io){.x = x, .b = y, .y = out}, NULL);
}

ga_status fwd_rope(ga_forward *f, bool local) {
  const ga_hparams *p = &f->model->hparams;
  if (f->kv && f->store_turns) {
    f->turn = true;
    f->turn_local = local;
    return GA_OK;
  }
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  d.tokens = f->step->n_tokens;
  d.head_dim = p->head_dim;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.magnitude = local ? f->model->rope_magnitude_local : f->model->rope_magnitude;
  ga_rope_io io = {.positions = f->step->positions,
                   .inv_freq = local ? f->place->rope_freq_local : f->place->rope_freq};
  d.heads = p->n_heads;
  d.x_stride = f->q_stride;
  io.x = f->q;
  GA_TRY(ga_rope(f->ctx, &d, &io, NULL));
  d.heads = p->n_kv_heads;
  d.x_stride = f->kv_stride;
  io.x = f->k;
  return ga_rope(f->ctx, &d, &io, NULL);
}

static ga_kv_store_desc store_desc(const ga_forward *f, ga_dtype dtype, bool turn, bool local, bool norms) {
  const ga_hparams *p = &f->model->hparams;
  ga_kv_store_desc d = GA_KV_STORE_DESC_INIT;
  d.k_stride = f->kv_stride;
  d.v_stride = f->kv_stride == (int64_t)p->n_kv_heads * p->head_dim ? 0 : f->kv_stride;
  d.heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.kv_dtype = (int32_t)dtype;
  if (!turn) return d;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.q_heads = p->n_heads;
  d.q_stride = f->q_stride;
  d.magnitude = local ? f->model->rope_magnitude_local : f->model->rope_magnitude;
  d.head_norm = norms;
  d.norm_eps = p->norm_eps;
  return d;
}

static ga_status is_taken(ga_forward *f, ga_kv_store_desc d, bool *taken) {
  ga_plan *plan;
  d.tokens = d.slots = 1;
  const ga_status status = ga_kv_store_plan(f->ctx, &d, &plan);
  ga_plan_destroy(plan);
  *taken = status == GA_OK;
  return status == GA_ERR_UNSUPPORTED ? GA_OK : status;
}

/* Does a row turn q and k on k's way to the cache, and norm their heads before that? Then all this and the store are
 * one launch. */
ga_status fwd_use_cache(ga_forward *f, const ga_kv_cache *kv) {
  f->kv = kv;
  f->store_turns = f->store_norms = false;
  if (!f->model->hparams.rot_dim) return GA_OK;
  GA_TRY(is_taken(f, store_desc(f, kv->dtype, true, false, false), &f->store_turns));
  if (!f->store_turns) return GA_OK;
  return is_taken(f, store_desc(f, kv->dtype, true, false, true), &f->store_norms);
}

/* Behind `codes` of heads of `dim` elements; NULL where the cache has no scales. */
static float *scales_of(const ga_forward *f, void *codes, int32_t dim) {
  if (f->kv->dtype != GA_E4M3) return NULL;
  return (float *)(void *)((uint8_t *)codes + f->kv->n_slots * f->model->hparams.n_kv_heads * dim);
}

static ga_status store_kv(ga_forward *f, int il) {
  ga_kv_store_desc d = store_desc(f, f->kv->dtype, f->turn, f->turn_local, f->q_norm);
  d.tokens = f->step->n_tokens;
  d.slots = f->kv->n_slots;
  ga_kv_store_io io = {.k = f->k, .v = f->v, .slot = f->step->slots, .k_cache = f->kv->k[il], .v_cache = f->kv->v[il]};
  io.k_scale = scales_of(f, io.k_cache, d.head_dim);
  io.v_scale = scales_of(f, io.v_cache, d.v_dim);
  if (f->turn) {
    io.q = f->q;
    io.positions = f->step->positions;
    io.inv_freq = f->turn_local ? f->place->rope_freq_local : f->place->rope_freq;
  }
  io.q_norm = f->q_norm;
  io.k_norm = f->k_norm;
  f->turn = false;
  f->q_norm = f->k_norm = NULL;
  return ga_kv_store(f->ctx, &d, &io, NULL);
}

int64_t fwd_rounded(int64_t n) { return (int64_t)ga_round_up((size_t)n, 1024); }

static ga_attn_desc cached_attention(const ga_hparams *p, int32_t seqs, int32_t max_q, int64_t max_kv, ga_dtype kv,
                                     int32_t window) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = seqs;
  d.max_q = max_q;
  d.max_kv = fwd_rounded(max_kv);
  d.q_heads = p->n_heads;
  d.kv_heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.kv_dtype = (int32_t)kv;
  d.kv_scale_tokens = kv == GA_E4M3 ? 1 : 0;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_KV_READY; /* only store_kv is still under way */
  d.window = window;
  d.page_size = GA_KV_PAGE;
  d.scale = p->attn_scale;
  return d;
}

ga_status fwd_attention(ga_forward *f, int il, int32_t window) {
  const ga_hparams *p = &f->model->hparams;
  GA_TRY(store_kv(f, il));
  const ga_attn_desc d = cached_attention(p, f->step->n_seqs, f->step->max_q, f->step->max_kv, f->kv->dtype, window);
  ga_attn_io io = {.q = f->q,
                   .k = f->kv->k[il],
                   .v = f->kv->v[il],
                   .o = f->o,
                   .q_start = f->step->q_start,
                   .kv_len = f->step->kv_len,
                   .page_table = f->step->page_table,
                   .q_tokens = f->step->n_tokens,
                   .page_table_stride = f->step->page_stride};
  io.q_stride = (ga_attn_strides){.token = f->q_stride, .head = p->head_dim};
  io.k_scale = io.v_scale = (ga_attn_scale){.batch = GA_KV_PAGE, .head = f->kv->n_slots, .block = 1};
  io.k_scale.data = scales_of(f, f->kv->k[il], p->head_dim);
  io.v_scale.data = scales_of(f, f->kv->v[il], p->v_dim);
  return ga_attn(f->ctx, &d, &io, NULL);
}

ga_status fwd_attention_bidirectional(ga_forward *f) {
  const ga_hparams *p = &f->model->hparams;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = f->step->n_seqs;
  d.max_q = f->step->max_q;
  d.max_kv = f->step->max_q;
  d.q_heads = p->n_heads;
  d.kv_heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.flags = GA_ATTN_VARLEN;
  d.scale = p->attn_scale;
  ga_attn_io io = {
      .q = f->q, .k = f->k, .v = f->v, .o = f->o, .q_start = f->step->q_start, .kv_start = f->step->q_start};
  return ga_attn(f->ctx, &d, &io, NULL);
}

ga_status fwd_take_over(ga_forward *f, const ga_forward *before) {
  const size_t bytes = (size_t)f->step->n_tokens * (size_t)f->model->hparams.width * sizeof(float);
  return ga_copy_between(f->ctx, f->stream, before->ctx, before->stream, bytes);
}

/* --- planning --- */

/* What a plan for d on ctx asks for, if it is more than *bytes; nothing where no row takes it: running tells. */
static void raise_to(ga_status made, ga_plan *plan, uint64_t *bytes) {
  if (made == GA_OK && ga_plan_workspace_bytes(plan) > *bytes) *bytes = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
}

static ga_status product_workspace(const ga_model *model, ga_ctx *ctx, const ga_model_tensor *t, int32_t batch,
                                   uint64_t *bytes) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  uint64_t packed;
  ga_layout layout;
  ga_plan *plan;
  if (t->view.n_dims != 2 || !t->view.dim[0] || !t->view.dim[1]) return GA_OK;
  d.n = t->view.dim[0];
  d.k = t->view.dim[1];
  const ga_dtype stored = ga_stored_dtype(model, ctx, t);
  GA_TRY(ga_pack_choose(ctx, stored, d.n, d.k, &layout, &packed));
  d.w_dtype = (int32_t)stored;
  d.w_layout = (int32_t)layout;
  for (d.m = 1; d.m <= batch; d.m = d.m < batch ? batch : batch + 1) {
    if (d.m > 1 && d.n == model->hparams.vocab) break; /* logits of few rows */
    const ga_status status = ga_gemm_plan(ctx, &d, &plan);
    GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
    raise_to(status, plan, bytes);
  }
  return GA_OK;
}

/* Layers are like the first one or, where a file mixes types, the last. */
static bool is_sampled(const ga_hparams *p, const char *name) {
  int il;
  return sscanf(name, "blk.%d.", &il) != 1 || il == 0 || il == p->n_layers / 2 || il == p->n_layers - 1;
}

ga_status fwd_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes, uint64_t *bytes) {
  const ga_hparams *p = &model->hparams;
  const int32_t batches[2] = {1, sizes->batch};
  *bytes = 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(model->file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(model->file, i);
    if (is_sampled(p, t->name)) GA_TRY(product_workspace(model, ctx, t, sizes->batch, bytes));
  }
  for (int i = 0; i < 2 && p->arch != GA_MODEL_bert; i++) {
    const ga_attn_desc d = cached_attention(p, 1, batches[i], sizes->context, sizes->kv_dtype, 0);
    ga_plan *plan;
    const ga_status status = ga_attn_plan(ctx, &d, &plan);
    GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
    raise_to(status, plan, bytes);
  }
  return GA_OK;
}

ga_status fwd_logits(ga_forward *f) {
  const ga_model *m = f->model;
  const int64_t width = m->hparams.width;
  if (!f->step->n_out || !fwd_ends(f)) return GA_OK;
  GA_REQUIRE(f->step->n_out <= f->max_out, GA_ERR_INTERNAL, "%d rows of logits, room for %d", f->step->n_out,
             f->max_out);
  const float *x = f->x + f->step->out_begin * width;
  if (m->hparams.arch != GA_MODEL_gpt2) return fwd_head(f, f->step->n_out, x);
  GA_TRY(fwd_norm_rows(f, f->step->n_out, x, m->output_norm, m->output_norm_b, f->h));
  return fwd_linear_rows(f, f->step->n_out, f->h, &m->output, f->logits);
}
