/* Products by experts as include/ga/experts.h states them. */
#include <math.h>

#include "base/status.h"
#include "ga/experts.h"
#include "ref/ref.h"

/* A slot of a token, and where its row is. */
typedef struct slot {
  int64_t token, at, row; /* at = token * top_k + the slot's number; row of Y in IN, of X in OUT */
  int32_t expert;
  int32_t matrix; /* -1: the expert has none */
} slot;

static int32_t matrix_of(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, int32_t expert) {
  return d->n_matrices ? a->matrices[expert] : expert;
}

static slot slot_at(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, int64_t at) {
  slot s = {.token = at / d->top_k, .at = at, .row = at};
  if (d->flags & GA_EXPERT_SORTED) {
    s.row = a->place[at];
    while (a->offsets[s.expert + 1] <= s.row) s.expert++;
  } else {
    s.expert = d->flags & GA_EXPERT_IN_TURN ? (int32_t)(at % d->n_experts) : a->experts[at];
  }
  s.matrix = matrix_of(d, a, s.expert);
  return s;
}

static double expert_dot(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, const void *w, const float *bias,
                         const slot *s, int64_t col) {
  const int64_t of_w = (s->matrix * d->expert_rows + col) * d->k;
  const int64_t of_x = (d->form == GA_EXPERT_IN ? s->token : s->row) * d->x_stride;
  const double weight = d->flags & GA_EXPERT_WEIGHTS ? (double)a->weights[s->at] : 1;
  double dot = 0;
  for (int64_t i = 0; i < d->k; i++)
    dot += ga_ref_load((ga_dtype)d->x_dtype, a->x, of_x + i) * ga_ref_load((ga_dtype)d->w_dtype, w, of_w + i);
  const double b = d->flags & GA_EXPERT_BIAS ? (double)bias[s->expert * d->expert_rows + col] : 0;
  return d->form == GA_EXPERT_IN ? weight * dot + b : weight * (dot + b);
}

/* NaN stays NaN. */
static double at_most(double x, double limit) { return x > limit ? limit : x; }
static double between_limits(double x, double limit) { return x < -limit ? -limit : at_most(x, limit); }

static double activate(const ga_expert_gemm_desc *d, double x) {
  switch (d->act) {
  case GA_ACT_SILU: return x / (1 + exp(-(double)d->act_alpha * x));
  case GA_ACT_GELU_TANH:
    return 0.5 * x * (1 + tanh(0.79788456080286535588 /* sqrt(2/pi) */ * (x + 0.044715 * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * 0.70710678118654752440 /* sqrt(1/2) */));
  case GA_ACT_RELU2: return x < 0 ? 0 : x * x;
  default: return x;
  }
}

static double into_slot(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, const slot *s, int64_t col) {
  double u = expert_dot(d, a, a->w, a->bias, s, col), g, t;
  if (!(d->flags & GA_EXPERT_GATED)) return activate(d, u);
  g = expert_dot(d, a, a->w_gate, a->bias_gate, s, col);
  if (d->clamp == GA_EXPERT_CLAMP_BEFORE) g = at_most(g, (double)d->limit);
  if (d->clamp != GA_EXPERT_CLAMP_NONE) u = between_limits(u, (double)d->limit);
  t = activate(d, g);
  if (d->clamp == GA_EXPERT_CLAMP_AFTER) t = at_most(t, (double)d->limit);
  return t * (u + (double)d->up_offset);
}

static double out_of_slots(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a, int64_t token, int64_t col) {
  double sum =
      d->flags & GA_EXPERT_RESIDUAL ? ga_ref_load((ga_dtype)d->y_dtype, a->residual, token * d->y_stride + col) : 0;
  for (int32_t j = 0; j < d->top_k; j++) {
    const slot s = slot_at(d, a, token * d->top_k + j);
    if (s.matrix >= 0) sum += expert_dot(d, a, a->w, a->bias, &s, col);
  }
  return sum;
}

/* Checks numbers of experts, or the order by expert: offsets rise from 0 to the number of slots, and order and place
 * are inverse to each other. */
static ga_status check_experts(const ga_kernel *kernel, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a) {
  const int64_t n = d->tokens * d->top_k;
  const bool sorted = d->flags & GA_EXPERT_SORTED;
  for (int32_t e = 0; d->n_matrices && e < d->n_experts; e++)
    GA_REQUIRE(a->matrices[e] >= -1 && a->matrices[e] < d->n_matrices, GA_ERR_ARG,
               "%s: matrices[%d] is %d; must be in [-1, %lld)", kernel->id, e, a->matrices[e],
               (long long)d->n_matrices);
  if (d->flags & GA_EXPERT_IN_TURN) return GA_OK;
  for (int64_t i = 0; !sorted && i < n; i++)
    GA_REQUIRE(a->experts[i] >= 0 && a->experts[i] < d->n_experts, GA_ERR_ARG,
               "%s: experts[%lld] is %d; must be in [0, %d)", kernel->id, (long long)i, a->experts[i], d->n_experts);
  for (int32_t e = 0; sorted && e <= d->n_experts; e++) {
    const int64_t least = e ? a->offsets[e - 1] : 0, most = e ? n : 0;
    GA_REQUIRE(a->offsets[e] >= least && a->offsets[e] <= most && (e < d->n_experts || a->offsets[e] == n), GA_ERR_ARG,
               "%s: offsets[%d] is %d; must rise from 0 to %lld", kernel->id, e, a->offsets[e], (long long)n);
  }
  for (int64_t i = 0; sorted && i < n; i++) {
    GA_REQUIRE(a->order[i] >= 0 && a->order[i] < n, GA_ERR_ARG, "%s: order[%lld] is %d; must be in [0, %lld)",
               kernel->id, (long long)i, a->order[i], (long long)n);
    GA_REQUIRE(a->place[a->order[i]] == i, GA_ERR_ARG, "%s: place[%d] is %d; must be %lld, as order says", kernel->id,
               a->order[i], a->place[a->order[i]], (long long)i);
  }
  return GA_OK;
}

ga_status ga_ref_expert_gemm(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                             ga_stream *stream) {
  (void)workspace, (void)stream;
  const ga_expert_gemm_desc *d = desc;
  const ga_expert_gemm_io *a = io;
  const ga_dtype y = (ga_dtype)d->y_dtype;
  if (d->tokens == 0 || d->n == 0) return GA_OK;
  GA_TRY(check_experts(kernel, d, a));
  for (int64_t at = 0; d->form == GA_EXPERT_IN && at < d->tokens * d->top_k; at++) {
    const slot s = slot_at(d, a, at);
    for (int64_t c = 0; s.matrix >= 0 && c < d->n; c++)
      ga_ref_store(y, a->y, s.row * d->y_stride + c, into_slot(d, a, &s, c));
  }
  for (int64_t t = 0; d->form == GA_EXPERT_OUT && t < d->tokens; t++)
    for (int64_t c = 0; c < d->n; c++) ga_ref_store(y, a->y, t * d->y_stride + c, out_of_slots(d, a, t, c));
  return GA_OK;
}
