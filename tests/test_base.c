/* Status text, checked sizes, arena, small floats, hash, thread pool, CPU quotas. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file_write.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "ga/hash.h"

static void test_error_text_names_context(void **state) {
  (void)state;
  assert_int_equal(ga_fail(GA_ERR_SHAPE, "k = %d", 7), GA_ERR_SHAPE);
  assert_int_equal(ga_fail_in(GA_ERR_SHAPE, "gemm"), GA_ERR_SHAPE);
  assert_string_equal(ga_error_text(), "gemm: k = 7");
  assert_string_equal(ga_status_name(GA_ERR_CANCELLED), "GA_ERR_CANCELLED");
  assert_string_equal(ga_status_name((ga_status)99), "unknown ga_status");
}

static void test_error_set(void **state) {
  (void)state;
  char longest[1024];
  assert_int_equal(ga_error_set(GA_ERR_IO, "%s: line %d", "settings", 3), GA_ERR_IO);
  assert_string_equal(ga_error_text(), "settings: line 3");
  assert_int_equal(ga_error_set(GA_ERR_FORMAT, "program: %s", ga_error_text()), GA_ERR_FORMAT);
  assert_string_equal(ga_error_text(), "program: settings: line 3");
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  assert_int_equal(ga_error_set(GA_ERR_ARG, "%sy", longest), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), longest);
}

/* Each code has its own name; the numbers themselves are pinned by tests/abi/layout.golden. */
static void test_status_names(void **state) {
  (void)state;
  for (int i = 0; i <= GA_ERR_BUSY; i++) {
    const char *name = ga_status_name((ga_status)i);
    assert_memory_equal(name, i ? "GA_ERR_" : "GA_OK", i ? 7 : 6);
    for (int k = 0; k < i; k++) assert_string_not_equal(name, ga_status_name((ga_status)k));
  }
  assert_string_equal(ga_status_name((ga_status)(GA_ERR_BUSY + 1)), "unknown ga_status");
}

static int stop_hashing(void *user, uint64_t done, uint64_t total) {
  uint64_t *seen = user;
  seen[0] = done;
  seen[1] = total;
  return 1;
}

/* The message of FIPS 180-4's examples, in memory and as a file; what cannot be read leaves "". */
static void test_public_sha256(void **state) {
  (void)state;
  static const char want[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  char hex[GA_SHA256_TEXT_BYTES], path[] = "/tmp/ga_hash_XXXXXX";
  uint64_t bytes = 7, seen[2];
  ga_sha256_of("abc", 3, hex);
  assert_string_equal(hex, want);
  const int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, "abc", 3) == 3 && close(fd) == 0);
  memset(hex, 'x', sizeof hex);
  assert_int_equal(ga_sha256_file(path, NULL, NULL, hex, &bytes), GA_OK);
  assert_string_equal(hex, want);
  assert_int_equal(bytes, 3);
  assert_int_equal(ga_sha256_file(path, stop_hashing, seen, hex, &bytes), GA_ERR_CANCELLED);
  assert_int_equal(seen[0], 3);
  assert_int_equal(seen[1], 3);
  assert_string_equal(hex, "");
  assert_int_equal(bytes, 0);
  assert_int_equal(remove(path), 0);
  assert_int_equal(ga_sha256_file(path, NULL, NULL, hex, NULL), GA_ERR_IO);
  assert_int_equal(ga_sha256_file("/", NULL, NULL, hex, NULL), GA_ERR_IO); /* opens, and cannot be read */
  assert_int_equal(ga_sha256_file(NULL, NULL, NULL, hex, NULL), GA_ERR_ARG);
}

static void test_sizes(void **state) {
  (void)state;
  uint64_t out = 5;
  assert_false(ga_mul_ok(UINT64_MAX, 2, &out));
  assert_int_equal(out, 5);
  assert_true(ga_mul_ok(1u << 20, 1u << 20, &out));
  assert_int_equal(out, 1ull << 40);
  assert_false(ga_add_ok(UINT64_MAX, 1, &out));
}

static void test_arena(void **state) {
  (void)state;
  ga_arena arena;
  ga_arena_init(&arena, 1 << 20);
  void *p, *q;
  assert_int_equal(ga_arena_alloc(&arena, 3, &p), GA_OK);
  assert_int_equal(ga_arena_alloc(&arena, 200000, &q), GA_OK);
  assert_int_equal((uintptr_t)q % 16, 0);
  assert_int_equal(ga_arena_alloc(&arena, 1 << 20, &q), GA_ERR_NOMEM);
  assert_null(q);
  ga_mem_fail_after(1);
  assert_int_equal(ga_arena_alloc(&arena, 300000, &q), GA_ERR_NOMEM);
  ga_mem_fail_after(0);
  ga_arena_free(&arena);
}

/* Every f16 and bf16 survives a round trip; rounding agrees with the definition by doubles. */
static void test_half_round_trip(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 0x10000; i++) {
    float x = ga_f16_to_f32((ga_f16)i), y = ga_bf16_to_f32((ga_bf16)i);
    if (!isnan(x))
      assert_int_equal(ga_f32_to_f16(x), i);
    else
      assert_true(isnan(ga_f16_to_f32(ga_f32_to_f16(x))));
    if (!isnan(y))
      assert_int_equal(ga_f32_to_bf16(y), i);
    else
      assert_true(isnan(ga_bf16_to_f32(ga_f32_to_bf16(y))));
  }
}

static void test_half_rounds_to_nearest(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  for (int i = 0; i < 200000; i++) {
    float x = (float)(ga_rng_normal(&rng) * pow(2.0, (double)ga_rng_below(&rng, 40) - 30));
    ga_f16 h = ga_f32_to_f16(x);
    double err = fabs((double)ga_f16_to_f32(h) - (double)x);
    if (fabsf(x) >= 65504) continue;
    double up = fabs((double)ga_f16_to_f32((ga_f16)(h + 1)) - (double)x);
    double down = (h & 0x7fff) ? fabs((double)ga_f16_to_f32((ga_f16)(h - 1)) - (double)x) : INFINITY;
    assert_true(err <= up && err <= down);
  }
  assert_int_equal(ga_f32_to_f16(65519.0f), 0x7bff);
  assert_int_equal(ga_f32_to_f16(65520.0f), 0x7c00);
}

static void check_tiny(float (*decode)(uint8_t), uint8_t (*encode)(float), int codes) {
  for (int i = 0; i < codes; i++) {
    float x = decode((uint8_t)i);
    if (isfinite(x)) assert_int_equal(encode(x), i);
  }
}

static void test_tiny_floats(void **state) {
  (void)state;
  check_tiny(ga_e4m3_to_f32, ga_f32_to_e4m3, 256);
  check_tiny(ga_e5m2_to_f32, ga_f32_to_e5m2, 256);
  check_tiny(ga_e2m1_to_f32, ga_f32_to_e2m1, 16);
  assert_int_equal(ga_f32_to_e4m3(1e9f), 0x7e);
  assert_int_equal(ga_f32_to_e2m1(2.5f), 4); /* tie between 2 and 3 goes to the even code: 2 */
  assert_true(isnan(ga_e4m3_to_f32(ga_f32_to_e4m3(NAN))));
  assert_float_equal(ga_e8m0_to_f32(127), 1.0f, 0);
  assert_float_equal(ga_e8m0_to_f32(0), 0x1p-127f, 0);
}

/* FIPS 180-4 examples. */
static void test_sha256(void **state) {
  (void)state;
  char hex[65];
  ga_sha256 sha;
  ga_sha256_init(&sha);
  ga_sha256_update(&sha, "abc", 3);
  ga_sha256_hex(&sha, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ga_sha256_init(&sha);
  for (int i = 0; i < 1000000; i++) ga_sha256_update(&sha, "a", 1);
  ga_sha256_hex(&sha, hex);
  assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* --- thread pool --- */

#define PIECES 100

typedef struct count_job {
  atomic_int runs[PIECES];
  atomic_llong sum;
  atomic_int bad;
  int n_threads;
} count_job;

static void count_piece(void *arg, int64_t piece, int thread) {
  count_job *job = arg;
  if (thread < 0 || thread >= job->n_threads || piece < 0 || piece >= PIECES) atomic_fetch_add(&job->bad, 1);
  atomic_fetch_add(&job->runs[piece], 1);
  atomic_fetch_add(&job->sum, piece);
}

static void count_range(void *arg, int64_t begin, int64_t end, int thread) {
  count_job *job = arg;
  if (begin >= end || begin % 8) atomic_fetch_add(&job->bad, 1);
  for (int64_t i = begin; i < end; i++) count_piece(arg, i, thread);
}

/* Every piece once, in each of many short regions, with more threads than this machine may have CPUs. */
static void test_pool(void **state) {
  (void)state;
  const int rounds = 200;
  for (int n = 1; n <= 5; n++) {
    ga_pool *pool;
    assert_int_equal(ga_pool_create(n, &pool), GA_OK);
    count_job job = {.n_threads = n};
    for (int round = 0; round < rounds; round++) {
      ga_pool_run(pool, PIECES, count_piece, &job);
      ga_pool_run(pool, 0, count_piece, &job);
      ga_pool_run_ranges(pool, PIECES, 8, count_range, &job);
    }
    for (int i = 0; i < PIECES; i++) assert_int_equal(atomic_load(&job.runs[i]), 2 * rounds);
    assert_int_equal(atomic_load(&job.sum), 2 * rounds * 4950);
    assert_int_equal(atomic_load(&job.bad), 0);
    ga_pool_destroy(pool);
  }
  ga_pool *pool;
  assert_int_equal(ga_pool_create(0, &pool), GA_ERR_ARG);
  assert_null(pool);
}

static void count_one(void *arg, int64_t piece, int thread) {
  (void)piece, (void)thread;
  atomic_fetch_add((atomic_long *)arg, 1);
}

/* Short regions of other sizes, one behind the other: a worker may be late by a region. */
static void test_pool_keeps_regions_apart(void **state) {
  (void)state;
  ga_pool *pool;
  atomic_long runs = 0;
  long want = 0;
  assert_int_equal(ga_pool_create(4, &pool), GA_OK);
  for (int round = 0; round < 200000; round++) {
    const int pieces = round % 7 ? 2 + round % 3 : 62;
    ga_pool_run(pool, pieces, count_one, &runs);
    want += pieces;
    assert_int_equal(atomic_load(&runs), want);
  }
  ga_pool_destroy(pool);
}

static void pause_ms(long ms) { (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

/* A worker that loses its CPU, as seen by the pool: it sleeps in its piece. */
static void slow_worker_piece(void *arg, int64_t piece, int thread) {
  (void)piece;
  if (!thread) {
    pause_ms(1);
    return;
  }
  atomic_fetch_add((atomic_int *)arg, 1);
  pause_ms(8);
}

/* The first region waits 5 ms for the worker. It then stays out for forty times that, so that the next regions are the
 * caller's alone. A pool that waits for all of its workers would have it in each of them. How often it was there beside
 * how often it may have been: that follows from the time that went by. */
static bool goes_on_without_a_slow_worker(void) {
  ga_pool *pool;
  atomic_int late = 0;
  assert_int_equal(ga_pool_create(2, &pool), GA_OK);
  for (int i = 0; i < 100 && !atomic_load(&late); i++) ga_pool_run(pool, 4, slow_worker_piece, &late);
  const int first = atomic_load(&late); /* pieces; several when the caller gets its CPU late */
  assert_in_range(first, 1, 3);
  const double start = ga_seconds();
  for (int i = 0; i < 20; i++) ga_pool_run(pool, 4, slow_worker_piece, &late);
  const int back = atomic_load(&late);
  const double seconds = ga_seconds() - start;
  pause_ms(300);
  for (int i = 0; i < 1000 && atomic_load(&late) == back; i++) ga_pool_run(pool, 4, slow_worker_piece, &late);
  assert_true(atomic_load(&late) > back); /* it is back */
  ga_pool_destroy(pool);
  return back - first <= (int)(seconds / 0.1);
}

/* A caller that gets its own CPU late waits less long, and the worker is back sooner: hence tries. */
static void test_pool_goes_on_without_a_slow_worker(void **state) {
  (void)state;
  bool goes_on = false;
  for (int i = 0; i < 5 && !goes_on; i++) goes_on = goes_on_without_a_slow_worker();
  assert_true(goes_on);
}

/* How often the worker is late within a second. */
static int times_late_in_a_second(void) {
  ga_pool *pool;
  atomic_int late = 0;
  assert_int_equal(ga_pool_create(2, &pool), GA_OK);
  for (int i = 0; i < 100 && !atomic_load(&late); i++) ga_pool_run(pool, 4, slow_worker_piece, &late);
  const double start = ga_seconds();
  while (ga_seconds() - start < 1) ga_pool_run(pool, 4, slow_worker_piece, &late);
  const double end = ga_seconds();
  ga_pool_destroy(pool);
  assert_true(ga_seconds() - end < 0.4); /* it does not wait for its time to be over */
  return atomic_load(&late);
}

/* Out for 200, 400, 800 ms: at 0, 0.2, 0.6, 1.4 s it is late again. Out for 200 ms each time it would be five times. A
 * caller that gets its own CPU late waits less long, and the worker is back sooner: hence tries. */
static void test_pool_lets_a_slow_worker_out_longer(void **state) {
  (void)state;
  int late = times_late_in_a_second();
  for (int i = 1; i < 5 && late > 3; i++) late = times_late_in_a_second();
  assert_in_range(late, 1, 3);
}

static long times_without_cpu(void) {
  struct rusage u;
  assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
  return u.ru_nivcsw;
}

/* A region of two pieces, one for each thread: the caller's ends when the worker's has begun, or after `patience`. */
typedef struct shared_region {
  atomic_bool worker_began, worker_ended;
  bool sleeps;              /* the worker's piece sleeps, and the caller's ends behind it; else it computes for 2 ms */
  bool rests;               /* meanwhile it gives its CPU away for a moment, four times */
  bool lost;                /* the worker lost its CPU within its piece */
  double patience, seconds; /* of the worker's piece */
  double caller_ended, waited; /* the caller, behind its own piece */
} shared_region;

static void compute_for_2_ms(double start, bool rests) {
  for (int i = 1; i <= 4; i++) {
    while (ga_seconds() - start < 5e-4 * i) continue;
    if (rests) (void)nanosleep(&(struct timespec){.tv_nsec = 1}, NULL);
  }
}

static void shared_piece(void *arg, int64_t piece, int thread) {
  (void)piece;
  shared_region *r = arg;
  const double start = ga_seconds();
  if (!thread) {
    atomic_bool *until = r->sleeps ? &r->worker_ended : &r->worker_began;
    while (!atomic_load(until) && ga_seconds() - start < r->patience) continue;
    r->caller_ended = ga_seconds();
    return;
  }
  const long before = times_without_cpu();
  atomic_store(&r->worker_began, true);
  if (r->sleeps)
    pause_ms(1);
  else
    compute_for_2_ms(start, r->rests);
  r->lost = times_without_cpu() != before;
  r->seconds = ga_seconds() - start;
  atomic_store(&r->worker_ended, true);
}

static shared_region run_shared_region(ga_pool *pool, bool sleeps, bool rests) {
  shared_region r = {.sleeps = sleeps, .rests = rests, .patience = 0.06};
  ga_pool_run(pool, 2, shared_piece, &r);
  r.waited = ga_seconds() - r.caller_ended;
  return r;
}

/* A try tells something where the worker's 2 ms took 2.5 at most, so that nobody else had its CPU for long, and the
 * caller slept. On a busy machine few do. */
static bool keeps_worker_mostly(bool rests) {
  int told = 0, kept = 0, tries = 0;
  for (; tries < 60 && told < 8; tries++) {
    ga_pool *pool;
    assert_int_equal(ga_pool_create(2, &pool), GA_OK);
    (void)run_shared_region(pool, true, false);
    const shared_region busy = run_shared_region(pool, false, rests);
    const bool tells = !busy.lost && busy.waited > 1.6e-3 && busy.seconds < 2.5e-3;
    const shared_region next = run_shared_region(pool, false, false);
    told += tells;
    kept += tells && atomic_load(&next.worker_began);
    ga_pool_destroy(pool);
  }
  if (told < 4)
    print_message("the worker lost its CPU in %d of %d tries: the test shows nothing\n", tries - told, tries);
  return told < 4 || kept > told / 2;
}

/* A worker that others keep from its CPU for the next region's patience looks as one that was sent out. */
static void keeps_worker(bool rests) {
  bool keeps = false;
  for (int i = 0; i < 3 && !keeps; i++) keeps = keeps_worker_mostly(rests);
  assert_true(keeps);
}

/* That the caller waits for a piece that computes is no reason to do without the worker; nor is it that the worker had
 * lost its CPU before that piece, when nobody waited. Were it sent out, it would be away for forty times the wait, and
 * that is longer than the next region's patience. */
static void test_pool_keeps_a_busy_worker(void **state) {
  (void)state;
  keeps_worker(false);
}

/* Nor is it that the system had the CPU for some microseconds. */
static void test_pool_keeps_an_interrupted_worker(void **state) {
  (void)state;
  keeps_worker(true);
}

/* --- quotas of control groups --- */

static char cgroup_root[64];

static void write_file(const char *name, const char *text) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s/%s", cgroup_root, name);
  assert_true(ga_make_folders_of(path));
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  assert_true(fputs(text, out) >= 0);
  assert_int_equal(fclose(out), 0);
}

static int cgroup_cpus(const char *list) {
  char path[256];
  write_file("list", list);
  (void)snprintf(path, sizeof path, "%s/list", cgroup_root);
  return ga_cgroup_cpus(path, cgroup_root);
}

/* What a file system says that forbids to make folders before it looks whether they are there. */
static bool refuse_mkdir;
int mkdir(const char *path, mode_t mode) {
  if (!refuse_mkdir) return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
  errno = EROFS;
  return -1;
}

static void test_file_write(void **state) {
  (void)state;
  char root[] = "/tmp/ga_write_XXXXXX", path[64], long_path[5000], back[4], command[64];
  assert_non_null(mkdtemp(root));
  (void)snprintf(path, sizeof path, "%s/a/b/file", root);
  assert_true(ga_make_folders_of(path) && ga_make_folders_of(path)); /* that they are there is no error */
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && ga_write_all(fd, "word", 4) && !ga_write_all(-1, "word", 4));
  ga_sync_folder_of(path);
  assert_int_equal(pread(fd, back, sizeof back, 0), 4);
  assert_memory_equal(back, "word", 4);
  assert_int_equal(close(fd), 0);
  refuse_mkdir = true;
  assert_true(ga_make_folders_of(path));
  (void)snprintf(path, sizeof path, "%s/a/c/file", root);
  assert_false(ga_make_folders_of(path));
  assert_int_equal(errno, EROFS);
  refuse_mkdir = false;
  (void)snprintf(path, sizeof path, "%s/a/b/file/below/it", root);
  assert_false(ga_make_folders_of(path));
  assert_int_equal(errno, ENOTDIR);
  memset(long_path, 'a', sizeof long_path - 1);
  long_path[sizeof long_path - 1] = 0;
  assert_false(ga_make_folders_of(long_path));
  assert_int_equal(errno, ENAMETOOLONG);
  assert_true(ga_ends_with("a.json", ".json") && ga_ends_with("a", "") && !ga_ends_with("n", ".json"));
  (void)snprintf(command, sizeof command, "rm -r %s", root);
  assert_int_equal(system(command), 0);
}

static void test_cgroup(void **state) {
  (void)state;
  char command[128];
  (void)strcpy(cgroup_root, "/tmp/ga_cgroup_XXXXXX");
  assert_non_null(mkdtemp(cgroup_root));
  assert_int_equal(ga_cgroup_cpus("/nonexistent", "/nonexistent"), 0);
  assert_int_equal(cgroup_cpus("0::/a/b\n"), 0); /* no files: no quota */
  write_file("a/b/cpu.max", "max 100000\n");
  assert_int_equal(cgroup_cpus("0::/a/b\n"), 0);
  write_file("a/cpu.max", "350000 100000\n"); /* of the group above */
  assert_int_equal(cgroup_cpus("0::/a/b\n"), 3);
  write_file("a/b/cpu.max", "50000 100000\n");
  assert_int_equal(cgroup_cpus("0::/a/b\n"), 1); /* half a CPU is one thread */
  assert_int_equal(cgroup_cpus("0::/\n"), 0);
  write_file("cpu.max", "200000 100000\n"); /* the root of a container */
  assert_int_equal(cgroup_cpus("0::/\n"), 2);
  assert_int_equal(cgroup_cpus("0::/gone\n"), 2);
  write_file("cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  write_file("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  assert_int_equal(cgroup_cpus("5:cpuset:/x\n4:cpu,cpuacct:/x/y\n"), 4);
  write_file("cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n");
  assert_int_equal(cgroup_cpus("4:cpu,cpuacct:/x\n"), 0);
  assert_int_equal(cgroup_cpus("not a list\n::\n"), 2); /* "::" is version 2 at the root */
  (void)snprintf(command, sizeof command, "rm -r %s", cgroup_root);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_error_text_names_context),
      cmocka_unit_test(test_error_set),
      cmocka_unit_test(test_status_names),
      cmocka_unit_test(test_public_sha256),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_arena),
      cmocka_unit_test(test_half_round_trip),
      cmocka_unit_test(test_half_rounds_to_nearest),
      cmocka_unit_test(test_tiny_floats),
      cmocka_unit_test(test_sha256),
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_pool_keeps_regions_apart),
      cmocka_unit_test(test_pool_goes_on_without_a_slow_worker),
      cmocka_unit_test(test_pool_lets_a_slow_worker_out_longer),
      cmocka_unit_test(test_pool_keeps_a_busy_worker),
      cmocka_unit_test(test_pool_keeps_an_interrupted_worker),
      cmocka_unit_test(test_file_write),
      cmocka_unit_test(test_cgroup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
