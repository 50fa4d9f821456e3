/* ga dist -m auto: the method, and its parameters, whose plan is fastest on a model of the machine.
 *
 * What the command line says is kept. Groups of heads are not searched: the model does not know what short calls of few
 * heads lose, and the builder's rule does (measured, gather.c). */
#include <string.h>

#include "cmdline/error.h"
#include "verify/dist/dist.h"

/* What the grid of a method leaves open. Of other methods nothing is. */
typedef enum choice { CHOICE_Q, CHOICE_HEADS, CHOICE_INNER } choice;
static const struct {
  const char *name;
  choice open;
} searched[] = {{"mesh", CHOICE_Q},
                {"wallfacer", CHOICE_Q},
                {"attention2d", CHOICE_Q},
                {"usp", CHOICE_HEADS},
                {"double-ring", CHOICE_INNER}};

typedef struct candidate {
  const char *name;
  char grid[48]; /* "" = the method's own */
  int64_t inner; /* 0 = the same */
  ga_dist_times times;
  int64_t sent; /* bytes of all ranks */
} candidate;

/* Those that do not fit the shape are left out: found says which do. */
static ga_status try_candidate(const dist_args *given, candidate *c, bool *found) {
  dist_args a = *given;
  dist_task t;
  ga_dist_plan *plan = NULL;
  dist_summary s = {0};
  c->times = (ga_dist_times)GA_DIST_TIMES_INIT;
  if (*c->grid) a.grid = c->grid;
  if (c->inner) a.inner = c->inner;
  ga_status status = dist_begin(&a, c->name, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  const bool refused = status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK) status = dist_simulate(&a, plan, &c->times);
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
  if (less <= 1e-3 * next->times.seconds)
    return best->sent < next->sent ? "it sends fewer bytes in the same time"
                                   : "none is faster; it is the first of these";
  if (next->times.most_busy - best->times.most_busy > less / 2)
    return best->times.mean_busy >= 0.99 * next->times.mean_busy ? "its ranks have equal work"
           : a->merged_tflops > 0                                ? "its calls are faster: no result is merged"
                                                                 : "it has fewer tiles";
  return "its ranks wait less";
}

static void print_candidate(const char *head, const candidate *c, int64_t ranks) {
  char name[96];
  (void)snprintf(name, sizeof name,
                 *c->grid   ? "%s %s"
                 : c->inner ? "%s, rings of %s%lld"
                            : "%s%s",
                 c->name, c->grid, (long long)c->inner);
  printf("%s%-16s %9.3f ms: computes for %.3f, waits for %.3f; sends %.1f MB a rank\n", head, name,
         1e3 * c->times.seconds, 1e3 * c->times.most_busy, 1e3 * c->times.most_waiting,
         (double)c->sent * 1e-6 / (double)ranks);
}

/* The fastest of each method, with what was tried. */
typedef struct choice_of_method {
  candidate best, own; /* own: as the method says */
  int tried;
} choice_of_method;

static ga_status try_one(const dist_args *a, candidate c, choice_of_method *m) {
  bool found;
  TRY(try_candidate(a, &c, &found));
  if (!found) return GA_OK;
  m->tried++;
  if (!*c.grid && !c.inner) m->own = c;
  if (!m->best.name || beats(&c, &m->best)) m->best = c;
  return GA_OK;
}

/* Each cut of the ranks in two, unless the command line has one; what is not cut is another method. */
static ga_status try_method(const dist_args *a, const char *name, choice_of_method *m) {
  *m = (choice_of_method){.tried = 0};
  TRY(try_one(a, (candidate){.name = name}, m));
  for (size_t i = 0; i < COUNT_OF(searched); i++) {
    const choice open = searched[i].open;
    if (strcmp(searched[i].name, name) != 0 || a->grid || a->inner) continue;
    for (int64_t n = 2; n < a->ranks; n++) {
      const long long part = n, rest = a->ranks / n;
      candidate c = {.name = name};
      if (a->ranks % n != 0) continue;
      if (open == CHOICE_Q) (void)snprintf(c.grid, sizeof c.grid, "1x%lldx%lld", part, rest);
      if (open == CHOICE_HEADS) (void)snprintf(c.grid, sizeof c.grid, "%lldx1x%lld", part, rest);
      if (open == CHOICE_INNER) c.inner = n;
      TRY(try_one(a, c, m));
    }
  }
  return GA_OK;
}

static void say_why(const dist_args *a, const choice_of_method *best, const candidate *next) {
  print_candidate("auto: ", &best->best, a->ranks);
  if (next->name) {
    print_candidate("next: ", next, a->ranks);
    printf("%s is chosen: %s\n", best->best.name, reason(a, &best->best, next));
  }
  if (*best->best.grid || best->best.inner)
    printf("of %d grids of %s; its own takes %.3f ms\n", best->tried, best->best.name, 1e3 * best->own.times.seconds);
  printf("\n");
}

ga_status dist_choose(dist_args *a, bool quiet) {
  choice_of_method best = {.tried = 0}, m;
  candidate next = {.name = NULL};
  const char *name;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) {
    if (!fits_devices(a, name)) continue;
    TRY(try_method(a, name, &m));
    if (!m.best.name) continue;
    if (!best.best.name || beats(&m.best, &best.best)) {
      next = best.best;
      best = m;
    } else if (!next.name || beats(&m.best, &next)) {
      next = m.best;
    }
  }
  REQUIRE(best.best.name, GA_ERR_SHAPE, "no method fits this shape");
  a->method = best.best.name;
  if (best.best.inner) a->inner = best.best.inner;
  if (*best.best.grid) {
    (void)snprintf(a->grid_text, sizeof a->grid_text, "%s", best.best.grid);
    a->grid = a->grid_text;
  }
  if (!quiet && !a->json) say_why(a, &best, &next);
  return GA_OK;
}
