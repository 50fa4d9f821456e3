#include "cli/dist/view.h"

#include <string.h>

#include "cli/dist/all.h"
#include "cli/dist/auto.h"
#include "cli/dist/verb.h"
#include "cmdline/error.h"
#include "verify/dist/devices.h"

static ga_status check_view(dist_view *v, bool quiet) {
  TRY(dist_check_shape(&v->shape));
  TRY(dist_check_method(v->shape.method));
  TRY(dist_check_devices(v->device));
  return dist_resolve_auto(&v->shape, &v->machine, v->device, quiet || v->json);
}

static int make_and_show(const char *verb, const dist_view *v, bool with_times,
                         ga_status (*show)(const dist_task *, const ga_dist_plan *)) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  const bool all = !strcmp(v->shape.method, "all");
  ga_status status = dist_begin(&v->shape, NULL, &t);
  if (status == GA_OK && !all) status = ga_dist_plan_create(&t.desc, &plan);
  const bool is_usage = status == GA_ERR_ARG || status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK)
    status = all ? dist_show_all(&v->shape, with_times ? &v->machine : NULL, v->json) : show(&t, plan);
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  return is_usage ? dist_usage_error(verb) : status == GA_OK ? EXIT_OK : cmd_fail("dist");
}

int dist_view_plan(const char *verb, dist_view *v, bool quiet, bool with_times,
                   ga_status (*show)(const dist_task *, const ga_dist_plan *)) {
  const int code = check_view(v, quiet) == GA_OK ? make_and_show(verb, v, with_times, show) : dist_usage_error(verb);
  dist_machine_close(&v->machine);
  return code;
}
