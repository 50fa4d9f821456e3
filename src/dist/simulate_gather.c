/* Plans of plain calls (gather.h), on GPUs: the schedule of device_gather.c.
 *
 * Groups of heads take turns on two streams. A device takes calls in the order in which they become ready: that of the
 * next group, whose keys are there, before the second one of a group whose first call has just ended. So groups end
 * late, and their results go home late. */
#include <stdlib.h>

#include "base/mem.h"
#include "dist/gather.h"
#include "dist/simulate.h"

enum { STREAMS = 2, F32 = 4 };

typedef struct gather_times {
  double *start, *came, *done, *home; /* [ranks], came and done of each group */
  double *bytes;                      /* [2][ranks][ranks] */
} gather_times;

/* Of inputs or results, from a rank to another. */
static double *bytes_between(const simulation *s, const gather_times *t, bool results, int32_t from, int32_t to) {
  const int64_t ranks = s->plan->p.ranks;
  return &t->bytes[(results * ranks + from) * ranks + to];
}

static void find_bytes(const simulation *s, const gather_times *t) {
  for (int32_t r = 0; r < s->plan->p.ranks; r++)
    for (int64_t i = 0; i < s->plan->programs[r].n_steps; i++) {
      const dist_step *x = &s->plan->programs[r].steps[i];
      if (x->kind == DIST_SEND) *bytes_between(s, t, dist_is_result(x->tensor), r, x->peer) += (double)x->bytes;
    }
}

/* Each rank pushes one group of heads to its peers in turn, from `ready` on; came[rank] is when a rank has all of it.
 * In a turn every rank is the target of one other. */
static void push_group(simulation *s, const gather_times *t, bool results, const double *ready, double *came) {
  const int32_t ranks = s->plan->p.ranks;
  for (int32_t n = 1; n < ranks; n++)
    for (int32_t r = 0; r < ranks; r++) {
      const int32_t to = (r + n) % ranks;
      const double bytes = *bytes_between(s, t, results, r, to) / s->plan->p.grid.groups;
      double begin = ready[r] > s->ranks[r].way_out ? ready[r] : s->ranks[r].way_out;
      if (s->ranks[to].way_in > begin) begin = s->ranks[to].way_in;
      if (bytes <= 0) continue;
      const double end = begin + sim_link_seconds(s, r, bytes);
      s->ranks[r].way_out = s->ranks[to].way_in = end;
      if (came[to] < end + s->m->latency) came[to] = end + s->m->latency;
    }
}

/* Bytes of f32 sums that a call of gradients for all heads touches beside what one device's call does: dQ is rounded by
 * itself at the end; dK and dV are written, or read and written. Local calls write the caller's tensors. */
static double bytes_of_call_sums(const dist_problem *p, const gather_call *c) {
  const double q = (double)c->n_q * p->q_heads * p->head_dim,
               kv = (double)c->n_k * p->kv_heads * (p->head_dim + p->v_dim);
  if (c->local || p->splits_heads || !(p->flags & GA_DIST_BACKWARD)) return 0;
  return F32 * (q + kv * (c->adds ? 2 : 1));
}

/* Zeros where no call writes first. They count with the first call, though its keys may still be on their way. */
static double bytes_of_zeros(const dist_problem *p, const gather_list *l) {
  double q = 0, kv = 0;
  for (int64_t i = 0; i < l->n_q_zeros; i++) q += (double)(l->q_zeros[i].to - l->q_zeros[i].from);
  for (int64_t i = 0; i < l->n_kv_zeros; i++) kv += (double)(l->kv_zeros[i].to - l->kv_zeros[i].from);
  return F32 * (q * p->q_heads * p->head_dim + kv * p->kv_heads * (p->head_dim + p->v_dim));
}

/* A call's first query, among all tokens. */
static int64_t first_of_call(const dist_problem *p, int32_t rank, const gather_call *c) {
  const dist_stretch *q = dist_stretch_at(p->q, rank, c->stretch);
  return q->first + c->row - q->row;
}

/* A batch for all heads of the rank, but for its launch. */
static double batch_seconds(const simulation *s, int32_t rank, const gather_list *l, const gather_batch *b) {
  const dist_problem *p = &s->plan->p;
  double seconds = 0;
  for (int64_t i = b->first; i < b->first + b->n; i++) {
    const gather_call *c = &l->calls[i];
    const int64_t first = p->splits_heads ? c->row : first_of_call(p, rank, c),
                  key = c->local ? p->kv->doc_start[c->doc] : c->key;
    const dist_stretch some_q = {.first = first, .count = c->n_q, .doc = c->doc},
                       some_k = {.first = key, .count = c->n_k, .doc = c->doc};
    const sim_shape x = sim_shape_of(s, &some_q, &some_k);
    seconds += sim_call_seconds(s, &x, p->splits_heads ? p->q_heads / p->ranks : p->q_heads, false) +
               sim_memory_seconds(s, bytes_of_call_sums(p, c));
  }
  return seconds;
}

/* The calls of a rank: local ones first, all heads at once; then those of the groups, whose keys are there at
 * came[group x ranks]. */
static void run_calls(simulation *s, int32_t rank, const gather_list *l, const double *came, double *done) {
  const int32_t groups = s->plan->p.grid.groups, ranks = s->plan->p.ranks;
  sim_rank *r = &s->ranks[rank];
  int64_t local = 0, next[STREAMS], group[STREAMS];
  double ready[STREAMS];
  const double zeros = sim_memory_seconds(s, bytes_of_zeros(&s->plan->p, l));
  for (; local < l->n_batches && l->calls[l->batches[local].first].local; local++)
    r->clock += sim_disturbed(s, rank, batch_seconds(s, rank, l, &l->batches[local]) + s->m->launch);
  r->busy += r->clock;
  for (int i = 0; i < STREAMS; i++)
    next[i] = local, group[i] = i, ready[i] = i < groups && r->clock < came[i * ranks] ? came[i * ranks] : r->clock;
  for (int32_t g = 0; g < groups; g++) done[g * ranks] = r->clock > came[g * ranks] ? r->clock : came[g * ranks];
  if (local == l->n_batches) return;
  while (group[0] < groups || group[1] < groups) {
    const int i = group[1] >= groups || (group[0] < groups && ready[0] <= ready[1]) ? 0 : 1;
    const double begin = r->clock > ready[i] ? r->clock : ready[i],
                 own = batch_seconds(s, rank, l, &l->batches[next[i]]) + (next[i] == local ? zeros : 0),
                 seconds = sim_disturbed(s, rank, own / groups + s->m->launch);
    r->busy += seconds;
    r->clock = ready[i] = begin + seconds;
    if (++next[i] < l->n_batches) continue;
    done[group[i] * ranks] = r->clock;
    next[i] = local, group[i] += STREAMS;
    if (group[i] < groups && came[group[i] * ranks] > ready[i]) ready[i] = came[group[i] * ranks];
  }
}

/* What peers have sent is added up, and all is rounded. */
static void end_gradients(simulation *s, const gather_times *t, int32_t rank) {
  const double home = t->home[rank];
  sim_rank *r = &s->ranks[rank];
  double came = 0;
  for (int32_t from = 0; from < s->plan->p.ranks; from++)
    if (from != rank) came += *bytes_between(s, t, true, from, rank);
  const double seconds = sim_memory_seconds(s, 3 * came) + sim_rounding_seconds(s, rank);
  r->clock = (home > r->clock ? home : r->clock) + seconds;
  r->busy += seconds;
}

/* Results go from the window to the caller's tensors, and own ones, too. Multiprocessors do that, behind the last call.
 * Inputs of own rows are copied while others' come. */
static void end_split(simulation *s, const gather_times *t, int32_t rank) {
  const dist_problem *p = &s->plan->p;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const double q = (double)p->q->rows[rank] * p->q_heads * (backward ? p->head_dim : p->v_dim),
               kv = backward ? (double)p->kv->rows[rank] * p->kv_heads * (p->head_dim + p->v_dim) : 0,
               home = t->home[rank];
  sim_rank *r = &s->ranks[rank];
  r->clock =
      (home > r->clock ? home : r->clock) + sim_memory_seconds(s, 2 * (q + kv) * (double)dist_dtype_bytes(p->dtype));
}

/* Inputs of all groups leave one behind the other; results of a group behind them, once its calls have ended. */
static ga_status play_groups(simulation *s, const gather_times *t) {
  const dist_problem *p = &s->plan->p;
  for (int32_t g = 0; g < p->grid.groups; g++) push_group(s, t, false, t->start, t->came + (int64_t)g * p->ranks);
  for (int32_t r = 0; r < p->ranks; r++) {
    gather_list list;
    const ga_status status = dist_gather_list(p, r, &list);
    if (status == GA_OK) run_calls(s, r, &list, t->came + r, t->done + r);
    dist_gather_free(&list);
    GA_TRY(status);
  }
  if (!(p->flags & GA_DIST_BACKWARD) && !p->splits_heads) return GA_OK;
  for (int32_t g = 0; g < p->grid.groups; g++) push_group(s, t, true, t->done + (int64_t)g * p->ranks, t->home);
  for (int32_t r = 0; r < p->ranks; r++) (p->splits_heads ? end_split : end_gradients)(s, t, r);
  return GA_OK;
}

ga_status sim_play_gather(simulation *s) {
  const size_t ranks = (size_t)s->plan->p.ranks, groups = (size_t)s->plan->p.grid.groups;
  void *p;
  GA_TRY(ga_mem_zalloc(ranks * (2 * groups + 2 + 2 * ranks), sizeof(double), "ranks", &p));
  double *const all = p;
  const gather_times t = {.start = all,
                          .home = all + ranks,
                          .came = all + 2 * ranks,
                          .done = all + (2 + groups) * ranks,
                          .bytes = all + (2 + 2 * groups) * ranks};
  find_bytes(s, &t);
  const ga_status status = play_groups(s, &t);
  ga_mem_free(p);
  return status;
}
