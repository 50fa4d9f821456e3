/* Chat templates: the public functions, errors and where they point, bounds against hostile templates, memory failures.
 * What each construct renders to is in test_chat_vectors.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/thread.h"
#include "ga/chat.h"
#include "jinja/jinja.h"

/* Compiles and renders; *text is NULL on failure. */
static ga_status try_render(const char *source, const char *context, const ga_template_limits *limits, char **text) {
  ga_template *tpl;
  size_t n;
  *text = NULL;
  ga_status status = ga_template_compile_limited(source, strlen(source), limits, &tpl);
  if (status != GA_OK) {
    assert_null(tpl);
    return status;
  }
  status = ga_template_render(tpl, context, strlen(context), limits, text, &n);
  ga_template_destroy(tpl);
  if (status == GA_OK)
    assert_int_equal(n, strlen(*text));
  else
    assert_true(!*text && !n);
  return status;
}

static void expect_text(const char *source, const char *context, const char *expected) {
  char *text;
  assert_int_equal(try_render(source, context, NULL, &text), GA_OK);
  assert_string_equal(text, expected);
  ga_template_text_free(text);
}

static void expect_error(const char *source, const char *context, ga_status status, const char *part) {
  char *text;
  assert_int_equal(try_render(source, context, NULL, &text), status);
  if (!strstr(ga_error_text(), part)) fail_msg("'%s' is not in '%s'", part, ga_error_text());
}

static void test_text(void **state) {
  (void)state;
  expect_text("", "{}", "");
  expect_text("{{ x }} {{ y|tojson }}", "{\"x\": 1.0, \"y\": {\"b\": [null, true], \"a\": \"\\u00e9\"}}",
              "1.0 {\"b\": [null, true], \"a\": \"\xc3\xa9\"}");
  expect_text("a\r\nb\rc\n", "{}", "a\nb\nc");
  expect_text("{{ x }}", "{\"x\": 9223372036854775807}", "9223372036854775807");
  expect_text("{{ -9223372036854775807 - 1 }}", "{}", "-9223372036854775808");
}

/* What the sandbox of Transformers refuses, and templates for other engines use. */
static void test_lists_may_change(void **state) {
  (void)state;
  expect_text("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}", "{}",
              "[1, 2]21[]");
  expect_text("{% set d = {'a': 1, 'b': 2} %}{{ d.pop('a') }}{{ d.pop('x', 3) }}{{ d }}", "{}", "13{'b': 2}");
  expect_text("{% for x in l %}{% set _ = l.append(x) %}{% endfor %}{{ l|length }}", "{\"l\": [1, 2, 3]}", "6");
  expect_text("{% for x in l %}{{ l.pop(0) }}{{ x }}{% endfor %}", "{\"l\": [1, 2]}", "1122");
  expect_error("{{ [].pop() }}", "{}", GA_ERR_FORMAT, "out of range");
  expect_error("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "{}", GA_ERR_TIMEOUT, "nested more than");
  expect_error("{% set n = namespace() %}{% set n.n = n %}{{ n }}", "{}", GA_ERR_TIMEOUT, "nested more than");
}

static void test_errors_say_where_and_what(void **state) {
  (void)state;
  expect_error("a\nb {% if x %}", "{}", GA_ERR_FORMAT, "line 2, column 13: if: the block that ends it is missing");
  expect_error("\xc3\xa9{{ 1 + }}", "{}", GA_ERR_FORMAT, "line 1, column 9: expression: expected a value");
  expect_error("{{ (1 ] }}", "{}", GA_ERR_FORMAT, "found ']'; expected ')'");
  expect_error("{{ 'x }}", "{}", GA_ERR_FORMAT, "string without its closing '");
  expect_error("{{ \xe2\x80\x9cx }}", "{}", GA_ERR_FORMAT, "character '\xe2\x80\x9c' has no meaning here");
  expect_error("{% frob %}", "{}", GA_ERR_FORMAT, "unknown block 'frob'; known are if, for, set");
  expect_error("{% include 'x' %}", "{}", GA_ERR_UNSUPPORTED, "block 'include' is not supported; known are");
  expect_error("{{ x|frob }}", "{}", GA_ERR_UNSUPPORTED, "column 6: filter 'frob' is not known; known are abs");
  expect_error("{{ x is frob }}", "{}", GA_ERR_UNSUPPORTED, "test 'frob' is not known");
  expect_error("{{ 'x'.frob() }}", "{}", GA_ERR_UNSUPPORTED, "method of str 'frob' is not known");
  expect_error("\n\n  {{ messages[0].role + 1 }}", "{\"messages\": [{\"role\": \"x\"}]}", GA_ERR_FORMAT,
               "line 3, column 23: operator + takes no 'str' and 'int'");
  expect_error("{{ x.y.z }}", "{\"x\": {}}", GA_ERR_FORMAT, "'y' is undefined");
  expect_error("{{ 'a'|replace('b') }}", "{}", GA_ERR_FORMAT, "replace: too few arguments; takes (old new count?)");
  expect_error("{{ [1 2] }}", "{}", GA_ERR_FORMAT, "','");
  expect_error("{{ (1 2) }}", "{}", GA_ERR_FORMAT, "')'");
  expect_error("{{ {'a': 1 'b': 2} }}", "{}", GA_ERR_FORMAT, "','");
  expect_error("{{ 'a'.replace('b', 'c' 1) }}", "{}", GA_ERR_FORMAT, "','");
  expect_error("{% macro m(a b) %}{% endmacro %}", "{}", GA_ERR_FORMAT, "','");
  expect_error("{{ 'a'.replace(none, 'b') }}", "{}", GA_ERR_FORMAT, "replace: takes strings, not none");
  expect_error("{{ 'a'.replace('a', none) }}", "{}", GA_ERR_FORMAT, "replace: takes strings, not none");
  expect_error("{{ 9223372036854775807 + 1 }}", "{}", GA_ERR_UNSUPPORTED, "beyond 64 bits");
  expect_error("{{ 9223372036854775808 }}", "{}", GA_ERR_UNSUPPORTED, "beyond 64 bits");
  expect_error("{{ '\\ud800' }}", "{}", GA_ERR_FORMAT, "escape '\\u'");
  expect_error("\xff", "{}", GA_ERR_FORMAT, "not UTF-8");
  expect_error("{{ raise_exception('Roles must alternate: ' ~ x) }}", "{\"x\": 3}", GA_ERR_FORMAT,
               "raise_exception: Roles must alternate: 3");
}

/* What nests is left again: each of these may come one behind the other as often as steps allow. */
static void test_depth_comes_back(void **state) {
  static const char *const bodies[] = {
      "{% filter upper|lower %}a{% endfilter %}",
      "{% set _ = {(1, (2, 3)): 1}[(1, (2, 3))] %}",
      "{% set _ = [1, [2]] == [1, [2]] %}",
      "{% set _ = [1, [2]] < [1, [3]] %}",
      "{% set _ = {'a': [1]} == {'a': [1]} %}",
      "{% for x in [1, [2]] recursive %}{% if x is iterable %}{{ loop(x) }}{% endif %}{% endfor %}",
      "{{ m(i) }}",
      "{% call w(i) %}b{% endcall %}",
      "{% set _ = ([1, [2, {'a': 3}]] | tojson) %}",
      "{% set _ = ([1, [2, {'a': 3}]] | string) %}",
      "{% if i and (i + 1) * 2 > 3 %}{% set _ = not i %}{% endif %}",
      "{% generation %}a{% endgeneration %}",
      "{% set x %}a{% endset %}"};
  (void)state;
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char source[400], *text;
    (void)snprintf(
        source, sizeof source, "%s%s%s",
        "{% macro m(a) %}{{ a }}{% endmacro %}{% macro w(a) %}{{ caller() }}{% endmacro %}{% for i in range(3000) %}",
        bodies[i], "{% endfor %}");
    if (try_render(source, "{}", NULL, &text) != GA_OK) fail_msg("%s: %s", bodies[i], ga_error_text());
    ga_template_text_free(text);
  }
}

static void test_context_must_be_an_object(void **state) {
  (void)state;
  expect_error("x", "[]", GA_ERR_FORMAT, "expected a JSON object");
  expect_error("x", "{\"a\": }", GA_ERR_FORMAT, "context: JSON of 7 bytes, line 1");
  expect_error("x", "", GA_ERR_FORMAT, "context: JSON");
}

static void test_arguments(void **state) {
  (void)state;
  ga_template *tpl;
  ga_template_limits old = GA_TEMPLATE_LIMITS_INIT;
  char *text;
  size_t n;
  assert_int_equal(ga_template_compile(NULL, 1, &tpl), GA_ERR_ARG);
  assert_int_equal(ga_template_compile("x", 1, NULL), GA_ERR_ARG);
  old.struct_size = 3;
  assert_int_equal(ga_template_compile_limited("x", 1, &old, &tpl), GA_ERR_ARG);
  assert_int_equal(ga_template_compile(NULL, 0, &tpl), GA_OK);
  assert_int_equal(ga_template_render(tpl, NULL, 0, NULL, &text, &n), GA_ERR_ARG);
  assert_int_equal(ga_template_render(tpl, "{}", 2, NULL, &text, NULL), GA_ERR_ARG);
  ga_template_destroy(tpl);
  ga_template_destroy(NULL);
  ga_template_text_free(NULL);
}

static const char chat_source[] =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{% if think is defined %}{{ think }}{% endif %}";

static void test_chat_render(void **state) {
  (void)state;
  const ga_chat_message messages[] = {{"user", " \"hi\"\n"}, {"assistant", "\xe6\x97\xa5"}}, bad[] = {{"user", "\xff"}};
  ga_chat_options options = GA_CHAT_OPTIONS_INIT;
  ga_template *tpl;
  char *text;
  size_t n;
  assert_int_equal(ga_template_compile(chat_source, strlen(chat_source), &tpl), GA_OK);
  assert_int_equal(ga_chat_render(tpl, messages, 2, NULL, &text, &n), GA_OK);
  assert_string_equal(text, "<user>\"hi\"<assistant>\xe6\x97\xa5");
  ga_template_text_free(text);
  options.add_generation_prompt = true;
  options.bos_token = "<s>";
  options.eos_token = "</s>";
  options.extra_json = "{\"think\": false}";
  assert_int_equal(ga_chat_render(tpl, messages, 2, &options, &text, &n), GA_OK);
  assert_string_equal(text, "<s><user>\"hi\"</s><assistant>\xe6\x97\xa5</s><assistant>False");
  ga_template_text_free(text);
  assert_int_equal(ga_chat_render(tpl, bad, 1, &options, &text, &n), GA_ERR_FORMAT);
  assert_null(text);
  options.extra_json = "[1]";
  assert_int_equal(ga_chat_render(tpl, messages, 2, &options, &text, &n), GA_ERR_FORMAT);
  options.extra_json = "{";
  assert_int_equal(ga_chat_render(tpl, messages, 2, &options, &text, &n), GA_ERR_FORMAT);
  assert_int_equal(ga_chat_render(tpl, NULL, 2, NULL, &text, &n), GA_ERR_ARG);
  ga_template_destroy(tpl);
}

/* Integers beyond 64 bits, and numbers that are not finite, as Python has them. */
static void test_python_numbers_in_templates(void **state) {
  (void)state;
  static const char context[] =
      "{\"n\": 18446744073709551615, \"m\": -18446744073709551616, \"i\": Infinity, \"x\": NaN, "
      "\"d\": {\"a\\u0000b\": \"\\u0000\"}}";
  expect_text("{{ n }} {{ m }} {{ [n, m] }}", context,
              "18446744073709551615 -18446744073709551616 [18446744073709551615, -18446744073709551616]");
  expect_text("{{ {'maximum': n, 'i': i, 'x': x}|tojson }} {{ d|tojson }}", context,
              "{\"maximum\": 18446744073709551615, \"i\": Infinity, \"x\": NaN} {\"a\\u0000b\": \"\\u0000\"}");
  expect_text("{{ n is integer }} {{ n is number }} {{ n is string }} {{ n is mapping }} {{ n is float }}", context,
              "True True False False False");
  expect_text("{{ n > 5 }} {{ m < 5 }} {{ n > m }} {{ n == n }} {{ n < i }} {{ m|abs > n }} {{ n > 1.5 }}", context,
              "True True True True True True True");
  expect_text("{{ n|float }} {{ n * 1.0 }} {{ n|int }} {{ n|round }} {{ n and 'yes' }} {{ n|string|length }}", context,
              "1.8446744073709552e+19 1.8446744073709552e+19 18446744073709551615 18446744073709551615 yes 20");
  expect_error("{{ n + 1 }}", context, GA_ERR_UNSUPPORTED, "beyond 64 bits");
  expect_error("{{ -n }}", context, GA_ERR_UNSUPPORTED, "beyond 64 bits");
}

/* A role that the template does not name is that of the system, of which it is the newer name. */
static void test_developer_is_system(void **state) {
  (void)state;
  static const char context[] = "{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}], "
                                "\"tools\": [{\"role\": \"developer\"}]}";
  expect_text("{% for m in messages %}{% if m.role == 'system' %}S{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
              "{{ tools[0].role }}",
              context, "S[system]adeveloper");
  expect_text(
      "{% set ours = ['system', 'developer'] %}{% for m in messages %}{{ m.role in ours }}{{ m.role }}{% endfor %}",
      context, "Truedeveloper");
  expect_text("{% for m in messages %}{{ {'developer': 'D'}[m.role] }}{% endfor %}", context, "D");
  expect_text("{% for m in messages %}{{ m['role'] == \"developer\" }}{% endfor %}", context, "True");
}

static void test_clock(void **state) {
  (void)state;
  char *text;
  ga_template_limits limits = GA_TEMPLATE_LIMITS_INIT;
  assert_int_equal(try_render("{{ strftime_now('%Y') }}", "{}", NULL, &text), GA_OK);
  assert_true(atoi(text) >= 2024);
  ga_template_text_free(text);
  limits.now = 86400;
  assert_int_equal(try_render("{{ strftime_now('%Y-%m-%d %H:%M') }}", "{}", &limits, &text), GA_OK);
  assert_string_equal(text, "1970-01-02 00:00");
  ga_template_text_free(text);
  expect_error("{{ strftime_now('%9999999d') }}", "{}", GA_ERR_FORMAT, "longer than");
}

/* Templates that would run, nest or grow without end. Each must stop within a second, or ten under a sanitizer. */
static void test_hostile_templates(void **state) {
  (void)state;
  static const char *const sources[] = {
      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
      "{% set r = range(99999) %}{% for a in r %}{% for b in r %}{% if b in r %}{% endif %}{% endfor %}{% endfor %}",
      "{{ range(1000000000) }}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro a(x) %}{{ b(x + 1) }}{% endmacro %}{% macro b(x) %}{{ a(x) ~ a(x) }}{% endmacro %}{{ a(0) }}",
      "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
      "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% set ns = namespace(s='x' * 1000000) %}{% for i in range(100000) %}{% set ns.s = ns.s + 'x' %}{% endfor %}",
      "{{ 'x' * 99999999999 }}",
      "{{ [1] * 99999999999 }}",
      "{{ 'abc'.center(99999999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ 'a'|indent(99999999999, true) }}",
      "{{ ('x' * 100000).replace('', 'y' * 100000) }}",
      "{{ ('x' * 1000000).strip('x' * 1000000 + 'y') }}",
      "{{ ('a' * 1000000).rfind('a' * 500000) }}{% for i in range(99999) %}{{ ('a' * 1000000).rfind('a' * 9) }}{% "
      "endfor %}",
      "{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s.count('a' * 50000 ~ 'b') }}{% endfor %}",
      "{% set s = '\xc3\xa9' * 1000000 %}{% for i in range(100000) %}{% if s[i] %}{% endif %}{% endfor %}",
      "{% set l = range(100000)|list %}{% for i in range(1000) %}{% set x = l|sort %}{% endfor %}",
      "{% set l = range(100000)|map('string')|list %}{% for i in l %}{% set x = l|unique|list == l %}{% endfor %}",
      "{% for a in ([[0] * 1000] * 1000) %}{{ a }}{{ a|tojson(indent=1000) }}{% endfor %}",
      "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
      "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a == ns.a "
      "}}",
      "{% set ns = namespace(a=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a|tojson "
      "}}",
      "{% set ns = namespace(a=()) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}",
      "{% set ns = namespace(a={}) %}{% for i in range(100000) %}{% set ns.a = dict(ns.a, **{i|string: i}) %}{% endfor "
      "%}",
  };
  for (size_t i = 0; i < GA_COUNT_OF(sources); i++) {
    char *text;
    clock_t start = clock();
    ga_status status = try_render(sources[i], "{}", NULL, &text);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (status == GA_OK || seconds > 10) print_message("%s: %d after %.2f s\n", sources[i], (int)status, seconds);
    assert_true(status == GA_ERR_TIMEOUT || status == GA_ERR_NOMEM || status == GA_ERR_FORMAT);
    assert_true(strlen(ga_error_text()) > 10);
    assert_true(seconds < 10);
  }
}

/* `open` n times, then `middle`, then `close` n times. */
static char *nest(const char *open, const char *middle, const char *close, size_t n) {
  size_t n_open = strlen(open), n_middle = strlen(middle), n_close = strlen(close);
  char *text = malloc(n * (n_open + n_close) + n_middle + 1), *p = text;
  assert_non_null(text);
  for (size_t i = 0; i < n; i++, p += n_open) memcpy(p, open, n_open);
  memcpy(p, middle, n_middle);
  p += n_middle;
  for (size_t i = 0; i < n; i++, p += n_close) memcpy(p, close, n_close);
  *p = 0;
  return text;
}

static void test_deep_sources(void **state) {
  (void)state;
  static const char *const shapes[][4] = {
      {"{{ ", "(", "1", ")"},        {"{{ ", "[", "1", "]"},
      {"{{ ", "{1:", "1", "}"},      {"{{ ", "-", "1", ""},
      {"{{ ", "not ", "1", ""},      {"{{ ", "1 if 1 else ", "1", ""},
      {"{{ ", "x[", "1", "]"},       {"{{ ", "f(", "1", ")"},
      {"{{ 1", " + 1", "", ""},      {"{{ 1", "|string", "", ""},
      {"{{ x", ".x", "", ""},        {"{{ 1", " ** 1", "", ""},
      {"{{ 1", " and 1", "", ""},    {"{{ 1", " ~ 1", "", ""},
      {"{{ 1", " < 2", "", ""},      {"{{ 1", " is odd", "", ""},
      {"{{ f", "()", "", ""},        {"{{ x", "[1:2]", "", ""},
      {"{{ ", "'a' ", "'b'", ""},    {"{{ 1", ", 1", "", ""},
      {"{% set ", "(", "x", ")"},    {"{{ x|default(", "x|default(", "1", ")"},
      {"{{ ", "x is in(", "1", ")"}, {"{{ ", "+", "1", ""},
  };
  for (size_t i = 0; i < GA_COUNT_OF(shapes); i++) {
    char *middle = nest(shapes[i][1], shapes[i][2], shapes[i][3], 100000), *text, *source;
    source = malloc(strlen(middle) + 100);
    assert_non_null(source);
    (void)snprintf(source, strlen(middle) + 100, "%s%s }}", shapes[i][0], middle);
    ga_status status = try_render(source, "{}", NULL, &text); /* long chains of ~ and < are fine: they do not nest */
    ga_template_text_free(text);
    assert_true(status == GA_OK || status == GA_ERR_TIMEOUT || status == GA_ERR_NOMEM || status == GA_ERR_FORMAT);
    free(middle);
    free(source);
  }
  static const char *const blocks[][2] = {
      {"{% if 1 %}", "{% endif %}"},           {"{% for x in 'a' %}", "{% endfor %}"},
      {"{% set x %}", "{% endset %}"},         {"{% macro m() %}", "{% endmacro %}"},
      {"{% if 0 %}{% else %}", "{% endif %}"}, {"{% filter trim %}", "{% endfilter %}"},
      {"{% with %}", "{% endwith %}"},         {"{% generation %}", "{% endgeneration %}"}};
  for (size_t i = 0; i < GA_COUNT_OF(blocks); i++) {
    char *source = nest(blocks[i][0], "x", blocks[i][1], 10000), *text;
    assert_int_equal(try_render(source, "{}", NULL, &text), GA_ERR_TIMEOUT);
    free(source);
  }
  char *json = nest("{\"a\":", "1", "}", 1000), *text;
  assert_int_equal(try_render("x", json, NULL, &text), GA_ERR_TIMEOUT);
  free(json);
}

static void test_limits_are_taken(void **state) {
  (void)state;
  char *text;
  ga_template_limits limits = GA_TEMPLATE_LIMITS_INIT;
  limits.steps = 10;
  assert_int_equal(try_render("{% for x in 'abcdefghij' %}{{ x }}{% endfor %}", "{}", &limits, &text), GA_ERR_TIMEOUT);
  assert_non_null(strstr(ga_error_text(), "more than 10 steps"));
  limits = (ga_template_limits)GA_TEMPLATE_LIMITS_INIT;
  limits.output_bytes = 5;
  assert_int_equal(try_render("123456", "{}", &limits, &text), GA_ERR_NOMEM);
  assert_non_null(strstr(ga_error_text(), "text of more than 5 bytes"));
  assert_int_equal(try_render("12345", "{}", &limits, &text), GA_OK);
  ga_template_text_free(text);
  limits = (ga_template_limits)GA_TEMPLATE_LIMITS_INIT;
  limits.memory_bytes = 10000;
  assert_int_equal(try_render("{{ [1] * 1000 }}", "{}", &limits, &text), GA_ERR_NOMEM);
  limits = (ga_template_limits)GA_TEMPLATE_LIMITS_INIT;
  limits.nodes = 5;
  assert_int_equal(try_render("{{ 1 }}{{ 2 }}{{ 3 }}", "{}", &limits, &text), GA_ERR_NOMEM);
  assert_non_null(strstr(ga_error_text(), "template of more than 5 nodes"));
  limits = (ga_template_limits)GA_TEMPLATE_LIMITS_INIT;
  limits.depth = 10;
  assert_int_equal(try_render("{{ ((((((((((1)))))))))) }}", "{}", &limits, &text), GA_ERR_TIMEOUT);
}

/* Fills the stack below: a variable that later calls do not set is then a pointer to nothing. */
GA_NOINLINE static void soil_stack(void) {
  volatile unsigned char below[1 << 14];
  for (size_t i = 0; i < sizeof below; i++) below[i] = 0x5a;
}

/* Every bound of memory ends what allocates in an error, or is enough for the whole text. */
static void test_every_bound_of_memory(void **state) {
  static const char *const bodies[] = {
      "{{ l|groupby('k')|list }}",
      "{{ l|batch(2, 0)|list }}",
      "{{ {'b': 1, 'a': 2}|dictsort }}",
      "{{ {'b': 1, 'a': 2}|items|list }}",
      "{{ {'b': 1}.items()|list }}{{ {'b': 1}.keys()|list }}{{ {'b': 1}.values()|list }}",
      "{{ l|map(attribute='k')|unique|list }}",
      "{{ l|selectattr('k')|rejectattr('z')|list }}",
      "{{ l|sort(attribute='k')|reverse|list }}",
      "{{ 'a,b,c'.split(',')|join('-')|upper|title|replace('A', 'bb') }}",
      "{{ ' a '.strip().partition('b') }}{{ 'ab' * 3 }}{{ 'abc'[::-1] }}",
      "{{ '%s and %d' % ('a', 3) }}{{ '{} {:>5}'.format('a', 3) }}",
      "{{ l|tojson(indent=2) }}{{ l|string|indent(4)|length }}",
      "{{ range(5)|list + [6] }}{{ (1, 2) + (3,) }}{{ dict(a=1, b=2) }}",
      "{% set n = namespace(a=1) %}{% set n.a = [1, 2] %}{{ n.a }}",
      "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}",
      "{% for x in l recursive %}{{ loop.index }}{{ x.k }}{% endfor %}"};
  static const char context[] = "{\"l\": [{\"k\": 2}, {\"k\": 1}, {\"k\": 2}]}";
  (void)state;
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
    char *whole, *text;
    if (try_render(bodies[i], context, NULL, &whole) != GA_OK) fail_msg("%s: %s", bodies[i], ga_error_text());
    int n_failed = 0;
    for (size_t bytes = 16;; bytes += 16) {
      ga_template_limits limits = GA_TEMPLATE_LIMITS_INIT;
      limits.memory_bytes = bytes;
      soil_stack();
      const ga_status status = try_render(bodies[i], context, &limits, &text);
      if (status == GA_OK) break;
      assert_int_equal(status, GA_ERR_NOMEM);
      n_failed++;
    }
    assert_true(n_failed > 10);
    assert_string_equal(text, whole);
    ga_template_text_free(text);
    ga_template_text_free(whole);
  }
}

/* Fails the n-th allocation for every n until all succeed. */
static void test_memory_failures(void **state) {
  (void)state;
  static const char source[] =
      "{% macro m(a) %}{{ a|upper }}{% endmacro %}{% for x in l|sort %}{{ m(x) }}{{ x|tojson }}{% endfor %}";
  static const char context[] = "{\"l\": [\"b\", \"a\"]}";
  long n = 1;
  for (;; n++) {
    ga_template *tpl;
    char *text = NULL;
    size_t bytes;
    ga_mem_fail_after(n);
    ga_status status = ga_template_compile(source, strlen(source), &tpl);
    if (status == GA_OK) status = ga_template_render(tpl, context, strlen(context), NULL, &text, &bytes);
    ga_mem_fail_after(0);
    if (status == GA_OK)
      assert_string_equal(text, "A\"a\"B\"b\"");
    else
      assert_true(status == GA_ERR_NOMEM && !text);
    ga_template_text_free(text);
    ga_template_destroy(tpl);
    if (status == GA_OK) break;
  }
  assert_true(n > 4);
}

/* Whichever allocation fails, a template that compiles knows each role that its text compares. A thousand roles of 60
 * bytes take more than one block of the template's memory. */
static void test_roles_without_memory(void **state) {
  enum { ROLES = 1000, BYTES = 128 * 1024 };
  static const char *const places[] = {"{{ m.role == '%060d' and x }}", "{{ x or m.role == '%060d' }}",
                                       "{{ f(m.role == '%060d') }}", "{{ x if y else m.role == '%060d' }}"};
  char *source = malloc(BYTES), name[64];
  (void)state;
  assert_non_null(source);
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
    size_t at = 0;
    for (int i = 0; i < ROLES; i++) at += (size_t)snprintf(source + at, BYTES - at, places[k], i);
    assert_true(at < BYTES);
    ga_status status = GA_ERR_NOMEM;
    for (long n = 1; status != GA_OK; n++) {
      ga_template *tpl;
      ga_mem_fail_after(n);
      status = ga_template_compile(source, at, &tpl);
      ga_mem_fail_after(0);
      assert_true(status == GA_OK || status == GA_ERR_NOMEM);
      for (int i = 0; i < ROLES && status == GA_OK; i++) {
        (void)snprintf(name, sizeof name, "%060d", i);
        assert_true(ga_jj_is_known_role(tpl, name, strlen(name)));
      }
      ga_template_destroy(tpl);
    }
  }
  free(source);
}

static void render_piece(void *arg, int64_t piece, int thread) {
  (void)thread;
  for (int i = 0; i < 200; i++) {
    char context[64], *text, expected[64];
    size_t n;
    int length = snprintf(context, sizeof context, "{\"x\": %d}", (int)piece * 1000 + i);
    (void)snprintf(expected, sizeof expected, "\xc3\xa9:%d:1", (int)piece * 1000 + i);
    assert_int_equal(ga_template_render(arg, context, (size_t)length, NULL, &text, &n), GA_OK);
    assert_string_equal(text, expected);
    ga_template_text_free(text);
  }
}

static void test_one_template_many_threads(void **state) {
  (void)state;
  static const char source[] = "{{ '\xc3\xa9' ~ ':' ~ x }}:{{ '\xc3\xa9'|length }}";
  ga_template *tpl;
  ga_pool *pool;
  assert_int_equal(ga_template_compile(source, strlen(source), &tpl), GA_OK);
  assert_int_equal(ga_pool_create(4, &pool), GA_OK);
  ga_pool_run(pool, 8, render_piece, tpl);
  ga_pool_destroy(pool);
  ga_template_destroy(tpl);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_lists_may_change),
      cmocka_unit_test(test_errors_say_where_and_what),
      cmocka_unit_test(test_depth_comes_back),
      cmocka_unit_test(test_context_must_be_an_object),
      cmocka_unit_test(test_arguments),
      cmocka_unit_test(test_chat_render),
      cmocka_unit_test(test_python_numbers_in_templates),
      cmocka_unit_test(test_developer_is_system),
      cmocka_unit_test(test_clock),
      cmocka_unit_test(test_hostile_templates),
      cmocka_unit_test(test_deep_sources),
      cmocka_unit_test(test_limits_are_taken),
      cmocka_unit_test(test_every_bound_of_memory),
      cmocka_unit_test(test_memory_failures),
      cmocka_unit_test(test_roles_without_memory),
      cmocka_unit_test(test_one_template_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
