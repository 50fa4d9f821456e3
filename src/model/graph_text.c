/* Graphs as text, for people and for tests. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "model/graph.h"

const char *ga_buffer_text(ga_buffer_name buffer) {
  static const char *const names[BUF_COUNT] = {"x", "x_spare", "h", "q", "k", "v", "o", "gate", "up", "logits"};
  return names[buffer];
}

static const char *kind_text(const ga_node *node) {
  static const char *const acts[] = {"none", "silu", "gelu_tanh", "gelu_erf", "relu2", "tanh"};
  switch (node->kind) {
  case NODE_EMBED: return "embed";
  case NODE_ADD: return "add";
  case NODE_NORM: return node->norm_kind == GA_NORM_RMS ? "rms_norm" : "layer_norm";
  case NODE_HEAD_NORM: return node->by_head ? "head_layer_norm" : "head_norm";
  case NODE_LINEAR: return "linear";
  case NODE_ACT: return acts[node->act];
  case NODE_SCALE: return "scale";
  case NODE_ROPE: return node->local ? "rope_local" : "rope";
  case NODE_KV_STORE: return "kv_store";
  case NODE_ATTENTION: return node->in[1] == NO_VALUE ? "attention" : "attention_bidirectional";
  case NODE_SLICE: return "slice";
  case NODE_OUT_ROWS: return "out_rows";
  }
  return "?";
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

static void put_value_name(line *l, const ga_model_graph *g, ga_value_id id) {
  put_format(l, "%%%d:%s", id, ga_buffer_text(g->values[id].buffer));
}

static void put_inputs(line *l, const ga_model_graph *g, const ga_node *node) {
  static const char *const ids[] = {"ids", "positions", "types"};
  char name[GA_WEIGHT_NAME_BYTES];
  const char *comma = "";
  put_format(l, "%s(", kind_text(node));
  if (node->kind == NODE_EMBED) put_format(l, "%s", ids[node->ids]), comma = ", ";
  for (int i = 0; i < GA_NODE_INPUTS; i++) {
    if (node->in[i] == NO_VALUE) continue;
    put_format(l, "%s", comma);
    put_value_name(l, g, node->in[i]);
    comma = ", ";
  }
  if (node->weight != W_NONE) put_format(l, ", %s", ga_weight_name(node->weight, node->layer, name));
  if (node->bias != W_NONE) put_format(l, ", %s", ga_weight_name(node->bias, node->layer, name));
  put_format(l, ")");
}

static void put_node(line *l, const ga_model_graph *g, const ga_node *node) {
  if (node->out != NO_VALUE) {
    const ga_value *y = &g->values[node->out];
    put_value_name(l, g, node->out);
    put_format(l, " [%s, %lld] = ", y->rows == ROWS_TOKENS ? "T" : "n_out", (long long)y->cols);
  }
  put_inputs(l, g, node);
  if (node->kind == NODE_SLICE) put_format(l, " from %lld", (long long)g->values[node->out].offset);
  if (node->window) put_format(l, " window %d", node->window);
  if (node->alibi) put_format(l, " alibi");
  const bool is_product = node->kind == NODE_LINEAR && node->scale != 1;
  if (node->kind == NODE_ATTENTION || node->kind == NODE_EMBED || node->kind == NODE_SCALE || is_product)
    put_format(l, " scale %g", (double)node->scale);
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
