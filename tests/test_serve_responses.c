/* The Responses API where a real model would rarely come: reasoning and calls in an answer, and what is kept. */
#include <stdlib.h>

#include "serve/responses.h"
#include "tests/choice_rig.h"

static const char said[] = "<think>why</think>Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
                           "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

/* --- answers --- */

static void open_response(rig *g, sv_turns *turns) {
  static const char body[] = "{\"input\":\"hello\",\"stream\":true,\"stop\":\"END\"}";
  sv_fail fail = {0};
  json_t *json;
  sv_response *r = calloc(1, sizeof *r);
  assert_non_null(r);
  r->turns = turns;
  r->tenant = 7;
  *g = (rig){.tok = byte_tokenizer()};
  assert_true(sv_body_parse(body, strlen(body), &json, &fail));
  assert_true(sv_response_translate(json, r, &json, &fail));
  assert_true(sv_request_chat(json, 258, &g->request, &fail));
  assert_true(sv_choice_init(&g->choice, &g->request.p, g->tok, NULL, &fail));
  assert_int_equal(sv_content_init(&g->choice.content, TOOL_FORMAT_HERMES, true, false, NULL), GA_OK);
  g->answer = (sv_answer){.request = &g->request,
                          .model = "m",
                          .id = "resp_0123456789abcdef0123456789abcdef",
                          .choices = &g->choice,
                          .n = 1,
                          .state = r};
}

static void close_response(rig *g) {
  sv_response_free(g->answer.state);
  close_answer(g);
}

static const char *member(const json_t *v, const char *key) { return json_string_value(json_object_get(v, key)); }

/* Checks the items of a response, one after the other: reasoning, message, two calls. */
static void check_items(const json_t *response) {
  const json_t *items = json_object_get(response, "output"), *thought = json_array_get(items, 0),
               *message = json_array_get(items, 1), *call = json_array_get(items, 2);
  assert_int_equal(json_array_size(items), 4);
  assert_string_equal(member(response, "status"), "completed");
  assert_string_equal(member(thought, "type"), "reasoning");
  assert_string_equal(member(json_array_get(json_object_get(thought, "content"), 0), "text"), "why");
  assert_string_equal(member(message, "type"), "message");
  assert_string_equal(member(json_array_get(json_object_get(message, "content"), 0), "text"), "Hi");
  assert_string_equal(member(call, "type"), "function_call");
  assert_string_equal(member(call, "name"), "f");
  assert_string_equal(member(call, "arguments"), "{\"a\": 1}");
  assert_string_equal(member(call, "call_id"), "call_0123456789abcdef0123456789abcdef0002");
  assert_string_equal(member(json_array_get(items, 3), "arguments"), "{}");
  const json_t *usage = json_object_get(response, "usage");
  assert_int_equal(
      json_integer_value(json_object_get(json_object_get(usage, "output_tokens_details"), "reasoning_tokens")), 3);
}

/* Parses the events of a stream; *kinds gets their types without repeated deltas, *last the last response. */
static void read_events(const char *stream, sv_text *kinds, json_t **last) {
  json_int_t n = 0;
  char before[64] = "";
  *last = NULL;
  for (const char *at = stream; *at; at = strstr(at, "\n\n") + 2) {
    const char *data = strstr(at, "\ndata: ");
    json_t *e = json_loadb(data + 7, (size_t)(strstr(at, "\n\n") - data) - 7, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(e);
    assert_int_equal(json_integer_value(json_object_get(e, "sequence_number")), n++);
    const char *type = member(e, "type") + strlen("response.");
    if (strcmp(type, before) != 0) sv_putf(kinds, "%s ", type);
    (void)snprintf(before, sizeof before, "%s", type);
    json_t *response = json_object_get(e, "response");
    if (response) {
      json_decref(*last);
      *last = json_incref(response);
    }
    json_decref(e);
  }
}

static void test_response_streams(void **state) {
  (void)state;
  static const char part[] = "output_item.added content_part.added ", closed[] = "content_part.done output_item.done ",
                    call[] = "output_item.added function_call_arguments.delta function_call_arguments.done "
                             "output_item.done ";
  char want[1024];
  (void)snprintf(
      want, sizeof want,
      "created in_progress %sreasoning_text.delta reasoning_text.done %s%soutput_text.delta output_text.done "
      "%s%s%scompleted ",
      part, closed, part, closed, call, call);
  for (size_t step = 1; step < 90; step += 11) {
    rig g;
    sv_text out = {0}, kinds = {0};
    json_t *last;
    open_response(&g, NULL);
    for (size_t i = 0; i < sizeof said - 1; i++) {
      give(&g, GA_REQUEST_TOKEN, (unsigned char)said[i], NAN);
      if (i % step == 0) sv_response_put_events(&out, &g.answer);
    }
    give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
    sv_response_put_events(&out, &g.answer);
    sv_response_put_events(&out, &g.answer); /* nothing more comes */
    read_events(out.p, &kinds, &last);
    assert_string_equal(kinds.p, want);
    check_items(last);
    json_decref(last);
    sv_text_free(&out);
    sv_text_free(&kinds);
    close_response(&g);
  }
}

static void test_failed_stream(void **state) {
  (void)state;
  rig g;
  sv_text out = {0}, kinds = {0};
  json_t *last;
  sv_fail fail = {0};
  open_response(&g, NULL);
  give_text(&g, "<think>");
  give_text(&g, "why");
  sv_response_put_events(&out, &g.answer);
  (void)sv_refuse(&fail, 500, NULL, NULL, "lost");
  sv_response_put_failed(&out, &g.answer, &fail);
  read_events(out.p, &kinds, &last);
  assert_string_equal(kinds.p, "created in_progress output_item.added content_part.added reasoning_text.delta "
                               "reasoning_text.done content_part.done output_item.done failed ");
  assert_string_equal(member(json_object_get(last, "error"), "message"), "lost");
  assert_string_equal(member(last, "status"), "failed");
  json_decref(last);
  sv_text_free(&out);
  sv_text_free(&kinds);
  close_response(&g);
}

/* A whole response is kept, and a later request begins with all of it. */
static void test_kept_response(void **state) {
  (void)state;
  rig g;
  sv_text out = {0};
  sv_turns *turns = sv_turns_create(1 << 20);
  open_response(&g, turns);
  give_text(&g, said);
  give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
  sv_response_put_whole(&out, &g.answer);
  json_t *whole = json_loads(out.p, JSON_REJECT_DUPLICATES, NULL);
  check_items(whole);
  json_decref(whole);
  assert_null(sv_turns_find(turns, g.answer.id, 8));
  sv_turn *turn = sv_turns_find(turns, g.answer.id, 7);
  assert_non_null(turn);
  assert_string_equal(turn->response, out.p);
  sv_turn_release(turns, turn);
  close_response(&g);

  static const char next[] = "{\"previous_response_id\":\"resp_0123456789abcdef0123456789abcdef\",\"input\":[{\"type\":"
                             "\"function_call_output\",\"call_id\":\"call_1\",\"output\":\"5\"}]}";
  static const char messages[] =
      "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]},{\"role\":\"assistant\",\"content\":[{"
      "\"type\":\"text\",\"text\":\"Hi\"}],\"reasoning_content\":\"why\",\"tool_calls\":[{\"id\":"
      "\"call_0123456789abcdef0123456789abcdef0002\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
      "\"{\\\"a\\\": 1}\"}},{\"id\":\"call_0123456789abcdef0123456789abcdef0003\",\"type\":\"function\",\"function\":{"
      "\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":[{\"type\":"
      "\"text\",\"text\":\"5\"}]}]";
  sv_response *r = calloc(1, sizeof *r);
  sv_fail fail = {0};
  json_t *body, *want = json_loads(messages, 0, NULL);
  assert_non_null(r);
  r->turns = turns;
  r->tenant = 7;
  assert_true(sv_body_parse(next, strlen(next), &body, &fail));
  assert_true(sv_response_translate(body, r, &body, &fail));
  assert_true(json_equal(json_object_get(body, "messages"), want));
  json_decref(body);
  json_decref(want);
  sv_response_free(r);
  sv_text_free(&out);
  sv_turns_destroy(turns);
}

/* --- the store --- */

static void add_turn(sv_turns *turns, const char *id, uint64_t tenant, size_t bytes, sv_turn *previous) {
  sv_turn *turn = calloc(1, sizeof *turn);
  assert_non_null(turn);
  (void)snprintf(turn->id, sizeof turn->id, "%s", id);
  turn->tenant = tenant;
  turn->input = strdup("[]");
  turn->output = strdup("[]");
  turn->response = calloc(1, bytes + 1);
  memset(turn->response, 'x', bytes);
  turn->previous = previous;
  sv_turns_add(turns, turn);
}

static bool is_kept(sv_turns *turns, const char *id, uint64_t tenant) {
  sv_turn *turn = sv_turns_find(turns, id, tenant);
  sv_turn_release(turns, turn);
  return turn != NULL;
}

static void test_least_recently_used_leaves(void **state) {
  (void)state;
  sv_turns *turns = sv_turns_create(3600);
  add_turn(turns, "a", 0, 1000, NULL);
  add_turn(turns, "b", 0, 1000, NULL);
  assert_true(is_kept(turns, "a", 0)); /* now b was unused for longest */
  add_turn(turns, "c", 0, 1500, NULL);
  assert_true(is_kept(turns, "a", 0) && !is_kept(turns, "b", 0) && is_kept(turns, "c", 0));
  add_turn(turns, "d", 0, 9000, NULL); /* more than there is room for */
  assert_true(!is_kept(turns, "a", 0) && !is_kept(turns, "c", 0) && !is_kept(turns, "d", 0));
  sv_turns_destroy(turns);
}

static void test_removed_turns_go_on(void **state) {
  (void)state;
  sv_turns *turns = sv_turns_create(1 << 20);
  add_turn(turns, "a", 1, 10, NULL);
  assert_false(sv_turns_remove(turns, "a", 2));
  sv_turn *a = sv_turns_find(turns, "a", 1);
  add_turn(turns, "b", 1, 10, a);
  assert_true(sv_turns_remove(turns, "a", 1));
  assert_false(sv_turns_remove(turns, "a", 1));
  sv_turn *b = sv_turns_find(turns, "b", 1);
  assert_string_equal(b->previous->id, "a");
  assert_true(sv_turns_remove(turns, "b", 1));
  assert_string_equal(b->previous->response, "xxxxxxxxxx"); /* held by b, which is held here */
  sv_turn_release(turns, b);
  sv_turns_destroy(turns);
}

/* A conversation of many turns is freed without recursion. */
static void test_long_conversations(void **state) {
  (void)state;
  sv_turns *turns = sv_turns_create((size_t)1 << 30);
  char id[32];
  sv_turn *last = NULL;
  for (int i = 0; i < 100000; i++) {
    (void)snprintf(id, sizeof id, "%d", i);
    add_turn(turns, id, 0, 1, last);
    last = i % 10 ? sv_turns_find(turns, id, 0) : NULL;
  }
  sv_turn_release(turns, last);
  sv_turns_destroy(turns);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_response_streams),    cmocka_unit_test(test_failed_stream),
      cmocka_unit_test(test_kept_response),       cmocka_unit_test(test_least_recently_used_leaves),
      cmocka_unit_test(test_removed_turns_go_on), cmocka_unit_test(test_long_conversations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
