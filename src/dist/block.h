/* Blocks in memory: rows of one rank, for some heads, in a slot of a program or in the caller's tensors. */
#ifndef GA_DIST_BLOCK_H
#define GA_DIST_BLOCK_H

#include "dist/plan.h"

enum { BLOCK_PARTS = 3, MOST_ROW = 1024 }; /* Largest head_dim and v_dim, which plan.c checks (MOST_ROW). */

/* Addresses of a block's parts, such as K and V of a DIST_KV. Part c is [rows, heads, dim[c]]; the log-sum-exp (LSE) is
 * [heads, rows]. A slot holds the LSE first, then the parts in order. */
typedef struct block_view {
  const dist_problem *p;
  int32_t tensor, owner, head, heads, n_parts;
  int32_t dtype;         /* Type of the parts, a ga_dtype value. */
  const int32_t *pieces; /* Indices of the owner's stretches that the block has. NULL: all. */
  int64_t n_pieces, rows;
  void *part[BLOCK_PARTS];
  int32_t dim[BLOCK_PARTS];
  float *lse; /* LSE of the rows. NULL: the tensor has none. */
} block_view;

/* Returns the static name of a dist_tensor, such as "KV". */
const char *dist_tensor_name(int32_t tensor);

/* Returns the view of step s's block in `memory`, which has s->bytes bytes. */
block_view dist_view_of_step(const ga_dist_plan *plan, const dist_step *s, void *memory);
/* Returns the view of the rank's own tensor of a slot below DIST_OWN_SLOTS, in the caller's memory. */
block_view dist_caller_view(const dist_problem *p, const ga_dist_tensors *io, int32_t rank, int32_t slot);
/* Returns the view of `rows` rows of heads h in `memory`, in the type in which they are sent. Its owner is -1. */
block_view dist_view_of_rows(const dist_problem *p, int32_t tensor, int64_t rows, dist_heads h, void *memory);
/* Returns the first row, in the view, of stretch number `stretch` of the owner. */
int64_t dist_view_row(const block_view *v, int64_t stretch);

/* Copies all rows and heads of `to` from `from`, which contains them. Converts where the types differ. */
void dist_copy_block(const block_view *to, const block_view *from);
/* Merges the partial result `from` into `to`, which contains its rows and heads. O is weighted by the LSEs, in double;
 * gradients are added. */
void dist_merge_block(const block_view *to, const block_view *from);
/* Merges one row of partial O, `more` in f32 with LSE more_lse, into the row `o` of type dtype. A row whose LSE is
 * -infinity has no weight. */
void dist_merge_row(int32_t dtype, void *o, float *lse, const float *more, float more_lse, int32_t dim);
/* dist_load_row converts n numbers of type dtype to f32. dist_store_row converts n f32 numbers to dtype, rounded to
 * nearest. */
void dist_load_row(int32_t dtype, const void *from, int64_t n, float *to);
void dist_store_row(int32_t dtype, const float *from, int64_t n, void *to);
/* Adds the n f32 numbers `from` to the n numbers `to` of type dtype. */
void dist_add_row(int32_t dtype, void *to, const float *from, int64_t n);
/* Returns the address of head `head` in row `row` of a part. */
void *dist_row_at(const block_view *v, int part, int64_t row, int32_t head);
/* Copies all rows of `to` from `from`, which has another type. */
void dist_convert_block(const block_view *to, const block_view *from);
/* Writes an empty result: zeros, and -infinity to the LSE. */
void dist_clear_block(const block_view *v);
/* Writes zeros to rows [rows.from, rows.to) of a block without LSE. */
void dist_clear_rows(const block_view *v, dist_rows rows);

#endif
