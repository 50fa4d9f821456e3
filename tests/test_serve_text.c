/* What the HTTP server writes: JSON, stop strings in pieces, answers from tokens, metrics, keys, base64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/admit.h"
#include "serve/answer.h"
#include "serve/anthropic.h"
#include "serve/auth.h"
#include "serve/embed.h"
#include "serve/metrics.h"
#include "tests/choice_rig.h"

/* Writes a number as UTF-8 writes code points of n bytes, and says how many these are. */
static size_t put_form(uint32_t c, size_t n, char out[4]) {
  static const unsigned char heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  if (n == 1) out[0] = (char)c;
  for (size_t i = n; n > 1 && i-- > 0; c >>= 6) out[i] = (char)(i ? 0x80 | (c & 63) : heads[n] | c);
  return n;
}

/* Each code point in its shortest form is one character; longer forms, surrogates and what lies above are none. */
static void test_every_character(void **state) {
  static const uint32_t most[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x1FFFFF};
  (void)state;
  for (size_t n = 1; n <= 4; n++)
    for (uint32_t c = 0; c <= most[n]; c++) {
      char form[4];
      const bool good = c > (n > 1 ? most[n - 1] : 0) || (n == 1 && c == 0);
      const bool real = good && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
      const size_t length = sv_utf8_length(form, put_form(c, n, form));
      if (length != (real ? n : 0)) fail_msg("U+%04X in %zu bytes: %zu", c, n, length);
      if (n > 1 && sv_utf8_length(form, n - 1)) fail_msg("U+%04X cut after %zu of %zu bytes", c, n - 1, n);
    }
}

static void test_json_text(void **state) {
  (void)state;
  sv_text t = {0};
  sv_put_json(&t, "a\"\\\n\x01\xC3\xA9\xFF\xED\xA0\x80z", 12);
  assert_string_equal(t.p, "\"a\\\"\\\\\\n\\u0001\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  sv_text_drop(&t, t.n);
  sv_put_number(&t, (double)NAN);
  sv_put_json(&t, "\0", 1);
  assert_string_equal(t.p, "null\"\\u0000\"");
  sv_text_free(&t);
  assert_false(sv_is_utf8("\xF4\x90\x80\x80", 4));
  assert_false(sv_is_utf8("\xC0\x80", 2));
  assert_true(sv_is_utf8("\xF0\x9F\x98\x80", 4));
  assert_int_equal(sv_utf8_count("a\xF0\x9F\x98\x80\xC3\xA9", 7), 3);
}

/* --- stop strings --- */

/* Pushes `text` in pieces of `step` bytes; *found is the stop string. */
static char *stop_in_pieces(const ga_text *stop, size_t n, bool include, const char *text, size_t step, int *found) {
  sv_stops s = {.stop = stop, .n = n, .include = include};
  sv_text out = {0};
  const size_t bytes = strlen(text);
  *found = -1;
  for (size_t at = 0; at < bytes && *found < 0; at += step)
    *found = sv_stops_push(&s, text + at, bytes - at < step ? bytes - at : step, &out);
  sv_stops_flush(&s, &out);
  sv_stops_free(&s);
  return out.p ? out.p : calloc(1, 1);
}

static void test_stop_strings(void **state) {
  (void)state;
  const ga_text stops[] = {{"</end>", 6}, {"STOP", 4}, {"aab", 3}};
  const struct {
    const char *text, *before;
    int found;
  } cases[] = {{"hello", "hello", -1},
               {"hi</end> more", "hi", 0},
               {"a </en STOP", "a </en ", 1},
               {"aaaab", "aa", 2},
               {"</e", "</e", -1},
               {"</</end>", "</", 0},
               {"STOSTOPSTOP", "STO", 1},
               {"", "", -1},
               {"\xC3\xA9STOP", "\xC3\xA9", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (size_t step = 1; step < 9; step++) {
      int found;
      char *out = stop_in_pieces(stops, 3, false, cases[i].text, step, &found);
      assert_int_equal(found, cases[i].found);
      assert_string_equal(out, cases[i].before);
      free(out);
    }
  int found;
  char *out = stop_in_pieces(stops, 3, true, "x STOP y", 3, &found);
  assert_string_equal(out, "x STOP");
  free(out);
}

/* What is no beginning of a stop string goes out at once. */
static void test_stop_strings_hold_little(void **state) {
  (void)state;
  const ga_text stops[] = {{"abc", 3}};
  sv_stops s = {.stop = stops, .n = 1};
  sv_text out = {0};
  assert_int_equal(sv_stops_push(&s, "xxab", 4, &out), -1);
  assert_string_equal(out.p, "xx");
  assert_int_equal(sv_stops_push(&s, "d", 1, &out), -1);
  assert_string_equal(out.p, "xxabd");
  sv_stops_free(&s);
  sv_text_free(&out);
}

/* --- answers --- */

/* Indentation of at least two; what the tokens say, and what is left of it. */
static void test_indent(void **state) {
  (void)state;
  static const struct {
    const char *said, *left;
  } cases[] = {{"a", "a"},          {"a\n", "a\n"},          {"a\n  b\n\t c\n   d", "a\n  b\n\t c\n   d"},
               {"a\n b\n  c", "a"}, {"a\n  b\nc", "a\n  b"}, {"a\n  \u00e9\n\n  b", "a\n  \u00e9"}, /* an empty line */
               {"\nb", ""},         {"a\n ", "a\n "}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    rig g;
    open_answer(&g, "{\"prompt\":\"a\"}", false);
    g.request.p.n_indent = 2;
    give_text(&g, cases[i].said);
    const bool cut = strcmp(cases[i].said, cases[i].left) != 0;
    assert_int_equal(g.choice.ended, cut);
    if (!cut) give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
    assert_string_equal(g.choice.finish, cut ? "length" : "stop");
    assert_int_equal(g.choice.text.n, strlen(cases[i].left));
    assert_memory_equal(g.choice.text.p ? g.choice.text.p : "", cases[i].left, g.choice.text.n);
    assert_int_equal(g.choice.chars, sv_utf8_count(cases[i].left, strlen(cases[i].left)));
    close_answer(&g);
  }
}

/* Half a second from the first token on, once there is a line end. */
static void test_time(void **state) {
  (void)state;
  rig g;
  open_answer(&g, "{\"prompt\":\"a\"}", false);
  g.request.p.predict_seconds = 0.5;
  sv_choice_check_time(&g.choice, 3);
  give_text(&g, "a");
  sv_choice_check_time(&g.choice, 10);
  sv_choice_check_time(&g.choice, 11);
  assert_false(g.choice.ended);
  give_text(&g, "\nb");
  sv_choice_check_time(&g.choice, 10.5);
  assert_false(g.choice.ended);
  sv_choice_check_time(&g.choice, 10.75);
  assert_true(g.choice.ended);
  assert_string_equal(g.choice.finish, "length");
  assert_memory_equal(g.choice.text.p, "a\nb", 3);
  g.request.p.predict_seconds = 0;
  close_answer(&g);
}

/* All events of a stream, each parsed; the texts joined. */
static char *joined(const char *stream, const char *path, size_t *n_events) {
  sv_text text = {0};
  sv_put(&text, "", 0);
  *n_events = 0;
  for (const char *at = stream; *at; ++*n_events) {
    const char *end = strstr(at, "\n\n");
    assert_non_null(end);
    assert_memory_equal(at, "data: ", 6);
    at += 6;
    json_t *e = strncmp(at, "[DONE]", 6) ? json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, NULL) : NULL;
    assert_true(e || !strncmp(at, "[DONE]", 6));
    const json_t *v = json_array_get(json_object_get(e, "choices"), 0);
    if (!strcmp(path, "content")) v = json_object_get(v, "delta");
    const char *s = json_string_value(json_object_get(v, path));
    if (s) sv_puts(&text, s);
    json_decref(e);
    at = end + 2;
  }
  return text.p;
}

static void test_characters_stay_whole(void **state) {
  (void)state;
  rig g;
  sv_text out = {0};
  size_t n;
  open_answer(&g, "{\"prompt\":\"p\",\"stream\":true,\"stop\":\"END\"}", false);
  const char *text = "a\xF0\x9F\x98\x80\xC3\xA9 EN";
  for (const char *p = text; *p; p++) {
    give(&g, GA_REQUEST_TOKEN, (unsigned char)*p, NAN);
    sv_put_chunks(&out, &g.answer, 0);
  }
  char *seen = joined(out.p, "text", &n);
  assert_string_equal(seen, "a\xF0\x9F\x98\x80\xC3\xA9 ");
  free(seen);
  give_text(&g, "D and more");
  assert_true(g.choice.ended);
  assert_string_equal(g.choice.finish, "stop");
  sv_put_chunks(&out, &g.answer, 0);
  sv_put_chunks(&out, &g.answer, 0); /* nothing more comes */
  sv_put_done(&out, &g.answer);
  seen = joined(out.p, "text", &n);
  assert_string_equal(seen, "a\xF0\x9F\x98\x80\xC3\xA9 ");
  assert_non_null(strstr(out.p, "\"finish_reason\":\"stop\",\"stop_reason\":\"END\""));
  free(seen);
  sv_text_free(&out);
  close_answer(&g);
}

static void test_reasons_to_end(void **state) {
  (void)state;
  const struct {
    const char *body;
    int32_t last;
    int32_t finish;
    const char *says;
  } cases[] = {
      {"{\"prompt\":\"p\"}", 256, GA_FINISH_EOG,
       "\"text\":\"ab\",\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null"},
      {"{\"prompt\":\"p\",\"stop_token_ids\":[99]}", 99, GA_FINISH_EOG,
       "\"text\":\"ab\",\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":99"},
      {"{\"prompt\":\"p\"}", 'c', GA_FINISH_LENGTH, "\"text\":\"abc\",\"logprobs\":null,\"finish_reason\":\"length\""},
      {"{\"prompt\":\"p\",\"ignore_eos\":true,\"skip_special_tokens\":false}", 256, GA_FINISH_CONTEXT,
       "\"text\":\"ab</s>\",\"logprobs\":null,\"finish_reason\":\"length\""},
      {"{\"prompt\":\"p\",\"echo\":true}", 257, GA_FINISH_LENGTH, "\"text\":\"pab\""},
      {"{\"prompt\":\"p\",\"stop\":\"ab\",\"min_tokens\":3}", 'c', GA_FINISH_LENGTH, "\"text\":\"abc\""},
      {"{\"prompt\":\"p\",\"stop\":\"bcd\"}", 'c', GA_FINISH_LENGTH, "\"text\":\"abc\""},
      {"{\"prompt\":\"p\"}", 0xE2, GA_FINISH_LENGTH, "\"text\":\"ab\xEF\xBF\xBD\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    rig g;
    sv_text out = {0};
    open_answer(&g, cases[i].body, false);
    give_text(&g, "ab");
    give(&g, GA_REQUEST_TOKEN, cases[i].last, NAN);
    give(&g, GA_REQUEST_END, cases[i].finish, NAN);
    sv_put_answer(&out, &g.answer);
    if (!strstr(out.p, cases[i].says)) fail_msg("%s: %s", cases[i].body, out.p);
    assert_non_null(strstr(out.p, "\"completion_tokens\":3"));
    sv_text_free(&out);
    close_answer(&g);
  }
}

static void test_completion_logprobs(void **state) {
  (void)state;
  rig g;
  sv_text out = {0};
  open_answer(&g, "{\"prompt\":\"p\xC3\xA9\",\"echo\":true,\"logprobs\":2}", false);
  give(&g, GA_REQUEST_PROMPT, 'p', NAN);
  give(&g, GA_REQUEST_PROMPT, 0xC3, -2.0f);
  give(&g, GA_REQUEST_PROMPT, 0xA9, -3.0f);
  give(&g, GA_REQUEST_TOKEN, 'z', -0.25f);
  give(&g, GA_REQUEST_END, GA_FINISH_LENGTH, NAN);
  sv_put_answer(&out, &g.answer);
  json_t *all = json_loads(out.p, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(all);
  const json_t *l = json_object_get(json_array_get(json_object_get(all, "choices"), 0), "logprobs");
  char *text = json_dumps(l, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
  assert_string_equal(text, "{\"text_offset\":[0,1,1,2],\"token_logprobs\":[null,-2,-3,-0.25],\"tokens\":[\"p\","
                            "\"bytes:\\\\xc3\",\"bytes:\\\\xa9\",\"z\"],\"top_logprobs\":[null,{\"bytes:\\\\xc3\":-2,"
                            "\"bytes:\\\\xe2\":-9999,\"z\":-0.25},{\"bytes:\\\\xa9\":-3,\"bytes:\\\\xe2\":-9999,"
                            "\"z\":-0.25},{\"bytes:\\\\xe2\":-9999,\"z\":-0.25}]}");
  free(text);
  json_decref(all);
  sv_text_free(&out);
  close_answer(&g);
}

static void test_chat_stream(void **state) {
  (void)state;
  rig g;
  sv_text out = {0};
  size_t n;
  open_answer(
      &g,
      "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,\"logprobs\":true,\"top_logprobs\":1,"
      "\"stream_options\":{\"include_usage\":true}}",
      true);
  sv_put_chunks(&out, &g.answer, 0);
  assert_non_null(strstr(out.p, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
  give(&g, GA_REQUEST_TOKEN, 0xC3, -1.0f);
  sv_put_chunks(&out, &g.answer, 0); /* half a character: its log-probability waits too */
  assert_null(strstr(out.p, "\"logprob\":"));
  give(&g, GA_REQUEST_TOKEN, 0xA9, -1.0f);
  sv_put_chunks(&out, &g.answer, 0);
  give(&g, GA_REQUEST_TOKEN, 256, -1.0f);
  give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
  sv_put_chunks(&out, &g.answer, 0);
  sv_put_done(&out, &g.answer);
  char *seen = joined(out.p, "content", &n);
  assert_string_equal(seen, "\xC3\xA9");
  assert_int_equal(n, 6); /* role, text, the end's log-probability, the reason, usage, [DONE] */
  assert_non_null(strstr(out.p, "\"bytes\":[195]"));
  assert_non_null(strstr(out.p, "\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":3"));
  free(seen);
  sv_text_free(&out);
  close_answer(&g);
}

/* Reasoning, content and a tool call, out of text in pieces of `step` bytes. */
static void check_message(size_t step, bool is_stream) {
  static const char text[] =
      "<think>why \xC3\xA9</think>Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"
      "<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";
  rig g;
  sv_text out = {0}, reasoning = {0}, content = {0}, names = {0};
  open_answer(&g, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true}", true);
  assert_int_equal(sv_content_init(&g.choice.content, TOOL_FORMAT_HERMES, true, false, NULL), GA_OK);
  (void)snprintf(g.answer.id, sizeof g.answer.id, "chatcmpl-0123456789abcdef0123456789abcdef");
  for (size_t i = 0; i < sizeof text - 1; i++) {
    give(&g, GA_REQUEST_TOKEN, (unsigned char)text[i], NAN);
    if (is_stream && i % step == 0) sv_put_chunks(&out, &g.answer, 0);
  }
  give(&g, GA_REQUEST_TOKEN, 256, NAN);
  give(&g, GA_REQUEST_END, GA_FINISH_EOG, NAN);
  if (is_stream)
    sv_put_chunks(&out, &g.answer, 0);
  else
    sv_put_answer(&out, &g.answer);
  for (const char *at = out.p; *at;) {
    const char *end = is_stream ? strstr(at, "\n\n") : at + strlen(at);
    json_t *e =
        json_loadb(at + (is_stream ? 6 : 0), (size_t)(end - at) - (is_stream ? 6 : 0), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(e);
    const json_t *choice = json_array_get(json_object_get(e, "choices"), 0);
    const json_t *m = json_object_get(choice, is_stream ? "delta" : "message"), *call;
    const char *r = json_string_value(json_object_get(m, "reasoning_content")),
               *c = json_string_value(json_object_get(m, "content"));
    size_t i;
    if (r) sv_puts(&reasoning, r);
    if (c) sv_puts(&content, c);
    json_array_foreach(json_object_get(m, "tool_calls"), i, call) {
      const json_t *f = json_object_get(call, "function");
      sv_putf(&names, "%s %s%s;", json_string_value(json_object_get(call, "id")),
              json_string_value(json_object_get(f, "name")), json_string_value(json_object_get(f, "arguments")));
    }
    const char *why = json_string_value(json_object_get(choice, "finish_reason"));
    if (why) assert_string_equal(why, "tool_calls");
    at = is_stream ? end + 2 : end;
    json_decref(e);
  }
  assert_string_equal(reasoning.p, "why \xC3\xA9");
  assert_string_equal(content.p, "Hi");
  assert_string_equal(names.p, "call_0123456789abcdef000000 f{\"a\": 1};call_0123456789abcdef000001 g{};");
  sv_text_free(&out);
  sv_text_free(&reasoning);
  sv_text_free(&content);
  sv_text_free(&names);
  close_answer(&g);
}

static void test_split_messages(void **state) {
  (void)state;
  check_message(1, false);
  for (size_t step = 1; step < 40; step += 3) check_message(step, true);
}

/* --- metrics, keys, hosts --- */

/* The same as a message of Anthropic: `kinds` are the types of events or of blocks in order. */
static void check_anthropic(size_t step, bool is_stream, int32_t finish, const char *kinds, const char *reason) {
  static const char text[] = "<think>why</think>Hi <tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
  rig g;
  sv_text out = {0}, seen = {0};
  open_answer(&g, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true,\"stop\":\"END\"}", true);
  assert_int_equal(sv_content_init(&g.choice.content, TOOL_FORMAT_HERMES, true, false, NULL), GA_OK);
  (void)snprintf(g.answer.id, sizeof g.answer.id, "msg_0123456789abcdef0123456789abcdef");
  for (size_t i = 0; i < sizeof text - 1; i++) {
    give(&g, GA_REQUEST_TOKEN, (unsigned char)text[i], NAN);
    if (is_stream && i % step == 0) sv_ant_put_events(&out, &g.answer);
  }
  if (finish == GA_FINISH_STOPPED) give_text(&g, "END");
  give(&g, GA_REQUEST_END, finish, NAN);
  if (is_stream)
    sv_ant_put_events(&out, &g.answer);
  else
    sv_ant_put_message(&out, &g.answer);
  for (const char *at = out.p; is_stream && *at; at = strstr(at, "\n\n") + 2) {
    const char *data = strstr(at, "\ndata: ");
    json_t *e = json_loadb(data + 7, (size_t)(strstr(at, "\n\n") - data) - 7, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(e);
    const char *type = json_string_value(json_object_get(e, "type"));
    const char *delta = json_string_value(json_object_get(json_object_get(e, "delta"), "type"));
    assert_memory_equal(at + 7, type, strlen(type));
    if (delta && strcmp(delta, "input_json_delta") == 0)
      assert_string_equal(json_string_value(json_object_get(json_object_get(e, "delta"), "partial_json")),
                          "{\"a\": 1}");
    if (!delta || !strstr(seen.p, delta))
      sv_putf(&seen, "%s ", delta ? delta : type); /* deltas of a block count once */
    json_decref(e);
  }
  json_t *whole = is_stream ? NULL : json_loads(out.p, JSON_REJECT_DUPLICATES, NULL);
  for (size_t i = 0; i < json_array_size(json_object_get(whole, "content")); i++)
    sv_putf(&seen, "%s ",
            json_string_value(json_object_get(json_array_get(json_object_get(whole, "content"), i), "type")));
  json_decref(whole);
  assert_string_equal(seen.p, kinds);
  if (!strstr(out.p, reason)) fail_msg("%s", out.p);
  assert_non_null(
      strstr(out.p, "{\"type\":\"tool_use\",\"id\":\"toolu_0123456789abcdef00\",\"name\":\"f\",\"input\":"));
  sv_text_free(&out);
  sv_text_free(&seen);
  close_answer(&g);
}

static void test_anthropic_messages(void **state) {
  (void)state;
  static const char events[] =
      "message_start content_block_start thinking_delta content_block_stop content_block_start "
      "text_delta content_block_stop content_block_start input_json_delta content_block_stop "
      "message_delta message_stop ";
  for (size_t step = 1; step < 90; step += 11)
    check_anthropic(step, true, GA_FINISH_EOG, events, "\"stop_reason\":\"tool_use\"");
  check_anthropic(1, false, GA_FINISH_EOG, "thinking text tool_use ",
                  "\"stop_reason\":\"tool_use\",\"stop_sequence\":null");
  check_anthropic(1, false, GA_FINISH_LENGTH, "thinking text tool_use ", "\"stop_reason\":\"max_tokens\"");
  check_anthropic(1, false, GA_FINISH_STOPPED, "thinking text tool_use ",
                  "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
}

static void test_metrics_text(void **state) {
  (void)state;
  sv_metrics m;
  sv_text t = {0};
  ga_engine_stats stats = GA_ENGINE_STATS_INIT;
  stats.running = 3;
  stats.kv_pages = 10;
  stats.kv_pages_used = 5;
  stats.prompt_tokens = 1234567890123;
  sv_metrics_init(&m);
  sv_observe(&m, SV_INTER_TOKEN, 0.01, 2);
  sv_observe(&m, SV_INTER_TOKEN, 0.3, 1);
  sv_observe(&m, SV_INTER_TOKEN, 1e9, 1);
  sv_count_finish(&m, "length");
  sv_put_metrics(&t, &m, &stats, "a\"b\\c");
#define LABELS "{model_name=\"a\\\"b\\\\c\",engine=\"0\""
  const char *const lines[] = {"# HELP vllm:num_requests_running ",
                               "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running" LABELS "} 3\n",
                               "vllm:kv_cache_usage_perc" LABELS "} 0.5\n",
                               "vllm:prompt_tokens_total" LABELS "} 1234567890123\n",
                               "# TYPE vllm:inter_token_latency_seconds histogram\n",
                               "vllm:inter_token_latency_seconds_bucket" LABELS ",le=\"0.01\"} 2\n",
                               "vllm:inter_token_latency_seconds_bucket" LABELS ",le=\"0.2\"} 2\n",
                               "vllm:inter_token_latency_seconds_bucket" LABELS ",le=\"0.3\"} 3\n",
                               "vllm:inter_token_latency_seconds_bucket" LABELS ",le=\"80\"} 3\n",
                               "vllm:inter_token_latency_seconds_bucket" LABELS ",le=\"+Inf\"} 4\n",
                               "vllm:inter_token_latency_seconds_count" LABELS "} 4\n",
                               "vllm:request_success_total" LABELS ",finished_reason=\"length\"} 1\n",
                               "vllm:request_success_total" LABELS ",finished_reason=\"stop\"} 0\n"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
    if (!strstr(t.p, lines[i])) fail_msg("not there: %s", lines[i]);
  sv_text_free(&t);
  sv_metrics_destroy(&m);
}

static void test_api_keys(void **state) {
  (void)state;
  char path[] = "/tmp/ga-keys-XXXXXX";
  const int fd = mkstemp(path);
  sv_keys keys;
  const char text[] = "# comment\n\nann:secret1\r\nsecret2\n";
  assert_true(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
  assert_int_equal(sv_keys_load(path, &keys), GA_OK);
  assert_int_equal(keys.n, 2);
  assert_string_equal(sv_keys_find(&keys, "Bearer secret1")->name, "ann");
  assert_string_equal(sv_keys_find(&keys, "bearer  secret2")->name, "key 2");
  assert_true(keys.p[0].tenant && keys.p[0].tenant != keys.p[1].tenant);
  assert_null(sv_keys_find(&keys, "Bearer secret"));
  assert_null(sv_keys_find(&keys, "Bearer "));
  assert_null(sv_keys_find(&keys, "secret1"));
  assert_null(sv_keys_find(&keys, NULL));
  sv_keys_free(&keys);
  assert_true(!ftruncate(fd, 11));
  assert_int_equal(sv_keys_load(path, &keys), GA_ERR_FORMAT);
  (void)close(fd);
  (void)unlink(path);
  assert_int_equal(sv_keys_load(path, &keys), GA_ERR_IO);
}

static void test_local_hosts(void **state) {
  (void)state;
  const char *const local[] = {"localhost",      "localhost:8080", "LocalHost:1", "a.localhost",
                               "127.0.0.1:8080", "[::1]:8080",     "10.0.0.1"};
  const char *const others[] = {"evil.com",           "evil.com:8080",         "notlocalhost",
                                "localhost.evil.com", "127.0.0.1.evil.com:80", ""};
  for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) assert_true(sv_is_local_host(local[i]));
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert_false(sv_is_local_host(others[i]));
}

static void test_base64(void **state) {
  (void)state;
  sv_text t = {0};
  const float v[] = {1.0f, -2.5f};
  sv_put_base64_floats(&t, v, 2);
  assert_string_equal(t.p, "AACAPwAAIMA=");
  sv_text_drop(&t, t.n);
  sv_put_base64_floats(&t, v, 1);
  assert_string_equal(t.p, "AACAPw==");
  sv_text_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_character),
                                     cmocka_unit_test(test_json_text),
                                     cmocka_unit_test(test_stop_strings),
                                     cmocka_unit_test(test_stop_strings_hold_little),
                                     cmocka_unit_test(test_characters_stay_whole),
                                     cmocka_unit_test(test_reasons_to_end),
                                     cmocka_unit_test(test_completion_logprobs),
                                     cmocka_unit_test(test_chat_stream),
                                     cmocka_unit_test(test_split_messages),
                                     cmocka_unit_test(test_anthropic_messages),
                                     cmocka_unit_test(test_metrics_text),
                                     cmocka_unit_test(test_api_keys),
                                     cmocka_unit_test(test_local_hosts),
                                     cmocka_unit_test(test_indent),
                                     cmocka_unit_test(test_time),
                                     cmocka_unit_test(test_base64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
