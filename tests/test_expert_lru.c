/* Slots for experts: the order in which they make way, and the budget of loads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/expert_lru.h"

static expert_lru *lru_of(int32_t keys, int32_t slots) {
  expert_lru *lru;
  assert_int_equal(expert_lru_create(keys, slots, EXPERT_LOAD_USES, &lru), GA_OK);
  return lru;
}

static void put_expert(expert_lru *lru, int32_t key, int32_t wanted_evicted) {
  int32_t evicted;
  const int32_t slot = expert_lru_admit(lru, key, &evicted);
  assert_true(slot >= 0);
  assert_int_equal(evicted, wanted_evicted);
  assert_int_equal(expert_lru_use(lru, key), -1); /* on its way */
  expert_lru_arrive(lru, slot);
  assert_int_equal(expert_lru_slot(lru, key), slot);
}

static void use_expert(expert_lru *lru, int32_t key, int times) {
  for (int i = 0; i < times; i++) assert_true(expert_lru_use(lru, key) >= 0);
}

static void test_least_recently_used_makes_way(void **state) {
  (void)state;
  expert_lru *lru = lru_of(10, 3);
  for (int32_t key = 0; key < 3; key++) put_expert(lru, key, -1);
  assert_int_equal(expert_lru_used(lru), 3);
  use_expert(lru, 0, EXPERT_LOAD_USES); /* 1 is the oldest now */
  put_expert(lru, 7, 1);
  assert_int_equal(expert_lru_slot(lru, 1), -1);
  use_expert(lru, 2, EXPERT_LOAD_USES);
  put_expert(lru, 1, 0);
  assert_int_equal(expert_lru_used(lru), 3);
  expert_lru_destroy(lru);
}

/* A key that has a slot or waits for one is not loaded again, and slots that wait are not taken. */
static void test_loads_on_their_way(void **state) {
  (void)state;
  int32_t evicted;
  expert_lru *lru = lru_of(4, 2);
  const int32_t first = expert_lru_admit(lru, 0, &evicted), second = expert_lru_admit(lru, 1, &evicted);
  assert_true(first >= 0 && second >= 0 && first != second);
  assert_int_equal(expert_lru_admit(lru, 0, &evicted), -1);
  assert_int_equal(expert_lru_admit(lru, 2, &evicted), -1);
  expert_lru_arrive(lru, first);
  assert_int_equal(expert_lru_admit(lru, 0, &evicted), -1);
  expert_lru_drop(lru, second);
  assert_int_equal(expert_lru_used(lru), 1);
  use_expert(lru, 0, EXPERT_LOAD_USES);
  assert_int_equal(expert_lru_admit(lru, 3, &evicted), second);
  assert_int_equal(evicted, -1);
  expert_lru_destroy(lru);
}

/* Loads that a step waits for cost nothing. */
static void test_take(void **state) {
  (void)state;
  int32_t evicted;
  expert_lru *lru = lru_of(10, 2);
  for (int32_t key = 0; key < 10; key++) {
    const int32_t slot = expert_lru_take(lru, key, &evicted);
    assert_true(slot >= 0);
    assert_int_equal(evicted, key < 2 ? -1 : key - 2);
    expert_lru_arrive(lru, slot);
  }
  put_expert(lru, 0, 8); /* the budget is that of the first fill */
  put_expert(lru, 1, 9);
  assert_int_equal(expert_lru_admit(lru, 2, &evicted), -1);
  expert_lru_destroy(lru);
}

/* Loads beyond the first fill are at most a third of the uses, whatever is asked for. */
static void test_budget(void **state) {
  (void)state;
  enum { KEYS = 64, SLOTS = 16, ASKS = 20000 };
  expert_lru *lru = lru_of(KEYS, SLOTS);
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  int64_t uses = 0, loads = 0;
  for (int i = 0; i < ASKS; i++) {
    const int32_t key = (int32_t)ga_rng_below(&rng, KEYS);
    int32_t evicted;
    if (expert_lru_use(lru, key) >= 0) {
      uses++;
      continue;
    }
    const int32_t slot = expert_lru_admit(lru, key, &evicted);
    if (slot < 0) continue;
    loads++;
    expert_lru_arrive(lru, slot);
    assert_true(EXPERT_LOAD_USES * (loads - SLOTS) <= uses);
  }
  assert_true(loads > SLOTS && uses > ASKS / 8);
  assert_int_equal(expert_lru_used(lru), SLOTS);
  expert_lru_destroy(lru);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_least_recently_used_makes_way),
                                     cmocka_unit_test(test_loads_on_their_way), cmocka_unit_test(test_take),
                                     cmocka_unit_test(test_budget)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
