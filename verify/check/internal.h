/* Declarations that the files of ga check share; op files need check.h only. */
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

/* The check that found a failure. */
typedef enum check_detector {
  CHECK_PASSED,
  CHECK_BY_TABLE,     /* there is no check_<op>.c, or no oracle */
  CHECK_BY_LEGAL,     /* the row accepts a description that it must refuse, or refuses all */
  CHECK_BY_STATUS,    /* a call returned another status than expected */
  CHECK_BY_HALF,      /* a failed call left an output half written */
  CHECK_BY_GUARD,     /* the row wrote outside of a buffer */
  CHECK_BY_PADDING,   /* the row wrote between the rows of an output */
  CHECK_BY_INPUT,     /* the row changed an input */
  CHECK_BY_UNWRITTEN, /* the row did not write some elements of an output */
  CHECK_BY_WORKSPACE, /* the result depends on the workspace's old contents */
  CHECK_BY_REPEAT,    /* two equal runs differ */
  CHECK_BY_THREADS,   /* runs with one thread and with many differ */
  CHECK_BY_VALUE,     /* a value differs from the oracle's by more than allowed */
  CHECK_BY_CRASH,     /* the child process crashed */
  CHECK_BY_HANG,      /* the child process did not end in time */
  CHECK_BY_SKIP       /* not a failure: this device cannot run the row */
} check_detector;

const char *check_detector_name(check_detector d);

typedef struct check_result {
  check_detector detector;
  int64_t draw;    /* number of the failing draw, or of the last draw */
  int64_t n_draws; /* number of draws that were run */
  double worst;    /* largest error seen, as a fraction of the allowed error */
  double seconds;
  char text[480];
  char what[320]; /* text of the draw: mode, arguments, description */
} check_result;

typedef struct check_options {
  const char *device;
  uint64_t seed;
  int64_t n;        /* number of random draws after the edge shapes */
  int64_t draw;     /* number of the only draw to run; below 0: all */
  double timeout_s; /* seconds that one draw may take */
  /* seconds of processor time of one row, after which no draw begins. A row has at least CHECK_LEAST_DRAWS draws. 0: no
   * limit */
  double budget_s;
  bool tame; /* no hostile values (ga bench --tame) */
  /* > 0: number of launches of each draw on large inputs, which are only compared with each other (check_stress) */
  int64_t launches;
  int threads; /* CPU threads of the first run; the second run has one */
} check_options;

/* The devices of a walk. */
typedef struct check_rig {
  ga_ctx *ctx;    /* the device under test */
  ga_ctx *single; /* context of the same device with one thread; NULL for devices without CPU threads */
  ga_ctx *ref;
} check_rig;

ga_status check_rig_open(const check_options *o, check_rig *rig);
void check_rig_close(check_rig *rig);

/* A callback before each step of a draw, so that a crash can be located. */
typedef void (*check_progress)(void *user, int64_t draw, const char *step);

/* Called before each draw, in programs that define it. The CUDA emulator changes its schedule from draw to draw by
 * it. */
GA_WEAK void check_draw_begins(uint64_t seed, int64_t draw);

/* Checks one row with all draws. The caller handles crashes and hangs. */
void check_row(const check_rig *rig, const ga_kernel *kernel, const check_options *o, check_progress progress,
               void *user, check_result *out);

/* Makes c->desc for draw `i`. GA_ERR_UNSUPPORTED: the row accepts none of the drawn descriptions. GA_ERR_STATE with
 * a text: the row accepts a description that it must refuse. */
ga_status check_draw_desc(check_case *c, const check_options *o, int64_t i);

/* Makes images of the row's buffers on the host and fills them. */
ga_status check_build_row(check_case *c);
/* Makes images of the oracle's buffers on the host, with the row's values. */
ga_status check_build(check_case *c);
/* Makes a second set of the row's images, for `plain`: with separate outputs, and with the oracle's form of derived
 * inputs. */
ga_status check_build_plain(check_case *c, check_args *out);
/* Fills guards, padding and the elements of outputs with a pattern of NaN that depends on position and salt. */
void check_canary(uint8_t *p, size_t n, size_t at, uint64_t salt);
/* Fills the elements of an output with poison in arg->before, the image that is copied to the device before a run. The
 * pattern depends on salt. */
void check_poison(check_arg *arg, uint64_t salt);
/* Fills an argument with random values of the case's mode. */
ga_status check_fill_arg(check_case *c, check_arg *arg);
/* Sets the pointers of a's io to the images on the host. */
void check_bind_host(check_args *a);

/* Returns the bytes from the first element to the end of the last. */
size_t check_payload(const check_arg *arg);

/* Copies a's images to the device and sets the pointers of a's io to the copies. */
ga_status check_upload(ga_ctx *ctx, check_args *a);
/* Copies results from the device to the images `after`. */
ga_status check_download(ga_ctx *ctx, check_args *a);

/* The workspace of a row between guards, filled with zeros or NaN. */
typedef struct check_workspace {
  uint8_t *image; /* copy on the host, also of the contents after a run */
  uint8_t *expected;
  void *device;
  size_t bytes; /* bytes that the row requests */
} check_workspace;

/* Makes the launches of the row under test. */
ga_status check_steps_of(const check_case *c, ga_ctx *ctx, ga_plan_steps *steps);
/* Makes the launches of the row under test, and runs them. */
ga_status check_launch(const check_case *c, ga_ctx *ctx, const void *io, void *workspace);
/* Launches the steps by op->launch, or by ga_plan_steps_launch if that is NULL. desc: the steps' description. */
ga_status check_launch_steps(const check_op *op, const ga_plan_steps *steps, const void *desc, const void *io,
                             void *workspace, ga_stream *stream);
ga_status check_open_workspace(check_case *c, ga_ctx *ctx, bool zero, check_workspace *w);
void *check_workspace_at(const check_workspace *w); /* returns NULL if the row needs no workspace */
check_detector check_workspace_guards(ga_ctx *ctx, check_workspace *w, char *text, size_t capacity);
/* Frees the device's copies of the arguments and the workspace. */
void check_release(ga_ctx *ctx, check_args *a, check_workspace *w);

/* Runs the case's row `launches` times on the same large inputs. Every launch must equal the first; rows without a
 * fixed order may differ by rounding. There is no oracle, so that a GPU's time goes to launches: this finds rare
 * failures. */
check_detector check_stress(check_case *c, ga_ctx *ctx, int64_t launches, char *text, size_t capacity);

/* Runs the row on host memory that ends at a guard page; results go to `after`. */
ga_status check_run_tight(check_case *c, ga_ctx *ctx);

/* Loads the elements of a view as doubles, in order of index. image: arg->before or arg->after. */
ga_status check_load(check_case *c, const check_arg *arg, const uint8_t *image, double **out);

/* Checks guards, padding and inputs of a's images after a run. */
check_detector check_hygiene(const check_args *a, char *text, size_t capacity);
/* Returns whether bytes or numbers are equal; NaN equals NaN. If not, *at is the first index that differs. */
bool check_same(const check_arg *arg, const uint8_t *a, const uint8_t *b, int64_t *at);

/* Judges the values of all outputs. worst: see check_result. */
check_detector check_values(check_case *c, check_args *plain, double *worst, char *text, size_t capacity);

/* Returns the oracle of an op; NULL: there is none. */
const ga_kernel *check_oracle_of(ga_op op);
/* Returns whether the op has a check_op, and an oracle if it needs one. */
bool check_is_covered(ga_op op);

#endif
