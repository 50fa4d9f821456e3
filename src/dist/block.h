/* Views of blocks in memory. A block is rows of one rank for some heads, stored in a slot of a plan's program or in the
 * caller's tensors. */
#ifndef GA_DIST_BLOCK_H
#define GA_DIST_BLOCK_H

#include "dist/plan.h"

/* BLOCK_PARTS is the largest number of parts (tensors) of a block. MOST_ROW is the largest head_dim and v_dim, which
 * plan.c checks. */
enum { BLOCK_PARTS = 3, MOST_ROW = 1024 };

/* View of a block: the addresses of its tensors ("parts"), such as K and V of a DIST_KV block. part[c] is [rows, heads,
 * dim[c]]; lse, the log-sum-exp, is [heads, rows]. Rows are those of rank `owner`, heads begin at `head`, and tensor is
 * a dist_tensor value. A slot holds the LSE first, then the parts in order. */
typedef struct block_view {
  const dist_problem *p;
  int32_t tensor, owner, head, heads, n_parts;
  int32_t dtype; /* Type of the parts' elements, a ga_dtype value. */
  /* Indices of the owner's stretches (dist_stretch) that the block has, [n_pieces]. NULL: all stretches. */
  const int32_t *pieces;
  int64_t n_pieces, rows;
  void *part[BLOCK_PARTS];
  int32_t dim[BLOCK_PARTS];
  float *lse; /* Log-sum-exp of each row and head. NULL: the tensor has none. */
} block_view;

/* Returns the name of a dist_tensor value, such as "KV", as a static string. */
const char *dist_tensor_name(int32_t tensor);

/* Returns a view of the block that step s opens, sends or receives, stored in `memory`, which has s->bytes bytes. */
block_view dist_view_of_step(const ga_dist_plan *plan, const dist_step *s, void *memory);
/* Returns a view of the caller's tensors in `io` that belong to one of the rank's own slots, DIST_SLOT_Q to
 * DIST_SLOT_DKV. */
block_view dist_caller_view(const dist_problem *p, const ga_dist_tensors *io, int32_t rank, int32_t slot);
/* Returns a view of `rows` rows and the heads h in `memory`, with the type in which the tensor is sent. The view's
 * owner is -1. */
block_view dist_view_of_rows(const dist_problem *p, int32_t tensor, int64_t rows, dist_heads h, void *memory);
/* Returns the row of the view at which the owner's stretch number `stretch` begins. */
int64_t dist_view_row(const block_view *v, int64_t stretch);

/* Copies all rows and heads of `to` from `from`, which contains them. Converts the elements where the types differ. */
void dist_copy_block(const block_view *to, const block_view *from);
/* Merges the partial result `from` into `to`, whose rows and heads include all of from's. Partial outputs O are
 * weighted by their LSEs, in double precision; gradients are added. */
void dist_merge_block(const block_view *to, const block_view *from);
/* Merges `more`, a row of a partial output O in f32 with log-sum-exp more_lse, into the row `o` of type dtype with
 * log-sum-exp *lse. A row whose log-sum-exp is -infinity has weight 0. */
void dist_merge_row(int32_t dtype, void *o, float *lse, const float *more, float more_lse, int32_t dim);
/* dist_load_row converts n numbers at `from`, of type dtype, to f32. dist_store_row converts n f32 numbers to dtype,
 * rounded to nearest. */
void dist_load_row(int32_t dtype, const void *from, int64_t n, float *to);
void dist_store_row(int32_t dtype, const float *from, int64_t n, void *to);
/* Adds the n f32 numbers at `from` to the n numbers at `to`, which have type dtype. */
void dist_add_row(int32_t dtype, void *to, const float *from, int64_t n);
/* Returns the address of head `head` in row `row` of part number `part` of the view. */
void *dist_row_at(const block_view *v, int part, int64_t row, int32_t head);
/* Copies all rows and heads of `to` from `from`, which has the same rows and heads. Converts the elements, since the
 * views have different types. */
void dist_convert_block(const block_view *to, const block_view *from);
/* Writes an empty partial result to the block: zeros to all parts, and -infinity to the LSE. */
void dist_clear_block(const block_view *v);
/* Writes zeros to rows rows.from to rows.to - 1 of a block that has no LSE. */
void dist_clear_rows(const block_view *v, dist_rows rows);

#endif
