/* ga bench: rows that passed their check, in groups of one op and shape; the report. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cmdline/cmd.h"
#include "verify/bench/bench.h"
#include "verify/check/walk.h"

typedef struct session {
  const bench_options *o;
  const ga_kernel **rows; /* that passed */
  size_t n;
  size_t refused;
  ga_ctx *ctx;
  bench_ceiling ceiling;
  json_t *json; /* array, NULL for text */
} session;

const bench_op *bench_op_of(ga_op op) {
  switch (op) {
#define X(name) \
  case GA_OP_##name: return &bench_##name;
    GA_OPS_TIMED(X)
#undef X
  default: return NULL;
  }
}

/* --- only what has passed --- */

static void admit(void *user, const ga_kernel *kernel, const check_result *r) {
  session *s = user;
  cmd_progress("checking", s->n, s->n + 8);
  if (!r->detector) {
    s->rows[s->n++] = kernel;
  } else if (r->detector != CHECK_BY_SKIP) {
    s->refused++;
    (void)fprintf(stderr, "ga bench: %s did not pass: %s: %s\n", kernel->id, check_detector_name(r->detector), r->text);
  }
}

/* A check of the rows that can be timed, 8 draws of each and as many more as 3 s allow; s->rows are those that passed.
 * */
static ga_status keep_good(session *s, const ga_kernel **rows, size_t n) {
  check_options quick = {
      .device = s->o->device, .seed = s->o->seed, .n = 10, .draw = -1, .timeout_s = 60, .budget_s = 3, .threads = 3};
  size_t timed = 0;
  for (size_t i = 0; i < n; i++)
    if (bench_op_of(rows[i]->op)) rows[timed++] = rows[i];
  s->rows = calloc(timed + 1, sizeof *s->rows);
  GA_REQUIRE(s->rows, GA_ERR_NOMEM, "bench: no memory");
  return check_walk(rows, timed, &quick, admit, s);
}

/* --- report --- */

static void report_group(session *s, const bench_result *results, int n) {
  for (int i = 0; i < n; i++) {
    if (s->json)
      bench_report_json(s->json, &s->ceiling, &results[i]);
    else
      bench_report_line(&s->ceiling, &results[i]);
  }
}

/* --- groups: rows of one op with the same shape name --- */

/* True when row i can run shape `shape` and --shape lets it through; then `name` is set. */
static bool wants(const session *s, size_t i, int shape, char name[BENCH_NAME]) {
  const ga_kernel *k = s->rows[i];
  GA_ALIGNED(8) unsigned char desc[GA_DESC_MAX_BYTES] = {0};
  const bench_op *op = bench_op_of(k->op);
  ga_plan_steps steps;
  return shape < op->n_shapes && op->shape(shape, k, desc, name) && ga_pattern_match(s->o->shapes, name) &&
         !ga_plan_steps_fill(&steps, s->ctx->device, NULL, k, desc);
}

static ga_status run_group(session *s, size_t first, int shape) {
  const ga_kernel *rows[BENCH_MAX_ROWS];
  bench_result results[BENCH_MAX_ROWS] = {0};
  char name[BENCH_NAME], other[BENCH_NAME];
  int n = 0;
  if (!wants(s, first, shape, name)) return GA_OK;
  for (size_t i = 0; i < s->n && n < BENCH_MAX_ROWS; i++) {
    if (s->rows[i]->op != s->rows[first]->op || !wants(s, i, shape, other) || strcmp(name, other)) continue;
    if (i < first) return GA_OK; /* done with that row */
    rows[n++] = s->rows[i];
  }
  GA_TRY(bench_group(s->ctx, rows, n, shape, s->o, results));
  report_group(s, results, n);
  return GA_OK;
}

static ga_status run_all(session *s) {
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = s->o->device;
  options.threads = s->o->threads;
  GA_TRY(ga_ctx_create(&options, &s->ctx));
  GA_TRY(bench_measure_ceiling(s->ctx, &s->ceiling));
  if (!s->json) bench_report_head(s->ctx, &s->ceiling);
  for (size_t i = 0; i < s->n; i++)
    for (int shape = 0; shape < bench_op_of(s->rows[i]->op)->n_shapes; shape++) GA_TRY(run_group(s, i, shape));
  return GA_OK;
}

static ga_status print_bench_json(session *s) {
  json_t *all = bench_report_all(s->ctx, s->o, &s->ceiling, s->json);
  s->json = NULL;
  return cmd_print_json(all, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
}

int bench_kernels(const bench_options *o, const char *patterns, bool json) {
  session s = {.o = o, .json = json ? json_array() : NULL};
  const ga_kernel **rows = NULL;
  size_t n;
  ga_status status = check_rows_of(o->device, patterns, &rows, &n);
  if (status == GA_OK && n == 0) status = ga_fail(GA_ERR_ARG, "no kernel of %s matches '%s'", o->device, patterns);
  if (status == GA_OK) status = keep_good(&s, rows, n);
  if (status == GA_OK) status = run_all(&s);
  if (status == GA_OK && json) status = print_bench_json(&s);
  int code = status != GA_OK ? cmd_fail("bench") : s.refused ? EXIT_CHECK : EXIT_OK;
  ga_ctx_destroy(s.ctx);
  json_decref(s.json);
  free(s.rows);
  free(rows);
  return code;
}
