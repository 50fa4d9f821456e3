/* ga check: every row of a device's kernel table is called directly and compared with the oracle of its op.
 *
 * How to add an op `foo`: write check_foo.c (copy check_add.c: 60 lines) with one `const check_op check_foo`. It
 * supplies:
 *
 *   draw    a random description, complete as the plan functions make it (no stride 0, defaults filled in). Sizes come
 *           from check_dim, types from check_dtype, strides from check_stride, which give edge shapes and the row's own
 *           dtypes. Draws that row->ok refuses are drawn again. Choices outside of the description (a pointer that may
 *           be NULL, two arguments in one buffer) are made by bits of c->bits, never by the rng.
 *   args    the buffers that a description needs, by check_in, check_out, check_inout, check_index. It runs twice: for
 *           the row's description and for the oracle's. Scalars of the io struct are set in a->io.
 *   oracle_types  makes the oracle's description from a copy of the row's. Plain output types (and inputs of the
 *           same type) become GA_F64, and packed weights native. NULL: the oracle gets the same description.
 *   plain   an evaluation in the same dtypes, in plain loops, with float sums and no double. The row's error may be
 *           row->tolerance times the error of this evaluation, plus `ulps` units. NULL: `ulps` units alone.
 *   ulps    number of units of error that are allowed in addition. A unit is the spacing of the output type at the
 *           largest value of the element's row (last dimension). Ops whose sums cancel define another by `unit`.
 *   modes, specials   the kinds of values that make sense; see check_mode and check_special.
 *
 * The framework does the rest (run.c). It puts guard bands with canaries around every buffer and the workspace, NaN
 * into the padding between strides, and poison into outputs. It places arguments at offsets of their alignment, and
 * runs twice, with another poison and another workspace. It compares one thread with many. It finds changed inputs,
 * reads past the end, crashes, hangs, wrong exact results and errors beyond the bounds.
 *
 * A failure is a line that reproduces it: ga check -k ID -s SEED --draw I
 */
#ifndef GA_VERIFY_CHECK_CHECK_H
#define GA_VERIFY_CHECK_CHECK_H

#include "base/mem.h"
#include "base/rng.h"
#include "core/ctx.h"
#include "core/kernel.h"
#include "opdef/attn.h"
#include "opdef/gemm.h"

#define CHECK_MAX_ARGS 24
#define CHECK_MAX_IO   512

typedef enum check_mode {
  CHECK_EXACT = 1,  /* inputs are small integers; results must equal the oracle's, rounded once */
  CHECK_NORMAL = 2, /* inputs are normally distributed; errors of results are bounded */
  /* as CHECK_NORMAL, with `specials` among the inputs. NaN and infinity must appear where the oracle or `plain` has
   * them; errors of all other elements are bounded */
  CHECK_HOSTILE = 4
} check_mode;

typedef enum check_special {
  CHECK_INF = 1,
  CHECK_NAN = 2,
  CHECK_HUGE = 4,
  CHECK_TINY = 8 /* denormal numbers */
} check_special;

typedef enum check_role { CHECK_IN, CHECK_OUT, CHECK_INOUT } check_role;

typedef enum check_fill {
  /* random values of the mode (check_mode); blocks of quantised types get random bits and finite scales */
  CHECK_FILL_VALUES,
  CHECK_FILL_INDEX, /* random integers in [lo, hi) */
  CHECK_FILL_RANGE, /* random floats in [lo, hi), in every mode */
  CHECK_FILL_OP     /* values that the function op->fill makes */
} check_fill;

/* One buffer, an argument of a call. The last dimension is contiguous; strides count elements. */
typedef struct check_arg {
  const char *name;
  size_t io_at; /* offset of the buffer's pointer in the io struct */
  check_role role;
  ga_dtype dtype;
  int32_t n_dims;
  int64_t dim[GA_MAX_DIMS], stride[GA_MAX_DIMS];
  size_t align; /* alignment of the first element in bytes; 0 = that of the type's element or block */
  check_fill fill;
  double lo, hi;
  /* number of the argument whose buffer this argument shares; -1: none. The other argument has the same shape and
   * becomes INOUT. The oracle, `plain` and `unit` get separate buffers, so that they always see the inputs unchanged */
  int alias;
  /* op->derive makes the row's argument from the oracle's argument of the same number, such as packed weights */
  bool derived;
  /* --- set by the framework --- */
  /* copies of the buffer on the host, with its contents before and after a run, and one for scratch. Each copy has a
   * guard, an offset, the elements and a guard */
  uint8_t *before, *after, *scratch;
  size_t bytes;        /* size of each copy in bytes */
  size_t repeat_bytes; /* with c->timing: bytes that `before` has; the rest of the argument repeats them */
  size_t at;           /* offset of the first element in a copy, in bytes */
  void *device;
} check_arg;

typedef struct check_args {
  check_arg arg[CHECK_MAX_ARGS];
  int n;
  GA_ALIGNED(8) unsigned char io[CHECK_MAX_IO];
} check_args;

typedef struct check_case check_case;

typedef struct check_op {
  uint32_t modes, specials; /* combinations of check_mode bits (modes), and of check_special bits (specials) */
  double ulps;
  bool no_oracle; /* results are private to the device, so that values are not compared; all other checks run */
  void (*draw)(check_case *c);
  void (*args)(const check_case *c, const void *desc, check_args *a);
  void (*oracle_types)(void *desc);
  ga_status (*plain)(const ga_kernel *kernel, const void *desc, const void *io);
  /* --- optional --- */
  /* Runs the launches of the row and of the oracle, in place of ga_plan_steps_launch. It is for ops of several
   * ranks. */
  ga_status (*launch)(const ga_plan_steps *steps, const void *desc, const void *io, void *workspace, ga_stream *stream);
  /* Makes the values of an argument with CHECK_FILL_OP. It is called for these arguments in the order of their numbers,
   * and may set c->expect. */
  void (*fill)(check_case *c, const check_arg *arg, double *values, int64_t n);
  /* Sets unread[i] for elements of input `arg` on which no result may depend; the framework makes them NaN. It is for
   * arguments of plain types only. */
  void (*unread)(const check_case *c, const check_arg *arg, bool *unread, int64_t n);
  /* Writes the unit in which errors are measured for each element of output `arg`. io: the oracle's arguments, after
   * the oracle has run. */
  void (*unit)(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n);
  /* Returns a relative error that all elements of output `arg` may have in common, such as the error of a common
   * factor. */
  double (*shared)(const check_case *c, const check_arg *arg);
  /* Returns whether output `arg` has no rounding error except that of its type. */
  bool (*exact)(const check_case *c, const check_arg *arg);
  /* Returns a bound for the root mean square error of output `arg`, as a multiple of the plain evaluation's;
   * check_beside adds an allowance for chance. 0: only check_used bounds it. */
  double (*beside)(const check_case *c, const check_arg *arg);
  /* Fills the payload of c->row.arg[i].before from c->oracle.arg[i], for an argument whose `derived` is true. */
  ga_status (*derive)(check_case *c, int i);
  /* Converts outputs to one form where several forms are equivalent. It changes `after`, or `before` if `after` is
   * false. It is called for the arguments of the row, the oracle and `plain`. */
  void (*canonical)(const check_case *c, check_args *a, bool after);
  /* Sets excused[i] for elements of output `arg` that the row may make NaN or infinite, whatever the oracle has. io:
   * the oracle's arguments. */
  void (*excuse)(const check_case *c, const check_arg *arg, const void *io, bool *excused, int64_t n);
  /* Compares one output with the oracle's, in place of the framework. got, want: values of the row and of the oracle.
   * Returns NULL, or a text that describes the fault and outlives the call. */
  const char *(*judge)(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n);
  /* Writes fields of a description that its arguments do not show, for the report, such as "act=1 flags=3". */
  void (*describe)(const void *desc, char *text, size_t capacity);
  /* Returns why this row must refuse the description c->desc, apart from its types; NULL: the row may accept it. */
  const char *(*must_refuse)(const check_case *c);
  /* Sets c->extra from the description c->desc, as `args` needs it. For ga bench, which has descriptions of its own
   * instead of `draw`. */
  ga_status (*timed)(check_case *c);
} check_op;

/* One draw: a row, a random description, and the buffers of a call. */
struct check_case {
  const check_op *op;
  const ga_kernel *kernel;
  ga_ctx *ctx;       /* context of the device that is tested */
  void *desc;        /* description for the row (ga_<op>_desc) */
  void *oracle_desc; /* copy of desc with the oracle's types */
  check_mode mode;
  bool large; /* --stress: sizes fill a GPU several times */
  /* ga bench: buffers have no guards or canaries, and `before` has only the first values of an argument */
  bool timing;
  uint32_t bits;     /* random bits for choices that the op makes outside of the description */
  uint32_t specials; /* special values of hostile mode: the op's specials, some of which its function draw may remove */
  ga_status expect;  /* status that the launch must return: GA_OK unless the op sets it */
  check_args row, oracle;
  ga_rng rng;
  ga_arena arena;    /* arena of all memory of this draw */
  const void *extra; /* data that the op's function draw keeps in the arena for its function args */
  int edge;          /* number of the edge shape, which check_dim uses; below 0: sizes are random */
  int n_dims;        /* number of calls of check_dim so far */
  int64_t number;    /* number of this draw */
  void (*progress)(void *user, int64_t draw, const char *step);
  void *progress_user;
  ga_dtype drawn[3];
  GA_ALIGNED(8) unsigned char desc_bytes[2][GA_DESC_MAX_BYTES];
};

/* --- functions for check_op.draw --- */

/* Draws a size in [lo, hi]. In draws of an edge shape (check_case.edge) it is zero, one, or a size at or next to a
 * kernel's tile size, brought into [lo, hi]. */
int64_t check_dim(check_case *c, int64_t lo, int64_t hi);
/* Draws a size as check_dim does, for dimensions that determine the number of a GPU's blocks: tokens, sequences, rows.
 * Under --stress two of three sizes are hi / 2 to 8 hi. */
int64_t check_extent(check_case *c, int64_t lo, int64_t hi);
/* Draws a multiple of `step` in [lo, hi], as check_dim does. */
int64_t check_dim_step(check_case *c, int64_t lo, int64_t hi, int64_t step);
/* Draws the stride of a row of `width` elements: width, or more by up to 17 times `step`. */
int64_t check_stride(check_case *c, int64_t width, int64_t step);
/* Draws the type of the argument that has place `slot` in ga_kernel.dtype. It is the row's declared type, and now and
 * then another one, which the row must refuse. If the row declares none, it is any plain float type. */
int32_t check_dtype(check_case *c, int slot);
/* Draws one of the n types in `list`, or a type that the row must refuse, as check_dtype does. */
int32_t check_dtype_of(check_case *c, int slot, const ga_dtype *list, int n);
/* Draws a scalar factor: a small power of two in exact mode, otherwise a number around 1. */
float check_factor(check_case *c);
/* Draws a whole number from 0 to n - 1, all equally likely. */
int32_t check_pick(check_case *c, int32_t n);

/* --- functions for check_op.args --- */

/* Adds an input [rows, width] with `stride` elements from row to row. io_at: offset of its pointer in the io struct.
 * Returns the argument, whose fields may be changed. */
check_arg *check_in(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                    int64_t stride);
/* Adds an output [rows, width] with `stride` elements from row to row. */
check_arg *check_out(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                     int64_t stride);
/* Adds an argument [rows, width] that the call reads and writes. */
check_arg *check_inout(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                       int64_t stride);
/* Adds an input of n int32 numbers, random in [lo, hi). */
check_arg *check_index(check_args *a, const char *name, size_t io_at, int64_t n, int64_t lo, int64_t hi);
/* Adds an argument of any shape: the caller sets dim, stride and n_dims of the result. */
check_arg *check_arg_add(check_args *a, const char *name, size_t io_at, check_role role, int32_t dtype);

/* --- functions for all --- */

int64_t check_count(const check_arg *arg);         /* returns the number of elements of the argument */
int64_t check_at(const check_arg *arg, int64_t i); /* returns the offset of element i of the argument, in elements */
/* Returns the argument with a name; NULL: there is none. */
const check_arg *check_find(const check_args *a, const char *name);
/* Returns the distance between neighbouring numbers of the type dtype at |x|. */
double check_ulp(ga_dtype dtype, double x);
/* Returns x rounded to the type dtype. */
double check_round(ga_dtype dtype, double x);

#define X(name) extern const check_op check_##name;
GA_OPS(X)
#undef X

/* Returns the check_op for `op`; NULL: there is none. */
const check_op *check_op_of(ga_op op);

#endif
