/* Pages of the KV cache that are to be kept for a time, that are dropped, and that preempted sequences leave. */
#include "tests/layer_memory_rig.h"

static const release_policy drops = {.discard = true};

static void leave_until(const int32_t *ids, int32_t n, double keep_until) {
  sequence_memory q = {.n_pages = 0};
  (void)match_ids(&q, ids, n);
  compute_ids(&q, ids, n);
  layer_memory_release_as(memory, 0, &q, ids, n, &(const release_policy){.keep_until = keep_until});
  assert_int_equal(layer_memory_verify(memory, NULL, 0), GA_OK);
}

static void pages_to_be_kept_go_last(void **state) {
  (void)state;
  open_pages(6, 0, 0);
  leave_until(ids_from(0), 10, 5);
  leave_ids(ids_from(100), 12);
  need_all_but(3); /* the others have been used later, and go */
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 10);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 20), 0);
  layer_memory_expire(memory, 4.9);
  leave_ids(ids_from(100), 12);
  need_all_but(3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 10);
  layer_memory_expire(memory, 5); /* now they are as any */
  leave_ids(ids_from(100), 12);
  need_all_but(3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 20), 12);
  close_pages();
}

static void a_running_one_gets_pages_that_were_to_be_kept(void **state) {
  (void)state;
  open_pages(6, 0, 0);
  leave_until(ids_from(0), 10, 5);
  need_all_but(0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  assert_int_equal(memory->n_keeping, 0);
  close_pages();
}

static void half_of_the_pages_can_be_kept(void **state) {
  (void)state;
  open_pages(8, 0, 0);
  leave_until(ids_from(0), 12, 5);
  leave_until(ids_from(100), 8, 5); /* 5 of 8 */
  assert_int_equal(memory->n_keeping, 3);
  leave_until(ids_from(100), 4, 5);
  assert_int_equal(memory->n_keeping, 4);
  leave_until(ids_from(0), 12, 9); /* longer: no more than before */
  assert_int_equal(memory->n_keeping, 4);
  layer_memory_expire(memory, 7);
  assert_int_equal(memory->n_keeping, 3);
  close_pages();
}

static void window_pages_are_kept_too(void **state) {
  (void)state;
  open_pages(16, 6, 6);
  leave_until(ids_from(0), 10, 5);
  leave_ids(ids_from(100), 10);
  leave_ids(ids_from(200), 10);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 10);
  assert_int_not_equal(layer_memory_peek(memory, 0, ids_from(100), 20), 10);
  close_pages();
}

static void nobody_comes_back_to_dropped_pages(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  int32_t ids[IDS];
  open_pages(16, 0, 0);
  memcpy(ids, ids_from(0), sizeof ids);
  ids[6] = -1;
  leave_ids(ids, 10);         /* another goes on from the first page */
  leave_ids(ids_from(0), 10); /* a turn, with a begun page */
  (void)match_ids(&q, ids_from(0), 15);
  compute_ids(&q, ids_from(0), 15);
  layer_memory_release_as(memory, 0, &q, ids_from(0), 15, &drops);
  expect_counts(FULL, 0, 3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 6);
  assert_int_equal(layer_memory_peek(memory, 0, ids, 20), 10);
  (void)match_ids(&q, ids, 10); /* the last one to know: nothing is left */
  compute_ids(&q, ids, 10);
  layer_memory_release_as(memory, 0, &q, ids, 10, &drops);
  expect_counts(FULL, 0, 0);
  assert_int_equal(memory->tree.n_roots, 0);
  close_pages();
}

static void a_drop_leaves_what_others_have_leased(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(16, 0, 0);
  leave_until(ids_from(0), 10, 5);
  assert_int_equal(match_ids(&q, ids_from(0), 11), 10);
  layer_memory_release_as(memory, 0, &q, ids_from(0), 10, &drops);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 10);
  expect_counts(FULL, 0, 3);
  assert_int_equal(memory->n_keeping, 3);
  close_pages();
}

static void a_swapped_page_keeps_those_before_it(void **state) {
  (void)state;
  sequence_memory shares = {.n_pages = 0}, q = {.n_pages = 0};
  int32_t ids[IDS];
  open_with_host(8, 16, false);
  memcpy(ids, ids_from(0), sizeof ids);
  for (int i = 8; i < IDS; i++) ids[i] = 500 + i; /* the first two pages are those of ids_from(0) */
  compute_ids(&q, ids, 16);
  layer_memory_release_as(memory, 0, &q, ids, 16, &(const release_policy){.swap = true});
  (void)match_ids(&shares, ids_from(0), 12);
  compute_ids(&shares, ids_from(0), 12);
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_extend(memory, &q, 5 * PAGE), GA_OK);
  assert_int_equal(layer_memory_peek(memory, 0, ids, 20), 16);
  layer_memory_release(memory, 0, &shares, ids_from(0), 12);
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_extend(memory, &q, 8 * PAGE), GA_OK);
  assert_int_equal(layer_memory_peek(memory, 0, ids, 20), 16);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 8); /* the third page of the other is lost */
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  close_pages();
}

static void a_begun_page_hands_its_lease_on(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(16, 0, 0);
  leave_until(ids_from(0), 10, 5);
  leave_ids(ids_from(0), 15); /* its third page takes the place of the begun one */
  assert_int_equal(memory->n_keeping, 3);
  (void)match_ids(&q, ids_from(0), 19);
  compute_ids(&q, ids_from(0), 19);
  layer_memory_release_as(memory, 0, &q, ids_from(0), 19, &drops);
  expect_counts(FULL, 0, 3);
  need_all_but(3);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 12);
  layer_memory_expire(memory, 5);
  need_all_but(0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  close_pages();
}

static void a_lease_ends_while_its_pages_are_in_use(void **state) {
  (void)state;
  sequence_memory q = {.n_pages = 0};
  open_pages(8, 0, 0);
  leave_until(ids_from(0), 16, 5);
  (void)match_ids(&q, ids_from(0), 20);
  layer_memory_expire(memory, 4);
  assert_int_equal(memory->n_keeping, 4);
  layer_memory_expire(memory, 5);
  assert_int_equal(memory->n_keeping, 0);
  verify_two(&q, NULL);
  layer_memory_release(memory, 0, &q, NULL, 0);
  leave_until(ids_from(100), 16, 9); /* the half is there again for others */
  assert_int_equal(memory->n_keeping, 4);
  need_all_but(4);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(0), 20), 0);
  assert_int_equal(layer_memory_peek(memory, 0, ids_from(100), 20), 16);
  close_pages();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_to_be_kept_go_last),
      cmocka_unit_test(a_running_one_gets_pages_that_were_to_be_kept),
      cmocka_unit_test(half_of_the_pages_can_be_kept),
      cmocka_unit_test(window_pages_are_kept_too),
      cmocka_unit_test(nobody_comes_back_to_dropped_pages),
      cmocka_unit_test(a_drop_leaves_what_others_have_leased),
      cmocka_unit_test(a_swapped_page_keeps_those_before_it),
      cmocka_unit_test(a_begun_page_hands_its_lease_on),
      cmocka_unit_test(a_lease_ends_while_its_pages_are_in_use),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
