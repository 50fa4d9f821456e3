/* Blocks in memory: rows of one rank, for some heads, in a slot or in the caller's tensors. */
#ifndef GA_DIST_BLOCK_H
#define GA_DIST_BLOCK_H

#include "dist/plan.h"

enum { BLOCK_PARTS = 3, MOST_ROW = 1024 }; /* MOST_ROW: head_dim and v_dim, plan.c */

/* Part c is [rows, heads, dim[c]]; LSE is [heads, rows]. In a slot one lies behind the other, LSE first. */
typedef struct block_view {
  const dist_problem *p;
  int32_t tensor, owner, head, heads, n_parts;
  int32_t dtype;         /* of the parts */
  const int32_t *pieces; /* stretches of the owner, NULL = all */
  int64_t n_pieces, rows;
  void *part[BLOCK_PARTS];
  int32_t dim[BLOCK_PARTS];
  float *lse; /* NULL where the tensor has none */
} block_view;

/* Of what a step puts into memory of its bytes. */
block_view dist_view_of_step(const ga_dist_plan *plan, const dist_step *s, void *memory);
/* Of a rank's own tensors; the caller fills in the pointers. */
block_view dist_view_of_own(const dist_problem *p, int32_t tensor, int32_t rank);
/* So many rows of some heads, as they travel, of no one owner. */
block_view dist_view_of_rows(const dist_problem *p, int32_t tensor, int64_t rows, dist_heads h, void *memory);
/* Row of the view at which a stretch of the owner begins. */
int64_t dist_view_row(const block_view *v, int64_t stretch);

/* All rows and heads of `to` out of those of `from`, whose type may be another. */
void dist_copy_block(const block_view *to, const block_view *from);
/* A partial result of rows and heads that `to` has, too. O by LSE in double, the others by adding. */
void dist_merge_block(const block_view *to, const block_view *from);
/* One row of partial O, f32, into one of a type: of no weight when its LSE is -infinity. */
void dist_merge_row(int32_t dtype, void *o, float *lse, const float *more, float more_lse, int32_t dim);
/* n numbers to f32, and back with rounding to nearest. */
void dist_load_row(int32_t dtype, const void *from, int64_t n, float *to);
void dist_store_row(int32_t dtype, const float *from, int64_t n, void *to);
/* from is added to n numbers of a type. */
void dist_add_row(int32_t dtype, void *to, const float *from, int64_t n);
/* Where heads from `head` on of a row of a part begin. */
void *dist_row_at(const block_view *v, int part, int64_t row, int32_t head);
/* All rows of `to` out of those of `from`, which has another type. */
void dist_convert_block(const block_view *to, const block_view *from);
/* An empty result: zeros, LSE -infinity. */
void dist_clear_block(const block_view *v);
/* Zeros in some rows of a block without LSE. */
void dist_clear_rows(const block_view *v, dist_rows rows);

#endif
