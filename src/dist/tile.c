/* A tile becomes one or two calls of f32 rows: those of a CPU; inputs of 16 bits are widened before, which is exact.
 * ga_attn puts the last query at the last key; so keys that no query sees are left out, and queries that stand behind
 * the last key become a call of their own, without the causal mask. */
#include "dist/tile.h"

#include "base/mem.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"

int dist_tile_calls(const dist_problem *p, const dist_stretch *q, const dist_stretch *k, tile_call out[2]) {
  const dist_band b = dist_band_of(p, q, k);
  const bool causal = p->flags & GA_DIST_CAUSAL;
  const int64_t window = p->window ? b.high - b.low + 1 : 0;
  int n = 0;
  const int64_t inside = causal ? ga_min_i64(q->count, k->count - b.high) : 0; /* queries at or before the last key */
  if (causal && inside > 0) {
    const int64_t blind = ga_max_i64(0, -b.high); /* the first ones see nothing yet */
    if (blind < inside)
      out[n++] =
          (tile_call){.q = blind, .n_q = inside - blind, .n_k = inside + b.high, .window = window, .causal = true};
  }
  const int64_t from = ga_max_i64(0, inside);
  tile_call rest = {.q = from, .n_q = q->count - from, .n_k = k->count};
  if (p->window) { /* query i sees keys j >= i + low: those from k->count - low on see none */
    rest.n_q = ga_min_i64(rest.n_q, k->count - b.low - from);
    rest.window = rest.n_k - b.low - from - rest.n_q + 1;
  }
  if (rest.n_q > 0) out[n++] = rest;
  return n;
}

/* Rows of one part in f32: those of a view, or a copy of a view of 16 bits in the scratch. */
typedef struct operand {
  float *data;
  ga_attn_strides stride;
} operand;

static ga_attn_strides strides_of_rows(int64_t rows, int32_t heads, int32_t dim) {
  return (ga_attn_strides){.batch = rows * heads * dim, .token = (int64_t)heads * dim, .head = dim};
}

/* Takes n numbers of the scratch. */
static float *take_scratch(float **scratch, int64_t n) {
  float *const p = *scratch;
  *scratch += n;
  return p;
}

static operand operand_rows(const block_view *v, int part, int64_t row, int64_t rows, int32_t head, int32_t heads,
                            float **scratch) {
  if (v->dtype == GA_F32)
    return (operand){dist_row_at(v, part, row, head), strides_of_rows(v->rows, v->heads, v->dim[part])};
  const int64_t width = (int64_t)heads * v->dim[part];
  const operand x = {take_scratch(scratch, rows * width), strides_of_rows(rows, heads, v->dim[part])};
  for (int64_t i = 0; i < rows; i++)
    dist_load_row(v->dtype, dist_row_at(v, part, row + i, head), width, x.data + i * width);
  return x;
}

/* Where a call leaves its gradients: the view's rows when they are f32, else the scratch; give_tile_gradients then
 * brings them to the view. */
static operand gradient_rows(const block_view *v, int part, int64_t row, int64_t rows, int32_t head, int32_t heads,
                             float **scratch) {
  if (v->dtype == GA_F32) return operand_rows(v, part, row, rows, head, heads, scratch);
  return (operand){take_scratch(scratch, rows * heads * v->dim[part]), strides_of_rows(rows, heads, v->dim[part])};
}

static void give_tile_gradients(const block_view *v, int part, int64_t row, int64_t rows, const tile_heads *h,
                                bool adds, const operand *x) {
  const bool keys = dist_is_of_keys(v->tensor);
  const int32_t head = keys ? h->kv_head : h->head, heads = keys ? h->kv_heads : h->heads;
  if (v->dtype == GA_F32) return;
  for (int64_t i = 0; i < rows; i++)
    for (int32_t n = 0; n < heads; n++) {
      const float *const from = x->data + i * x->stride.token + n * x->stride.head;
      void *const to = dist_row_at(v, part, row + i, head + n);
      if (adds)
        dist_add_row(v->dtype, to, from, v->dim[part]);
      else
        dist_store_row(v->dtype, from, v->dim[part], to);
    }
}

/* ga_attn counts places from the last key of a call, so its biases differ from those of the document by one number for
 * each head, and so do its logits and its LSE: slope x this. */
static double alibi_offset(const tile_job *job, const tile_call *c) {
  const dist_problem *p = job->q.p;
  const dist_stretch *q = dist_stretch_at(p->q, job->step->q_owner, job->step->q_stretch),
                     *k = dist_stretch_at(p->kv, job->step->kv_owner, job->step->k_stretch);
  const int64_t first_q = q->first - p->q->doc_start[q->doc] + dist_shift(p, q->doc),
                first_k = k->first - p->kv->doc_start[k->doc];
  return (double)(first_k - first_q + p->q->step * (c->k - c->q + c->n_k - c->n_q));
}

/* Slopes for places that are `step` apart; NULL without ALiBi. */
static const float *slopes_of_call(const tile_job *job, const tile_heads *h, float **scratch) {
  if (!job->alibi) return NULL;
  float *const slopes = take_scratch(scratch, h->heads);
  for (int32_t x = 0; x < h->heads; x++) slopes[x] = job->alibi[h->head + x] * (float)job->q.p->q->step;
  return slopes;
}

/* The LSE of a call from that of the document, or back: sign -1 or 1. */
static float shift_lse(const tile_job *job, float lse, int32_t head, double offset, double sign) {
  return job->alibi ? (float)((double)lse + sign * (double)job->alibi[head] * offset) : lse;
}

static ga_status run_forward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at) {
  const dist_problem *p = job->q.p;
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.flags = GA_ATTN_LSE | (c->causal ? GA_ATTN_CAUSAL : 0u);
  d.softcap = p->softcap, d.scale = p->scale;
  if (job->alibi) d.flags |= GA_ATTN_ALIBI;
  float *scratch = job->scratch;
  const float *const slopes = slopes_of_call(job, h, &scratch);
  const double offset = job->alibi ? alibi_offset(job, c) : 0;
  float *const lse = take_scratch(&scratch, c->n_q * h->heads), *const o = take_scratch(&scratch,
                                                                                        c->n_q * h->heads * p->v_dim);
  const operand q = operand_rows(&job->q, 0, at->q, c->n_q, h->head, h->heads, &scratch),
                k = operand_rows(&job->kv, 0, at->kv, c->n_k, h->kv_head, h->kv_heads, &scratch),
                v = operand_rows(&job->kv, 1, at->kv, c->n_k, h->kv_head, h->kv_heads, &scratch);
  const ga_attn_io io = {.q = q.data,
                         .k = k.data,
                         .v = v.data,
                         .o = o,
                         .lse = lse,
                         .alibi = slopes,
                         .q_stride = q.stride,
                         .k_stride = k.stride,
                         .v_stride = v.stride};
  GA_TRY(ga_attn(job->ctx, &d, &io, NULL));
  const block_view *out = &job->out;
  for (int64_t i = 0; i < c->n_q; i++)
    for (int32_t x = 0; x < h->heads; x++)
      dist_merge_row(out->dtype, dist_row_at(out, 0, at->out + i, h->head + x),
                     out->lse + (h->head + x - out->head) * out->rows + at->out + i, o + (i * h->heads + x) * p->v_dim,
                     shift_lse(job, lse[x * c->n_q + i], h->head + x, offset, 1), p->v_dim);
  return GA_OK;
}

static ga_status run_backward(const tile_job *job, const tile_call *c, const tile_heads *h, const tile_rows *at) {
  const dist_problem *p = job->q.p;
  const block_view *g = &job->q;
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.max_q = c->n_q, d.max_kv = c->n_k, d.q_heads = h->heads, d.kv_heads = h->kv_heads;
  d.head_dim = p->head_dim, d.v_dim = p->v_dim, d.window = (int32_t)ga_min_i64(c->window, INT32_MAX);
  d.flags = dist_order_flag(p) | (c->causal ? (uint32_t)GA_ATTN_CAUSAL : 0u);
  if (job->out.dtype == GA_F32) d.flags |= c->adds; /* else the scratch is written */
  d.softcap = p->softcap, d.scale = p->scale;
  if (job->alibi) d.flags |= (uint32_t)GA_ATTN_ALIBI;
  float *scratch = job->scratch;
  const float *const slopes = slopes_of_call(job, h, &scratch);
  const double offset = job->alibi ? alibi_offset(job, c) : 0;
  float *const lse = take_scratch(&scratch, c->n_q * h->heads);
  for (int32_t x = 0; x < h->heads; x++)
    for (int64_t i = 0; i < c->n_q; i++)
      lse[x * c->n_q + i] =
          shift_lse(job, g->lse[(h->head + x - g->head) * g->rows + at->q + i], h->head + x, offset, -1);
  const operand q = operand_rows(g, 0, at->q, c->n_q, h->head, h->heads, &scratch),
                o = operand_rows(g, 1, at->q, c->n_q, h->head, h->heads, &scratch),
                dout = operand_rows(g, 2, at->q, c->n_q, h->head, h->heads, &scratch),
                k = operand_rows(&job->kv, 0, at->kv, c->n_k, h->kv_head, h->kv_heads, &scratch),
                v = operand_rows(&job->kv, 1, at->kv, c->n_k, h->kv_head, h->kv_heads, &scratch),
                dq = gradient_rows(&job->out, 0, at->out, c->n_q, h->head, h->heads, &scratch),
                dk = gradient_rows(&job->dkv, 0, at->dkv, c->n_k, h->kv_head, h->kv_heads, &scratch),
                dv = gradient_rows(&job->dkv, 1, at->dkv, c->n_k, h->kv_head, h->kv_heads, &scratch);
  const ga_attn_bwd_io io = {.q = q.data,
                             .o = o.data,
                             .dout = dout.data,
                             .lse = lse,
                             .alibi = slopes,
                             .k = k.data,
                             .v = v.data,
                             .dq = dq.data,
                             .dk = dk.data,
                             .dv = dv.data,
                             .q_stride = q.stride,
                             .o_stride = o.stride,
                             .dout_stride = dout.stride,
                             .k_stride = k.stride,
                             .v_stride = v.stride,
                             .dq_stride = dq.stride,
                             .dk_stride = dk.stride,
                             .dv_stride = dv.stride};
  GA_TRY(ga_attn_bwd(job->ctx, &d, &io, NULL));
  give_tile_gradients(&job->out, 0, at->out, c->n_q, h, c->adds & GA_ATTN_BWD_ADD_DQ, &dq);
  give_tile_gradients(&job->dkv, 0, at->dkv, c->n_k, h, c->adds & GA_ATTN_BWD_ADD_DKV, &dk);
  give_tile_gradients(&job->dkv, 1, at->dkv, c->n_k, h, c->adds & GA_ATTN_BWD_ADD_DKV, &dv);
  return GA_OK;
}

/* Groups of heads that do not begin and end where a head of keys does go one head of keys at a time. */
static bool has_whole_groups(const dist_problem *p, const dist_step *s) {
  const int32_t group = p->q_heads / p->kv_heads;
  return s->head % group == 0 && (s->head + s->heads) % group == 0;
}

static ga_status run_heads(const tile_job *job, const tile_call *c, const tile_rows *at) {
  const dist_problem *p = job->q.p;
  const dist_step *s = job->step;
  const int32_t group = p->q_heads / p->kv_heads, end = s->head + s->heads;
  const dist_heads kv = dist_kv_of(p, s->head, s->heads);
  const bool whole = has_whole_groups(p, s), backward = p->flags & GA_DIST_BACKWARD;
  for (int32_t k = kv.begin; k < kv.end; k += whole ? kv.end - kv.begin : 1) {
    tile_heads h = {.head = s->head, .heads = s->heads, .kv_head = k, .kv_heads = kv.end - kv.begin};
    if (!whole) {
      h.head = s->head > k * group ? s->head : k * group;
      h.heads = (end < (k + 1) * group ? end : (k + 1) * group) - h.head;
      h.kv_heads = 1;
    }
    if (job->device)
      GA_TRY((backward ? dist_device_backward : dist_device_forward)(job, c, &h, at));
    else
      GA_TRY((backward ? run_backward : run_forward)(job, c, &h, at));
  }
  return GA_OK;
}

int dist_step_calls(const dist_problem *p, const dist_step *tile, tile_call out[2]) {
  return dist_tile_calls(p, dist_stretch_at(p->q, tile->q_owner, tile->q_stretch),
                         dist_stretch_at(p->kv, tile->kv_owner, tile->k_stretch), out);
}

int64_t dist_step_most_calls(const dist_problem *p, const dist_step *tile) {
  const dist_heads kv = dist_kv_of(p, tile->head, tile->heads);
  return 2 * (has_whole_groups(p, tile) ? 1 : (int64_t)kv.end - kv.begin);
}

/* --- tiles that are computed together --- */

static bool are_of_same_blocks(const dist_step *a, const dist_step *b) {
  return b->kind == DIST_TILE && a->slot_q == b->slot_q && a->slot_kv == b->slot_kv && a->slot == b->slot &&
         a->head == b->head && a->heads == b->heads && a->q_owner == b->q_owner && a->kv_owner == b->kv_owner;
}

int64_t dist_tiles_together(const dist_problem *p, const dist_step *steps, int64_t n) {
  int64_t together = 1;
  if (steps->kind != DIST_TILE || p->flags & GA_DIST_BACKWARD || p->window) return 1;
  while (together < n && together < DIST_TILES_TOGETHER && are_of_same_blocks(steps, &steps[together])) together++;
  return together;
}

/* Joins b to a where b has the same queries and the keys that follow a's. All queries must see all of a's keys. */
static bool join_keys(tile_part *a, const tile_part *b) {
  const bool follows = a->q_row == b->q_row && a->call.n_q == b->call.n_q && b->k_row == a->k_row + a->call.n_k;
  if (!follows || a->call.causal) return false;
  a->call.n_k += b->call.n_k;
  a->call.causal = b->call.causal;
  return true;
}

/* Joins b to a where b has the queries that follow a's, and the same first key. The last query of a call sees its last
 * key: a causal call has as many more keys as it has more queries. */
static bool join_queries(tile_part *a, const tile_part *b) {
  const bool follows = a->k_row == b->k_row && b->q_row == a->q_row + a->call.n_q && a->call.causal == b->call.causal;
  if (!follows || b->call.n_k != a->call.n_k + (a->call.causal ? b->call.n_q : 0)) return false;
  a->call.n_q += b->call.n_q;
  a->call.n_k = b->call.n_k;
  return true;
}

/* Joins two of the n parts, and closes the gap that the second leaves. Returns false where no two join. */
static bool join_two(tile_part *parts, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      if (i == j || !(join_keys(&parts[i], &parts[j]) || join_queries(&parts[i], &parts[j]))) continue;
      for (int k = j; k + 1 < n; k++) parts[k] = parts[k + 1];
      return true;
    }
  return false;
}

int dist_tile_parts(const dist_problem *p, const dist_step *tiles, int64_t n, tile_part out[DIST_TILE_PARTS]) {
  int parts = 0;
  for (int64_t i = 0; i < n; i++) {
    const dist_step *t = &tiles[i];
    tile_call calls[2];
    const int n_calls = dist_step_calls(p, t, calls);
    for (int c = 0; c < n_calls; c++)
      out[parts++] = (tile_part){.call = calls[c],
                                 .q_stretch = t->q_stretch,
                                 .k_stretch = t->k_stretch,
                                 .q_row = dist_stretch_at(p->q, t->q_owner, t->q_stretch)->row + calls[c].q,
                                 .k_row = dist_stretch_at(p->kv, t->kv_owner, t->k_stretch)->row + calls[c].k};
  }
  while (n > 1 && join_two(out, parts)) parts--;
  return parts;
}

ga_status dist_tile_run(const tile_job *job) {
  const dist_problem *p = job->q.p;
  const dist_step *s = job->step;
  tile_part parts[DIST_TILE_PARTS];
  const int n = dist_tile_parts(p, s, job->steps, parts);
  for (int i = 0; i < n; i++) {
    tile_call *c = &parts[i].call;
    const int64_t q = parts[i].q_stretch, k = parts[i].k_stretch;
    const tile_rows at = {.q = dist_view_row(&job->q, q) + c->q,
                          .out = dist_view_row(&job->out, q) + c->q,
                          .kv = dist_view_row(&job->kv, k) + c->k,
                          .dkv = job->dkv.p ? dist_view_row(&job->dkv, k) + c->k : 0};
    c->adds = (s->writes & DIST_WRITES_DQ << i ? 0u : (uint32_t)GA_ATTN_BWD_ADD_DQ) |
              (s->writes & DIST_WRITES_DKV << i ? 0u : (uint32_t)GA_ATTN_BWD_ADD_DKV);
    GA_TRY(run_heads(job, c, &at));
  }
  return GA_OK;
}

/* What run_forward and run_backward take of the scratch for a tile's rows. */
static int64_t scratch_of_tile(const dist_problem *p, const dist_step *s) {
  const dist_heads kv = dist_kv_of(p, s->head, s->heads);
  const int64_t d = p->head_dim, vd = p->v_dim;
  const int64_t q = dist_stretch_at(p->q, s->q_owner, s->q_stretch)->count * s->heads,
                k = dist_stretch_at(p->kv, s->kv_owner, s->k_stretch)->count * (kv.end - kv.begin);
  const bool backward = p->flags & GA_DIST_BACKWARD, copies = p->dtype != GA_F32, sums = p->partial_dtype != GA_F32;
  int64_t n = (backward ? q : q * (vd + 1)) + (p->flags & GA_DIST_ALIBI ? s->heads : 0);
  if (copies) n += q * (backward ? d + 2 * vd : d) + k * (d + vd);
  if (sums && backward) n += q * d + k * (d + vd);
  return n;
}

int64_t dist_tile_scratch(const ga_dist_plan *plan, int32_t rank) {
  int64_t most = 1;
  for (int64_t i = 0; i < plan->programs[rank].n_steps; i++) {
    const dist_step *s = &plan->programs[rank].steps[i];
    if (s->kind == DIST_TILE) most = ga_max_i64(most, scratch_of_tile(&plan->p, s));
  }
  return most;
}
