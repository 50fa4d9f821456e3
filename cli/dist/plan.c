/* ga dist plan: who computes what and when, bytes and memory. */
#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"
#include "verify/dist/dist.h"

#define MOST_DRAWN_RANKS  16
#define MOST_DRAWN_STAGES 12

const char *dist_move_name(int32_t move) {
  static const char *const names[] = {"none", "relay", "direct", "bulk"};
  return move >= 0 && move < (int32_t)COUNT_OF(names) ? names[move] : "unknown";
}

ga_status dist_summarise(const ga_dist_plan *plan, dist_summary *s) {
  *s = (dist_summary){0};
  const int32_t ranks = ga_dist_plan_ranks(plan), stages = ga_dist_plan_stages(plan);
  for (int32_t r = 0; r < ranks; r++) {
    ga_dist_cost c = GA_DIST_COST_INIT;
    TRY(ga_dist_plan_cost(plan, r, &c));
    s->pairs += c.pairs, s->sent += c.sent_bytes, s->steps += c.steps;
    if (c.pairs > s->most_pairs) s->most_pairs = c.pairs;
    if (c.received_bytes > s->most_received) s->most_received = c.received_bytes;
    if (c.memory_bytes > s->most_memory) s->most_memory = c.memory_bytes;
    if (c.message_bytes > s->most_message) s->most_message = c.message_bytes;
  }
  double slowest = 0;
  for (int32_t t = 0; t < stages; t++) {
    int64_t most = 0;
    for (int32_t r = 0; r < ranks; r++) {
      ga_dist_stage x = GA_DIST_STAGE_INIT;
      TRY(ga_dist_plan_stage(plan, r, t, &x));
      if (x.pairs > most) most = x.pairs;
    }
    slowest += (double)most;
  }
  const double mean = (double)s->pairs / ranks;
  s->rank_balance = s->most_pairs ? mean / (double)s->most_pairs : 1;
  s->stage_balance = slowest > 0 ? mean / slowest : 1;
  return GA_OK;
}

/* 1.5 MB, in 8 characters. */
static const char *short_bytes(int64_t bytes, char text[16]) {
  const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
  double x = (double)bytes;
  size_t u = 0;
  for (; x >= 999.5 && u + 1 < COUNT_OF(units); u++) x /= 1000;
  (void)snprintf(text, 16, x < 10 && u ? "%.2f %s" : x < 100 && u ? "%.1f %s" : "%.0f %s", x, units[u]);
  return text;
}

static void print_owner(char kind, int32_t owner, char text[16]) {
  if (owner == -2)
    (void)snprintf(text, 16, "%c*", kind);
  else
    (void)snprintf(text, 16, "%c%d", kind, owner);
}

/* "q0 k3 50%": whose queries by whose keys, and how much work of the busiest rank and stage it is. */
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
    (void)snprintf(cell, sizeof cell, "%s>*", short_bytes(x.sent_bytes, size));
  else if (x.send_to >= 0)
    (void)snprintf(cell, sizeof cell, "%s>%d", short_bytes(x.sent_bytes, size), x.send_to);
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
           short_bytes(x.sent_bytes, a), short_bytes(x.received_bytes, b), short_bytes(x.memory_bytes, c),
           short_bytes(x.device_bytes, d), (long long)(x.sends + x.receives));
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
  printf("; queries %s, keys %s, results %s\n", dist_move_name(g->move_q), dist_move_name(g->move_kv),
         dist_move_name(d->flags & GA_DIST_BACKWARD ? g->move_dkv : g->move_out));
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
                                  "kv_inner", g->kv_inner, "need", g->need, "move_q", dist_move_name(g->move_q),
                                  "move_kv", dist_move_name(g->move_kv), "move_out", dist_move_name(g->move_out),
                                  "move_dkv", dist_move_name(g->move_dkv), "stage_balance", s.stage_balance,
                                  "rank_balance", s.rank_balance, "ranks", ranks),
                        JSON_INDENT(1));
}

static ga_status print_steps(const dist_args *a, const ga_dist_plan *plan) {
  char text[512];
  for (int64_t i = 0;; i++) {
    ga_dist_plan_step_text(plan, (int32_t)a->steps_of, i, text, sizeof text);
    if (!*text) return GA_OK;
    printf("%5lld  %s\n", (long long)i, text);
  }
}

ga_status dist_show_plan(const dist_args *a, const dist_task *t, const ga_dist_plan *plan) {
  ga_dist_grid g = GA_DIST_GRID_INIT;
  TRY(ga_dist_plan_grid(plan, &g));
  if (a->json) return print_plan_json(t, plan, &g);
  if (a->steps_of >= 0) return print_steps(a, plan);
  print_head(t, plan, &g);
  TRY(draw_stages(plan));
  return print_costs(plan);
}

/* --- times on a model of a machine --- */

/* As bench has it: 1 is a perfect split of one device's time. */
static double of_one_device(const dist_args *a, const ga_dist_times *t) {
  return t->seconds > 0 ? t->one_device / ((double)a->ranks * t->seconds) : 1;
}

ga_status dist_show_times(const dist_args *a, const ga_dist_plan *plan) {
  ga_dist_times t = GA_DIST_TIMES_INIT;
  TRY(dist_simulate(a, plan, &t));
  if (a->json)
    return cmd_print_json(json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "method", a->method,
                                    "seconds", t.seconds, "mean_busy", t.mean_busy, "most_busy", t.most_busy,
                                    "most_waiting", t.most_waiting, "efficiency", t.efficiency, "low", t.low, "middle",
                                    t.middle, "high", t.high, "of_one_device", of_one_device(a, &t)),
                          JSON_INDENT(1));
  printf("%s: %.3f ms; a rank computes for %.3f ms on average, %.3f at most, and waits for %.3f at most\n"
         "%.1f %% of one device's time by %lld, by a model: %g TFLOP/s, %g GB/s a way, %g us a transfer, %g us a "
         "tile\n",
         a->method, 1e3 * t.seconds, 1e3 * t.mean_busy, 1e3 * t.most_busy, 1e3 * t.most_waiting,
         100 * of_one_device(a, &t), (long long)a->ranks, a->tflops, a->gbytes, a->latency, a->launch);
  if (a->rates) printf("rates of %s in the place of these, where it has them\n", a->rates);
  if (a->jitter > 0 || a->spread > 0 || a->link_spread > 0)
    printf("with jitter %g %%, GPUs %g %%, links %g %%: %.3f ms, nine in ten runs from %.3f to %.3f\n", a->jitter,
           a->spread, a->link_spread, 1e3 * t.middle, 1e3 * t.low, 1e3 * t.high);
  return GA_OK;
}

/* --- all methods side by side --- */

static ga_status show_method(const dist_args *a, const char *name, bool with_times, json_t *list) {
  dist_task t;
  ga_dist_plan *plan = NULL;
  ga_dist_grid g = GA_DIST_GRID_INIT;
  ga_dist_times time = GA_DIST_TIMES_INIT;
  dist_summary s = {0};
  char grid[48], x[16], y[16], z[16];
  ga_status status = dist_begin(a, name, &t);
  if (status == GA_OK) status = ga_dist_plan_create(&t.desc, &plan);
  const bool refused = status != GA_OK && (status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED);
  if (status == GA_OK) status = ga_dist_plan_verify(plan, NULL);
  if (status == GA_OK) status = ga_dist_plan_grid(plan, &g);
  if (status == GA_OK) status = dist_summarise(plan, &s);
  if (status == GA_OK && with_times) status = dist_simulate(a, plan, &time);
  (void)snprintf(grid, sizeof grid, "%dx%dx%d", g.heads, g.q, g.kv);
  if (refused) {
    status = GA_OK;
    if (a->json)
      (void)json_array_append_new(list, json_pack("{s:s, s:s}", "method", name, "refused", ga_error_text()));
    else
      printf("%-14s refused: %s\n", name, ga_error_text());
  } else if (status == GA_OK && a->json) {
    (void)json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:f, s:I, s:I, s:I, s:b}", "method", name, "grid",
                                                grid, "stages", ga_dist_plan_stages(plan), "stage_balance",
                                                s.stage_balance, "sent_bytes", (json_int_t)s.sent,
                                                "most_received_bytes", (json_int_t)s.most_received, "most_memory_bytes",
                                                (json_int_t)s.most_memory, "verified", 1));
    if (with_times)
      (void)json_object_set_new(json_array_get(list, json_array_size(list) - 1), "seconds", json_real(time.seconds));
  } else if (status == GA_OK) {
    printf("%-14s %-9s %6d %7.1f %% %12s %12s %12s", name, grid, ga_dist_plan_stages(plan), 100 * s.stage_balance,
           short_bytes(s.sent / ga_dist_plan_ranks(plan), x), short_bytes(s.most_received, y),
           short_bytes(s.most_memory, z));
    if (with_times) printf(" %10.3f ms %6.1f %%", 1e3 * time.seconds, 100 * of_one_device(a, &time));
    printf("\n");
  }
  ga_dist_plan_destroy(plan);
  dist_end(&t);
  return status;
}

ga_status dist_show_all(const dist_args *a, bool with_times) {
  json_t *list = a->json ? json_array() : NULL;
  ga_status status = GA_OK;
  if (!a->json)
    printf("%-14s %-9s %6s %9s %12s %12s %12s%s\n", "method", "grid", "stages", "balance", "sent, mean", "received",
           "memory", with_times ? "     simulated of one" : "");
  const char *name;
  for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL && status == GA_OK; i++)
    status = show_method(a, name, with_times, list);
  if (status == GA_OK && a->json) return cmd_print_json(list, JSON_INDENT(1));
  json_decref(list);
  if (status == GA_OK)
    printf(
        "all verified; balance: work by what the slowest rank of each stage leaves; bytes of a rank, the last two at "
        "most\n");
  return status;
}
