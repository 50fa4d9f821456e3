/* ga dist run: random tensors through a plan, beside the results of one rank. */
#include <string.h>

#include "cli/dist/auto.h"
#include "cli/dist/launch.h"
#include "cli/dist/options.h"
#include "cli/dist/timeline.h"
#include "cli/dist/verb.h"
#include "cli/dist/working.h"
#include "cmdline/error.h"
#include "verify/dist/run.h"
#include "verify/dist/trace.h"

typedef struct run_options {
  dist_shape shape;
  dist_machine machine; /* of -m auto */
  dist_ranks ranks;
  const char *copies, *timeline;
  int64_t runs;
  bool json;
} run_options;
static run_options asked = {.shape = DIST_SHAPE_INIT, .machine = DIST_MACHINE_INIT, .ranks = DIST_RANKS_INIT};

static const cmd_option options[] = {
    DIST_METHOD(asked.shape.method, "ring, zigzag, ulysses, ...; auto = the fastest by simulate"),
    DIST_RANKS_OPTIONS(asked.ranks),
    DIST_SHAPE_OPTIONS(asked.shape),
    DIST_COPIES(asked.copies, "blocks from one GPU to another: peer: each writes into the memory of the others; host: "
                              "through host memory; nccl: by NCCL; auto: peer where they can, else host. Without it as "
                              "$GA_DIST_COPIES says"),
    DIST_WORD("timeline", asked.timeline, "FILE",
              "write the last run's timeline for chrome://tracing or Perfetto; and print how much of its time was "
              "attention, communication, or both"),
    DIST_INT("runs", asked.runs, 0, 1000000, "N", "number of runs, of which the fastest is printed; 0 = 1"),
    DIST_MACHINE_OPTIONS(asked.machine),
    DIST_JSON_OPTION(asked.json)};

static ga_status check_timeline(const char *path) {
  REQUIRE(!path || *path, GA_ERR_ARG, "--timeline '': it must be the name of a file");
  REQUIRE(!path || strcmp(path, "-") != 0, GA_ERR_ARG, "--timeline -: it must be a file, not a stream");
  return GA_OK;
}

static ga_status check_run_options(run_options *o) {
  TRY(dist_check_shape(&o->shape));
  TRY(dist_check_method(o->shape.method));
  TRY(dist_check_copies(o->copies, false));
  TRY(dist_check_ranks("run", &o->ranks));
  REQUIRE(strcmp(o->shape.method, "all") != 0, GA_ERR_ARG, "run takes one method");
  TRY(check_timeline(o->timeline));
  if (!o->runs) o->runs = 1;
  o->shape.ranks = o->ranks.n;
  TRY(dist_resolve_auto(&o->shape, &o->machine, o->ranks.device, o->json || o->ranks.rank >= 0));
  TRY(dist_check_ways(&o->ranks, o->copies, false));
  return dist_check_types(&o->ranks, &o->shape);
}

static ga_status print_found_json(const run_options *o, const dist_run_found *f) {
  json_t *spans = NULL;
  char bits[24];
  (void)snprintf(bits, sizeof bits, "%016llx", (unsigned long long)f->bits);
  if (o->timeline) TRY(timeline_json(o->timeline, &f->timeline, &spans));
  return cmd_print_json(json_pack("{s:s, s:s, s:s, s:s, s:I, s:f, s:I, s:I, s:s, s:f, s:o*}", "method", o->shape.method,
                                  "transport", o->ranks.transport, "copies", f->copies, "device", o->ranks.device,
                                  "ranks", (json_int_t)o->ranks.n, "difference", f->difference, "other_bits",
                                  (json_int_t)f->other_bits, "sent_bytes", (json_int_t)f->sent, "bits", bits, "seconds",
                                  f->seconds, "timeline", spans),
                        JSON_INDENT(1));
}

static ga_status print_found(const run_options *o, const dist_run_found *f) {
  if (o->json) return print_found_json(o, f);
  if (!dist_is_on_host(o->ranks.device))
    printf("%s on %s, copies by %s: %llu numbers have other bits than one device's\n", o->shape.method, o->ranks.device,
           f->copies, (unsigned long long)f->other_bits);
  printf("%s, %lld ranks (%s): differs from one rank by %.2g of the largest value; %llu bytes sent, as planned; "
         "%.3f s\n",
         o->shape.method, (long long)o->ranks.n, o->ranks.transport, f->difference, (unsigned long long)f->sent,
         f->seconds);
  return o->timeline ? timeline_print(o->timeline, &f->timeline) : GA_OK;
}

static ga_status run_here(const run_options *o, const dist_task *t, const ga_dist_plan *plan) {
  const dist_run_options how = {&o->ranks, o->copies, o->timeline, o->runs};
  dist_run_found found;
  ga_status status = dist_run(&how, t, plan, &found);
  if (status == GA_OK && dist_is_first(&o->ranks)) status = print_found(o, &found);
  dist_run_free(&found);
  return status;
}

/* Starts a process for each rank, or runs in this process. */
static int run_plan_of(const run_options *o, char **args) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  int launched = -1;
  ga_status status = dist_begin(&o->shape, NULL, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  const bool is_usage = status == GA_ERR_ARG || status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  const bool launches = dist_needs_launch(&o->ranks);
  if (status == GA_OK && launches && o->timeline) status = dist_trace_check(o->timeline);
  if (status == GA_OK && launches)
    launched = dist_launch((int32_t)o->ranks.n, args);
  else if (status == GA_OK)
    status = run_here(o, &t, plan);
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  if (launched >= 0) return launched;
  return is_usage ? dist_usage_error("run") : status == GA_OK ? EXIT_OK : cmd_fail("dist");
}

static int run_verb_main(char **args) {
  const int code = check_run_options(&asked) == GA_OK ? run_plan_of(&asked, args) : dist_usage_error("run");
  dist_machine_close(&asked.machine);
  return code;
}

const dist_verb dist_verb_run = {.name = "run",
                                 .summary = "run a plan over ranks, and compare it with one rank",
                                 .options = options,
                                 .n_options = COUNT_OF(options),
                                 .run = run_verb_main};
