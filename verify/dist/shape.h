/* Shapes of distributed attention: their options, and the layouts and descriptions made from them. */
#ifndef GA_VERIFY_DIST_SHAPE_H
#define GA_VERIFY_DIST_SHAPE_H

#include "ga/dist.h"

enum { DIST_GRID_BYTES = 48 };

/* The options of a shape, as texts and numbers of the command line. */
typedef struct dist_shape {
  const char *method, *order, *tokens, *queries, *grid, *need, *type, *partials; /* queries, grid: NULL = not given */
  int64_t ranks, heads, kv_heads, head_dim, v_dim, window, inner, prefetch, groups, chunks;
  bool full, backward, unordered;
} dist_shape;
#define DIST_SHAPE_INIT                                                                                          \
  {                                                                                                              \
    .method = "zigzag", .order = "method", .tokens = "4096", .need = "method", .type = "f32", .partials = "f32", \
    .heads = 8, .kv_heads = 2, .head_dim = 64, .chunks = 4                                                       \
  }

/* Layouts, and a description that points to them. Release with dist_end, also after a failure. */
typedef struct dist_task {
  ga_dist_layout *q, *kv;
  ga_dist_desc desc;
  ga_dist_grid grid;
  int64_t *q_lengths, *kv_lengths; /* [documents] numbers of tokens */
  int32_t documents;
} dist_task;

/* Checks the names of --order and --need. GA_ERR_ARG: one is unknown. */
GA_NODISCARD ga_status dist_check_shape(const dist_shape *s);
/* Makes the task of one method; NULL = the method of the shape. GA_ERR_ARG, GA_ERR_SHAPE: an option is wrong. */
GA_NODISCARD ga_status dist_begin(const dist_shape *s, const char *method, dist_task *t);
void dist_end(dist_task *t);

#endif
