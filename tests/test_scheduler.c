/* The scheduler's rules, one by one. tests/schedule_steps.c has what comes of many random steps. */
#include "base/rng.h"
#include "tests/scheduler_rig.h"

static void bad_budgets_are_refused(void **state) {
  (void)state;
  static const sched_options bad[] = {{0, 8, 4, 1, 0}, {9, 8, 4, 1, 0}, {4, 8, 0, 1, 0},
                                      {4, 8, 9, 1, 0}, {4, 8, 4, 0, 0}, {4, 8, 4, 1, -1}};
  open_with(8, 1, 1, 1);
  for (size_t i = 0; i < GA_COUNT_OF(bad); i++) {
    scheduler *none;
    assert_int_equal(scheduler_create(&bad[i], memory, &none), GA_ERR_ARG);
    assert_null(none);
  }
  scheduler_destroy(NULL);
  close_all();
}

static void requests_that_generate_come_first(void **state) {
  (void)state;
  open_with(100, 4, 64, 8);
  sched_request *a = add(0, 6, 20), *b = add(1, 20, 40);
  make_plan();
  assert_int_equal(plan->n_items, 2); /* nothing generates: the whole budget is for prompts */
  expect_item(0, a, 0, 6, true);
  expect_item(1, b, 0, 20, true);
  assert_int_equal(plan->n_tokens, 26);
  finish_plan();
  sched_request *c = add(2, 20, 40);
  make_plan();
  expect_item(0, a, 6, 1, true);
  expect_item(1, b, 20, 1, true);
  expect_item(2, c, 0, 8, false); /* a chunk */
  finish_plan();
  make_plan();
  expect_item(2, c, 8, 8, false);
  finish_plan();
  make_plan();
  expect_item(2, c, 16, 4, true);
  finish_plan();
  make_plan();
  expect_item(2, c, 20, 1, true);
  finish_plan();
  close_all();
}

/* A full house that goes on ahead still tells those whose time is over. */
static void deadlines_count_while_steps_go_ahead(void **state) {
  (void)state;
  open_with(100, 1, 64, 64);
  sched_request *a = add(0, 6, 30);
  step();
  sched_request *b = prepare(1, 4, 20);
  b->first_deadline = now + 2;
  assert_int_equal(scheduler_add(s, b), GA_OK);
  make_plan();
  for (int i = 0; i < 3; i++) {
    go_ahead();
    expect_item(0, a, 7 + i, 1, true);
    assert_int_equal(plan->n_expired, i == 1);
  }
  assert_int_equal(b->state, SCHED_NONE);
  finish_plan();
  close_all();
}

/* Prompts go on, begin and end in steps that are planned before the tokens of the one before are known. */
static void steps_with_prompts_go_ahead(void **state) {
  (void)state;
  open_with(100, 3, 64, 8);
  sched_request *a = add(0, 6, 60), *b = add(1, 3, 5), *c = add(2, 20, 60);
  step();
  make_plan(); /* a and b generate, and c, whose prompt has been read in one step */
  expect_item(1, b, 3, 1, true);
  sched_request *d = add(3, 10, 60);
  go_ahead();
  assert_int_equal(plan->n_items, 2); /* b has its last token then, but its place is not free yet */
  expect_item(0, a, 7, 1, true);
  expect_item(1, c, 21, 1, true);
  scheduler_remove(s, b);
  go_ahead();
  expect_item(0, a, 8, 1, true);
  expect_item(2, d, 0, 8, false);
  scheduler_remove(s, a); /* while its token is being drawn */
  assert_null(plan->items[0].request);
  go_ahead();
  expect_item(0, c, 23, 1, true);
  expect_item(1, d, 8, 2, true);
  go_ahead();
  scheduler_plan_ahead(s, now, &(const sched_plan *){NULL});
  scheduler_drop_ahead(s);
  take_tokens();
  make_plan(); /* the same, anew */
  expect_item(0, c, 25, 1, true);
  expect_item(1, d, 11, 1, true);
  finish_plan();
  close_all();
}

/* The head of the line does not hold up those behind it. */
static void a_long_prompt_lets_others_pass(void **state) {
  (void)state;
  open_with(100, 4, 64, 8);
  (void)add(0, 6, 60);
  step();
  sched_request *b = add(1, 60, 70);
  make_plan();
  expect_item(1, b, 0, 8, false); /* nobody waits behind it */
  finish_plan();
  sched_request *c = add(2, 3, 20);
  make_plan();
  expect_item(1, b, 8, 6, false);
  expect_item(2, c, 0, 2, false); /* a quarter of the chunk */
  finish_plan();
  make_plan();
  expect_item(1, c, 2, 1, true);
  expect_item(2, b, 14, 8, false);
  finish_plan();
  while (b->n_computed < 44) step(); /* two steps are left to it: it goes first */
  sched_request *d = add(3, 10, 20);
  make_plan();
  expect_item(2, b, b->n_computed, 8, false);
  assert_int_equal(plan->n_items, 3);
  assert_int_equal(d->state, SCHED_WAITING);
  finish_plan();
  close_all();
}

static void a_long_prompt_alone_leaves_steps_even(void **state) {
  (void)state;
  open_tiled(200, 4, 64, 32, 32);
  scheduler_set_even(s, 12);
  (void)add(0, 6, 60);
  step();
  sched_request *b = add(1, 300, 310);
  make_plan();
  expect_item(1, b, 0, 63, false); /* when it comes it waits itself */
  finish_plan();
  make_plan();
  expect_item(1, b, 63, 11, false);
  finish_plan();
  sched_request *c = add(2, 2, 9); /* somebody waits behind it: the whole budget, and a share of it */
  make_plan();
  expect_item(1, b, 74, 48, false);
  expect_item(2, c, 0, 2, true);
  finish_plan();
  scheduler_remove(s, c);
  while (b->n_ids - b->n_computed > 2 * 63) step();
  make_plan(); /* two steps are left: it ends with them */
  expect_item(1, b, b->n_computed, 63, false);
  finish_plan();
  close_all();
}

/* Rows that a product computes anyway are not left empty. */
static void a_step_fills_its_tile(void **state) {
  (void)state;
  open_tiled(100, 4, 36, 8, 16);
  sched_request *a = add(0, 6, 30), *b = add(1, 6, 30);
  step();
  sched_request *c = add(2, 60, 70);
  make_plan();
  expect_item(0, a, 6, 1, true);
  expect_item(1, b, 6, 1, true);
  expect_item(2, c, 0, 14, false); /* 2 + 8 tokens, filled up to 16 */
  finish_plan();
  scheduler_set_chunk(s, 20);
  make_plan();
  expect_item(2, c, 14, 30, false); /* 2 + 20, up to 32 */
  finish_plan();
  scheduler_set_chunk(s, 32);
  make_plan();
  assert_int_equal(plan->n_tokens, 18);
  expect_item(2, c, 44, 16, true);
  finish_plan();
  sched_request *d = add(3, 60, 70);
  make_plan();
  expect_item(3, d, 0, 33, false); /* 3 + 32, up to 48: but a step has 36 */
  finish_plan();
  close_all();
}

static void a_step_keeps_its_budget(void **state) {
  (void)state;
  open_with(100, 3, 10, 10);
  sched_request *a = add(0, 25, 40), *b = add(1, 4, 40);
  (void)add(2, 4, 40);
  (void)add(3, 4, 40);
  make_plan();
  assert_int_equal(plan->n_items, 1);
  expect_item(0, a, 0, 10, false);
  finish_plan();
  step();
  make_plan();
  expect_item(0, a, 20, 5, true);
  expect_item(1, b, 0, 4, true);
  assert_int_equal(plan->n_tokens, 10);
  assert_int_equal(plan->n_items, 3); /* max_sequences */
  finish_plan();
  assert_int_equal(scheduler_n_running(s), 3);
  assert_int_equal(scheduler_n_waiting(s), 1);
  close_all();
}

static void a_kept_prefix_is_not_read_again(void **state) {
  (void)state;
  open_with(100, 4, 64, 64);
  sched_request *a = add(0, 10, 20);
  step();
  scheduler_remove(s, a);
  for (int i = 1; i <= 2; i++) {
    (void)prepare(i, 14, 20);
    memcpy(ids[i], ids[0], 10 * sizeof(int32_t));
  }
  requests[2].use_prefix = false;
  assert_int_equal(scheduler_add(s, &requests[1]), GA_OK);
  assert_int_equal(scheduler_add(s, &requests[2]), GA_OK);
  make_plan();
  expect_item(0, &requests[1], 10, 4, true);
  expect_item(1, &requests[2], 0, 14, true);
  assert_int_equal(n_copies_of(UNIT_WITHIN), 1);
  assert_int_equal(requests[1].n_cached, 10);
  assert_int_equal(requests[2].n_cached, 0);
  finish_plan();
  close_all();
}

static void the_queue_goes_by_priority_tenant_and_arrival(void **state) {
  (void)state;
  open_with(1000, 1, 64, 64);
  sched_request *r[7];
  r[0] = add_of(0, 8, 5, 1);
  now = 1;
  r[1] = add_of(1, 8, 5, 1);
  r[2] = add_of(2, 30, 5, 2);
  now = 2;
  r[3] = add_of(3, 8, 5, 2);
  r[4] = add_of(4, 8, -1, 1);
  r[5] = add_of(5, 8, 5, 3);
  static const int order[] = {4, 2, 5, 0, 1, 3}; /* tenant 1 has had 8 when the others have had none */
  for (size_t i = 0; i < GA_COUNT_OF(order); i++) {
    make_plan();
    assert_int_equal(plan->n_items, 1);
    if (plan->items[0].request != r[order[i]])
      fail_msg("turn %d: request %d", (int)i, (int)(plan->items[0].request - requests));
    finish_plan();
    scheduler_remove(s, r[order[i]]);
  }
  close_all();
}

static void idle_time_earns_no_credit(void **state) {
  (void)state;
  open_with(1000, 1, 64, 64);
  int32_t turns[3] = {0};
  for (int i = 0; i < 20; i++) (void)add_of(i, 8, 0, 1);
  for (int i = 0; i < 10; i++) {
    step();
    scheduler_remove(s, plan->items[0].request);
  }
  for (int i = 20; i < 40; i++) (void)add_of(i, 8, 0, 2); /* comes late */
  for (int i = 0; i < 10; i++) {
    step();
    turns[plan->items[0].request->tenant]++;
    scheduler_remove(s, plan->items[0].request);
  }
  assert_int_equal(turns[1], 5);
  assert_int_equal(turns[2], 5);
  close_all();
}

static void leaving_pays_off_no_debt(void **state) {
  (void)state;
  open_with(1000, 1, 64, 64);
  (void)add_of(0, 60, 0, 1);
  (void)add_of(1, 8, 0, 2);
  (void)add_of(2, 8, 0, 2);
  step();
  assert_ptr_equal(plan->items[0].request, &requests[0]);
  scheduler_remove(s, &requests[0]); /* tenant 1 has had 60 and is idle */
  (void)add_of(3, 8, 0, 1);
  for (int i = 1; i <= 3; i++) {
    step();
    assert_ptr_equal(plan->items[0].request, &requests[i]);
    scheduler_remove(s, &requests[i]);
  }
  close_all();
}

/* Both always have requests waiting: what they have been served differs by what one step can hold. */
static void tenants_get_equal_shares(void **state) {
  (void)state;
  ga_rng rng;
  int64_t served[2] = {0};
  ga_rng_seed(&rng, 1);
  open_with(4000, 4, 64, 64);
  for (int i = 0; i < MANY; i++)
    (void)add_of(i, i % 2 ? 60 : 5 + (int32_t)ga_rng_below(&rng, 20), 0, (uint64_t)(i % 2));
  for (int n = 0; n < 2000; n++) {
    step();
    for (int32_t i = 0; i < plan->n_items; i++) {
      sched_request *r = plan->items[i].request;
      served[r->tenant] += plan->items[i].n;
      if (!plan->items[i].samples || ga_rng_below(&rng, 4)) continue;
      const int at = (int)(r - requests);
      scheduler_remove(s, r);
      (void)add_of(at, at % 2 ? 60 : 5 + (int32_t)ga_rng_below(&rng, 20), 0, (uint64_t)(at % 2));
      r->use_prefix = false;
    }
    const int64_t apart = served[0] > served[1] ? served[0] - served[1] : served[1] - served[0];
    if (apart > 4 * 80) fail_msg("step %d: %lld tokens apart", n, (long long)apart);
  }
  assert_true(served[0] > 10000);
  close_all();
}

static void admission_waits_for_the_whole_prompt(void **state) {
  (void)state;
  open_with(10, 4, 64, 64);
  sched_request *a = add(0, 20, 24), *b = add(1, 16, 24), *c = add(2, 2, 4);
  make_plan(); /* a has 5 pages of 10; b would need 5, and 1 is to spare */
  assert_int_equal(plan->n_items, 1);
  finish_plan();
  step();
  assert_int_equal(scheduler_n_running(s), 1); /* nor does the small one behind it pass */
  scheduler_remove(s, a);
  make_plan();
  expect_item(0, b, 0, 16, true);
  expect_item(1, c, 0, 2, true);
  finish_plan();
  close_all();
}

/* The first one fits again as soon as pages come back, though another still runs. */
static void a_blocked_request_is_tried_again(void **state) {
  (void)state;
  open_with(11, 4, 64, 64);
  sched_request *a = add(0, 4, 24), *b = add(1, 20, 24), *c = add(2, 16, 24);
  step();
  step();
  assert_int_equal(c->state, SCHED_WAITING);
  scheduler_remove(s, b);
  make_plan();
  assert_int_equal(a->state, SCHED_RUNNING);
  expect_item(1, c, 0, 16, true);
  finish_plan();
  close_all();
}

/* The prompt of the first is still being read when the second comes: two steps more are not long. */
static void a_prompt_under_way_goes_on_first(void **state) {
  (void)state;
  open_with(12, 4, 8, 8);
  sched_request *a = add(0, 24, 28);
  step();
  (void)add(1, 8, 12);
  for (int i = 0; i < 2; i++) {
    make_plan();
    assert_int_equal(plan->n_items, 1);
    expect_item(0, a, 8 * i + 8, 8, i == 1);
    finish_plan();
  }
  close_all();
}

static void the_victim_loses_least(void **state) {
  (void)state;
  open_with(16, 4, 64, 64);
  sched_request *a = add(0, 19, 60), *b = add(1, 11, 60), *c = add(2, 15, 60);
  step();
  assert_int_equal(scheduler_n_running(s), 3); /* 5 + 3 + 4 pages */
  while (!plan->n_preempted) step();
  assert_int_equal(b->state, SCHED_WAITING); /* the fewest tokens */
  assert_int_equal(b->n_preempted, 1);
  assert_int_equal(b->n_computed, 0);
  assert_int_equal(b->kv.n_pages, 0);
  assert_int_equal(a->state + c->state, 2 * SCHED_RUNNING);
  assert_int_equal(plan->n_preempted, 1);
  scheduler_remove(s, a);
  const int32_t n = b->n_ids;
  make_plan(); /* reads what it had, of which pages are kept, and goes on */
  assert_ptr_equal(plan->items[1].request, b);
  assert_true(plan->items[1].first > 0);
  assert_int_equal(plan->items[1].first + plan->items[1].n, n);
  assert_true(plan->items[1].samples);
  assert_int_equal(b->n_cached, 0); /* when it first ran */
  finish_plan();
  close_all();
}

/* Two that grow until one of them has no page left; then the other goes on, and its pages are taken. */
static sched_request *preempted_of_two(bool use_prefix) {
  for (int i = 0; i < 2; i++) {
    (void)prepare(i, 11, 60);
    requests[i].use_prefix = use_prefix;
    assert_int_equal(scheduler_add(s, &requests[i]), GA_OK);
  }
  step();
  while (!plan->n_preempted) step();
  sched_request *victim = requests[0].state == SCHED_WAITING ? &requests[0] : &requests[1];
  return victim;
}

static void a_victim_takes_the_cheaper_way(void **state) {
  (void)state;
  for (int cheap = 0; cheap < 2; cheap++) {
    open_swapping(16, 16, 1, cheap ? 3.9 : 4.1 * 4); /* a page has 4 tokens */
    sched_request *victim = preempted_of_two(true), *other = &requests[victim == &requests[0]];
    assert_int_equal(victim->is_swapped, cheap);
    assert_int_equal(scheduler_n_swapped(s), cheap);
    const int32_t n_reached = victim->n_reached;
    assert_int_equal(n_reached, victim->n_ids - 1);
    while (other->n_ids < 60 && other->n_ids < n_reached + 22) step(); /* takes most pages */
    assert_int_equal(layer_memory_counts(memory, FULL).host_used > 0, cheap);
    scheduler_remove(s, other);
    make_plan();
    assert_ptr_equal(plan->items[0].request, victim);
    assert_int_equal(plan->items[0].first == n_reached, cheap);
    assert_int_equal(n_copies_of(UNIT_FROM_HOST) > 0, cheap);
    assert_int_equal(scheduler_n_swapped(s), 0);
    finish_plan();
    close_all();
  }
}

/* What another has left of the same tokens is not taken beyond what has been evaluated. */
static void a_prompt_to_be_seen_whole_is(void **state) {
  (void)state;
  open_swapping(16, 16, 1, 0.1);
  sched_request *victim = preempted_of_two(false), *other = &requests[victim == &requests[0]];
  const int32_t n_reached = victim->n_reached;
  sequence_memory q = {.n_pages = 0};
  scheduler_remove(s, other);
  assert_int_equal(layer_memory_extend(memory, &q, n_reached + 8), GA_OK);
  layer_memory_release(memory, 0, &q, victim->ids, n_reached + 8);
  victim->n_ids = n_reached + 9; /* as if its prompt were longer */
  assert_int_equal(layer_memory_peek(memory, 0, victim->ids, victim->n_ids), n_reached + 8);
  make_plan();
  expect_item(0, victim, n_reached, 9, true);
  finish_plan();
  close_all();
}

static void those_swapped_are_counted(void **state) {
  (void)state;
  open_swapping(16, 16, 1, 0.1);
  sched_request *victim = preempted_of_two(true);
  assert_int_equal(scheduler_n_swapped(s), 1);
  scheduler_remove(s, victim);
  assert_int_equal(scheduler_n_swapped(s), 0);
  close_all();
}

/* Its pages, here and in host memory, are left as it says, as if it had run. */
static void a_preempted_request_that_ends_keeps_its_word(void **state) {
  (void)state;
  static const double keeps[] = {-1, 0, 100};
  for (int i = 0; i < 3; i++) {
    open_swapping(16, 16, 1, 0.1);
    sched_request *victim = preempted_of_two(true), *other = &requests[victim == &requests[0]];
    const int32_t n_reached = victim->n_reached;
    other->keep_seconds = -1;
    victim->keep_seconds = keeps[i];
    while (!layer_memory_counts(memory, FULL).host_used) step();
    assert_int_equal(victim->state, SCHED_WAITING);
    scheduler_remove(s, victim);
    scheduler_remove(s, other);
    const unit_counts left = layer_memory_counts(memory, FULL);
    assert_int_equal(left.cached + left.host_used > 0, keeps[i] >= 0);
    assert_int_equal(layer_memory_peek(memory, 0, victim->ids, IDS), keeps[i] < 0 ? 0 : n_reached);
    sequence_memory q = {.n_pages = 0};
    layer_memory_copied(memory);
    assert_int_equal(layer_memory_extend(memory, &q, 16 * PAGE), GA_OK); /* all: only leased pages are swapped */
    assert_int_equal(n_copies_of(UNIT_TO_HOST) > 0, keeps[i] > 0);
    layer_memory_release(memory, 0, &q, NULL, 0);
    close_all();
  }
}

static void the_least_urgent_is_preempted_first(void **state) {
  (void)state;
  open_with(11, 4, 64, 64); /* the second to ask for a third page, a, gets none */
  sched_request *a = add_of(0, 3, 1, 0);
  (void)add_of(1, 19, 2, 0);
  sched_request *b = &requests[1];
  (void)add(3, 3, 40);
  step();
  assert_int_equal(scheduler_n_running(s), 3);
  while (!plan->n_preempted) step();
  assert_int_equal(b->state, SCHED_WAITING);
  assert_int_equal(a->state, SCHED_RUNNING);
  close_all();
}

static void preempted_requests_go_to_the_front(void **state) {
  (void)state;
  open_with(10, 2, 64, 64);
  sched_request *a = add(0, 11, 40), *b = add(1, 11, 40), *c = add(2, 4, 8);
  step();
  assert_int_equal(scheduler_n_running(s), 2);
  while (!plan->n_preempted) step();
  sched_request *victim = a->state == SCHED_WAITING ? a : b, *other = victim == a ? b : a;
  sched_request *d = add_of(3, 4, -1, 0); /* but not before the more urgent */
  scheduler_remove(s, other);
  make_plan();
  expect_item(0, d, 0, 4, true);
  assert_ptr_equal(plan->items[1].request, victim);
  assert_int_equal(c->state, SCHED_WAITING);
  finish_plan();
  close_all();
}

static void a_request_alone_ends(void **state) {
  (void)state;
  open_with(5, 2, 8, 4);
  sched_request *r = prepare(0, 3, 21);
  assert_int_equal(scheduler_add(s, r), GA_ERR_SHAPE);
  assert_int_equal(r->state, SCHED_NONE);
  r = add(0, 3, 20);
  while (r->n_ids < 20) {
    step();
    assert_int_equal(plan->n_items, 1);
  }
  scheduler_remove(s, r);
  r = add(0, 20, 20); /* its own pages are kept, and all of them */
  for (int i = 0; r->n_computed < 20; i++) {
    step();
    assert_true(i < 4);
  }
  close_all();
}

static void deadlines_are_reported(void **state) {
  (void)state;
  open_with(100, 1, 64, 64);
  (void)add(0, 4, 200);
  for (int i = 1; i <= 4; i++) {
    (void)prepare(i, 4, 20);
    requests[i].first_deadline = i == 4 ? 0 : 6 - i;
    assert_int_equal(scheduler_add(s, &requests[i]), GA_OK);
  }
  scheduler_remove(s, &requests[2]);
  for (; now < 10; now += 0) {
    make_plan();
    for (int32_t i = 0; i < plan->n_expired; i++) {
      assert_int_equal(plan->expired[i]->state, SCHED_NONE);
      assert_true(now >= plan->expired[i]->first_deadline && now < plan->expired[i]->first_deadline + 1);
    }
    finish_plan();
  }
  assert_int_equal(scheduler_n_waiting(s), 1);
  assert_int_equal(requests[1].state + requests[3].state, SCHED_NONE);
  close_all();
}

static void requests_leave_at_any_time(void **state) {
  (void)state;
  open_with(100, 2, 8, 8);
  sched_request *a = add(0, 6, 20), *b = add(1, 20, 40), *c = add(2, 5, 9);
  make_plan();
  scheduler_remove(s, c); /* waits, while a step is under way */
  assert_int_equal(scheduler_n_waiting(s), 0);
  finish_plan();
  make_plan();
  scheduler_remove(s, b); /* under way: what the step before has computed is kept, what this one begins is not */
  assert_null(plan->items[1].request);
  scheduler_done(s);
  assert_int_equal(layer_memory_peek(memory, 0, b->ids, 20), 2);
  assert_int_equal(a->n_computed, 7);
  a->n_ids++;
  scheduler_remove(s, a);
  scheduler_remove(s, a);
  make_plan();
  assert_int_equal(plan->n_items, 0);
  close_all();
}

static void failing_memory_is_told(void **state) {
  (void)state;
  open_with(100, 2, 8, 8);
  sched_request *r = prepare(0, 6, 20);
  r->first_deadline = 100;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) {
    assert_true(n < 20);
    ga_mem_fail_after(n);
    status = scheduler_add(s, r);
    ga_mem_fail_after(0);
    assert_int_equal(r->state, status == GA_OK ? SCHED_WAITING : SCHED_NONE);
  }
  ga_mem_fail_after(1);
  assert_int_equal(scheduler_plan(s, now, &plan), GA_ERR_NOMEM);
  ga_mem_fail_after(0);
  assert_int_equal(scheduler_n_waiting(s), 1);
  assert_ptr_equal(scheduler_next(s), r);
  step();
  assert_int_equal(plan->n_items, 1);
  (void)add(1, 6, 20);
  ga_mem_fail_after(1); /* running ones go on without */
  make_plan();
  ga_mem_fail_after(0);
  assert_int_equal(plan->n_items, 1);
  finish_plan();
  close_all();
}

static void tenants_do_not_pile_up(void **state) {
  (void)state;
  sched_queue queue;
  static sched_request r;
  assert_int_equal(sched_queue_init(&queue), GA_OK);
  for (uint64_t id = 0; id < 5000; id++) {
    r = (sched_request){.tenant = id, .n_ids = 1, .n_prompt = 1};
    assert_int_equal(sched_queue_add(&queue, &r), GA_OK);
    sched_queue_take(&queue, &r);
    sched_queue_leave(&queue, &r);
    assert_true(queue.n_tenants <= SCHED_IDLE_TENANTS + 1);
  }
  sched_queue_free(&queue);
}

static void a_heap_keeps_its_order(void **state) {
  (void)state;
  enum { N = 300 };
  static int32_t places[N];
  static double keys[N];
  sched_heap heap = {NULL, 0, 0};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < N; i++) places[i] = -1;
  for (int n = 0; n < 20000; n++) {
    const int i = (int)ga_rng_below(&rng, N);
    keys[i] = places[i] < 0 || ga_rng_below(&rng, 2) ? (double)ga_rng_below(&rng, 100) : keys[i];
    const sched_key key = {(int32_t)keys[i] / 50, keys[i], 0};
    assert_int_equal(sched_heap_reserve(&heap, heap.n + 1), GA_OK);
    if (places[i] < 0)
      sched_heap_put(&heap, key, &keys[i], &places[i]);
    else if (ga_rng_below(&rng, 3))
      sched_heap_move(&heap, places[i], key);
    else
      sched_heap_take(&heap, places[i]);
    for (int k = 0; k < N; k++) {
      if (places[k] < 0) continue;
      if (k != i) assert_ptr_equal(heap.entries[places[k]].item, &keys[k]);
      assert_true(heap.entries[0].key.minor <= heap.entries[places[k]].key.minor);
    }
  }
  sched_heap_free(&heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_budgets_are_refused),
      cmocka_unit_test(requests_that_generate_come_first),
      cmocka_unit_test(deadlines_count_while_steps_go_ahead),
      cmocka_unit_test(steps_with_prompts_go_ahead),
      cmocka_unit_test(a_long_prompt_lets_others_pass),
      cmocka_unit_test(a_long_prompt_alone_leaves_steps_even),
      cmocka_unit_test(a_step_fills_its_tile),
      cmocka_unit_test(a_step_keeps_its_budget),
      cmocka_unit_test(a_kept_prefix_is_not_read_again),
      cmocka_unit_test(the_queue_goes_by_priority_tenant_and_arrival),
      cmocka_unit_test(idle_time_earns_no_credit),
      cmocka_unit_test(leaving_pays_off_no_debt),
      cmocka_unit_test(tenants_get_equal_shares),
      cmocka_unit_test(admission_waits_for_the_whole_prompt),
      cmocka_unit_test(a_blocked_request_is_tried_again),
      cmocka_unit_test(a_prompt_under_way_goes_on_first),
      cmocka_unit_test(the_victim_loses_least),
      cmocka_unit_test(a_victim_takes_the_cheaper_way),
      cmocka_unit_test(a_prompt_to_be_seen_whole_is),
      cmocka_unit_test(those_swapped_are_counted),
      cmocka_unit_test(a_preempted_request_that_ends_keeps_its_word),
      cmocka_unit_test(the_least_urgent_is_preempted_first),
      cmocka_unit_test(preempted_requests_go_to_the_front),
      cmocka_unit_test(a_request_alone_ends),
      cmocka_unit_test(deadlines_are_reported),
      cmocka_unit_test(requests_leave_at_any_time),
      cmocka_unit_test(failing_memory_is_told),
      cmocka_unit_test(tenants_do_not_pile_up),
      cmocka_unit_test(a_heap_keeps_its_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
