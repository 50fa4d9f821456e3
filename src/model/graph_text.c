/* Graphs and programs as text, for people and for tests. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "model/graph_op.h"
#include "model/program.h"

static const char *act_text(int32_t act) {
  static const char *const acts[] = {"none", "silu", "gelu_tanh", "gelu_erf", "relu2", "tanh"};
  return acts[act];
}

static const char *norm_text(const node_norm *norm) {
  if (norm->heads) return norm->by_head ? "head_layer_norm" : "head_norm";
  return norm->form == GA_NORM_RMS ? "rms_norm" : "layer_norm";
}

/* Lines have 512 bytes at most; what would not fit is cut. */
enum { LINE_BYTES = 512 };
typedef struct line {
  char text[LINE_BYTES];
  size_t n;
} line;

static void put_format(line *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, format, args);
  va_end(args);
  if (n > 0) l->n += (size_t)n < sizeof l->text - l->n ? (size_t)n : sizeof l->text - l->n - 1;
}

static void put_bare_name(line *l, weight_ref w) {
  static const char *const parts[] = {"", ".lora_a", ".lora_b"};
  char name[GA_WEIGHT_NAME_BYTES];
  put_format(l, "%s%s", ga_weight_name(w.id, w.layer, name), parts[w.part]);
}

static void put_weight_name(line *l, weight_ref w) {
  if (w.id == W_NONE) return;
  put_format(l, ", ");
  put_bare_name(l, w);
}

static const char *ids_text(embed_ids ids) {
  static const char *const names[] = {"ids", "positions", "types"};
  return names[ids];
}

static void put_embed(line *l, const node_embed *n) {
  put_format(l, "embed(%s", ids_text(n->ids));
  put_weight_name(l, n->table);
  put_format(l, ") scale %g", (double)n->scale);
}

static void put_norm(line *l, const node_norm *n) {
  put_format(l, "%s(%%%d", norm_text(n), n->x);
  put_weight_name(l, n->weight);
  put_weight_name(l, n->bias);
  put_format(l, ")");
}

static void put_linear(line *l, const node_linear *n) {
  put_format(l, "linear(%%%d", n->x);
  put_weight_name(l, n->weight);
  put_weight_name(l, n->bias);
  put_format(l, ")");
  if (n->scale != 1) put_format(l, " scale %g", (double)n->scale);
}

static void put_act(line *l, int32_t act, value_id x, value_id gate) {
  put_format(l, gate == NO_VALUE ? "%s(%%%d)" : "%s(%%%d, gate %%%d)", act_text(act), x, gate);
}

static void put_attention(line *l, const node_attention *n) {
  if (n->k == NO_VALUE)
    put_format(l, "attention(%%%d, memory of an earlier layer)", n->q);
  else
    put_format(l, "%s(%%%d, %%%d, %%%d)", n->has_memory ? "attention" : "attention_bidirectional", n->q, n->k, n->v);
  if (n->window) put_format(l, " window %d", n->window);
  if (n->has_alibi) put_format(l, " alibi");
  if (n->sinks.id != W_NONE) put_format(l, " sinks");
  put_format(l, " scale %g", (double)n->scale);
}

static void put_scaled(line *l, const node_scale *n) {
  put_format(l, "scale(%%%d", n->x);
  if (n->b != NO_VALUE) put_format(l, ", plus %%%d", n->b);
  if (n->factors != NO_VALUE) put_format(l, ", factors %%%d", n->factors);
  put_format(l, n->by_position ? ", factors by position) %g" : ") %g", (double)n->scale);
}

static void put_op(line *l, const node_op *n) {
  put_format(l, "%s(", n->op->name);
  for (int32_t i = 0; i < n->op->n_inputs; i++) put_format(l, i ? ", %%%d" : "%%%d", n->x[i]);
  for (int32_t i = 0; i < n->op->n_weights; i++) put_weight_name(l, n->w[i]);
  put_format(l, ")");
  if (n->op->has_memory) put_format(l, n->op->memory == MEMORY_STATE ? " with state" : " with pages");
}

static void put_route(line *l, const node_route *n) {
  put_format(l, n->kind == ROUTE_GATE ? "gate(%%%d" : "route(%%%d", n->x);
  put_weight_name(l, n->bias);
  put_weight_name(l, n->expert_scale);
  put_format(l, ")");
}

static void put_expert_in(line *l, const node_expert_in *n) {
  put_format(l, "expert_in(%%%d, %%%d", n->x, n->route);
  put_weight_name(l, n->gate);
  put_weight_name(l, n->up);
  put_weight_name(l, n->gate_bias);
  put_weight_name(l, n->up_bias);
  put_format(l, ") %s", act_text(n->act));
}

static void put_expert_out(line *l, const node_expert_out *n) {
  put_format(l, "expert_out(%%%d, %%%d", n->x, n->route);
  put_weight_name(l, n->down);
  put_weight_name(l, n->bias);
  put_format(l, ")");
}

static void put_node(line *l, const ga_model_graph *g, const ga_node *node) {
  static const char *const rows[] = {[ROWS_TOKENS] = "T", [ROWS_WANTED] = "n_out", [ROWS_CHOSEN] = "T * n_chosen"};
  const ga_value *y = &g->values[node->y];
  put_format(l, "%%%d [%s, %lld] = ", node->y, rows[y->rows], (long long)y->cols);
  switch (node->kind) {
  case NODE_EMBED: put_embed(l, &node->as.embed); break;
  case NODE_ADD: put_format(l, "add(%%%d, %%%d)", node->as.add.a, node->as.add.b); break;
  case NODE_NORM: put_norm(l, &node->as.norm); break;
  case NODE_LINEAR: put_linear(l, &node->as.linear); break;
  case NODE_ACT: put_act(l, node->as.act.act, node->as.act.x, node->as.act.gate); break;
  case NODE_SCALE: put_scaled(l, &node->as.scale); break;
  case NODE_ROPE: put_format(l, "%s(%%%d)", node->as.rope.is_local ? "rope_local" : "rope", node->as.rope.x); break;
  case NODE_ATTENTION: put_attention(l, &node->as.attention); break;
  case NODE_SLICE: put_format(l, "slice(%%%d) from %lld", node->as.slice.x, (long long)y->first); break;
  case NODE_WANTED: put_format(l, "wanted_rows(%%%d)", node->as.wanted.x); break;
  case NODE_ALL_REDUCE: put_format(l, "all_reduce(%%%d)", node->as.all_reduce.x); break;
  case NODE_ROUTE: put_route(l, &node->as.route); break;
  case NODE_EXPERT_IN: put_expert_in(l, &node->as.expert_in); break;
  case NODE_EXPERT_OUT: put_expert_out(l, &node->as.expert_out); break;
  case NODE_OP: put_op(l, &node->as.op); break;
  }
  put_format(l, "\n");
}

ga_status graph_text(const ga_model_graph *graph, char **out) {
  void *p;
  size_t n = 0;
  *out = NULL;
  GA_TRY(ga_mem_zalloc((size_t)graph->n_nodes + 1, LINE_BYTES, "graph text", &p));
  for (int32_t i = 0; i < graph->n_nodes; i++) {
    line l = {.n = 0};
    put_node(&l, graph, &graph->nodes[i]);
    memcpy((char *)p + n, l.text, l.n + 1);
    n += l.n;
  }
  *out = p;
  return GA_OK;
}

/* --- programs --- */

/* "residual + rms_norm(x, add_norm) + ..." as X of a product. */
static void put_normed_x(line *l, const launch_product *p) {
  if (p->norm.id == W_NONE) {
    put_format(l, "%%%d", p->x);
    return;
  }
  put_format(l, "rms_norm(");
  if (p->add_norm.id != W_NONE) {
    put_format(l, "%%%d + rms_norm(%%%d, ", p->residual, p->x);
    put_bare_name(l, p->add_norm);
    put_format(l, ")");
  } else
    put_format(l, "%%%d", p->x);
  put_format(l, ", ");
  put_bare_name(l, p->norm);
  put_format(l, ")");
}

static void put_product(line *l, const launch_product *p) {
  put_format(l, p->is_gated ? "gated_product(" : "product(");
  put_normed_x(l, p);
  for (int32_t i = 0; i < p->n_matrices; i++) {
    put_weight_name(l, p->matrix[i].weight);
    put_weight_name(l, p->matrix[i].bias);
  }
  put_format(l, ")");
  if (p->scale != 1) put_format(l, " scale %g", (double)p->scale);
  if (p->act) put_format(l, " %s", act_text(p->act));
  if (p->gate != NO_VALUE) put_format(l, " gate %%%d", p->gate);
  if (p->residual != NO_VALUE && p->add_norm.id == W_NONE) put_format(l, " + %%%d", p->residual);
}

static void put_store(line *l, const launch_store *s) {
  put_format(l, "store(%%%d, %%%d", s->k, s->v);
  if (s->rotates) put_format(l, ", %s %%%d", s->is_local ? "rope_local" : "rope", s->q);
  put_weight_name(l, s->q_norm);
  put_weight_name(l, s->k_norm);
  put_format(l, ")");
}

static void put_launch(line *l, const ga_program *program, const launch *op) {
  value_id out[LAUNCH_WRITES];
  const int32_t n = launch_writes(op, out);
  for (int32_t i = 0; i < n; i++)
    put_format(l, i ? ", %%%d@%lld" : "%%%d@%lld", out[i], (long long)program->places[out[i]].offset);
  if (n) put_format(l, " = ");
  switch (op->kind) {
  case LAUNCH_EMBED: put_embed(l, &op->as.embed.node); break;
  case LAUNCH_ADD:
    put_format(l, op->as.add.b == NO_VALUE ? "%g %%%d" : "%g %%%d + %%%d", (double)op->as.add.scale, op->as.add.x,
               op->as.add.b);
    if (op->as.add.factors != NO_VALUE) put_format(l, ", factors %%%d", op->as.add.factors);
    if (op->as.add.by_position) put_format(l, ", factors by position");
    break;
  case LAUNCH_NORM:
    put_norm(l, &op->as.norm.node);
    if (op->as.norm.residual != NO_VALUE) put_format(l, " + %%%d", op->as.norm.residual);
    break;
  case LAUNCH_PRODUCT: put_product(l, &op->as.product); break;
  case LAUNCH_ACT: put_act(l, op->as.act.act, op->as.act.x, op->as.act.gate); break;
  case LAUNCH_ROPE:
    put_format(l, "%s(%%%d)", op->as.rope.node.is_local ? "rope_local" : "rope", op->as.rope.node.x);
    break;
  case LAUNCH_STORE: put_store(l, &op->as.store); break;
  case LAUNCH_ATTENTION: put_attention(l, &op->as.attention.node); break;
  case LAUNCH_WANTED: put_format(l, "wanted_rows(%%%d)", op->as.wanted.x); break;
  case LAUNCH_ALL_REDUCE: put_format(l, "all_reduce(%%%d)", op->as.all_reduce.x); break;
  case LAUNCH_ROUTE: put_route(l, &op->as.route.node); break;
  case LAUNCH_EXPERT_IN: put_expert_in(l, &op->as.expert_in.node); break;
  case LAUNCH_EXPERT_OUT:
    put_expert_out(l, &op->as.expert_out.node);
    if (op->as.expert_out.residual != NO_VALUE) put_format(l, " + %%%d", op->as.expert_out.residual);
    break;
  case LAUNCH_OP: put_op(l, &op->as.op.node); break;
  }
  put_format(l, "\n");
}

ga_status program_text(const ga_program *program, char **out) {
  void *p;
  size_t n = 0;
  *out = NULL;
  GA_TRY(ga_mem_zalloc((size_t)program->n_launches + 3, LINE_BYTES, "program text", &p));
  for (int32_t i = 0; i < program->n_launches; i++) {
    line l = {.n = 0};
    if (i == program->n_body) put_format(&l, "head:\n");
    put_launch(&l, program, &program->launches[i]);
    memcpy((char *)p + n, l.text, l.n + 1);
    n += l.n;
  }
  line l = {.n = 0};
  put_format(&l, "%llu bytes\n", (unsigned long long)program->bytes);
  memcpy((char *)p + n, l.text, l.n + 1);
  *out = p;
  return GA_OK;
}
