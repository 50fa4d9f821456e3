/* Calls that fail below distributed attention and its verbs: the linker's --wrap stands before them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/status.h"
#include "comm/exchange.h"
#include "ga/all_reduce.h"
#include "tests/dist_rig.h"
#include "verify/dist/links.h"
#include "verify/dist/reduce.h"

/* --- the wrapped calls --- */

static atomic_long records_left; /* 0: no record fails; n: the n-th one does */
static atomic_bool links_fail;
static atomic_bool bit_falls; /* the next sum has another bit */
static atomic_long late;      /* seconds that the clock is fast */

ga_status __real_ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream);
ga_status __wrap_ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream);
ga_status __wrap_ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream) {
  if (atomic_fetch_sub(&records_left, 1) == 1) return ga_error_set(GA_ERR_DEVICE, "no event is recorded");
  return __real_ga_event_record(ctx, event, stream);
}

ga_status __real_ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options,
                                    const int64_t *bytes, int32_t n, double *seconds, const char **copies);
ga_status __wrap_ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options,
                                    const int64_t *bytes, int32_t n, double *seconds, const char **copies);
ga_status __wrap_ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options,
                                    const int64_t *bytes, int32_t n, double *seconds, const char **copies) {
  if (atomic_load(&links_fail)) return ga_error_set(GA_ERR_COMM, "no block arrives");
  return __real_ga_dist_link_times(comm, ctx, options, bytes, n, seconds, copies);
}

ga_status __real_ga_all_reduce_run(ga_all_reduce *reduce, const void *x, void *y, int64_t n, ga_stream *stream);
ga_status __wrap_ga_all_reduce_run(ga_all_reduce *reduce, const void *x, void *y, int64_t n, ga_stream *stream);
ga_status __wrap_ga_all_reduce_run(ga_all_reduce *reduce, const void *x, void *y, int64_t n, ga_stream *stream) {
  const ga_status status = __real_ga_all_reduce_run(reduce, x, y, n, stream);
  if (status == GA_OK && atomic_exchange(&bit_falls, false)) *(uint32_t *)y ^= 1;
  return status;
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
  const int rc = __real_clock_gettime(clock, t);
  t->tv_sec += atomic_load(&late);
  return rc;
}

static int without_faults(void **state) {
  (void)state;
  atomic_store(&records_left, 0), atomic_store(&late, 0);
  atomic_store(&links_fail, false), atomic_store(&bit_falls, false);
  return 0;
}

static void says(const char *part) {
  if (!strstr(ga_error_text(), part)) fail_msg("'%s' lacks '%s'", ga_error_text(), part);
}

/* --- runs on devices --- */

/* Whichever record of an event fails, the run ends in its error. */
static void test_each_record_fails(void **state) {
  (void)state;
  dist_setup s = start_dist_case(&dist_cases[0], "zigzag", 0, 2, 4, 2);
  ga_dist_plan *plan = NULL;
  assert_int_equal(ga_dist_plan_create(&s.desc, &plan), GA_OK);
  ga_dist_plan *const plans[2] = {plan, plan};
  tensors t = make_tensors(&s.desc, 5, NULL);
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  how.ranks = 2, how.timeout = 100;
  (void)setenv("GA_DIST_COPIES", "host", 1); /* rounds of messages */
  long failed = 0;
  for (bool good = false; !good;) {
    rank_job jobs[RANKS_MOST] = {{.on_device = true, .runs = 1}, {.on_device = true, .runs = 1}};
    atomic_store(&records_left, failed + 1);
    good = run_ranks(plans, &s.desc, &t, &how, jobs);
    const bool planted = atomic_load(&records_left) <= 0;
    if (good && planted) fail_msg("the error of record %ld is passed over", failed + 1);
    if (good) break;
    const char *first = jobs[0].text, *second = jobs[1].text;
    if (!strstr(first, "no event is recorded") && !strstr(second, "no event is recorded"))
      fail_msg("record %ld: '%s', '%s'", failed + 1, first, second);
    failed++;
  }
  (void)unsetenv("GA_DIST_COPIES");
  assert_true(failed > 10);
  free_tensors(&t);
  ga_dist_plan_destroy(plan);
  end_dist_case(&s);
}

/* --- a library of links --- */

static ga_status load_silent(ga_device *device, ga_link_facts *out) {
  (void)device;
  *out = (ga_link_facts){.version = "1", .place = "here"};
  return GA_OK;
}

static ga_status silent_id(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]) {
  (void)device;
  memset(id, 0, GA_LINK_ID_BYTES);
  return GA_OK;
}

/* Waits for ever for the other ranks: each look at the clock is 20 s later. */
static ga_status open_silent(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                             const ga_patience *patience, ga_link **out) {
  (void)device, (void)id, (void)rank, (void)ranks;
  *out = NULL;
  for (int i = 0; i < 4; i++) {
    GA_TRY(patience->ask(patience->user));
    (void)atomic_fetch_add(&late, 20);
  }
  return ga_error_set(GA_ERR_INTERNAL, "patience has no end");
}

/* Patience with a library that never reaches all ranks ends after 30 s. */
static void test_silent_links(void **state) {
  (void)state;
  static const ga_link_library silent = {.name = "silent", .load = load_silent, .id = silent_id, .open = open_silent};
  ga_comm_threads_options how = GA_COMM_THREADS_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  ga_comm *comm = NULL;
  ga_ctx *ctx = NULL;
  dist_exchange *x = NULL;
  c.device = "cpu", c.threads = 1;
  how.timeout = 2;
  assert_int_equal(ga_comm_threads_create(&how, &comm), GA_OK);
  assert_int_equal(ga_ctx_create(&c, &ctx), GA_OK);
  const ga_link_library *const before = ctx->device->links;
  ctx->device->links = &silent;
  assert_int_equal(dist_exchange_create(ctx, comm, DIST_COPIES_LINK, NULL, &x), GA_ERR_TIMEOUT);
  says("dist: rank 0 waited 30 s for silent to reach all ranks");
  assert_null(x);
  ctx->device->links = before;
  ga_comm_destroy(comm);
  ga_ctx_destroy(ctx);
}

/* --- verbs --- */

static void test_links_fail(void **state) {
  (void)state;
  dist_ranks ranks = DIST_RANKS_INIT;
  ranks.n = 2;
  const dist_links_options o = {.ranks = &ranks, .bytes = "64", .runs = 1};
  dist_links_found found;
  atomic_store(&links_fail, true);
  assert_int_equal(dist_links(&o, &found), GA_ERR_COMM);
  says("no block arrives");
}

/* One rank of two has another last bit, which rounding would allow. */
static void test_other_bits(void **state) {
  (void)state;
  dist_ranks ranks = DIST_RANKS_INIT;
  ranks.n = 2;
  const dist_reduce_options o = {.ranks = &ranks, .type = "f32", .bytes = "64"};
  dist_reduce_found found;
  assert_int_equal(dist_reduce(&o, &found), GA_OK);
  dist_reduce_free(&found);
  atomic_store(&bit_falls, true);
  assert_int_equal(dist_reduce(&o, &found), GA_ERR_INTERNAL);
  says("reduce: 64 bytes: ranks 0 and 1 have other bits");
  dist_reduce_free(&found);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_each_record_fails, without_faults),
                                     cmocka_unit_test_setup(test_silent_links, without_faults),
                                     cmocka_unit_test_setup(test_links_fail, without_faults),
                                     cmocka_unit_test_setup(test_other_bits, without_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
