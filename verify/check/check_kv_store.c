/* Cache rows: equal to the oracle's bit by bit, NaN apart; slots that no token names keep what they held. What was
 * turned on the way (every other draw, where the row does that), and normed before (half of these), may be off by a
 * step of its type. */
#include <math.h>
#include <string.h>

#include "verify/check/check.h"

#define BAD_SLOT (c->bits % 8 == 0)

static void draw(check_case *c) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_E4M3, GA_Q8_0, GA_Q4_0};
  ga_kv_store_fused_desc *fused = c->desc;
  ga_kv_store_desc *d = &fused->plain;
  *fused = (ga_kv_store_fused_desc)GA_KV_STORE_FUSED_DESC_INIT;
  d->x_dtype = check_dtype(c, 0);
  d->kv_dtype = check_dtype_of(c, 1, caches, (int)GA_COUNT_OF(caches));
  const int32_t block = ga_dtype_info((ga_dtype)d->kv_dtype)->block_elems;
  d->tokens = check_extent(c, 0, 40);
  d->slots = d->tokens + check_pick(c, 30);
  d->heads = 1 + check_pick(c, 5);
  d->head_dim = (int32_t)check_dim_step(c, block, 160, block);
  d->v_dim = check_pick(c, 2) ? d->head_dim : (int32_t)check_dim_step(c, block, 160, block);
  d->k_stride = check_stride(c, (int64_t)d->heads * d->head_dim, 1);
  d->v_stride = check_stride(c, (int64_t)d->heads * d->v_dim, 1);
  if (c->kernel->isa < GA_ISA_sm80 || check_pick(c, 2)) return;
  fused->rot_dim = (check_pick(c, 3) ? d->head_dim : check_pick(c, d->head_dim + 1)) / 2 * 2;
  fused->q_heads = d->heads * (1 + check_pick(c, 4));
  fused->pairs = check_pick(c, 2);
  fused->magnitude = check_pick(c, 2) ? 1.0f : 1.1386294f /* 1 + 0.1 ln 4: YaRN's */;
  fused->q_stride = check_stride(c, (int64_t)fused->q_heads * d->head_dim, 1);
  if (!fused->rot_dim || check_pick(c, 2)) return;
  fused->head_norm = 1;
  fused->norm_eps = check_pick(c, 2) ? 1e-6f : 1e-2f;
  c->specials &= ~(uint32_t)CHECK_HUGE; /* whose squares f32 does not hold */
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_kv_store_fused_desc *fused = desc;
  const ga_kv_store_desc *d = &fused->plain;
  const int64_t k = (int64_t)d->heads * d->head_dim, v = (int64_t)d->heads * d->v_dim;
  check_in(a, "k", offsetof(ga_kv_store_fused_io, plain.k), d->x_dtype, d->tokens, k, d->k_stride);
  check_in(a, "v", offsetof(ga_kv_store_fused_io, plain.v), d->x_dtype, d->tokens, v, d->v_stride);
  check_index(a, "slot", offsetof(ga_kv_store_fused_io, plain.slot), d->tokens, 0, d->slots)->fill = CHECK_FILL_OP;
  check_inout(a, "k_cache", offsetof(ga_kv_store_fused_io, plain.k_cache), d->kv_dtype, d->slots, k, k);
  check_inout(a, "v_cache", offsetof(ga_kv_store_fused_io, plain.v_cache), d->kv_dtype, d->slots, v, v);
  if (d->kv_dtype == GA_E4M3) {
    check_inout(a, "k_scale", offsetof(ga_kv_store_fused_io, plain.k_scale), GA_F32, d->heads, d->slots, d->slots);
    check_inout(a, "v_scale", offsetof(ga_kv_store_fused_io, plain.v_scale), GA_F32, d->heads, d->slots, d->slots);
  }
  if (!fused->rot_dim) return;
  check_inout(a, "q", offsetof(ga_kv_store_fused_io, q), d->x_dtype, d->tokens, (int64_t)fused->q_heads * d->head_dim,
              fused->q_stride);
  check_index(a, "positions", offsetof(ga_kv_store_fused_io, positions), d->tokens, 0, c->bits & 1 ? 1 << 20 : 4096);
  check_in(a, "inv_freq", offsetof(ga_kv_store_fused_io, inv_freq), GA_F32, 1, fused->rot_dim / 2, fused->rot_dim / 2)
      ->fill = CHECK_FILL_OP;
  if (!fused->head_norm) return;
  check_in(a, "q_norm", offsetof(ga_kv_store_fused_io, q_norm), GA_F32, 1, d->head_dim, d->head_dim);
  check_in(a, "k_norm", offsetof(ga_kv_store_fused_io, k_norm), GA_F32, 1, d->head_dim, d->head_dim);
}

/* Different slots in a random order, some tokens dropped; now and then one out of range, which must be refused. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  if (!strcmp(arg->name, "inv_freq")) { /* of base 10000 */
    for (int64_t i = 0; i < n; i++) values[i] = pow(10000, -(double)i / (double)n);
    return;
  }
  const int64_t slots = (int64_t)arg->hi;
  void *p;
  if (ga_arena_alloc(&c->arena, (size_t)slots * sizeof(int32_t), &p) != GA_OK) return; /* all in slot 0 */
  int32_t *order = p;
  for (int32_t i = 0; i < slots; i++) order[i] = i;
  for (int64_t i = 0; i < n; i++) {
    const int64_t j = i + check_pick(c, (int32_t)(slots - i));
    const int32_t slot = order[j];
    order[j] = order[i];
    values[i] = c->timing || check_pick(c, 6) ? slot : -1;
  }
  if (n == 0 || !BAD_SLOT || !ga_device_works_in_calls(c->ctx->device))
    return; /* a GPU's row cannot refuse what only it reads */
  values[check_pick(c, (int32_t)n)] = check_pick(c, 2) ? arg->hi : -2;
  c->expect = GA_ERR_ARG;
}

/* What a turned element, or the scale of a turned head, may be off by, `most` being the largest of its head: some
 * spacings of f32, and a step of its type. */
static double allowed(const check_arg *arg, double want, double most) {
  const double rotated = ldexp(most, -20) + 0x1p-149;
  if (arg->dtype == GA_Q8_0) return rotated + 1.1 * most / 127;
  if (arg->dtype == GA_Q4_0)
    return rotated + 1.7 * most / 8; /* the largest may be another's negative: 7 steps one way, 8 the other */
  return rotated + (arg->dtype == GA_F32
                        ? 0
                        : check_ulp(arg->dtype, fmax(fabs(want), ldexp(most, arg->name[0] == 'q' ? 0 : -20))));
}

/* Heads that hold an infinity, or that may have come to one, are check_rope's. */
static const char *judge_rotated(const check_case *c, const check_arg *arg, const double *got, const double *want,
                                 int64_t n) {
  const int64_t head = strcmp(arg->name, "k_scale") ? ((const ga_kv_store_fused_desc *)c->desc)->plain.head_dim : 1;
  for (int64_t first = 0; first + head <= n; first += head) {
    double most = 0;
    for (int64_t i = first; i < first + head; i++)
      most = isfinite(want[i]) && isfinite(got[i]) ? fmax(most, fabs(want[i])) : HUGE_VAL;
    if (c->mode != CHECK_HOSTILE && most == HUGE_VAL) return "a turned element is no number";
    for (int64_t i = first; i < first + head && most < 1e30; i++)
      if (fabs(got[i] - want[i]) > allowed(arg, want[i], most))
        return "a turned element is off by more than a step of its type";
  }
  return NULL;
}

static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  const ga_kv_store_fused_desc *fused = c->desc;
  if (fused->rot_dim && arg->name[0] != 'v') return judge_rotated(c, arg, got, want, n);
  for (int64_t i = 0; i < n; i++)
    if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i]))) return "an element differs from the oracle's";
  return NULL;
}

const check_op check_kv_store = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .draw = draw,
    .args = args,
    .fill = fill,
    .judge = judge,
};
