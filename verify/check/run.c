/* One draw of one row.
 *
 *   run 1   outputs poisoned, workspace full of NaN        status, guards, padding, inputs, unwritten elements
 *   run 2   other poison, workspace zeroed                 bitwise equal to run 1, unless the row says NONDET
 *   run 3   one thread                                     the same
 *   oracle  on host images, outputs widened                values of run 1 within the bound
 *   run 4   on the host: buffers end at a guard page       the same as run 1
 */
#include <stdarg.h>
#include <time.h>

#include "base/clock.h"
#include "verify/check/internal.h"

/* --- one run --- */

/* True when an element of an output is neither as it was nor zero. */
static bool half_written(const check_args *a) {
  for (int i = 0; i < a->n; i++) {
    const check_arg *arg = &a->arg[i];
    int64_t at;
    if (arg->role == CHECK_IN || arg->alias >= 0 || check_same(arg, arg->before, arg->after, &at)) continue;
    memset(arg->scratch, 0, arg->bytes);
    if (!check_same(arg, arg->scratch, arg->after, &at)) return true;
  }
  return false;
}

static check_detector judge_status(const check_case *c, ga_status got, char *text, size_t capacity) {
  bool fault = got == GA_ERR_DEVICE && c->expect == GA_OK; /* ends a kernel anywhere: its text says more */
  if (got != GA_OK && !fault && half_written(&c->row)) {
    (void)snprintf(text, capacity, "returned %s and left an output half written", ga_status_name(got));
    return CHECK_BY_HALF;
  }
  if (got == c->expect) return CHECK_PASSED;
  (void)snprintf(text, capacity, "returned %s instead of %s (%s)", ga_status_name(got), ga_status_name(c->expect),
                 got == GA_OK ? "no error" : ga_error_text());
  return CHECK_BY_STATUS;
}

static check_detector launch_case(check_case *c, ga_ctx *ctx, bool zero_workspace, char *text, size_t capacity) {
  check_workspace w = {0};
  check_detector d = CHECK_PASSED;
  ga_status status;
  GA_TRY_OUT(check_upload(ctx, &c->row));
  GA_TRY_OUT(check_open_workspace(c, ctx, zero_workspace, &w));
  ga_status launched = check_launch(c, ctx, c->row.io, check_workspace_at(&w));
  ga_status synced = ga_stream_sync(ctx, NULL);
  GA_TRY_OUT(check_download(ctx, &c->row));
  d = judge_status(c, launched != GA_OK ? launched : synced, text, capacity);
  if (!d) d = check_workspace_guards(ctx, &w, text, capacity);
  if (!d) d = check_hygiene(&c->row, text, capacity);
out:
  check_release(ctx, &c->row, &w);
  if (status == GA_OK || d) return d;
  (void)snprintf(text, capacity, "%s", ga_error_text());
  return CHECK_BY_STATUS;
}

/* --- runs against each other --- */

/* Results of a run, kept for comparison. */
static ga_status keep_results(check_case *c, uint8_t *kept[CHECK_MAX_ARGS]) {
  for (int i = 0; i < c->row.n; i++) {
    const check_arg *arg = &c->row.arg[i];
    void *p;
    GA_TRY(ga_arena_alloc(&c->arena, arg->bytes, &p));
    kept[i] = memcpy(p, arg->after, arg->bytes);
  }
  return GA_OK;
}

static bool equal_results(const check_case *c, uint8_t *const kept[CHECK_MAX_ARGS], const char *what, char *text,
                          size_t capacity) {
  for (int i = 0; i < c->row.n; i++) {
    const check_arg *arg = &c->row.arg[i];
    int64_t at;
    if (arg->role == CHECK_OUT && c->expect != GA_OK) continue; /* a refused call leaves the poison of its run */
    if (arg->role == CHECK_IN || check_same(arg, kept[i], arg->after, &at)) continue;
    (void)snprintf(text, capacity, "%s[%lld] differs %s", arg->name, (long long)at, what);
    return false;
  }
  return true;
}

/* An element that still holds the poison of both runs was never written. Bytes may be poison by chance. */
static check_detector unwritten(const check_case *c, uint8_t *const kept[CHECK_MAX_ARGS],
                                uint8_t *const poison[CHECK_MAX_ARGS], char *text, size_t capacity) {
  for (int i = 0; i < c->row.n; i++) {
    const check_arg *arg = &c->row.arg[i];
    size_t size = (size_t)ga_dtype_info(arg->dtype)->block_bytes;
    if (arg->role != CHECK_OUT || arg->alias >= 0 || size < 2 || ga_dtype_info(arg->dtype)->is_quant) continue;
    for (int64_t e = 0, n = check_count(arg); e < n; e++) {
      size_t o = arg->at + (size_t)check_at(arg, e) * size;
      bool first = !memcmp(kept[i] + o, poison[i] + o, size), second = !memcmp(arg->after + o, arg->before + o, size);
      if (!first || !second || !memcmp(poison[i] + o, arg->before + o, size)) continue;
      (void)snprintf(text, capacity, "%s[%lld] was not written", arg->name, (long long)e);
      return CHECK_BY_UNWRITTEN;
    }
  }
  return CHECK_PASSED;
}

/* Two runs differ: because of the workspace, if each repeats with the workspace it had. */
static check_detector blame(check_case *c, ga_ctx *ctx, uint8_t *const first[CHECK_MAX_ARGS], char *text,
                            size_t capacity) {
  uint8_t *second[CHECK_MAX_ARGS];
  if (!c->kernel->workspace) return CHECK_BY_REPEAT;
  if (keep_results(c, second) != GA_OK) return CHECK_BY_STATUS;
  check_detector d = launch_case(c, ctx, true, text, capacity);
  bool repeats = !d && equal_results(c, second, "from run to run", text, capacity);
  if (repeats) d = launch_case(c, ctx, false, text, capacity);
  repeats = repeats && !d && equal_results(c, first, "from run to run", text, capacity);
  if (d) return d;
  if (!repeats) return CHECK_BY_REPEAT;
  (void)snprintf(text, capacity, "the result depends on what the workspace held before");
  return CHECK_BY_WORKSPACE;
}

static check_detector second_run(check_case *c, ga_ctx *ctx, uint8_t *const first[CHECK_MAX_ARGS], char *text,
                                 size_t capacity) {
  uint8_t *poison[CHECK_MAX_ARGS];
  for (int i = 0; i < c->row.n; i++) {
    check_arg *arg = &c->row.arg[i];
    poison[i] = arg->before;
    if (arg->role != CHECK_OUT || arg->alias >= 0) continue;
    void *p;
    if (ga_arena_alloc(&c->arena, arg->bytes, &p) != GA_OK) return CHECK_BY_STATUS;
    arg->before = memcpy(p, arg->before, arg->bytes);
    check_poison(arg, 2);
  }
  check_detector d = launch_case(c, ctx, true, text, capacity);
  if (!d && c->expect == GA_OK) d = unwritten(c, first, poison, text, capacity);
  if (d || c->kernel->flags & GA_KERNEL_NONDET || equal_results(c, first, "from run to run", text, capacity)) return d;
  return blame(c, ctx, first, text, capacity);
}

static check_detector other_runs(check_case *c, const check_rig *rig, char *text, size_t capacity) {
  uint8_t *first[CHECK_MAX_ARGS];
  if (keep_results(c, first) != GA_OK) return CHECK_BY_STATUS;
  check_detector d = second_run(c, rig->ctx, first, text, capacity);
  bool exact = !(c->kernel->flags & GA_KERNEL_NONDET);
  if (!d && rig->single) {
    d = launch_case(c, rig->single, false, text, capacity);
    if (!d && exact && !equal_results(c, first, "with one thread", text, capacity)) d = CHECK_BY_THREADS;
  }
  for (int i = 0; i < c->row.n; i++) memcpy(c->row.arg[i].after, first[i], c->row.arg[i].bytes);
  return d;
}

/* --- against the oracle --- */

static ga_status run_oracle(check_case *c, const check_rig *rig) {
  const ga_kernel *oracle = check_oracle_of(c->kernel->op);
  void *space = NULL;
  ga_plan_steps steps;
  const char *why = ga_plan_steps_fill(&steps, rig->ref->device, NULL, oracle, c->oracle_desc);
  GA_REQUIRE(!why, GA_ERR_INTERNAL, "%s: %s", oracle->id, why);
  if (steps.workspace_bytes) GA_TRY(ga_arena_alloc(&c->arena, steps.workspace_bytes, &space));
  return check_launch_steps(c->op, &steps, c->oracle_desc, c->oracle.io, space, rig->ref->stream);
}

static check_detector against_oracle(check_case *c, const check_rig *rig, double *worst, char *text, size_t capacity) {
  check_args plain;
  ga_status status = run_oracle(c, rig);
  if (status == GA_OK && c->op->plain) {
    status = check_build_plain(c, &plain);
    if (status == GA_OK) status = c->op->plain(c->kernel, c->desc, plain.io);
  }
  if (status == GA_OK) return check_values(c, c->op->plain ? &plain : NULL, worst, text, capacity);
  (void)snprintf(text, capacity, "the oracle or the plain evaluation failed: %s", ga_error_text());
  return CHECK_BY_STATUS;
}

/* Host memory that ends at a guard page. Last, because a crash tells less than any other finding. */
static check_detector at_the_border(check_case *c, const check_rig *rig, char *text, size_t capacity) {
  uint8_t *first[CHECK_MAX_ARGS];
  if (!rig->ctx->device->pool) return CHECK_PASSED;
  if (keep_results(c, first) != GA_OK) return CHECK_BY_STATUS;
  c->progress(c->progress_user, c->number, "reading behind the end of a buffer");
  ga_status status = check_run_tight(c, rig->single ? rig->single : rig->ctx);
  if (status != GA_OK) return judge_status(c, status, text, capacity);
  bool exact = !(c->kernel->flags & GA_KERNEL_NONDET);
  return exact && !equal_results(c, first, "with other neighbours in memory", text, capacity) ? CHECK_BY_REPEAT
                                                                                              : CHECK_PASSED;
}

static check_detector run_case(check_case *c, const check_rig *rig, double *worst, char *text, size_t capacity) {
  if (check_build(c) != GA_OK) {
    (void)snprintf(text, capacity, "%s", ga_error_text());
    return CHECK_BY_STATUS;
  }
  check_detector d = launch_case(c, rig->ctx, false, text, capacity);
  if (!d) d = other_runs(c, rig, text, capacity);
  if (d || c->expect != GA_OK) return d;
  if (!c->op->no_oracle) d = against_oracle(c, rig, worst, text, capacity);
  return d ? d : at_the_border(c, rig, text, capacity);
}

/* --- all draws of a row --- */

static size_t append_format(char *text, size_t capacity, size_t at, const char *fmt, ...) GA_PRINTF(4, 5);
static size_t append_format(char *text, size_t capacity, size_t at, const char *fmt, ...) {
  va_list list;
  va_start(list, fmt);
  int n = at < capacity ? vsnprintf(text + at, capacity - at, fmt, list) : 0;
  va_end(list);
  return at + (n > 0 ? (size_t)n : 0);
}

/* "exact; y f32 3x70:75 in x, ...; act=1": dimensions, and the stride after a colon when there is padding. */
static void describe_case(const check_case *c, char *text, size_t capacity) {
  const char *mode = c->mode == CHECK_EXACT ? "exact" : c->mode == CHECK_NORMAL ? "normal" : "hostile";
  size_t at = append_format(text, capacity, 0, "%s;", mode);
  for (int i = 0; i < c->row.n; i++) {
    const check_arg *arg = &c->row.arg[i];
    at = append_format(text, capacity, at, "%s %s %s ", i ? "," : "", arg->name, ga_dtype_name(arg->dtype));
    for (int d = 0; d < arg->n_dims; d++) {
      at = append_format(text, capacity, at, d ? "x%lld" : "%lld", (long long)arg->dim[d]);
      if (d + 1 < arg->n_dims && arg->stride[d] != arg->dim[d + 1] * arg->stride[d + 1])
        at = append_format(text, capacity, at, ":%lld", (long long)arg->stride[d]);
    }
    if (arg->alias >= 0) at = append_format(text, capacity, at, " in %s", c->row.arg[arg->alias].name);
  }
  at = append_format(text, capacity, at, "; ");
  if (c->op->describe && at < capacity) c->op->describe(c->desc, text + at, capacity - at);
}

static check_detector one_draw(check_case *c, const check_rig *rig, const check_options *o, int64_t i,
                               check_result *out) {
  ga_status status = check_draw_desc(c, o, i);
  if (status == GA_ERR_UNSUPPORTED) return CHECK_PASSED;
  if (status != GA_OK) {
    (void)snprintf(out->text, sizeof out->text, "%s", ga_error_text());
    return CHECK_BY_LEGAL;
  }
  out->n_draws++;
  double worst = 0;
  check_detector d = o->launches ? check_stress(c, rig->ctx, o->launches, out->text, sizeof out->text)
                                 : run_case(c, rig, &worst, out->text, sizeof out->text);
  if (worst > out->worst) out->worst = worst;
  if (d || o->draw >= 0) describe_case(c, out->what, sizeof out->what);
  return d;
}

static double cpu_s(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The k-th draw. Under a budget the edge shapes come in another order, so that the first of them already differ much.
 * */
static int64_t draw_of(const check_options *o, int64_t k) {
  return o->budget_s > 0 && o->draw < 0 && k < CHECK_N_EDGES ? k * 7 % CHECK_N_EDGES : k;
}

static void no_progress(void *user, int64_t draw, const char *step) { (void)user, (void)draw, (void)step; }

void check_row(const check_rig *rig, const ga_kernel *kernel, const check_options *o, check_progress progress,
               void *user, check_result *out) {
  check_case c = {.op = check_op_of(kernel->op),
                  .kernel = kernel,
                  .ctx = rig->ctx,
                  .progress = progress ? progress : no_progress,
                  .progress_user = user};
  const int64_t edges = o->launches ? 0 : CHECK_N_EDGES;
  int64_t first = o->draw >= 0 ? o->draw : CHECK_N_EDGES - edges,
          end = o->draw >= 0 ? o->draw + 1 : CHECK_N_EDGES + o->n;
  double start = ga_seconds(), cpu = cpu_s();
  *out = (check_result){.draw = first};
  if (!check_is_covered(kernel->op)) {
    out->detector = CHECK_BY_TABLE;
    (void)snprintf(out->text, sizeof out->text, "unchecked: op %s has no %s", ga_op_name(kernel->op),
                   c.op ? "oracle in src/ref" : "file verify/check/check_<op>.c");
    return;
  }
  for (int64_t k = first; k < end && !out->detector; k++) {
    const int64_t i = draw_of(o, k);
    if (o->budget_s > 0 && out->n_draws >= CHECK_LEAST_DRAWS && cpu_s() - cpu > o->budget_s) break;
    out->draw = i;
    c.number = i;
    c.progress(user, i, "");
    if (check_draw_begins) check_draw_begins(o->seed, i);
    ga_arena_init(&c.arena, 0);
    out->detector = one_draw(&c, rig, o, i, out);
    ga_arena_free(&c.arena);
  }
  out->seconds = ga_seconds() - start;
  if (out->detector || out->n_draws) return;
  out->detector = CHECK_BY_LEGAL;
  (void)snprintf(out->text, sizeof out->text, "takes nothing of what was drawn");
}
