/* Random descriptions. */
#include "base/compiler.h"
#include "verify/check/internal.h"

/* At and around the tile sizes that kernels have. */
static const int64_t edges[] = {0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17, 31,
                                32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 256, 257};
_Static_assert(GA_COUNT_OF(edges) == CHECK_N_EDGES, "edge shapes are counted in internal.h");

static int64_t clamp_to(int64_t v, int64_t lo, int64_t hi) {
  if (v < lo) return lo;
  return v > hi ? lo + v % (hi - lo + 1) : v;
}

/* Each dimension of a draw goes through the edges with a step of its own, coprime to their count: every value of every
 * dimension occurs, and pairs of dimensions differ from edge to edge. */
static int64_t edge_value(check_case *c) {
  static const int step[] = {1, 2, 3, 4, 6, 7, 8, 9};
  int j = c->n_dims++ % (int)GA_COUNT_OF(step);
  return edges[(c->edge * step[j] + 7 * j) % CHECK_N_EDGES];
}

int64_t check_dim(check_case *c, int64_t lo, int64_t hi) {
  if (hi <= lo) return lo;
  if (c->edge >= 0) return clamp_to(edge_value(c), lo, hi);
  switch (check_pick(c, 4)) {
  case 0: return clamp_to(lo + check_pick(c, 10), lo, hi);
  case 1: return clamp_to(edges[check_pick(c, CHECK_N_EDGES)], lo, hi);
  default: { /* log-uniform: small sizes are as likely as large ones */
    double top = log2((double)(hi - lo) + 1.0);
    return clamp_to(lo + (int64_t)exp2(ga_rng_unit(&c->rng) * top), lo, hi);
  }
  }
}

#define LARGER 8

int64_t check_extent(check_case *c, int64_t lo, int64_t hi) {
  if (!c->large || hi <= lo || check_pick(c, 3) == 0) return check_dim(c, lo, hi); /* rows for little take little */
  c->n_dims++;
  return ga_max_i64(lo, hi / 2) + (int64_t)ga_rng_below(&c->rng, (uint64_t)(hi * LARGER - hi / 2));
}

int64_t check_dim_step(check_case *c, int64_t lo, int64_t hi, int64_t step) {
  return step * check_dim(c, ga_div_up(lo, step), hi / step);
}

int64_t check_stride(check_case *c, int64_t width, int64_t step) {
  int64_t extra = check_pick(c, 2) ? step * (1 + check_pick(c, 17)) : 0;
  return ga_max_i64(width + extra, step); /* never 0: that would ask for the default */
}

int32_t check_dtype_of(check_case *c, int slot, const ga_dtype *list, int n) {
  ga_dtype declared = c->kernel->dtype[slot];
  ga_dtype t = declared && check_pick(c, 8) ? declared : list[check_pick(c, n)];
  c->drawn[slot] = t;
  return (int32_t)t;
}

int32_t check_dtype(check_case *c, int slot) {
  static const ga_dtype list[] = {GA_F32, GA_F16, GA_BF16};
  return check_dtype_of(c, slot, list, (int)GA_COUNT_OF(list));
}

float check_factor(check_case *c) {
  static const float exact[] = {1.0f, -1.0f, 2.0f, 0.5f};
  if (check_pick(c, 3) == 0) return 1.0f;
  return c->mode == CHECK_EXACT ? exact[check_pick(c, 4)] : (float)ga_rng_normal(&c->rng);
}

int32_t check_pick(check_case *c, int32_t n) { return (int32_t)ga_rng_below(&c->rng, (uint64_t)n); }

/* --- arguments --- */

check_arg *check_arg_add(check_args *a, const char *name, size_t io_at, check_role role, int32_t dtype) {
  check_arg *arg = &a->arg[a->n < CHECK_MAX_ARGS - 1 ? a->n++ : a->n];
  *arg = (check_arg){.name = name, .io_at = io_at, .role = role, .dtype = (ga_dtype)dtype, .alias = -1};
  return arg;
}

static check_arg *add_rows(check_args *a, const char *name, size_t io_at, check_role role, int32_t dtype, int64_t rows,
                           int64_t width, int64_t stride) {
  check_arg *arg = check_arg_add(a, name, io_at, role, dtype);
  arg->n_dims = 2;
  arg->dim[0] = rows;
  arg->dim[1] = width;
  arg->stride[0] = stride;
  arg->stride[1] = 1;
  return arg;
}

check_arg *check_in(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                    int64_t stride) {
  return add_rows(a, name, io_at, CHECK_IN, dtype, rows, width, stride);
}

check_arg *check_out(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                     int64_t stride) {
  return add_rows(a, name, io_at, CHECK_OUT, dtype, rows, width, stride);
}

check_arg *check_inout(check_args *a, const char *name, size_t io_at, int32_t dtype, int64_t rows, int64_t width,
                       int64_t stride) {
  return add_rows(a, name, io_at, CHECK_INOUT, dtype, rows, width, stride);
}

check_arg *check_index(check_args *a, const char *name, size_t io_at, int64_t n, int64_t lo, int64_t hi) {
  check_arg *arg = add_rows(a, name, io_at, CHECK_IN, GA_I32, 1, n, n);
  arg->fill = CHECK_FILL_INDEX;
  arg->lo = (double)lo;
  arg->hi = (double)hi;
  return arg;
}

const check_arg *check_find(const check_args *a, const char *name) {
  for (int i = 0; i < a->n; i++)
    if (!strcmp(a->arg[i].name, name)) return &a->arg[i];
  return NULL;
}

/* --- views --- */

int64_t check_count(const check_arg *arg) {
  int64_t n = 1;
  for (int i = 0; i < arg->n_dims; i++) n *= arg->dim[i];
  return n;
}

int64_t check_at(const check_arg *arg, int64_t i) {
  int64_t at = 0;
  for (int d = arg->n_dims - 1; d >= 0; d--) {
    at += i % arg->dim[d] * arg->stride[d];
    i /= arg->dim[d];
  }
  return at;
}
