/* Plays a plan on a model of a machine: how long its ranks compute, and how long they wait.
 *
 * A rank does its steps in their order. A tile takes its arithmetic at the rank's rate and a launch. A transfer begins
 * when both sides have posted it and the sender's way out and the receiver's way in are free. It takes a latency and
 * its bytes at the rate of a link. A way is used by one transfer at a time, in the order in which they can begin.
 *
 * On GPUs a plan that gathers keys has no such tiles (gather.h): play_gather has the schedule of device_gather.c.
 */
#include "base/mem.h"
#include "base/sized.h"
#include "dist/gather.h"

typedef struct sim_transfer {
  int32_t from, to;
  int64_t bytes;
  double sent, wanted, end; /* when posted, when done; -1 = not yet */
} sim_transfer;

typedef struct sim_rank {
  double clock, busy, way_in, way_out;
  int64_t at;
  int64_t *transfer; /* [steps] of a SEND or RECEIVE: its number */
} sim_rank;

typedef struct simulation {
  const ga_dist_plan *plan;
  const ga_dist_machine *m;
  sim_rank *ranks;
  sim_transfer *transfers;
  int64_t n, *open; /* open: those posted by both sides and not yet done */
  int64_t n_open;
} simulation;

static double tile_seconds(const simulation *s, const dist_step *t) {
  const dist_problem *p = &s->plan->p;
  const double pairs = (double)dist_pairs(p, dist_stretch_at(p->q, t->q_owner, t->q_stretch),
                                          dist_stretch_at(p->kv, t->kv_owner, t->k_stretch)) *
                       t->heads;
  /* Forward Q K^T and P V; backward these gradients: 5 products in place of 2 (arXiv 2307.08691). */
  const double products = p->flags & GA_DIST_BACKWARD ? 2.5 : 1;
  const bool merges = s->m->merged_flops > 0 && !dist_gathers(p);
  return 2 * pairs * (p->head_dim + p->v_dim) * products / (merges ? s->m->merged_flops : s->m->flops) + s->m->launch;
}

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

/* One step; false while it waits for a transfer whose end is not known. */
static bool simulate_step(simulation *s, int32_t rank) {
  sim_rank *r = &s->ranks[rank];
  const dist_step *x = &s->plan->programs[rank].steps[r->at];
  double end = r->clock;
  switch (x->kind) {
  case DIST_SEND:
  case DIST_RECEIVE: post_transfer_at(s, r->transfer[r->at], x->kind == DIST_SEND, r->clock); break;
  case DIST_TILE:
    end += tile_seconds(s, x);
    r->busy += end - r->clock;
    break;
  case DIST_WAIT: {
    const int64_t t = filling(s, rank, r->at, x->slot);
    end = t < 0 ? r->clock : s->transfers[t].end;
    break;
  }
  case DIST_FREE: end = sends_end(s, rank, r->at, x->slot); break;
  default: break;
  }
  if (end < 0) return false;
  if (end > r->clock) r->clock = end;
  r->at++;
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
  t->end = start_of(s, t) + s->m->latency + (double)t->bytes / s->m->bytes_per_second;
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

/* --- plans that gather keys, on GPUs --- */

static double busy_of(const simulation *s, int32_t rank) {
  const dist_program *g = &s->plan->programs[rank];
  double busy = 0;
  for (int64_t i = 0; i < g->n_steps; i++)
    if (g->steps[i].kind == DIST_TILE) busy += tile_seconds(s, &g->steps[i]) - s->m->launch;
  return busy;
}

static int64_t bytes_between(const simulation *s, int32_t tensor, int32_t from, int32_t to) {
  const dist_program *g = &s->plan->programs[from];
  int64_t bytes = 0;
  for (int64_t i = 0; i < g->n_steps; i++)
    if (g->steps[i].kind == DIST_SEND && g->steps[i].tensor == tensor && g->steps[i].peer == to)
      bytes += g->steps[i].bytes;
  return bytes;
}

/* Each rank pushes one group of heads to its peers in turn, from `ready` on; came[rank] is when a rank has all of it.
 * In a turn every rank is the target of one other. */
static void push_group(simulation *s, int32_t tensor, const double *ready, double *came) {
  const int32_t ranks = s->plan->p.ranks;
  for (int32_t n = 1; n < ranks; n++)
    for (int32_t r = 0; r < ranks; r++) {
      const int32_t to = (r + n) % ranks;
      const int64_t bytes = bytes_between(s, tensor, r, to);
      double begin = ready[r] > s->ranks[r].way_out ? ready[r] : s->ranks[r].way_out;
      if (s->ranks[to].way_in > begin) begin = s->ranks[to].way_in;
      if (!bytes) continue;
      const double end = begin + (double)bytes / s->plan->p.grid.groups / s->m->bytes_per_second;
      s->ranks[r].way_out = s->ranks[to].way_in = end;
      if (came[to] < end + s->m->latency) came[to] = end + s->m->latency;
    }
}

/* What a rank computes for one group: launch seconds for each of its calls. */
static ga_status group_seconds(const simulation *s, double *seconds) {
  const dist_problem *p = &s->plan->p;
  for (int32_t r = 0; r < p->ranks; r++) {
    gather_list list;
    const ga_status status = dist_gather_list(p, r, &list);
    const int64_t n = list.n_batches;
    dist_gather_free(&list);
    GA_TRY(status);
    seconds[r] = busy_of(s, r) / p->grid.groups + (double)n * s->m->launch;
  }
  return GA_OK;
}

/* times: 5 numbers a rank, zeros. Gradients of a group go home behind the next group's keys. */
static ga_status play_gather(simulation *s, double *times) {
  const dist_problem *p = &s->plan->p;
  double *const start = times, *const came = start + p->ranks, *const work = came + p->ranks,
                *const done = work + p->ranks, *const home = done + p->ranks;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  GA_TRY(group_seconds(s, work));
  for (int32_t g = 0; g < p->grid.groups; g++) {
    push_group(s, DIST_KV, start, came);
    if (backward && g > 0) push_group(s, DIST_DKV, done, home);
    for (int32_t r = 0; r < p->ranks; r++) {
      sim_rank *x = &s->ranks[r];
      x->clock = done[r] = (came[r] > x->clock ? came[r] : x->clock) + work[r];
      x->busy += work[r];
    }
  }
  if (backward) push_group(s, DIST_DKV, done, home);
  for (int32_t r = 0; r < p->ranks; r++)
    if (home[r] > s->ranks[r].clock) s->ranks[r].clock = home[r];
  return GA_OK;
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
  return GA_OK;
}

static void summarise_times(const simulation *s, ga_dist_times *out) {
  const int32_t ranks = s->plan->p.ranks;
  double busy = 0;
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

static ga_status check_machine(const ga_dist_machine *m) {
  GA_REQUIRE(m->flops > 0 && m->bytes_per_second > 0 && m->latency >= 0 && m->launch >= 0 && m->merged_flops >= 0,
             GA_ERR_ARG,
             "dist simulate: flops %g, bytes_per_second %g, latency %g, launch %g, merged_flops %g; must be positive, "
             "the last three 0 or more",
             m->flops, m->bytes_per_second, m->latency, m->launch, m->merged_flops);
  return GA_OK;
}

ga_status ga_dist_plan_simulate(const ga_dist_plan *plan, const ga_dist_machine *machine, ga_dist_times *times) {
  GA_REQUIRE(plan, GA_ERR_ARG, "dist simulate: plan is null");
  ga_dist_machine m;
  GA_TRY(GA_SIZED_TAKE("dist simulate: machine", ga_dist_machine, machine, &m));
  GA_TRY(check_machine(&m));
  GA_TRY(ga_sized_check_out("dist simulate: times", times, ga_dist_times_first));
  simulation s = {.plan = plan, .m = &m};
  const size_t ranks = (size_t)plan->p.ranks;
  size_t steps = 0;
  for (size_t r = 0; r < ranks; r++) steps += (size_t)plan->programs[r].n_steps;
  void *rank_memory = NULL, *numbers = NULL, *transfers = NULL, *open = NULL, *pairs = NULL, *gather_times = NULL;
  ga_dist_times found = {0};
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc(ranks, sizeof *s.ranks, "ranks", &rank_memory));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof(int64_t), "steps", &numbers));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof *s.transfers, "transfers", &transfers));
  GA_TRY_OUT(ga_mem_zalloc(steps + 1, sizeof *s.open, "transfers", &open));
  GA_TRY_OUT(ga_mem_zalloc(2 * ranks * ranks, sizeof(int64_t), "links", &pairs));
  GA_TRY_OUT(ga_mem_zalloc(5 * ranks, sizeof(double), "ranks", &gather_times));
  s.ranks = rank_memory, s.transfers = transfers, s.open = open;
  int64_t *at = numbers;
  for (size_t r = 0; r < ranks; r++) {
    s.ranks[r].transfer = at;
    at += plan->programs[r].n_steps;
  }
  number_transfers(&s, pairs);
  const bool gathers = m.merged_flops > 0 && dist_gathers(&plan->p);
  status = gathers ? play_gather(&s, gather_times) : play_steps(&s);
  if (status == GA_OK) {
    summarise_times(&s, &found);
    ga_sized_give(&found, sizeof found, times);
  }
out:
  ga_mem_free(rank_memory);
  ga_mem_free(numbers);
  ga_mem_free(transfers);
  ga_mem_free(open);
  ga_mem_free(pairs);
  ga_mem_free(gather_times);
  return status;
}
