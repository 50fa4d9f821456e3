#include "verify/check/selftest.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "cmdline/cmd.h"
#include "verify/check/walk.h"

/* --- Y = scale X + B in f32, right or with one fault --- */

typedef enum fault {
  CLEAN,
  TAIL,          /* leaves out the last element of each row */
  PAST_END,      /* writes one element behind the last */
  BEFORE_START,  /* writes one element before the first */
  PADDING,       /* rounds the width of all but the last row up to 8 */
  INPUT,         /* changes an element of x */
  WORKSPACE,     /* takes for granted that the workspace is zero */
  WORKSPACE_END, /* writes behind its workspace */
  SCALED,        /* 1.01 times too large */
  ROUGH,         /* rounds the product to bf16 */
  TRUNCATED,     /* flushes small results to zero */
  RANDOM,        /* last bit depends on the run */
  SELDOM,        /* the same in one run of a hundred */
  THREADS,       /* last bit depends on the number of threads */
  CRASH,
  ILLEGAL, /* illegal instruction or trap */
  HANG,
  STRIDE,    /* takes y_stride for x_stride */
  BROADCAST, /* ignores b_rows = 1 (reads one row further, which stays within the guard) */
  HALF,      /* error after half of the work, where what was written shows */
  SPURIOUS,  /* error without a reason */
  NAN_LOST,  /* turns NaN into 0 */
  READS_PAST /* reads, and does not use, what lies behind x */
} fault;

static volatile float sink;

/* factor is the row's. */
static float faulty_element(fault f, const ga_add_desc *d, float factor, float x, float b) {
  float product = d->scale * factor * x;
  if (f == ROUGH) product = (float)check_round(GA_BF16, (double)product);
  float y = product + b;
  if (f == SCALED) y *= 1.01f;
  if (f == TRUNCATED && fabsf(y) < 0.01f) return 0.0f;
  if (f == NAN_LOST && isnan(y)) return 0.0f;
  return y;
}

/* Changes the last bit of one result. */
static void flip(float *y) { *y = nextafterf(*y, 1e30f); }

/* Whether an element that a failed call has written is neither the old value nor zero, and so shows. */
static bool shows(float old, float written) {
  return !isnan(written) && written != 0.0f && memcmp(&old, &written, sizeof old) != 0;
}

/* Returns false if the fault is HALF and rows are left out. At least one element that was written then shows: a draw
 * whose rows all become zero, or stay as they were, is run to its end. */
static bool run_faulty_rows(fault f, const ga_add_desc *d, const ga_add_io *a) {
  const float *x = a->x, *b = a->b;
  bool shown = false;
  float *y = a->y;
  for (int64_t r = 0; r < d->rows; r++) {
    const float *xr = x + r * (f == STRIDE ? d->y_stride : d->x_stride);
    const float *br = b ? b + (d->b_rows == 1 ? (f == BROADCAST && r > 0) : r) * d->b_stride : NULL;
    float *yr = y + r * d->y_stride;
    const float factor = d->factor_stride ? a->factors[r * d->factor_stride] : 1.0f;
    int64_t width = f == TAIL ? d->width - 1 : d->width;
    for (int64_t i = 0; i < width; i++) {
      const float y_i = faulty_element(f, d, factor, xr[i], br ? br[i] : 0.0f);
      shown |= shows(yr[i], y_i);
      yr[i] = y_i;
    }
    if (f == PADDING && r + 1 < d->rows)
      for (int64_t i = d->width; i < d->y_stride && i % 8; i++) yr[i] = 0.0f;
    if (f == HALF && shown && r >= d->rows / 2) return false;
  }
  return true;
}

/* Written on purpose where nothing may be written. */
static void stray(fault f, const ga_add_desc *d, const ga_add_io *a, float *workspace, ga_stream *stream) {
  static atomic_int runs;
  float *y = a->y, *x = (float *)(uintptr_t)a->x;
  int64_t end = (d->rows - 1) * d->y_stride + d->width;
  switch (f) {
  case PAST_END: y[end] = 0.0f; break;
  case BEFORE_START: y[-1] = 0.0f; break;
  case INPUT:
    if (x != y) x[0] += 1.0f;
    break;
  case WORKSPACE: y[0] += workspace[0]; break;
  case WORKSPACE_END: workspace[16] = 0.0f; break;
  case RANDOM:
    if (atomic_fetch_add(&runs, 1) & 1) flip(y);
    break;
  case SELDOM:
    if (atomic_fetch_add(&runs, 1) % 100 == 50) flip(y);
    break;
  case THREADS:
    if (stream->device->caps.threads == 1) flip(y);
    break;
  case READS_PAST: sink = x[(d->rows - 1) * d->x_stride + d->width]; break;
  default: break;
  }
}

static ga_status launch_fault(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  const ga_add_desc *d = desc;
  const fault f = *(const fault *)kernel->impl;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  switch (f) {
  case CRASH: (void)raise(SIGSEGV); break;
  case ILLEGAL: (void)raise(SIGILL); break;
  case HANG:
    for (;;) sink = (float)usleep(1000);
  case SPURIOUS: return ga_fail(GA_ERR_INTERNAL, "built to fail");
  default: break;
  }
  const bool complete = run_faulty_rows(f, d, io);
  stray(f, d, io, workspace, stream);
  return complete ? GA_OK : ga_fail(GA_ERR_INTERNAL, "built to fail");
}

/* --- predicates --- */

static const char *f32_only(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return ((const ga_add_desc *)desc)->dtype == GA_F32 ? NULL : "dtype is not f32";
}

static const char *anything(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

static const char *nothing(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return "never";
}

static uint64_t sixteen_floats(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return 64;
}

/* --- the table --- */

typedef struct trap {
  ga_kernel row;
  check_detector by, or_by; /* or_by: as good, on draws of another kind; CHECK_PASSED = none */
} trap;

#define TRAP(name_, fault_, ok_, ...)            \
  {                                              \
    .row = {.id = name_,                         \
            .source = "verify/check/selftest.c", \
            .op = GA_OP_add,                     \
            .isa = GA_ISA_generic,               \
            .dtype = {GA_F32},                   \
            .tolerance = 2,                      \
            .ok = ok_,                           \
            .workspace = sixteen_floats,         \
            .launch = launch_fault,              \
            .impl = &(const fault){fault_}},     \
    .by = __VA_ARGS__                            \
  }

static const trap traps[] = {
    TRAP("clean", CLEAN, f32_only, CHECK_PASSED),
    TRAP("leaves_out_the_tail", TAIL, f32_only, CHECK_BY_UNWRITTEN, .or_by = CHECK_BY_VALUE /* in place */),
    TRAP("writes_past_the_end", PAST_END, f32_only, CHECK_BY_GUARD),
    TRAP("writes_before_the_start", BEFORE_START, f32_only, CHECK_BY_GUARD),
    TRAP("writes_into_stride_padding", PADDING, f32_only, CHECK_BY_PADDING),
    TRAP("changes_an_input", INPUT, f32_only, CHECK_BY_INPUT),
    TRAP("reads_uninitialised_workspace", WORKSPACE, f32_only, CHECK_BY_WORKSPACE),
    TRAP("writes_past_its_workspace", WORKSPACE_END, f32_only, CHECK_BY_GUARD),
    TRAP("wrong_scale_1.01", SCALED, f32_only, CHECK_BY_VALUE),
    TRAP("rounds_inside_to_bf16", ROUGH, f32_only, CHECK_BY_VALUE),
    TRAP("flushes_small_results", TRUNCATED, f32_only, CHECK_BY_VALUE),
    TRAP("last_bit_varies", RANDOM, f32_only, CHECK_BY_REPEAT),
    TRAP("last_bit_depends_on_threads", THREADS, f32_only, CHECK_BY_THREADS),
    TRAP("crashes", CRASH, f32_only, CHECK_BY_CRASH),
    TRAP("illegal_instruction", ILLEGAL, f32_only, CHECK_BY_CRASH),
    TRAP("hangs", HANG, f32_only, CHECK_BY_HANG),
    TRAP("ignores_a_stride", STRIDE, f32_only, CHECK_BY_VALUE),
    TRAP("ignores_broadcast", BROADCAST, f32_only, CHECK_BY_VALUE),
    TRAP("half_written_on_error", HALF, f32_only, CHECK_BY_HALF),
    TRAP("error_without_reason", SPURIOUS, f32_only, CHECK_BY_STATUS),
    TRAP("reads_past_the_end", READS_PAST, f32_only, CHECK_BY_CRASH),
    TRAP("loses_nan", NAN_LOST, f32_only, CHECK_BY_VALUE),
    TRAP("accepts_an_illegal_dtype", CLEAN, anything, CHECK_BY_LEGAL),
    TRAP("accepts_nothing", CLEAN, nothing, CHECK_BY_LEGAL),
    {.row =
         {.id = "op_without_a_check", .op = GA_OP_COUNT, .isa = GA_ISA_generic, .ok = anything, .launch = launch_fault},
     .by = CHECK_BY_TABLE},
    /* The walk goes on after all of these. */
    TRAP("clean_again", CLEAN, f32_only, CHECK_PASSED),
};

/* Under --stress. */
static const trap stressed[] = {
    TRAP("clean", CLEAN, f32_only, CHECK_PASSED),
    TRAP("last_bit_seldom_varies", SELDOM, f32_only, CHECK_BY_REPEAT),
};

typedef struct trap_tally {
  const trap *next;
  size_t wrong;
} trap_tally;

static void report_fault(void *user, const ga_kernel *kernel, const check_result *r) {
  trap_tally *t = user;
  const trap *want = t->next++;
  bool right = r->detector == want->by || (want->or_by && r->detector == want->or_by);
  t->wrong += !right;
  printf("%s  %-32s %-12s %s", right ? "ok  " : "FAIL", kernel->id, check_detector_name(r->detector), r->text);
  if (!right) printf(" [should be: %s]", check_detector_name(want->by));
  printf("\n");
}

/* Walks traps and counts the wrong verdicts. */
static ga_status walk_traps(const trap *list, size_t n, const check_options *o, size_t *wrong) {
  const ga_kernel *rows[GA_COUNT_OF(traps)];
  trap_tally t = {.next = list};
  for (size_t i = 0; i < n; i++) rows[i] = &list[i].row;
  GA_TRY(check_walk(rows, n, o, report_fault, &t));
  *wrong += t.wrong;
  return GA_OK;
}

int check_selftest(const check_options *o) {
  check_options quick = *o;
  size_t wrong = 0;
  const size_t n = GA_COUNT_OF(traps) + GA_COUNT_OF(stressed);
  quick.device = "cpu"; /* the traps are host code */
  quick.n = 60;
  quick.draw = -1;
  quick.launches = 0;
  if (quick.timeout_s > 2) quick.timeout_s = 2;
  if (walk_traps(traps, GA_COUNT_OF(traps), &quick, &wrong) != GA_OK) return cmd_fail("check");
  quick.n = 3;
  quick.launches = 100;
  if (walk_traps(stressed, GA_COUNT_OF(stressed), &quick, &wrong) != GA_OK) return cmd_fail("check");
  printf("selftest: %zu of %zu as they should be, seed %llu\n", n - wrong, n, (unsigned long long)o->seed);
  int plants = check_selftest_plants ? check_selftest_plants() : 0;
  return wrong || plants ? EXIT_CHECK : EXIT_OK;
}
