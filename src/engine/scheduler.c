#include "engine/scheduler.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/sched_queue.h"

/* One page in so many is left to the running ones when a request is admitted, and one more. */
#define SPARE_PAGES 100
/* A prompt of more than so many steps is long, and leaves one part in so many of a step's budget to others. */
#define LONG_STEPS           2
#define VERY_LONG_STEPS      8
#define SHARE_OF_OTHERS      4
#define SHARE_OF_OTHERS_EVEN 2

/* A waiting request for which there were too few pages. */
typedef struct sched_block {
  sched_request *request;          /* NULL: none */
  int32_t until[MEMORY_KINDS_MAX]; /* it cannot run before so many pages are to spare */
} sched_block;

/* The queue's head, and the first short request behind it. */
enum { BLOCKED_HEAD, BLOCKED_SHORT, BLOCKS };

struct scheduler {
  sched_options options;
  int32_t alone_tokens; /* most prompt tokens of a step in which no request generates */
  layer_memory *memory;
  sched_queue queue;
  sched_list running; /* by priority, then by when they began */
  int32_t n_running, n_swapped;
  int32_t even_rows, micro_batches;
  bool is_even;     /* the plan */
  bool takes_drawn; /* the plan may have requests whose newest token is still being drawn */
  sched_costs costs;
  double now;            /* of the last plan */
  sched_request *cursor; /* where a loop over running goes on: moves when that one leaves */
  sched_plan plans[2];
  sched_plan *plan;   /* the newest */
  sched_plan *before; /* its step is under way, and `plan` is planned ahead; NULL: no step is ahead */
  bool under_way;     /* between _plan and _done: requests of `plan` know how many of their tokens are in it */
  bool lacks_pages;   /* the plan ahead */
  sched_request **expired;
  int32_t expired_room;
  sched_block blocks[BLOCKS];
};

/* --- making and freeing --- */

ga_status scheduler_create(const sched_options *options, layer_memory *memory, scheduler **out) {
  const sched_options o = *options;
  ga_status status;
  void *p;
  *out = NULL;
  GA_REQUIRE(o.max_sequences > 0, GA_ERR_ARG, "scheduler: max_sequences = %d; must be at least 1", o.max_sequences);
  GA_REQUIRE(o.step_tokens >= o.max_sequences, GA_ERR_ARG,
             "scheduler: step_tokens = %d; must be at least max_sequences, %d", o.step_tokens, o.max_sequences);
  GA_REQUIRE(o.chunk_tokens > 0 && o.chunk_tokens <= o.step_tokens, GA_ERR_ARG,
             "scheduler: chunk_tokens = %d; must be 1 to step_tokens, %d", o.chunk_tokens, o.step_tokens);
  GA_REQUIRE(o.step_tile > 0, GA_ERR_ARG, "scheduler: step_tile = %d; must be at least 1", o.step_tile);
  GA_REQUIRE(o.short_tokens >= 0, GA_ERR_ARG, "scheduler: short_tokens = %d; must be at least 0", o.short_tokens);
  GA_TRY(ga_mem_zalloc(1, sizeof(scheduler), "scheduler", &p));
  scheduler *s = p;
  s->options = o;
  s->memory = memory;
  s->micro_batches = 1;
  s->alone_tokens = o.step_tokens;
  GA_TRY_OUT(sched_queue_init(&s->queue));
  s->plan = &s->plans[0];
  for (int i = 0; i < 2; i++) {
    GA_TRY_OUT(ga_mem_zalloc((size_t)o.max_sequences, sizeof *s->plan->items, "plan of a step", &p));
    s->plans[i].items = p;
  }
  *out = s;
  return GA_OK;
out:
  scheduler_destroy(s);
  return status;
}

void scheduler_destroy(scheduler *s) {
  if (!s) return;
  sched_queue_free(&s->queue);
  for (int i = 0; i < 2; i++) ga_mem_free(s->plans[i].items);
  ga_mem_free(s->expired);
  ga_mem_free(s);
}

sched_request *scheduler_next(scheduler *s) { return sched_queue_head(&s->queue); }
int32_t scheduler_n_waiting(const scheduler *s) { return s->queue.n_waiting; }
int32_t scheduler_n_running(const scheduler *s) { return s->n_running; }
int32_t scheduler_n_swapped(const scheduler *s) { return s->n_swapped; }

/* --- coming and going --- */

/* Any of n requests may expire: plans need no memory for that. */
static ga_status reserve_expired(scheduler *s, int32_t n) {
  void *p;
  if (n <= s->expired_room) return GA_OK;
  const int32_t room = (int32_t)ga_max_i64(n, ga_min_i64((int64_t)s->expired_room * 2, INT32_MAX));
  GA_TRY(ga_mem_zalloc((size_t)room, sizeof(sched_request *), "plan of a step", &p));
  ga_mem_free(s->expired);
  s->expired = s->plans[0].expired = s->plans[1].expired = p;
  s->expired_room = room;
  return GA_OK;
}

/* Tokens to evaluate of a short prompt; 0: it is not short. */
static int32_t short_tokens_of(const scheduler *s, const sched_request *request) {
  const int32_t most = s->options.short_tokens;
  int32_t n = request->n_ids;
  if (most && n > most && request->use_prefix) n -= layer_memory_peek(s->memory, request->cache_key, request->ids, n);
  return n <= most ? n : 0;
}

ga_status scheduler_add(scheduler *s, sched_request *request) {
  GA_REQUIRE(request->state == SCHED_NONE, GA_ERR_STATE, "scheduler: the request is here already");
  GA_REQUIRE(request->n_ids > 0 && request->n_prompt > 0 && request->n_prompt <= request->n_ids &&
                 request->n_ids <= request->max_ids,
             GA_ERR_ARG, "scheduler: a prompt of %d tokens, %d in all, %d at most; must be at least 1 and rise",
             request->n_prompt, request->n_ids, request->max_ids);
  if (!layer_memory_fits(s->memory, request->max_ids)) {
    char all[256];
    layer_memory_describe(s->memory, all, sizeof all);
    return ga_fail(GA_ERR_SHAPE, "scheduler: a request of up to %d tokens; layer memory has %s", request->max_ids, all);
  }
  memset(&request->kv, 0, sizeof request->kv);
  request->n_computed = request->n_preempted = request->n_ids_resumed = request->n_found = request->n_planned = 0;
  request->n_reached = request->n_under_way = request->n_drawn = 0;
  request->is_swapped = request->is_left_out = false;
  request->n_cached = -1;
  request->n_short = short_tokens_of(s, request);
  request->served = 0;
  request->lane = NULL;
  request->next = request->prev = NULL;
  GA_TRY(reserve_expired(s, s->queue.n_requests + 1));
  GA_TRY(sched_queue_add(&s->queue, request));
  request->state = SCHED_WAITING;
  return GA_OK;
}

static void start_running(scheduler *s, sched_request *request) {
  sched_request *after = s->running.last;
  while (after && after->priority > request->priority) after = after->prev;
  sched_list_put(&s->running, request, after ? after->next : s->running.first);
  request->state = SCHED_RUNNING;
  s->n_running++;
}

/* Its pages are the caller's to give back. */
static void stop_running(scheduler *s, sched_request *request) {
  if (s->cursor == request) s->cursor = request->next;
  sched_list_take(&s->running, request);
  s->n_running--;
}

static void no_longer_swapped(scheduler *s, sched_request *request) {
  s->n_swapped -= request->is_swapped;
  request->is_swapped = false;
}

static release_policy policy_of(const scheduler *s, const sched_request *request) {
  const double seconds = request->keep_seconds;
  return (release_policy){.keep_until = seconds > 0 ? s->now + seconds : 0, .discard = seconds < 0};
}

static void leave_running(scheduler *s, sched_request *request) {
  stop_running(s, request);
  release_policy policy = policy_of(s, request);
  policy.n_beyond = request->n_under_way + (s->under_way ? request->n_planned : 0);
  layer_memory_release_as(s->memory, request->cache_key, &request->kv, request->ids, request->n_computed, &policy);
  request->n_computed = request->n_planned = request->n_under_way = request->n_drawn = 0;
}

/* One that was preempted has left its pages as if it came back. */
static void leave_waiting(scheduler *s, sched_request *request) {
  const release_policy policy = policy_of(s, request);
  sched_queue_take(&s->queue, request);
  if (request->n_preempted)
    layer_memory_abandon(s->memory, request->cache_key, request->ids, request->n_reached, &policy);
}

static void leave_plan(sched_plan *plan, const sched_request *request) {
  for (int32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].request == request) plan->items[i].request = NULL;
}

void scheduler_remove(scheduler *s, sched_request *request) {
  if (request->state == SCHED_NONE) return;
  if (request->n_planned && s->under_way) leave_plan(s->plan, request);
  if (request->n_under_way) leave_plan(s->before, request);
  if (request->state == SCHED_RUNNING)
    leave_running(s, request);
  else
    leave_waiting(s, request);
  sched_queue_leave(&s->queue, request);
  for (int i = 0; i < BLOCKS; i++)
    if (s->blocks[i].request == request) s->blocks[i].request = NULL;
  no_longer_swapped(s, request);
  request->state = SCHED_NONE;
}

static void note_time(scheduler *s, double now) {
  s->now = now;
  layer_memory_expire(s->memory, now);
  for (sched_request *request; (request = sched_queue_expired(&s->queue, now)) != NULL;) {
    scheduler_remove(s, request);
    s->expired[s->plan->n_expired++] = request;
  }
}

/* --- pages for running requests --- */

/* Tokens that are evaluated once all steps under way are done, and how many there are then. */
static int32_t reached_of(const sched_request *request) { return request->n_computed + request->n_under_way; }
static int32_t length_of(const sched_request *request) { return request->n_ids + request->n_drawn; }
static int32_t left_of(const sched_request *request) { return length_of(request) - reached_of(request); }
/* The token that is being drawn is its last one. */
static bool is_ending(const sched_request *request) {
  return request->n_drawn && length_of(request) >= request->max_ids;
}

static bool may_be_preempted(const sched_request *request) {
  return request->n_preempted == 0 || request->n_ids > request->n_ids_resumed;
}

/* Tokens that it has computed since it began to run: most of their pages become free to take. */
static int32_t loss_of(const sched_request *request) { return request->n_computed - request->n_found; }

static bool better_victim(const sched_request *a, const sched_request *b) {
  if (may_be_preempted(a) != may_be_preempted(b)) return may_be_preempted(a);
  if (a->priority != b->priority) return a->priority > b->priority;
  return loss_of(a) < loss_of(b);
}

/* For a request that lacks pages: one that is no more urgent, itself too. less_urgent: only one that is less so. */
static sched_request *choose_victim(const scheduler *s, const sched_request *for_one, bool less_urgent) {
  sched_request *best = NULL;
  for (sched_request *r = s->running.last; r && r->priority >= for_one->priority; r = r->prev) {
    if (less_urgent && r->priority == for_one->priority) break;
    if (!best || better_victim(r, best)) best = r;
  }
  return best;
}

/* Would copying what it has computed, there and back, take less time than computing it again? */
static bool swap_is_cheaper(const scheduler *s, const sched_request *request) {
  double copies = 0;
  for (int32_t kind = 0; kind < layer_memory_n_kinds(s->memory); kind++) {
    int32_t n, n_held = 0;
    const int32_t *units = layer_memory_units(s->memory, &request->kv, kind, &n);
    for (int32_t i = 0; i < n && units; i++) n_held += units[i] != MEMORY_NO_UNIT;
    copies += n_held * s->costs.unit[kind];
  }
  return !(s->costs.token > 0) || copies < request->n_computed * s->costs.token;
}

static bool has_host_units(const scheduler *s) {
  int32_t n = 0;
  for (int32_t kind = 0; kind < layer_memory_n_kinds(s->memory); kind++)
    n += layer_memory_counts(s->memory, kind).host_total;
  return n > 0;
}

static void preempt(scheduler *s, sched_request *request) {
  request->is_swapped = has_host_units(s) && swap_is_cheaper(s, request);
  request->n_reached = request->n_computed;
  s->n_swapped += request->is_swapped;
  stop_running(s, request);
  const release_policy policy = {.swap = request->is_swapped};
  layer_memory_release_as(s->memory, request->cache_key, &request->kv, request->ids, request->n_computed, &policy);
  request->n_computed = request->n_planned = 0;
  request->n_preempted++;
  request->state = SCHED_WAITING;
  sched_queue_resume(&s->queue, request);
  s->plan->n_preempted++;
  for (int i = 0; i < BLOCKS; i++) s->blocks[i].request = NULL;
}

/* Makes room for one more token of a running request. false: it has to wait, or has been preempted itself. */
static bool make_room(scheduler *s, sched_request *request, bool less_urgent) {
  while (!layer_memory_has_room(s->memory, &request->kv, reached_of(request) + 1)) {
    if (s->before) {
      s->lacks_pages = true;
      return false;
    }
    sched_request *victim = choose_victim(s, request, less_urgent);
    if (!victim || s->n_running == 1) return false;
    preempt(s, victim);
    if (victim == request) return false;
  }
  return true;
}

/* Pages for the first n of the tokens that are left. */
static ga_status plan_tokens(scheduler *s, sched_request *request, int32_t n) {
  GA_TRY(layer_memory_extend(s->memory, &request->kv, reached_of(request) + n));
  layer_memory_snapshot(s->memory, &request->kv, reached_of(request));
  request->n_planned = n;
  return GA_OK;
}

/* The most requests that generate in the plan: an equal share for each micro-batch, so that the step under way and the
 * next one have all of them in turn; or those that the plan before left out, if they are more. */
static int32_t share_of_decodes(const scheduler *s) {
  int32_t n = 0, n_left_out = 0;
  for (const sched_request *r = s->running.first; r; r = r->next) {
    if (left_of(r) != 1 || is_ending(r)) continue;
    n++;
    n_left_out += r->is_left_out;
  }
  return (int32_t)ga_max_i64((n + s->micro_batches - 1) / s->micro_batches, n_left_out);
}

/* Does any request wait for a place that there is? One that waits for pages does not count. */
static bool is_next_admissible(const scheduler *s) {
  return s->queue.n_waiting && !s->blocks[BLOCKED_HEAD].request && s->n_running < s->options.max_sequences;
}

/* Could the next step have anything but requests whose newest token is still being drawn? */
static bool has_other_work(const scheduler *s) {
  for (const sched_request *r = s->running.first; r; r = r->next)
    if (!r->n_drawn && left_of(r) > 0) return true;
  return is_next_admissible(s);
}

/* May the request be in the plan as one that generates? */
static bool may_generate(const scheduler *s, const sched_request *r) {
  return left_of(r) == 1 && !is_ending(r) && (!r->n_drawn || s->takes_drawn);
}

/* Takes up to *room requests that generate into the plan: those that the plan before left out, or the others. */
static ga_status plan_share(scheduler *s, bool left_out, int32_t *room) {
  for (sched_request *r = s->running.first; r && *room > 0; r = s->cursor) {
    s->cursor = r->next;
    if (r->is_left_out != left_out || r->n_planned || !may_generate(s, r) || !make_room(s, r, false)) continue;
    GA_TRY(plan_tokens(s, r, 1));
    --*room;
  }
  return GA_OK;
}

/* Requests that generate. Their number. */
static ga_status plan_decodes(scheduler *s, int32_t *n_decodes) {
  int32_t room = share_of_decodes(s);
  GA_TRY(plan_share(s, true, &room));
  GA_TRY(plan_share(s, false, &room));
  *n_decodes = 0;
  for (sched_request *r = s->running.first; r; r = r->next) {
    *n_decodes += r->n_planned;
    r->is_left_out = s->micro_batches > 1 && may_generate(s, r) && !r->n_planned;
  }
  return GA_OK;
}

/* Does any request behind this one read, or wait for a place that there is? */
static bool others_read(const scheduler *s, const sched_request *request) {
  for (const sched_request *r = request->next; r; r = r->next)
    if (left_of(r) > 1) return true;
  return is_next_admissible(s);
}

/* A prompt of many more steps leaves some of each to those behind it, so that they need not wait for its end. */
static int32_t share_of_budget(const scheduler *s, const sched_request *request, int32_t budget) {
  if (left_of(request) / LONG_STEPS <= budget || !others_read(s, request)) return budget;
  return budget - budget / (s->is_even ? SHARE_OF_OTHERS_EVEN : SHARE_OF_OTHERS);
}

/* Running requests that still read at most `longest` tokens, while the budget lasts. One that gets no page waits, as
 * long as another goes on. */
static ga_status plan_prompts(scheduler *s, int32_t longest, bool *others, int32_t *budget) {
  for (sched_request *r = s->running.first; r && *budget > 0; r = s->cursor) {
    s->cursor = r->next;
    if (left_of(r) <= 1 || left_of(r) > longest || r->n_planned || !make_room(s, r, *others)) continue;
    const int64_t room = layer_memory_room(s->memory, &r->kv) - reached_of(r);
    const int32_t share = share_of_budget(s, r, *budget);
    const int32_t most = (int32_t)ga_min_i64(ga_min_i64(left_of(r), share), room);
    const int32_t n = layer_memory_chunk(s->memory, reached_of(r), most);
    GA_TRY(plan_tokens(s, r, n));
    *budget -= n;
    *others = true;
  }
  return GA_OK;
}

/* --- the plan --- */

static void list_item(scheduler *s, sched_request *request) {
  const int32_t first = reached_of(request), n = request->n_planned;
  s->plan->items[s->plan->n_items++] = (sched_item){request, first, n, first + n == length_of(request)};
  s->plan->n_tokens += n;
  sched_queue_charge(request, first + n);
}

/* First those that generate; ahead, of these first those of the step before, in its order: their tokens lie there. */
static void list_items(scheduler *s) {
  for (int32_t i = 0; s->before && i < s->before->n_items; i++) {
    sched_request *r = s->before->items[i].request;
    if (r && r->n_planned && left_of(r) == 1) list_item(s, r);
  }
  for (sched_request *r = s->running.first; r; r = r->next)
    if (r->n_planned && left_of(r) == 1 && !r->n_under_way) list_item(s, r);
  for (sched_request *r = s->running.first; r; r = r->next)
    if (r->n_planned && left_of(r) > 1) list_item(s, r);
}

/* Pages that can be had, less a few for the running ones. A running prompt that lacks any has been given all there are
 * before: none is to spare then. */
static void units_to_spare(const scheduler *s, int32_t spare[MEMORY_KINDS_MAX]) {
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    const unit_counts count = layer_memory_counts(s->memory, kind);
    spare[kind] = count.total - count.used - (s->n_running ? count.total / SPARE_PAGES + 1 : 0);
    if (!count.total) spare[kind] = INT32_MAX; /* none is needed */
  }
}

/* Are there pages for the request, whose prefix has been matched? No: it is blocked. */
static bool has_pages_for(const scheduler *s, sched_request *request, const int32_t before[MEMORY_KINDS_MAX],
                          sched_block *block) {
  const int64_t next_page = layer_memory_page_tokens(s->memory);
  const int32_t length = (int32_t)ga_min_i64(request->n_ids + next_page, request->max_ids);
  int32_t need[MEMORY_KINDS_MAX], spare[MEMORY_KINDS_MAX];
  bool fits = true;
  units_to_spare(s, spare);
  layer_memory_need(s->memory, &request->kv, length, 1, need);
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) {
    const int32_t lack = need[kind] > spare[kind] ? need[kind] - spare[kind] : 0;
    block->until[kind] = lack ? before[kind] + lack : INT32_MIN;
    fits = fits && !lack;
  }
  if (!s->n_running) return true; /* it may have all */
  if (!fits) block->request = request;
  return fits;
}

/* Tokens that the request, which has all that was found, can begin with; 0: it has to wait. */
static int32_t admissible(const scheduler *s, const sched_request *request, int32_t budget) {
  const int32_t left = request->n_ids - request->n_found;
  int32_t spare[MEMORY_KINDS_MAX];
  units_to_spare(s, spare);
  const int64_t length = s->n_running ? layer_memory_room_within(s->memory, &request->kv, spare)
                                      : layer_memory_room(s->memory, &request->kv);
  const int64_t most = ga_min_i64(ga_min_i64(left, budget), length - request->n_found);
  return most > 0 ? layer_memory_chunk(s->memory, request->n_found, (int32_t)most) : 0;
}

/* Tokens among which it may look for a kept prefix. One that wants to see its whole prompt has seen what it had
 * evaluated before it was preempted. */
static int32_t n_to_match(const sched_request *request) {
  if (request->use_prefix) return request->n_ids;
  return request->n_preempted ? request->n_reached + 1 : 0;
}

/* Are pages still lacking of those that the blocked request needs? */
static bool still_blocked(const scheduler *s, const sched_block *block) {
  int32_t spare[MEMORY_KINDS_MAX];
  units_to_spare(s, spare);
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++)
    if (s->n_running && spare[kind] < block->until[kind]) return true;
  return false;
}

/* Gives the request what is kept of its tokens, if there are pages for the others, too. 0: it has to wait. */
static ga_status take_prefix(scheduler *s, sched_request *request, int32_t budget, sched_block *block, int32_t *n) {
  int32_t spare[MEMORY_KINDS_MAX];
  prefix_match found;
  *n = 0;
  units_to_spare(s, spare);
  GA_TRY(layer_memory_reserve(s->memory, &request->kv, request->max_ids));
  GA_TRY(layer_memory_match(s->memory, request->cache_key, request->ids, n_to_match(request), &request->kv, &found));
  if (!has_pages_for(s, request, spare, block)) return GA_OK;
  layer_memory_load(s->memory, &request->kv, &found);
  request->n_found = found.tokens;
  *n = admissible(s, request, budget);
  return GA_OK;
}

/* Begins to run the request, if there is room: *admitted tokens of it. */
static ga_status admit_one(scheduler *s, sched_request *request, int32_t budget, sched_block *block,
                           int32_t *admitted) {
  *admitted = 0;
  if (block->request == request && still_blocked(s, block)) return GA_OK;
  block->request = NULL;
  int32_t n;
  GA_TRY(take_prefix(s, request, budget, block, &n));
  if (n < 1) {
    layer_memory_release(s->memory, request->cache_key, &request->kv, NULL, 0);
    return GA_OK;
  }
  request->n_computed = request->n_found;
  GA_TRY(plan_tokens(s, request, n));
  sched_queue_take(&s->queue, request);
  no_longer_swapped(s, request);
  if (request->n_cached < 0) request->n_cached = (int32_t)ga_min_i64(request->n_found, request->n_prompt);
  request->n_ids_resumed = request->n_ids;
  start_running(s, request);
  list_item(s, request);
  *admitted = n;
  return GA_OK;
}

/* Returns the first short request that may run now; NULL: none. It is as urgent as all that read or wait. It leaves the
 * last place to the queue's head, and while the head waits for pages, others must not take them. */
static sched_request *next_short(scheduler *s) {
  const int32_t places = s->options.max_sequences - s->n_running;
  if (!s->options.short_tokens || s->blocks[BLOCKED_HEAD].request) return NULL;
  const sched_request *r = s->running.first, *head = sched_queue_head(&s->queue);
  sched_request *brief = sched_queue_short(&s->queue);
  if (!brief || places < 1 + (brief != head) || brief->priority > head->priority) return NULL;
  if (s->blocks[BLOCKED_SHORT].request == brief && still_blocked(s, &s->blocks[BLOCKED_SHORT])) return NULL;
  while (r && left_of(r) <= 1) r = r->next;
  return !r || brief->priority <= r->priority ? brief : NULL;
}

/* The request that is admitted next, and how many of the budget's tokens it may have: a short one that is not the
 * queue's head has only what is left of its kind's share. NULL: none. */
static sched_request *next_to_admit(scheduler *s, int32_t short_budget, int32_t *most) {
  sched_request *head = sched_queue_head(&s->queue), *brief = next_short(s);
  if (!brief || brief == head || !short_budget) return head;
  *most = (int32_t)ga_min_i64(*most, short_budget);
  return brief;
}

/* budget: tokens for all requests; short_budget: how many of them are for short requests first. */
static ga_status admit_requests(scheduler *s, int32_t budget, int32_t short_budget) {
  while (budget > 0 && s->n_running < s->options.max_sequences) {
    int32_t most = budget, n;
    sched_request *request = next_to_admit(s, short_budget, &most);
    if (!request) break;
    const bool is_head = request == sched_queue_head(&s->queue);
    const ga_status status = admit_one(s, request, most, &s->blocks[is_head ? BLOCKED_HEAD : BLOCKED_SHORT], &n);
    if (status != GA_OK) {
      layer_memory_release(s->memory, request->cache_key, &request->kv, NULL, 0);
      return status;
    }
    if (!n && is_head) break;
    budget -= n;
    short_budget = n && request->n_short ? (int32_t)ga_max_i64(0, short_budget - n) : n ? short_budget : 0;
  }
  return GA_OK;
}

static void empty_plan(sched_plan *plan) { plan->n_items = plan->n_tokens = plan->n_expired = plan->n_preempted = 0; }

/* Empties the newest plan, whose step does not run. */
static void forget_items(const scheduler *s) {
  for (int32_t i = 0; i < s->plan->n_items; i++) {
    sched_request *r = s->plan->items[i].request;
    if (!r) continue;
    r->n_planned = 0;
    r->is_left_out = s->micro_batches > 1;
  }
  s->plan->n_items = s->plan->n_tokens = 0;
}

static void clear_plan(scheduler *s) {
  if (s->under_way) forget_items(s);
  s->under_way = false;
  empty_plan(s->plan);
}

/* Beside tokens that are generated: the chunk, and what the last tile of rows has room for. */
static int32_t prompt_budget(const sched_options *o, int32_t n_decodes, int32_t alone_tokens) {
  const int64_t tokens = (int64_t)n_decodes + o->chunk_tokens, tile = o->step_tile;
  const int64_t filled = ga_min_i64((tokens + tile - 1) / tile * tile, o->step_tokens);
  return n_decodes ? (int32_t)filled - n_decodes : alone_tokens;
}

/* The longest prompt among those behind `request` that read, and the next one that waits for a place. */
static int32_t longest_behind(scheduler *s, const sched_request *request) {
  int32_t most = 0;
  for (const sched_request *r = request->next; r; r = r->next) most = (int32_t)ga_max_i64(most, left_of(r));
  const sched_request *next = others_read(s, request) ? sched_queue_head(&s->queue) : NULL;
  return next ? (int32_t)ga_max_i64(most, left_of(next)) : most;
}

/* Is one long prompt read by itself, or one that takes very long beside short ones? Then its tokens need not come at
 * the cost of even steps. */
static bool reads_alone(scheduler *s, int32_t budget) {
  const sched_request *r = s->running.first;
  while (r && left_of(r) <= 1) r = r->next;
  if (!r || left_of(r) / LONG_STEPS <= budget) return false;
  return !others_read(s, r) || (left_of(r) / VERY_LONG_STEPS > budget && longest_behind(s, r) / LONG_STEPS <= budget);
}

/* Preempts stalled requests as long as others wait for their places, or the queue's head for their pages. */
static void yield_stalled(scheduler *s) {
  const sched_request *head = s->blocks[BLOCKED_HEAD].request;
  int32_t n = sched_queue_n_eager(&s->queue) - (s->options.max_sequences - s->n_running);
  if (n <= 0) n = head && !head->is_stalled;
  for (sched_request *r = s->running.last, *before; r && n > 0; r = before) {
    before = r->prev;
    if (!r->is_stalled || !may_be_preempted(r)) continue;
    if (s->before) { /* the next plan may */
      s->lacks_pages = true;
      return;
    }
    preempt(s, r);
    n--;
  }
}

/* Fills the empty plan. One that fails on the way leaves pages with their requests, which take them up again. */
static ga_status plan_step(scheduler *s, double now) {
  int32_t n_decodes;
  for (sched_request *r = s->running.first; r; r = r->next) r->n_planned = 0;
  note_time(s, now);
  yield_stalled(s);
  s->takes_drawn = s->micro_batches == 1 || !has_other_work(s);
  GA_TRY(plan_decodes(s, &n_decodes));
  int32_t budget = prompt_budget(&s->options, n_decodes, s->alone_tokens);
  s->is_even = n_decodes && s->even_rows > n_decodes && reads_alone(s, budget);
  if (s->is_even) budget = (int32_t)ga_min_i64(budget, s->even_rows - n_decodes);
  int32_t for_short = s->options.short_tokens ? budget / 2 : 0;
  budget -= for_short;
  bool others = n_decodes > 0;
  GA_TRY(plan_prompts(s, s->options.short_tokens, &others, &for_short));
  const int32_t held = next_short(s) ? sched_queue_short_tokens(&s->queue, for_short) : 0;
  budget += for_short - held; /* none takes that part of the share */
  GA_TRY(plan_prompts(s, INT32_MAX, &others, &budget));
  budget += held;
  list_items(s);
  /* Pages that a preempted request has just left are for those that needed them. */
  if (s->plan->n_preempted && s->plan->n_items) return GA_OK;
  const ga_status status = admit_requests(s, budget, held);
  return status != GA_OK && !s->plan->n_items && !s->plan->n_expired ? status : GA_OK;
}

ga_status scheduler_plan(scheduler *s, double now, const sched_plan **out) {
  *out = NULL;
  if (s->before) scheduler_drop_ahead(s);
  clear_plan(s);
  GA_TRY(plan_step(s, now));
  s->under_way = true;
  *out = s->plan;
  return GA_OK;
}

void scheduler_plan_ahead(scheduler *s, double now, const sched_plan **out) {
  *out = NULL;
  if (!s->under_way || s->before) return;
  s->before = s->plan;
  s->plan = s->plan == &s->plans[0] ? &s->plans[1] : &s->plans[0];
  empty_plan(s->plan);
  for (int32_t i = 0; i < s->before->n_items; i++) {
    const sched_item *item = &s->before->items[i];
    if (!item->request) continue;
    item->request->n_under_way = item->n;
    item->request->n_drawn = item->samples;
  }
  s->lacks_pages = false;
  if (plan_step(s, now) != GA_OK || s->lacks_pages) forget_items(s); /* the next plan tells */
  if (s->plan->n_items || s->plan->n_expired)
    *out = s->plan;
  else
    scheduler_drop_ahead(s);
}

void scheduler_drop_ahead(scheduler *s) {
  if (!s->before) return;
  forget_items(s);
  s->plan = s->before;
  s->before = NULL;
  for (int32_t i = 0; i < s->plan->n_items; i++) {
    const sched_item *item = &s->plan->items[i];
    if (!item->request) continue;
    item->request->n_planned = item->n;
    item->request->n_under_way = item->request->n_drawn = 0;
  }
}

void scheduler_done(scheduler *s) {
  const sched_plan *plan = s->before ? s->before : s->plan;
  for (int32_t i = 0; i < plan->n_items && s->under_way; i++) {
    sched_request *r = plan->items[i].request;
    if (!r) continue;
    if (!s->before) r->n_planned = 0;
    r->n_under_way = r->n_drawn = 0;
    r->n_computed += plan->items[i].n;
    layer_memory_computed(s->memory, r->cache_key, &r->kv, r->ids, r->n_computed);
  }
  s->under_way = s->before != NULL;
  s->before = NULL;
}

void scheduler_failed(scheduler *s) {
  scheduler_drop_ahead(s);
  for (int32_t i = 0; i < s->plan->n_items && s->under_way; i++)
    if (s->plan->items[i].request) s->plan->items[i].request->n_computed = 0; /* nothing of it is kept */
  clear_plan(s);
}

void scheduler_set_micro_batches(scheduler *s, int32_t n) { s->micro_batches = n; }

void scheduler_set_alone(scheduler *s, int32_t tokens) { s->alone_tokens = tokens; }

void scheduler_set_even(scheduler *s, int32_t rows) { s->even_rows = rows; }

void scheduler_set_costs(scheduler *s, const sched_costs *costs) { s->costs = *costs; }

void scheduler_set_chunk(scheduler *s, int32_t chunk_tokens) { s->options.chunk_tokens = chunk_tokens; }
