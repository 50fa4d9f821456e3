/* What ga dist run --timeline makes of spans: sums over streams, overlap, gaps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "verify/dist/timeline.h"

static void is_about(double got, double want) {
  if (!(fabs(got - want) < 1e-9)) fail_msg("%g; want %g", got, want);
}

static rank_span span_at(int32_t work, int32_t stream, int32_t peer, double begin, double end) {
  return (rank_span){.work = work, .stream = stream, .peer = peer, .begin = begin, .end = end};
}

/*  0    1    2    3    4    5    6    7    8    9    10
 *  wait----- attention-                      x merge     compute; x: attention of no length
 *            wait-attention- wait-attention              second
 *  push----------------    exchange---                    copies */
static void test_two_streams(void **state) {
  (void)state;
  const rank_span s[] = {
      span_at(GA_DIST_WORK_WAIT, 0, 1, 0, 2),       span_at(GA_DIST_WORK_ATTENTION, 0, -1, 2, 4),
      span_at(GA_DIST_WORK_WAIT, 1, 1, 2, 3),       span_at(GA_DIST_WORK_ATTENTION, 1, -1, 3, 5),
      span_at(GA_DIST_WORK_WAIT, 1, -1, 5, 6),      span_at(GA_DIST_WORK_ATTENTION, 1, -1, 6, 8),
      span_at(GA_DIST_WORK_PUSH, 2, 1, 0, 4),       span_at(GA_DIST_WORK_EXCHANGE, 2, -1, 5.5, 7),
      span_at(GA_DIST_WORK_MERGE, 0, -1, 8.5, 9.5), span_at(GA_DIST_WORK_ATTENTION, 0, -1, 8.75, 8.75)};
  const int64_t n = sizeof s / sizeof *s;
  rank_times t;
  assert_int_equal(dist_rank_times(s, n, 10, &t), GA_OK);
  is_about(t.attention, 5);
  is_about(t.communication, 5.5);
  is_about(t.overlapped, 3);
  is_about(t.waiting, 2);
  const double gaps[TIMELINE_GAPS][2] = {{0, 2}, {8.75, 1.25}, {5, 1}};
  for (int i = 0; i < TIMELINE_GAPS; i++) {
    is_about(t.gaps[i].begin, gaps[i][0]);
    is_about(t.gaps[i].seconds, gaps[i][1]);
  }
  assert_ptr_equal(dist_span_of_gap(s, n, &t.gaps[0]), &s[0]);
  assert_ptr_equal(dist_span_of_gap(s, n, &t.gaps[1]), &s[8]);
  assert_ptr_equal(dist_span_of_gap(s, n, &t.gaps[2]), &s[4]);
  assert_null(dist_span_of_gap(s, n, &(rank_gap){8, 2})); /* the merge takes half of it, not more */
}

static void test_no_attention(void **state) {
  (void)state;
  rank_times t;
  assert_int_equal(dist_rank_times(NULL, 0, 3, &t), GA_OK);
  is_about(t.attention + t.communication + t.overlapped + t.waiting, 0);
  is_about(t.gaps[0].seconds, 3);
  is_about(t.gaps[1].seconds, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_streams), cmocka_unit_test(test_no_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
