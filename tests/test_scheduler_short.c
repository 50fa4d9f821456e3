/* Short prompts beside long ones: their share of each step, and what it leaves to others. */
#include "tests/scheduler_rig.h"

static void open_fair(int32_t n_pages, int32_t max_sequences) {
  open_scheduler(n_pages, 0, &(sched_options){max_sequences, 64, 16, 1, 8});
  scheduler_set_alone(s, 20);
}

static void short_prompts_get_half_of_each_step(void **state) {
  (void)state;
  open_fair(400, 8);
  sched_request *a = add(0, 100, 110), *b = add(1, 100, 110);
  make_plan();
  expect_item(0, a, 0, 20, false); /* no step without generating requests is longer */
  finish_plan();
  sched_request *c = add(2, 3, 9), *d = add(3, 8, 20), *e = add(4, 4, 9);
  make_plan(); /* they come before b, which has waited longer */
  assert_int_equal(plan->n_items, 4);
  expect_item(0, a, 20, 8, false); /* 10, of which those behind it get a part */
  expect_item(1, c, 0, 3, true);
  expect_item(2, d, 0, 7, false);
  expect_item(3, b, 0, 2, false);
  finish_plan();
  make_plan(); /* c generates, and d has one token left: 16 tokens beside them */
  expect_item(0, c, 3, 1, true);
  expect_item(1, d, 7, 1, true);
  expect_item(2, a, 28, 9, false); /* 12, as e needs 4 */
  expect_item(3, b, 2, 3, false);
  expect_item(4, e, 0, 4, true);
  finish_plan();
  close_all();
}

static void short_prompts_alone_take_the_step(void **state) {
  (void)state;
  open_fair(400, 8);
  sched_request *a = add(0, 8, 9), *b = add(1, 8, 9), *c = add(2, 8, 9);
  make_plan();
  expect_item(0, a, 0, 8, true);
  expect_item(1, b, 0, 8, true);
  expect_item(2, c, 0, 4, false);
  finish_plan();
  close_all();
}

/* Of a prompt that is cached up to a few tokens only these count. */
static void a_cached_prompt_is_short(void **state) {
  (void)state;
  open_fair(400, 8);
  sched_request *first = add(0, 40, 41);
  while (first->n_computed < 40) step();
  scheduler_remove(s, first);
  (void)add(1, 100, 110);
  step();
  (void)add(2, 100, 110);
  sched_request *again = prepare(3, 44, 50);
  for (int32_t i = 0; i < 40; i++) ids[3][i] = ids[0][i];
  assert_int_equal(scheduler_add(s, again), GA_OK);
  assert_int_equal(again->n_short, 4);
  make_plan();
  expect_item(1, again, 40, 4, true);
  finish_plan();
  close_all();
}

static void short_prompts_do_not_starve_long_ones(void **state) {
  (void)state;
  open_fair(400, 2);
  sched_request *a = add(0, 100, 110), *b = add(1, 100, 110);
  step();
  sched_request *c = add(2, 2, 9); /* the last place is for b, which has waited longer */
  make_plan();
  assert_int_equal(c->state, SCHED_WAITING);
  assert_int_equal(b->state, SCHED_RUNNING);
  finish_plan();
  scheduler_remove(s, b);
  make_plan(); /* no long one waits now */
  assert_int_equal(c->state, SCHED_RUNNING);
  expect_item(0, a, a->n_computed, 14, false); /* 18, of which others get a part */
  finish_plan();
  close_all();
}

static void short_prompts_leave_pages_to_the_head(void **state) {
  (void)state;
  open_fair(24, 8);
  sched_request *a = add(0, 60, 61), *b = add(1, 40, 41); /* 16 and 11 pages of 24 */
  for (int i = 0; i < 4; i++) step();
  assert_int_equal(b->state, SCHED_WAITING);
  sched_request *c = add(2, 2, 4);
  step();
  assert_int_equal(c->state, SCHED_WAITING); /* its page is one that b waits for */
  scheduler_remove(s, a);
  step();
  assert_int_equal(b->state, SCHED_RUNNING);
  step();
  assert_int_equal(c->state, SCHED_RUNNING);
  close_all();
}

static void short_prompts_keep_to_priorities(void **state) {
  (void)state;
  open_fair(400, 8);
  sched_request *a = add_of(0, 100, 1, 0);
  step();
  sched_request *late = add_of(1, 2, 2, 0), *b = add_of(2, 100, 1, 0), *c = add_of(3, 2, 1, 0);
  make_plan();
  assert_int_equal(a->state, SCHED_RUNNING);
  assert_int_equal(c->state, SCHED_RUNNING);
  assert_int_equal(b->state, SCHED_RUNNING);
  assert_int_equal(late->state, SCHED_WAITING); /* a is more urgent, and reads */
  finish_plan();
  close_all();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_prompts_get_half_of_each_step),
      cmocka_unit_test(short_prompts_alone_take_the_step),
      cmocka_unit_test(a_cached_prompt_is_short),
      cmocka_unit_test(short_prompts_do_not_starve_long_ones),
      cmocka_unit_test(short_prompts_leave_pages_to_the_head),
      cmocka_unit_test(short_prompts_keep_to_priorities),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
