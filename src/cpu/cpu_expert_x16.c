/* Products by experts over packed weights (cpu_pack.h). Rows of X are brought into the order by expert: rounded to 15
 * bits for quantised weights, copied for plain ones. */
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_expert.h"
#include "cpu/cpu_gemm_x16.h"

/* Legality: f32 X and Y, the kernel's own weights and layout, and at least rows_min rows an expert on average. */
const char *ga_cpu_expert_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_expert_gemm_desc *d = desc;
  if (d->w_dtype != (int32_t)kernel->dtype[0]) return "another weight type";
  if (d->w_layout != (int32_t)kernel->layout) return "another weight layout";
  if (d->x_dtype != GA_F32 || d->y_dtype != GA_F32) return "x and y must be f32";
  return d->tokens * d->top_k < (int64_t)kernel->rows_min * d->n_experts ? "too few rows for each expert" : NULL;
}

static const void *open_panel(const expert_job *job, const void *w, int64_t row, int64_t left, int thread, int set) {
  (void)left, (void)thread, (void)set;
  const ga_x16_format *f = ga_x16_format_of((ga_dtype)job->d->w_dtype);
  return (const uint8_t *)w + row / GA_X16_ROWS * x16_panel_bytes(f, job->d->k);
}

static int64_t panel_cols(const expert_job *job, int64_t left) {
  const ga_x16_impl *impl = job->impl;
  int64_t cols = ga_min_i64(GA_X16_MAX_COLS, left);
  while (!impl->micro[cols]) cols--;
  return cols;
}

/* Rounds sorted row p, which is column c of a group of `cols` that begins at row p - c. */
static void round_sorted_row(const expert_job *job, const ga_x16_format *f, int64_t p, int64_t c, int64_t cols) {
  const ga_expert_gemm_desc *d = job->d;
  const ga_x16_impl *impl = job->impl;
  const float *x = (const float *)job->a->x + expert_x_row(job, p) * d->x_stride;
  impl->quantise(f, x, d->k / 32, (ga_x16_act *)job->rows + (p - c) * (d->k / 32) + c, cols);
}

static void round_sorted_rows(const expert_job *job, int64_t begin, int64_t end) {
  const ga_x16_format *f = ga_x16_format_of((ga_dtype)job->d->w_dtype);
  for (int32_t i = 0; i < job->n_active; i++) {
    const int64_t last = job->offsets[job->active[i] + 1];
    if (last <= begin) continue;
    for (int64_t p = job->offsets[job->active[i]], cols; p < last && p < end; p += cols) {
      cols = panel_cols(job, last - p);
      for (int64_t c = 0; c < cols; c++)
        if (p + c >= begin && p + c < end) round_sorted_row(job, f, p + c, c, cols);
    }
    if (last >= end) return;
  }
}

static void copy_sorted_rows(const expert_job *job, int64_t begin, int64_t end) {
  const ga_expert_gemm_desc *d = job->d;
  for (int32_t i = 0; i < job->n_active && d->k; i++) {
    const int64_t first = job->offsets[job->active[i]], last = job->offsets[job->active[i] + 1];
    for (int64_t p = ga_max_i64(first, begin); p < ga_min_i64(last, end); p++)
      memcpy((float *)job->rows + p * d->k, (const float *)job->a->x + expert_x_row(job, p) * d->x_stride,
             (size_t)d->k * sizeof(float));
  }
}

static void multiply_rounded(const expert_job *job, const void *unit, int32_t i, int64_t p, int64_t cols, float *out) {
  (void)i;
  const ga_x16_impl *impl = job->impl;
  impl->micro[cols](unit, (const ga_x16_act *)job->rows + p * (job->d->k / 32), 0, job->d->k, out);
}

static void multiply_copied(const expert_job *job, const void *unit, int32_t i, int64_t p, int64_t cols, float *out) {
  (void)i;
  const ga_x16_impl *impl = job->impl;
  impl->micro[cols](unit, (const float *)job->rows + p * job->d->k, job->d->k, job->d->k, out);
}

/* Applies an activation by the epilogue of gemm, in place. */
static void activate_panel(const expert_job *job, int32_t act, int64_t cols, float *t) {
  const ga_x16_impl *impl = job->impl;
  const ga_gemm_desc d = {.m = cols, .n = GA_X16_ROWS, .y_stride = GA_X16_ROWS, .act = act, .scale = 1};
  const ga_gemm_io io = {.y = t};
  impl->epilogue(&d, &io, 0, cols, 0, GA_X16_ROWS, t, GA_X16_ROWS);
}

static const expert_kind rounded_kind = {.unit = GA_X16_ROWS,
                                         .load = round_sorted_rows,
                                         .open = open_panel,
                                         .cols = panel_cols,
                                         .multiply = multiply_rounded,
                                         .activate = activate_panel};
static const expert_kind copied_kind = {.unit = GA_X16_ROWS,
                                        .load = copy_sorted_rows,
                                        .open = open_panel,
                                        .cols = panel_cols,
                                        .multiply = multiply_copied,
                                        .activate = activate_panel};

_Static_assert(GA_X16_MAX_COLS <= EXPERT_MOST_COLS && GA_X16_ROWS <= EXPERT_MOST_UNIT, "the driver has the room");

uint64_t ga_cpu_expert_x16_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_expert_gemm_desc *d = desc;
  const ga_x16_impl *impl = kernel->impl;
  const uint64_t row = impl->quantise ? (uint64_t)(d->k / 32) * sizeof(ga_x16_act) : (uint64_t)d->k * sizeof(float);
  uint64_t bytes;
  if (!ga_mul_ok(row, (uint64_t)(d->tokens * d->top_k), &bytes) || bytes > UINT64_MAX / 2) return UINT64_MAX;
  return bytes + cpu_expert_list_bytes(d);
}

ga_status ga_cpu_expert_x16(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  const ga_x16_impl *impl = kernel->impl;
  expert_job job = {.d = desc, .a = io, .kind = impl->quantise ? &rounded_kind : &copied_kind, .impl = impl};
  job.rows = (uint8_t *)workspace + cpu_expert_list_bytes(job.d);
  return cpu_expert_run(&job, kernel, workspace, stream);
}
