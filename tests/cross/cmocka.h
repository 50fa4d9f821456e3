/* As much of cmocka as tests/test_gemm.c uses, for machines that the library is cross-compiled for
 * (tools/check_neon.sh). */
#ifndef GA_TESTS_CROSS_CMOCKA_H
#define GA_TESTS_CROSS_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fail()                                                    \
  do {                                                            \
    (void)fprintf(stderr, "%s:%d: failed\n", __FILE__, __LINE__); \
    exit(1);                                                      \
  } while (0)
#define fail_msg(...)                   \
  do {                                  \
    (void)fprintf(stderr, __VA_ARGS__); \
    fail();                             \
  } while (0)
#define assert_true(x) \
  do {                 \
    if (!(x)) fail();  \
  } while (0)
#define assert_false(x)              assert_true(!(x))
#define assert_non_null(x)           assert_true((x) != NULL)
#define assert_int_equal(a, b)       assert_true((long long)(a) == (long long)(b))
#define assert_memory_equal(a, b, n) assert_true(!memcmp((a), (b), (n)))
#define print_error(...)             (void)fprintf(stderr, __VA_ARGS__)

struct CMUnitTest {
  const char *name;
  void (*run)(void **state);
};
#define cmocka_unit_test(f) \
  { #f, f }

static int run_tests(const struct CMUnitTest *tests, size_t n, int (*setup_fn)(void **), int (*teardown_fn)(void **)) {
  void *state = NULL;
  if (setup_fn(&state)) return 1;
  for (size_t i = 0; i < n; i++) {
    tests[i].run(&state);
    (void)printf("ok %s\n", tests[i].name);
  }
  return teardown_fn(&state);
}
#define cmocka_run_group_tests(tests, setup, teardown) \
  run_tests(tests, sizeof(tests) / sizeof *(tests), setup, teardown)

#endif
