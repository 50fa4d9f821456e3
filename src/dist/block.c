/* Blocks: where their rows are, copies, and adding partial results. */
#include "dist/block.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

/* --- numbers of a type --- */

void dist_load_row(int32_t dtype, const void *from, int64_t n, float *to) {
  const uint16_t *h = from;
  if (dtype == GA_F32)
    memcpy(to, from, (size_t)n * sizeof *to);
  else if (dtype == GA_F16)
    for (int64_t i = 0; i < n; i++) to[i] = ga_f16_to_f32(h[i]);
  else
    for (int64_t i = 0; i < n; i++) to[i] = ga_bf16_to_f32(h[i]);
}

void dist_store_row(int32_t dtype, const float *from, int64_t n, void *to) {
  uint16_t *h = to;
  if (dtype == GA_F32)
    memcpy(to, from, (size_t)n * sizeof *from);
  else if (dtype == GA_F16)
    for (int64_t i = 0; i < n; i++) h[i] = ga_f32_to_f16(from[i]);
  else
    for (int64_t i = 0; i < n; i++) h[i] = ga_f32_to_bf16(from[i]);
}

void dist_add_row(int32_t dtype, void *to, const float *from, int64_t n) {
  float sum[MOST_ROW];
  dist_load_row(dtype, to, n, sum);
  for (int64_t i = 0; i < n; i++) sum[i] += from[i];
  dist_store_row(dtype, sum, n, to);
}

/* --- views --- */

static const char *const tensor_names[] = {"Q", "KV", "O", "Q,O,dO", "dQ", "dKV"};

const char *dist_tensor_name(int32_t tensor) { return tensor_names[tensor % 6]; }

static void set_dims(block_view *v) {
  const int32_t d = v->p->head_dim, dv = v->p->v_dim;
  const int32_t dims[][BLOCK_PARTS] = {{d, 0, 0}, {d, dv, 0}, {dv, 0, 0}, {d, dv, dv}, {d, 0, 0}, {d, dv, 0}};
  for (int c = 0; c < BLOCK_PARTS; c++) {
    v->dim[c] = dims[v->tensor][c];
    if (v->dim[c]) v->n_parts = c + 1;
  }
}

static bool has_lse(int32_t tensor) { return tensor == DIST_O || tensor == DIST_G; }

block_view dist_view_of_step(const ga_dist_plan *plan, const dist_step *s, void *memory) {
  block_view v = {.p = &plan->p,
                  .tensor = s->tensor,
                  .dtype = (s->kind == DIST_OPEN ? dist_dtype_of : dist_sent_dtype)(&plan->p, s->tensor),
                  .owner = s->owner,
                  .head = s->head,
                  .heads = s->heads,
                  .pieces = plan->pieces + s->piece,
                  .n_pieces = s->pieces};
  const ga_dist_layout *l = dist_layout_of(v.p, s->tensor);
  for (int64_t i = 0; i < s->pieces; i++) v.rows += dist_stretch_at(l, s->owner, v.pieces[i])->count;
  set_dims(&v);
  unsigned char *at = memory;
  if (has_lse(s->tensor)) {
    v.lse = memory;
    at += (size_t)(v.rows * v.heads) * sizeof *v.lse;
  }
  for (int c = 0; c < v.n_parts; c++) {
    v.part[c] = at;
    at += v.rows * v.heads * v.dim[c] * dist_dtype_bytes(v.dtype);
  }
  return v;
}

/* Its pointers are NULL. */
static block_view view_of_own(const dist_problem *p, int32_t tensor, int32_t rank) {
  const ga_dist_layout *l = dist_layout_of(p, tensor);
  block_view v = {.p = p,
                  .tensor = tensor,
                  .dtype = dist_dtype_of(p, tensor),
                  .owner = rank,
                  .n_pieces = dist_stretches(l, rank),
                  .rows = l->rows[rank],
                  .heads = dist_is_of_keys(tensor) ? p->kv_heads : p->q_heads};
  set_dims(&v);
  return v;
}

block_view dist_view_of_rows(const dist_problem *p, int32_t tensor, int64_t rows, dist_heads h, void *memory) {
  block_view v = {.p = p,
                  .tensor = tensor,
                  .dtype = dist_sent_dtype(p, tensor),
                  .owner = -1,
                  .head = h.begin,
                  .heads = h.end - h.begin,
                  .rows = rows};
  set_dims(&v);
  if (has_lse(tensor)) v.lse = memory;
  return v;
}

/* Inputs are read through views that could write; nothing does. */
static void *as_writable(const void *p) {
  void *q;
  memcpy(&q, &p, sizeof q);
  return q;
}

block_view dist_caller_view(const dist_problem *p, const ga_dist_tensors *io, int32_t rank, int32_t slot) {
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const int32_t tensors[2][DIST_OWN_SLOTS] = {{DIST_Q, DIST_KV, DIST_O, DIST_DKV},
                                              {DIST_G, DIST_KV, DIST_DQ, DIST_DKV}};
  block_view v = view_of_own(p, tensors[backward][slot], rank);
  void *const parts[][BLOCK_PARTS] = {{as_writable(io->q)},
                                      {as_writable(io->k), as_writable(io->v)},
                                      {io->o},
                                      {as_writable(io->q), io->o, as_writable(io->dout)},
                                      {io->dq},
                                      {io->dk, io->dv}};
  memcpy(v.part, parts[v.tensor], sizeof v.part);
  v.dtype = p->dtype;
  if (v.tensor == DIST_O || v.tensor == DIST_G) v.lse = io->lse;
  return v;
}

int64_t dist_view_row(const block_view *v, int64_t stretch) {
  const ga_dist_layout *l = dist_layout_of(v->p, v->tensor);
  if (!v->pieces) return dist_stretch_at(l, v->owner, stretch)->row;
  int64_t row = 0;
  for (int64_t i = 0; i < v->n_pieces && v->pieces[i] != stretch; i++)
    row += dist_stretch_at(l, v->owner, v->pieces[i])->count;
  return row;
}

void dist_clear_block(const block_view *v) {
  for (int c = 0; c < v->n_parts; c++)
    if (v->part[c]) memset(v->part[c], 0, (size_t)(v->rows * v->heads * v->dim[c] * dist_dtype_bytes(v->dtype)));
  for (int64_t i = 0; v->lse && i < v->rows * v->heads; i++) v->lse[i] = -INFINITY;
}

void dist_clear_rows(const block_view *v, dist_rows rows) {
  for (int c = 0; c < v->n_parts; c++)
    memset(dist_row_at(v, c, rows.from, v->head), 0,
           (size_t)((rows.to - rows.from) * v->heads * v->dim[c] * dist_dtype_bytes(v->dtype)));
}

void dist_convert_block(const block_view *to, const block_view *from) {
  float row[MOST_ROW];
  for (int c = 0; c < to->n_parts; c++)
    for (int64_t i = 0; i < to->rows * to->heads; i++) {
      const int64_t at = i * to->dim[c];
      dist_load_row(from->dtype, (const char *)from->part[c] + at * dist_dtype_bytes(from->dtype), to->dim[c], row);
      dist_store_row(to->dtype, row, to->dim[c], (char *)to->part[c] + at * dist_dtype_bytes(to->dtype));
    }
}

/* Rows [row, row + n) of `small`, which are those from `at` on of `large`; heads of `small`. */
typedef void (*row_fn)(const block_view *large, int64_t at, const block_view *small, int64_t row);

/* Calls fn for each row that `small` has. */
static void each_shared_row(const block_view *large, const block_view *small, row_fn fn) {
  const ga_dist_layout *l = dist_layout_of(small->p, small->tensor);
  int64_t row = 0;
  for (int64_t i = 0; i < small->n_pieces; i++) {
    const int64_t stretch = small->pieces ? small->pieces[i] : i;
    const int64_t at = dist_view_row(large, stretch), n = dist_stretch_at(l, small->owner, stretch)->count;
    for (int64_t j = 0; j < n; j++) fn(large, at + j, small, row + j);
    row += n;
  }
}

void *dist_row_at(const block_view *v, int part, int64_t row, int32_t head) {
  return (char *)v->part[part] + (row * v->heads + head - v->head) * v->dim[part] * dist_dtype_bytes(v->dtype);
}
static float *lse_of(const block_view *v, int64_t row, int32_t head) {
  return v->lse + (head - v->head) * v->rows + row;
}

static void copy_one_row(const block_view *from, int64_t at, const block_view *to, int64_t row) {
  float one[MOST_ROW];
  for (int c = 0; c < to->n_parts; c++) {
    if (to->dtype == from->dtype) {
      memcpy(dist_row_at(to, c, row, to->head), dist_row_at(from, c, at, to->head),
             (size_t)(to->heads * (int64_t)to->dim[c] * dist_dtype_bytes(to->dtype)));
      continue;
    }
    for (int32_t h = to->head; h < to->head + to->heads; h++) {
      dist_load_row(from->dtype, dist_row_at(from, c, at, h), to->dim[c], one);
      dist_store_row(to->dtype, one, to->dim[c], dist_row_at(to, c, row, h));
    }
  }
  for (int32_t h = to->head; to->lse && h < to->head + to->heads; h++) *lse_of(to, row, h) = *lse_of(from, at, h);
}

void dist_copy_block(const block_view *to, const block_view *from) { each_shared_row(from, to, copy_one_row); }

void dist_merge_row(int32_t dtype, void *o, float *lse, const float *more, float more_lse, int32_t dim) {
  if (more_lse == -INFINITY) return;
  if (*lse == -INFINITY) {
    dist_store_row(dtype, more, dim, o);
    *lse = more_lse;
    return;
  }
  const double a = (double)*lse, b = (double)more_lse, top = a > b ? a : b;
  const double wa = exp(a - top), wb = exp(b - top), sum = wa + wb;
  float row[MOST_ROW];
  dist_load_row(dtype, o, dim, row);
  for (int32_t c = 0; c < dim; c++) row[c] = (float)((wa * (double)row[c] + wb * (double)more[c]) / sum);
  dist_store_row(dtype, row, dim, o);
  *lse = (float)(top + log(sum));
}

static void merge_one_row(const block_view *to, int64_t at, const block_view *from, int64_t row) {
  float more[MOST_ROW];
  for (int32_t h = from->head; h < from->head + from->heads; h++)
    for (int c = 0; c < from->n_parts; c++) {
      dist_load_row(from->dtype, dist_row_at(from, c, row, h), from->dim[c], more);
      if (from->tensor == DIST_O)
        dist_merge_row(to->dtype, dist_row_at(to, c, at, h), lse_of(to, at, h), more, *lse_of(from, row, h),
                       from->dim[c]);
      else
        dist_add_row(to->dtype, dist_row_at(to, c, at, h), more, from->dim[c]);
    }
}

void dist_merge_block(const block_view *to, const block_view *from) { each_shared_row(to, from, merge_one_row); }
