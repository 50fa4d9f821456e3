/* Tiles in the memory of a device, by the same calls as on a CPU but in the plan's own type. A call's O has that type,
 * too, and ga_attn_merge joins it to the sums, which are f32. */
#include "base/hash.h"
#include "base/mem.h"
#include "core/device.h"
#include "dist/tile.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "ga/layer.h"

#define GRAIN 64 /* numbers: parts of the scratch begin at multiples of 256 bytes */

static int64_t grains(int64_t n) { return (int64_t)ga_round_up((uint64_t)n, GRAIN); }

ga_status dist_device_is_due(const tile_device *d, const void *desc, size_t bytes, bool *due) {
  tile_shapes *s = d->rehearsal;
  *due = true;
  if (!s) return GA_OK;
  const uint64_t hash = ga_fnv64(GA_FNV64_START, desc, bytes);
  for (int64_t i = 0; i < s->n && *due; i++) *due = s->seen[i] != hash;
  if (!*due) return GA_OK;
  GA_TRY(dist_grow(&s->seen, s->n, &s->room, sizeof *s->seen, "shapes of tiles"));
  s->seen[s->n++] = hash;
  return GA_OK;
}

/* --- blocks --- */

/* Rows that are neighbours in both views: [at, at + n) of `large` are [row, row + n) of `small`. */
typedef struct row_run {
  int64_t at, row, n;
} row_run;

/* The next run from piece *i of `small` on; false when there is none. */
static bool next_run(const block_view *large, const block_view *small, int64_t *i, row_run *r) {
  const ga_dist_layout *l = dist_layout_of(small->p, small->tensor);
  if (*i == 0) *r = (row_run){0};
  r->row += r->n;
  r->n = 0;
  for (; *i < small->n_pieces; ++*i) {
    const int64_t stretch = small->pieces ? small->pieces[*i] : *i, at = dist_view_row(large, stretch);
    if (r->n && at != r->at + r->n) break;
    if (!r->n) r->at = at;
    r->n += dist_stretch_at(l, small->owner, stretch)->count;
  }
  return r->n > 0;
}

static size_t row_bytes(const block_view *v, int part) {
  return (size_t)(v->heads * (int64_t)v->dim[part] * dist_dtype_bytes(v->dtype));
}

ga_status dist_device_copy(ga_stream *stream, const block_view *to, const block_view *from) {
  ga_status (*const copy)(ga_stream *, const ga_row_copy *) = stream->device->ops->copy_rows;
  row_run r;
  for (int64_t i = 0; next_run(from, to, &i, &r);) {
    for (int c = 0; c < to->n_parts; c++) {
      const ga_row_copy rows = {.dst = dist_row_at(to, c, r.row, to->head),
                                .src = dist_row_at(from, c, r.at, to->head),
                                .dst_pitch = row_bytes(to, c),
                                .src_pitch = row_bytes(from, c),
                                .width = row_bytes(to, c),
                                .rows = (size_t)r.n};
      GA_TRY(copy(stream, &rows));
    }
    if (!to->lse) continue;
    const ga_row_copy lse = {.dst = to->lse + r.row,
                             .src = from->lse + (to->head - from->head) * from->rows + r.at,
                             .dst_pitch = (size_t)to->rows * sizeof *to->lse,
                             .src_pitch = (size_t)from->rows * sizeof *from->lse,
                             .width = (size_t)r.n * sizeof *to->lse,
                             .rows = (size_t)to->heads};
    GA_TRY(copy(stream, &lse));
  }
  return GA_OK;
}

static ga_status merge_o(ga_ctx *ctx, const tile_device *d, const block_view *to, const block_view *from,
                         const row_run *r) {
  ga_attn_merge_desc m = GA_ATTN_MERGE_DESC_INIT;
  bool due;
  m.rows = r->n, m.heads = from->heads, m.dim = from->dim[0];
  m.o_head = m.part_head = from->dim[0];
  m.o_token = (int64_t)to->heads * to->dim[0], m.part_token = (int64_t)from->heads * from->dim[0];
  m.lse_head = to->rows, m.part_lse_head = from->rows;
  const ga_attn_merge_io io = {.o = dist_row_at(to, 0, r->at, from->head),
                               .lse = to->lse + (from->head - to->head) * to->rows + r->at,
                               .part = dist_row_at(from, 0, r->row, from->head),
                               .part_lse = from->lse + r->row};
  GA_TRY(dist_device_is_due(d, &m, sizeof m, &due));
  return due ? ga_attn_merge(ctx, &m, &io, d->stream) : GA_OK;
}

static ga_status add_part_on_device(ga_ctx *ctx, const tile_device *d, const block_view *to, const block_view *from,
                                    int c, const row_run *r) {
  ga_add_desc a = GA_ADD_DESC_INIT;
  bool due;
  a.rows = r->n, a.width = (int64_t)from->heads * from->dim[c];
  a.x_stride = a.y_stride = (int64_t)to->heads * to->dim[c], a.b_stride = a.width;
  void *const sum = dist_row_at(to, c, r->at, from->head);
  const ga_add_io io = {.x = sum, .b = dist_row_at(from, c, r->row, from->head), .y = sum};
  GA_TRY(dist_device_is_due(d, &a, sizeof a, &due));
  return due ? ga_add(ctx, &a, &io, d->stream) : GA_OK;
}

ga_status dist_device_merge(ga_ctx *ctx, const tile_device *d, const block_view *to, const block_view *from) {
  row_run r;
  for (int64_t i = 0; next_run(to, from, &i, &r);) {
    if (from->tensor == DIST_O)
      GA_TRY(merge_o(ctx, d, to, from, &r));
    else
      for (int c = 0; c < from->n_parts; c++) GA_TRY(add_part_on_device(ctx, d, to, from, c, &r));
  }
  return GA_OK;
}

ga_status dist_device_clear(ga_stream *stream, const block_view *v) {
  const uint32_t minus_infinity = 0xff800000;
  ga_status (*const fill)(ga_stream *, void *, uint32_t, size_t) = stream->device->sharing->fill;
  for (int c = 0; c < v->n_parts; c++)
    if (v->part[c]) GA_TRY(fill(stream, v->part[c], 0, (size_t)(v->rows * v->heads * (int64_t)v->dim[c])));
  return v->lse ? fill(stream, v->lse, minus_infinity, (size_t)(v->rows * v->heads)) : GA_OK;
}

ga_status dist_device_clear_rows(ga_stream *stream, const block_view *v, dist_rows rows) {
  for (int c = 0; c < v->n_parts; c++)
    GA_TRY(stream->device->sharing->fill(stream, dist_row_at(v, c, rows.from, v->head), 0,
                                         (size_t)((rows.to - rows.from) * v->heads * (int64_t)v->dim[c])));
  return GA_OK;
}

ga_status dist_device_convert(ga_ctx *ctx, const tile_device *d, const block_view *to, const block_view *from) {
  for (int c = 0; c < to->n_parts; c++) {
    ga_convert_desc x = GA_CONVERT_DESC_INIT;
    bool due;
    x.rows = to->rows, x.width = (int64_t)to->heads * to->dim[c], x.x_dtype = from->dtype, x.y_dtype = to->dtype;
    const ga_convert_io io = {.x = from->part[c], .y = to->part[c]};
    GA_TRY(dist_device_is_due(d, &x, sizeof x, &due));
    if (due && to->rows) GA_TRY(ga_convert(ctx, &x, &io, d->stream));
  }
  return GA_OK;
}

/* --- tiles --- */

static const span_of attention_span = {GA_DIST_WORK_ATTENTION, "", -1, -1, 0};

static ga_attn_strides strides_in(const block_view *v, int part) {
  return (ga_attn_strides){
      .batch = v->rows * v->heads * v->dim[part], .token = (int64_t)v->heads * v->dim[part], .head = v->dim[part]};
}

/* Returns the room that O of `rows` rows of a head takes in the scratch. */
static int64_t floats_of_part(const dist_problem *p, int64_t rows) {
  return grains(ga_div_up(rows * p->v_dim * dist_dtype_bytes(p->dtype), (int64_t)sizeof(float)));
}

/* Joins O, [queries, heads, v_dim], and LSE, [heads, queries], of a call to the sums. */
static ga_status merge_result(const tile_job *job, const tile_call *c, const tile_heads *h, int64_t row,
                              const ga_attn_io *made) {
  const block_view *out = &job->out;
  const int32_t dim = out->dim[0];
  ga_attn_merge_desc m = GA_ATTN_MERGE_DESC_INIT;
  bool due;
  m.rows = c->n_q, m.heads = h->heads, m.dim = dim, m.part_dtype = job->q.p->dtype;
  m.o_token = (int64_t)out->heads * dim, m.o_head = dim, m.lse_head = out->rows;
  m.part_token = (int64_t)h->heads * dim, m.part_head = dim;
  m.part_lse_head = c->n_q;
  const ga_attn_merge_io io = {.o = dist_row_at(out, 0, row, h->head),
                               .lse = out->lse + (h->head - out->head) * out->rows + row,
                               .part = made->o,
                               .part_lse = made->lse};
  GA_TRY(dist_device_is_due(job->device, &m, sizeof m, &due));
  if (!due) return GA_OK;
  const span_of span = {GA_DIST_WORK_MERGE, dist_tensor_name(DIST_O), -1, -1, 0};
  GA_TRY(dist_span_begin(job->device->spans, job->device->stream, &span));
  GA_TRY(ga_attn_merge(job->ctx, &m, &io, job->device->stream));
  return dist_span_end(job->device->spans, job->device->stream);
}

ga_status dist_device_forward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at) {
  const dist_problem *p = job->q.p;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  bool due;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.q_dtype = d.kv_dtype = d.o_dtype = p->dtype;
  d.flags = (uint32_t)GA_ATTN_LSE | (c->causal ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  d.softcap = p->softcap, d.scale = p->scale;
  const ga_attn_io io = {.q = dist_row_at(&job->q, 0, at->q, h->head),
                         .k = dist_row_at(&job->kv, 0, at->kv, h->kv_head),
                         .v = dist_row_at(&job->kv, 1, at->kv, h->kv_head),
                         .o = job->scratch,
                         .lse = job->scratch + floats_of_part(p, c->n_q * h->heads),
                         .q_stride = strides_in(&job->q, 0),
                         .k_stride = strides_in(&job->kv, 0),
                         .v_stride = strides_in(&job->kv, 1)};
  GA_TRY(dist_device_is_due(job->device, &d, sizeof d, &due));
  if (due) {
    GA_TRY(dist_span_begin(job->device->spans, job->device->stream, &attention_span));
    GA_TRY(ga_attn(job->ctx, &d, &io, job->device->stream));
    GA_TRY(dist_span_end(job->device->spans, job->device->stream));
  }
  return merge_result(job, c, h, at->out, &io);
}

/* A call wants the LSE of its own rows, one head behind the other. */
static ga_status lse_of_call(const tile_job *job, const tile_call *c, const tile_heads *h, int64_t row,
                             const float **out) {
  const block_view *g = &job->q;
  const float *const from = g->lse + (h->head - g->head) * g->rows + row;
  *out = from;
  if (g->rows == c->n_q || h->heads == 1) return GA_OK;
  const ga_row_copy rows = {.dst = job->scratch,
                            .src = from,
                            .dst_pitch = (size_t)c->n_q * sizeof *from,
                            .src_pitch = (size_t)g->rows * sizeof *from,
                            .width = (size_t)c->n_q * sizeof *from,
                            .rows = (size_t)h->heads};
  *out = job->scratch;
  return job->device->stream->device->ops->copy_rows(job->device->stream, &rows);
}

ga_status dist_device_backward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at) {
  const dist_problem *p = job->q.p;
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  bool due;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.dtype = p->dtype, d.grad_dtype = GA_F32;
  d.flags = c->adds | dist_order_flag(p) | (c->causal ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  d.softcap = p->softcap, d.scale = p->scale;
  ga_attn_bwd_io io = {.q = dist_row_at(&job->q, 0, at->q, h->head),
                       .o = dist_row_at(&job->q, 1, at->q, h->head),
                       .dout = dist_row_at(&job->q, 2, at->q, h->head),
                       .k = dist_row_at(&job->kv, 0, at->kv, h->kv_head),
                       .v = dist_row_at(&job->kv, 1, at->kv, h->kv_head),
                       .dq = dist_row_at(&job->out, 0, at->out, h->head),
                       .dk = dist_row_at(&job->dkv, 0, at->dkv, h->kv_head),
                       .dv = dist_row_at(&job->dkv, 1, at->dkv, h->kv_head),
                       .q_stride = strides_in(&job->q, 0),
                       .o_stride = strides_in(&job->q, 1),
                       .dout_stride = strides_in(&job->q, 2),
                       .k_stride = strides_in(&job->kv, 0),
                       .v_stride = strides_in(&job->kv, 1),
                       .dq_stride = strides_in(&job->out, 0),
                       .dk_stride = strides_in(&job->dkv, 0),
                       .dv_stride = strides_in(&job->dkv, 1)};
  GA_TRY(dist_device_is_due(job->device, &d, sizeof d, &due));
  if (!due) return GA_OK;
  GA_TRY(dist_span_begin(job->device->spans, job->device->stream, &attention_span));
  GA_TRY(lse_of_call(job, c, h, at->q, &io.lse));
  GA_TRY(ga_attn_bwd(job->ctx, &d, &io, job->device->stream));
  return dist_span_end(job->device->spans, job->device->stream);
}

/* Returns the rows of queries of n tiles whose calls may be joined. */
static int64_t rows_of_joined_tiles(const dist_problem *p, const dist_step *tiles, int64_t n) {
  int64_t rows = 0;
  for (int64_t i = 0; i < n; i++)
    if (i == 0 || tiles[i].q_stretch != tiles[i - 1].q_stretch)
      rows += dist_stretch_at(p->q, tiles[i].q_owner, tiles[i].q_stretch)->count;
  return rows * tiles->heads;
}

int64_t dist_device_scratch(const ga_dist_plan *plan, int32_t rank) {
  const dist_problem *p = &plan->p;
  const dist_program *g = &plan->programs[rank];
  int64_t most = 1;
  for (int64_t i = 0, n; i < g->n_steps; i += n) {
    n = dist_tiles_together(p, &g->steps[i], g->n_steps - i);
    if (g->steps[i].kind != DIST_TILE) continue;
    const int64_t rows = rows_of_joined_tiles(p, &g->steps[i], n);
    most = ga_max_i64(most, floats_of_part(p, rows) + grains(rows));
  }
  return most;
}
