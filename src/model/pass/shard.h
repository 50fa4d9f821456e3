/* The pass that splits a model by tensors: each rank has some heads and some columns of the feed-forward
 * (arXiv 1909.08053). Matrices that make these are cut by rows, those that read them by columns, so that products with
 * the latter are parts of sums: an all-reduce of them is put in.
 *
 * The graph is built with the sizes of one rank (shard_sizes); the pass puts in what ranks exchange. */
#ifndef GA_MODEL_PASS_SHARD_H
#define GA_MODEL_PASS_SHARD_H

#include "model/graph.h"

/* The rank's part of the sizes of a whole model. Fails where the architecture or its numbers cannot be split so:
 * GA_ERR_UNSUPPORTED, GA_ERR_SHAPE. Ranks that are more than KV heads share these. */
GA_NODISCARD ga_status shard_sizes(const ga_hparams *whole, int32_t rank, int32_t ranks, ga_hparams *part);

/* Rows and columns [first, first + n) of a whole tensor that a rank has; vectors have one row. */
typedef struct shard_cut {
  int64_t first_row, rows, first_col, cols;
  bool by_cols; /* products with it are a part of the sum */
  bool is_cut;  /* else all ranks have all of it */
} shard_cut;
shard_cut shard_cut_of(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks, weight_id id);

/* Puts an all-reduce after each product with a matrix that is cut by columns; rank 0 alone adds its bias. Frees *graph
 * and replaces it. A failure changes nothing. */
GA_NODISCARD ga_status shard_graph(const ga_hparams *whole, const ga_hparams *part, int32_t rank, int32_t ranks,
                                   ga_model_graph **graph);

#endif
