/* Parts of ga bench --serve that need no server: events cut at any byte, what they say, quantiles, failures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "verify/bench/serve_client.h"

/* --- cutting --- */

typedef struct seen_events {
  char text[512]; /* each event in brackets */
  int n, stop_at;
} seen_events;

static bool note_event(void *user, const char *data, size_t bytes) {
  seen_events *s = user;
  assert_int_equal(data[bytes], 0);
  strcat(s->text, "[");
  strncat(s->text, data, bytes);
  strcat(s->text, "]");
  return ++s->n != s->stop_at;
}

static void assert_cut(const char *stream, const char *events) {
  const size_t n = strlen(stream);
  for (size_t piece = 1; piece <= n; piece++) {
    client_sse sse = {0};
    seen_events seen = {.n = 0};
    for (size_t at = 0; at < n; at += piece)
      assert_true(client_sse_feed(&sse, stream + at, n - at < piece ? n - at : piece, note_event, &seen));
    assert_string_equal(seen.text, events);
    client_sse_free(&sse);
  }
}

static void test_cut_events(void **state) {
  (void)state;
  assert_cut("data: a\n\ndata: b\n\n", "[a][b]");
  assert_cut("data: a\r\n\r\ndata:b\r\n\r\n", "[a][b]");
  assert_cut("data: a\r\rdata: b\r\r", "[a][b]");
  assert_cut("data: a\n\r\ndata: b\r\n\n", "[a][b]");
  assert_cut("data: a\ndata: b\n\n", "[a\nb]");
  assert_cut("data\n\n", "[]");
  assert_cut("data:  two spaces \n\n", "[ two spaces ]");
  assert_cut(": ping\n\n\n:\n\ndata: a\n\n", "[a]");
  assert_cut("event: x\nid: 7\nretry: 5\ndatabase: no\ndata: a\n\n", "[a]");
  assert_cut("event: x\n\n", "");
  assert_cut("\xef\xbb\xbf"
             "data: a\n\n\xef\xbb\xbf"
             "data: b\n\n",
             "[a]"); /* the second is no mark but part of a name */
  assert_cut("data: whole\n\ndata: not ended\n", "[whole]");
}

static void test_cut_ends(void **state) {
  (void)state;
  client_sse sse = {0};
  seen_events seen = {.stop_at = 2};
  static const char three[] = "data: a\n\ndata: b\n\ndata: c\n\n", half[] = "data: lost\ndata";
  assert_false(client_sse_feed(&sse, three, sizeof three - 1, note_event, &seen));
  assert_string_equal(seen.text, "[a][b]");
  client_sse_reset(&sse);
  seen = (seen_events){.n = 0};
  assert_true(client_sse_feed(&sse, half, sizeof half - 1, note_event, &seen));
  client_sse_reset(&sse);
  assert_true(client_sse_feed(&sse, three, sizeof three - 1, note_event, &seen));
  assert_string_equal(seen.text, "[a][b][c]");
  client_sse_free(&sse);
}

static void test_cut_is_bounded(void **state) {
  (void)state;
  client_sse sse = {0};
  seen_events seen = {.n = 0};
  static char much[1 << 20];
  memset(much, 'x', sizeof much);
  size_t fed = 0;
  while (fed <= CLIENT_MAX_EVENT && client_sse_feed(&sse, much, sizeof much, note_event, &seen)) fed += sizeof much;
  assert_int_equal(fed, CLIENT_MAX_EVENT);
  client_sse_free(&sse);
}

/* --- events --- */

static client_event read_event(const char *text) {
  client_event e;
  assert_true(client_event_read(text, strlen(text), &e));
  return e;
}

static void test_events(void **state) {
  (void)state;
  client_event e = read_event("[DONE]");
  assert_true(e.done && !e.choice && !e.text);
  e = read_event("{\"choices\": [{\"text\": \"a\"}], \"usage\": null}");
  assert_true(e.choice && e.text && !e.done && e.output_tokens == -1 && !*e.error);
  assert_true(read_event("{\"choices\": [{\"delta\": {\"content\": \"a\"}}]}").text);
  assert_true(read_event("{\"choices\": [{\"delta\": {\"reasoning_content\": \"a\"}}]}").text);
  assert_true(read_event("{\"choices\": [{\"delta\": {\"tool_calls\": [{}]}}]}").text);
  e = read_event("{\"choices\": [{\"delta\": {\"role\": \"assistant\", \"content\": \"\"}}]}");
  assert_true(e.choice && !e.text);
  e = read_event("{\"choices\": [], \"usage\": {\"prompt_tokens\": 3, \"completion_tokens\": 5}}");
  assert_true(!e.choice && e.prompt_tokens == 3 && e.output_tokens == 5);
  assert_int_equal(read_event("{\"usage\": {\"prompt_tokens\": -3}}").prompt_tokens, -1);
  assert_string_equal(read_event("{\"error\": {\"message\": \"no\"}}").error, "no");
  assert_string_equal(read_event("{\"error\": {\"code\": 5}}").error, "an error without a message");
  assert_false(client_event_read("{", 1, &e));
  assert_false(client_event_read("[1]", 3, &e));
}

static void test_refusals(void **state) {
  (void)state;
  char text[CLIENT_TEXT];
  static const char *const bodies[][2] = {{"{\"error\": {\"message\": \"busy\"}}", "busy"},
                                          {"{\"error\": \"busy\"}", "busy"},
                                          {"{\"detail\": \"busy\"}", "busy"},
                                          {"<html>\nrest", "<html>"},
                                          {"", ""}};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    client_error_text(bodies[i][0], strlen(bodies[i][0]), text);
    assert_string_equal(text, bodies[i][1]);
  }
  char longest[2 * CLIENT_TEXT];
  memset(longest, 'x', sizeof longest);
  client_error_text(longest, sizeof longest, text);
  assert_int_equal(strlen(text), CLIENT_TEXT - 1);
}

/* --- figures --- */

static bool is_close_to(double x, double y) { return x - y < 1e-12 && y - x < 1e-12; }

static void test_quantiles(void **state) {
  (void)state;
  static const double one[] = {7}, five[] = {1, 2, 4, 8, 16};
  const double behind[3] = {1, 5, NAN}; /* what lies behind the numbers is not read */
  assert_true(is_close_to(client_quantile(NULL, 0, 0.5), 0));
  assert_true(is_close_to(client_quantile(behind, 2, 1), 5));
  assert_true(is_close_to(client_quantile(one, 1, 0.99), 7));
  assert_true(is_close_to(client_quantile(five, 5, 0), 1) && is_close_to(client_quantile(five, 5, 1), 16));
  assert_true(is_close_to(client_quantile(five, 5, 0.5), 4));
  assert_true(is_close_to(client_quantile(five, 5, 0.9), 8 + 0.6 * 8));
  assert_true(is_close_to(client_quantile(five, 2, 0.5), 1.5));
}

static void test_summary(void **state) {
  (void)state;
  client_series s = {0}, more = {0};
  for (int i = 100; i > 0; i--) assert_true(client_series_add(i > 50 ? &s : &more, i));
  assert_true(client_series_join(&s, &more));
  const client_summary r = client_summarise(&s);
  assert_int_equal(r.n, 100);
  assert_true(is_close_to(r.mean, 50.5) && is_close_to(r.median, 50.5) && is_close_to(r.max, 100));
  assert_true(is_close_to(r.p90, 90.1) && is_close_to(r.p99, 99.01));
  free(s.x);
  free(more.x);
}

static void test_failures(void **state) {
  (void)state;
  client_level l = {0};
  for (int i = 0; i < 3; i++) client_level_fail(&l, "http 429", i ? "later" : "first");
  assert_true(l.n_errors == 1 && l.failed == 3 && l.errors[0].n == 3);
  assert_string_equal(l.errors[0].text, "first");
  for (int i = 0; i < 2 * CLIENT_MAX_ERRORS; i++) {
    const char kind[] = {(char)('a' + i), 0};
    client_level_fail(&l, kind, "");
  }
  int64_t sum = 0;
  for (int i = 0; i < l.n_errors; i++) sum += l.errors[i].n;
  assert_int_equal(l.n_errors, CLIENT_MAX_ERRORS);
  assert_int_equal(sum, l.failed);
}

static void test_rates(void **state) {
  (void)state;
  client_level l = {.completed = 6, .good = 3, .output_tokens = 60, .prompt_tokens = 40, .duration = 2};
  client_row r = client_row_of(&l);
  assert_true(is_close_to(r.requests_s, 3) && is_close_to(r.good_s, 1.5) && is_close_to(r.output_s, 30) &&
              is_close_to(r.total_s, 50));
  l.duration = 0;
  r = client_row_of(&l);
  assert_true(is_close_to(r.requests_s, 0) && is_close_to(r.total_s, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cut_events), cmocka_unit_test(test_cut_ends), cmocka_unit_test(test_cut_is_bounded),
      cmocka_unit_test(test_events),     cmocka_unit_test(test_refusals), cmocka_unit_test(test_quantiles),
      cmocka_unit_test(test_summary),    cmocka_unit_test(test_failures), cmocka_unit_test(test_rates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
