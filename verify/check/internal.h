/* Declarations that the files of ga check share. The files of ops, check_<op>.c, need only check.h. */
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

/* Elements that a large argument of ga bench repeats: a prime, so that rows and tiles differ. */
#define TIMING_PERIOD 1048583

#define CHECK_N_EDGES     25
#define CHECK_LEAST_DRAWS 8

/* The checks that a row can fail. CHECK_PASSED: it has passed all. */
typedef enum check_detector {
  CHECK_PASSED,
  CHECK_BY_TABLE,     /* there is no check_<op>.c for the op, or no oracle */
  CHECK_BY_LEGAL,     /* the row accepts a description that it must refuse, or refuses all descriptions */
  CHECK_BY_STATUS,    /* a call returned another status than expected */
  CHECK_BY_HALF,      /* a failed call left an output half written */
  CHECK_BY_GUARD,     /* the row wrote outside of a buffer */
  CHECK_BY_PADDING,   /* the row wrote into the padding between rows of an output */
  CHECK_BY_INPUT,     /* the row changed an input */
  CHECK_BY_UNWRITTEN, /* the row left some elements of an output unwritten */
  CHECK_BY_WORKSPACE, /* the result depends on the old contents of the workspace */
  CHECK_BY_REPEAT,    /* two runs with equal inputs have different results */
  CHECK_BY_THREADS,   /* runs with one thread and with many threads have different results */
  CHECK_BY_VALUE,     /* a value differs from the oracle's by more than allowed */
  CHECK_BY_CRASH,     /* the child process crashed */
  CHECK_BY_HANG,      /* the child process did not end in time */
  CHECK_BY_SKIP       /* no failure: this device cannot run the row */
} check_detector;

const char *check_detector_name(check_detector d);

typedef struct check_result {
  check_detector detector;
  int64_t draw;    /* number of the draw that failed, or of the last draw */
  int64_t n_draws; /* number of draws that were run */
  double worst;    /* largest error, as a fraction of the allowed error */
  double seconds;
  char text[480];
  char what[320]; /* description of the draw: mode, arguments, description of the call */
} check_result;

typedef struct check_options {
  const char *device;
  uint64_t seed;
  int64_t n;        /* number of random draws, which follow the draws of edge shapes */
  int64_t draw;     /* number of the one draw to run; below 0: all draws run */
  double timeout_s; /* seconds that one draw may take */
  /* seconds of processor time for one row, after which no further draw begins. A row has at least CHECK_LEAST_DRAWS
   * draws. 0: no limit */
  double budget_s;
  bool tame; /* inputs have no special values (ga bench --tame) */
  /* if above 0: each draw on large inputs is launched this many times, and results are only compared with each other
   * (check_stress) */
  int64_t launches;
  int threads; /* CPU threads of the first run; the second run has one */
} check_options;

/* The contexts with which rows are checked. */
typedef struct check_rig {
  ga_ctx *ctx;    /* context of the device that is tested */
  ga_ctx *single; /* context of the same device with one thread; NULL for devices without CPU threads */
  ga_ctx *ref;
} check_rig;

ga_status check_rig_open(const check_options *o, check_rig *rig);
void check_rig_close(check_rig *rig);

/* A callback that is called before each step of a draw, so that a crash can be located. step: name of the step. */
typedef void (*check_progress)(void *user, int64_t draw, const char *step);

/* A function that only some programs define, which is called before each draw. In the program with the CUDA emulator,
 * it changes the order in which threads run. */
GA_WEAK void check_draw_begins(uint64_t seed, int64_t draw);

/* Checks one row of the kernel table with all draws, and writes *out. The caller handles crashes and hangs. */
void check_row(const check_rig *rig, const ga_kernel *kernel, const check_options *o, check_progress progress,
               void *user, check_result *out);

/* Draws the description c->desc of draw number i. Returns GA_ERR_UNSUPPORTED if the row accepts none of the drawn
 * descriptions. Returns GA_ERR_STATE with a text if it accepts a description that it must refuse. */
ga_status check_draw_desc(check_case *c, const check_options *o, int64_t i);

/* Allocates and fills the host's copies of the row's arguments. */
ga_status check_build_row(check_case *c);
/* Allocates and fills the host's copies of the oracle's arguments, with the values of the row's arguments. */
ga_status check_build(check_case *c);
/* Makes a second set of the row's arguments, *out, for the function `plain`. Its outputs are separate buffers, and
 * derived inputs have the oracle's form. */
ga_status check_build_plain(check_case *c, check_args *out);
/* Fills n bytes at p with a pattern whose numbers are NaN. The pattern depends on the bytes' positions, which begin at
 * `at`, and on salt. Guards, padding and outputs get it. */
void check_canary(uint8_t *p, size_t n, size_t at, uint64_t salt);
/* Fills an output's elements in arg->before, which is copied to the device before a run, with a pattern that depends on
 * salt. Elements that still have it afterwards were not written. */
void check_poison(check_arg *arg, uint64_t salt);
/* Fills an argument with random values as the draw's mode (check_mode) requires. */
ga_status check_fill_arg(check_case *c, check_arg *arg);
/* Sets the pointers in the io struct of `a` to the host's copies of its arguments. */
void check_bind_host(check_args *a);

/* Returns the bytes of an argument from its first element to the end of its last. */
size_t check_payload(const check_arg *arg);

/* Copies the arguments `a` to the device, and sets the pointers in their io struct to these copies. */
ga_status check_upload(ga_ctx *ctx, check_args *a);
/* Copies the arguments from the device to their `after` on the host. */
ga_status check_download(ga_ctx *ctx, check_args *a);

/* The workspace of a row, between two guards. It is filled with zeros or NaN before a run. */
typedef struct check_workspace {
  uint8_t *image; /* copy on the host: the contents before a run, and later after it */
  uint8_t *expected;
  void *device;
  size_t bytes; /* bytes of workspace that the row requests */
} check_workspace;

/* Makes the list of launches of the row that is tested, in *steps. */
ga_status check_steps_of(const check_case *c, ga_ctx *ctx, ga_plan_steps *steps);
/* Makes the list of launches of the row that is tested, and runs them. */
ga_status check_launch(const check_case *c, ga_ctx *ctx, const void *io, void *workspace);
/* Runs the launches `steps` by op->launch, or by ga_plan_steps_launch if op->launch is NULL. desc: the description for
 * which they were made. */
ga_status check_launch_steps(const check_op *op, const ga_plan_steps *steps, const void *desc, const void *io,
                             void *workspace, ga_stream *stream);
ga_status check_open_workspace(check_case *c, ga_ctx *ctx, bool zero, check_workspace *w);
void *check_workspace_at(const check_workspace *w); /* returns NULL if the row needs no workspace */
check_detector check_workspace_guards(ga_ctx *ctx, check_workspace *w, char *text, size_t capacity);
/* Frees the copies of the arguments and of the workspace on the device. */
void check_release(ga_ctx *ctx, check_args *a, check_workspace *w);

/* Launches the row `launches` times on the same large inputs. Every result must equal the first; rows without a fixed
 * order of sums may differ by rounding. There is no oracle, so that a GPU's time goes to launches. This finds rare
 * failures. Writes the failure's description to text. */
check_detector check_stress(check_case *c, ga_ctx *ctx, int64_t launches, char *text, size_t capacity);

/* Runs the row on host memory that ends at a page that cannot be read. Results go to `after`. */
ga_status check_run_tight(check_case *c, ga_ctx *ctx);

/* Loads the elements of an argument as doubles, in the order of their indices. image: arg->before or arg->after. *out
 * is in the draw's arena. */
ga_status check_load(check_case *c, const check_arg *arg, const uint8_t *image, double **out);

/* Checks guards, padding and inputs of the arguments after a run. Writes the failure's description to text. */
check_detector check_hygiene(const check_args *a, char *text, size_t capacity);
/* Returns whether two copies of an argument have equal elements; NaN equals NaN. If not, *at is the first index that
 * differs. */
bool check_same(const check_arg *arg, const uint8_t *a, const uint8_t *b, int64_t *at);

/* Compares the values of all outputs with the oracle's. *worst becomes the largest error, as a fraction of the allowed
 * error. Writes the failure's description to text. */
check_detector check_values(check_case *c, check_args *plain, double *worst, char *text, size_t capacity);

/* Returns the oracle of an op; NULL: there is none. */
const ga_kernel *check_oracle_of(ga_op op);
/* Returns whether the op has a check_op and, if the check_op needs one, an oracle. */
bool check_is_covered(ga_op op);

#endif
