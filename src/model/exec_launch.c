/* The launches of programs (program.h), each as a call of an op. */
#include "base/mem.h"
#include "base/status.h"
#include "ga/collective.h"
#include "model/exec_impl.h"
#include "model/graph_op.h"

static int64_t launch_rows(const ga_exec *e, const launch *l) {
  return graph_rows(e->model->graph, l->rows, e->step->n_tokens, e->step->n_out);
}

static const float *rope_freq(const ga_exec *e, bool is_local) {
  return e->placement->rope_freq[is_local ? ROPE_LOCAL : e->is_long ? ROPE_LONG : ROPE_GLOBAL];
}

/* The memory of a form that the layer reads, as the step's sequences have it. */
static op_memory memory_of(const ga_exec *e, int32_t layer, memory_form form) {
  layer = ga_kv_layer(&e->model->hparams, layer);
  const int32_t kind = e->kv->kinds.of_layer[layer][form];
  const ga_step_pages *units = &e->step->pages[kind];
  op_memory m = {.n_units = e->kv->n_units[kind],
                 .units = units->page_table,
                 .slots = units->slots,
                 .stride = form == MEMORY_PAGES ? e->step->page_stride : 1};
  for (int32_t t = 0; t < MEMORY_TENSORS_MAX; t++) m.tensors[t] = kv_cache_tensor(e->kv, layer, form, t);
  return m;
}

/* Scales follow the `codes` of heads of `dim` elements; NULL where the cache has none. */
static float *scales_of_cache(const ga_exec *e, int32_t layer, void *codes, int32_t dim) {
  const ga_hparams *p = &e->model->hparams;
  if (e->kv->dtype != GA_E4M3) return NULL;
  return (float *)(void *)((uint8_t *)codes +
                           kv_cache_slots(e->kv, ga_kv_layer(p, layer)) * ga_heads_of(p, layer).n_kv * dim);
}

static ga_status run_embed(const ga_exec *e, const launch *l) {
  const struct launch_embed *a = &l->as.embed;
  const ga_weight *table = ga_weight_at(e->model, a->node.table);
  const int32_t *const ids[] = {e->step->ids, e->step->positions, e->step->types};
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = launch_rows(e, l);
  d.vocab = ga_weight_rows(table);
  d.width = ga_weight_cols(table);
  d.w_dtype = (int32_t)table->dtype;
  d.scale = a->node.scale;
  return ga_embed(e->ctx, &d, &(ga_embed_io){.ids = ids[a->node.ids], .table = table->data, .y = exec_rows(e, a->y)},
                  NULL);
}

static ga_status add_values(const ga_exec *e, const launch_add *a, int64_t rows) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = rows;
  d.width = exec_cols(e, a->y);
  d.x_stride = exec_stride(e, a->x);
  d.b_stride = a->b == NO_VALUE ? 0 : exec_stride(e, a->b);
  d.y_stride = exec_stride(e, a->y);
  d.scale = a->scale;
  d.factor_stride = a->by_position ? 1 : a->factors == NO_VALUE ? 0 : exec_stride(e, a->factors);
  const ga_add_io io = {.x = exec_rows(e, a->x),
                        .b = exec_rows(e, a->b),
                        .y = exec_rows(e, a->y),
                        .factors = a->by_position ? e->step->q_factors : exec_rows(e, a->factors)};
  return ga_add(e->ctx, &d, &io, NULL);
}

static ga_status run_add(const ga_exec *e, const launch *l) { return add_values(e, &l->as.add, launch_rows(e, l)); }

/* Launches once for each head: rows of ga_norm share their weights. */
static ga_status run_norm_by_head(const ga_exec *e, const launch *l) {
  const node_norm *n = &l->as.norm.node;
  ga_norm_desc d = GA_NORM_DESC_INIT;
  d.kind = n->form;
  d.rows = launch_rows(e, l);
  d.width = exec_cols(e, n->x) / n->heads;
  d.x_stride = exec_stride(e, n->x);
  d.y_stride = exec_stride(e, l->as.norm.y);
  d.eps = n->eps;
  for (int32_t h = 0; h < n->heads; h++) {
    const ga_norm_io io = {.x = exec_rows(e, n->x) + h * d.width,
                           .y = exec_rows(e, l->as.norm.y) + h * d.width,
                           .weight = exec_vector(e, n->weight) + h * d.width};
    GA_TRY(ga_norm(e->ctx, &d, &io, NULL));
  }
  return GA_OK;
}

static ga_status run_norm(const ga_exec *e, const launch *l) {
  const node_norm *n = &l->as.norm.node;
  const int32_t heads = n->heads ? n->heads : 1;
  const value_id y = l->as.norm.y;
  ga_norm_desc d = GA_NORM_DESC_INIT;
  if (n->by_head) return run_norm_by_head(e, l);
  GA_REQUIRE(exec_stride(e, n->x) == exec_cols(e, n->x) && exec_stride(e, y) == exec_cols(e, y), GA_ERR_INTERNAL,
             "norm: rows must be contiguous");
  d.kind = n->form;
  d.rows = launch_rows(e, l) * heads;
  d.width = exec_cols(e, n->x) / heads;
  d.eps = n->eps;
  const ga_norm_io io = {.x = exec_rows(e, n->x),
                         .y = exec_rows(e, y),
                         .weight = exec_vector(e, n->weight),
                         .bias = exec_vector(e, n->bias),
                         .residual = exec_rows(e, l->as.norm.residual)};
  return ga_norm(e->ctx, &d, &io, NULL);
}

static ga_status watch_product(const ga_exec *e, const launch *l) {
  const launch_product *p = &l->as.product;
  GA_REQUIRE(p->norm.id == W_NONE && p->add_norm.id == W_NONE, GA_ERR_INTERNAL, "a product that is watched norms x");
  exec_watched w = exec_watched_input(e, l, p->x);
  w.rows = launch_rows(e, l);
  for (int i = 0; i < p->n_matrices; i++) {
    if (p->matrix[i].weight.part != PART_WEIGHT) continue;
    w.matrix = p->matrix[i].weight.id;
    GA_TRY(e->watch(e->watch_user, e->ctx, &w));
  }
  return GA_OK;
}

static ga_status run_product(const ga_exec *e, const launch *l) {
  const launch_product *p = &l->as.product;
  if (e->watch) GA_TRY(watch_product(e, l));
  const ga_gemm_fused_desc d = describe_product(e->model, e->running->program, p, launch_rows(e, l));
  ga_gemm_fused_io io = {.plain = {.x = exec_rows(e, p->x),
                                   .w = ga_weight_at(e->model, p->matrix[0].weight)->data,
                                   .y = exec_rows(e, p->matrix[0].y),
                                   .bias = exec_vector(e, p->matrix[0].bias),
                                   .gate = exec_rows(e, p->gate)},
                         .norm = exec_vector(e, p->norm),
                         .add_norm = exec_vector(e, p->add_norm),
                         .sum = exec_rows(e, p->sum)};
  if (p->add_norm.id != W_NONE)
    io.add = exec_rows(e, p->residual);
  else
    io.plain.residual = exec_rows(e, p->residual);
  for (int i = 1; i < p->n_matrices; i++) {
    io.w_more[i - 1] = ga_weight_at(e->model, p->matrix[i].weight)->data;
    if (p->is_gated) continue;
    io.y_more[i - 1] = exec_rows(e, p->matrix[i].y);
    io.bias_more[i - 1] = exec_vector(e, p->matrix[i].bias);
  }
  return ga_gemm_fused(e->ctx, &d, &io, NULL);
}

static ga_status run_act(const ga_exec *e, const launch *l) {
  const launch_act *a = &l->as.act;
  const bool is_gated = a->gate != NO_VALUE;
  ga_act_desc d = GA_ACT_DESC_INIT;
  d.rows = launch_rows(e, l);
  d.width = exec_cols(e, a->y);
  d.act = a->act;
  d.x_stride = exec_stride(e, is_gated ? a->gate : a->x);
  d.g_stride = is_gated ? exec_stride(e, a->x) : 0;
  d.y_stride = exec_stride(e, a->y);
  const ga_act_io io = {
      .x = exec_rows(e, is_gated ? a->gate : a->x), .g = is_gated ? exec_rows(e, a->x) : NULL, .y = exec_rows(e, a->y)};
  return ga_act(e->ctx, &d, &io, NULL);
}

/* Copies x to y where a launch that works in place has to leave x as it is. */
static ga_status copy_unless_same(const ga_exec *e, value_id x, value_id y, int64_t rows) {
  const launch_add copy = {.x = x, .b = NO_VALUE, .y = y, .factors = NO_VALUE, .scale = 1};
  return exec_rows(e, x) == exec_rows(e, y) ? GA_OK : add_values(e, &copy, rows);
}

static ga_status run_rope(const ga_exec *e, const launch *l) {
  const node_rope *n = &l->as.rope.node;
  const value_id y = l->as.rope.y;
  const ga_hparams *p = &e->model->hparams;
  const ga_heads heads = ga_heads_of(p, l->layer);
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  GA_TRY(copy_unless_same(e, n->x, y, launch_rows(e, l)));
  d.tokens = launch_rows(e, l);
  d.x_stride = exec_stride(e, y);
  d.heads = n->heads;
  d.head_dim = heads.dim;
  d.rot_dim = heads.rot_dim;
  d.pairs = p->rope_pairs;
  d.magnitude = e->model->rope_magnitude[n->is_local ? ROPE_LOCAL : ROPE_GLOBAL];
  const ga_rope_io io = {.x = exec_rows(e, y), .positions = e->step->positions, .inv_freq = rope_freq(e, n->is_local)};
  return ga_rope(e->ctx, &d, &io, NULL);
}

static ga_status run_store(const ga_exec *e, const launch *l) {
  const launch_store *s = &l->as.store;
  const ga_kv_cache *kv = e->kv;
  const int32_t layer = l->layer;
  const op_memory memory = memory_of(e, layer, MEMORY_PAGES);
  const ga_kv_store_fused_desc d =
      describe_store(e->model, e->running->program, s, layer, kv->dtype, e->step->n_tokens, kv_cache_slots(kv, layer));
  ga_kv_store_fused_io io = {.plain = {.k = exec_rows(e, s->k),
                                       .v = exec_rows(e, s->v),
                                       .slot = memory.slots,
                                       .k_cache = memory.tensors[MEMORY_KEYS],
                                       .v_cache = memory.tensors[MEMORY_VALUES]},
                             .q_norm = exec_vector(e, s->q_norm),
                             .k_norm = exec_vector(e, s->k_norm)};
  io.plain.k_scale = scales_of_cache(e, layer, io.plain.k_cache, d.plain.head_dim);
  io.plain.v_scale = scales_of_cache(e, layer, io.plain.v_cache, d.plain.v_dim);
  if (s->rotates) {
    GA_TRY(copy_unless_same(e, s->q, s->q_rotated, e->step->n_tokens));
    io.q = exec_rows(e, s->q_rotated);
    io.positions = e->step->positions;
    io.inv_freq = rope_freq(e, s->is_local);
  }
  return ga_kv_store_fused(e->ctx, &d, &io, NULL);
}

static ga_status run_attention_bidirectional(const ga_exec *e, const launch *l) {
  const node_attention *n = &l->as.attention.node;
  const ga_hparams *p = &e->model->hparams;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = e->step->n_seqs;
  d.max_q = e->step->max_q;
  d.max_kv = e->step->max_q;
  d.q_heads = p->n_heads;
  d.kv_heads = p->n_kv_heads;
  d.head_dim = p->head_dim;
  d.v_dim = p->v_dim;
  d.flags = GA_ATTN_VARLEN | GA_ATTN_KEEP_PADDING | (n->has_alibi ? GA_ATTN_ALIBI : 0) |
            (n->has_alibi || n->window ? GA_ATTN_SYMMETRIC : 0);
  d.window = n->window;
  d.scale = n->scale;
  ga_attn_io io = {.q = exec_rows(e, n->q),
                   .k = exec_rows(e, n->k),
                   .v = exec_rows(e, n->v),
                   .o = exec_rows(e, l->as.attention.y),
                   .q_start = e->step->q_start,
                   .kv_start = e->step->q_start,
                   .alibi = e->placement->alibi,
                   .q_stride = {.token = exec_stride(e, n->q), .head = p->head_dim},
                   .k_stride = {.token = exec_stride(e, n->k), .head = p->head_dim},
                   .v_stride = {.token = exec_stride(e, n->v), .head = p->v_dim}};
  return ga_attn(e->ctx, &d, &io, NULL);
}

int64_t exec_rounded(int64_t n) { return (int64_t)ga_round_up((size_t)n, 1024); }

ga_attn_desc exec_attn_desc(const ga_hparams *p, int32_t layer, int32_t seqs, int32_t max_q, int64_t max_kv,
                            ga_dtype kv) {
  const ga_heads heads = ga_heads_of(p, layer);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = seqs;
  d.max_q = max_q;
  d.max_kv = exec_rounded(max_kv);
  d.q_heads = p->n_heads;
  d.kv_heads = heads.n_kv;
  d.head_dim = heads.dim;
  d.v_dim = heads.v_dim;
  d.kv_dtype = (int32_t)kv;
  d.kv_scale_tokens = kv == GA_E4M3 ? 1 : 0;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_KV_READY |
            GA_ATTN_KEEP_PADDING; /* only the store is still under way */
  if (p->has_sinks) d.flags |= GA_ATTN_SINKS;
  d.page_size = GA_KV_PAGE;
  d.scale = p->attn_scale;
  d.softcap = p->attn_softcap;
  return d;
}

/* Sequences of a step, or its pieces cut at chunks. */
typedef struct attn_set {
  int32_t n, max_kv;
  const int32_t *q_start, *q_start_prompts, *kv_len, *units;
} attn_set;

/* The sequences that a layer's attention has. */
static attn_set attn_set_of(const ga_exec *e, int32_t layer) {
  const ga_hparams *p = &e->model->hparams;
  const ga_step *s = e->step;
  if (p->chunk && p->is_local[layer])
    return (attn_set){s->pieces.n,      s->pieces.max_kv,    s->pieces.q_start, s->pieces.q_start_prompts,
                      s->pieces.kv_len, s->pieces.page_table};
  return (attn_set){s->n_seqs,          s->max_kv, s->q_start,
                    s->q_start_prompts, s->kv_len, memory_of(e, layer, MEMORY_PAGES).units};
}

/* Some sequences of a set. */
typedef struct attn_part {
  int32_t first, n, max_q, token, n_tokens;
  const int32_t *q_start; /* [n + 1], from 0 */
} attn_part;

/* n sequences from `first` on, of at most max_q new tokens each: the step's tokens [token, token + n_tokens). Rows may
 * read and write all of those, so that no others may be among them. */
static ga_status run_attention_of(const ga_exec *e, const launch *l, const attn_set *set, const attn_part *part) {
  const node_attention *node = &l->as.attention.node;
  const value_id o = l->as.attention.y;
  const int32_t first = part->first, n = part->n, max_q = part->max_q;
  const ga_hparams *p = &e->model->hparams;
  const ga_step *step = e->step;
  const ga_kv_cache *kv = e->kv;
  const op_memory memory = memory_of(e, l->layer, MEMORY_PAGES);
  void *keys = memory.tensors[MEMORY_KEYS], *values = memory.tensors[MEMORY_VALUES];
  ga_attn_desc d = exec_attn_desc(p, l->layer, n, max_q, set->max_kv, kv->dtype);
  d.window = node->window;
  d.scale = node->scale;
  if (e->running->program->is_invariant) d.flags |= GA_ATTN_INVARIANT;
  ga_attn_io io = {.q = exec_rows(e, node->q) + part->token * exec_stride(e, node->q),
                   .k = keys,
                   .v = values,
                   .o = exec_rows(e, o) + part->token * exec_stride(e, o),
                   .q_start = part->q_start,
                   .kv_len = set->kv_len + first,
                   .page_table = set->units + first * step->page_stride,
                   .sinks = exec_vector(e, node->sinks),
                   .q_tokens = part->n_tokens,
                   .page_table_stride = memory.stride};
  io.q_stride = (ga_attn_strides){.token = exec_stride(e, node->q), .head = d.head_dim};
  io.k_scale = io.v_scale =
      (ga_attn_scale){.batch = GA_KV_PAGE, .head = kv_cache_slots(kv, ga_kv_layer(p, l->layer)), .block = 1};
  io.k_scale.data = scales_of_cache(e, l->layer, keys, d.head_dim);
  io.v_scale.data = scales_of_cache(e, l->layer, values, d.v_dim);
  return ga_attn(e->ctx, &d, &io, NULL);
}

/* Rows for one query a sequence are others than those for many: sequences that generate have a launch of their own. */
static ga_status run_attention(const ga_exec *e, const launch *l) {
  const ga_step *step = e->step;
  if (!l->as.attention.node.has_memory) return run_attention_bidirectional(e, l);
  const attn_set set = attn_set_of(e, l->layer);
  const attn_part decodes = {.n = step->n_decode, .max_q = 1, .n_tokens = step->n_decode, .q_start = set.q_start};
  const attn_part prompts = {.first = step->n_decode,
                             .n = set.n - step->n_decode,
                             .max_q = step->max_q,
                             .token = step->n_decode,
                             .n_tokens = step->n_tokens - step->n_decode,
                             .q_start = set.q_start_prompts};
  if (decodes.n) GA_TRY(run_attention_of(e, l, &set, &decodes));
  return prompts.n ? run_attention_of(e, l, &set, &prompts) : GA_OK;
}

/* Looks wanted rows up in x as in a table. */
static ga_status run_wanted(const ga_exec *e, const launch *l) {
  const value_id x = l->as.wanted.x;
  if (!e->step->out_rows) return GA_OK;
  GA_REQUIRE(exec_stride(e, x) == exec_cols(e, x), GA_ERR_INTERNAL, "wanted rows must be contiguous");
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = e->step->n_out;
  d.vocab = e->max_tokens;
  d.width = exec_cols(e, x);
  d.w_dtype = GA_F32;
  const ga_embed_io io = {.ids = e->step->out_rows, .table = exec_rows(e, x), .y = exec_rows(e, l->as.wanted.y)};
  return ga_embed(e->ctx, &d, &io, NULL);
}

/* All ranks run the same launches, and so the same sums. */
static ga_status run_all_reduce(const ga_exec *e, const launch *l) {
  const launch_all_reduce *a = &l->as.all_reduce;
  ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
  GA_REQUIRE(exec_stride(e, a->x) == exec_cols(e, a->x) && exec_stride(e, a->y) == exec_cols(e, a->y), GA_ERR_INTERNAL,
             "all-reduce: rows must be contiguous");
  const int64_t n = launch_rows(e, l) * exec_cols(e, a->x), most = e->windows ? e->windows_elements : n;
  d.kind = GA_ALL_REDUCE;
  d.ranks = ga_comm_size(e->model->comm);
  d.reach = ga_comm_reach(e->model->comm);
  d.flags = e->windows ? GA_COLLECTIVE_WINDOWS : 0;
  ga_collective_io io = {.comm = e->model->comm, .windows = e->windows};
  for (int64_t done = 0; done < n; done += d.n) { /* all ranks cut alike */
    d.n = ga_min_i64(n - done, most);
    io.x = exec_rows(e, a->x) + done;
    io.y = exec_rows(e, a->y) + done;
    GA_TRY(ga_collective(e->ctx, &d, &io, NULL));
  }
  return GA_OK;
}

static ga_status run_op(const ga_exec *e, const launch *l) {
  const node_op *n = &l->as.op.node;
  const ga_step *step = e->step;
  const value_id y = l->as.op.y;
  op_call call = {.ctx = e->ctx,
                  .shape = {.hparams = &e->model->hparams,
                            .n_tokens = step->n_tokens,
                            .n_seqs = step->n_seqs,
                            .n_decode = step->n_decode,
                            .max_q = step->max_q,
                            .is_invariant = e->running->program->is_invariant,
                            .max_kv = exec_rounded(step->max_kv),
                            .kv_dtype = e->kv ? e->kv->dtype : GA_F32},
                  .y = exec_rows(e, y),
                  .y_cols = exec_cols(e, y),
                  .y_stride = exec_stride(e, y),
                  .positions = step->positions,
                  .rope_freq = rope_freq(e, false),
                  .rope_magnitude = e->model->rope_magnitude[ROPE_GLOBAL],
                  .q_start = step->q_start,
                  .q_start_prompts = step->q_start_prompts,
                  .kv_len = step->kv_len};
  for (int32_t i = 0; i < n->op->n_inputs; i++) {
    call.x[i] = exec_rows(e, n->x[i]);
    call.x_cols[i] = exec_cols(e, n->x[i]);
    call.x_stride[i] = exec_stride(e, n->x[i]);
  }
  for (int32_t i = 0; i < n->op->n_weights; i++)
    if (n->w[i].id != W_NONE) call.w[i] = ga_weight_at(e->model, n->w[i]);
  call.shape.w = call.w;
  if (n->op->has_memory) call.memory = memory_of(e, l->layer, n->op->memory);
  return n->op->run(&call);
}

ga_status exec_launch(const ga_exec *e, const launch *l) {
  switch (l->kind) {
  case LAUNCH_EMBED: return run_embed(e, l);
  case LAUNCH_ADD: return run_add(e, l);
  case LAUNCH_NORM: return run_norm(e, l);
  case LAUNCH_PRODUCT: return run_product(e, l);
  case LAUNCH_ACT: return run_act(e, l);
  case LAUNCH_ROPE: return run_rope(e, l);
  case LAUNCH_STORE: return run_store(e, l);
  case LAUNCH_ATTENTION: return run_attention(e, l);
  case LAUNCH_WANTED: return run_wanted(e, l);
  case LAUNCH_ALL_REDUCE: return run_all_reduce(e, l);
  case LAUNCH_ROUTE: return exec_route(e, l);
  case LAUNCH_EXPERT_IN: return exec_expert_in(e, l);
  case LAUNCH_EXPERT_OUT: return exec_expert_out(e, l);
  case LAUNCH_OP: return run_op(e, l);
  }
  return ga_fail(GA_ERR_INTERNAL, "no launch of kind %d", (int)l->kind);
}
