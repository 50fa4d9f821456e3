/* Random steps of the scheduler over simulated device memory, for mixes of all kinds of layer memory. Each slot of a
 * page holds a stamp of all tokens up to the one that was written there, and of the cache key; a state holds the stamp
 * of its last token. Each step checks every token that an evaluated one attends to, and that a state is the one before
 * the step's first token. A finding is a stamp that is not the expected one, a rule of the plan that is broken, or
 * requests that do not end. Usage: schedule_steps COUNT [SEED]: COUNT steps in episodes of seeds SEED, SEED + 1 ...; a
 * failure prints its seed, and COUNT 1 with that SEED shows the episode again. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/scheduler.h"
#include "tests/memory_kinds.h"

enum { IDS_MAX = 160, REQUESTS_MAX = 48, FAMILIES = 4, EPISODE_STEPS = 250, STEPS_MAX = 200000 };

typedef struct sim_request {
  sched_request r;
  int32_t ids[IDS_MAX];
  uint64_t stamps[IDS_MAX];
  int32_t target; /* n_ids at its end */
  bool used;
  /* Before the plan. */
  bool ran, could_go, was_left_out;
  int32_t was_preempted;
  int32_t n_left_out; /* plans in a row that it could have been in, and was not */
} sim_request;

static struct sim {
  uint64_t seed;
  ga_rng rng;
  layer_memory_options po;
  sched_options so;
  sched_costs costs;
  layer_memory *memory;
  scheduler *s;
  uint64_t *device[KINDS], *host[KINDS];
  int64_t *written[KINDS]; /* step in which a page was last written, times REQUESTS_MAX, plus by whom */
  int32_t families[FAMILIES][IDS_MAX];
  sim_request requests[REQUESTS_MAX];
  int32_t n_requests;
  int32_t priorities, letters, longest;
  double now;
  int32_t micro_batches;
  bool keeps;   /* requests say how long their pages are to be kept */
  bool closing; /* no requests come any more */
  bool stalls;  /* nobody reads the tokens of some requests for a while */
  bool mishaps; /* cancels, deadlines, failed steps and failing allocations */
} sim;

static struct totals {
  int64_t steps, ahead, items, tokens, cached, copies, sent, brought, preempted, again, finished, cancelled, expired,
      nomem, refused, states;
} totals;

static void fail(const char *format, ...) GA_PRINTF(1, 2);
static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)printf("seed %llu, step %lld: ", (unsigned long long)sim.seed, (long long)totals.steps);
  (void)vprintf(format, args);
  (void)printf("\n");
  va_end(args);
  exit(1);
}

static int32_t draw_int(int32_t least, int32_t most) {
  return least + (int32_t)ga_rng_below(&sim.rng, (uint64_t)(most - least + 1));
}
static bool chance(int32_t one_in) { return draw_int(1, one_in) == 1; }

/* --- requests --- */

static void put_token(sim_request *q, int32_t id) {
  const int32_t i = q->r.n_ids++;
  uint64_t x = (i ? q->stamps[i - 1] : q->r.cache_key + 1) ^ ((uint64_t)(uint32_t)id + 1) << 32;
  q->ids[i] = id;
  q->stamps[i] = ga_splitmix64(&x);
}

static sim_request *unused_request(void) {
  for (int32_t i = 0; i < REQUESTS_MAX; i++)
    if (!sim.requests[i].used) return &sim.requests[i];
  return NULL;
}

static void forget_request(sim_request *q) {
  q->used = false;
  sim.n_requests--;
}

static void make_request(sim_request *q) {
  const int32_t total = draw_int(2, chance(8) ? IDS_MAX : sim.longest),
                prompt = draw_int(1, chance(2) ? 1 + total / 8 : total - 1);
  const int32_t shared = chance(4) ? 0 : draw_int(0, prompt);
  const int32_t *family = sim.families[draw_int(0, FAMILIES - 1)];
  memset(q, 0, sizeof *q);
  q->r.cache_key = chance(4) ? 1 : 0;
  for (int32_t i = 0; i < prompt; i++) put_token(q, i < shared ? family[i] : draw_int(0, sim.letters));
  q->r.ids = q->ids;
  q->r.user = q;
  q->r.n_prompt = prompt;
  q->r.max_ids = total;
  q->r.priority = draw_int(0, sim.priorities - 1);
  q->r.tenant = (uint64_t)draw_int(0, 3);
  q->r.use_prefix = !chance(10);
  q->r.arrival = sim.now;
  q->r.keep_seconds = !sim.keeps || chance(2) ? 0 : chance(3) ? -1 : draw_int(1, 100);
  q->r.first_deadline = sim.mishaps && chance(8) ? sim.now + draw_int(0, 60) : 0;
  q->target = draw_int(prompt + 1, total);
}

static void add_request(void) {
  sim_request *q = unused_request();
  if (!q) return;
  make_request(q);
  if (sim.mishaps && chance(20)) ga_mem_fail_after(draw_int(1, 4));
  const ga_status status = scheduler_add(sim.s, &q->r);
  ga_mem_fail_after(0);
  totals.refused += status == GA_ERR_SHAPE;
  totals.nomem += status == GA_ERR_NOMEM;
  if (status != GA_OK && status != GA_ERR_SHAPE && status != GA_ERR_NOMEM) fail("add: %s", ga_error_text());
  if ((status == GA_OK) != (q->r.state == SCHED_WAITING)) fail("add: state %d", (int)q->r.state);
  q->used = status == GA_OK;
  sim.n_requests += status == GA_OK;
}

/* Any; every other time one that waits preempted, if there is one. */
static void cancel_one(void) {
  sim_request *q = &sim.requests[draw_int(0, REQUESTS_MAX - 1)];
  const bool preempted = chance(2);
  for (int32_t i = 0; i < REQUESTS_MAX && preempted; i++) {
    const sched_request *r = &sim.requests[i].r;
    if (sim.requests[i].used && r->state == SCHED_WAITING && r->n_preempted) q = &sim.requests[i];
  }
  if (!q->used) return;
  scheduler_remove(sim.s, &q->r);
  totals.cancelled++;
  forget_request(q);
}

/* --- the device --- */

/* Stamps that a unit holds: one for each token of a page, or one. */
static int32_t stamps_of(int32_t kind) { return kind == STATE ? 1 : sim.po.page_tokens; }
static bool has_pages(int32_t kind) { return kind != STATE && sim.po.n_units[kind]; }
/* The first token that a token at `position` attends to. */
static int32_t first_read(int32_t kind, int32_t position) {
  return kind == WINDOW && position >= sim.po.kinds[WINDOW].window ? position - sim.po.kinds[WINDOW].window + 1 : 0;
}

static void advance_state(const sim_request *q, int32_t unit, int32_t first, int32_t n) {
  if (unit < 0 || unit >= sim.po.n_units[STATE]) fail("state %d", unit);
  uint64_t *state = sim.device[STATE] + unit;
  if (first && *state != q->stamps[first - 1]) fail("state %d is not the one before token %d", unit, first);
  *state = q->stamps[first + n - 1];
}

static uint64_t *token_slot(const sched_request *r, int32_t kind, int32_t at) {
  const int32_t size = sim.po.page_tokens, page = r->kv.units[kind][at / size];
  if (at / size >= r->kv.n_pages || page < 0 || page >= sim.po.n_units[kind]) fail("token %d has page %d", at, page);
  return sim.device[kind] + (size_t)page * (size_t)size + at % size;
}

static uint64_t *page_memory(int32_t kind, bool on_host, int32_t page) {
  const int32_t total = on_host ? sim.po.n_host[kind] : sim.po.n_units[kind];
  if (page < 0 || page >= total) fail("a copy has page %d of %d", page, total);
  return (on_host ? sim.host[kind] : sim.device[kind]) + (size_t)page * (size_t)stamps_of(kind);
}

/* In their order; a page that goes leaves garbage, so that nothing reads it where it was. */
static void run_copies(void) {
  int32_t n;
  const unit_copy *copies = layer_memory_copies(sim.memory, &n);
  for (const unit_copy *c = copies; c < copies + n; c++) {
    const size_t bytes = (size_t)stamps_of(c->kind) * sizeof(uint64_t);
    uint64_t *from = page_memory(c->kind, c->way == UNIT_FROM_HOST, c->from);
    memcpy(page_memory(c->kind, c->way == UNIT_TO_HOST, c->to), from, bytes);
    if (c->way == UNIT_TO_HOST) memset(from, 0xee, bytes);
    totals.copies += c->way == UNIT_WITHIN;
    totals.states += c->kind == STATE;
    totals.sent += c->way == UNIT_TO_HOST;
    totals.brought += c->way == UNIT_FROM_HOST;
  }
  layer_memory_copied(sim.memory);
}

static void note_writer(int32_t kind, int32_t unit, int64_t step, int64_t who) {
  int64_t *writer = &sim.written[kind][unit];
  if (*writer / REQUESTS_MAX == step && *writer != who) fail("unit %d of kind %d has two writers", unit, kind);
  *writer = who;
}

static void write_item(const sched_item *item, int64_t step) {
  const sim_request *q = item->request->user;
  const int64_t who = step * REQUESTS_MAX + (q - sim.requests);
  for (int32_t kind = 0; kind < KINDS; kind++) {
    for (int32_t at = item->first; at < item->first + item->n && has_pages(kind); at++) {
      *token_slot(item->request, kind, at) = q->stamps[at];
      note_writer(kind, item->request->kv.units[kind][at / sim.po.page_tokens], step, who);
    }
  }
  if (!sim.po.n_units[STATE]) return;
  if (!item->request->kv.has_state) fail("an item without a state");
  note_writer(STATE, item->request->kv.state[STATE], step, who);
  advance_state(q, item->request->kv.state[STATE], item->first, item->n);
}

static void read_item(const sched_item *item) {
  const sim_request *q = item->request->user;
  for (int32_t kind = 0; kind < KINDS; kind++)
    for (int32_t at = first_read(kind, item->first); at < item->first + item->n && has_pages(kind); at++)
      if (*token_slot(item->request, kind, at) != q->stamps[at])
        fail("kind %d: token %d of %d to %d is not in page %d", kind, at, item->first, item->first + item->n,
             q->r.kv.units[kind][at / sim.po.page_tokens]);
}

/* --- rules of a plan --- */

static void note_before(void) {
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    sim_request *q = &sim.requests[i];
    q->ran = q->used && q->r.state == SCHED_RUNNING;
    q->could_go = q->r.n_preempted == 0 || q->r.n_ids > q->r.n_ids_resumed;
    q->was_preempted = q->r.n_preempted;
    q->was_left_out = q->r.is_left_out;
    if (sim.stalls && chance(8)) q->r.is_stalled = !q->r.is_stalled && q->r.n_ids > q->r.n_prompt;
  }
}

/* A request is preempted again before it has grown only if no other could have been. */
static void check_preempted(const sched_plan *plan) {
  int32_t n = 0;
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    const sim_request *q = &sim.requests[i];
    if (!q->used || q->r.n_preempted == q->was_preempted) continue;
    if (!q->ran || q->r.n_preempted != q->was_preempted + 1) fail("preempted, but it did not run");
    n++;
    if (q->could_go) continue;
    totals.again++;
    for (int32_t k = 0; k < REQUESTS_MAX; k++) {
      const sim_request *o = &sim.requests[k];
      if (o->used && o->ran && o->r.n_preempted == o->was_preempted && o->could_go && o->r.priority >= q->r.priority)
        fail("preempted twice in a row");
    }
  }
  if (n != plan->n_preempted) fail("%d preempted, the plan says %d", n, plan->n_preempted);
  totals.preempted += n;
}

static void check_item(const sched_plan *plan, int32_t i, bool *prompts) {
  const sched_item *item = &plan->items[i];
  const sched_request *r = item->request;
  if (r->state != SCHED_RUNNING || item->n < 1) fail("item %d: %d tokens, state %d", i, item->n, (int)r->state);
  const int32_t length = r->n_ids + r->n_drawn, end = item->first + item->n;
  if (item->first != r->n_computed + r->n_under_way || end > length) fail("item %d begins at %d", i, item->first);
  if (item->samples != (end == length)) fail("item %d: samples is wrong", i);
  if (end > r->max_ids) fail("item %d is longer than its request", i);
  if (item->first / sim.po.page_tokens < r->kv.n_nodes) fail("item %d writes to the tree", i);
  const sim_request *before = r->user; /* one that is preempted and admitted again comes with the prompts */
  const bool decodes = before->ran && r->n_preempted == before->was_preempted && length - item->first == 1;
  if (decodes && *prompts) fail("item %d generates, behind prompts", i);
  *prompts = *prompts || !decodes;
  for (int32_t k = 0; k < i; k++)
    if (plan->items[k].request == r) fail("item %d is there twice", i);
}

static void check_swapped(void) {
  int32_t n = 0;
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    const sched_request *r = &sim.requests[i].r;
    if (!sim.requests[i].used || !r->is_swapped) continue;
    if (r->state != SCHED_WAITING || !r->n_preempted) fail("a request is swapped, in state %d", (int)r->state);
    n++;
  }
  if (scheduler_n_swapped(sim.s) != n) fail("%d swapped, the scheduler says %d", n, scheduler_n_swapped(sim.s));
}

/* Does the request generate, and could it be in a plan now? With two micro-batches its newest token must be known. */
static bool could_generate(const sim_request *q) {
  const sched_request *r = &q->r;
  const int32_t length = r->n_ids + r->n_drawn, left = length - r->n_computed - r->n_under_way;
  if (!q->used || r->state != SCHED_RUNNING || left != 1 || (r->n_drawn && length == r->max_ids)) return false;
  return sim.micro_batches == 1 || !r->n_drawn;
}

/* A plan has all requests that generate; one of two micro-batches has half of them, or those that the plan before left
 * out, or a dropped plan had, if they are more. */
static void check_generating(const sched_plan *plan) {
  int32_t n_planned = 0, n_left_out = 0, n = 0;
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    sim_request *q = &sim.requests[i];
    const bool is_planned = q->used && q->r.n_planned;
    n_left_out += q->was_left_out && is_planned;
    q->n_left_out = could_generate(q) && !is_planned ? q->n_left_out + 1 : 0;
    if (q->n_left_out >= sim.micro_batches) fail("a request that generates is not in the plan");
    n += q->used && q->r.state == SCHED_RUNNING && q->r.n_ids + q->r.n_drawn - q->r.n_computed - q->r.n_under_way == 1;
  }
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sim_request *q = plan->items[i].request->user;
    n_planned += q->ran && plan->items[i].n == 1 && plan->items[i].samples;
  }
  const int32_t share = (n + sim.micro_batches - 1) / sim.micro_batches;
  if (n_planned > share && n_planned > n_left_out && !plan->n_preempted)
    fail("%d of %d requests that generate are in one plan", n_planned, n);
}

static void check_plan(const sched_plan *plan) {
  int32_t n_tokens = 0, n_prompt = 0;
  bool prompts = false;
  for (int32_t i = 0; i < plan->n_items; i++) {
    check_item(plan, i, &prompts);
    n_tokens += plan->items[i].n;
    n_prompt += prompts ? plan->items[i].n : 0;
  }
  check_generating(plan);
  if (n_tokens != plan->n_tokens || n_tokens > sim.so.step_tokens) fail("%d tokens in a plan", n_tokens);
  const int32_t tile = sim.so.step_tile, beside = n_tokens - n_prompt;
  const bool fills = n_tokens <= (beside + sim.so.chunk_tokens + tile - 1) / tile * tile;
  /* Others that were preempted for a prompt's pages leave their places in the tile empty. */
  if (beside && (n_prompt >= sim.so.chunk_tokens + tile || !(fills || plan->n_preempted)))
    fail("%d tokens of prompts beside %d others", n_prompt, beside);
  if (scheduler_n_running(sim.s) > sim.so.max_sequences) fail("%d run", scheduler_n_running(sim.s));
  if (scheduler_n_running(sim.s) + scheduler_n_waiting(sim.s) != sim.n_requests) fail("a request is lost");
  if (sim.n_requests && !plan->n_items) fail("%d requests, and nothing runs", sim.n_requests);
  check_swapped();
  totals.items += plan->n_items;
  totals.tokens += n_tokens;
}

static void check_pages(void) {
  const sequence_memory *sequences[REQUESTS_MAX];
  int32_t n = 0;
  for (int32_t i = 0; i < REQUESTS_MAX; i++)
    if (sim.requests[i].used) sequences[n++] = &sim.requests[i].r.kv;
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    const sched_request *r = &sim.requests[i].r;
    if (sim.requests[i].used && r->state == SCHED_WAITING &&
        (r->kv.n_pages || r->kv.units[0] || r->kv.has_state || r->n_computed))
      fail("a waiting request has %d pages", r->kv.n_pages);
  }
  if (layer_memory_verify(sim.memory, sequences, n) != GA_OK) fail("%s", ga_error_text());
}

/* --- a step --- */

static void take_expired(const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_expired; i++) {
    sim_request *q = plan->expired[i]->user;
    if (q->r.state != SCHED_NONE || q->r.n_ids > q->r.n_prompt || q->r.first_deadline > sim.now)
      fail("expired wrongly");
    forget_request(q);
  }
  for (int32_t i = 0; i < REQUESTS_MAX; i++) {
    const sim_request *q = &sim.requests[i];
    if (q->used && q->r.state == SCHED_WAITING && q->r.n_ids == q->r.n_prompt && q->r.first_deadline > 0 &&
        q->r.first_deadline <= sim.now && q->r.n_preempted == q->was_preempted)
      fail("a deadline has passed unseen");
  }
  totals.expired += plan->n_expired;
}

/* The tokens that follow depend on all before, so that equal requests stay equal. */
static void sample_tokens(const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_items; i++) {
    if (!plan->items[i].request || !plan->items[i].samples) continue;
    sim_request *q = plan->items[i].request->user;
    if (q->r.n_computed != q->r.n_ids) fail("%d of %d tokens are computed", q->r.n_computed, q->r.n_ids);
    put_token(q, (int32_t)(q->stamps[q->r.n_ids - 1] % (uint64_t)(sim.letters + 1)));
    if (q->r.n_ids < q->target) continue;
    totals.finished++;
    totals.cached += q->r.n_cached;
    scheduler_remove(sim.s, &q->r);
    forget_request(q);
  }
}

/* The device has failed: all requests of the step go, whatever is planned behind it. */
static void fail_step(const sched_plan *plan) {
  sim_request *failed[REQUESTS_MAX];
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].request) failed[n++] = plan->items[i].request->user;
  scheduler_failed(sim.s);
  for (int32_t i = 0; i < n; i++) {
    scheduler_remove(sim.s, &failed[i]->r);
    forget_request(failed[i]);
  }
}

/* --- steps that are enqueued ahead --- */

/* What a step does to the device, by the tables as they were when it was enqueued. */
typedef struct queued_item {
  sim_request *request;
  int32_t first, n;
  int32_t *units[KINDS];
} queued_item;

static void queue_items(const sched_plan *plan, queued_item *queued) {
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    queued[i] = (queued_item){.request = item->request->user, .first = item->first, .n = item->n};
    for (int32_t kind = 0; kind < KINDS; kind++) {
      int32_t n;
      if (!sim.po.n_units[kind]) continue;
      const int32_t *units = layer_memory_units(sim.memory, &item->request->kv, kind, &n);
      queued[i].units[kind] = malloc((size_t)n * sizeof *units);
      if (!queued[i].units[kind]) fail("no memory");
      memcpy(queued[i].units[kind], units, (size_t)n * sizeof *units);
    }
  }
}

static uint64_t *queued_slot(const queued_item *q, int32_t kind, int32_t at) {
  const int32_t size = sim.po.page_tokens, page = q->units[kind][at / size];
  if (page < 0 || page >= sim.po.n_units[kind]) fail("token %d is in page %d", at, page);
  return sim.device[kind] + (size_t)page * (size_t)size + at % size;
}

/* Tokens of requests that have ended meanwhile are garbage, and may go to pages that are cached or free. */
static void write_queued(const queued_item *q, const sched_item *item) {
  for (int32_t kind = 0; kind < KINDS; kind++)
    for (int32_t at = q->first; at < q->first + q->n && has_pages(kind); at++)
      *queued_slot(q, kind, at) = item->request ? q->request->stamps[at] : 0xdead;
  if (!sim.po.n_units[STATE]) return;
  if (item->request)
    advance_state(q->request, q->units[STATE][0], q->first, q->n);
  else
    sim.device[STATE][q->units[STATE][0]] = 0xdead;
}

static void read_queued(const queued_item *q) {
  for (int32_t kind = 0; kind < KINDS; kind++)
    for (int32_t at = first_read(kind, q->first); at < q->first + q->n && has_pages(kind); at++)
      if (*queued_slot(q, kind, at) != q->request->stamps[at])
        fail("ahead, kind %d: token %d of %d to %d is not in its page", kind, at, q->first, q->first + q->n);
}

static void run_queued(const sched_plan *plan, queued_item *queued, int32_t n) {
  for (int32_t i = 0; i < n; i++) write_queued(&queued[i], &plan->items[i]);
  for (int32_t i = 0; i < n; i++)
    if (plan->items[i].request) read_queued(&queued[i]);
  for (int32_t i = 0; i < n; i++)
    for (int32_t kind = 0; kind < KINDS; kind++) free(queued[i].units[kind]);
}

static void finish_step(const sched_plan *plan) {
  scheduler_done(sim.s);
  sample_tokens(plan);
  check_pages();
}

/* Plans the next step while the tokens of this one are not known. NULL: it waits for them. */
static const sched_plan *plan_ahead(void) {
  const sched_plan *plan;
  note_before();
  if (sim.mishaps && chance(10)) ga_mem_fail_after(draw_int(1, 6));
  scheduler_plan_ahead(sim.s, sim.now, &plan);
  ga_mem_fail_after(0);
  if (!plan) return NULL;
  take_expired(plan);
  if (plan->n_preempted) fail("%d preempted ahead", plan->n_preempted);
  if (plan->n_items && !chance(20)) return plan;
  scheduler_drop_ahead(sim.s);
  return NULL;
}

/* Behind a step, before its tokens are known, the next one is enqueued, and so on. */
static void run_ahead(const sched_plan *plan) {
  static queued_item queued[REQUESTS_MAX];
  const sched_plan *ahead;
  while (chance(4) == 0 && (ahead = plan_ahead()) != NULL) {
    const int32_t n = ahead->n_items;
    check_plan(ahead);
    check_pages();
    run_copies();
    queue_items(ahead, queued);
    if (sim.mishaps && chance(50)) { /* the step under way fails: what is behind it never runs */
      fail_step(plan);
      for (int32_t i = 0; i < n; i++)
        for (int32_t kind = 0; kind < KINDS; kind++) free(queued[i].units[kind]);
      check_pages();
      return;
    }
    finish_step(plan);
    sim.now += 1;
    while (sim.mishaps && chance(6)) cancel_one();
    if (!sim.closing && chance(3)) add_request();
    check_pages();
    run_queued(plan = ahead, queued, n);
    totals.steps++;
    totals.ahead++;
  }
  finish_step(plan);
}

static void sim_step(void) {
  const sched_plan *plan;
  note_before();
  if (sim.mishaps && chance(10)) ga_mem_fail_after(draw_int(1, 6));
  const ga_status status = scheduler_plan(sim.s, sim.now, &plan);
  ga_mem_fail_after(0);
  totals.steps++;
  if (status == GA_ERR_NOMEM) {
    totals.nomem++;
    check_pages();
    return;
  }
  if (status != GA_OK) fail("plan: %s", ga_error_text());
  take_expired(plan);
  if (!sim.mishaps || plan->n_items) check_plan(plan);
  check_preempted(plan);
  check_pages();
  run_copies();
  if (sim.mishaps && chance(25)) {
    fail_step(plan);
    check_pages();
    return;
  }
  for (int32_t i = 0; i < plan->n_items; i++) write_item(&plan->items[i], totals.steps);
  for (int32_t i = 0; i < plan->n_items; i++) read_item(&plan->items[i]);
  run_ahead(plan);
}

/* --- an episode --- */

static void draw_options(void) {
  static const int32_t sizes[] = {1, 2, 4, 8, 16};
  static const int32_t mixes[] = {1 << FULL,
                                  1 << WINDOW,
                                  1 << FULL | 1 << WINDOW,
                                  1 << STATE,
                                  1 << FULL | 1 << STATE,
                                  1 << WINDOW | 1 << STATE,
                                  1 << LATENT | 1 << STATE,
                                  1 << FULL | 1 << WINDOW | 1 << STATE,
                                  1 << FULL | 1 << LATENT | 1 << WINDOW | 1 << STATE};
  const int32_t kinds = mixes[draw_int(0, GA_COUNT_OF(mixes) - 1)], size = sizes[draw_int(0, 4)];
  sim.longest = draw_int(4, IDS_MAX);
  const int32_t fits = sim.longest / size + 1, least = chance(8) ? 1 : fits,
                most = chance(3) ? fits : fits * draw_int(1, 6);
  const int32_t window = chance(4) ? size : chance(3) ? draw_int(1, size) : draw_int(1, chance(4) ? IDS_MAX * 2 : 40);
  sim.po = memory_test_options(size, window);
  sim.po.keep_prefixes = !chance(8);
  if (kinds >> FULL & 1) sim.po.n_units[FULL] = draw_int(least, most);
  if (kinds >> LATENT & 1) sim.po.n_units[LATENT] = draw_int(least, most);
  const int32_t seen = window / size + 2;
  if (kinds >> WINDOW & 1) sim.po.n_units[WINDOW] = chance(2) ? draw_int(least, most) : draw_int(seen, seen * 4);
  if (kinds >> STATE & 1) sim.po.n_units[STATE] = draw_int(1, chance(2) ? 8 : 64);
  for (int32_t kind = 0; kind < KINDS && sim.po.keep_prefixes && chance(3) == 0; kind++)
    if (sim.po.n_units[kind]) sim.po.n_host[kind] = draw_int(0, sim.po.n_units[kind] * draw_int(1, 3));
  sim.po.offload_prefixes = chance(2);
  sim.costs = (sched_costs){draw_int(0, 3), {draw_int(0, 3 * size), draw_int(0, 3 * size), draw_int(0, 9)}};
  sim.so.max_sequences = draw_int(1, 16);
  sim.so.step_tokens = sim.so.max_sequences + draw_int(0, 60);
  sim.so.chunk_tokens = chance(4) ? 1 : draw_int(1, sim.so.step_tokens);
  sim.so.step_tile = chance(2) ? 1 : draw_int(2, 40);
  sim.micro_batches = draw_int(1, 2);
  sim.priorities = chance(2) ? 1 : 3;
  sim.letters = draw_int(1, 3);
  sim.keeps = chance(2);
  sim.mishaps = chance(2);
  sim.so.short_tokens = chance(2) ? 0 : draw_int(1, 40);
  sim.stalls = chance(2);
}

static void begin_episode(uint64_t seed) {
  memset(&sim, 0, sizeof sim);
  sim.seed = seed;
  ga_rng_seed(&sim.rng, seed);
  draw_options();
  for (int32_t f = 0; f < FAMILIES; f++)
    for (int32_t i = 0; i < IDS_MAX; i++) sim.families[f][i] = draw_int(0, sim.letters);
  if (layer_memory_create(&sim.po, &sim.memory) != GA_OK || scheduler_create(&sim.so, sim.memory, &sim.s) != GA_OK)
    fail("%s", ga_error_text());
  scheduler_set_costs(sim.s, &sim.costs);
  scheduler_set_micro_batches(sim.s, sim.micro_batches);
  scheduler_set_even(sim.s, chance(2) ? 0 : draw_int(1, sim.so.step_tokens));
  scheduler_set_alone(sim.s, chance(2) ? sim.so.step_tokens : draw_int(1, sim.so.step_tokens));
  for (int32_t kind = 0; kind < KINDS; kind++) {
    const size_t n = (size_t)sim.po.n_units[kind] + 1;
    sim.host[kind] = calloc((size_t)sim.po.n_host[kind] * (size_t)stamps_of(kind) + 1, sizeof(uint64_t));
    sim.device[kind] = calloc(n * (size_t)stamps_of(kind), sizeof(uint64_t));
    sim.written[kind] = calloc(n, sizeof(int64_t));
    if (!sim.device[kind] || !sim.host[kind] || !sim.written[kind]) fail("no memory");
  }
}

static void end_episode(void) {
  sim.mishaps = false;
  sim.closing = true;
  for (int32_t i = 0; sim.n_requests; i++) {
    if (i > STEPS_MAX) fail("%d requests do not end", sim.n_requests);
    sim_step();
    sim.now += 1;
  }
  for (int32_t kind = 0; kind < KINDS; kind++) {
    const unit_counts count = layer_memory_counts(sim.memory, kind);
    if (count.used || (!sim.po.keep_prefixes && count.cached)) fail("%d pages are held by nobody", count.used);
    free(sim.device[kind]);
    free(sim.host[kind]);
    free(sim.written[kind]);
  }
  scheduler_destroy(sim.s);
  layer_memory_destroy(sim.memory);
}

static void run_episode(uint64_t seed) {
  begin_episode(seed);
  const int32_t rate = draw_int(1, 5);
  for (int32_t i = 0; i < EPISODE_STEPS; i++) {
    for (int32_t k = chance(10) ? 10 : 1; k > 0; k--)
      if (chance(rate)) add_request();
    if (sim.mishaps && chance(20)) cancel_one();
    sim_step();
    sim.now += 1;
  }
  end_episode();
}

int main(int argc, char **argv) {
  const int64_t count = argc > 1 ? strtoll(argv[1], NULL, 10) : 50000;
  for (uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1; totals.steps < count; seed++) run_episode(seed);
  (void)printf("%lld steps, %lld of them ahead, %lld items, %lld tokens: %lld finished, %lld cancelled, %lld expired, "
               "%lld refused; "
               "%lld tokens cached, %lld copies (%lld of states), %lld units sent to the host, %lld brought back, %lld "
               "preempted, %lld "
               "of them again; %lld without memory\n",
               (long long)totals.steps, (long long)totals.ahead, (long long)totals.items, (long long)totals.tokens,
               (long long)totals.finished, (long long)totals.cancelled, (long long)totals.expired,
               (long long)totals.refused, (long long)totals.cached, (long long)totals.copies, (long long)totals.states,
               (long long)totals.sent, (long long)totals.brought, (long long)totals.preempted, (long long)totals.again,
               (long long)totals.nomem);
  return 0;
}
