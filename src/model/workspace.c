/* What a session's launches need of workspace, before there is one. */
#include <stdio.h>

#include "base/status.h"
#include "model/exec.h"
#include "model/graph_op.h"
#include "model/promote.h"

/* What a plan for d on ctx asks for, if it is more than *bytes; nothing where no row takes it: running tells. */
static void raise_bytes(ga_status made, ga_plan *plan, uint64_t *bytes) {
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
    raise_bytes(status, plan, bytes);
  }
  return GA_OK;
}

/* Layers are like the first one or, where a file mixes types, the last. */
static bool is_sampled(const ga_hparams *p, const char *name) {
  int il;
  return sscanf(name, "blk.%d.", &il) != 1 || il == 0 || il == p->n_layers / 2 || il == p->n_layers - 1;
}

/* A layer's attention over memory. */
static ga_status attention_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes, int32_t layer,
                                     int32_t tokens, uint64_t *bytes) {
  const ga_attn_desc d = exec_attn_desc(&model->hparams, layer, 1, tokens, sizes->context, sizes->kv_dtype);
  ga_plan *plan;
  const ga_status status = ga_attn_plan(ctx, &d, &plan);
  GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
  raise_bytes(status, plan, bytes);
  return GA_OK;
}

static ga_status op_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes, const node_op *n,
                              int32_t tokens, uint64_t *bytes) {
  ga_weight described[OP_WEIGHTS];
  const ga_weight *w[OP_WEIGHTS] = {NULL};
  const op_shape shape = {.hparams = &model->hparams,
                          .n_tokens = tokens,
                          .n_seqs = 1,
                          .n_decode = tokens == 1,
                          .max_q = tokens,
                          .max_kv = sizes->context,
                          .kv_dtype = sizes->kv_dtype,
                          .w = w};
  uint64_t most = 0;
  if (!n->op->plan) return GA_OK;
  for (int32_t i = 0; i < n->op->n_weights; i++) {
    if (n->w[i].id == W_NONE) continue;
    GA_TRY(ga_weight_describe(model, ctx, n->w[i], &described[i]));
    if (!described[i].n_dims) return GA_OK; /* loading says that it is missing */
    w[i] = &described[i];
  }
  const ga_status status = n->op->plan(ctx, &shape, &most);
  GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
  if (status == GA_OK && most > *bytes) *bytes = most;
  return GA_OK;
}

static ga_status expert_workspace(const ga_model *model, ga_ctx *ctx, route_kind kind, weight_ref ref,
                                  ga_expert_form form, int32_t tokens, uint64_t *bytes) {
  ga_weight w;
  ga_plan *plan;
  GA_TRY(ga_weight_describe(model, ctx, ref, &w));
  if (!w.n_dims) return GA_OK; /* loading says that it is missing */
  const ga_expert_gemm_desc d = exec_expert_desc(&model->hparams, ctx, kind, &w, tokens, form);
  const ga_status status = ga_expert_gemm_plan(ctx, &d, &plan);
  GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
  raise_bytes(status, plan, bytes);
  return GA_OK;
}

static ga_status route_workspace(const ga_model *model, ga_ctx *ctx, route_kind kind, int32_t tokens, uint64_t *bytes) {
  const ga_route_desc d = exec_route_desc(&model->hparams, ctx, kind, tokens, 0);
  ga_plan *plan;
  const ga_status status = ga_route_plan(ctx, &d, &plan);
  GA_REQUIRE(status == GA_OK || status == GA_ERR_UNSUPPORTED, status, "%s", ga_error_text());
  raise_bytes(status, plan, bytes);
  return GA_OK;
}

/* Products by the chosen experts, except where the CPU computes them. */
static ga_status stacks_workspace(const ga_model *model, ga_ctx *ctx, const ga_node *node, int32_t n_host_experts,
                                  int32_t tokens, uint64_t *bytes) {
  const bool is_in = node->kind == NODE_EXPERT_IN;
  const route_kind kind = is_in ? ROUTE_EXPERTS : node->as.expert_out.kind;
  if (kind == ROUTE_EXPERTS && node->layer < n_host_experts) return GA_OK;
  return expert_workspace(model, ctx, kind, is_in ? node->as.expert_in.up : node->as.expert_out.down,
                          is_in ? GA_EXPERT_IN : GA_EXPERT_OUT, tokens, bytes);
}

/* Nodes of a step of one sequence with that many tokens. Global layers have attention of one description, and so have
 * local ones. */
static ga_status nodes_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes,
                                 int32_t n_host_experts, int32_t tokens, uint64_t *bytes) {
  bool has_attention[2] = {false}; /* of global and of local layers */
  for (int32_t i = 0; i < model->graph->n_nodes; i++) {
    const ga_node *node = &model->graph->nodes[i];
    if (node->kind == NODE_OP) GA_TRY(op_workspace(model, ctx, sizes, &node->as.op, tokens, bytes));
    if (node->kind == NODE_ROUTE) GA_TRY(route_workspace(model, ctx, node->as.route.kind, tokens, bytes));
    if (node->kind == NODE_EXPERT_IN || node->kind == NODE_EXPERT_OUT)
      GA_TRY(stacks_workspace(model, ctx, node, n_host_experts, tokens, bytes));
    if (node->kind != NODE_ATTENTION || !node->as.attention.has_memory) continue;
    const bool is_local = model->hparams.is_local[node->layer];
    if (!has_attention[is_local]) GA_TRY(attention_workspace(model, ctx, sizes, node->layer, tokens, bytes));
    has_attention[is_local] = true;
  }
  return GA_OK;
}

ga_status exec_workspace(const ga_model *model, ga_ctx *ctx, const ga_session_sizes *sizes, int32_t n_host_experts,
                         uint64_t *bytes) {
  const ga_hparams *p = &model->hparams;
  *bytes = 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(model->file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(model->file, i);
    if (is_sampled(p, t->name)) GA_TRY(product_workspace(model, ctx, t, sizes->batch, bytes));
  }
  for (int i = 0; i < 2; i++) GA_TRY(nodes_workspace(model, ctx, sizes, n_host_experts, i ? sizes->batch : 1, bytes));
  return GA_OK;
}
