#include "model/pass/shard.h"

#include "base/status.h"
#include "model/arch/arch.h"
#include "model/graph_op.h"
#include "model/pass/rewrite.h"

/* --- sizes --- */

/* Tensors that cannot be cut into equal parts of whole heads or columns. */
static ga_status shardable_tensors(const ga_arch_desc *arch) {
  static const weight_id joined[] = {W_QKV, W_GATE_UP, W_Q_ROW_NORM, W_K_ROW_NORM};
  GA_REQUIRE(!arch->is_encoder, GA_ERR_UNSUPPORTED, "%s is an encoder; models that are split by tensors generate text",
             arch->name);
  for (size_t i = 0; i < GA_COUNT_OF(joined); i++)
    GA_REQUIRE(!ga_arch_weight(arch, joined[i]), GA_ERR_UNSUPPORTED,
               "%s has %s over several parts (%s); it is not split by tensors", arch->name,
               joined[i] == W_Q_ROW_NORM || joined[i] == W_K_ROW_NORM ? "a norm" : "one matrix",
               ga_weight_specs[joined[i]].name);
  return GA_OK;
}

ga_status shard_sizes(const ga_hparams *whole, int32_t rank, int32_t ranks, ga_hparams *part) {
  *part = *whole;
  GA_REQUIRE(ranks >= 1 && rank >= 0 && rank < ranks, GA_ERR_ARG, "rank %d of %d", rank, ranks);
  if (ranks == 1) return GA_OK;
  GA_TRY(shardable_tensors(whole->arch));
  GA_REQUIRE(!whole->local_heads.dim && !whole->is_joined, GA_ERR_UNSUPPORTED,
             "%s has layers with other heads, or that read other layers; it is not split by tensors",
             whole->arch->name);
  GA_REQUIRE(whole->n_heads % ranks == 0, GA_ERR_SHAPE, "%d heads over %d ranks; must divide", whole->n_heads, ranks);
  GA_REQUIRE(whole->n_kv_heads % ranks == 0 || ranks % whole->n_kv_heads == 0, GA_ERR_SHAPE,
             "%d KV heads over %d ranks; one must divide the other", whole->n_kv_heads, ranks);
  GA_REQUIRE(whole->ff_width % ranks == 0, GA_ERR_SHAPE, "%d columns of the feed-forward over %d ranks; must divide",
             whole->ff_width, ranks);
  part->n_heads = whole->n_heads / ranks;
  part->n_kv_heads = whole->n_kv_heads % ranks ? 1 : whole->n_kv_heads / ranks;
  part->ff_width = whole->ff_width / ranks;
  return GA_OK;
}

/* --- tensors --- */

/* The first element of a dimension that the rank has. */
static int64_t first_in_dim(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks,
                            weight_dim dim, int32_t il) {
  const int64_t n = ga_weight_dim(part, dim, il);
  if (n == ga_weight_dim(whole, dim, il)) return 0;
  if (dim == DIM_K || dim == DIM_V) /* ranks may share KV heads */
    return (int64_t)rank * whole->n_kv_heads / ranks * (n / part->n_kv_heads);
  return rank * n;
}

shard_cut shard_cut_of(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks, weight_id id,
                       int32_t il) {
  const weight_spec *s = &ga_weight_specs[id];
  const bool is_vector = s->kind == KIND_VECTOR;
  shard_cut c = {.first_row = is_vector ? 0 : first_in_dim(whole, part, rank, ranks, s->rows, il),
                 .rows = is_vector ? 1 : ga_weight_dim(part, s->rows, il),
                 .first_col = first_in_dim(whole, part, rank, ranks, s->cols, il),
                 .cols = ga_weight_dim(part, s->cols, il)};
  c.by_cols = !is_vector && c.cols != ga_weight_dim(whole, s->cols, il);
  c.is_cut = c.cols != ga_weight_dim(whole, s->cols, il) || (!is_vector && c.rows != ga_weight_dim(whole, s->rows, il));
  return c;
}

/* --- graphs --- */

/* Declared ops say nothing of parts that ranks could have. Experts are not divided among ranks. */
static ga_status shardable_nodes(const ga_model_graph *g) {
  GA_REQUIRE(!g->n_chosen, GA_ERR_UNSUPPORTED, "layers with experts are not split by tensors");
  for (int32_t i = 0; i < g->n_nodes; i++)
    GA_REQUIRE(g->nodes[i].kind != NODE_OP, GA_ERR_UNSUPPORTED, "layer %d has %s, which is not split by tensors",
               g->nodes[i].layer, g->nodes[i].as.op.op->name);
  return GA_OK;
}

static void shard_nodes(graph_rewrite *r, const ga_hparams *whole, const ga_hparams *part, int32_t rank,
                        int32_t ranks) {
  for (int32_t i = 0; i < r->from->n_nodes; i++) {
    ga_node node = r->from->nodes[i];
    const bool is_part = node.kind == NODE_LINEAR &&
                         shard_cut_of(whole, part, rank, ranks, node.as.linear.weight.id, node.layer).by_cols;
    if (is_part && rank) node.as.linear.bias.id = W_NONE;
    const value_id y = rewrite_copy(r, &node);
    if (!is_part) continue;
    const ga_node sum = {.kind = NODE_ALL_REDUCE, .layer = node.layer, .as.all_reduce = {.x = y}};
    rewrite_replace(r, node.y, rewrite_put(r, sum, y, r->to->values[y].cols));
  }
}

ga_status shard_graph(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks,
                      ga_model_graph **graph) {
  graph_rewrite r;
  if (ranks == 1) return GA_OK;
  GA_TRY(shardable_nodes(*graph));
  const ga_status status = rewrite_begin(*graph, 2, &r);
  if (status == GA_OK) shard_nodes(&r, whole, part, rank, ranks);
  return rewrite_end(&r, status, graph);
}
