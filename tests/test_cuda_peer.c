/* Two devices, and copies that the host does not wait for, over the mock driver. */
#include "base/status.h"
#include "core/ctx.h"
#include "tests/cuda_rig.h"

enum { BYTES = 1000 };

typedef struct pair {
  ga_ctx *a, *b;
  void *x, *y;
} pair;

static ga_status open_pair(pair *p, const char *second) {
  ga_status status = open_as("cuda:0", &p->a);
  if (status == GA_OK) status = open_as(second, &p->b);
  if (status == GA_OK) status = ga_buffer_alloc(p->a, BYTES, &p->x);
  return status == GA_OK ? ga_buffer_alloc(p->b, BYTES, &p->y) : status;
}

static void close_pair(pair *p) {
  if (p->a) ga_buffer_free(p->a, p->x);
  if (p->b) ga_buffer_free(p->b, p->y);
  ga_ctx_destroy(p->b);
  ga_ctx_destroy(p->a);
  *p = (pair){0};
}

/* There and back; the bytes that came back. */
static ga_status round_trip(pair *p, const char *second, unsigned char *got) {
  unsigned char sent[BYTES];
  for (int i = 0; i < BYTES; i++) sent[i] = (unsigned char)(i * 7 + 3);
  ga_status status = open_pair(p, second);
  if (status == GA_OK) status = ga_copy_to_device(p->a, p->x, sent, BYTES, NULL);
  if (status == GA_OK) status = ga_copy_between(p->b, p->y, p->a, p->x, BYTES);
  memset(sent, 0, BYTES);
  if (status == GA_OK) status = ga_copy_to_device(p->a, p->x, sent, BYTES, NULL);
  if (status == GA_OK) status = ga_copy_between(p->a, p->x, p->b, p->y, BYTES);
  return status == GA_OK ? ga_copy_to_host(p->a, got, p->x, BYTES, NULL) : status;
}

static void assert_round_trip(const char *second, int peer_copies) {
  pair p = {0};
  unsigned char got[BYTES] = {0};
  if (round_trip(&p, second, got) != GA_OK) fail_msg("%s: %s", second, ga_error_text());
  for (int i = 0; i < BYTES; i++) assert_int_equal(got[i], (unsigned char)(i * 7 + 3));
  assert_int_equal(mockcu.peer_copies, peer_copies);
  close_pair(&p);
}

static void test_between(void **state) {
  (void)state;
  assert_round_trip("cuda:1", 2);
}

static void test_without_peers(void **state) {
  (void)state;
  mockcu.no_peers = true;
  assert_round_trip("cuda:1", 0);
}

static void test_with_host(void **state) {
  (void)state;
  assert_round_trip("cpu", 0);
}

/* Every call of the driver fails once: an error or the right bytes, and nothing left behind (no_leaks). */
static void test_every_failure(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    pair p = {0};
    unsigned char got[BYTES];
    mockcu_reset();
    mockcu.fail_call = n;
    mockcu.fail_rc = 700;
    const ga_status status = round_trip(&p, "cuda:1", got);
    const bool reached = mockcu.calls >= n;
    close_pair(&p);
    assert_int_equal(mockcu.live, 0);
    assert_string_equal(mockcu.misuse, "");
    if (!reached) {
      assert_int_equal(status, GA_OK);
      break;
    }
  }
}

static void test_later(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  ga_event *event;
  void *host, *x;
  unsigned char got[BYTES];
  assert_int_equal(ga_host_alloc(ctx, BYTES, &host), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, BYTES, &x), GA_OK);
  assert_int_equal(ga_event_create(ctx, &event), GA_OK);
  memset(host, 0x5a, BYTES);
  assert_int_equal(ga_copy_to_device_later(ctx, x, host, BYTES, NULL), GA_OK);
  assert_string_equal(mockcu.last_call, "cuMemcpyHtoDAsync"); /* nothing is waited for */
  assert_int_equal(ga_event_record(ctx, event, NULL), GA_OK);
  assert_int_equal(ga_event_sync(event), GA_OK);
  assert_int_equal(ga_copy_to_host(ctx, got, x, BYTES, NULL), GA_OK);
  assert_memory_equal(got, host, BYTES);
  mockcu.fail_name = "cuEventSynchronize";
  mockcu.fail_rc = 700;
  assert_int_equal(ga_event_sync(event), GA_ERR_DEVICE);
  assert_int_equal(ga_event_sync(NULL), GA_ERR_ARG);
  mockcu.fail_name = NULL;
  ga_event_destroy(event);
  ga_host_free(ctx, host);
  ga_buffer_free(ctx, x);
  ga_ctx_destroy(ctx);
}

/* --- shared memory, and values in it --- */

/* One device makes memory, the other maps it, writes rows and then a value, for which the first one's stream waits. */
static ga_status exchange_buffers(pair *p, ga_shared *mine, ga_shared *theirs, unsigned char got[24], bool *done) {
  static const unsigned char sent[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  *mine = *theirs = (ga_shared){.fd = -1};
  GA_TRY(open_pair(p, "cuda:1"));
  const ga_device_ops *ops = p->a->device->ops;
  GA_TRY(p->a->device->sharing->alloc(p->a->device, 100, mine));
  GA_TRY(p->a->device->sharing->open(p->b->device, mine->fd, mine->bytes, theirs));
  GA_TRY(ga_copy_to_device(p->b, p->y, sent, sizeof sent, NULL));
  const ga_row_copy rows = {.dst = theirs->data, .src = p->y, .dst_pitch = 8, .src_pitch = 4, .width = 4, .rows = 3};
  uint32_t *const flag = (uint32_t *)((char *)theirs->data + 64);
  GA_TRY(p->a->device->sharing->fill(p->b->stream, (char *)theirs->data + 32, 0x01020304, 2));
  GA_TRY(ops->copy_rows(p->b->stream, &rows));
  GA_TRY(p->a->device->sharing->write_value(p->b->stream, flag, 7));
  GA_TRY(p->a->device->sharing->wait_value(p->a->stream, (const uint32_t *)((const char *)mine->data + 64), 7, NULL));
  GA_TRY(ops->stream_query(p->a->stream, done));
  return ga_copy_to_host(p->a, got, mine->data, 24, NULL);
}

static void end_exchange(pair *p, ga_shared *mine, ga_shared *theirs) {
  if (p->b) p->b->device->sharing->close(p->b->device, theirs);
  if (p->a) p->a->device->sharing->close(p->a->device, mine);
  close_pair(p);
}

static void test_peers_off(void **state) {
  (void)state;
  pair p = {0};
  unsigned char got[BYTES];
  setenv("GA_PEER", "off", 1);
  assert_round_trip("cuda:1", 0);
  ga_shared mine, theirs;
  bool done;
  assert_int_equal(exchange_buffers(&p, &mine, &theirs, got, &done), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "GA_PEER is off"));
  end_exchange(&p, &mine, &theirs);
  setenv("GA_PEER", "auto", 1);
  assert_round_trip("cuda:1", 2);
  setenv("GA_PEER", "no", 1);
  assert_int_equal(round_trip(&p, "cuda:1", got), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "GA_PEER is 'no'; allowed: auto, off");
  close_pair(&p);
}

static void test_shared_memory(void **state) {
  (void)state;
  static const unsigned char want[24] = {1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 11, 12};
  pair p = {0};
  ga_shared mine, theirs;
  unsigned char got[24];
  bool done = false;
  if (exchange_buffers(&p, &mine, &theirs, got, &done) != GA_OK) fail_msg("%s", ga_error_text());
  assert_true(done);
  assert_memory_equal(got, want, sizeof want);
  assert_int_equal(mine.bytes, 2 << 20); /* whole pages of the device */
  assert_ptr_not_equal(mine.data, theirs.data);
  end_exchange(&p, &mine, &theirs);
  mockcu_reset();
  mockcu.no_sharing = true;
  assert_int_equal(exchange_buffers(&p, &mine, &theirs, got, &done), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "cuda:0: its memory cannot be shared"));
  end_exchange(&p, &mine, &theirs);
  mockcu_reset();
  mockcu.no_peers = true;
  assert_int_equal(exchange_buffers(&p, &mine, &theirs, got, &done), GA_ERR_DEVICE);
  assert_non_null(strstr(ga_error_text(), "cuMemSetAccess"));
  end_exchange(&p, &mine, &theirs);
}

static void test_every_failure_of_sharing(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    pair p = {0};
    ga_shared mine, theirs;
    unsigned char got[24];
    bool done;
    mockcu_reset();
    mockcu.fail_call = n;
    mockcu.fail_rc = 700;
    const ga_status status = exchange_buffers(&p, &mine, &theirs, got, &done);
    const bool reached = mockcu.calls >= n;
    if (!reached) assert_int_equal(status, GA_OK);
    end_exchange(&p, &mine, &theirs);
    assert_int_equal(mockcu.live, 0);
    if (!reached) break;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_between, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_without_peers, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_peers_off, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_with_host, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_every_failure, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_later, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_shared_memory, reset, no_leaks),
      cmocka_unit_test_setup_teardown(test_every_failure_of_sharing, reset, no_leaks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
