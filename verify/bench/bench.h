/* ga bench: times rows of the kernel table, which are called directly. Their buffers together exceed the last-level
 * cache.
 *
 * How to add an op `foo` that ga check knows: write bench_foo.c (copy bench_add.c) with one `const bench_op bench_foo`.
 * Its buffers are declared in check_foo.c (check_op.args).
 */
#ifndef GA_VERIFY_BENCH_BENCH_H
#define GA_VERIFY_BENCH_BENCH_H

#include <jansson.h>

#include "verify/bench/front.h"
#include "verify/check/internal.h"

#define BENCH_NAME        48
#define BENCH_MAX_ROWS    64 /* largest number of rows of the kernel table that are timed against each other */
#define BENCH_MAX_SAMPLES 2000

typedef struct bench_op {
  int n_shapes;
  /* Sets *desc to the op's standard shape number i: a complete description for the row `kernel`. Writes the shape's
   * name, such as "1x4096 q4_k". Rows with the same name are timed against each other. Returns false if the row has no
   * shape i. */
  bool (*shape)(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]);
  double (*flops)(const void *desc); /* returns the number of arithmetic operations of a call */
  /* returns the bytes of memory that a call must read and write; NULL = each argument once */
  double (*bytes)(const void *desc);
  uint32_t bits; /* value of check_case.bits for the function `args` of check_<op>.c */
} bench_op;

#define X(name) extern const bench_op bench_##name;
GA_OPS_TIMED(X)
#undef X

/* Returns the bench_op for `op`; NULL: there is none. */
const bench_op *bench_op_of(ga_op op);

/* --- measuring --- */

/* The kind of arithmetic whose measured ceiling a row is compared with. */
typedef enum bench_unit { BENCH_F32, BENCH_BF16, BENCH_F16, BENCH_FP8, BENCH_N_UNITS } bench_unit;

/* The best rates that a device reaches; 0 = not known. */
typedef struct bench_ceiling {
  /* 10^9 bytes per second that all threads, or a whole GPU, read from memory beyond the last-level cache */
  double read_gbs;
  /* 10^9 operations per second of each kind of arithmetic. f32: multiply-adds in registers; other kinds: matrix
   * units */
  double gflops[BENCH_N_UNITS];
} bench_ceiling;

typedef struct bench_result {
  const ga_kernel *kernel;
  char shape[BENCH_NAME];
  int64_t samples, calls;  /* number of samples, and of calls in one sample */
  int n_sets;              /* number of buffer sets that the calls rotate through */
  const char *timer;       /* clock by which the calls were timed: "host", "events", "graph" */
  double median, p10, p90; /* seconds of one call: the median, and the 10th and 90th percentile of the samples */
  double predicted;        /* seconds of one call as the planner predicts them */
  double flops, bytes;     /* arithmetic operations and bytes of memory of one call */
  double mhz, watts;       /* clock and power of the device while the calls ran; 0 = not known */
} bench_result;

/* Returns whether the row is a kernel of a GPU. Ops time such rows on larger shapes than rows of a CPU, where a CPU's
 * shapes are too small for a GPU. */
static inline bool bench_on_gpu(const ga_kernel *kernel) {
  return kernel->isa == GA_ISA_sm80 || kernel->isa == GA_ISA_sm90a;
}

/* Returns whether the device works asynchronously. Its calls are then recorded as a graph and timed by its events;
 * otherwise the host's clock times them. */
bool bench_has_clock(const ga_device *device);

/* Reads the size of the last-level cache from $GA_LAST_CACHE, in MiB, if it is set. Returns an error for a wrong value.
 * bench_measure_ceiling calls this first. */
GA_NODISCARD ga_status bench_use_given_cache(void);
/* Returns the total size in bytes of the sets of buffers through which calls rotate. It is three times the last-level
 * cache, at most 1.5 GiB and a quarter of the memory. */
size_t bench_rotation(const ga_device *device);
/* Finds the best rates of ctx's device. A CPU is measured. A GPU's rates are read from the file of the last `ga probe`;
 * they are 0 if there is none. */
ga_status bench_measure_ceiling(ga_ctx *ctx, bench_ceiling *out);

/* Times the n rows in `rows` on standard shape number i of their op. The rows take turns in random order. All rows must
 * give the shape the same name. out[n] has the results. */
ga_status bench_group(ga_ctx *ctx, const ga_kernel *const *rows, int n, int i, const bench_options *o,
                      bench_result *out);

/* Sorts x[n], and writes the median and the 10th and 90th percentile to *out. */
void bench_percentiles(double *x, int64_t n, bench_result *out);

/* --- report.c --- */

bench_unit bench_unit_of(const ga_kernel *kernel);
void bench_report_head(const ga_ctx *ctx, const bench_ceiling *ceiling);
void bench_report_line(const bench_ceiling *ceiling, const bench_result *r);
/* Appends a result to the JSON array `rows`. */
void bench_report_json(json_t *rows, const bench_ceiling *ceiling, const bench_result *r);
/* Makes the whole report as JSON, with `rows` as its results, which it takes over. The caller releases the report with
 * json_decref. NULL: out of memory. */
json_t *bench_report_all(ga_ctx *ctx, const bench_options *o, const bench_ceiling *ceiling, json_t *rows);

#endif
