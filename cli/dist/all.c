#include "cli/dist/all.h"

#include <stdio.h>

#include "cli/dist/figures.h"
#include "cmdline/cmd.h"
#include "cmdline/error.h"
#include "verify/dist/summary.h"

/* Figures of one method's plan. */
typedef struct method_figures {
  const char *name;
  int64_t ranks;
  int32_t stages;
  ga_dist_grid grid;
  dist_summary sum;
  ga_dist_times times;
  bool with_times;
} method_figures;

static ga_status plan_figures(const ga_dist_plan *plan, const dist_machine *machine, method_figures *f) {
  f->ranks = ga_dist_plan_ranks(plan), f->stages = ga_dist_plan_stages(plan);
  TRY(ga_dist_plan_verify(plan, NULL));
  TRY(ga_dist_plan_grid(plan, &f->grid));
  TRY(dist_summarise(plan, &f->sum));
  return machine ? dist_simulate(machine, plan, &f->times) : GA_OK;
}

/* Plans one method. *refused is set where it does not fit the shape; the error text has the reason. */
static ga_status find_figures(const dist_shape *s, const char *name, const dist_machine *machine, method_figures *f,
                              bool *refused) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  *f = (method_figures){
      .name = name, .grid = GA_DIST_GRID_INIT, .times = GA_DIST_TIMES_INIT, .with_times = machine != NULL};
  ga_status status = dist_begin(s, name, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  *refused = status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED;
  if (status == GA_OK) status = plan_figures(plan, machine, f);
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  return *refused ? GA_OK : status;
}

static json_t *json_of_figures(const method_figures *f) {
  char grid[48];
  (void)snprintf(grid, sizeof grid, "%dx%dx%d", f->grid.heads, f->grid.q, f->grid.kv);
  json_t *row =
      json_pack("{s:s, s:s, s:i, s:f, s:I, s:I, s:I, s:b}", "method", f->name, "grid", grid, "stages", f->stages,
                "stage_balance", f->sum.stage_balance, "sent_bytes", (json_int_t)f->sum.sent, "most_received_bytes",
                (json_int_t)f->sum.most_received, "most_memory_bytes", (json_int_t)f->sum.most_memory, "verified", 1);
  if (f->with_times) (void)json_object_set_new(row, "seconds", json_real(f->times.seconds));
  return row;
}

static void print_figures(const method_figures *f) {
  char grid[48], x[16], y[16], z[16];
  (void)snprintf(grid, sizeof grid, "%dx%dx%d", f->grid.heads, f->grid.q, f->grid.kv);
  printf("%-14s %-9s %6d %7.1f %% %12s %12s %12s", f->name, grid, f->stages, 100 * f->sum.stage_balance,
         dist_short_bytes(f->sum.sent / f->ranks, x), dist_short_bytes(f->sum.most_received, y),
         dist_short_bytes(f->sum.most_memory, z));
  if (f->with_times)
    printf(" %10.3f ms %6.1f %%", 1e3 * f->times.seconds, 100 * dist_of_one_device(&f->times, f->ranks));
  printf("\n");
}

/* Prints the method on a line, or adds an object to list where that is not NULL. */
static ga_status show_method(const dist_shape *s, const char *name, const dist_machine *machine, json_t *list) {
  method_figures f;
  bool refused;
  TRY(find_figures(s, name, machine, &f, &refused));
  if (list && refused)
    (void)json_array_append_new(list, json_pack("{s:s, s:s}", "method", name, "refused", ga_error_text()));
  else if (refused)
    printf("%-14s refused: %s\n", name, ga_error_text());
  else if (list)
    (void)json_array_append_new(list, json_of_figures(&f));
  else
    print_figures(&f);
  return GA_OK;
}

ga_status dist_show_all(const dist_shape *s, const dist_machine *machine, bool json) {
  json_t *list = json ? json_array() : NULL;
  ga_status status = GA_OK;
  if (!json)
    printf("%-14s %-9s %6s %9s %12s %12s %12s%s\n", "method", "grid", "stages", "balance", "sent, mean", "received",
           "memory", machine ? "     simulated of one" : "");
  const char *name;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL && status == GA_OK; i++)
    status = show_method(s, name, machine, list);
  if (status == GA_OK && json) return cmd_print_json(list, JSON_INDENT(1));
  json_decref(list);
  if (status == GA_OK)
    printf("all verified; balance: work by what the slowest rank of each stage leaves; bytes of a rank, the last two "
           "at most\n");
  return status;
}
