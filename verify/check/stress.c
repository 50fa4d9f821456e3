/* ga check --stress: launch after launch of one row on the same inputs. */
#include "verify/check/internal.h"

/* Sums without a fixed order: so much of an output's largest value may two launches differ by. */
#define NONDET_SHARE 0.02

typedef struct stress {
  check_case *c;
  ga_ctx *ctx;
  check_workspace w;
  uint8_t *first[CHECK_MAX_ARGS]; /* outputs of the first launch, as `after` */
  double bound[CHECK_MAX_ARGS];   /* of the difference; 0 = none */
} stress;

static bool is_result(const check_arg *arg) { return arg->role != CHECK_IN && arg->alias < 0; }

static ga_status launch_once(stress *s) {
  const check_case *c = s->c;
  for (int i = 0; i < c->row.n; i++) { /* what a launch adds to starts anew */
    const check_arg *arg = &c->row.arg[i];
    if (is_result(arg) && arg->role == CHECK_INOUT)
      GA_TRY(ga_copy_to_device(s->ctx, arg->device, arg->before, arg->bytes, NULL));
  }
  GA_TRY(check_launch(c, s->ctx, c->row.io, check_workspace_at(&s->w)));
  GA_TRY(ga_stream_sync(s->ctx, NULL));
  for (int i = 0; i < c->row.n; i++) {
    const check_arg *arg = &c->row.arg[i];
    if (is_result(arg)) GA_TRY(ga_copy_to_host(s->ctx, arg->after, arg->device, arg->bytes, NULL));
  }
  return GA_OK;
}

static ga_status keep_first(stress *s) {
  for (int i = 0; i < s->c->row.n; i++) {
    const check_arg *arg = &s->c->row.arg[i];
    void *p;
    double *values, most = 0;
    if (!is_result(arg)) continue;
    GA_TRY(ga_arena_alloc(&s->c->arena, arg->bytes, &p));
    s->first[i] = memcpy(p, arg->after, arg->bytes);
    if (!(s->c->kernel->flags & GA_KERNEL_NONDET)) continue;
    GA_TRY(check_load(s->c, arg, arg->after, &values));
    for (int64_t e = 0, n = check_count(arg); e < n; e++)
      if (isfinite(values[e])) most = fmax(most, fabs(values[e]));
    s->bound[i] = NONDET_SHARE * most;
  }
  return GA_OK;
}

/* The first element by which a launch differs from the first one, or -1. */
static ga_status find_difference(const stress *s, int i, int64_t *at, double value[2]) {
  const check_arg *arg = &s->c->row.arg[i];
  double *a, *b;
  *at = -1;
  if (!memcmp(s->first[i], arg->after, arg->bytes) || check_same(arg, s->first[i], arg->after, at))
    return *at = -1, GA_OK;
  GA_TRY(check_load(s->c, arg, s->first[i], &a));
  GA_TRY(check_load(s->c, arg, arg->after, &b));
  for (int64_t e = 0, n = check_count(arg); e < n; e++) {
    const bool same =
        memcmp(&a[e], &b[e], sizeof *a) == 0 || (isnan(a[e]) && isnan(b[e])) || fabs(a[e] - b[e]) <= s->bound[i];
    if (same) continue;
    *at = e;
    value[0] = a[e];
    value[1] = b[e];
    return GA_OK;
  }
  return *at = -1, GA_OK;
}

static ga_status compare_launches(stress *s, int64_t launch, int64_t launches, bool *differs, char *text,
                                  size_t capacity) {
  for (int i = 0; i < s->c->row.n; i++) {
    int64_t at;
    double value[2];
    if (!is_result(&s->c->row.arg[i])) continue;
    GA_TRY(find_difference(s, i, &at, value));
    if (at < 0) continue;
    (void)snprintf(text, capacity, "%s[%lld] is %.9g in launch %lld of %lld, %.9g in the first", s->c->row.arg[i].name,
                   (long long)at, value[1], (long long)launch + 1, (long long)launches, value[0]);
    *differs = true;
    return GA_OK;
  }
  return GA_OK;
}

static ga_status run_launches(stress *s, int64_t launches, bool *differs, char *text, size_t capacity) {
  GA_TRY(check_build_row(s->c));
  GA_TRY(check_upload(s->ctx, &s->c->row));
  GA_TRY(check_open_workspace(s->c, s->ctx, false, &s->w));
  GA_TRY(launch_once(s));
  GA_TRY(keep_first(s));
  for (int64_t i = 1; i < launches && !*differs; i++) {
    GA_TRY(launch_once(s));
    GA_TRY(compare_launches(s, i, launches, differs, text, capacity));
  }
  return GA_OK;
}

check_detector check_stress(check_case *c, ga_ctx *ctx, int64_t launches, char *text, size_t capacity) {
  stress s = {.c = c, .ctx = ctx};
  bool differs = false;
  const ga_status status = run_launches(&s, launches, &differs, text, capacity);
  check_detector d = differs ? CHECK_BY_REPEAT : CHECK_PASSED;
  if (status == GA_OK && !d) d = check_workspace_guards(ctx, &s.w, text, capacity);
  check_release(ctx, &c->row, &s.w);
  if (status == GA_OK) return d;
  (void)snprintf(text, capacity, "%s", ga_error_text());
  return CHECK_BY_STATUS;
}
