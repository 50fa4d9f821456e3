#include "cpu/cpu_layer.h"

/* --- legality --- */

static const char *not_f32(int32_t dtype, const char *why) { return dtype == GA_F32 ? NULL : why; }

const char *ga_cpu_norm_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_norm_desc *d = desc;
  return d->x_dtype == GA_F32 && d->y_dtype == GA_F32 ? NULL : "x or y is not f32";
}

const char *ga_cpu_rope_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return not_f32(((const ga_rope_desc *)desc)->x_dtype, "x is not f32");
}

const char *ga_cpu_act_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return not_f32(((const ga_act_desc *)desc)->dtype, "dtype is not f32");
}

const char *ga_cpu_add_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return not_f32(((const ga_add_desc *)desc)->dtype, "dtype is not f32");
}

const char *ga_cpu_softmax_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps, (void)desc;
  return NULL;
}

const char *ga_cpu_kv_store_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const ga_kv_store_fused_desc *d = desc;
  if (d->rot_dim) return "rotation is an op of its own";
  return not_f32(d->plain.x_dtype, "x is not f32");
}

/* --- rows among threads --- */

/* Below this many elements a region costs more than it gains. */
#define ROWS_WORTH 16384

typedef struct rows_job {
  cpu_rows_fn fn;
  const void *job;
} rows_job;

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const rows_job *r = arg;
  r->fn(r->job, begin, end);
}

void cpu_rows_run(const ga_stream *stream, int64_t rows, int64_t row_elems, cpu_rows_fn fn, const void *job) {
  rows_job r = {.fn = fn, .job = job};
  ga_pool_run_ranges(rows * row_elems < ROWS_WORTH ? NULL : cpu_pool(stream), rows, 1, run_rows, &r);
}
