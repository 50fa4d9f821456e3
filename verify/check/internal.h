/* What the files of ga check share; op files need check.h only. */
#ifndef GA_VERIFY_CHECK_INTERNAL_H
#define GA_VERIFY_CHECK_INTERNAL_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"
#include "core/device.h"
#include "verify/check/check.h"
#include "verify/check/error.h"

#define CHECK_N_EDGES     25
#define CHECK_LEAST_DRAWS 8

/* What found the failure. */
typedef enum check_detector {
  CHECK_PASSED,
  CHECK_BY_TABLE,     /* no check_<op>.c, or no oracle */
  CHECK_BY_LEGAL,     /* takes what it must refuse, or nothing at all */
  CHECK_BY_STATUS,    /* another status than expected */
  CHECK_BY_HALF,      /* half-written output on error */
  CHECK_BY_GUARD,     /* wrote outside of a buffer */
  CHECK_BY_PADDING,   /* wrote between the rows of an output */
  CHECK_BY_INPUT,     /* changed an input */
  CHECK_BY_UNWRITTEN, /* left output elements as they were */
  CHECK_BY_WORKSPACE, /* the result depends on what the workspace held */
  CHECK_BY_REPEAT,    /* two equal runs differ */
  CHECK_BY_THREADS,   /* one thread and many differ */
  CHECK_BY_VALUE,     /* differs from the oracle by more than allowed */
  CHECK_BY_CRASH,
  CHECK_BY_HANG,
  CHECK_BY_SKIP /* not a failure: this device cannot run the row */
} check_detector;

const char *check_detector_name(check_detector d);

typedef struct check_result {
  check_detector detector;
  int64_t draw;    /* the failing one, or the last */
  int64_t n_draws; /* run */
  double worst;    /* largest error seen, as a part of what is allowed */
  double seconds;
  char text[480];
  char what[320]; /* the draw: mode, arguments, description */
} check_result;

typedef struct check_options {
  const char *device;
  uint64_t seed;
  int64_t n;        /* random draws after the edge shapes */
  int64_t draw;     /* >= 0: this one only */
  double timeout_s; /* of one draw */
  double
      budget_s; /* processor time of one row, after which no draw begins, once it has had CHECK_LEAST_DRAWS; 0: none */
  bool tame;    /* no hostile values (ga bench --tame) */
  int64_t launches; /* > 0: of each draw, on large inputs, compared with each other alone (check_stress) */
  int threads;      /* of the first run; the other has one */
} check_options;

/* The devices of a walk. */
typedef struct check_rig {
  ga_ctx *ctx;    /* the device under test */
  ga_ctx *single; /* the same with one thread, NULL when threads are not its kind */
  ga_ctx *ref;
} check_rig;

ga_status check_rig_open(const check_options *o, check_rig *rig);
void check_rig_close(check_rig *rig);

/* Told before each step of a draw, so that a crash can be placed. */
typedef void (*check_progress)(void *user, int64_t draw, const char *step);

/* Told of each draw before it runs, in a program that has it: the CUDA emulator varies its schedule from draw to draw.
 * */
GA_WEAK void check_draw_begins(uint64_t seed, int64_t draw);

/* One row, all draws. Crashes and hangs are the caller's. */
void check_row(const check_rig *rig, const ga_kernel *kernel, const check_options *o, check_progress progress,
               void *user, check_result *out);

/* Makes c->desc for draw `i`: GA_ERR_UNSUPPORTED when the row takes nothing of what was tried, GA_ERR_STATE with text
 * when it took what it must refuse. */
ga_status check_draw_desc(check_case *c, const check_options *o, int64_t i);

/* Host images of the row's buffers, filled. */
ga_status check_build_row(check_case *c);
/* And of the oracle's, with the same values. */
ga_status check_build(check_case *c);
/* A second set of row images for `plain`: outputs apart, derived inputs as the oracle has them. */
ga_status check_build_plain(check_case *c, check_args *out);
/* Fills guards, padding and, of outputs, elements with a pattern of NaN that depends on position and salt. */
void check_canary(uint8_t *p, size_t n, size_t at, uint64_t salt);
/* Poisons the elements of output `arg` in `before`. */
void check_poison(check_arg *arg, uint64_t salt);
/* Random values of the case's mode. */
ga_status check_fill_arg(check_case *c, check_arg *arg);
/* Binds pointers of a's io to host images. */
void check_bind_host(check_args *a);

/* Bytes from the first element to behind the last. */
size_t check_payload(const check_arg *arg);

/* Copies of a's images on the device, its pointers bound to them; results go to `after`. */
ga_status check_upload(ga_ctx *ctx, check_args *a);
ga_status check_download(ga_ctx *ctx, check_args *a);

/* What a row asks for between guards: zeros, or NaN. */
typedef struct check_workspace {
  uint8_t *image; /* host, after the run too */
  uint8_t *expected;
  void *device;
  size_t bytes; /* that the row asked for */
} check_workspace;

/* The launches of the row under test, and running them. */
ga_status check_steps_of(const check_case *c, ga_ctx *ctx, ga_plan_steps *steps);
ga_status check_launch(const check_case *c, ga_ctx *ctx, const void *io, void *workspace);
/* Steps for c->desc or c->oracle_desc, by the op's own launch where it has one. */
ga_status check_launch_steps(const check_op *op, const ga_plan_steps *steps, const void *desc, const void *io,
                             void *workspace, ga_stream *stream);
ga_status check_open_workspace(check_case *c, ga_ctx *ctx, bool zero, check_workspace *w);
void *check_workspace_at(const check_workspace *w); /* NULL when the row asks for none */
check_detector check_workspace_guards(ga_ctx *ctx, check_workspace *w, char *text, size_t capacity);
/* Gives back the device's copies of both. */
void check_release(ga_ctx *ctx, check_args *a, check_workspace *w);

/* The case's row `launches` times on the same inputs, large ones: every launch must give what the first gave, a row
 * without a fixed order nearly that. No oracle, so that a GPU's time goes to launches: finds what goes wrong now and
 * then. */
check_detector check_stress(check_case *c, ga_ctx *ctx, int64_t launches, char *text, size_t capacity);

/* Launches on host memory that ends at a guard page; results go to `after`. */
ga_status check_run_tight(check_case *c, ga_ctx *ctx);

/* The elements of a view as doubles, in order of index. which: arg->before or arg->after. */
ga_status check_load(check_case *c, const check_arg *arg, const uint8_t *image, double **out);

/* Guards, padding, inputs of a's images after a run. */
check_detector check_hygiene(const check_args *a, char *text, size_t capacity);
/* True when bytes or numbers are equal; NaN equals NaN. Else *at is the first index that differs. */
bool check_same(const check_arg *arg, const uint8_t *a, const uint8_t *b, int64_t *at);

/* The verdict on the values of all outputs. worst: see check_result. */
check_detector check_values(check_case *c, check_args *plain, double *worst, char *text, size_t capacity);

/* Oracle of an op, NULL when there is none. */
const ga_kernel *check_oracle_of(ga_op op);
/* The op has a file here, and an oracle if it needs one. */
bool check_is_covered(ga_op op);

#endif
