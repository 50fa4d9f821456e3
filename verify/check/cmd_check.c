/* ga check: options and report. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "cmdline/cmd.h"
#include "verify/check/selftest.h"
#include "verify/check/walk.h"
#include "verify/verify.h"

typedef struct tally {
  const check_options *options;
  json_t *json; /* array, NULL for text */
  size_t done, n, passed, failed, skipped;
} tally;

static void print_row_text(const tally *t, const ga_kernel *k, const check_result *r) {
  if (r->detector == CHECK_BY_SKIP) {
    printf("skip  %-44s needs %s, or is not in this build\n", k->id, ga_isa_name(k->isa));
  } else if (!r->detector) {
    printf("ok    %-44s %4lld draws  error %.2f of allowed  %.2f s\n", k->id, (long long)r->n_draws, r->worst,
           r->seconds);
  } else {
    printf("FAIL  %-44s %s: %s\n", k->id, check_detector_name(r->detector), r->text);
    if (r->detector != CHECK_BY_TABLE) {
      printf("      ga check --device %s -k %s -s %llu --draw %lld", t->options->device, k->id,
             (unsigned long long)t->options->seed, (long long)r->draw);
      if (t->options->launches) printf(" --stress %lld", (long long)t->options->launches);
      printf("\n");
    }
  }
  if (r->what[0]) printf("      %s\n", r->what);
  (void)fflush(stdout);
}

static void report_row(void *user, const ga_kernel *k, const check_result *r) {
  tally *t = user;
  bool skipped = r->detector == CHECK_BY_SKIP, failed = r->detector && !skipped;
  t->skipped += skipped;
  t->failed += failed;
  t->passed += !r->detector;
  if (t->json)
    (void)json_array_append_new(t->json,
                                json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:s}", "id", k->id, "result",
                                          failed ? "failed" : check_detector_name(r->detector), "detector",
                                          check_detector_name(r->detector), "draw", (json_int_t)r->draw, "draws",
                                          (json_int_t)r->n_draws, "error", isfinite(r->worst) ? r->worst : 1e300,
                                          "seconds", r->seconds, "text", r->text));
  else
    print_row_text(t, k, r);
  cmd_progress("checking", ++t->done, t->n);
}

static int finish_check(tally *t) {
  const check_options *o = t->options;
  if (t->json) {
    json_t *all = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "device", o->device, "seed", (json_int_t)o->seed,
                            "passed", (json_int_t)t->passed, "failed", (json_int_t)t->failed, "skipped",
                            (json_int_t)t->skipped, "rows", t->json);
    (void)json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(all);
    printf("\n");
  } else {
    printf("%zu passed, %zu failed, %zu skipped; device %s, seed %llu\n", t->passed, t->failed, t->skipped, o->device,
           (unsigned long long)o->seed);
  }
  return t->failed ? EXIT_CHECK : EXIT_OK;
}

/* Short, because people type it. */
static uint64_t clock_seed(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  return ((uint64_t)t.tv_nsec * 2654435761u ^ (uint64_t)t.tv_sec) % 1000000007u;
}

static int list_rows(const ga_kernel *const *rows, size_t n) {
  for (size_t i = 0; i < n; i++)
    printf("%-44s %s\n", rows[i]->id, check_is_covered(rows[i]->op) ? "checked" : "UNCHECKED");
  return EXIT_OK;
}

static int check_rows(const check_options *o, const char *patterns, bool only_list, bool json) {
  const ga_kernel **rows;
  tally t = {.options = o};
  if (check_rows_of(o->device, patterns, &rows, &t.n) != GA_OK) return cmd_fail("check");
  int code;
  if (t.n == 0 && strcmp(patterns, "*")) {
    code = cmd_usage_error("check", "no kernel of %s matches '%s'", o->device, patterns);
  } else if (only_list) {
    code = list_rows(rows, t.n);
  } else {
    if (json) t.json = json_array();
    code = check_walk(rows, t.n, o, report_row, &t) == GA_OK ? finish_check(&t) : cmd_fail("check");
  }
  free(rows);
  return code;
}

int cmd_check(int argc, char **argv) {
  const char *patterns = "*", *device = "cpu";
  int64_t seed = -1, n = 200, draw = -1, threads = 0, stress = 0;
  double timeout = 60, budget = 0;
  bool json = false, only_list = false, selftest = false;
  const cmd_option options[] = {
      {"kernels", 'k', OPT_STRING, &patterns, 0, 0, "PATTERNS", "ids to check: comma-separated, with * and ?"},
      {"device", 0, OPT_STRING, &device, 0, 0, "NAME", "cpu, ref, cuda:N"},
      {"seed", 's', OPT_INT, &seed, -1, 9e18, "SEED", "same seed, same draws; -1 = from the clock"},
      {"draws", 'n', OPT_INT, &n, 0, 1e9, "N", "random draws of each kernel, after the edge shapes"},
      {"draw", 0, OPT_INT, &draw, -1, 9e18, "I", "this draw only; needs --seed"},
      {"threads", 0, OPT_INT, &threads, 0, 1024, "N",
       "CPU threads of the second run, which is compared with a run on one thread; 0 = automatic"},
      {"timeout", 0, OPT_FLOAT, &timeout, 0.1, 1e5, "SECONDS", "a draw that takes longer has failed"},
      {"stress", 0, OPT_INT, &stress, 0, 1e9, "N",
       "N launches of each draw on the same large inputs, compared with each other, without an oracle; 0 = the usual "
       "check"},
      {"budget", 0, OPT_FLOAT, &budget, 0, 1e6, "SECONDS",
       "processor time for a kernel: 8 draws, then as many more as fit; 0 = all draws"},
      {"list", 0, OPT_FLAG, &only_list, 0, 0, NULL, "only list the ids and whether they can be checked"},
      {"json", 0, OPT_FLAG, &json, 0, 0, NULL, "JSON on stdout"},
      {"selftest", 0, OPT_FLAG, &selftest, 0, 0, NULL, "check the checker with kernels built to fail"},
  };
  int code, rest = cmd_parse("check", "[options]", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 0) return cmd_usage_error("check", "unexpected '%s'", argv[1]);
  if (draw >= 0 && seed < 0) return cmd_usage_error("check", "--draw needs --seed");
  if (stress == 1) return cmd_usage_error("check", "--stress 1 compares nothing: 2 launches or more, or 0");
  int cpus = ga_cpu_count(), automatic = cpus < 2 ? 2 : cpus > 8 ? 8 : cpus;
  check_options o = {.device = device,
                     .seed = seed < 0 ? clock_seed() : (uint64_t)seed,
                     .n = n,
                     .draw = draw,
                     .timeout_s = timeout,
                     .budget_s = budget,
                     .launches = stress,
                     .threads = threads ? (int)threads : automatic};
  return selftest ? check_selftest(&o) : check_rows(&o, patterns, only_list, json);
}
