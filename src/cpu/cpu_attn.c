#include "cpu/cpu_attn.h"

#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/attn_rows.h"
#include "opdef/attn_stretch.h"

/* Multiply-adds below which threads are not woken. */
#define SERIAL_WORK 60000

const char *ga_cpu_attn_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_attn_desc *d = desc;
  if (d->q_dtype != GA_F32 || d->o_dtype != GA_F32) return "q or o is not f32";
  if (d->kv_segments) return "K and V in parts are not supported";
  if (d->flags & (GA_ATTN_STATE_IN | GA_ATTN_STATE_OUT)) return "carried state is not supported";
  switch (d->kv_dtype) {
  case GA_F32:
  case GA_F16:
  case GA_BF16:
  case GA_E4M3:
  case GA_Q8_0:
  case GA_Q4_0: return NULL;
  default: return "kv is not f32, f16, bf16, e4m3, q8_0 or q4_0";
  }
}

/* --- sizes --- */

static attn_shape attn_shape_of(const ga_attn_desc *d, int threads) {
  attn_shape h = {.group = d->q_heads / d->kv_heads};
  h.chunk = h.group < 16 ? h.group : 16;
  h.n_chunks = (h.group + h.chunk - 1) / h.chunk;
  h.q_tile = 64 / h.chunk < ATTN_SPLIT_QUERIES ? ATTN_SPLIT_QUERIES : 64 / h.chunk;
  h.rows = h.chunk * h.q_tile;
  h.head_pad = (d->head_dim + 15) / 16 * 16;
  h.v_pad = (d->v_dim + 15) / 16 * 16;
  h.partial_q = ga_min_i64(d->max_q, ATTN_SPLIT_QUERIES);
  h.partial_splits = ga_min_i64(ga_div_up(d->max_kv, ATTN_SPLIT_MIN), ATTN_SPLITS);
  h.partial_floats = d->v_dim + 2; /* m, l, acc */
  h.unit_heads = h.n_chunks > 1 ? 1 : (int)ga_min_i64(d->kv_heads, ATTN_UNIT_HEADS);
  const int64_t splits =
      ga_max_i64(1, h.partial_splits) * d->batch; /* at least so many units if all heads go together */
  while (h.unit_heads > 1 && splits * ga_div_up(d->kv_heads, h.unit_heads) < 2 * threads)
    h.unit_heads = (h.unit_heads + 1) / 2;
  h.state_rows = (int)ga_max_i64(h.rows, h.unit_heads * h.chunk * h.partial_q);
  return h;
}

/* Per thread: q, acc, scores, m, l, and the key and value tiles (see attn_tmpl.h). */
static uint64_t scratch_floats(const attn_shape *h) {
  uint64_t rows = (uint64_t)h->rows, state = (uint64_t)h->state_rows, head = (uint64_t)h->head_pad,
           v = (uint64_t)h->v_pad;
  return state * (head + v + 2) + rows * ATTN_KEYS + head * ATTN_KEYS + 16 * (head + 16 + v);
}

static uint64_t partial_floats(const ga_attn_desc *d, const attn_shape *h) {
  return (uint64_t)d->batch * (uint64_t)d->q_heads * (uint64_t)(h->partial_q * h->partial_splits * h->partial_floats);
}

static uint64_t round64(uint64_t bytes) { return (bytes + 63) & ~(uint64_t)63; }

/* What has queries at consecutive positions. */
static int64_t sequences_of(const ga_attn_desc *d) { return d->batch * ga_max_i64(d->q_stretches, 1); }

uint64_t ga_cpu_attn_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  const ga_attn_desc *d = desc;
  attn_shape h = attn_shape_of(d, caps->threads);
  return round64(((uint64_t)sequences_of(d) + 1) * sizeof(int64_t)) + round64(partial_floats(d, &h) * sizeof(float)) +
         (uint64_t)caps->threads * round64(scratch_floats(&h) * sizeof(float));
}

/* --- cutting --- */

void attn_visible(const attn_job *job, const attn_sequence *s, int64_t i, int64_t *begin, int64_t *end) {
  const ga_attn_desc *d = job->d;
  if (s->stretch) {
    ga_attn_stretch_keys(d, job->a->kv_stretches, s->stretch->document, s->stretch->position + i, begin, end);
    return;
  }
  const int64_t p = i + s->n_kv - s->n_q; /* its position among the keys */
  *begin = d->window ? ga_max_i64(0, p - d->window + 1) : 0;
  *end = d->flags & GA_ATTN_CAUSAL ? ga_max_i64(0, ga_min_i64(s->n_kv, p + 1)) : s->n_kv;
  if (d->flags & GA_ATTN_SYMMETRIC && d->window) *end = ga_max_i64(0, ga_min_i64(s->n_kv, p + d->window));
  if (*begin > *end) *begin = *end;
}

/* Keys seen by any of the queries [q, q + n). */
static void visible_range(const attn_job *job, const attn_sequence *s, int64_t q, int64_t n, int64_t *begin,
                          int64_t *end) {
  int64_t unused;
  attn_visible(job, s, q, begin, &unused);
  attn_visible(job, s, q + n - 1, &unused, end);
  if (*begin > *end) *begin = *end;
}

static void cut_sequence(const attn_job *job, attn_sequence *s) {
  const attn_shape *h = &job->shape;
  s->n_tiles = ga_div_up(s->n_q, h->q_tile);
  s->n_splits = 0;
  if (s->n_q == 0 || s->n_q > ATTN_SPLIT_QUERIES || job->d->flags & GA_ATTN_INVARIANT || s->stretch) return;
  int64_t begin, end;
  visible_range(job, s, 0, s->n_q, &begin, &end);
  const int64_t share = ga_div_up(ga_div_up(s->n_kv, ATTN_SPLITS), ATTN_KEYS) * ATTN_KEYS;
  s->split_keys = ga_max_i64(ATTN_SPLIT_MIN, share);
  s->first_split = begin / s->split_keys;
  s->n_splits = begin < end ? ga_div_up(end, s->split_keys) - s->first_split : 1;
}

/* Number i of those that sequences_of counts. */
static attn_sequence query_stretch(const attn_job *job, int64_t i) {
  const ga_attn_desc *d = job->d;
  const ga_attn_stretch *q = &job->a->q_stretches[i % d->q_stretches];
  attn_sequence s = {.b = i / d->q_stretches, .n_q = q->rows, .q_first = q->first, .stretch = q};
  for (int k = 0; k < d->kv_stretches; k++) s.n_kv += job->a->kv_stretches[k].rows;
  cut_sequence(job, &s);
  return s;
}

static attn_sequence sequence_of(const attn_job *job, int64_t b) {
  const ga_attn_desc *d = job->d;
  const ga_attn_io *a = job->a;
  if (d->q_stretches) return query_stretch(job, b);
  attn_sequence s = {.b = b, .n_q = d->max_q, .n_kv = d->max_kv};
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  if (varlen) {
    s.q_first = a->q_start[b];
    s.n_q = ga_attn_rows_of(d->flags, a->q_start, a->q_len, b);
  }
  if (varlen && !paged) {
    s.kv_first = a->kv_start[b];
    s.n_kv = ga_attn_rows_of(d->flags, a->kv_start, a->kv_len, b);
  }
  if (paged) s.n_kv = a->kv_len[b];
  cut_sequence(job, &s);
  return s;
}

static int64_t units_of(const attn_job *job, const attn_sequence *s) {
  const attn_shape *h = &job->shape;
  if (s->n_splits) return ga_div_up(job->d->kv_heads, h->unit_heads) * h->n_chunks * s->n_splits;
  return (int64_t)job->d->kv_heads * h->n_chunks * s->n_tiles;
}

static attn_unit unit_at(const attn_job *job, int64_t b, int64_t index) {
  attn_unit u = {.s = sequence_of(job, b), .split = -1};
  const attn_shape *h = &job->shape;
  const bool few = u.s.n_splits > 0;
  const int64_t pieces = few ? u.s.n_splits : u.s.n_tiles, piece = index % pieces, lane = index / pieces;
  const int heads = few ? h->unit_heads : 1;
  u.kv_head = (int)(lane / h->n_chunks) * heads;
  u.n_kv_heads = (int)ga_min_i64(heads, job->d->kv_heads - u.kv_head);
  u.head = u.kv_head * h->group + (int)(lane % h->n_chunks) * h->chunk;
  u.n_heads = (int)ga_min_i64(h->chunk, (int64_t)(u.kv_head + 1) * h->group - u.head);
  /* Late tiles see the most keys: they come first, so that no thread is left with one at the end. */
  if (!few) u.q = (u.s.n_tiles - 1 - piece) * h->q_tile;
  u.n_q = ga_min_i64(few ? u.s.n_q : h->q_tile, u.s.n_q - u.q);
  visible_range(job, &u.s, u.q, u.n_q, &u.key_begin, &u.key_end);
  if (u.s.n_splits > 1) {
    const int64_t from = (u.s.first_split + piece) * u.s.split_keys;
    u.key_begin = ga_max_i64(u.key_begin, from);
    u.key_end = ga_min_i64(u.key_end, from + u.s.split_keys);
    u.split = piece;
  }
  return u;
}

/* --- finishing and merging --- */

void attn_finish_row(const attn_job *job, const attn_sequence *s, int head, int64_t q, float m, float l,
                     const float *acc) {
  const ga_attn_desc *d = job->d;
  const ga_attn_io *a = job->a;
  float keep = 1;
  if (d->flags & GA_ATTN_SINKS && m != -INFINITY) {
    const float sink = a->sinks[head], top = sink > m ? sink : m;
    keep = expf(m - top);
    l = l * keep + expf(sink - top);
    m = top;
  }
  const float scale = m == -INFINITY ? 0 : keep / l;
  const int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b * a->o_stride.batch;
  float *o = (float *)a->o + batch + (s->q_first + q) * a->o_stride.token + head * a->o_stride.head;
  for (int c = 0; c < d->v_dim; c++) o[c] = m == -INFINITY ? 0 : acc[c] * scale;
  if (d->flags & GA_ATTN_LSE)
    a->lse[ga_attn_lse_at(d->lse_stride, s->q_first, s->b, d->q_heads, d->max_q, head,
                          (s->stretch ? s->q_first : 0) + q)] = m == -INFINITY ? m : m + logf(l);
}

/* Splits of one row, in their order: into the first one's place. */
static void merge_row(const attn_job *job, const attn_sequence *s, int head, int64_t q) {
  float *first = attn_partial(job, s->b, head, q, 0), m = -INFINITY, l = 0, *acc = first + 2;
  const int64_t step = job->shape.partial_floats, dim = job->d->v_dim;
  for (int64_t i = 0; i < s->n_splits; i++) {
    const float x = first[i * step];
    if (x > m || isnan(x)) m = x;
    if (isnan(m)) break;
  }
  for (int64_t i = 0; i < s->n_splits; i++) {
    const float *part = first + i * step;
    const float f = part[0] == -INFINITY ? 0 : expf(part[0] - m);
    l = i ? l + f * part[1] : f * part[1];
    for (int64_t c = 0; c < dim; c++) acc[c] = i ? acc[c] + f * part[2 + c] : f * part[2 + c];
  }
  attn_finish_row(job, s, head, q, m, l, acc);
}

static void merge_sequence_head(void *arg, int64_t index, int thread) {
  (void)thread;
  const attn_job *job = arg;
  attn_sequence s = sequence_of(job, index / job->d->q_heads);
  if (s.n_splits < 2) return;
  for (int64_t q = 0; q < s.n_q; q++) merge_row(job, &s, (int)(index % job->d->q_heads), q);
}

/* --- running --- */

/* Sequence that unit `index` belongs to: the last one that starts at or before it and is not empty. */
static int64_t sequence_at(const attn_job *job, int64_t index) {
  int64_t low = 0, high = sequences_of(job->d) - 1;
  while (low < high) {
    int64_t mid = (low + high + 1) / 2;
    if (job->first_unit[mid] <= index)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

static void run_task(void *arg, int64_t i, int thread) {
  attn_job *job = arg;
  const int64_t b = sequence_at(job, i);
  const attn_unit u = unit_at(job, b, i - job->first_unit[b]);
  job->fn(job, &u, job->scratch + (uint64_t)thread * job->scratch_floats);
}

static ga_status number_units(const ga_kernel *kernel, attn_job *job, int64_t *work) {
  *work = 0;
  job->first_unit[0] = 0;
  for (int64_t b = 0; b < sequences_of(job->d); b++) {
    attn_sequence s = sequence_of(job, b);
    GA_REQUIRE(s.stretch || (s.n_q >= 0 && s.n_q <= job->d->max_q && s.n_kv >= 0 && s.n_kv <= job->d->max_kv),
               GA_ERR_ARG, "attn %s: sequence %lld has %lld queries, %lld keys; at most %lld, %lld", kernel->id,
               (long long)b, (long long)s.n_q, (long long)s.n_kv, (long long)job->d->max_q, (long long)job->d->max_kv);
    const bool by_token = job->d->lse_stride && job->d->flags & GA_ATTN_LSE;
    GA_REQUIRE(s.stretch || (s.q_first >= 0 && s.kv_first >= 0 &&
                             (!by_token || s.n_q == 0 || s.q_first <= job->d->lse_stride - s.n_q)),
               GA_ERR_ARG,
               "attn %s: sequence %lld has queries %lld to %lld, keys from %lld on; starts must be 0 or more, and "
               "queries end at lse_stride, %lld, where there is one",
               kernel->id, (long long)b, (long long)s.q_first, (long long)(s.q_first + s.n_q), (long long)s.kv_first,
               (long long)job->d->lse_stride);
    job->first_unit[b + 1] = job->first_unit[b] + units_of(job, &s);
    *work += s.n_q * s.n_kv * job->d->q_heads * (job->d->head_dim + job->d->v_dim);
  }
  return GA_OK;
}

ga_status cpu_attn_run(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a, void *workspace,
                       ga_stream *stream, attn_unit_fn fn) {
  attn_job job = {.d = d, .a = a, .shape = attn_shape_of(d, stream->device->caps.threads), .fn = fn};
  if (d->batch == 0 || d->max_q == 0) return GA_OK;
  uint8_t *at = workspace;
  job.first_unit = (int64_t *)(void *)at;
  at += round64(((uint64_t)sequences_of(d) + 1) * sizeof(int64_t));
  job.partials = (float *)(void *)at;
  at += round64(partial_floats(d, &job.shape) * sizeof(float));
  job.scratch = (float *)(void *)at;
  job.scratch_floats = round64(scratch_floats(&job.shape) * sizeof(float)) / sizeof(float);
  for (int i = 0; i < d->kv_stretches; i++) ga_attn_wait_ready(a, i);
  int64_t work;
  GA_TRY(number_units(kernel, &job, &work));
  ga_pool *pool = work < SERIAL_WORK ? NULL : cpu_pool(stream);
  ga_pool_run(pool, job.first_unit[sequences_of(d)], run_task, &job);
  if (job.shape.partial_q && job.shape.partial_splits >= 2)
    ga_pool_run(pool, d->batch * d->q_heads, merge_sequence_head, &job);
  return GA_OK;
}
