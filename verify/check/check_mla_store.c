/* Rows of a latent cache: slots that no token names keep their contents. An element may be off by some spacings of f32
 * at the largest element of its part of the row, and by a step of its type. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "opdef/mla_at.h"
#include "ref/ref.h"
#include "verify/check/check.h"

#define WITH_NORM (c->bits & 1)
#define FAR_AWAY  (c->bits >> 1 & 1)
#define BAD_SLOT  (!c->timing && (c->bits >> 2 & 7) == 0)

static void draw(check_case *c) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_E4M3};
  ga_mla_store_desc *d = c->desc;
  *d = (ga_mla_store_desc)GA_MLA_STORE_DESC_INIT;
  d->x_dtype = check_dtype(c, 0);
  d->kv_dtype = check_dtype_of(c, 1, caches, (int)GA_COUNT_OF(caches));
  d->tokens = check_extent(c, 0, 70);
  d->slots = d->tokens + check_pick(c, 30);
  d->v_dim = check_pick(c, 2) ? 512 : (int32_t)check_dim(c, 1, 300);
  if (d->kv_dtype == GA_E4M3) d->v_dim = GA_MLA_BLOCK * (1 + check_pick(c, 4));
  d->rot_dim = check_pick(c, 2) ? 64 : 2 * check_pick(c, 50);
  d->x_stride = check_stride(c, d->v_dim + d->rot_dim, 1);
  d->pairs = check_pick(c, 2);
  d->norm_eps = check_pick(c, 2) ? 1e-6f : 1e-2f;
  d->magnitude = check_pick(c, 2) ? 1.0f : 1.1386294f /* 1 + 0.1 ln 4: YaRN's */;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_mla_store_desc *d = desc;
  const int64_t row = d->v_dim + d->rot_dim;
  check_in(a, "x", offsetof(ga_mla_store_io, x), d->x_dtype, d->tokens, row, d->x_stride);
  if (WITH_NORM) check_in(a, "norm", offsetof(ga_mla_store_io, norm), GA_F32, 1, d->v_dim, d->v_dim);
  check_index(a, "slot", offsetof(ga_mla_store_io, slot), d->tokens, 0, d->slots)->fill = CHECK_FILL_OP;
  const bool codes = d->kv_dtype == GA_E4M3;
  const int64_t width = codes ? ga_mla_row_bytes(GA_E4M3, d->v_dim, d->rot_dim) : row;
  check_arg *cache =
      check_inout(a, "cache", offsetof(ga_mla_store_io, cache), codes ? GA_U8 : d->kv_dtype, d->slots, width, width);
  if (codes) cache->align = sizeof(float);
  if (!d->rot_dim) return;
  check_index(a, "positions", offsetof(ga_mla_store_io, positions), d->tokens, 0, FAR_AWAY ? 1 << 20 : 4096);
  check_in(a, "inv_freq", offsetof(ga_mla_store_io, inv_freq), GA_F32, 1, d->rot_dim / 2, d->rot_dim / 2)->fill =
      CHECK_FILL_OP;
}

/* Different slots in a random order, some tokens dropped; now and then a slot out of range, which CPUs refuse. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const int64_t slots = ((const ga_mla_store_desc *)c->desc)->slots;
  if (!strcmp(arg->name, "inv_freq")) { /* of base 10000 */
    for (int64_t i = 0; i < n; i++) values[i] = pow(10000, -(double)i / (double)n);
    return;
  }
  int64_t step = 1 + check_pick(c, (int32_t)ga_max_i64(slots, 1)); /* coprime: its multiples are a permutation */
  for (int64_t d = 2; d <= step; d++)
    if (step % d == 0 && slots % d == 0) step = d = 1;
  for (int64_t i = 0; i < n; i++) values[i] = c->timing || check_pick(c, 6) ? (double)(i * step % slots) : -1;
  if (n == 0 || !BAD_SLOT || !ga_device_works_in_calls(c->ctx->device)) return;
  values[check_pick(c, (int32_t)n)] = check_pick(c, 2) ? (double)slots : -2;
  c->expect = GA_ERR_ARG;
}

/* Compares elements [first, end) of a row. */
static const char *judge_part(ga_dtype dtype, const double *got, const double *want, int64_t first, int64_t end) {
  double most = 0;
  for (int64_t i = first; i < end; i++)
    if (isfinite(want[i])) most = fmax(most, fabs(want[i]));
  for (int64_t i = first; i < end; i++) {
    if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))) continue;
    const double step = dtype == GA_F32 ? 0 : check_ulp(dtype, fmax(fabs(want[i]), ldexp(most, -20)));
    if (!(fabs(got[i] - want[i]) <= ldexp(most, -20) + 0x1p-149 + step)) return "an element differs from the oracle's";
  }
  return NULL;
}

/* The bytes of a row of codes as elements, and the scale of each latent one. */
static void decode_row(const ga_mla_store_desc *d, const double *bytes, double *out, double *scale) {
  GA_ALIGNED(4) uint8_t row[2048];
  for (int64_t i = 0; i < ga_mla_row_bytes(GA_E4M3, d->v_dim, d->rot_dim); i++) row[i] = (uint8_t)bytes[i];
  for (int i = 0; i < d->v_dim; i++) {
    scale[i] = ga_ref_load(GA_F32, row + ga_mla_scale_at(d->v_dim, i), 0);
    out[i] = ga_ref_load(GA_E4M3, row, i) * scale[i];
  }
  for (int i = 0; i < d->rot_dim; i++)
    out[d->v_dim + i] = ga_ref_load(GA_BF16, row + ga_mla_rotated_at(d->v_dim, 0), i);
}

/* Compares rows of codes. At a border of powers of two another scale is as good. */
static const char *judge_codes(const ga_mla_store_desc *d, const double *got, const double *want) {
  double x[1024], y[1024], of_x[1024], of_y[1024];
  decode_row(d, got, x, of_x);
  decode_row(d, want, y, of_y);
  for (int i = 0; i < d->v_dim; i++) {
    if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
    if (!(of_x[i] <= 2 * of_y[i] && of_y[i] <= 2 * of_x[i])) return "a scale differs from the oracle's";
    const double scale = fmax(of_x[i], of_y[i]);
    if (!(fabs(x[i] - y[i]) <= scale * check_ulp(GA_E4M3, y[i] / scale))) return "a code differs from the oracle's";
  }
  return judge_part(GA_BF16, x, y, d->v_dim, d->v_dim + d->rot_dim);
}

static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  const ga_mla_store_desc *d = c->desc;
  const bool codes = d->kv_dtype == GA_E4M3;
  const int64_t row = codes ? ga_mla_row_bytes(GA_E4M3, d->v_dim, d->rot_dim) : d->v_dim + d->rot_dim;
  for (int64_t i = 0; i < n; i += row) {
    if (codes && !memcmp(got + i, want + i, (size_t)row * sizeof *got)) continue;
    const char *fault = codes ? judge_codes(d, got + i, want + i) : judge_part(arg->dtype, got, want, i, i + d->v_dim);
    if (!fault && !codes) fault = judge_part(arg->dtype, got, want, i + d->v_dim, i + row);
    if (fault) return fault;
  }
  return NULL;
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_mla_store_desc *d = desc;
  (void)snprintf(text, capacity, "dims=%d,%d pairs=%d eps=%g magnitude=%g", d->v_dim, d->rot_dim, d->pairs,
                 (double)d->norm_eps, (double)d->magnitude);
}

const check_op check_mla_store = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .draw = draw,
    .args = args,
    .fill = fill,
    .judge = judge,
    .describe = describe,
};
