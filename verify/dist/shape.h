/* Shapes of distributed attention: the options of a shape, and the layouts and descriptions that are made from them. */
#ifndef GA_VERIFY_DIST_SHAPE_H
#define GA_VERIFY_DIST_SHAPE_H

#include "ga/dist.h"

enum { DIST_GRID_BYTES = 48 };

/* The options of a shape, as the command line gives them. */
typedef struct dist_shape {
  /* Texts of the options with the same names. queries, grid: NULL = the option was not given.
   *
   * tokens and queries are the documents' lengths. grid is the ranks by heads, queries and keys, such as 2x1x4. need
   * says which data is sent: all, blocks, stretches, or method. partials is the type of partial results: f32, or type
   * for that of the inputs. */
  const char *method, *order, *tokens, *queries, *grid, *need, *type, *partials;
  int64_t ranks, heads, kv_heads, head_dim, v_dim, window, inner, prefetch, groups, chunks;
  bool full, backward, unordered;
} dist_shape;
#define DIST_SHAPE_INIT                                                                                          \
  {                                                                                                              \
    .method = "zigzag", .order = "method", .tokens = "4096", .need = "method", .type = "f32", .partials = "f32", \
    .heads = 8, .kv_heads = 2, .head_dim = 64, .chunks = 4                                                       \
  }

/* The problem that a shape describes: layouts, and a description that points to them. The caller frees it with
 * dist_end, also after a failure. */
typedef struct dist_task {
  ga_dist_layout *q, *kv;
  ga_dist_desc desc;
  ga_dist_grid grid;
  int64_t *q_lengths, *kv_lengths; /* [documents] numbers of tokens of the documents */
  int32_t documents;
} dist_task;

/* Checks the names given to --order and --need. Returns GA_ERR_ARG if one is unknown. */
GA_NODISCARD ga_status dist_check_shape(const dist_shape *s);
/* Makes the problem of a shape for one method; method NULL = the method of the shape. Returns GA_ERR_ARG or
 * GA_ERR_SHAPE if an option is wrong. */
GA_NODISCARD ga_status dist_begin(const dist_shape *s, const char *method, dist_task *t);
void dist_end(dist_task *t);

#endif
