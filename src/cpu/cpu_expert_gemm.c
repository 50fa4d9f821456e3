#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cpu/cpu_expert.h"

/* A run of units is about this many bytes of an expert's matrix: see CHUNK_BYTES of cpu_gemm_x16.c. */
#define RUN_BYTES (48 * 1024)
/* Below this many multiply-adds one thread computes all. */
#define ONE_THREAD (64 * 1024)

/* --- rows by expert --- */

static int64_t expert_slots(const ga_expert_gemm_desc *d) { return d->tokens * d->top_k; }

uint64_t cpu_expert_list_bytes(const ga_expert_gemm_desc *d) {
  const uint64_t numbers = (uint64_t)expert_slots(d) + 2 * (uint64_t)d->n_experts + 1;
  return (numbers * sizeof(int32_t) + 63) & ~(uint64_t)63;
}

static ga_status check_expert_numbers(const ga_kernel *kernel, const ga_expert_gemm_desc *d,
                                      const ga_expert_gemm_io *a) {
  for (int64_t i = 0; i < (d->flags & GA_EXPERT_IN_TURN ? 0 : expert_slots(d)); i++)
    GA_REQUIRE(a->experts[i] >= 0 && a->experts[i] < d->n_experts, GA_ERR_ARG,
               "%s: experts[%lld] is %d; must be in [0, %d)", kernel->id, (long long)i, a->experts[i], d->n_experts);
  return GA_OK;
}

static ga_status check_matrices(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a) {
  for (int32_t e = 0; d->n_matrices && e < d->n_experts; e++)
    GA_REQUIRE(a->matrices[e] >= -1 && a->matrices[e] < d->n_matrices, GA_ERR_ARG,
               "%s: matrices[%d] is %d; must be in [-1, %lld)", kernel->id, e, a->matrices[e],
               (long long)d->n_matrices);
  return GA_OK;
}

static ga_status check_slot_order(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a) {
  const int64_t n = expert_slots(d);
  for (int32_t e = 0; e <= d->n_experts; e++) {
    const int64_t least = e ? a->offsets[e - 1] : 0, most = e ? n : 0;
    GA_REQUIRE(a->offsets[e] >= least && a->offsets[e] <= most && (e < d->n_experts || a->offsets[e] == n), GA_ERR_ARG,
               "%s: offsets[%d] is %d; must rise from 0 to %lld", kernel->id, e, a->offsets[e], (long long)n);
  }
  for (int64_t p = 0; p < n; p++) {
    GA_REQUIRE(a->order[p] >= 0 && a->order[p] < n, GA_ERR_ARG, "%s: order[%lld] is %d; must be in [0, %lld)",
               kernel->id, (long long)p, a->order[p], (long long)n);
    GA_REQUIRE(a->place[a->order[p]] == p, GA_ERR_ARG, "%s: place[%d] is %d; must be %lld, as order says", kernel->id,
               a->order[p], a->place[a->order[p]], (long long)p);
  }
  return GA_OK;
}

static int32_t turn_or_choice(const expert_job *job, int64_t i) {
  return job->d->flags & GA_EXPERT_IN_TURN ? (int32_t)(i % job->d->n_experts) : job->a->experts[i];
}

/* Sorts slots by expert, a counting sort into the lists. */
static void sort_slots_by_expert(expert_job *job, int32_t *offsets, int32_t *order) {
  const ga_expert_gemm_desc *d = job->d;
  memset(offsets, 0, ((size_t)d->n_experts + 1) * sizeof *offsets);
  for (int64_t i = 0; i < expert_slots(d); i++) offsets[turn_or_choice(job, i) + 1]++;
  for (int32_t e = 0; e < d->n_experts; e++) offsets[e + 1] += offsets[e];
  for (int64_t i = 0; i < expert_slots(d); i++) order[offsets[turn_or_choice(job, i)]++] = (int32_t)i;
  for (int32_t e = d->n_experts; e > 0; e--) offsets[e] = offsets[e - 1]; /* each had become the next one's */
  offsets[0] = 0;
}

/* Returns the matrix of expert e in the stacks; -1: it has none. */
static int64_t matrix_in_stacks(const expert_job *job, int32_t e) {
  return job->d->n_matrices ? job->a->matrices[e] : e;
}

static ga_status list_expert_rows(expert_job *job, const ga_kernel *kernel, int32_t *lists) {
  const ga_expert_gemm_desc *d = job->d;
  job->active = lists;
  GA_TRY(check_matrices(kernel, d, job->a));
  if (d->flags & GA_EXPERT_SORTED) {
    GA_TRY(check_slot_order(kernel, d, job->a));
    job->offsets = job->a->offsets;
    job->order = job->a->order;
  } else {
    int32_t *offsets = lists + d->n_experts, *order = offsets + d->n_experts + 1;
    GA_TRY(check_expert_numbers(kernel, d, job->a));
    sort_slots_by_expert(job, offsets, order);
    job->offsets = offsets;
    job->order = order;
  }
  job->n_active = 0;
  for (int32_t e = 0; e < d->n_experts; e++)
    if (job->offsets[e + 1] > job->offsets[e] && matrix_in_stacks(job, e) >= 0) job->active[job->n_active++] = e;
  return GA_OK;
}

/* --- results --- */

/* Finishes the products t[cols][unit] of expert e: IN multiplies by the slots' weights, and adds the bias. */
static void weigh_products(const expert_job *job, const float *bias, int32_t e, int64_t col, int64_t n, int64_t p,
                           int64_t cols, float *t) {
  const ga_expert_gemm_desc *d = job->d;
  const int32_t unit = job->kind->unit;
  float b[EXPERT_MOST_UNIT] = {0};
  if (d->flags & GA_EXPERT_BIAS) memcpy(b, bias + e * d->expert_rows + col, (size_t)n * sizeof *b);
  for (int64_t c = 0; c < cols; c++) {
    const float w = d->flags & GA_EXPERT_WEIGHTS ? job->a->weights[job->order[p + c]] : 1;
    const float before = d->form == GA_EXPERT_IN ? w : 1, after = d->form == GA_EXPERT_IN ? 1 : w;
    for (int32_t r = 0; r < unit; r++) t[c * unit + r] = after * (before * t[c * unit + r] + b[r]);
  }
}

/* Bounds n numbers from above, and with `both` from below. NaN stays NaN. */
static void clamp_numbers(float *t, int64_t n, float limit, bool both) {
  for (int64_t i = 0; i < n; i++) {
    t[i] = t[i] > limit ? limit : t[i];
    t[i] = both && t[i] < -limit ? -limit : t[i];
  }
}

static void activate_numbers(const expert_job *job, int64_t cols, float *t) {
  const ga_expert_gemm_desc *d = job->d;
  const int64_t n = cols * job->kind->unit;
  const float alpha = d->act_alpha;
  if (d->act == GA_ACT_NONE) return;
  if (d->act == GA_ACT_RELU2) {
    for (int64_t i = 0; i < n; i++) t[i] = t[i] < 0 ? 0 : t[i] * t[i];
    return;
  }
  for (int64_t i = 0; alpha != 1 && i < n; i++) t[i] *= alpha; /* g / (1 + e^(-alpha g)) = silu(alpha g) / alpha */
  job->kind->activate(job, d->act, cols, t);
  for (int64_t i = 0; alpha != 1 && i < n; i++) t[i] /= alpha;
}

/* u becomes the result of the unit: act(u), or act(g) * (u + up_offset). */
static void apply_gate(const expert_job *job, int64_t cols, float *u, float *g) {
  const ga_expert_gemm_desc *d = job->d;
  const int64_t n = cols * job->kind->unit;
  if (!(d->flags & GA_EXPERT_GATED)) {
    activate_numbers(job, cols, u);
    return;
  }
  if (d->clamp == GA_EXPERT_CLAMP_BEFORE) clamp_numbers(g, n, d->limit, false);
  if (d->clamp != GA_EXPERT_CLAMP_NONE) clamp_numbers(u, n, d->limit, true);
  activate_numbers(job, cols, g);
  if (d->clamp == GA_EXPERT_CLAMP_AFTER) clamp_numbers(g, n, d->limit, false);
  for (int64_t i = 0; i < n; i++) u[i] = g[i] * (u[i] + d->up_offset);
}

/* Stores or adds the first n numbers of each of t[cols][unit]. */
static void put_expert_rows(const expert_job *job, int64_t col, int64_t n, int64_t p, int64_t cols, const float *t) {
  const ga_expert_gemm_desc *d = job->d;
  const bool in = d->form == GA_EXPERT_IN;
  for (int64_t c = 0; c < cols; c++) {
    const int32_t i = job->order[p + c];
    const int64_t row = !in ? i / d->top_k : d->flags & GA_EXPERT_SORTED ? p + c : i;
    float *y = (float *)job->a->y + row * d->y_stride + col;
    const float *from = t + c * job->kind->unit;
    for (int64_t r = 0; r < n; r++) y[r] = in ? from[r] : y[r] + from[r];
  }
}

/* --- work --- */

/* Multiplies unit u of the i-th active expert with all of the expert's rows. */
static void multiply_expert_unit(const expert_job *job, int32_t i, int64_t u, int thread) {
  const int32_t e = job->active[i];
  const ga_expert_gemm_desc *d = job->d;
  const expert_kind *kind = job->kind;
  const int64_t col = u * kind->unit, left = d->n - col, n = ga_min_i64(kind->unit, left);
  const int64_t row = matrix_in_stacks(job, e) * d->expert_rows + col, end = job->offsets[e + 1];
  const bool gated = d->flags & GA_EXPERT_GATED;
  const void *up = kind->open(job, job->a->w, row, left, thread, 0);
  const void *gate = gated ? kind->open(job, job->a->w_gate, row, left, thread, 1) : NULL;
  GA_ALIGNED(64) float t[EXPERT_MOST_COLS * EXPERT_MOST_UNIT], g[EXPERT_MOST_COLS * EXPERT_MOST_UNIT];
  for (int64_t p = job->offsets[e], cols; p < end; p += cols) {
    cols = kind->cols(job, end - p);
    kind->multiply(job, up, i, p, cols, t);
    weigh_products(job, job->a->bias, e, col, n, p, cols, t);
    if (gated) kind->multiply(job, gate, i, p, cols, g);
    if (gated) weigh_products(job, job->a->bias_gate, e, col, n, p, cols, g);
    if (d->form == GA_EXPERT_IN) apply_gate(job, cols, t, g);
    put_expert_rows(job, col, n, p, cols, t);
  }
  if (kind->close) kind->close();
}

static void multiply_run(const expert_job *job, int32_t i, int64_t run, int thread) {
  const int64_t end = ga_min_i64((run + 1) * job->chunk, job->units);
  for (int64_t u = run * job->chunk; u < end; u++) multiply_expert_unit(job, i, u, thread);
}

static void run_in(void *arg, int64_t i, int thread) {
  const expert_job *job = arg;
  multiply_run(job, (int32_t)(i / job->runs), i % job->runs, thread);
}

/* Writes what a run's columns of Y begin with: residual, or 0. */
static void begin_sums(const expert_job *job, int64_t run) {
  const ga_expert_gemm_desc *d = job->d;
  const int64_t col = run * job->chunk * job->kind->unit;
  const int64_t n = ga_min_i64(job->chunk * job->kind->unit, d->n - col);
  for (int64_t t = 0; t < d->tokens; t++) {
    float *y = (float *)job->a->y + t * d->y_stride + col;
    const float *from = (const float *)job->a->residual + t * d->y_stride + col;
    if (!(d->flags & GA_EXPERT_RESIDUAL))
      memset(y, 0, (size_t)n * sizeof *y);
    else if (y != from)
      memcpy(y, from, (size_t)n * sizeof *y);
  }
}

static void run_out(void *arg, int64_t run, int thread) {
  const expert_job *job = arg;
  begin_sums(job, run);
  for (int32_t i = 0; i < job->n_active; i++) multiply_run(job, i, run, thread);
}

static void load_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const expert_job *job = arg;
  job->kind->load(job, begin, end);
}

ga_status cpu_expert_run(expert_job *job, const ga_kernel *kernel, void *lists, ga_stream *stream) {
  const ga_expert_gemm_desc *d = job->d;
  const ga_dtype_traits *w = ga_dtype_info((ga_dtype)d->w_dtype);
  if (d->tokens == 0 || d->n == 0) return GA_OK;
  GA_TRY(list_expert_rows(job, kernel, lists));
  const bool is_small = (double)expert_slots(d) * (double)d->n * (double)d->k < ONE_THREAD;
  ga_pool *pool = is_small ? NULL : cpu_pool(stream);
  const int threads = pool ? ga_pool_threads(pool) : 1;
  const int64_t unit_bytes = ga_max_i64(1, d->k / w->block_elems * w->block_bytes * job->kind->unit);
  const int64_t lanes = d->form == GA_EXPERT_IN ? job->n_active : 1; /* runs of how many experts are taken at once */
  job->units = ga_div_up(d->n, job->kind->unit);
  job->chunk = ga_max_i64(1, ga_min_i64(RUN_BYTES / unit_bytes, ga_div_up(job->units * lanes, 4 * threads)));
  job->runs = ga_div_up(job->units, job->chunk);
  if (job->kind->load) ga_pool_run_ranges(pool, expert_slots(d), 1, load_range, job);
  ga_pool_run(pool, lanes * job->runs, d->form == GA_EXPERT_IN ? run_in : run_out, job);
  return GA_OK;
}
