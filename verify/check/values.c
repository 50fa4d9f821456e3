/* The verdict on values. */
#include "verify/check/internal.h"

typedef struct verdict {
  double *got, *want, *unit, *plain; /* plain NULL without an evaluation */
  bool *excused;                     /* may be no number */
  int64_t n;
} verdict;

static ga_status default_unit(check_case *c, const check_arg *arg, const double *want, int64_t n, double *unit) {
  (void)c;
  int64_t width = arg->n_dims ? arg->dim[arg->n_dims - 1] : 1;
  for (int64_t row = 0; row < n; row += width) {
    double size = 0;
    for (int64_t i = row; i < row + width; i++)
      if (isfinite(want[i])) size = fmax(size, fabs(want[i]));
    for (int64_t i = row; i < row + width; i++) unit[i] = check_ulp(arg->dtype, size);
  }
  return GA_OK;
}

static ga_status gather_errors(check_case *c, int i, const check_args *plain, verdict *v) {
  const check_arg *row = &c->row.arg[i], *oracle = &c->oracle.arg[i];
  void *p;
  v->n = check_count(row);
  GA_TRY(check_load(c, row, row->after, &v->got));
  GA_TRY(check_load(c, oracle, oracle->before, &v->want)); /* the oracle ran in place */
  v->plain = NULL;
  if (plain) GA_TRY(check_load(c, &plain->arg[i], plain->arg[i].before, &v->plain));
  GA_TRY(ga_arena_alloc(&c->arena, (size_t)v->n * sizeof(double), &p));
  v->unit = p;
  GA_TRY(ga_arena_alloc(&c->arena, (size_t)v->n, &p));
  v->excused = memset(p, 0, (size_t)v->n);
  if (c->op->excuse) c->op->excuse(c, row, c->oracle.io, v->excused, v->n);
  if (!c->op->unit) return default_unit(c, row, v->want, v->n, v->unit);
  c->op->unit(c, row, c->oracle.io, v->unit, v->n);
  return GA_OK;
}

static bool same_class(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b; /* infinities of one sign */
}

/* Where the oracle, rounded to the output type, or the result is no number, they must agree, or the result must agree
 * with the plain evaluation (which may overflow where double does not). Then the element is settled: made equal. An
 * excused result may be no number, but no wrong one. */
static bool settle_specials(const check_arg *arg, verdict *v, char *text, size_t capacity) {
  for (int64_t i = 0; i < v->n; i++) {
    double want = check_round(arg->dtype, v->want[i]);
    bool saturates = arg->dtype == GA_E4M3 || arg->dtype == GA_E5M2;
    if (saturates && fabs(v->want[i]) > fabs(want)) v->want[i] = want;
    if (isfinite(want) && isfinite(v->got[i])) continue;
    bool as_plain = v->plain && same_class(v->got[i], v->plain[i]);
    const bool excused = v->excused[i] && !isfinite(v->got[i]);
    if (!excused && !as_plain && !same_class(v->got[i], want)) {
      (void)snprintf(text, capacity, "%s[%lld] is %.9g instead of %.9g", arg->name, (long long)i, v->got[i], want);
      return false;
    }
    v->got[i] = v->want[i] = 0;
    if (v->plain) v->plain[i] = 0;
  }
  return true;
}

/* Sign of zero is free. */
static bool exact(const check_arg *arg, const verdict *v, char *text, size_t capacity) {
  for (int64_t i = 0; i < v->n; i++) {
    double want = check_round(arg->dtype, v->want[i]);
    if (v->got[i] == want || same_class(v->got[i], want)) continue;
    (void)snprintf(text, capacity, "%s[%lld] is %.9g instead of exactly %.9g", arg->name, (long long)i, v->got[i],
                   want);
    return false;
  }
  return true;
}

static bool bounded(const check_case *c, const check_arg *arg, const verdict *v, double *worst, char *text,
                    size_t capacity) {
  check_error row, plain = {0};
  check_measure(v->got, v->want, v->unit, v->n, &row);
  if (c->op->shared) row.shared = c->op->shared(c, arg);
  if (v->plain) check_measure(v->plain, v->want, v->unit, v->n, &plain);
  double used = check_used(&row, &plain, c->kernel->tolerance, c->op->ulps);
  const double most = c->op->beside && v->plain ? c->op->beside(c, arg) : 0;
  if (most > 0) {
    const int64_t width = arg->n_dims ? arg->dim[arg->n_dims - 1] : 1;
    used = fmax(used, check_beside(v->got, v->plain, v->want, v->n, width, most));
  }
  if (used > *worst) *worst = used;
  if (used <= 1) return true;
  int64_t i = row.worst_at;
  (void)snprintf(
      text, capacity,
      "%s is off by %.3g times what is allowed: worst %.3g, rms %.3g, gain %.2g; plain %.3g, %.3g, %.2g (units); "
      "%s[%lld] = %.9g instead of %.9g",
      arg->name, used, row.worst, row.rms, row.gain, plain.worst, plain.rms, plain.gain, arg->name, (long long)i,
      v->got[i], v->want[i]);
  return false;
}

static bool good(check_case *c, const check_arg *arg, verdict *v, double *worst, char *text, size_t capacity) {
  if (c->op->judge) {
    const char *wrong = c->op->judge(c, arg, v->got, v->want, v->n);
    if (wrong) (void)snprintf(text, capacity, "%s: %s", arg->name, wrong);
    return !wrong;
  }
  /* Rows that round their inputs are exact for no integers. */
  const uint32_t rounds = GA_GEMM_ROW_Q8_ACT | GA_GEMM_ROW_Q15_ACT | GA_GEMM_ROW_BF16;
  if (c->mode == CHECK_EXACT && !(ga_gemm_row_flags_of(c->kernel) & rounds)) return exact(arg, v, text, capacity);
  if (c->op->exact && c->op->exact(c, arg)) return exact(arg, v, text, capacity);
  return settle_specials(arg, v, text, capacity) && bounded(c, arg, v, worst, text, capacity);
}

check_detector check_values(check_case *c, check_args *plain, double *worst, char *text, size_t capacity) {
  if (c->op->canonical) {
    c->op->canonical(c, &c->row, true);
    c->op->canonical(c, &c->oracle, false);
    if (plain) c->op->canonical(c, plain, false);
  }
  for (int i = 0; i < c->row.n; i++) {
    verdict v;
    if (c->row.arg[i].role == CHECK_IN || c->oracle.arg[i].role == CHECK_IN || check_count(&c->row.arg[i]) == 0)
      continue;
    if (gather_errors(c, i, plain, &v) != GA_OK) return CHECK_BY_STATUS;
    if (!good(c, &c->row.arg[i], &v, worst, text, capacity)) return CHECK_BY_VALUE;
  }
  return CHECK_PASSED;
}
