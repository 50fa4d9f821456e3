/* ga bench: times rows of the kernel table, called directly, on buffers that together exceed the last cache.
 *
 * How to add an op `foo` that ga check knows: write bench_foo.c (copy bench_add.c) with one `const bench_op bench_foo`.
 * The buffers are those that check_foo.c declares for the description.
 */
#ifndef GA_VERIFY_BENCH_BENCH_H
#define GA_VERIFY_BENCH_BENCH_H

#include <jansson.h>

#include "verify/bench/front.h"
#include "verify/check/internal.h"

#define BENCH_NAME        48
#define BENCH_MAX_ROWS    64 /* in a group */
#define BENCH_MAX_SAMPLES 2000

typedef struct bench_op {
  int n_shapes;
  /* Fills `desc`, complete, with standard shape i for this row and writes its name, such as "1x4096 q4_k"; rows that
   * get the same name are timed against each other. False: the row has no shape i. */
  bool (*shape)(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]);
  double (*flops)(const void *desc);
  double (*bytes)(const void *desc); /* bytes that must be moved; NULL = every argument once */
  uint32_t bits;                     /* check_case.bits for check_<op>.c's `args` */
} bench_op;

#define X(name) extern const bench_op bench_##name;
GA_OPS_TIMED(X)
#undef X

/* The bench_op of an op, NULL when it has none. */
const bench_op *bench_op_of(ga_op op);

/* --- measuring --- */

/* The kind of arithmetic whose ceiling a row is compared with. */
typedef enum bench_unit { BENCH_F32, BENCH_BF16, BENCH_F16, BENCH_FP8, BENCH_N_UNITS } bench_unit;

/* The best rates of a device; 0 = not known. */
typedef struct bench_ceiling {
  double read_gbs;              /* all threads, or the whole GPU, reading more than the last cache */
  double gflops[BENCH_N_UNITS]; /* f32: multiply-adds in registers; the others: matrix units */
} bench_ceiling;

typedef struct bench_result {
  const ga_kernel *kernel;
  char shape[BENCH_NAME];
  int64_t samples, calls;  /* calls in one sample */
  int n_sets;              /* buffer sets rotated through */
  const char *timer;       /* "host", "events", "graph" */
  double median, p10, p90; /* seconds of one call */
  double predicted;        /* by the planner, seconds of one call */
  double flops, bytes;
  double mhz, watts; /* while it ran; 0 = not known */
} bench_result;

/* True for rows of a GPU. They have other shapes where a CPU's are too small, or a GPU's too large for a CPU. */
static inline bool bench_on_gpu(const ga_kernel *kernel) {
  return kernel->isa == GA_ISA_sm80 || kernel->isa == GA_ISA_sm90a;
}

/* True when work is asynchronous, recorded as a graph and timed by the device's events; else the host's clock times
 * it. */
bool bench_has_clock(const ga_device *device);

/* Takes $GA_LAST_CACHE, in MiB, as the size of the last cache, where it is set. bench_measure_ceiling calls this
 * first. */
GA_NODISCARD ga_status bench_use_given_cache(void);
/* Total bytes of the rotating buffers: three times the last cache, at most 1.5 GiB and a quarter of the memory. */
size_t bench_rotation(const ga_device *device);
/* Finds the ceiling: measures a CPU; for a GPU reads the figures of its last `ga probe`, zeros when there was none. */
ga_status bench_measure_ceiling(ga_ctx *ctx, bench_ceiling *out);

/* Times rows[0..n) on shape `i` of their op, taking turns in random order. All have the same shape name. */
ga_status bench_group(ga_ctx *ctx, const ga_kernel *const *rows, int n, int i, const bench_options *o,
                      bench_result *out);

/* Median and 10th and 90th percentile; sorts x. */
void bench_percentiles(double *x, int64_t n, bench_result *out);

/* --- report.c --- */

bench_unit bench_unit_of(const ga_kernel *kernel);
void bench_report_head(const ga_ctx *ctx, const bench_ceiling *ceiling);
void bench_report_line(const bench_ceiling *ceiling, const bench_result *r);
/* Appends a result to `rows`. */
void bench_report_json(json_t *rows, const bench_ceiling *ceiling, const bench_result *r);
/* Makes the whole report and takes over `rows`; NULL without memory. */
json_t *bench_report_all(ga_ctx *ctx, const bench_options *o, const bench_ceiling *ceiling, json_t *rows);

#endif
