#include "cpu/cpu_attn_bwd.h"

#include <math.h>

#include "base/mem.h"
#include "base/status.h"

/* Multiply-adds below which threads are not woken. */
#define SERIAL_WORK 60000

const char *ga_cpu_attn_bwd_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_attn_bwd_desc *d = desc;
  return d->dtype == GA_F32 && d->grad_dtype == GA_F32 ? NULL : "dtype or grad_dtype is not f32";
}

/* --- sizes --- */

static int64_t pad16(int32_t n) { return (n + 15) / 16 * 16; }

/* Per thread: q, dout, k, dk, dv, dq; k and v transposed; p, ds, bend; v rows; lse and delta (see attn_bwd_tmpl.h). */
static uint64_t scratch_floats(const ga_attn_bwd_desc *d) {
  const uint64_t head = (uint64_t)pad16(d->head_dim), v = (uint64_t)pad16(d->v_dim);
  return BWD_TILE * (5 * head + 3 * v + 3 * BWD_TILE + 2) + 16 * (head > v ? head : v);
}

uint64_t ga_cpu_attn_bwd_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel;
  return (uint64_t)caps->threads * scratch_floats(desc) * sizeof(float);
}

/* --- cutting --- */

static bwd_sequence sequence_of(const bwd_job *job, int64_t b) {
  const ga_attn_bwd_io *a = job->a;
  if (!(job->d->flags & GA_ATTN_VARLEN)) return (bwd_sequence){.b = b, .n_q = job->d->max_q, .n_kv = job->d->max_kv};
  return (bwd_sequence){.b = b,
                        .q_first = a->q_start[b],
                        .n_q = ga_attn_rows_of(job->d->flags, a->q_start, a->q_len, b),
                        .kv_first = a->kv_start[b],
                        .n_kv = ga_attn_rows_of(job->d->flags, a->kv_start, a->kv_len, b)};
}

void bwd_keys_of(const ga_attn_bwd_desc *d, const bwd_sequence *s, int64_t i, int64_t *begin, int64_t *end) {
  const int64_t p = i + s->n_kv - s->n_q;
  *begin = d->window ? ga_max_i64(0, p - d->window + 1) : 0;
  *end = d->flags & GA_ATTN_CAUSAL ? ga_max_i64(0, ga_min_i64(s->n_kv, p + 1)) : s->n_kv;
  if (*begin > *end) *begin = *end;
}

void bwd_queries_of(const ga_attn_bwd_desc *d, const bwd_sequence *s, int64_t j, int64_t n, int64_t *begin,
                    int64_t *end) {
  const int64_t off = s->n_kv - s->n_q;
  *begin = d->flags & GA_ATTN_CAUSAL ? ga_min_i64(s->n_q, ga_max_i64(0, j - off)) : 0;
  *end = d->window ? ga_max_i64(0, ga_min_i64(s->n_q, j + n - 1 + d->window - off)) : s->n_q;
  if (*begin > *end) *begin = *end;
}

/* Unit `index`: sequences vary slowest; the tiles of most work come first. Tiles past a packed sequence's end are
 * empty. */
static bwd_unit unit_at(const bwd_job *job, int64_t index) {
  const ga_attn_bwd_desc *d = job->d;
  if (job->heads) return (bwd_unit){BWD_HEAD, sequence_of(job, index / d->kv_heads), (int)(index % d->kv_heads), 0};
  const int64_t tiles_k = ga_div_up(d->max_kv, BWD_TILE), tiles_q = ga_div_up(d->max_q, BWD_TILE);
  const int64_t n_keys = d->batch * d->kv_heads * tiles_k;
  const bool keys = index < n_keys;
  if (!keys) index -= n_keys;
  const int64_t tiles = keys ? tiles_k : tiles_q, lane = index / tiles, tile = index % tiles,
                heads = keys ? d->kv_heads : d->q_heads;
  return (bwd_unit){keys ? BWD_KEYS : BWD_QUERIES, sequence_of(job, lane / heads), (int)(lane % heads),
                    keys ? tile : tiles - 1 - tile};
}

/* --- sinks --- */

static float delta_of(const bwd_job *job, const bwd_sequence *s, int64_t i, int h) {
  const ga_attn_bwd_io *a = job->a;
  const float *o = (const float *)a->o + bwd_at(job->d, &a->o_stride, s, s->q_first, i, h);
  const float *g = (const float *)a->dout + bwd_at(job->d, &a->dout_stride, s, s->q_first, i, h);
  float sum = 0;
  for (int c = 0; c < job->d->v_dim; c++) sum += o[c] * g[c];
  return sum;
}

static void sink_gradient(const bwd_job *job, int h) {
  const ga_attn_bwd_desc *d = job->d;
  double sum = 0;
  for (int64_t b = 0; b < d->batch; b++) {
    const bwd_sequence s = sequence_of(job, b);
    for (int64_t i = 0; i < s.n_q; i++) {
      const float lse = job->a->lse[ga_attn_lse_at(d->lse_stride, s.q_first, b, d->q_heads, d->max_q, h, i)];
      if (lse != -INFINITY) sum -= (double)(expf(job->a->sinks[h] - lse) * delta_of(job, &s, i, h));
    }
  }
  job->a->dsinks[h] = (float)(d->flags & GA_ATTN_BWD_ADD_DKV ? sum + (double)job->a->dsinks[h] : sum);
}

/* --- running --- */

static void run_task(void *arg, int64_t i, int thread) {
  const bwd_job *job = arg;
  if (i >= job->n_units) {
    sink_gradient(job, (int)(i - job->n_units));
    return;
  }
  const bwd_unit u = unit_at(job, i);
  job->fn(job, &u, job->scratch + (uint64_t)thread * job->scratch_floats);
}

static ga_status check_lengths(const ga_kernel *kernel, const bwd_job *job, int64_t *work) {
  const ga_attn_bwd_desc *d = job->d;
  *work = 0;
  for (int64_t b = 0; b < d->batch; b++) {
    const bwd_sequence s = sequence_of(job, b);
    GA_REQUIRE(s.n_q >= 0 && s.n_q <= d->max_q && s.n_kv >= 0 && s.n_kv <= d->max_kv, GA_ERR_ARG,
               "attn_bwd %s: sequence %lld has %lld queries, %lld keys; at most %lld, %lld", kernel->id, (long long)b,
               (long long)s.n_q, (long long)s.n_kv, (long long)d->max_q, (long long)d->max_kv);
    GA_REQUIRE(!(d->flags & GA_ATTN_LENGTHS) ||
                   (s.q_first >= 0 && s.kv_first >= 0 && (s.n_q == 0 || s.q_first + s.n_q <= d->total_q) &&
                    (s.n_kv == 0 || s.kv_first + s.n_kv <= d->total_kv)),
               GA_ERR_ARG,
               "attn_bwd %s: sequence %lld has queries %lld to %lld, keys %lld to %lld; must lie in total_q, %lld, and "
               "total_kv, %lld",
               kernel->id, (long long)b, (long long)s.q_first, (long long)(s.q_first + s.n_q), (long long)s.kv_first,
               (long long)(s.kv_first + s.n_kv), (long long)d->total_q, (long long)d->total_kv);
    *work += s.n_q * s.n_kv * d->q_heads * (d->head_dim + d->v_dim);
  }
  return GA_OK;
}

ga_status cpu_attn_bwd_run(const ga_kernel *kernel, const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, void *workspace,
                           ga_stream *stream, bwd_unit_fn fn) {
  bwd_job job = {
      .d = d, .a = a, .fn = fn, .head_pad = pad16(d->head_dim), .v_pad = pad16(d->v_dim), .scratch = workspace};
  job.scratch_floats = scratch_floats(d);
  int64_t work;
  GA_TRY(check_lengths(kernel, &job, &work));
  const int threads = work < SERIAL_WORK ? 1 : ga_pool_threads(cpu_pool(stream));
  const int64_t n_heads = d->batch * d->kv_heads;
  job.heads =
      !(d->flags & GA_ATTN_BWD_ADD_DQ) && (threads == 1 || n_heads >= 4 * threads); /* dQ itself is the sum, from 0 */
  job.n_units = job.heads
                    ? n_heads
                    : n_heads * ga_div_up(d->max_kv, BWD_TILE) + d->batch * d->q_heads * ga_div_up(d->max_q, BWD_TILE);
  const int64_t n_sinks = d->flags & GA_ATTN_SINKS ? d->q_heads : 0;
  ga_pool_run(threads == 1 ? NULL : cpu_pool(stream), job.n_units + n_sinks, run_task, &job);
  return GA_OK;
}
