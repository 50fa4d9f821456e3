/* ga dist -m auto: the method whose plan is fastest on a model of the machine. */
#include <string.h>

#include "cli/dist.h"
#include "cli/error.h"

typedef struct candidate {
  const char *name;
  ga_dist_times times;
  int64_t sent; /* bytes of all ranks */
} candidate;

/* Methods that do not fit the shape are left out: found says which do. */
static ga_status try_method(const dist_args *a, const char *name, candidate *c, bool *found) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  dist_summary s = {0};
  *c = (candidate){.name = name, .times = GA_DIST_TIMES_INIT};
  ga_status status = dist_begin(a, name, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  const bool refused = status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK) status = dist_simulate(a, plan, &c->times);
  if (status == GA_OK) status = dist_summarise(plan, &s);
  c->sent = s.sent;
  *found = status == GA_OK;
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  return refused ? GA_OK : status;
}

/* In f32 GPUs take only what gathers keys. */
static bool fits_devices(const dist_args *a, const char *name) {
  return dist_is_on_host(a) || strcmp(a->type, "f32") != 0 || !strcmp(name, "llama3");
}

/* Within a thousandth of the time fewer bytes count. */
static bool beats(const candidate *a, const candidate *b) {
  if (a->times.seconds < 0.999 * b->times.seconds) return true;
  return a->times.seconds < 1.001 * b->times.seconds && a->sent < b->sent;
}

static const char *reason(const dist_args *a, const candidate *best, const candidate *next) {
  const double less = next->times.seconds - best->times.seconds;
  if (less <= 1e-3 * next->times.seconds) return "it sends fewer bytes in the same time";
  if (next->times.most_busy - best->times.most_busy > less / 2)
    return best->times.mean_busy >= 0.99 * next->times.mean_busy ? "its ranks have equal work"
           : a->merged_tflops > 0                                ? "its calls are faster: no result is merged"
                                                                 : "it has fewer tiles";
  return "its ranks wait less";
}

static void print_candidate(const char *head, const candidate *c, int64_t ranks) {
  printf("%s%-14s %9.3f ms: computes for %.3f, waits for %.3f; sends %.1f MB a rank\n", head, c->name,
         1e3 * c->times.seconds, 1e3 * c->times.most_busy, 1e3 * c->times.most_waiting,
         (double)c->sent * 1e-6 / (double)ranks);
}

ga_status dist_choose(const dist_args *a, bool quiet, const char **method) {
  candidate best = {NULL}, next = {NULL}, c;
  const char *name;
  bool found;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) {
    if (!fits_devices(a, name)) continue;
    TRY(try_method(a, name, &c, &found));
    if (!found) continue;
    if (!best.name || beats(&c, &best)) {
      next = best;
      best = c;
    } else if (!next.name || beats(&c, &next)) {
      next = c;
    }
  }
  REQUIRE(best.name, GA_ERR_SHAPE, "no method fits this shape");
  *method = best.name;
  if (quiet || a->json) return GA_OK;
  print_candidate("auto: ", &best, a->ranks);
  if (next.name) {
    print_candidate("next: ", &next, a->ranks);
    printf("%s is chosen: %s\n\n", best.name, reason(a, &best, &next));
  }
  return GA_OK;
}
