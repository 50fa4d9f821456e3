/* Tests the messages of the launcher of ga dist. This program is also the ranks that it starts. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/dist/launch.h"

/* Rank 0 fails at once; rank 1 fails 300 ms later, with a longer text. */
static int fail_as_rank(int rank) {
  if (rank) (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  (void)fputs(rank ? "ga dist: rank 1 is where it began\n" : "ga dist: rank 1 is gone\n", stderr);
  return 1;
}

/* Launches `ranks` ranks; text gets what they and the launcher write to stderr. Returns the exit code. */
static int launch_and_read(int ranks, char **argv, char *text, size_t bytes) {
  FILE *file = tmpfile();
  assert_non_null(file);
  const int kept = dup(STDERR_FILENO);
  assert_true(kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
  const int code = dist_launch(ranks, argv);
  (void)fflush(stderr);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  (void)close(kept);
  rewind(file);
  text[fread(text, 1, bytes - 1, file)] = 0;
  (void)fclose(file);
  return code;
}

/* A rank that fails later than the first one is waited for, and its longer text is the one printed. */
static void test_longest_error(void **state) {
  (void)state;
  char text[512], name[] = "ranks", *argv[] = {name, NULL};
  assert_int_equal(launch_and_read(2, argv, text, sizeof text), 1);
  assert_string_equal(text, "ga dist: rank 1 is where it began\n");
}

int main(void) {
  const char *rank = getenv("GA_RANK");
  if (rank) return fail_as_rank(atoi(rank));
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_longest_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
