/* Ollama's interface where a real model would rarely come: reasoning and calls in an answer, durations, names. */
#include <math.h>
#include <stdlib.h>

#include "serve/ollama.h"
#include "tests/choice_rig.h"

static const char said[] = "<think>why</think>Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
                           "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

static void open_ollama(rig *g, sv_ollama *state, const char *body) {
  sv_fail fail = {0};
  json_t *json;
  *state = (sv_ollama){0};
  *g = (rig){.tok = byte_tokenizer()};
  assert_true(sv_body_parse(body, strlen(body), &json, &fail));
  assert_true(sv_ollama_chat(json, state, &json, &fail));
  assert_true(sv_request_chat(json, 258, &g->request, &fail));
  assert_true(sv_choice_init(&g->choice, &g->request.p, g->tok, NULL, &fail));
  assert_int_equal(sv_content_init(&g->choice.content, TOOL_FORMAT_HERMES, true, false, NULL), GA_OK);
  g->answer = (sv_answer){.request = &g->request,
                          .model = "m",
                          .id = "chat-0123456789abcdef0123456789abcdef",
                          .choices = &g->choice,
                          .n = 1,
                          .state = state};
}

/* What the message of each line says, put together. */
typedef struct heard {
  sv_text content, thinking, calls;
  bool is_done;
} heard;

static void hear_ollama(heard *h, const json_t *line) {
  const json_t *m = json_object_get(line, "message"), *call;
  const char *content = json_string_value(json_object_get(m, "content")),
             *thinking = json_string_value(json_object_get(m, "thinking"));
  size_t i;
  assert_false(h->is_done);
  assert_non_null(content);
  sv_puts(&h->content, content);
  if (thinking) sv_puts(&h->thinking, thinking);
  json_array_foreach(json_object_get(m, "tool_calls"), i, call) {
    const json_t *f = json_object_get(call, "function");
    char *arguments = json_dumps(json_object_get(f, "arguments"), JSON_COMPACT);
    sv_putf(&h->calls, "%s %d %s%s;", json_string_value(json_object_get(call, "id")),
            (int)json_integer_value(json_object_get(f, "index")), json_string_value(json_object_get(f, "name")),
            arguments);
    free(arguments);
  }
  h->is_done = json_is_true(json_object_get(line, "done"));
}

static void check_heard(heard *h) {
  assert_true(h->is_done);
  assert_string_equal(h->thinking.p, "why");
  assert_string_equal(h->content.p, "Hi");
  assert_string_equal(h->calls.p, "call_0123456789abcdef00 0 f{\"a\":1};call_0123456789abcdef01 1 g{};");
  sv_text_free(&h->content);
  sv_text_free(&h->thinking);
  sv_text_free(&h->calls);
}

static const char hello[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";

static void test_lines(void **state) {
  (void)state;
  for (size_t step = 1; step < 90; step += 11) {
    rig g;
    sv_ollama o;
    sv_text out = {0};
    heard h = {0};
    open_ollama(&g, &o, hello);
    assert_true(g.request.p.stream); /* unless the request says otherwise */
    for (size_t i = 0; i < sizeof said - 1; i++) {
      give(&g, GA_REQUEST_TOKEN, (unsigned char)said[i], NAN);
      if (i % step == 0) sv_ollama_put_lines(&out, &g.answer);
    }
    give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
    sv_ollama_put_lines(&out, &g.answer);
    sv_ollama_put_lines(&out, &g.answer); /* nothing more comes */
    for (const char *at = out.p; *at; at = strchr(at, '\n') + 1) {
      json_t *line = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, NULL);
      assert_non_null(line);
      hear_ollama(&h, line);
      json_decref(line);
    }
    check_heard(&h);
    sv_text_free(&out);
    close_answer(&g);
  }
}

static void test_whole(void **state) {
  (void)state;
  rig g;
  sv_ollama o;
  sv_text out = {0};
  heard h = {0};
  open_ollama(&g, &o, hello);
  give_text(&g, said);
  give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
  sv_ollama_put_whole(&out, &g.answer);
  json_t *line = json_loads(out.p, JSON_REJECT_DUPLICATES, NULL);
  assert_string_equal(json_string_value(json_object_get(line, "done_reason")), "stop");
  hear_ollama(&h, line);
  check_heard(&h);
  json_decref(line);
  sv_text_free(&out);
  close_answer(&g);
}

static void test_keep_alive(void **state) {
  (void)state;
  static const struct {
    const char *body;
    double seconds; /* NaN: refused */
  } cases[] = {{"{\"keep_alive\":300}", 300},
               {"{\"keep_alive\":-1}", -1},
               {"{\"keep_alive\":0}", 0},
               {"{\"keep_alive\":\"5m\"}", 300},
               {"{\"keep_alive\":\"1h30m2s\"}", 5402},
               {"{\"keep_alive\":\"-1s\"}", -1},
               {"{\"keep_alive\":\"1.5h\"}", 5400},
               {"{\"keep_alive\":\"250ms\"}", 0.25},
               {"{\"keep_alive\":\"60\"}", 60},
               {"{\"keep_alive\":\"\"}", NAN},
               {"{\"keep_alive\":\"5x\"}", NAN},
               {"{\"keep_alive\":\"m\"}", NAN},
               {"{\"keep_alive\":\"5m3\"}", NAN},
               {"{\"keep_alive\":\"nan\"}", NAN},
               {"{\"keep_alive\":true}", NAN},
               {"{\"keep_alive\":[]}", NAN}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sv_fail fail = {0};
    double seconds;
    json_t *body = json_loads(cases[i].body, 0, NULL);
    const bool ok = sv_ollama_keep_alive(body, &seconds, &fail);
    if (ok != !isnan(cases[i].seconds)) fail_msg("%s", cases[i].body);
    if (ok) assert_true(fabs(seconds - cases[i].seconds) < 1e-9);
    if (!ok) assert_int_equal(fail.http, 400);
    json_decref(body);
  }
}

static void test_ollama_names(void **state) {
  (void)state;
  assert_int_equal(sv_ollama_name_bytes("a:latest"), 1);
  assert_int_equal(sv_ollama_name_bytes("a:8b"), 4);
  assert_int_equal(sv_ollama_name_bytes(":latest"), 7);
  assert_int_equal(sv_ollama_name_bytes(""), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_whole),
                                     cmocka_unit_test(test_keep_alive), cmocka_unit_test(test_ollama_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
