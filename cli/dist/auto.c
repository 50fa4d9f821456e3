#include "cli/dist/auto.h"

#include <stdio.h>
#include <string.h>

#include "cmdline/error.h"
#include "verify/dist/choose.h"
#include "verify/dist/devices.h"

ga_status dist_check_method(const char *method) {
  if (!strcmp(method, "all") || !strcmp(method, "auto") || ga_dist_method_text(method)) return GA_OK;
  (void)fprintf(stderr, "ga dist: methods are");
  for (size_t i = 0; ga_dist_method_name(i); i++) (void)fprintf(stderr, " %s", ga_dist_method_name(i));
  (void)fprintf(stderr, "\n");
  return ga_error_set(GA_ERR_ARG, "--method '%.100s' is none of these", method);
}

static void print_candidate(const char *head, const dist_candidate *c, int64_t ranks) {
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

static void print_choice(const dist_choice *c, int64_t ranks) {
  print_candidate("auto: ", &c->best, ranks);
  if (c->next.name) {
    print_candidate("next: ", &c->next, ranks);
    printf("%s is chosen: %s\n", c->best.name, c->reason);
  }
  if (*c->best.grid || c->best.inner)
    printf("of %d grids of %s; its own takes %.3f ms\n", c->tried, c->best.name, 1e3 * c->own.times.seconds);
  printf("\n");
}

ga_status dist_resolve_auto(dist_shape *s, dist_machine *m, const char *devices, bool quiet) {
  static dist_choice c; /* the shape points to its grid */
  TRY(dist_machine_open(m, !dist_is_on_host(devices), s->unordered));
  if (strcmp(s->method, "auto") != 0) return GA_OK;
  TRY(dist_choose(s, m, devices, &c));
  s->method = c.best.name;
  if (c.best.inner) s->inner = c.best.inner;
  if (*c.best.grid) s->grid = c.best.grid;
  if (!quiet) print_choice(&c, s->ranks);
  return GA_OK;
}
