#include "model/latent.h"

#include "base/status.h"
#include "core/device.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "ga/mla.h"

/* --- products by heads: each head of X has a matrix of its own --- */

/* The product of one head by its matrix of the stack w [heads, n, k]. */
static ga_gemm_desc head_product(const op_shape *s, const ga_weight *w) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = s->n_tokens;
  d.n = ga_weight_rows(w);
  d.k = ga_weight_cols(w);
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  if (s->is_invariant) d.flags |= GA_GEMM_INVARIANT;
  return d;
}

/* The products of all heads, whose matrices are experts in turn. Heads of X have x_head elements, those of Y y_head. */
static ga_expert_gemm_desc heads_product(const op_shape *s, const ga_weight *w, int64_t x_head, int64_t y_head) {
  ga_expert_gemm_desc d = GA_EXPERT_GEMM_DESC_INIT;
  d.tokens = (int64_t)s->n_tokens * s->hparams->n_heads;
  d.n_experts = s->hparams->n_heads;
  d.top_k = 1;
  d.form = GA_EXPERT_IN;
  d.flags = GA_EXPERT_IN_TURN;
  d.n = ga_weight_rows(w);
  d.k = ga_weight_cols(w);
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  d.x_stride = x_head;
  d.y_stride = y_head;
  return d;
}

/* Returns whether one call multiplies all heads. A CPU has no launches to save, and products by experts are not
 * batch-invariant. */
static bool takes_heads_together(const ga_ctx *ctx, const op_shape *s) {
  return !ga_device_works_in_calls(ctx->device) && !s->is_invariant && s->hparams->n_heads <= 1024;
}

/* Returns whether heads of all tokens are evenly spaced. */
static bool is_even(int64_t tokens, int64_t stride, int64_t heads, int64_t head) {
  return tokens == 1 || stride == heads * head;
}

/* Bytes of one head's matrix. Packed stacks have whole groups of packed rows for each head. */
static ga_status matrix_bytes_of_head(ga_ctx *ctx, const ga_weight *w, uint64_t *bytes) {
  ga_pack_desc d = GA_PACK_DESC_INIT;
  if (w->layout == GA_LAYOUT_NATIVE) return ga_dtype_bytes(w->dtype, ga_weight_rows(w) * ga_weight_cols(w), bytes);
  d.n = ga_weight_rows(w);
  d.k = ga_weight_cols(w);
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  return ga_pack_bytes(ctx, &d, bytes);
}

static ga_status plan_heads(ga_ctx *ctx, const op_shape *s, uint64_t *workspace) {
  const ga_gemm_desc one = head_product(s, s->w[0]);
  const ga_expert_gemm_desc all = heads_product(s, s->w[0], ga_weight_cols(s->w[0]), ga_weight_rows(s->w[0]));
  ga_plan *plan;
  GA_TRY(ga_gemm_plan(ctx, &one, &plan));
  *workspace = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  if (!takes_heads_together(ctx, s)) return GA_OK;
  GA_TRY(ga_expert_gemm_plan(ctx, &all, &plan));
  if (ga_plan_workspace_bytes(plan) > *workspace) *workspace = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  return GA_OK;
}

static ga_status multiply_each_head(const op_call *c, int64_t x_head, int64_t y_head) {
  const ga_weight *w = c->w[0];
  ga_gemm_desc d = head_product(&c->shape, w);
  uint64_t bytes;
  d.x_stride = c->x_stride[0];
  d.y_stride = c->y_stride;
  GA_TRY(matrix_bytes_of_head(c->ctx, w, &bytes));
  for (int32_t h = 0; h < c->shape.hparams->n_heads; h++) {
    const ga_gemm_io io = {
        .x = c->x[0] + h * x_head, .w = (const uint8_t *)w->data + (uint64_t)h * bytes, .y = c->y + h * y_head};
    GA_TRY(ga_gemm(c->ctx, &d, &io, NULL));
  }
  return GA_OK;
}

/* Multiplies the first elements of each head of x, whose heads have x_head elements, by the head's matrix. Results are
 * the first elements of the heads of y. */
static ga_status multiply_heads(const op_call *c, int64_t x_head, int64_t y_head) {
  const int64_t tokens = c->shape.n_tokens, heads = c->shape.hparams->n_heads;
  if (!takes_heads_together(c->ctx, &c->shape) || !is_even(tokens, c->x_stride[0], heads, x_head) ||
      !is_even(tokens, c->y_stride, heads, y_head))
    return multiply_each_head(c, x_head, y_head);
  const ga_expert_gemm_desc d = heads_product(&c->shape, c->w[0], x_head, y_head);
  const ga_expert_gemm_io io = {.x = c->x[0], .w = c->w[0]->data, .y = c->y};
  return ga_expert_gemm(c->ctx, &d, &io, NULL);
}

/* --- queries --- */

/* Copies the last rot_dim elements of each head of x to the end of each head of y, of all heads at once where they are
 * evenly spaced. */
static ga_status copy_rotated(const op_call *c, int64_t x_head, int64_t y_head) {
  const ga_hparams *p = &c->shape.hparams[0];
  const int64_t tokens = c->shape.n_tokens;
  const bool even =
      is_even(tokens, c->x_stride[0], p->n_heads, x_head) && is_even(tokens, c->y_stride, p->n_heads, y_head);
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = even ? tokens * p->n_heads : tokens;
  d.width = p->rot_dim;
  d.x_stride = even ? x_head : c->x_stride[0];
  d.y_stride = even ? y_head : c->y_stride;
  for (int32_t h = 0; h < (even ? 1 : p->n_heads); h++) {
    const ga_add_io io = {.x = c->x[0] + (h + 1) * x_head - p->rot_dim, .y = c->y + (h + 1) * y_head - p->rot_dim};
    GA_TRY(ga_add(c->ctx, &d, &io, NULL));
  }
  return GA_OK;
}

/* Rotates the last rot_dim elements of each head of y: the first ones of heads that begin there. */
static ga_status rotate_query(const op_call *c, int64_t y_head) {
  const ga_hparams *p = c->shape.hparams;
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  d.tokens = c->shape.n_tokens;
  d.x_stride = c->y_stride;
  d.heads = p->n_heads;
  d.head_dim = (int32_t)y_head;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.magnitude = c->rope_magnitude;
  const ga_rope_io io = {.x = c->y + y_head - p->rot_dim, .positions = c->positions, .inv_freq = c->rope_freq};
  return ga_rope(c->ctx, &d, &io, NULL);
}

static ga_status run_query(const op_call *c) {
  const ga_hparams *p = c->shape.hparams;
  const int64_t x_head = p->head_dim, y_head = p->kv_latent + p->rot_dim;
  GA_TRY(multiply_heads(c, x_head, y_head));
  GA_TRY(copy_rotated(c, x_head, y_head));
  return rotate_query(c, y_head);
}

const graph_op latent_query = {
    .name = "latent_query", .n_inputs = 1, .n_weights = 1, .plan = plan_heads, .run = run_query};

/* --- attention --- */

static ga_mla_store_desc store_desc(const op_shape *s) {
  const ga_hparams *p = s->hparams;
  ga_mla_store_desc d = GA_MLA_STORE_DESC_INIT;
  d.tokens = s->n_tokens;
  d.v_dim = p->kv_latent;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.kv_dtype = (int32_t)s->kv_dtype;
  d.norm_eps = p->latent_eps;
  return d;
}

static ga_mla_desc attention_desc(const op_shape *s, int32_t seqs, int32_t max_q) {
  const ga_hparams *p = s->hparams;
  ga_mla_desc d = GA_MLA_DESC_INIT;
  d.batch = seqs;
  d.max_q = max_q;
  d.max_kv = s->max_kv;
  d.q_heads = p->n_heads;
  d.head_dim = p->kv_latent + p->rot_dim;
  d.v_dim = p->kv_latent;
  d.kv_dtype = (int32_t)s->kv_dtype;
  d.page_size = GA_KV_PAGE;
  d.scale = p->attn_scale;
  if (s->is_invariant) d.flags |= GA_MLA_INVARIANT;
  return d;
}

static ga_status plan_attention(ga_ctx *ctx, const op_shape *s, uint64_t *workspace) {
  const ga_mla_store_desc store = store_desc(s);
  const ga_mla_desc attention = attention_desc(s, s->n_seqs, s->max_q);
  ga_plan *plan;
  GA_TRY(ga_mla_store_plan(ctx, &store, &plan));
  *workspace = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  GA_TRY(ga_mla_plan(ctx, &attention, &plan));
  if (ga_plan_workspace_bytes(plan) > *workspace) *workspace = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  return GA_OK;
}

static ga_status append_latent(const op_call *c) {
  ga_mla_store_desc d = store_desc(&c->shape);
  d.slots = c->memory.n_units * GA_KV_PAGE;
  d.x_stride = c->x_stride[1];
  d.magnitude = c->rope_magnitude;
  const ga_mla_store_io io = {.x = c->x[1],
                              .norm = c->w[0]->data,
                              .slot = c->memory.slots,
                              .positions = c->positions,
                              .inv_freq = c->rope_freq,
                              .cache = c->memory.tensors[0]};
  return ga_mla_store(c->ctx, &d, &io, NULL);
}

/* Attends for n sequences from `first` on, whose queries are the step's tokens from `token` on. q_start counts from
 * that token. */
static ga_status attend_latent(const op_call *c, int32_t first, int32_t n, int32_t max_q, int32_t token,
                               const int32_t *q_start) {
  ga_mla_desc d = attention_desc(&c->shape, n, max_q);
  d.q_stride = c->x_stride[0];
  d.o_stride = c->y_stride;
  const ga_mla_io io = {.q = c->x[0] + token * c->x_stride[0],
                        .cache = c->memory.tensors[0],
                        .o = c->y + token * c->y_stride,
                        .q_start = q_start,
                        .kv_len = c->kv_len + first,
                        .page_table = c->memory.units + first * c->memory.stride,
                        .page_table_stride = c->memory.stride,
                        .q_tokens = n == c->shape.n_decode && !first ? n : c->shape.n_tokens - token};
  return n ? ga_mla(c->ctx, &d, &io, NULL) : GA_OK;
}

/* Kernels for one query a sequence differ from those for many, so that sequences that generate have a call of their
 * own. */
static ga_status run_latent_attention(const op_call *c) {
  const op_shape *s = &c->shape;
  GA_TRY(append_latent(c));
  GA_TRY(attend_latent(c, 0, s->n_decode, 1, 0, c->q_start));
  return attend_latent(c, s->n_decode, s->n_seqs - s->n_decode, s->max_q, s->n_decode, c->q_start_prompts);
}

const graph_op latent_attention = {.name = "latent_attention",
                                   .n_inputs = 2,
                                   .n_weights = 1,
                                   .has_memory = true,
                                   .memory = MEMORY_PAGES,
                                   .plan = plan_attention,
                                   .run = run_latent_attention};

/* --- values --- */

static ga_status run_values(const op_call *c) {
  const ga_hparams *p = c->shape.hparams;
  return multiply_heads(c, p->kv_latent, p->v_dim);
}

const graph_op latent_values = {
    .name = "latent_values", .n_inputs = 1, .n_weights = 1, .plan = plan_heads, .run = run_values};
