/* Output of models, split into content, reasoning and tool calls. Every text is cut at every byte, and into pieces of
 * several sizes; what comes out is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/output_record.h"

#define ALL SIZE_MAX

/* --- one text, cut --- */

/* First a piece of `first` bytes, then pieces of `size`. */
static void parse_cut(tool_parser *p, const char *text, size_t n, size_t first, size_t size, tool_sink sink,
                      output_record *out) {
  sink.user = out;
  for (size_t at = 0, piece; at < n; at += piece) {
    piece = at ? size : first;
    if (piece > n - at) piece = n - at;
    if (!piece) piece = 1;
    assert_int_equal(tool_parser_push(p, text + at, piece, &sink), GA_OK);
  }
  tool_parser_finish(p, &sink);
}

static const tool_sink recorder = {
    NULL, record_content, record_begin, record_arguments, record_end, NULL,
};

static void check_cut(tool_parser *p, const char *text, size_t n, size_t first, size_t size, const tool_sink *sink,
                      const char *want, size_t n_want) {
  output_record out = {0};
  parse_cut(p, text, n, first, size, *sink, &out);
  if (out.bytes != n_want || (n_want && memcmp(out.text, want, n_want)))
    fail_msg("cut after %zu, then %zu: %.200s\ngave %.200s\nnot  %.200s", first, size, text, out.text ? out.text : "",
             want);
  record_clear(&out);
}

static void check_text_cut(tool_format format, const char *text, size_t n, const tool_sink *sink, const char *want,
                           size_t n_want) {
  tool_parser *p;
  assert_int_equal(tool_parser_create(format, &p), GA_OK);
  for (size_t first = 0; first <= n && n < 2000; first++) check_cut(p, text, n, first, ALL, sink, want, n_want);
  for (size_t size = 1; size <= 7; size++) check_cut(p, text, n, size, size, sink, want, n_want);
  check_cut(p, text, n, ALL, ALL, sink, want, n_want);
  tool_parser_destroy(p);
}

static void check(tool_format format, const char *text, const char *want) {
  check_text_cut(format, text, strlen(text), &recorder, want, strlen(want));
}
/* No call is in it. */
static void check_no_call(tool_format format, const char *text) { check(format, text, text); }

/* --- formats --- */

#define CALL(json) "<tool_call>\n" json "\n</tool_call>"

static void test_hermes(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_HERMES;
  check(f, CALL("{\"name\": \"sum\", \"arguments\": {\"a\": 1, \"b\": [2, {}]}}"), "[sum {\"a\": 1, \"b\": [2, {}]}]");
  check(f, "Let me see.\n" CALL("{\"arguments\":{},\"name\":\"now\"}") "\n", "Let me see.[now {}]");
  check(f, CALL("{\"name\":\"a\",\"arguments\":{}}") "\n" CALL("{\"name\":\"b\",\"arguments\":{}}"), "[a {}][b {}]");
  check(f, CALL("{\"name\":\"a\",\"arguments\":{}}") " and\n" CALL("{\"name\":\"b\",\"arguments\":{}}") "\ndone\n",
        "[a {}] and[b {}]\ndone\n");
  check(f, "<tool_call>{\"name\":\"a\",\"parameters\":{},\"id\":\"7\",\"type\":\"function\"}</tool_call>", "[a {}]");
  check(f, "<tool_call>{\"name\":\"a\",\"arguments\":{}}", "[a {}]"); /* complete without its closing tag */
  check(f, "<tool_call>{\"name\":\"a\",\"arguments\":{}}\n</tool_", "[a {}]");
  check(f, "<tool_call>{\"name\":\"\\u0061\\u00e9\",\"arguments\":{\"x\":1e2}}</tool_call>", "[a\xC3\xA9 {\"x\":1e2}]");
}

static void test_hermes_broken(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_HERMES;
  check_no_call(f, "");
  check_no_call(f, " \n ");
  check_no_call(f, "a < b, <tool>, <tool_cal, <<tool_calls> and \n\n");
  check_no_call(f, "<tool_call>");
  check_no_call(f, "<tool_call> {\"name\": \"f\", \"arguments\": {\"x\":");
  check_no_call(f, CALL(""));
  check_no_call(f, CALL("[]"));
  check_no_call(f, CALL("{}"));
  check_no_call(f, CALL("{\"name\":\"f\"}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":null}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":[]}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":\"{}\"}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{},\"parameters\":{}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{},\"more\":{}}"));
  check_no_call(f, CALL("{\"name\":\"\",\"arguments\":{}}"));
  check_no_call(f, CALL("{\"name\":\"a\\nb\",\"arguments\":{}}"));
  check_no_call(f, CALL("{\"name\":\"a\\u0000b\",\"arguments\":{}}"));
  check_no_call(f, CALL("{\"name\":7,\"arguments\":{}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"name\":\"g\",\"arguments\":{}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":1,\"x\":2}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":01}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":1e999}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":nul}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":\"\\q\"}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":\"two\nlines\"}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":\"\xC3\x28\"}}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{]}"));
  check_no_call(f, CALL("{\"name\":\"f\",\"arguments\":{}}}"));
  check_no_call(f, CALL("{'name':'f','arguments':{}}"));
  /* A good one behind a broken one. */
  check(f, "<tool_call><tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>", "<tool_call>[f {}]");
  check(f, "<tool_call>{\"name\":<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":[f {}]");
  check(f, CALL("{\"name\":\"f\"}") "\n" CALL("{\"name\":\"g\",\"arguments\":{}}"), CALL("{\"name\":\"f\"}") "[g {}]");
  check(f, "<tool_call>{\"name\":\"f\",\"arguments\":{}} <tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"f\",\"arguments\":{}}[g {}]");
  check(f, "<<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call><", "<[f {}]<");
}

static void test_texts_in_arguments(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_HERMES;
  check(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":\"</tool_call>{}[\\\"\\\\\"}}"),
        "[f {\"x\":\"</tool_call>{}[\\\"\\\\\"}]");
  check(f, CALL("{\"name\":\"f\",\"arguments\":{\"x\":\"<tool_call>\\u0000\xF0\x9F\xA6\x86\\ud83e\\udd86\"}}"),
        "[f {\"x\":\"<tool_call>\\u0000\xF0\x9F\xA6\x86\\ud83e\\udd86\"}]");
  check(f, CALL("{\"name\":\"f\",\"arguments\":{\"arguments\":{\"name\":\"g\"},\"n\":123456789012345678901234567890}}"),
        "[f {\"arguments\":{\"name\":\"g\"},\"n\":123456789012345678901234567890}]");
  check(f,
        CALL("{\"type\":{\"arguments\":{\"x\":1}},\"id\":[{\"arguments\":{}}],\"name\":\"f\",\"arguments\":{\"y\":2}}"),
        "[f {\"y\":2}]");
  check(
      f,
      "\xE4\xBD\xA0<tool_call>{\"name\":\"\xE4\xBD\xA0\",\"arguments\":{\"\xE5\xA5\xBD\":0.1}}</tool_call>\xE5\xA5\xBD",
      "\xE4\xBD\xA0[\xE4\xBD\xA0 {\"\xE5\xA5\xBD\":0.1}]\xE5\xA5\xBD");
}

static void test_llama3(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_LLAMA3;
  check(f, "{\"name\": \"sum\", \"parameters\": {\"a\": 1}}", "[sum {\"a\": 1}]");
  check(f, "\n<|python_tag|> {\"type\": \"function\", \"name\": \"sum\", \"parameters\": {}}\n", "[sum {}]");
  check(f, "{\"name\":\"a\",\"parameters\":{\"x\":\";\"}}; {\"name\":\"b\",\"arguments\":{}}",
        "[a {\"x\":\";\"}][b {}]");
  check_no_call(f, "Hello, {\"name\":\"a\",\"parameters\":{}}");
  check_no_call(f, "{\"name\":\"a\",\"parameters\":{}} is what I would call.");
  check_no_call(f, "{\"name\":\"a\",\"parameters\":{}};");
  check_no_call(f, "{\"name\":\"a\",\"parameters\":{}};{\"name\":\"b\"}");
  check_no_call(f, "{\"name\":\"a\",\"parameters\":{}}{\"name\":\"b\",\"parameters\":{}}");
  check_no_call(f, "{\"answer\": 42}");
  check_no_call(f, "{\"name\": \"Ann\", \"age\": 7}");
  check_no_call(f, "<|python_tag|>print(1)");
  check_no_call(f, "<|python_tag|");
  check_no_call(f, "<|python_{\"name\":\"a\",\"parameters\":{}}");
  check_no_call(f, "  ");
}

static void test_mistral(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_MISTRAL;
  check(f, "[TOOL_CALLS] [{\"name\": \"sum\", \"arguments\": {\"a\": 1}}]", "[sum {\"a\": 1}]");
  check(f, "Yes. [TOOL_CALLS][{\"name\":\"a\",\"arguments\":{}}, {\"name\":\"b\",\"arguments\":{},\"id\":\"x\"}]\n",
        "Yes.[a {}][b {}]");
  check(f, "[TOOL_CALLS]sum[ARGS]{\"a\": \"[TOOL_CALLS]\"}", "[sum {\"a\": \"[TOOL_CALLS]\"}]");
  check(f, "[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b_2.c-d[CALL_ID]aB3[ARGS] {} then", "[a {}][b_2.c-d {}] then");
  check(f, "[TOOL_CALLS] sum{\"a\": 1}", "[sum {\"a\": 1}]");
  check(f, "[TOOL_CALLS]a[TOOL_CALLS]b[ARGS]{}", "[TOOL_CALLS]a[b {}]");
  check_no_call(f, "[TOOL_CALLS]");
  check_no_call(f, "[TOOL_CALLS] []");
  check_no_call(f, "[TOOL_CALLS] [{\"name\":\"a\",\"arguments\":{}}");
  check_no_call(f, "[TOOL_CALLS] [{\"name\":\"a\",\"arguments\":{}},]");
  check_no_call(f, "[TOOL_CALLS] [{\"name\":\"a\",\"arguments\":{}}, {\"name\":\"b\"}]");
  check_no_call(f, "[TOOL_CALLS]a[ARGS]");
  check_no_call(f, "[TOOL_CALLS]a[ARGS]{\"x\":1");
  check_no_call(f, "[TOOL_CALLS]a[ARGS]{\"x\":1,\"x\":1}");
  check_no_call(f, "[TOOL_CALLS]a[ARGS]{\"x\":+1}");
  check_no_call(f, "[TOOL_CALLS]a[ARGS][]");
  check_no_call(f, "[TOOL_CALLS]a b[ARGS]{}");
  check_no_call(f, "[TOOL_CALLS]a[CALL_ID]x[CALL_ID]y[ARGS]{}");
  check_no_call(f, "[1, 2] and [TOOL_");
}

#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define CODER(body)       "<tool_call>\n<function=f>\n" body "</function>\n</tool_call>"

static void test_qwen3_coder(void **state) {
  (void)state;
  const tool_format f = TOOL_FORMAT_QWEN3_CODER;
  check(f, CODER(""), "[f {}]");
  check(f, "So:\n\n" CODER(PARAM("a", "1") PARAM("b", "two\n lines")), "So:[f {\"a\":1,\"b\":\"two\\n lines\"}]");
  check(f, CODER(PARAM("a", "{\"x\": [1.5]}") PARAM("b", "[]") PARAM("c", "null") PARAM("d", "\"q\"") PARAM("e", "")),
        "[f {\"a\":{\"x\":[1.5]},\"b\":[],\"c\":null,\"d\":\"\\\"q\\\"\",\"e\":\"\"}]");
  check(f, CODER(PARAM("a", "-") PARAM("b", "truer") PARAM("c", "{\"x\":}") PARAM("d", " 5 ") PARAM("e", "{} {}")),
        "[f {\"a\":\"-\",\"b\":\"truer\",\"c\":\"{\\\"x\\\":}\",\"d\":\" 5 \",\"e\":\"{} {}\"}]");
  check(f, CODER(PARAM("a", "<b></param</parameter <<tool_call></function>")),
        "[f {\"a\":\"<b></param</parameter <<tool_call></function>\"}]");
  check(f, CODER("") "\n" CODER(PARAM("x", "\xE4\xBD\xA0")) "\n", "[f {}][f {\"x\":\"\xE4\xBD\xA0\"}]");
  /* Without the outer tag, or with its end alone. */
  check(f, "Go\n<function=f></function>", "Go[f {}]");
  check(f, "<function=f></function>\n</tool_call>\n", "[f {}]");
  check(f, "<function=f></function>\n</tool", "[f {}]\n</tool");
  check(f, "<function=f></function>\n<function=g></function> ok", "[f {}][g {}] ok");
  check(f, "<function=f></function>\n</tools>", "[f {}]\n</tools>");
  check(f, "<tool_call><function=f></function>", "[f {}]");
  check_no_call(f, "<tool_call>\n<function=f>\n" PARAM("a", "1"));
  check_no_call(f, "<tool_call><function=f></function></tools>");
  check_no_call(f, "<tool_call><function=></function></tool_call>");
  check_no_call(f, "<tool_call><function=a\nb></function></tool_call>");
  check_no_call(f, "<tool_call>f</tool_call>");
  check_no_call(f, CODER(PARAM("a", "1") PARAM("a", "2")));
  check_no_call(f, CODER(PARAM("", "1")));
  check_no_call(f, CODER("1"));
  check_no_call(f, CODER(PARAM("a", "\xFF")));
  check_no_call(f, "<functions=1> <function");
}

static bool a_is_string(void *user, const char *function, const char *parameter) {
  (void)user;
  return !strcmp(function, "f") && !strcmp(parameter, "a");
}

static void test_types_of_values(void **state) {
  (void)state;
  tool_sink sink = recorder;
  sink.is_string = a_is_string;
  const char *text = CODER(PARAM("a", "12") PARAM("b", "12"));
  check_text_cut(TOOL_FORMAT_QWEN3_CODER, text, strlen(text), &sink, "[f {\"a\":\"12\",\"b\":12}]",
                 strlen("[f {\"a\":\"12\",\"b\":12}]"));
}

/* --- bounds --- */

static char *repeated(const char *head, const char *unit, size_t times, const char *tail, size_t *bytes) {
  const size_t n_head = strlen(head), n_unit = strlen(unit), n_tail = strlen(tail);
  char *text = malloc(n_head + times * n_unit + n_tail + 1), *at = text;
  assert_non_null(text);
  at = (char *)memcpy(at, head, n_head) + n_head;
  for (size_t i = 0; i < times; i++) at = (char *)memcpy(at, unit, n_unit) + n_unit;
  memcpy(at, tail, n_tail + 1);
  *bytes = n_head + times * n_unit + n_tail;
  return text;
}

/* One call or none comes out of head, unit * times, tail. */
static void check_bound(tool_format format, const char *head, const char *unit, size_t times, const char *tail,
                        size_t calls) {
  size_t n;
  char *text = repeated(head, unit, times, tail, &n);
  tool_parser *p;
  assert_int_equal(tool_parser_create(format, &p), GA_OK);
  const size_t sizes[] = {ALL, 1, 1000};
  for (int i = 0; i < 3; i++) {
    output_record out = {0};
    parse_cut(p, text, n, sizes[i], sizes[i], recorder, &out);
    if (out.calls != calls) fail_msg("%s %zu times: %zu calls, not %zu", unit, times, out.calls, calls);
    if (!calls) assert_true(out.bytes == n && !memcmp(out.text, text, n));
    record_clear(&out);
  }
  tool_parser_destroy(p);
  free(text);
}

static void test_call_bounds(void **state) {
  (void)state;
  const char *head = "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":", *tail = "}}</tool_call>";
  char open[128], close[128];
  (void)snprintf(open, sizeof open, "%s\"", head);
  (void)snprintf(close, sizeof close, "\"%s", tail);
  const size_t markup = strlen(open) + strlen(close);
  check_bound(TOOL_FORMAT_HERMES, open, "x", TOOL_CALL_BYTES_MAX - markup, close, 1);
  check_bound(TOOL_FORMAT_HERMES, open, "x", TOOL_CALL_BYTES_MAX, close, 0);
  check_bound(TOOL_FORMAT_HERMES, open, "x", TOOL_CALL_BYTES_MAX + 100000, "", 0);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":[1", ",1", 60000, "]}}</tool_call>",
              1);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":[1", ",1", 70000, "]}}</tool_call>",
              0);
  check_bound(TOOL_FORMAT_HERMES, "", "<tool_call>{\"", 50000, "", 0);
  check_bound(TOOL_FORMAT_HERMES, "", "<tool_call> ", 50000, "", 0);
  check_bound(TOOL_FORMAT_HERMES, "", " ", 100000, "", 0);
  check_bound(TOOL_FORMAT_HERMES, "", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n", 3000, "", 3000);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>", " ", 64, "{\"name\":\"f\",\"arguments\":{}}</tool_call>", 1);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>", " ", 65, "{\"name\":\"f\",\"arguments\":{}}</tool_call>", 0);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>{\"arguments\":{},\"name\":\"", "n", 256, "\"}</tool_call>", 1);
  check_bound(TOOL_FORMAT_HERMES, "<tool_call>{\"arguments\":{},\"name\":\"", "n", 257, "\"}</tool_call>", 0);
  check_bound(TOOL_FORMAT_MISTRAL, "[TOOL_CALLS]", "n", 256, "[ARGS]{}", 1);
  check_bound(TOOL_FORMAT_MISTRAL, "[TOOL_CALLS]", "n", 257, "[ARGS]{}", 0);
  check_bound(TOOL_FORMAT_MISTRAL, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}",
              ",{\"name\":\"f\",\"arguments\":{}}", 63, "]", 64);
  check_bound(TOOL_FORMAT_MISTRAL, "[TOOL_CALLS][{\"name\":\"f\",\"arguments\":{}}",
              ",{\"name\":\"f\",\"arguments\":{}}", 64, "]", 0);
  check_bound(TOOL_FORMAT_QWEN3_CODER, "<function=f><parameter=x>", "</param", 100000, "</parameter></function>", 1);
  check_bound(TOOL_FORMAT_QWEN3_CODER, "<function=f><parameter=x>", "</param", 200000, "</parameter></function>", 0);
  check_bound(TOOL_FORMAT_QWEN3_CODER, "<function=f></function>", " ", 64, "</tool_call>", 1);
  check_bound(TOOL_FORMAT_QWEN3_CODER, "<function=f></function>", " ", 70, "</tool_call>", 1);
  check_bound(TOOL_FORMAT_LLAMA3, "{\"name\":\"f\",\"parameters\":{}}", ";{\"name\":\"f\",\"parameters\":{}}", 64, "",
              0);
}

static void test_depth(void **state) {
  (void)state;
  for (size_t depth = 100; depth <= 100000; depth = depth == 100 ? 126 : depth == 126 ? 127 : depth * 9) {
    size_t n, n_more;
    char *head = repeated("<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":", "[", depth, "", &n);
    char *text = repeated(head, "]", depth, "}}</tool_call>", &n_more);
    check_bound(TOOL_FORMAT_HERMES, text, "", 0, "", depth <= 126); /* two objects are around it */
    free(head);
    free(text);
  }
}

static void test_plain(void **state) {
  (void)state;
  check_no_call(TOOL_FORMAT_NONE, CALL("{\"name\":\"f\",\"arguments\":{}}") "[TOOL_CALLS]a[ARGS]{}");
  const char bytes[] = "a\0<tool_call>\0\xFF";
  check_text_cut(TOOL_FORMAT_HERMES, bytes, sizeof bytes, &recorder, bytes, sizeof bytes);
}

/* Content goes out as soon as it can be nothing else. */
static void test_streams(void **state) {
  (void)state;
  static const struct {
    tool_format format;
    const char *text;
    size_t held;
  } cases[] = {{TOOL_FORMAT_HERMES, "Hello", 0},          {TOOL_FORMAT_HERMES, "a <tool_ca", 9},
               {TOOL_FORMAT_HERMES, "a <b", 0},           {TOOL_FORMAT_HERMES, "a \n", 2},
               {TOOL_FORMAT_LLAMA3, "Hello ", 0},         {TOOL_FORMAT_LLAMA3, "{\"a\"", 4},
               {TOOL_FORMAT_MISTRAL, "[1, 2] [TOOL_", 7}, {TOOL_FORMAT_NONE, "a <tool_call>", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    output_record out = {0};
    tool_sink sink = recorder;
    tool_parser *p;
    sink.user = &out;
    assert_int_equal(tool_parser_create(cases[i].format, &p), GA_OK);
    assert_int_equal(tool_parser_push(p, cases[i].text, strlen(cases[i].text), &sink), GA_OK);
    assert_int_equal(out.bytes, strlen(cases[i].text) - cases[i].held);
    tool_parser_destroy(p); /* in mid-stream */
    record_clear(&out);
  }
}

static void test_formats(void **state) {
  (void)state;
  static const struct {
    const char *text;
    tool_format format;
  } templates[] = {
      {"{{ message.content }}", TOOL_FORMAT_NONE},
      {"", TOOL_FORMAT_NONE},
      {"within <tool_call></tool_call> tags", TOOL_FORMAT_HERMES},
      {"<tool_call>\n<function=example>\n<parameter=x>", TOOL_FORMAT_QWEN3_CODER},
      {"{{ '<|python_tag|>' }}", TOOL_FORMAT_LLAMA3},
      {"{\"name\": function name, \"parameters\": dictionary of argument name and its value}", TOOL_FORMAT_LLAMA3},
      {"{{ '[TOOL_CALLS] ' }}", TOOL_FORMAT_MISTRAL},
  };
  for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++)
    assert_int_equal(tool_format_detect(templates[i].text, strlen(templates[i].text)), templates[i].format);
  tool_format format;
  for (tool_format f = TOOL_FORMAT_NONE; f <= TOOL_FORMAT_AUTO; f++)
    assert_true(tool_format_by_name(tool_format_name(f), &format) && format == f);
  assert_true(tool_format_by_name("qwen", &format) && format == TOOL_FORMAT_HERMES);
  assert_false(tool_format_by_name("Hermes", &format));
  tool_parser *p;
  assert_int_equal(tool_parser_create(TOOL_FORMAT_AUTO, &p), GA_ERR_ARG);
  assert_null(p);
  tool_parser_destroy(NULL);
}

/* --- reasoning --- */

static void check_reasoning(bool inside, const char *text, const char *want) {
  const size_t n = strlen(text);
  reasoning_splitter *s;
  assert_int_equal(reasoning_create(inside, &s), GA_OK);
  for (size_t first = 0; first <= 2 * n; first++) { /* beyond n: single bytes, twos, ... */
    output_record out = {0};
    const reasoning_sink sink = {&out, record_reasoning, record_content};
    for (size_t at = 0, piece; at < n; at += piece) {
      piece = first > n ? first - n : at ? ALL : first ? first : 1;
      if (piece > n - at) piece = n - at;
      assert_int_equal(reasoning_push(s, text + at, piece, &sink), GA_OK);
    }
    reasoning_finish(s, &sink);
    if (out.is_reasoning) record_bytes(&out, "}", 1);
    assert_string_equal(out.text ? out.text : "", want);
    record_clear(&out);
  }
  reasoning_destroy(s);
}

static void test_reasoning(void **state) {
  (void)state;
  check_reasoning(false, "<think>\nHm, 2 < 3.\n\nSo.\n</think>\n\nYes.\n", "{Hm, 2 < 3.\n\nSo.}Yes.\n");
  check_reasoning(false, "\n <think>a</think>b", "{a}b");
  check_reasoning(false, "<think>\n\n</think>\n\nb", "b");
  check_reasoning(false, "<think>a", "{a}");
  check_reasoning(false, "<think>a</thin", "{a</thin}");
  check_reasoning(false, "<think>a </</thinker> <think> </think>b</think>", "{a </</thinker> <think>}b</think>");
  check_reasoning(false, "<think>a </</think>b", "{a </}b");
  check_reasoning(false, "  hello <think>a</think>", "  hello <think>a</think>");
  check_reasoning(false, " <thin", " <thin");
  check_reasoning(false, "<<think>a</think>", "<<think>a</think>");
  check_reasoning(false, "", "");
  check_reasoning(true, "\na\n</think>\nb", "{a}b");
  check_reasoning(true, "</think>b", "b");
  check_reasoning(true, "a<think>b", "{a<think>b}");
  check_reasoning(true, "\xE4\xBD\xA0</think>\xE5\xA5\xBD", "{\xE4\xBD\xA0}\xE5\xA5\xBD");
  char text[100], want[100]; /* a longer run of white space than is held back */
  (void)snprintf(text, sizeof text, "a%81s</think>b", "");
  (void)snprintf(want, sizeof want, "{a%65s}b", "");
  check_reasoning(true, text, want);
  reasoning_destroy(NULL);
}

static void test_reasoning_prompts(void **state) {
  (void)state;
  assert_true(reasoning_is_open("<|im_start|>assistant\n<think>\n", 30));
  assert_true(reasoning_is_open("<think>", 7));
  assert_false(reasoning_is_open("<think>\n\n</think>\n\n", 19));
  assert_false(reasoning_is_open("think>", 6));
  assert_false(reasoning_is_open("", 0));
  assert_true(reasoning_detect("x</think>y", 10));
  assert_false(reasoning_detect("<thinking>", 10));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hermes),
      cmocka_unit_test(test_hermes_broken),
      cmocka_unit_test(test_texts_in_arguments),
      cmocka_unit_test(test_llama3),
      cmocka_unit_test(test_mistral),
      cmocka_unit_test(test_qwen3_coder),
      cmocka_unit_test(test_types_of_values),
      cmocka_unit_test(test_call_bounds),
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_reasoning),
      cmocka_unit_test(test_reasoning_prompts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
