/* The pass for tensor parallelism: each rank has some heads and some columns of the feed-forward layers (arXiv
 * 1909.08053). Matrices that compute heads or these columns are cut by rows. Matrices that take them as input are cut
 * by columns. Products with the latter give partial sums, so an all-reduce is inserted after them.
 *
 * The graph is built with the sizes of one rank (shard_sizes); the pass inserts the exchange between ranks. */
#ifndef GA_MODEL_PASS_SHARD_H
#define GA_MODEL_PASS_SHARD_H

#include "model/graph.h"

/* Computes the sizes of one rank's part of a model. If there are more ranks than KV heads, several ranks share a KV
 * head. GA_ERR_UNSUPPORTED, GA_ERR_SHAPE: the architecture or its sizes cannot be split in this way. */
GA_NODISCARD ga_status shard_sizes(const ga_hparams *whole, int32_t rank, int32_t ranks, ga_hparams *part);

/* The part of a whole tensor that a rank has: rows [first_row, first_row + rows) and columns [first_col, first_col +
 * cols). Vectors have one row. */
typedef struct shard_cut {
  int64_t first_row, rows, first_col, cols;
  bool by_cols; /* the tensor is cut by columns: products with it give a part of the sum */
  bool is_cut;  /* false: all ranks have the whole tensor */
} shard_cut;
/* Returns the part of tensor `id` of layer il that the rank has. */
shard_cut shard_cut_of(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks, weight_id id,
                       int32_t il);

/* Inserts an all-reduce after each product with a matrix that is cut by columns; only rank 0 adds its bias. Replaces
 * *graph and frees the old one. A failure changes nothing. */
GA_NODISCARD ga_status shard_graph(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks,
                                   ga_model_graph **graph);

#endif
