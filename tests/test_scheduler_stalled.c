/* Requests whose tokens nobody reads: they give their places and pages to requests that wait. */
#include "tests/scheduler_rig.h"

static void a_stalled_request_gives_its_place(void **state) {
  (void)state;
  open_with(400, 2, 16, 16);
  sched_request *a = add(0, 4, 60), *b = add(1, 4, 60);
  step();
  a->is_stalled = true;
  step();
  assert_int_equal(a->state, SCHED_RUNNING); /* nobody waits */
  sched_request *c = add(2, 3, 6);
  step();
  step();
  assert_int_equal(a->state, SCHED_WAITING);
  assert_int_equal(b->state, SCHED_RUNNING);
  assert_int_equal(c->state, SCHED_RUNNING);
  const int32_t n_ids = a->n_ids;
  step();
  assert_int_equal(a->n_ids, n_ids);
  scheduler_remove(s, c);
  step(); /* a place is free again: it goes on */
  step();
  assert_int_equal(a->state, SCHED_RUNNING);
  assert_true(a->n_ids > n_ids);
  close_all();
}

static void requests_that_are_read_come_before_stalled_ones(void **state) {
  (void)state;
  open_with(400, 1, 16, 16);
  sched_request *a = add(0, 4, 60);
  step();
  a->is_stalled = true;
  sched_request *b = add(1, 4, 60);
  step();
  step();
  assert_int_equal(b->state, SCHED_RUNNING);
  sched_request *c = add(2, 4, 60);
  assert_ptr_equal(scheduler_next(s), c); /* not a, which was preempted */
  a->is_stalled = false;
  assert_ptr_equal(scheduler_next(s), a);
  a->is_stalled = true;
  scheduler_remove(s, c);
  assert_ptr_equal(scheduler_next(s), a);
  scheduler_remove(s, b);
  step();
  assert_int_equal(a->state, SCHED_RUNNING);
  close_all();
}

static void all_stalled_requests_take_turns_as_before(void **state) {
  (void)state;
  open_with(400, 2, 16, 16);
  sched_request *all[3];
  for (int i = 0; i < 3; i++) all[i] = add(i, 4, 20);
  step();
  for (int i = 0; i < 3; i++) all[i]->is_stalled = true;
  for (int i = 0; i < 60; i++) {
    step();
    for (int k = 0; k < 3; k++)
      if (all[k]->n_ids == all[k]->max_ids) scheduler_remove(s, all[k]);
  }
  assert_int_equal(scheduler_n_running(s) + scheduler_n_waiting(s), 0);
  close_all();
}

/* The pages of one that is not read are for the queue's head. */
static void a_stalled_request_gives_its_pages(void **state) {
  (void)state;
  open_with(24, 4, 64, 64);
  sched_request *a = add(0, 60, 80);
  step();
  step();
  sched_request *b = add(1, 40, 41);
  step();
  assert_int_equal(b->state, SCHED_WAITING);
  a->is_stalled = true;
  step();
  step();
  assert_int_equal(a->state, SCHED_WAITING);
  assert_int_equal(b->state, SCHED_RUNNING);
  close_all();
}

/* A step that was planned ahead preempts nothing: the one after it does. */
static void a_step_ahead_waits_for_a_stalled_request(void **state) {
  (void)state;
  open_with(400, 1, 16, 16);
  sched_request *a = add(0, 4, 60);
  step();
  make_plan();
  a->is_stalled = true;
  sched_request *b = add(1, 4, 60);
  const sched_plan *ahead;
  scheduler_plan_ahead(s, now, &ahead);
  assert_null(ahead);
  finish_plan();
  step();
  step();
  assert_int_equal(a->state, SCHED_WAITING);
  assert_int_equal(b->state, SCHED_RUNNING);
  close_all();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stalled_request_gives_its_place),
      cmocka_unit_test(requests_that_are_read_come_before_stalled_ones),
      cmocka_unit_test(all_stalled_requests_take_turns_as_before),
      cmocka_unit_test(a_stalled_request_gives_its_pages),
      cmocka_unit_test(a_step_ahead_waits_for_a_stalled_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
