#include "model/pass/attach.h"

#include "base/status.h"
#include "model/pass/rewrite.h"

static weight_ref attached_part(weight_ref w, weight_part part) {
  w.part = part;
  return w;
}

/* A product of x, a value of the new graph, with a part of the attachment. */
static value_id put_part(graph_rewrite *r, const ga_node *base, value_id x, weight_part part, float scale,
                         int64_t cols) {
  const ga_node node = {
      .kind = NODE_LINEAR,
      .layer = base->layer,
      .as.linear = {
          .x = x, .weight = attached_part(base->as.linear.weight, part), .bias = {.id = W_NONE}, .scale = scale}};
  return rewrite_put(r, node, x, cols);
}

/* y = scale W x + bias becomes y + scale s B (A x). y is the first addend: a product that adds keeps it as residual. */
static void put_adapter(graph_rewrite *r, const ga_node *base, value_id y, const ga_attachment *adapter) {
  const value_id x = r->now[base->as.linear.x];
  const int64_t cols = r->to->values[y].cols;
  const value_id low = put_part(r, base, x, PART_A, 1, ga_weight_rows(&adapter->a));
  const value_id high = put_part(r, base, low, PART_B, base->as.linear.scale * adapter->scale, cols);
  const ga_node sum = {.kind = NODE_ADD, .layer = base->layer, .as.add = {.a = y, .b = high}};
  rewrite_replace(r, base->y, rewrite_put(r, sum, y, cols));
}

ga_status attach_graph(const ga_model *model, ga_model_graph **graph) {
  const ga_model_graph *from = *graph;
  graph_rewrite r;
  const ga_status status = rewrite_begin(from, 4, &r);
  for (int32_t i = 0; i < from->n_nodes && status == GA_OK; i++) {
    const ga_node *node = &from->nodes[i];
    const value_id y = rewrite_copy(&r, node);
    const ga_weight *w = node->kind == NODE_LINEAR ? ga_weight_at(model, node->as.linear.weight) : NULL;
    if (w && w->attachment) put_adapter(&r, node, y, w->attachment);
  }
  return rewrite_end(&r, status, graph);
}
