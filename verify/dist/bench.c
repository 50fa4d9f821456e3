/* ga dist bench: methods in shuffled rounds, beside one device that does all the work alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmdline/error.h"
#include "cmdline/interrupt.h"
#include "ga/attn.h"
#include "ga/attn_bwd.h"
#include "verify/dist/batch.h"
#include "verify/dist/ranks.h"

enum {
  MOST_METHODS = 72, /* with each way of copies */
  RANDOM_ELEMENTS = 1 << 20
};

typedef struct contender {
  char name[32];
  char asked[DIST_COPIES_WORD]; /* ga_dist_exec_options.copies */
  char copies[8];               /* what they are: rank 0 says so; "" on a CPU */
  dist_task task;
  ga_dist_plan *plan, *forward; /* forward: of gradients, what makes O and LSE */
} contender;

typedef struct bench {
  const dist_args *a;
  contender of[MOST_METHODS];
  int count;
  int32_t dtype;
} bench;

/* --- contenders --- */

static ga_status plan_contender(contender *c) {
  TRY(ga_dist_plan_create(&c->task.desc, &c->plan));
  TRY(ga_dist_plan_verify(c->plan, NULL));
  if (!(c->task.desc.flags & GA_DIST_BACKWARD)) return GA_OK;
  ga_dist_desc d = c->task.desc;
  d.flags &= ~(uint32_t)GA_DIST_BACKWARD;
  TRY(ga_dist_plan_create(&d, &c->forward));
  return ga_dist_plan_verify(c->forward, NULL);
}

static void end_contender(contender *c) {
  ga_dist_plan_destroy(c->plan);
  ga_dist_plan_destroy(c->forward);
  dist_end(&c->task);
}

/* One of all methods may not fit the shape: it is left out, and rank 0 says why. */
static ga_status add_contender_by(bench *b, const char *name, const char *asked, bool may_miss) {
  REQUIRE(b->count < MOST_METHODS, GA_ERR_ARG, "--method '%.100s': at most %d methods and ways of copies", b->a->method,
          MOST_METHODS);
  contender *c = &b->of[b->count];
  *c = (contender){.plan = NULL};
  (void)snprintf(c->name, sizeof c->name, "%s", name);
  (void)snprintf(c->asked, sizeof c->asked, "%s", asked);
  ga_status status = dist_begin(b->a, c->name, &c->task);
  if (status == GA_OK) status = plan_contender(c);
  if (status == GA_OK) {
    b->count++;
    return GA_OK;
  }
  end_contender(c);
  const bool misses = may_miss && (status == GA_ERR_ARG || status == GA_ERR_SHAPE || status == GA_ERR_UNSUPPORTED);
  if (misses && b->a->rank <= 0) (void)fprintf(stderr, "ga dist: without %s: %s\n", name, ga_error_text());
  return misses ? GA_OK : status;
}

/* Once for each of --copies. */
static ga_status add_contender(bench *b, const char *name, bool may_miss) {
  char word[DIST_COPIES_WORD];
  if (!b->a->copies) return add_contender_by(b, name, "", may_miss);
  for (size_t at = 0; dist_next_copies(b->a, &at, word);) TRY(add_contender_by(b, name, word, may_miss));
  return GA_OK;
}

static ga_status list_contenders(bench *b) {
  const char *name;
  if (!strcmp(b->a->method, "all")) {
    for (size_t i = 0; (name = ga_dist_method_name(i)) != NULL; i++) TRY(add_contender(b, name, true));
    REQUIRE(b->count, GA_ERR_SHAPE, "no method fits this shape");
    return GA_OK;
  }
  for (const char *p = b->a->method; *p; p += *p == ',') {
    char word[32];
    const size_t n = strcspn(p, ",");
    (void)snprintf(word, sizeof word, "%.*s", (int)n, p);
    REQUIRE(n < sizeof word && ga_dist_method_text(word), GA_ERR_ARG,
            "--method '%.*s' is no method; ga dist plan -m all lists them", (int)n, p);
    TRY(add_contender(b, word, false));
    p += n;
  }
  REQUIRE(b->count, GA_ERR_ARG, "--method '%s': must be names with commas between, or all", b->a->method);
  return GA_OK;
}

/* --- memory of a rank --- */

/* Rows of all tokens, so that one device can do all of it; a method takes the first rows of them. */
typedef struct rank_memory {
  void *q, *k, *v, *o, *dout, *dq, *dk, *dv;
  float *lse;
  int32_t *q_start, *kv_start;                     /* of packed documents */
  void *o_of[MOST_METHODS], *lse_of[MOST_METHODS]; /* what a method's backward reads */
  ga_dist_exec *exec[MOST_METHODS], *forward_exec; /* of one at a time */
} rank_memory;

typedef struct bench_rank {
  bench *b;
  const dist_rank *rank;
  rank_memory m;
  double *seconds; /* [methods + 1][rounds]; the last is one device */
} bench_rank;

static size_t bytes_of_element(const bench_rank *j) { return j->b->dtype == GA_F32 ? 4 : 2; }

static ga_status alloc_rows(const bench_rank *j, int64_t elements, void **out) {
  return ga_buffer_alloc(j->rank->device, (size_t)elements * bytes_of_element(j) + 1, out);
}

/* Random numbers, the same again behind RANDOM_ELEMENTS of them. */
static ga_status fill_input(const bench_rank *j, const void *block, int64_t elements, void *at) {
  for (int64_t i = 0; i < elements; i += RANDOM_ELEMENTS) {
    const int64_t n = elements - i < RANDOM_ELEMENTS ? elements - i : RANDOM_ELEMENTS;
    TRY(ga_copy_to_device(j->rank->device, (char *)at + (size_t)i * bytes_of_element(j), block,
                          (size_t)n * bytes_of_element(j), NULL));
  }
  return GA_OK;
}

static ga_status alloc_input(const bench_rank *j, int64_t seed, int64_t elements, void **out) {
  float *floats = NULL, *block = NULL;
  TRY(alloc_rows(j, elements, out));
  ga_status status = dist_new_floats(RANDOM_ELEMENTS, &floats);
  if (status == GA_OK) status = dist_new_floats(RANDOM_ELEMENTS, &block);
  if (status == GA_OK) {
    dist_fill_random(floats, RANDOM_ELEMENTS, (uint64_t)seed);
    status = dist_convert(j->rank->host, GA_F32, floats, j->b->dtype, block, RANDOM_ELEMENTS);
  }
  if (status == GA_OK) status = fill_input(j, block, elements, *out);
  free(floats);
  free(block);
  return status;
}

static ga_status alloc_starts(const bench_rank *j, const int64_t *lengths, int32_t **out) {
  const int32_t n = j->b->of[0].task.documents;
  void *p = NULL;
  TRY(ga_buffer_alloc(j->rank->device, ((size_t)n + 1) * sizeof **out, &p));
  *out = p;
  int32_t *starts = calloc((size_t)n + 1, sizeof *starts);
  if (!starts) return fail_nomem("documents", ((size_t)n + 1) * sizeof *starts);
  for (int32_t i = 0; i < n; i++) starts[i + 1] = starts[i] + (int32_t)lengths[i];
  ga_status status = ga_copy_to_device(j->rank->device, p, starts, ((size_t)n + 1) * sizeof *starts, NULL);
  free(starts);
  return status;
}

static int64_t longest(const int64_t *lengths, int32_t n) {
  int64_t most = 0;
  for (int32_t i = 0; i < n; i++) most = lengths[i] > most ? lengths[i] : most;
  return most;
}

static ga_status alloc_memory(bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const int64_t nq = ga_dist_layout_tokens(t->q, -1), nk = ga_dist_layout_tokens(t->kv, -1);
  const int64_t vd = d->v_dim ? d->v_dim : d->head_dim, hq = d->q_heads, hk = d->kv_heads, hd = d->head_dim;
  const int64_t lse = hq * t->documents * longest(t->q_lengths, t->documents);
  rank_memory *m = &j->m;
  void *p = NULL;
  REQUIRE(nq <= INT32_MAX && nk <= INT32_MAX, GA_ERR_UNSUPPORTED, "%lld queries, %lld keys; bench takes at most %d",
          (long long)nq, (long long)nk, INT32_MAX);
  TRY(alloc_input(j, j->b->a->seed + 1, nq * hq * hd, &m->q));
  TRY(alloc_input(j, j->b->a->seed + 2, nk * hk * hd, &m->k));
  TRY(alloc_input(j, j->b->a->seed + 3, nk * hk * vd, &m->v));
  TRY(alloc_rows(j, nq * hq * vd, &m->o));
  TRY(ga_buffer_alloc(j->rank->device, (size_t)lse * sizeof(float) + 1, &p));
  m->lse = p;
  if (t->documents > 1) TRY(alloc_starts(j, t->q_lengths, &m->q_start));
  if (t->documents > 1) TRY(alloc_starts(j, t->kv_lengths, &m->kv_start));
  if (!(d->flags & GA_DIST_BACKWARD)) return GA_OK;
  TRY(alloc_input(j, j->b->a->seed + 4, nq * hq * vd, &m->dout));
  TRY(alloc_rows(j, nq * hq * hd, &m->dq));
  TRY(alloc_rows(j, nk * hk * hd, &m->dk));
  return alloc_rows(j, nk * hk * vd, &m->dv);
}

static void free_memory(bench_rank *j) {
  rank_memory *m = &j->m;
  ga_dist_exec_destroy(m->forward_exec);
  for (int i = 0; i < j->b->count; i++) {
    ga_dist_exec_destroy(m->exec[i]);
    ga_buffer_free(j->rank->device, m->o_of[i]);
    ga_buffer_free(j->rank->device, m->lse_of[i]);
  }
  void *const all[] = {m->q, m->k, m->v, m->o, m->dout, m->dq, m->dk, m->dv, m->lse, m->q_start, m->kv_start};
  for (size_t i = 0; i < COUNT_OF(all); i++) ga_buffer_free(j->rank->device, all[i]);
}

/* --- the work --- */

static ga_status one_forward(const bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const rank_memory *m = &j->m;
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.batch = t->documents;
  f.max_q = longest(t->q_lengths, t->documents), f.max_kv = longest(t->kv_lengths, t->documents);
  f.q_heads = d->q_heads, f.kv_heads = d->kv_heads, f.head_dim = d->head_dim, f.v_dim = d->v_dim;
  f.window = (int32_t)d->window, f.q_dtype = f.kv_dtype = f.o_dtype = j->b->dtype;
  f.flags = (uint32_t)GA_ATTN_LSE | (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u) |
            (m->q_start ? (uint32_t)GA_ATTN_VARLEN : 0u);
  const ga_attn_io io = {.q = m->q,
                         .k = m->k,
                         .v = m->v,
                         .o = m->o,
                         .lse = m->lse,
                         .q_start = m->q_start,
                         .kv_start = m->kv_start,
                         .q_tokens = m->q_start ? ga_dist_layout_tokens(t->q, -1) : 0,
                         .kv_tokens = m->q_start ? ga_dist_layout_tokens(t->kv, -1) : 0};
  return ga_attn(j->rank->device, &f, &io, NULL);
}

static ga_status one_backward(const bench_rank *j) {
  const dist_task *t = &j->b->of[0].task;
  const ga_dist_desc *d = &t->desc;
  const rank_memory *m = &j->m;
  ga_attn_bwd_desc g = GA_ATTN_BWD_DESC_INIT;
  g.batch = t->documents;
  g.max_q = longest(t->q_lengths, t->documents), g.max_kv = longest(t->kv_lengths, t->documents);
  if (m->q_start) g.total_q = ga_dist_layout_tokens(t->q, -1), g.total_kv = ga_dist_layout_tokens(t->kv, -1);
  g.q_heads = d->q_heads, g.kv_heads = d->kv_heads, g.head_dim = d->head_dim, g.v_dim = d->v_dim;
  g.window = (int32_t)d->window, g.dtype = g.grad_dtype = j->b->dtype;
  g.flags = (d->flags & GA_DIST_CAUSAL ? (uint32_t)GA_ATTN_CAUSAL : 0u) | (m->q_start ? (uint32_t)GA_ATTN_VARLEN : 0u) |
            (d->flags & GA_DIST_UNORDERED ? 0u : (uint32_t)GA_ATTN_BWD_DETERMINISTIC);
  const ga_attn_bwd_io io = {.q = m->q,
                             .k = m->k,
                             .v = m->v,
                             .o = m->o,
                             .dout = m->dout,
                             .lse = m->lse,
                             .dq = m->dq,
                             .dk = m->dk,
                             .dv = m->dv,
                             .q_start = m->q_start,
                             .kv_start = m->kv_start};
  return ga_attn_bwd(j->rank->device, &g, &io, NULL);
}

static ga_status run_one_device(const bench_rank *j) {
  TRY(j->b->of[0].task.desc.flags & GA_DIST_BACKWARD ? one_backward(j) : one_forward(j));
  return ga_stream_sync(j->rank->device, NULL);
}

static ga_status run_method(const bench_rank *j, int i, ga_dist_exec *exec) {
  const rank_memory *m = &j->m;
  const dist_task *t = &j->b->of[i].task;
  ga_dist_tensors io = GA_DIST_TENSORS_INIT;
  io.q_layout = ga_dist_layout_id(t->q), io.kv_layout = ga_dist_layout_id(t->kv);
  io.q = m->q, io.k = m->k, io.v = m->v, io.dout = m->dout, io.dq = m->dq, io.dk = m->dk, io.dv = m->dv;
  io.o = m->o_of[i] ? m->o_of[i] : m->o;
  io.lse = m->lse_of[i] ? m->lse_of[i] : m->lse;
  return ga_dist_exec_run(exec, &io);
}

static ga_status create_bench_exec(const bench_rank *j, const char *copies, const ga_dist_plan *plan,
                                   ga_dist_exec **out) {
  ga_dist_exec_options o = GA_DIST_EXEC_OPTIONS_INIT;
  o.copies = copies;
  return ga_dist_exec_create_with(plan, j->rank->comm, j->rank->device, &o, out);
}

/* O and LSE of a method's own rows. */
static ga_status prepare_backward(bench_rank *j, int i) {
  const contender *c = &j->b->of[i];
  const ga_dist_desc *d = &c->task.desc;
  rank_memory *m = &j->m;
  const int64_t rows = ga_dist_layout_tokens(c->task.q, ga_comm_rank(j->rank->comm)) * d->q_heads;
  TRY(alloc_rows(j, rows * (d->v_dim ? d->v_dim : d->head_dim), &m->o_of[i]));
  TRY(ga_buffer_alloc(j->rank->device, (size_t)rows * sizeof(float) + 1, &m->lse_of[i]));
  TRY(create_bench_exec(j, c->asked, c->forward, &m->forward_exec));
  TRY(run_method(j, i, m->forward_exec));
  ga_dist_exec_destroy(m->forward_exec);
  m->forward_exec = NULL;
  return GA_OK;
}

static ga_status prepare_rank(bench_rank *j) {
  TRY(alloc_memory(j));
  if (j->m.dout) TRY(one_forward(j));
  for (int i = 0; i < j->b->count; i++) {
    contender *c = &j->b->of[i];
    if (j->m.dout) TRY(prepare_backward(j, i));
    TRY(create_bench_exec(j, c->asked, c->plan, &j->m.exec[i]));
    if (ga_comm_rank(j->rank->comm) == 0)
      (void)snprintf(c->copies, sizeof c->copies, "%s", ga_dist_exec_copies(j->m.exec[i]));
    TRY(run_method(j, i, j->m.exec[i])); /* a first run makes ready what it launches */
  }
  return run_one_device(j);
}

/* The same order on all ranks: contenders 0 to n - 1 drawn by round and seed. */
static void shuffle_contenders(int *order, int n, uint64_t seed) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const int other = (int)((seed >> 33) % (uint64_t)(i + 1)), kept = order[i];
    order[i] = order[other], order[other] = kept;
  }
}

static ga_status time_round(bench_rank *j, int64_t round) {
  int order[MOST_METHODS + 1];
  const bench *b = j->b;
  shuffle_contenders(order, b->count + 1, ((uint64_t)b->a->seed + 1) * 1000003u + (uint64_t)round);
  for (int i = 0; i <= b->count; i++) {
    const int c = order[i];
    REQUIRE(!interrupted(), GA_ERR_CANCELLED, "stopped in round %lld of %lld", (long long)round + 1,
            (long long)b->a->runs);
    TRY(ga_comm_meet(j->rank->comm, "bench", (uint64_t)c));
    const double begin = dist_seconds();
    TRY(c < b->count ? run_method(j, c, j->m.exec[c]) : run_one_device(j));
    j->seconds[c * b->a->runs + round] = dist_seconds() - begin;
  }
  if (ga_comm_rank(j->rank->comm) == 0) cmd_progress("rounds", (uint64_t)round + 1, (uint64_t)b->a->runs);
  return GA_OK;
}

static ga_status bench_on_rank(const dist_rank *rank, void *arg, void *result) {
  bench_rank j = {.b = arg, .rank = rank, .seconds = result};
  ga_status status = prepare_rank(&j);
  for (int64_t r = 0; r < j.b->a->runs && status == GA_OK; r++) status = time_round(&j, r);
  free_memory(&j);
  return status;
}

/* --- what rank 0 tells --- */

/* Seconds of a contender over all rounds: those of its slowest rank in each. */
typedef struct timing {
  double median, least, most;
  double of_one; /* median over rounds of: one device's time by (ranks x this one's) */
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
  for (int64_t r = 0; r < b->a->ranks; r++) most = fmax(most, seconds[(r * (b->count + 1) + c) * b->a->runs + round]);
  return most;
}

static timing timing_of(const bench *b, const double *seconds, int c, double *scratch) {
  timing t = {.least = INFINITY};
  const int64_t rounds = b->a->runs;
  for (int64_t i = 0; i < rounds; i++) {
    scratch[i] = slowest(b, seconds, b->count, i) / ((double)b->a->ranks * slowest(b, seconds, c, i));
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

static ga_status show_row(const bench *b, int c, const timing *t, json_t *list) {
  const bool one = c == b->count;
  const contender *k = &b->of[one ? 0 : c];
  dist_summary s;
  TRY(dist_summarise(k->plan, &s));
  const double ranks = one ? 1 : (double)b->a->ranks,
               tflops = flops_of(&k->task.desc, s.pairs) / t->median / ranks / 1e12;
  const char *name = one ? "one device" : k->name, *copies = one ? "" : k->copies;
  if (list)
    return json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I}", "method", name,
                                                 "copies", copies, "seconds", t->median, "seconds_least", t->least,
                                                 "seconds_most", t->most, "tflops_a_rank", tflops, "of_one_device",
                                                 one ? 1.0 : t->of_one, "sent_bytes", one ? 0 : (json_int_t)s.sent,
                                                 "memory_bytes", one ? 0 : (json_int_t)s.most_memory))
               ? fail_nomem("JSON", 0)
               : GA_OK;
  printf("%-14s %-6s %10.3f %10.3f %10.3f %9.3g", name, copies, t->median * 1e3, t->least * 1e3, t->most * 1e3, tflops);
  if (one)
    printf(" %9s\n", "");
  else
    printf(" %8.1f%% %10.3f MB\n", t->of_one * 100, (double)s.sent / ranks * 1e-6);
  return GA_OK;
}

/* What simulate --rates takes: one device's rate at the tokens of a causal call that is as long to a query, or key. */
static json_t *rates_json(const bench *b, double one_device_seconds) {
  const dist_task *t = &b->of[0].task;
  dist_summary s;
  if (dist_summarise(b->of[0].plan, &s) != GA_OK) return NULL;
  const bool backward = t->desc.flags & GA_DIST_BACKWARD;
  const double rows = (double)ga_dist_layout_tokens(backward ? t->kv : t->q, -1),
               size = rows > 0 ? 2 * (double)s.pairs / t->desc.q_heads / rows : 0;
  if (size <= 0) return json_object();
  return json_pack("{s:[[f,f]]}", backward ? "backward" : "plain", size,
                   flops_of(&t->desc, s.pairs) / one_device_seconds / 1e12);
}

static ga_status show_times(const bench *b, const double *seconds) {
  const dist_args *a = b->a;
  double *scratch = calloc((size_t)a->runs, sizeof *scratch);
  if (!scratch) return fail_nomem("rounds", (size_t)a->runs * sizeof *scratch);
  json_t *list = a->json ? json_array() : NULL;
  const double one_device_seconds = timing_of(b, seconds, b->count, scratch).median;
  ga_status status = GA_OK;
  if (!a->json)
    printf("%s tokens, %lld/%lld heads of %lld, %s, %s; %lld ranks (%s, %s), %lld rounds; ms of the slowest rank\n"
           "%-14s %-6s %10s %10s %10s %9s %9s %13s\n",
           a->tokens, (long long)a->heads, (long long)a->kv_heads, (long long)a->head_dim, a->type,
           a->backward ? "backward" : "forward", (long long)a->ranks, a->transport, a->device, (long long)a->runs,
           "method", "copies", "median", "least", "most", "TFLOP/s", "of one", "sent, mean");
  for (int c = b->count; c >= 0 && status == GA_OK; c--) {
    const int which = c == b->count ? c : b->count - 1 - c;
    const timing t = timing_of(b, seconds, which, scratch);
    status = show_row(b, which, &t, list);
  }
  free(scratch);
  if (status != GA_OK || !a->json) {
    json_decref(list);
    if (status == GA_OK)
      printf(
          "one device: all tokens on each rank's own; of one: its time by %lld times the method's; TFLOP/s of a rank\n",
          (long long)a->ranks);
    return status;
  }
  return cmd_print_json(
      json_pack("{s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:b, s:I, s:I, s:o, s:o}", "transport",
                a->transport, "device", a->device, "ranks", (json_int_t)a->ranks, "tokens", a->tokens, "type", a->type,
                "heads", (json_int_t)a->heads, "kv_heads", (json_int_t)a->kv_heads, "head_dim", (json_int_t)a->head_dim,
                "causal", !a->full, "backward", a->backward, "unordered", a->unordered, "window", (json_int_t)a->window,
                "rounds", (json_int_t)a->runs, "rows", list, "rates", rates_json(b, one_device_seconds)),
      JSON_INDENT(1));
}

static ga_status bench_contenders(bench *b) {
  const dist_args *a = b->a;
  const size_t bytes = (size_t)(b->count + 1) * (size_t)a->runs * sizeof(double);
  double *seconds = calloc((size_t)a->ranks, bytes);
  if (!seconds) return fail_nomem("rounds", (size_t)a->ranks * bytes);
  ga_status status = dist_meet_and_run(a, bench_on_rank, b, bytes, seconds);
  cmd_progress_clear();
  if (status == GA_OK && a->rank <= 0) status = show_times(b, seconds);
  free(seconds);
  return status;
}

ga_status dist_show_bench(const dist_args *a) {
  bench b = {.a = a};
  dist_prepare_devices(a);
  ga_status status = list_contenders(&b);
  if (status == GA_OK) b.dtype = b.of[0].task.desc.dtype;
  if (status == GA_OK) status = bench_contenders(&b);
  for (int i = 0; i < b.count; i++) end_contender(&b.of[i]);
  return status;
}
