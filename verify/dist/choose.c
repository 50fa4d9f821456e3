/* Groups of heads are not searched: the model does not know what short calls of few heads lose, and the builder's rule
 * does (measured, gather.c). */
#include "verify/dist/choose.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "verify/dist/devices.h"
#include "verify/dist/summary.h"

typedef struct search {
  const dist_shape *shape;
  const dist_machine *machine;
  const char *devices;
} search;

/* The part of a method's grid that is searched; the grids of other methods are fixed. */
typedef enum choice { CHOICE_Q, CHOICE_HEADS, CHOICE_INNER } choice;
static const struct {
  const char *name;
  choice open;
} searched[] = {{"mesh", CHOICE_Q},
                {"wallfacer", CHOICE_Q},
                {"attention2d", CHOICE_Q},
                {"usp", CHOICE_HEADS},
                {"double-ring", CHOICE_INNER}};

/* Simulates a candidate. *found is false where it does not fit the shape. */
static ga_status try_candidate(const search *s, dist_candidate *c, bool *found) {
  dist_shape shape = *s->shape;
  dist_task t;
  ga_dist_plan *plan = NULL;
  dist_summary sum = {0};
  c->times = (ga_dist_times)GA_DIST_TIMES_INIT;
  if (*c->grid) shape.grid = c->grid;
  if (c->inner) shape.inner = c->inner;
  ga_status status = dist_begin(&shape, c->name, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  const bool refused = status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK) status = dist_simulate(s->machine, plan, &c->times);
  if (status == GA_OK) status = dist_summarise(plan, &sum);
  c->sent = sum.sent;
  *found = status == GA_OK;
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  return refused ? GA_OK : status;
}

/* In f32, GPUs run only the method that gathers keys. */
static bool fits_devices(const search *s, const char *name) {
  return dist_is_on_host(s->devices) || strcmp(s->shape->type, "f32") != 0 || !strcmp(name, "llama3");
}

/* True where a is faster, or as fast within a thousandth and sends fewer bytes. */
static bool beats(const dist_candidate *a, const dist_candidate *b) {
  if (a->times.seconds < 0.999 * b->times.seconds) return true;
  return a->times.seconds < 1.001 * b->times.seconds && a->sent < b->sent;
}

static const char *reason_of(const dist_machine *m, const dist_candidate *best, const dist_candidate *next) {
  const double less = next->times.seconds - best->times.seconds;
  if (less <= 1e-3 * next->times.seconds)
    return best->sent < next->sent ? "it sends fewer bytes in the same time"
                                   : "none is faster; it is the first of these";
  if (next->times.most_busy - best->times.most_busy > less / 2)
    return best->times.mean_busy >= 0.99 * next->times.mean_busy ? "its ranks have equal work"
           : m->merged_tflops > 0                                ? "its calls are faster: no result is merged"
                                                                 : "it has fewer tiles";
  return "its ranks wait less";
}

/* The fastest candidate of one method, and how many were tried. */
typedef struct choice_of_method {
  dist_candidate best, own; /* own: with the method's own grid */
  int tried;
} choice_of_method;

static ga_status try_one(const search *s, dist_candidate c, choice_of_method *m) {
  bool found;
  GA_TRY(try_candidate(s, &c, &found));
  if (!found) return GA_OK;
  m->tried++;
  if (!*c.grid && !c.inner) m->own = c;
  if (!m->best.name || beats(&c, &m->best)) m->best = c;
  return GA_OK;
}

/* Tries the method's own grid and each cut of the ranks in two factors, unless the command line has a grid. Uncut grids
 * are other methods. */
static ga_status try_method(const search *s, const char *name, choice_of_method *m) {
  *m = (choice_of_method){.tried = 0};
  GA_TRY(try_one(s, (dist_candidate){.name = name}, m));
  for (size_t i = 0; i < GA_COUNT_OF(searched); i++) {
    const choice open = searched[i].open;
    if (strcmp(searched[i].name, name) != 0 || s->shape->grid || s->shape->inner) continue;
    for (int64_t n = 2; n < s->shape->ranks; n++) {
      const long long part = n, rest = s->shape->ranks / n;
      dist_candidate c = {.name = name};
      if (s->shape->ranks % n != 0) continue;
      if (open == CHOICE_Q) (void)snprintf(c.grid, sizeof c.grid, "1x%lldx%lld", part, rest);
      if (open == CHOICE_HEADS) (void)snprintf(c.grid, sizeof c.grid, "%lldx1x%lld", part, rest);
      if (open == CHOICE_INNER) c.inner = n;
      GA_TRY(try_one(s, c, m));
    }
  }
  return GA_OK;
}

ga_status dist_choose(const dist_shape *shape, const dist_machine *machine, const char *devices, dist_choice *out) {
  const search s = {shape, machine, devices};
  choice_of_method best = {.tried = 0}, m;
  dist_candidate next = {.name = NULL};
  const char *name;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) {
    if (!fits_devices(&s, name)) continue;
    GA_TRY(try_method(&s, name, &m));
    if (!m.best.name) continue;
    if (!best.best.name || beats(&m.best, &best.best)) {
      next = best.best;
      best = m;
    } else if (!next.name || beats(&m.best, &next)) {
      next = m.best;
    }
  }
  GA_REQUIRE(best.best.name, GA_ERR_SHAPE, "no method fits this shape");
  *out = (dist_choice){.best = best.best, .own = best.own, .next = next, .tried = best.tried};
  if (next.name) out->reason = reason_of(machine, &best.best, &next);
  return GA_OK;
}
