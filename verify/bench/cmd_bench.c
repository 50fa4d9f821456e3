/* ga bench: options, groups, report. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/cmd.h"
#include "verify/bench/bench.h"
#include "verify/bench/bench_model.h"
#include "verify/bench/serve_client.h"
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
#define BENCH_OP(name) \
  case GA_OP_##name:   \
    return &bench_##name;
#include "verify/bench/ops.def"
#undef BENCH_OP
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

static int bench(const bench_options *o, const char *patterns, bool json) {
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

/* --serve has options of its own. */
static bool names_server(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (!strcmp(argv[i], "--serve") || !strncmp(argv[i], "--serve=", 8)) return true;
  return false;
}

/* The second half of the help. */
static int help_of_serve(char **argv) {
  char help[] = "--help", *line[] = {argv[0], help, NULL};
  printf("\n");
  return bench_serve(2, line);
}

int cmd_bench(int argc, char **argv) {
  if (names_server(argc, argv)) return bench_serve(argc, argv);
  const char *patterns = "*", *before = NULL;
  int64_t threads = 0, seed = 1;
  bool json = false, error = false;
  bench_options o = {.device = "cpu", .shapes = "*", .seconds = 0.5};
  bench_model_args m = {.open = {OPEN_ARGS_INIT}, .prompt = 512, .decode = 64, .depth = 16, .repeat = 5};
  const cmd_option options[] = {
      {"model", 'm', OPT_STRING, &m.open.model, 0, 0, "MODEL", "time a whole model instead of kernels"},
      {"prompt", 0, OPT_INT, &m.prompt, 1, 1e6, "N", "with --model: tokens of prefill"},
      {"decode", 0, OPT_INT, &m.decode, 1, 1e6, "N", "with --model: single tokens"},
      {"depth", 0, OPT_INT, &m.depth, 1, 1e6, "N", "with --model: tokens in the cache before those"},
      {"repeat", 'r', OPT_INT, &m.repeat, 1, 1000, "N", "with --model: rounds"},
      OPEN_SESSION_OPTIONS(m.open),
      {"energy", 0, OPT_FLOAT, &m.energy, 0, 3600, "SECONDS",
       "with --model: joules a token instead of times, from windows of so many seconds (10 or more): prompts, then "
       "generated tokens"},
      {"kernels", 'k', OPT_STRING, &patterns, 0, 0, "PATTERNS", "ids to time: comma-separated, with * and ?"},
      {"shape", 0, OPT_STRING, &o.shapes, 0, 0, "PATTERNS", "names of shapes"},
      {"device", 0, OPT_STRING, &o.device, 0, 0, "NAME", "cpu, ref, cuda:N; with --model also cuda:0,cuda:1"},
      {"threads", 't', OPT_INT, &threads, 0, 1024, "N", "CPU threads, 0 = one per usable CPU"},
      {"time", 0, OPT_FLOAT, &o.seconds, 0.001, 3600, "SECONDS", "for each kernel and shape"},
      {"hot", 0, OPT_FLAG, &o.hot, 0, 0, NULL, "one set of buffers, in the cache, instead of rotating"},
      {"seed", 's', OPT_INT, &seed, 0, 9e18, "SEED", "of values and order"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
      {"error", 0, OPT_FLAG, &error, 0, 0, NULL,
       "the error of FP8 attention with outliers, by ways of scaling, instead of times"},
      {"compare", 0, OPT_STRING, &before, 0, 0, "FILE",
       "with a second FILE behind it: what changed between two reports of --json"},
  };
  int code, rest = cmd_parse("bench", "[options], or: ga bench --compare FILE FILE", options, GA_COUNT_OF(options),
                             argc, argv, &code);
  if (rest < 0) return code == EXIT_OK ? help_of_serve(argv) : code;
  if (before && rest != 1) return cmd_usage_error("bench", "--compare takes two files");
  if (before) return bench_compare(before, argv[1]);
  if (rest > 0) return cmd_usage_error("bench", "unexpected '%s'", argv[1]);
  m.open.device = o.device;
  if (open_args_check("bench", &m.open)) return EXIT_USAGE;
  if (m.open.model) {
    m.open.threads = threads;
    m.json = json;
    return bench_model(&m);
  }
  o.threads = (int)threads;
  o.seed = (uint64_t)seed;
  return error ? bench_accuracy(&o) : bench(&o, patterns, json);
}
