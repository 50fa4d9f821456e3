/* ga dist plan: draw a plan: which rank computes what and when, bytes sent, memory. */
#include "cli/dist/figures.h"
#include "cli/dist/verb.h"
#include "cli/dist/view.h"
#include "cmdline/error.h"
#include "verify/dist/ranks.h"
#include "verify/dist/summary.h"

#define MOST_DRAWN_RANKS  16
#define MOST_DRAWN_STAGES 12

typedef struct plan_options {
  dist_view view;
  int64_t steps_of; /* the rank whose steps are printed; -1 = none */
} plan_options;
static plan_options asked = {.view = DIST_VIEW_INIT, .steps_of = -1};

static const cmd_option options[] = {
    DIST_VIEW_OPTIONS(asked.view),
    DIST_INT("steps", asked.steps_of, -1, 4095, "RANK", "print the steps of this rank; -1 = none"),
    DIST_JSON_OPTION(asked.view.json)};

static const char *move_name(int32_t move) {
  static const char *const names[] = {"none", "relay", "direct", "bulk"};
  return move >= 0 && move < (int32_t)COUNT_OF(names) ? names[move] : "unknown";
}

static void print_owner(char kind, int32_t owner, char text[16]) {
  if (owner == -2)
    (void)snprintf(text, 16, "%c*", kind);
  else
    (void)snprintf(text, 16, "%c%d", kind, owner);
}

/* Draws "q0 k3 50%": queries of rank 0 by keys of rank 3, half the work of the busiest rank and stage. */
static ga_status draw_cell(const ga_dist_plan *plan, int32_t rank, int32_t stage, int64_t most) {
  ga_dist_stage x = GA_DIST_STAGE_INIT;
  char q[16], k[16], cell[48];
  TRY(ga_dist_plan_stage(plan, rank, stage, &x));
  print_owner('q', x.q_owner, q);
  print_owner('k', x.kv_owner, k);
  (void)snprintf(cell, sizeof cell, "%s %s %.0f%%", q, k, 100 * (double)x.pairs / (double)(most ? most : 1));
  printf(" %-13s", x.tiles ? cell : "-");
  return GA_OK;
}

static ga_status draw_links(const ga_dist_plan *plan, int32_t rank, int32_t stage) {
  ga_dist_stage x = GA_DIST_STAGE_INIT;
  char size[16], cell[48] = "";
  TRY(ga_dist_plan_stage(plan, rank, stage, &x));
  if (x.send_to == -2)
    (void)snprintf(cell, sizeof cell, "%s>*", dist_short_bytes(x.sent_bytes, size));
  else if (x.send_to >= 0)
    (void)snprintf(cell, sizeof cell, "%s>%d", dist_short_bytes(x.sent_bytes, size), x.send_to);
  printf(" %-13s", cell);
  return GA_OK;
}

static ga_status draw_stages(const ga_dist_plan *plan) {
  const int32_t ranks = ga_dist_plan_ranks(plan), stages = ga_dist_plan_stages(plan);
  const int32_t shown_ranks = ranks < MOST_DRAWN_RANKS ? ranks : MOST_DRAWN_RANKS;
  const int32_t shown = stages < MOST_DRAWN_STAGES ? stages : MOST_DRAWN_STAGES;
  int64_t most = 0;
  for (int32_t t = 0; t < stages; t++)
    for (int32_t r = 0; r < ranks; r++) {
      ga_dist_stage x = GA_DIST_STAGE_INIT;
      TRY(ga_dist_plan_stage(plan, r, t, &x));
      if (x.pairs > most) most = x.pairs;
    }
  printf("\nstage  ");
  for (int32_t t = 0; t < shown; t++) printf(" %-13d", t);
  printf("%s\n", shown < stages ? "..." : "");
  for (int32_t r = 0; r < shown_ranks; r++) {
    printf("rank %-2d", r);
    for (int32_t t = 0; t < shown; t++) TRY(draw_cell(plan, r, t, most));
    printf("\n       ");
    for (int32_t t = 0; t < shown; t++) TRY(draw_links(plan, r, t));
    printf("\n");
  }
  if (shown_ranks < ranks) printf("... %d more ranks\n", ranks - shown_ranks);
  printf("q0 k3 50%%: queries of rank 0 by keys of rank 3, half as much as the most of any; *: of several ranks\n"
         "1.5 MB>2: what is sent to rank 2 at the beginning of the stage, while the tiles are computed\n");
  return GA_OK;
}

static ga_status print_costs(const ga_dist_plan *plan) {
  char a[16], b[16], c[16], d[16];
  printf("\n%-6s %10s %12s %12s %12s %12s %9s\n", "rank", "work", "sends", "receives", "memory", "on a GPU",
         "messages");
  dist_summary s;
  TRY(dist_summarise(plan, &s));
  const int32_t ranks = ga_dist_plan_ranks(plan);
  for (int32_t r = 0; r < ranks && r < MOST_DRAWN_RANKS; r++) {
    ga_dist_cost x = GA_DIST_COST_INIT;
    TRY(ga_dist_plan_cost(plan, r, &x));
    printf("%-6d %9.1f%% %12s %12s %12s %12s %9lld\n", r, s.pairs ? 100 * (double)x.pairs / (double)s.pairs : 0,
           dist_short_bytes(x.sent_bytes, a), dist_short_bytes(x.received_bytes, b),
           dist_short_bytes(x.memory_bytes, c), dist_short_bytes(x.device_bytes, d), (long long)(x.sends + x.receives));
  }
  printf("\nbalance %.1f %% of perfect, stage by stage (%.1f %% over the whole run)\n", 100 * s.stage_balance,
         100 * s.rank_balance);
  return GA_OK;
}

static void print_head(const dist_task *t, const ga_dist_plan *plan, const ga_dist_grid *g) {
  const ga_dist_desc *d = &t->desc;
  printf("%s, %s: %s\n", d->method, d->flags & GA_DIST_BACKWARD ? "backward" : "forward",
         ga_dist_method_text(d->method));
  printf("  %d ranks as %d x %d x %d (heads x queries x keys)", ga_dist_plan_ranks(plan), g->heads, g->q, g->kv);
  if (g->kv_inner != g->kv) printf(", rings of %d", g->kv_inner);
  printf("; queries %s, keys %s, results %s\n", move_name(g->move_q), move_name(g->move_kv),
         move_name(d->flags & GA_DIST_BACKWARD ? g->move_dkv : g->move_out));
  printf("  %lld queries, %lld keys, %d document%s; heads %d / %d of %d; %s",
         (long long)ga_dist_layout_tokens(t->q, -1), (long long)ga_dist_layout_tokens(t->kv, -1), t->documents,
         t->documents == 1 ? "" : "s", d->q_heads, d->kv_heads, d->head_dim,
         d->flags & GA_DIST_CAUSAL ? "causal" : "full");
  if (d->window) printf(", window %lld", (long long)d->window);
  printf("\n  plan %016llx, layout %016llx, %d stages\n", (unsigned long long)ga_dist_plan_hash(plan),
         (unsigned long long)ga_dist_layout_id(t->q), ga_dist_plan_stages(plan));
}

static json_t *rank_json(const ga_dist_plan *plan, int32_t rank) {
  ga_dist_cost c = GA_DIST_COST_INIT;
  if (ga_dist_plan_cost(plan, rank, &c) != GA_OK) return NULL;
  json_t *stages = json_array();
  for (int32_t t = 0; t < ga_dist_plan_stages(plan); t++) {
    ga_dist_stage x = GA_DIST_STAGE_INIT;
    if (ga_dist_plan_stage(plan, rank, t, &x) != GA_OK) continue;
    (void)json_array_append_new(stages,
                                json_pack("{s:I, s:I, s:I, s:I, s:i, s:i}", "tiles", (json_int_t)x.tiles, "pairs",
                                          (json_int_t)x.pairs, "sent_bytes", (json_int_t)x.sent_bytes, "received_bytes",
                                          (json_int_t)x.received_bytes, "q_owner", x.q_owner, "kv_owner", x.kv_owner));
  }
  return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "rank", rank, "steps", (json_int_t)c.steps, "pairs",
                   (json_int_t)c.pairs, "sent_bytes", (json_int_t)c.sent_bytes, "received_bytes",
                   (json_int_t)c.received_bytes, "memory_bytes", (json_int_t)c.memory_bytes, "device_bytes",
                   (json_int_t)c.device_bytes, "stages", stages);
}

static ga_status print_plan_json(const dist_task *t, const ga_dist_plan *plan, const ga_dist_grid *g) {
  char hash[32], layout[32];
  dist_summary s;
  TRY(dist_summarise(plan, &s));
  (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)ga_dist_plan_hash(plan));
  (void)snprintf(layout, sizeof layout, "%016llx", (unsigned long long)ga_dist_layout_id(t->q));
  json_t *ranks = json_array();
  for (int32_t r = 0; r < ga_dist_plan_ranks(plan); r++) (void)json_array_append_new(ranks, rank_json(plan, r));
  return cmd_print_json(json_pack("{s:s, s:s, s:s, s:[i,i,i], s:i, s:i, s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "method",
                                  t->desc.method, "plan", hash, "layout", layout, "grid", g->heads, g->q, g->kv,
                                  "kv_inner", g->kv_inner, "need", g->need, "move_q", move_name(g->move_q), "move_kv",
                                  move_name(g->move_kv), "move_out", move_name(g->move_out), "move_dkv",
                                  move_name(g->move_dkv), "stage_balance", s.stage_balance, "rank_balance",
                                  s.rank_balance, "ranks", ranks),
                        JSON_INDENT(1));
}

static ga_status print_steps(const ga_dist_plan *plan) {
  char text[512];
  for (int64_t i = 0;; i++) {
    ga_dist_plan_step_text(plan, (int32_t)asked.steps_of, i, text, sizeof text);
    if (!*text) return GA_OK;
    printf("%5lld  %s\n", (long long)i, text);
  }
}

static ga_status show_plan(const dist_task *t, const ga_dist_plan *plan) {
  ga_dist_grid g = GA_DIST_GRID_INIT;
  TRY(ga_dist_plan_grid(plan, &g));
  if (asked.view.json) return print_plan_json(t, plan, &g);
  if (asked.steps_of >= 0) return print_steps(plan);
  print_head(t, plan, &g);
  TRY(draw_stages(plan));
  return print_costs(plan);
}

static int plan_main(char **args) {
  (void)args;
  int64_t *ranks = &asked.view.shape.ranks;
  if (!*ranks) *ranks = DIST_DEFAULT_RANKS;
  if (asked.steps_of < *ranks) return dist_view_plan("plan", &asked.view, false, false, show_plan);
  (void)ga_error_set(GA_ERR_ARG, "--steps %lld: must be a rank, 0 to %lld", (long long)asked.steps_of,
                     (long long)*ranks - 1);
  return dist_usage_error("plan");
}

const dist_verb dist_verb_plan = {.name = "plan",
                                  .summary = "draw a plan: which rank computes what and when, bytes sent, memory",
                                  .options = options,
                                  .n_options = COUNT_OF(options),
                                  .run = plan_main};
