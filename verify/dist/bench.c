#include "verify/dist/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "verify/dist/bench_rank.h"
#include "verify/dist/summary.h"

/* --- contenders --- */

static ga_status plan_contender(contender *c) {
  GA_TRY(ga_dist_plan_create(&c->task.desc, &c->plan));
  GA_TRY(ga_dist_plan_verify(c->plan, NULL));
  if (!(c->task.desc.flags & GA_DIST_BACKWARD)) return GA_OK;
  ga_dist_desc d = c->task.desc;
  d.flags &= ~(uint32_t)GA_DIST_BACKWARD;
  GA_TRY(ga_dist_plan_create(&d, &c->forward));
  return ga_dist_plan_verify(c->forward, NULL);
}

static void end_contender(contender *c) {
  ga_dist_plan_destroy(c->plan);
  ga_dist_plan_destroy(c->forward);
  dist_end(&c->task);
}

/* Adds a contender. With may_miss one that does not fit the shape is left out, and the first rank prints why. */
static ga_status add_contender_by(bench *b, const char *name, const char *asked, bool may_miss) {
  GA_REQUIRE(b->count < DIST_MOST_CONTENDERS, GA_ERR_ARG, "--method '%.100s': at most %d methods and ways of copies",
             b->o->shape->method, DIST_MOST_CONTENDERS);
  contender *c = &b->of[b->count];
  *c = (contender){.plan = NULL};
  (void)snprintf(c->name, sizeof c->name, "%s", name);
  (void)snprintf(c->asked, sizeof c->asked, "%s", asked);
  ga_status status = dist_begin(b->o->shape, c->name, &c->task);
  if (status == GA_OK) status = plan_contender(c);
  if (status == GA_OK) {
    b->count++;
    return GA_OK;
  }
  end_contender(c);
  const bool misses = may_miss && (status == GA_ERR_ARG || status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED);
  if (misses && dist_is_first(b->o->ranks)) (void)fprintf(stderr, "ga dist: without %s: %s\n", name, ga_error_text());
  return misses ? GA_OK : status;
}

/* Adds the method once for each way of copies. */
static ga_status add_contender(bench *b, const char *name, bool may_miss) {
  char word[DIST_WORD_BYTES];
  if (!b->o->copies) return add_contender_by(b, name, "", may_miss);
  for (size_t at = 0; dist_next_word(b->o->copies, &at, word);) GA_TRY(add_contender_by(b, name, word, may_miss));
  return GA_OK;
}

static ga_status list_contenders(bench *b) {
  const char *name;
  if (!strcmp(b->o->shape->method, "all")) {
    for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) GA_TRY(add_contender(b, name, true));
    GA_REQUIRE(b->count, GA_ERR_SHAPE, "no method fits this shape");
    return GA_OK;
  }
  for (const char *p = b->o->shape->method; *p; p += *p == ',') {
    char word[32];
    const size_t n = strcspn(p, ",");
    (void)snprintf(word, sizeof word, "%.*s", (int)n, p);
    GA_REQUIRE(n < sizeof word && ga_dist_method_text(word), GA_ERR_ARG,
               "--method '%.*s' is no method; ga dist plan -m all lists them", (int)n, p);
    GA_TRY(add_contender(b, word, false));
    p += n;
  }
  GA_REQUIRE(b->count, GA_ERR_ARG, "--method '%s': must be names with commas between, or all", b->o->shape->method);
  return GA_OK;
}

/* --- rounds --- */

/* Draws an order of the contenders 0 to n - 1, the same on all ranks. */
static void shuffle_contenders(int *order, int n, uint64_t seed) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const int other = (int)((seed >> 33) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[other], order[other] = kept;
  }
}

static ga_status time_round(bench_rank *j, int64_t round) {
  int order[DIST_MOST_CONTENDERS + 1];
  const bench *b = j->b;
  shuffle_contenders(order, b->count + 1, ((uint64_t)b->o->ranks->seed + 1) * 1000003u + (uint64_t)round);
  for (int i = 0; i <= b->count; i++) {
    const int c = order[i];
    GA_REQUIRE(!interrupted(), GA_ERR_CANCELLED, "stopped in round %lld of %lld", (long long)round + 1,
               (long long)b->o->rounds);
    GA_TRY(ga_comm_meet(j->rank->comm, "bench", (uint64_t)c));
    const double begin = ga_seconds();
    GA_TRY(bench_rank_run(j, c));
    j->seconds[c * b->o->rounds + round] = ga_seconds() - begin;
  }
  if (ga_comm_rank(j->rank->comm) == 0) cmd_progress("rounds", (uint64_t)round + 1, (uint64_t)b->o->rounds);
  return GA_OK;
}

static ga_status bench_on_rank(const dist_rank *rank, void *arg, void *result) {
  bench_rank j = {.b = arg, .rank = rank, .seconds = result};
  ga_status status = bench_rank_open(&j);
  for (int64_t r = 0; r < j.b->o->rounds && status == GA_OK; r++) status = time_round(&j, r);
  bench_rank_close(&j);
  return status;
}

/* --- figures of all ranks --- */

/* Seconds of a contender over all rounds; a round takes as long as its slowest rank. */
typedef struct timing {
  double median, least, most;
  double of_one; /* median over rounds of one device's time / (ranks x the contender's) */
} timing;

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(double *x, int64_t n) {
  qsort(x, (size_t)n, sizeof *x, compare_doubles);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double slowest(const bench *b, const double *seconds, int c, int64_t round) {
  double most = 0;
  for (int64_t r = 0; r < b->o->ranks->n; r++)
    most = fmax(most, seconds[(r * (b->count + 1) + c) * b->o->rounds + round]);
  return most;
}

static timing timing_of(const bench *b, const double *seconds, int c, double *scratch) {
  timing t = {.least = INFINITY};
  const int64_t rounds = b->o->rounds;
  for (int64_t i = 0; i < rounds; i++) {
    scratch[i] = slowest(b, seconds, b->count, i) / ((double)b->o->ranks->n * slowest(b, seconds, c, i));
    t.least = fmin(t.least, slowest(b, seconds, c, i)), t.most = fmax(t.most, slowest(b, seconds, c, i));
  }
  t.of_one = median_of(scratch, rounds);
  for (int64_t i = 0; i < rounds; i++) scratch[i] = slowest(b, seconds, c, i);
  t.median = median_of(scratch, rounds);
  return t;
}

/* Products of attention: of a query and a key 2 d for the logit and 2 v for O; backward 3 x 2 d and 2 x 2 v. */
static double flops_of(const ga_dist_desc *d, int64_t pairs) {
  const double hd = d->head_dim, vd = d->v_dim ? d->v_dim : d->head_dim;
  return (double)pairs * 2 * (d->flags & GA_DIST_BACKWARD ? 3 * hd + 2 * vd : hd + vd);
}

static ga_status fill_row(const bench *b, const double *seconds, int c, double *scratch, dist_bench_row *row) {
  const bool one = c == b->count;
  const contender *k = &b->of[one ? 0 : c];
  const timing t = timing_of(b, seconds, c, scratch);
  const double ranks = one ? 1 : (double)b->o->ranks->n;
  dist_summary s;
  GA_TRY(dist_summarise(k->plan, &s));
  *row = (dist_bench_row){.median = t.median, .least = t.least, .most = t.most, .of_one = one ? 1 : t.of_one};
  row->tflops = flops_of(&k->task.desc, s.pairs) / t.median / ranks / 1e12;
  (void)snprintf(row->name, sizeof row->name, "%s", one ? "one device" : k->name);
  if (one) return GA_OK;
  (void)snprintf(row->copies, sizeof row->copies, "%s", k->copies);
  row->sent = s.sent, row->memory = s.most_memory;
  return GA_OK;
}

/* Finds the length of a plain causal call with the same mean of keys to a query; for gradients, of queries to a key. */
static ga_status find_rate_size(const bench *b, double *out) {
  const dist_task *t = &b->of[0].task;
  dist_summary s;
  GA_TRY(dist_summarise(b->of[0].plan, &s));
  const bool backward = t->desc.flags & GA_DIST_BACKWARD;
  const double rows = (double)ga_dist_layout_tokens(backward ? t->kv : t->q, -1);
  *out = rows > 0 ? 2 * (double)s.pairs / t->desc.q_heads / rows : 0;
  return GA_OK;
}

static ga_status fill_found(const bench *b, const double *seconds, dist_bench_found *out) {
  double *scratch = calloc((size_t)b->o->rounds, sizeof *scratch);
  if (!scratch) return ga_fail_nomem("rounds", (size_t)b->o->rounds * sizeof *scratch);
  ga_status status = find_rate_size(b, &out->rate_size);
  out->n = b->count + 1;
  for (int i = 0; i < out->n && status == GA_OK; i++)
    status = fill_row(b, seconds, i ? i - 1 : b->count, scratch, &out->row[i]);
  free(scratch);
  return status;
}

static ga_status bench_contenders(bench *b, dist_bench_found *out) {
  const dist_ranks *ranks = b->o->ranks;
  const size_t bytes = (size_t)(b->count + 1) * (size_t)b->o->rounds * sizeof(double);
  double *seconds = calloc((size_t)ranks->n, bytes);
  if (!seconds) return ga_fail_nomem("rounds", (size_t)ranks->n * bytes);
  ga_status status = dist_meet_and_run(ranks, bench_on_rank, b, bytes, seconds);
  cmd_progress_clear();
  if (status == GA_OK && dist_is_first(ranks)) status = fill_found(b, seconds, out);
  free(seconds);
  return status;
}

ga_status dist_bench(const dist_bench_options *o, dist_bench_found *out) {
  bench b = {.o = o};
  out->n = 0;
  dist_prepare_devices(o->ranks->device);
  ga_status status = list_contenders(&b);
  if (status == GA_OK) b.dtype = b.of[0].task.desc.dtype;
  if (status == GA_OK) status = bench_contenders(&b, out);
  for (int i = 0; i < b.count; i++) end_contender(&b.of[i]);
  return status;
}
