#include "model/exec.h"

#include "base/mem.h"
#include "base/status.h"
#include "model/graph_op.h"

/* --- memory and programs --- */

static ga_status takes_product(void *user, const ga_gemm_fused_desc *desc, bool *taken) {
  (void)user, (void)desc;
  *taken = true;
  return GA_OK;
}
static ga_status takes_store(void *user, const ga_kv_store_fused_desc *desc, bool *taken) {
  (void)user, (void)desc;
  *taken = true;
  return GA_OK;
}

/* Bytes that nodes [first, end) take in steps of many tokens, and what stays where in them. */
static ga_status measure_memory(const ga_model *model, int32_t first, int32_t end, memory_rows rows, memory_pins *pins,
                                uint64_t *bytes) {
  static const fuse_planner all = {.takes_product = takes_product, .takes_store = takes_store};
  static const ga_dtype kv = GA_F16;
  *bytes = 0;
  GA_TRY(memory_pin_values(model->graph, first, end, rows, pins));
  for (int i = 0; i < 2; i++) { /* with a row for every store, and with none: the device decides */
    const fuse_target target = {.model = model, .first = first, .end = end, .planner = i ? &all : NULL, .kv = &kv};
    ga_program *program;
    GA_TRY(fuse(&target, &program));
    const ga_status status = memory_plan(model->graph, pins, rows, program);
    if (program->bytes > *bytes) *bytes = program->bytes;
    program_destroy(program);
    GA_TRY(status);
  }
  return GA_OK;
}

ga_status exec_bytes(const ga_model *model, int32_t max_tokens, int32_t max_out, uint64_t *bytes) {
  const memory_rows rows = {.tokens = max_tokens, .wanted = max_out};
  memory_pins pins;
  int32_t first, end;
  graph_range(model->graph, -1, model->hparams.n_layers + 1, &first, &end);
  return measure_memory(model, first, end, rows, &pins, bytes);
}

/* Elements of one sum over GPUs at most: GA_ALL_REDUCE takes no more. */
#define EXEC_SUM_ELEMENTS ((int64_t)1 << 24)

/* Ranks on GPUs sum up in memory that they have mapped of each other. */
static ga_status open_sum_windows(ga_exec *e) {
  ga_all_reduce_desc d = GA_ALL_REDUCE_DESC_INIT;
  if (ga_device_in_host_memory(e->ctx->device)) return GA_OK;
  e->windows_elements = ga_min_i64((int64_t)e->max_tokens * e->model->hparams.width, EXEC_SUM_ELEMENTS);
  d.max_elements = e->windows_elements;
  d.dtype = GA_F32;
  return ga_all_reduce_create(&d, e->model->comm, e->ctx, &e->windows);
}

ga_status exec_create(const ga_model *model, const ga_placement *placement, const ga_kv_cache *kv, int32_t max_tokens,
                      int32_t max_out, int32_t context, ga_exec *out) {
  const bool begins = place_begins(model, placement), ends = place_ends(model, placement);
  void *arena;
  *out = (ga_exec){.model = model, .placement = placement, .ctx = placement->ctx, .kv = kv, .max_tokens = max_tokens};
  if (ends) out->max_out = max_out;
  out->is_long = model->short_context && context > model->short_context;
  graph_range(model->graph, begins ? -1 : placement->first, ends ? model->hparams.n_layers + 1 : placement->end,
              &out->first, &out->end);
  const memory_rows rows = {.tokens = max_tokens, .wanted = out->max_out};
  ga_status status = measure_memory(model, out->first, out->end, rows, &out->pins, &out->arena_bytes);
  if (status == GA_OK) status = ga_buffer_alloc_for(out->ctx, out->arena_bytes, "activations", &arena);
  if (status == GA_OK) out->arena = arena;
  if (status == GA_OK && model->comm) status = open_sum_windows(out);
  if (status == GA_OK && placement->plan.n_host_expert_layers)
    status = host_experts_create(model, placement, max_tokens, &out->host);
  if (status != GA_OK) exec_destroy(out);
  return status;
}

void exec_destroy(ga_exec *e) {
  if (!e->ctx) return;
  for (int t = 0; t <= FUSED_FEW; t++)
    for (int o = 0; o <= FUSED_FEW; o++) {
      ga_buffer_free(e->ctx, e->programs[t][o].own);
      program_destroy(e->programs[t][o].program);
    }
  ga_all_reduce_destroy(e->windows);
  host_experts_destroy(e->host);
  ga_buffer_free(e->ctx, e->arena);
  *e = (ga_exec){0};
}

/* Rows of the largest step of a class. */
static int32_t rows_of_class(int32_t class, int32_t most) { return class && class < most ? class : most; }

static ga_status make_exec_program(ga_exec *e, int32_t tokens, int32_t wanted, exec_program *out) {
  const fuse_planner planner = fuse_planner_of(e->ctx);
  const fuse_target target = {.model = e->model,
                              .first = e->first,
                              .end = e->end,
                              .planner = &planner,
                              .kv = e->kv ? &e->kv->dtype : NULL,
                              .tokens = tokens,
                              .wanted = wanted,
                              .is_invariant = e->is_invariant,
                              .rounds_x = e->rounds_x};
  const memory_rows rows = {rows_of_class(tokens, e->max_tokens), rows_of_class(wanted, e->max_out)};
  GA_TRY(fuse(&target, &out->program));
  GA_TRY(memory_plan(e->model->graph, &e->pins, rows, out->program));
  out->scratch = e->arena + e->pins.bytes;
  if (out->program->bytes <= e->arena_bytes) return GA_OK;
  GA_TRY(ga_buffer_alloc_for(e->ctx, out->program->bytes - e->pins.bytes, "activations", &out->own));
  out->scratch = out->own;
  return GA_OK;
}

/* Made when first asked for, of classes of a step's tokens and of the rows whose logits are wanted. */
static ga_status program_for(ga_exec *e, int32_t tokens, int32_t wanted, const exec_program **out) {
  exec_program *p = &e->programs[tokens][wanted];
  *out = p;
  if (p->program) return GA_OK;
  const ga_status status = make_exec_program(e, tokens, wanted, p);
  if (status == GA_OK) return GA_OK;
  program_destroy(p->program);
  *p = (exec_program){0};
  return status;
}

/* No rows of logits wanted: as with one, of which the head is left out. */
static ga_status choose_program(ga_exec *e) {
  const int32_t wanted = e->step->n_out;
  if (e->is_invariant) return program_for(e, 0, 0, &e->running);
  return program_for(e, fused_class(e->step->n_tokens), fused_class(wanted + !wanted), &e->running);
}

static ga_status check_invariant_product(const ga_exec *e, const ga_program *program, const launch_product *p) {
  const ga_gemm_fused_desc d = describe_product(e->model, program, p, 1);
  ga_plan *plan;
  GA_TRY(ga_gemm_fused_plan(e->ctx, &d, &plan));
  ga_plan_destroy(plan);
  return GA_OK;
}

static ga_status check_invariant_attention(const ga_exec *e, int32_t layer, int32_t context) {
  ga_attn_desc d = exec_attn_desc(&e->model->hparams, layer, 1, 1, context, e->kv->dtype);
  ga_plan *plan;
  d.flags |= GA_ATTN_INVARIANT;
  GA_TRY(ga_attn_plan(e->ctx, &d, &plan));
  ga_plan_destroy(plan);
  return GA_OK;
}

/* Plans an op for a step of one token, with the fields of `one` that say of memory and kernels. */
static ga_status plan_declared_op(const ga_model *model, ga_ctx *ctx, const node_op *n, op_shape one) {
  const ga_weight *w[OP_WEIGHTS] = {NULL};
  one.hparams = &model->hparams;
  one.n_tokens = one.n_seqs = one.n_decode = one.max_q = 1;
  one.w = w;
  uint64_t workspace;
  for (int32_t i = 0; i < n->op->n_weights; i++)
    if (n->w[i].id != W_NONE) w[i] = ga_weight_at(model, n->w[i]);
  return n->op->plan ? n->op->plan(ctx, &one, &workspace) : GA_OK;
}

/* Plans a product by the stack w for a step of one token. */
static ga_status plan_expert_product(const ga_model *model, ga_ctx *ctx, route_kind kind, weight_ref w,
                                     ga_expert_form form) {
  const ga_expert_gemm_desc d = exec_expert_desc(&model->hparams, ctx, kind, ga_weight_at(model, w), 1, form);
  ga_plan *plan;
  GA_TRY(ga_expert_gemm_plan(ctx, &d, &plan));
  ga_plan_destroy(plan);
  return GA_OK;
}

/* Plans the launch of a node whose kernels depend on types of weights. */
static ga_status plan_node(const ga_model *model, ga_ctx *ctx, const ga_node *node) {
  ga_plan *plan;
  switch (node->kind) {
  case NODE_OP: return plan_declared_op(model, ctx, &node->as.op, (op_shape){.max_kv = 1, .kv_dtype = GA_F16});
  case NODE_EXPERT_IN: return plan_expert_product(model, ctx, ROUTE_EXPERTS, node->as.expert_in.up, GA_EXPERT_IN);
  case NODE_EXPERT_OUT:
    return plan_expert_product(model, ctx, node->as.expert_out.kind, node->as.expert_out.down, GA_EXPERT_OUT);
  case NODE_ROUTE: {
    const ga_route_desc d = exec_route_desc(&model->hparams, ctx, node->as.route.kind, 1, 0);
    GA_TRY(ga_route_plan(ctx, &d, &plan));
    ga_plan_destroy(plan);
    return GA_OK;
  }
  default: return GA_OK;
  }
}

/* Returns whether the node is a product by experts that the CPU computes for a layer of a GPU. */
static bool multiplies_on_host(const ga_model *model, const ga_placement *place, const ga_node *node) {
  const bool is_of_experts =
      node->kind == NODE_EXPERT_IN || (node->kind == NODE_EXPERT_OUT && node->as.expert_out.kind == ROUTE_EXPERTS);
  return is_of_experts && place_has_host_experts(model, place, node->layer);
}

ga_status exec_check_ops(const ga_model *model) {
  const ga_model_graph *g = model->graph;
  for (int32_t i = 0; i < model->n_placements; i++) {
    const ga_placement *place = &model->placements[i];
    int32_t first, end;
    graph_range(g, place_begins(model, place) ? -1 : place->first,
                place_ends(model, place) ? g->n_layers + 1 : place->end, &first, &end);
    for (int32_t k = first; k < end; k++) {
      const ga_node *node = &g->nodes[k];
      ga_ctx *ctx = multiplies_on_host(model, place, node) ? model->cpu : place->ctx;
      const ga_status status = plan_node(model, ctx, node);
      if (status != GA_OK) return ga_fail_in(status, "layer %d on %s", node->layer, ga_ctx_device_name(ctx));
    }
  }
  return GA_OK;
}

/* A GPU's rows of products by experts cut k by the number of rows; a CPU's do not. */
static ga_status check_invariant_experts(const ga_exec *e, const launch *l) {
  const bool is_gate = l->kind == LAUNCH_EXPERT_OUT && l->as.expert_out.node.kind == ROUTE_GATE,
             is_on_cpu = ga_device_works_in_calls(e->ctx->device) ||
                         (!is_gate && place_has_host_experts(e->model, e->placement, l->layer));
  GA_REQUIRE(!e->placement->plan.expert_cache, GA_ERR_UNSUPPORTED,
             "%s has a cache of experts, on whose contents results depend; without expert_cache they do not",
             ga_ctx_device_name(e->ctx));
  GA_REQUIRE(is_on_cpu, GA_ERR_UNSUPPORTED, "%s has no batch-invariant kernels for layers with experts; CPUs have",
             ga_ctx_device_name(e->ctx));
  return GA_OK;
}

/* Global layers have attention of one description, and so have local ones: the first of each is asked for. */
ga_status exec_check_invariant(ga_exec *e, int32_t context) {
  const exec_program *p;
  bool has_attention[2] = {false}; /* of global and of local layers */
  GA_TRY(program_for(e, 0, 0, &p));
  for (int32_t i = 0; i < p->program->n_launches; i++) {
    const launch *l = &p->program->launches[i];
    if (l->kind == LAUNCH_PRODUCT) GA_TRY(check_invariant_product(e, p->program, &l->as.product));
    const op_shape invariant = {.is_invariant = true, .max_kv = context, .kv_dtype = e->kv->dtype};
    if (l->kind == LAUNCH_OP) GA_TRY(plan_declared_op(e->model, e->ctx, &l->as.op.node, invariant));
    if (l->kind == LAUNCH_EXPERT_IN || l->kind == LAUNCH_EXPERT_OUT) GA_TRY(check_invariant_experts(e, l));
    if (l->kind != LAUNCH_ATTENTION || !l->as.attention.node.has_memory) continue;
    const bool is_local = e->model->hparams.is_local[l->layer];
    if (!has_attention[is_local]) GA_TRY(check_invariant_attention(e, l->layer, context));
    has_attention[is_local] = true;
  }
  return GA_OK;
}

ga_status exec_check_rounds_x(ga_exec *e) {
  const exec_program *p;
  int32_t found = 0;
  GA_TRY(program_for(e, 0, 0, &p));
  for (int32_t i = 0; i < p->program->n_launches; i++) {
    const launch *l = &p->program->launches[i];
    ga_plan *plan;
    if (!product_rounds_x(e->model, p->program, l)) continue;
    const ga_gemm_fused_desc d = describe_product(e->model, p->program, &l->as.product, FUSED_FEW + 1);
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

/* --- addresses --- */

static float *address_at(const ga_exec *e, int64_t offset) {
  const int64_t pinned = (int64_t)e->pins.bytes;
  return (float *)(void *)(offset < pinned ? e->arena + offset : e->running->scratch + (offset - pinned));
}

/* Wanted rows that follow one another in the step are read where the step has them. */
static bool is_block(const ga_exec *e, const ga_node *maker) {
  return maker->kind == NODE_WANTED && !e->step->out_rows;
}

float *exec_rows(const ga_exec *e, value_id v) {
  const ga_model_graph *g = e->model->graph;
  if (v == NO_VALUE) return NULL;
  const ga_value *value = &g->values[v];
  const ga_node *maker = &g->nodes[g->values[value->root].producer];
  if (!is_block(e, maker)) return address_at(e, e->running->program->places[v].offset);
  const value_id x = maker->as.wanted.x;
  return exec_rows(e, x) + e->step->out_begin * exec_stride(e, x) + value->first;
}

int64_t exec_stride(const ga_exec *e, value_id v) { return e->running->program->places[v].stride; }

static const memory_pin *pin_of(const ga_exec *e, value_id v) {
  for (int32_t i = 0; i < e->pins.n; i++)
    if (e->pins.list[i].value == v) return &e->pins.list[i];
  return NULL;
}

float *exec_result(const ga_exec *e) {
  const memory_pin *pin = pin_of(e, e->model->graph->result);
  return pin ? (float *)(void *)(e->arena + pin->offset) : NULL;
}

/* --- steps --- */

/* A rank that fails ends the communicator, so that the others do not wait for it. */
static ga_status exec_launches(const ga_exec *e, int32_t first, int32_t end) {
  ga_status status = GA_OK;
  for (int32_t i = first; i < end && status == GA_OK; i++) status = exec_launch(e, &e->running->program->launches[i]);
  if (status != GA_OK && e->model->comm) ga_comm_abort(e->model->comm, ga_error_text());
  return status;
}

static ga_status run_head(const ga_exec *e) {
  const ga_program *p = e->running->program;
  if (!e->step->n_out || p->n_body == p->n_launches) return GA_OK;
  GA_REQUIRE(e->step->n_out <= e->max_out, GA_ERR_INTERNAL, "%d rows of logits, room for %d", e->step->n_out,
             e->max_out);
  return exec_launches(e, p->n_body, p->n_launches);
}

ga_status exec_run(ga_exec *e) {
  GA_TRY(choose_program(e));
  GA_TRY(exec_launches(e, 0, e->running->program->n_body));
  return run_head(e);
}

ga_status exec_check(const ga_exec *e) {
  if (!e->windows) return GA_OK;
  const ga_status status = ga_all_reduce_check(e->windows, NULL);
  if (status != GA_OK) ga_comm_abort(e->model->comm, ga_error_text());
  return status;
}

ga_status exec_head(ga_exec *e) {
  GA_TRY(choose_program(e));
  return run_head(e);
}

/* --- values of earlier layers --- */

/* Is the exec's i-th pinned value made by earlier layers? */
static bool comes_from_before(const ga_exec *e, int32_t i) {
  return e->model->graph->values[e->pins.list[i].value].producer < e->first;
}

static size_t taken_row_bytes(const ga_exec *e, int32_t i) {
  return (size_t)e->model->graph->values[e->pins.list[i].value].cols * sizeof(float);
}

/* Finds the exec's i-th pinned value among those of `before`. */
static ga_status find_taken(const ga_exec *e, const ga_exec *before, int32_t i, const char **from) {
  const value_id id = e->pins.list[i].value;
  const memory_pin *pin = pin_of(before, id);
  GA_REQUIRE(pin && e->model->graph->values[id].rows == ROWS_TOKENS, GA_ERR_INTERNAL,
             "value %d does not leave the layers before", id);
  *from = before->arena + pin->offset;
  return GA_OK;
}

uint64_t exec_taken_bytes(const ga_exec *e) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < e->pins.n; i++)
    if (comes_from_before(e, i)) bytes += (uint64_t)e->max_tokens * taken_row_bytes(e, i);
  return bytes;
}

ga_status exec_take_over(ga_exec *e, const ga_exec *before) {
  const char *from = NULL;
  for (int32_t i = 0; i < e->pins.n; i++) {
    if (!comes_from_before(e, i)) continue;
    GA_TRY(find_taken(e, before, i, &from));
    const size_t bytes = (size_t)e->step->n_tokens * taken_row_bytes(e, i);
    GA_TRY(ga_copy_between(e->ctx, e->arena + e->pins.list[i].offset, before->ctx, from, bytes));
  }
  return GA_OK;
}

ga_status exec_send(const ga_exec *e, const ga_exec *before, char *buffer) {
  const char *from = NULL;
  for (int32_t i = 0; i < e->pins.n; i++) {
    if (!comes_from_before(e, i)) continue;
    GA_TRY(find_taken(e, before, i, &from));
    const size_t bytes = (size_t)e->step->n_tokens * taken_row_bytes(e, i);
    GA_TRY(ga_send_to_peer(before->ctx, from, e->ctx, buffer, bytes));
    buffer += bytes;
  }
  return GA_OK;
}

ga_status exec_receive(const ga_exec *e, const char *buffer) {
  for (int32_t i = 0; i < e->pins.n; i++) {
    if (!comes_from_before(e, i)) continue;
    const size_t bytes = (size_t)e->step->n_tokens * taken_row_bytes(e, i);
    GA_TRY(ga_copy_within(e->ctx, e->arena + e->pins.list[i].offset, buffer, bytes));
    buffer += bytes;
  }
  return GA_OK;
}
