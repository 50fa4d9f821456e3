#include "model/exec.h"

#include "base/mem.h"
#include "base/status.h"

/* --- buffers and programs --- */

/* Rows that a buffer has: one more of the stream, for sums of one token. */
static int64_t rows_in(const ga_exec *e, ga_buffer_name buffer) {
  if (buffer == BUF_LOGITS) return e->max_out;
  return buffer == BUF_X_SPARE ? 1 : e->max_tokens;
}

static ga_status alloc_all(ga_exec *e) {
  const ga_model_graph *graph = e->model->graph;
  for (int i = 0; i < BUF_COUNT; i++) {
    const int64_t n = rows_in(e, (ga_buffer_name)i) * graph->cols[i];
    void *p;
    if (!n) continue;
    GA_TRY(ga_buffer_alloc_for(e->ctx, (size_t)n * sizeof(float), "activations", &p));
    e->buffer[i] = p;
  }
  return GA_OK;
}

uint64_t exec_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out) {
  const ga_exec sizes = {.max_tokens = max_tokens, .max_out = max_out};
  uint64_t n = 0;
  for (int i = 0; i < BUF_COUNT; i++) n += (uint64_t)(rows_in(&sizes, (ga_buffer_name)i) * model->graph->cols[i]);
  return n * sizeof(float);
}

ga_status exec_create(const ga_model *model, const ga_placement *placement, const ga_kv_cache *kv, int32_t max_tokens,
                      int32_t max_out, int32_t context, ga_exec *out) {
  *out = (ga_exec){.model = model, .placement = placement, .ctx = placement->ctx, .kv = kv, .max_tokens = max_tokens};
  if (place_ends(model, placement)) out->max_out = max_out;
  out->is_long = model->short_context && context > model->short_context;
  const ga_status status = alloc_all(out);
  if (status != GA_OK) exec_destroy(out);
  return status;
}

void exec_destroy(ga_exec *e) {
  if (!e->ctx) return;
  for (int i = 0; i < BUF_COUNT; i++) ga_buffer_free(e->ctx, e->buffer[i]);
  ga_buffer_free(e->ctx, e->gathered);
  for (int t = 0; t <= FUSED_FEW; t++)
    for (int o = 0; o <= FUSED_FEW; o++) fused_destroy(e->programs[t][o]);
  *e = (ga_exec){0};
}

/* Made when first asked for, of classes of a step's tokens and of the rows whose logits are wanted. */
static ga_status program_for(ga_exec *e, int32_t tokens, int32_t rows, const fused_program **out) {
  fused_program **slot = &e->programs[tokens][rows];
  const fuse_target target = {.model = e->model,
                              .placement = e->placement,
                              .kv = e->kv ? &e->kv->dtype : NULL,
                              .tokens = tokens,
                              .out = rows,
                              .is_invariant = e->is_invariant,
                              .rounds_x = e->rounds_x};
  if (!*slot) GA_TRY(fuse(&target, slot));
  *out = *slot;
  return GA_OK;
}

/* No rows of logits wanted: as with one, of which the head is left out. */
static ga_status program_of(ga_exec *e, const fused_program **out) {
  const int32_t wanted = e->step->n_out;
  if (e->is_invariant) return program_for(e, 0, 0, out);
  return program_for(e, fused_class(e->step->n_tokens), fused_class(wanted + !wanted), out);
}

ga_status exec_check_invariant(ga_exec *e) {
  const fused_program *program;
  GA_TRY(program_for(e, 0, 0, &program));
  for (int32_t i = 0; i < program->n_ops; i++) {
    const fused_op *op = &program->ops[i];
    ga_plan *plan;
    if (op->kind != FUSED_PRODUCT) continue;
    const ga_gemm_fused_desc d = fused_gemm_desc(e->model, op, 1);
    GA_TRY(ga_gemm_fused_plan(e->ctx, &d, &plan));
    ga_plan_destroy(plan);
  }
  return GA_OK;
}

ga_status exec_check_rounds_x(ga_exec *e) {
  const fused_program *program;
  int32_t found = 0;
  GA_TRY(program_for(e, 0, 0, &program));
  for (int32_t i = 0; i < program->n_ops; i++) {
    const fused_op *op = &program->ops[i];
    ga_plan *plan;
    if (!fused_rounds_x(e->model, op)) continue;
    const ga_gemm_fused_desc d = fused_gemm_desc(e->model, op, FUSED_FEW + 1);
    GA_TRY(ga_gemm_fused_plan(e->ctx, &d, &plan));
    ga_plan_destroy(plan);
    found++;
  }
  GA_REQUIRE(found, GA_ERR_UNSUPPORTED,
             "activations of e4m3 need weights of e4m3 with scales, as FP8 checkpoints have them; on %s this model has "
             "none",
             e->placement->plan.device);
  return GA_OK;
}

/* --- what launches read and write --- */

static float *rows_at(const ga_exec *e, const fused_rows *r) {
  if (!r->is_set) return NULL;
  if (r->from_out && e->step->out_rows) return e->gathered;
  return e->buffer[r->buffer] + r->offset + (r->from_out ? e->step->out_begin * r->stride : 0);
}

static int64_t rows_of_op(const ga_exec *e, const fused_op *op) {
  return op->rows == ROWS_TOKENS ? e->step->n_tokens : e->step->n_out;
}

static const ga_weight *matrix_of(const ga_exec *e, const fused_op *op, int i) {
  return ga_weight_at(e->model, (weight_ref){op->matrix[i].weight, op->layer});
}

static const float *vector_of(const ga_exec *e, weight_id id, int32_t layer) {
  return id == W_NONE ? NULL : ga_weight_at(e->model, (weight_ref){id, layer})->data;
}

static const float *rope_freq(const ga_exec *e, bool local) {
  return e->placement->rope_freq[local ? ROPE_LOCAL : e->is_long ? ROPE_LONG : ROPE_GLOBAL];
}

/* Behind `codes` of heads of `dim` elements; NULL where the cache has no scales. */
static float *scales_of_cache(const ga_exec *e, kv_kind kind, void *codes, int32_t dim) {
  if (e->kv->dtype != GA_E4M3) return NULL;
  return (float *)(void *)((uint8_t *)codes + e->kv->n_slots[kind] * e->model->hparams.n_kv_heads * dim);
}

/* --- launches --- */

static ga_status run_embed(const ga_exec *e, const fused_op *op) {
  const ga_weight *table = matrix_of(e, op, 0);
  const int32_t *const ids[] = {e->step->ids, e->step->positions, e->step->types};
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = rows_of_op(e, op);
  d.vocab = ga_weight_rows(table);
  d.width = ga_weight_cols(table);
  d.w_dtype = (int32_t)table->dtype;
  d.scale = op->scale;
  return ga_embed(e->ctx, &d, &(ga_embed_io){.ids = ids[op->ids], .table = table->data, .y = rows_at(e, &op->y)}, NULL);
}

static ga_status run_add(const ga_exec *e, const fused_op *op) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = rows_of_op(e, op);
  d.width = op->x.cols;
  d.scale = op->scale;
  return ga_add(e->ctx, &d,
                &(ga_add_io){.x = rows_at(e, &op->x), .b = rows_at(e, &op->residual), .y = rows_at(e, &op->y)}, NULL);
}

/* A launch for each head: rows of ga_norm share their weights. */
static ga_status run_norm_by_head(const ga_exec *e, const fused_op *op) {
  ga_norm_desc d = GA_NORM_DESC_INIT;
  d.kind = op->norm_kind;
  d.rows = rows_of_op(e, op);
  d.width = op->x.cols / op->heads;
  d.x_stride = op->x.stride;
  d.y_stride = op->y.stride;
  d.eps = op->eps;
  for (int32_t h = 0; h < op->heads; h++) {
    const ga_norm_io io = {.x = rows_at(e, &op->x) + h * d.width,
                           .y = rows_at(e, &op->y) + h * d.width,
                           .weight = vector_of(e, op->norm, op->layer) + h * d.width};
    GA_TRY(ga_norm(e->ctx, &d, &io, NULL));
  }
  return GA_OK;
}

static ga_status run_norm(const ga_exec *e, const fused_op *op) {
  ga_norm_desc d = GA_NORM_DESC_INIT;
  GA_REQUIRE(op->heads == 1 || op->x.stride == op->x.cols, GA_ERR_INTERNAL, "head norm: heads must be contiguous");
  d.kind = op->norm_kind;
  d.rows = rows_of_op(e, op) * op->heads;
  d.width = op->x.cols / op->heads;
  d.eps = op->eps;
  const ga_norm_io io = {.x = rows_at(e, &op->x),
                         .y = rows_at(e, &op->y),
                         .weight = vector_of(e, op->norm, op->layer),
                         .bias = vector_of(e, op->norm_b, op->layer),
                         .residual = rows_at(e, &op->residual)};
  return ga_norm(e->ctx, &d, &io, NULL);
}

static ga_status watch_product(const ga_exec *e, const fused_op *op) {
  GA_REQUIRE(op->norm == W_NONE && op->add_norm == W_NONE, GA_ERR_INTERNAL, "a product that is watched norms x");
  for (int i = 0; i < op->n_matrices; i++)
    GA_TRY(e->watch(e->watch_user, e->ctx, op->matrix[i].weight, op->layer, rows_at(e, &op->x), rows_of_op(e, op),
                    op->x.cols, op->x.stride));
  return GA_OK;
}

static ga_status run_product(const ga_exec *e, const fused_op *op) {
  if (e->watch) GA_TRY(watch_product(e, op));
  const ga_gemm_fused_desc d = fused_gemm_desc(e->model, op, rows_of_op(e, op));
  ga_gemm_fused_io io = {.plain = {.x = rows_at(e, &op->x),
                                   .w = matrix_of(e, op, 0)->data,
                                   .y = rows_at(e, &op->matrix[0].y),
                                   .bias = vector_of(e, op->matrix[0].bias, op->layer),
                                   .gate = rows_at(e, &op->gate)},
                         .norm = vector_of(e, op->norm, op->layer),
                         .add_norm = vector_of(e, op->add_norm, op->add_layer),
                         .sum = rows_at(e, &op->sum)};
  if (op->add_norm != W_NONE)
    io.add = rows_at(e, &op->residual);
  else
    io.plain.residual = rows_at(e, &op->residual);
  for (int i = 1; i < op->n_matrices; i++) {
    io.w_more[i - 1] = matrix_of(e, op, i)->data;
    if (op->is_gated) continue;
    io.y_more[i - 1] = rows_at(e, &op->matrix[i].y);
    io.bias_more[i - 1] = vector_of(e, op->matrix[i].bias, op->layer);
  }
  return ga_gemm_fused(e->ctx, &d, &io, NULL);
}

static ga_status run_act(const ga_exec *e, const fused_op *op) {
  ga_act_desc d = GA_ACT_DESC_INIT;
  d.rows = rows_of_op(e, op);
  d.width = op->x.cols;
  d.act = op->act;
  d.x_stride = op->x.stride;
  d.y_stride = op->y.stride;
  ga_act_io io = {.x = rows_at(e, &op->x), .y = rows_at(e, &op->y)};
  if (op->gate.is_set) {
    io.g = io.x;
    io.x = rows_at(e, &op->gate);
    d.g_stride = d.x_stride;
    d.x_stride = op->gate.stride;
  }
  return ga_act(e->ctx, &d, &io, NULL);
}

static ga_status run_rope(const ga_exec *e, const fused_op *op) {
  const ga_hparams *p = &e->model->hparams;
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  d.tokens = rows_of_op(e, op);
  d.x_stride = op->x.stride;
  d.heads = op->heads;
  d.head_dim = p->head_dim;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.magnitude = e->model->rope_magnitude[op->local ? ROPE_LOCAL : ROPE_GLOBAL];
  const ga_rope_io io = {.x = rows_at(e, &op->x), .positions = e->step->positions, .inv_freq = rope_freq(e, op->local)};
  return ga_rope(e->ctx, &d, &io, NULL);
}

static ga_status run_kv_store(const ga_exec *e, const fused_op *op) {
  const ga_kv_cache *kv = e->kv;
  const kv_kind kind = kv_kind_of_layer(&e->model->hparams, op->layer);
  const ga_kv_store_fused_desc d = fused_store_desc(e->model, op, kv->dtype, e->step->n_tokens, kv->n_slots[kind]);
  ga_kv_store_fused_io io = {.plain = {.k = rows_at(e, &op->k),
                                       .v = rows_at(e, &op->v),
                                       .slot = e->step->pages[kind].slots,
                                       .k_cache = kv->k[op->layer],
                                       .v_cache = kv->v[op->layer]},
                             .q_norm = vector_of(e, op->q_norm, op->layer),
                             .k_norm = vector_of(e, op->k_norm, op->layer)};
  io.plain.k_scale = scales_of_cache(e, kind, io.plain.k_cache, d.plain.head_dim);
  io.plain.v_scale = scales_of_cache(e, kind, io.plain.v_cache, d.plain.v_dim);
  if (op->rotates) {
    io.q = rows_at(e, &op->x);
    io.positions = e->step->positions;
    io.inv_freq = rope_freq(e, op->local);
  }
  return ga_kv_store_fused(e->ctx, &d, &io, NULL);
}

static ga_status run_attention_bidirectional(const ga_exec *e, const fused_op *op) {
  const ga_hparams *p = &e->model->hparams;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = e->step->n_seqs;
  d.max_q = e->step->max_q;
  d.max_kv = e->step->max_q;
  d.q_heads = p->n_heads;
  d.kv_heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.flags = GA_ATTN_VARLEN | (op->alibi ? GA_ATTN_ALIBI : 0) | (op->alibi || op->window ? GA_ATTN_SYMMETRIC : 0);
  d.window = op->window;
  d.scale = op->scale;
  ga_attn_io io = {.q = rows_at(e, &op->x),
                   .k = rows_at(e, &op->k),
                   .v = rows_at(e, &op->v),
                   .o = rows_at(e, &op->y),
                   .q_start = e->step->q_start,
                   .kv_start = e->step->q_start,
                   .alibi = e->placement->alibi,
                   .q_stride = {.token = op->x.stride, .head = p->head_dim},
                   .k_stride = {.token = op->k.stride, .head = p->head_dim},
                   .v_stride = {.token = op->v.stride, .head = p->v_dim}};
  return ga_attn(e->ctx, &d, &io, NULL);
}

int64_t exec_rounded(int64_t n) { return (int64_t)ga_round_up((size_t)n, 1024); }

ga_attn_desc exec_attn_desc(const ga_hparams *p, int32_t seqs, int32_t max_q, int64_t max_kv, ga_dtype kv) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = seqs;
  d.max_q = max_q;
  d.max_kv = exec_rounded(max_kv);
  d.q_heads = p->n_heads;
  d.kv_heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.kv_dtype = (int32_t)kv;
  d.kv_scale_tokens = kv == GA_E4M3 ? 1 : 0;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_KV_READY; /* only the store is still under way */
  d.page_size = GA_KV_PAGE;
  d.scale = p->attn_scale;
  d.softcap = p->attn_softcap;
  return d;
}

/* Some sequences of a step. */
typedef struct attn_part {
  int32_t first, n, max_q, token, n_tokens;
  const int32_t *q_start; /* [n + 1], from 0 */
} attn_part;

/* n sequences from `first` on, of at most max_q new tokens each: the step's tokens [token, token + n_tokens). Rows may
 * read and write all of those, so that no others may be among them. */
static ga_status run_attention_of(const ga_exec *e, const fused_op *op, const attn_part *part) {
  const int32_t first = part->first, n = part->n, max_q = part->max_q;
  const ga_hparams *p = &e->model->hparams;
  const ga_step *step = e->step;
  const kv_kind kind = kv_kind_of_layer(p, op->layer);
  ga_attn_desc d = exec_attn_desc(p, n, max_q, step->max_kv, e->kv->dtype);
  d.window = op->window;
  d.scale = op->scale;
  if (op->is_invariant) d.flags |= GA_ATTN_INVARIANT;
  ga_attn_io io = {.q = rows_at(e, &op->x) + part->token * op->x.stride,
                   .k = e->kv->k[op->layer],
                   .v = e->kv->v[op->layer],
                   .o = rows_at(e, &op->y) + part->token * op->y.stride,
                   .q_start = part->q_start,
                   .kv_len = step->kv_len + first,
                   .page_table = step->pages[kind].page_table + first * step->page_stride,
                   .q_tokens = part->n_tokens,
                   .page_table_stride = step->page_stride};
  io.q_stride = (ga_attn_strides){.token = op->x.stride, .head = p->head_dim};
  io.k_scale = io.v_scale = (ga_attn_scale){.batch = GA_KV_PAGE, .head = e->kv->n_slots[kind], .block = 1};
  io.k_scale.data = scales_of_cache(e, kind, e->kv->k[op->layer], p->head_dim);
  io.v_scale.data = scales_of_cache(e, kind, e->kv->v[op->layer], p->v_dim);
  return ga_attn(e->ctx, &d, &io, NULL);
}

/* Rows for one query a sequence are others than those for many: sequences that generate have a launch of their own. */
static ga_status run_attention(const ga_exec *e, const fused_op *op) {
  const ga_step *step = e->step;
  if (op->k.is_set) return run_attention_bidirectional(e, op);
  const attn_part decodes = {.n = step->n_decode, .max_q = 1, .n_tokens = step->n_decode, .q_start = step->q_start};
  const attn_part prompts = {.first = step->n_decode,
                             .n = step->n_seqs - step->n_decode,
                             .max_q = step->max_q,
                             .token = step->n_decode,
                             .n_tokens = step->n_tokens - step->n_decode,
                             .q_start = step->q_start_prompts};
  if (decodes.n) GA_TRY(run_attention_of(e, op, &decodes));
  return prompts.n ? run_attention_of(e, op, &prompts) : GA_OK;
}

/* --- steps --- */

static ga_status run_op(const ga_exec *e, const fused_op *op) {
  switch (op->kind) {
  case FUSED_EMBED: return run_embed(e, op);
  case FUSED_ADD: return run_add(e, op);
  case FUSED_NORM: return op->by_head ? run_norm_by_head(e, op) : run_norm(e, op);
  case FUSED_PRODUCT: return run_product(e, op);
  case FUSED_ACT: return run_act(e, op);
  case FUSED_ROPE: return run_rope(e, op);
  case FUSED_KV_STORE: return run_kv_store(e, op);
  case FUSED_ATTENTION: return run_attention(e, op);
  }
  return ga_fail(GA_ERR_INTERNAL, "no launch of kind %d", (int)op->kind);
}

static ga_status run_ops(const ga_exec *e, const fused_program *program, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++) GA_TRY(run_op(e, &program->ops[i]));
  return GA_OK;
}

/* Rows of X, here and there, one behind the other: a look-up in X as in a table. */
static ga_status gather_out_rows(ga_exec *e, const fused_program *program) {
  const fused_op *first = &program->ops[program->n_body];
  const int64_t width = e->model->hparams.width;
  void *p;
  GA_REQUIRE(first->x.from_out && first->x.cols == width && first->x.stride == width && !first->x.offset,
             GA_ERR_INTERNAL, "the head does not begin with whole rows of the residual stream");
  if (!e->gathered)
    GA_TRY(ga_buffer_alloc_for(e->ctx, (size_t)(e->max_out * width) * sizeof(float), "activations", &p));
  if (!e->gathered) e->gathered = p;
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = e->step->n_out;
  d.vocab = e->max_tokens;
  d.width = width;
  d.w_dtype = GA_F32;
  return ga_embed(e->ctx, &d,
                  &(ga_embed_io){.ids = e->step->out_rows, .table = e->buffer[first->x.buffer], .y = e->gathered},
                  NULL);
}

static ga_status run_head(ga_exec *e, const fused_program *program) {
  if (!e->step->n_out || program->n_body == program->n_ops) return GA_OK;
  GA_REQUIRE(e->step->n_out <= e->max_out, GA_ERR_INTERNAL, "%d rows of logits, room for %d", e->step->n_out,
             e->max_out);
  if (e->step->out_rows) GA_TRY(gather_out_rows(e, program));
  return run_ops(e, program, program->n_body, program->n_ops);
}

ga_status exec_run(ga_exec *e) {
  const fused_program *program;
  GA_TRY(program_of(e, &program));
  GA_TRY(run_ops(e, program, 0, program->n_body));
  return run_head(e, program);
}

ga_status exec_head(ga_exec *e) {
  const fused_program *program;
  GA_TRY(program_of(e, &program));
  return run_head(e, program);
}

ga_status exec_take_over(ga_exec *e, const ga_exec *before) {
  const size_t bytes = (size_t)e->step->n_tokens * (size_t)e->model->hparams.width * sizeof(float);
  return ga_copy_between(e->ctx, e->buffer[BUF_X], before->ctx, before->buffer[BUF_X], bytes);
}
