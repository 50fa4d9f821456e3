/* ga dist simulate: predict a plan's time on a model of a machine. */
#include "cli/dist/figures.h"
#include "cli/dist/verb.h"
#include "cli/dist/view.h"
#include "cmdline/error.h"
#include "verify/dist/ranks.h"

static dist_view asked = DIST_VIEW_INIT;

static const cmd_option options[] = {
    DIST_VIEW_OPTIONS(asked),
    DIST_FLOAT("jitter", asked.machine.jitter, 0, 100, "PERCENT", "standard deviation of a call's time"),
    DIST_FLOAT("spread", asked.machine.spread, 0, 100, "PERCENT", "standard deviation of the speed of ranks"),
    DIST_FLOAT("link-spread", asked.machine.link_spread, 0, 100, "PERCENT",
               "standard deviation of the speed of their links"),
    DIST_INT("draws", asked.machine.draws, 0, 100000, "N",
             "how often jitter and spread are drawn, from --seed; 0 = 200"),
    DIST_SEED(asked.machine.seed, "of draws"),
    DIST_JSON_OPTION(asked.json)};

static ga_status print_times_json(const char *method, const ga_dist_times *t) {
  return cmd_print_json(json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "method", method, "seconds",
                                  t->seconds, "mean_busy", t->mean_busy, "most_busy", t->most_busy, "most_waiting",
                                  t->most_waiting, "efficiency", t->efficiency, "low", t->low, "middle", t->middle,
                                  "high", t->high, "of_one_device", dist_of_one_device(t, asked.shape.ranks)),
                        JSON_INDENT(1));
}

static ga_status show_times(const dist_task *task, const ga_dist_plan *plan) {
  const dist_machine *m = &asked.machine;
  const char *method = task->desc.method;
  ga_dist_times t = GA_DIST_TIMES_INIT;
  TRY(dist_simulate(m, plan, &t));
  if (asked.json) return print_times_json(method, &t);
  printf("%s: %.3f ms; a rank computes for %.3f ms on average, %.3f at most, and waits for %.3f at most\n"
         "%.1f %% of one device's time by %lld, by a model: %g TFLOP/s, %g GB/s a way, %g us a transfer, %g us a "
         "tile\n",
         method, 1e3 * t.seconds, 1e3 * t.mean_busy, 1e3 * t.most_busy, 1e3 * t.most_waiting,
         100 * dist_of_one_device(&t, asked.shape.ranks), (long long)asked.shape.ranks, m->tflops, m->gbytes,
         m->latency, m->launch);
  if (m->rates) printf("rates of %s in the place of these, where it has them\n", m->rates);
  if (m->jitter > 0 || m->spread > 0 || m->link_spread > 0)
    printf("with jitter %g %%, GPUs %g %%, links %g %%: %.3f ms, nine in ten runs from %.3f to %.3f\n", m->jitter,
           m->spread, m->link_spread, 1e3 * t.middle, 1e3 * t.low, 1e3 * t.high);
  return GA_OK;
}

static int simulate_main(char **args) {
  (void)args;
  if (!asked.shape.ranks) asked.shape.ranks = DIST_DEFAULT_RANKS;
  return dist_view_plan("simulate", &asked, false, true, show_times);
}

const dist_verb dist_verb_simulate = {.name = "simulate",
                                      .summary = "predict a plan's time on a model of a machine",
                                      .options = options,
                                      .n_options = COUNT_OF(options),
                                      .run = simulate_main};
