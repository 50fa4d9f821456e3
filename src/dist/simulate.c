/* Plays a plan on a model of a machine: how long its ranks compute, and how long they wait.
 *
 * A rank does its steps in their order. A tile takes its arithmetic at the rank's rate and a launch; on GPUs also what
 * partial results take of the memory (simulate_cost.c). A transfer begins when both sides have posted it and the
 * sender's way out and the receiver's way in are free. It takes a latency and its bytes at the rate of a link. A way is
 * used by one transfer at a time, in the order in which they can begin.
 *
 * On GPUs a plan that gathers keys has no such tiles (gather.h): simulate_gather.c. */
#include "dist/simulate.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/sized.h"
#include "dist/gather.h"

enum { DRAWS = 200 };

/* Steps before `at` that fill or use the slot: the last one's transfer; -1 when it is none. */
static int64_t filling(const simulation *s, int32_t rank, int64_t at, int32_t slot) {
  const dist_program *g = &s->plan->programs[rank];
  for (int64_t i = at - 1; i >= 0; i--)
    if (g->steps[i].kind == DIST_RECEIVE && g->steps[i].slot == slot) return s->ranks[rank].transfer[i];
  return -1;
}

/* When all sends out of the slot since it was filled are done; -1 = not known yet. */
static double sends_end(const simulation *s, int32_t rank, int64_t at, int32_t slot) {
  const dist_program *g = &s->plan->programs[rank];
  double end = 0;
  for (int64_t i = at - 1; i >= 0; i--) {
    const dist_step *x = &g->steps[i];
    if (x->slot == slot && (x->kind == DIST_RECEIVE || x->kind == DIST_OPEN)) break;
    if (x->kind != DIST_SEND || x->slot != slot) continue;
    const double one = s->transfers[s->ranks[rank].transfer[i]].end;
    if (one < 0) return -1;
    end = one > end ? one : end;
  }
  return end;
}

static void post_transfer_at(simulation *s, int64_t number, bool send, double clock) {
  sim_transfer *t = &s->transfers[number];
  *(send ? &t->sent : &t->wanted) = clock;
  if (t->sent >= 0 && t->wanted >= 0) s->open[s->n_open++] = number;
}

/* Simulates one step, or tiles that are computed together. Returns false while it waits for a transfer whose end is not
 * known. */
static bool simulate_step(simulation *s, int32_t rank) {
  sim_rank *r = &s->ranks[rank];
  const dist_step *x = &s->plan->programs[rank].steps[r->at];
  const int64_t n = sim_steps_together(s, x, s->plan->programs[rank].n_steps - r->at);
  double end = r->clock;
  const bool computes = x->kind == DIST_TILE || x->kind == DIST_OPEN || x->kind == DIST_MERGE;
  switch (x->kind) {
  case DIST_SEND:
  case DIST_RECEIVE: post_transfer_at(s, r->transfer[r->at], x->kind == DIST_SEND, r->clock); break;
  case DIST_TILE: end += sim_disturbed(s, rank, sim_tiles_seconds(s, x, n)); break;
  case DIST_OPEN:
  case DIST_MERGE: end += sim_disturbed(s, rank, sim_pass_seconds(s, x)); break;
  case DIST_WAIT: {
    const int64_t t = filling(s, rank, r->at, x->slot);
    end = t < 0 ? r->clock : s->transfers[t].end;
    break;
  }
  case DIST_FREE: end = sends_end(s, rank, r->at, x->slot); break;
  default: break;
  }
  if (end < 0) return false;
  if (computes) r->busy += end - r->clock;
  if (end > r->clock) r->clock = end;
  r->at += n;
  return true;
}

static double start_of(const simulation *s, const sim_transfer *t) {
  double x = t->sent > t->wanted ? t->sent : t->wanted;
  if (s->ranks[t->from].way_out > x) x = s->ranks[t->from].way_out;
  if (s->ranks[t->to].way_in > x) x = s->ranks[t->to].way_in;
  return x;
}

/* Nothing that a waiting rank posts later can begin before the first of the open ones. */
static void run_first_transfer(simulation *s) {
  int64_t first = 0;
  for (int64_t i = 1; i < s->n_open; i++)
    if (start_of(s, &s->transfers[s->open[i]]) < start_of(s, &s->transfers[s->open[first]])) first = i;
  sim_transfer *t = &s->transfers[s->open[first]];
  t->end = start_of(s, t) + s->m->latency + sim_link_seconds(s, t->from, (double)t->bytes);
  s->ranks[t->from].way_out = s->ranks[t->to].way_in = t->end;
  s->open[first] = s->open[--s->n_open];
}

/* Numbers transfers: the k-th send from a rank to another is its k-th receive. */
static void number_transfers(simulation *s, int64_t *next) {
  const ga_dist_plan *plan = s->plan;
  const int32_t ranks = plan->p.ranks;
  int64_t *first = next + (int64_t)ranks * ranks; /* [from x ranks + to] */
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t r = 0; r < ranks; r++)
      for (int64_t i = 0; i < plan->programs[r].n_steps; i++) {
        const dist_step *x = &plan->programs[r].steps[i];
        if (x->kind == DIST_SEND && pass == 0) next[(int64_t)r * ranks + x->peer]++;
        if (pass == 0 || (x->kind != DIST_SEND && x->kind != DIST_RECEIVE)) continue;
        const bool send = x->kind == DIST_SEND;
        int64_t *count = send ? &next[(int64_t)r * ranks + x->peer] : &first[(int64_t)x->peer * ranks + r];
        const int64_t number = (*count)++;
        s->ranks[r].transfer[i] = number;
        s->transfers[number] = (sim_transfer){.from = send ? r : x->peer,
                                              .to = send ? x->peer : r,
                                              .bytes = x->bytes,
                                              .sent = -1,
                                              .wanted = -1,
                                              .end = -1};
      }
    for (int64_t i = 0, sum = 0; pass == 0 && i < (int64_t)ranks * ranks; i++) {
      const int64_t n = next[i];
      next[i] = first[i] = sum;
      sum += n;
    }
  }
}

static ga_status play_steps(simulation *s) {
  const int32_t ranks = s->plan->p.ranks;
  bool ended = false;
  while (!ended) {
    ended = true;
    for (int32_t r = 0; r < ranks; r++) {
      while (s->ranks[r].at < s->plan->programs[r].n_steps && simulate_step(s, r)) continue;
      ended = ended && s->ranks[r].at == s->plan->programs[r].n_steps;
    }
    GA_REQUIRE(ended || s->n_open, GA_ERR_STATE, "dist simulate: the plan does not end; ga_dist_plan_verify says why");
    if (!ended) run_first_transfer(s);
  }
  for (int32_t r = 0; r < ranks && sim_is_of_gpus(s->m); r++) {
    const double seconds = sim_rounding_seconds(s, r);
    s->ranks[r].clock += seconds, s->ranks[r].busy += seconds;
  }
  return GA_OK;
}

static void summarise_times(const simulation *s, ga_dist_times *out) {
  const int32_t ranks = s->plan->p.ranks;
  double busy = 0;
  *out = (ga_dist_times){.seconds = 0};
  for (int32_t r = 0; r < ranks; r++) {
    const sim_rank *x = &s->ranks[r];
    busy += x->busy;
    if (x->clock > out->seconds) out->seconds = x->clock;
    if (x->busy > out->most_busy) out->most_busy = x->busy;
    if (x->clock - x->busy > out->most_waiting) out->most_waiting = x->clock - x->busy;
  }
  out->mean_busy = busy / ranks;
  out->efficiency = out->seconds > 0 ? out->mean_busy / out->seconds : 1;
}

/* Once: from the beginning, with this draw's ranks. */
static ga_status play_once(simulation *s, bool disturbed, ga_dist_times *out) {
  const ga_dist_machine *m = s->m;
  for (int32_t r = 0; r < s->plan->p.ranks; r++) {
    sim_rank *x = &s->ranks[r];
    x->clock = x->busy = x->way_in = x->way_out = 0;
    x->at = 0;
    x->slower = sim_drawn_factor(&s->rng, disturbed ? m->spread : 0);
    x->link_slower = sim_drawn_factor(&s->rng, disturbed ? m->link_spread : 0);
  }
  for (int64_t i = 0; i < s->n; i++) s->transfers[i].sent = s->transfers[i].wanted = s->transfers[i].end = -1;
  s->n_open = 0;
  s->jitter = disturbed ? m->jitter : 0;
  GA_TRY(sim_is_of_gpus(m) && dist_is_plain(&s->plan->p) ? sim_play_gather(s) : play_steps(s));
  summarise_times(s, out);
  return GA_OK;
}

static int by_seconds(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static ga_status find_band(simulation *s, ga_dist_times *out) {
  const ga_dist_machine *m = s->m;
  const int32_t n = m->draws ? m->draws : DRAWS;
  void *p;
  out->low = out->middle = out->high = out->seconds;
  if (m->jitter <= 0 && m->spread <= 0 && m->link_spread <= 0) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(double), "draws", &p));
  double *const seconds = p;
  ga_status status = GA_OK;
  for (int32_t i = 0; i < n && status == GA_OK; i++) {
    ga_dist_times one = {0};
    status = play_once(s, true, &one);
    seconds[i] = one.seconds;
  }
  qsort(seconds, (size_t)n, sizeof *seconds, by_seconds);
  out->low = seconds[n / 20], out->middle = seconds[n / 2], out->high = seconds[n - 1 - n / 20];
  ga_mem_free(p);
  return status;
}

ga_status ga_dist_plan_simulate(const ga_dist_plan *plan, const ga_dist_machine *machine, ga_dist_times *times) {
  GA_REQUIRE(plan, GA_ERR_ARG, "dist simulate: plan is null");
  ga_dist_machine m;
  GA_TRY(GA_SIZED_TAKE("dist simulate: machine", ga_dist_machine, machine, &m));
  GA_TRY(sim_check_machine(&m));
  GA_TRY(ga_sized_check_out("dist simulate: times", times, ga_dist_times_first));
  simulation s = {.plan = plan, .m = &m};
  const size_t ranks = (size_t)plan->p.ranks;
  size_t steps = 0;
  for (size_t r = 0; r < ranks; r++) steps += (size_t)plan->programs[r].n_steps;
  void *rank_memory = NULL, *numbers = NULL, *transfers = NULL, *open = NULL, *pairs = NULL;
  ga_dist_times found = {0};
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc(ranks, sizeof *s.ranks, "ranks", &rank_memory));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof(int64_t), "steps", &numbers));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof *s.transfers, "transfers", &transfers));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof *s.open, "transfers", &open));
  GA_TRY_OUT(ga_mem_zalloc(2 * ranks * ranks, sizeof(int64_t), "links", &pairs));
  s.ranks = rank_memory, s.transfers = transfers, s.open = open;
  s.n = (int64_t)steps;
  int64_t *at = numbers;
  for (size_t r = 0; r < ranks; r++) {
    s.ranks[r].transfer = at;
    at += plan->programs[r].n_steps;
  }
  number_transfers(&s, pairs);
  sim_find_means(&s);
  ga_rng_seed(&s.rng, m.seed);
  GA_TRY_OUT(play_once(&s, false, &found));
  found.one_device = sim_one_device_seconds(&s);
  status = find_band(&s, &found);
  if (status == GA_OK) ga_sized_give(&found, sizeof found, times);
out:
  ga_mem_free(rank_memory);
  ga_mem_free(numbers);
  ga_mem_free(transfers);
  ga_mem_free(open);
  ga_mem_free(pairs);
  return status;
}
