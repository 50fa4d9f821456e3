/* GA_SESSION_DETERMINISTIC: the same bits from the same tokens, whichever way they came. On the tiny models of
 * tests/data/arch; on the CPU here, by CUDA rows in tests/emu (GA_TEST_DEVICE). An argument picks one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/tiny_model.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
enum { TOKENS = 40, ANSWER = 8, THREADS = 4 };
static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2"};
#else /* emulated: a second or so a token */
enum { TOKENS = 7, ANSWER = 3, THREADS = 1 };
static const char *const archs[] = {"llama", "gemma3"};
#endif

static const char *only; /* this architecture; NULL: all */

typedef struct opened {
  ga_ctx *ctx;
  ga_model *model;
} opened;

static int32_t ids[TOKENS];
static float want[TOKENS][TINY_VOCAB], got[TOKENS][TINY_VOCAB];

static opened open_tiny(int32_t threads) {
  opened o;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = GA_TEST_DEVICE;
  co.threads = threads;
  if (ga_ctx_create(&co, &o.ctx) != GA_OK || ga_model_load(o.ctx, tiny_path, NULL, &o.model) != GA_OK)
    fail_msg("%s", ga_error_text());
  return o;
}

static void close_tiny(opened *o) {
  ga_model_destroy(o->model);
  ga_ctx_destroy(o->ctx);
}

static ga_session *session_of(const opened *o, int32_t context, ga_dtype kv) {
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.context = context;
  so.kv_dtype = (int32_t)kv;
  so.flags = GA_SESSION_DETERMINISTIC;
  if (ga_session_create(o->model, &so, &s) != GA_OK) fail_msg("%s", ga_error_text());
  return s;
}

static void eval(ga_session *s, int from, int to, float (*rows)[TINY_VOCAB]) {
  if (ga_session_eval(s, ids + from, to - from, rows ? rows[from] : NULL, rows ? to - from : 0, NULL, NULL) != GA_OK)
    fail_msg("%s", ga_error_text());
}

static void assert_same(const char *arch, const char *way, int from) {
  for (int t = from; t < TOKENS; t++)
    if (memcmp(want[t], got[t], sizeof want[t])) fail_msg("%s, %s: token %d differs", arch, way, t);
}

/* In pieces, over a rewound part, with another session in between, in another context. */
static void check_ways(const opened *o, const char *arch, ga_dtype kv) {
  ga_session *a = session_of(o, 64, kv), *b = session_of(o, 128, kv);
  eval(a, 0, TOKENS, want);
  eval(b, 0, 3, got);
  ga_session *other = session_of(o, 64, kv);
  eval(other, 2, TOKENS, NULL);
  eval(b, 3, 4, got);
  eval(b, 4, TOKENS, got);
  assert_same(arch, "pieces", 0);
  if (ga_session_rewind(b, 5) != GA_OK) fail_msg("%s", ga_error_text());
  memset(got, 0, sizeof got);
  eval(b, 5, TOKENS, got);
  assert_same(arch, "a rewound part", 5);
  ga_session_destroy(other);
  ga_session_destroy(b);
  ga_session_destroy(a);
}

typedef struct answer {
  int32_t ids[ANSWER];
  int n;
} answer;

static int keep_id(void *user, int32_t id, const char *text, size_t bytes) {
  answer *a = user;
  (void)text, (void)bytes;
  if (a->n < ANSWER) a->ids[a->n++] = id;
  return 0;
}

/* What was generated, given as a prompt. */
static void check_generated(const opened *o, const char *arch) {
  ga_session *a = session_of(o, 64, GA_F16), *b = session_of(o, 64, GA_F16);
  answer made = {.n = 0};
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  float after[2][TINY_VOCAB];
  go.max_tokens = ANSWER;
  go.ignore_eog = true;
  go.show_special = true;
  go.text = keep_id;
  go.user = &made;
  if (ga_generate(a, ids, 4, &go, &r) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(made.n, ANSWER);
  eval(b, 0, 4, NULL);
  assert_int_equal(ga_session_eval(b, made.ids, ANSWER - 1, NULL, 0, NULL, NULL), GA_OK);
  assert_int_equal(ga_session_eval(a, made.ids + ANSWER - 1, 1, after[0], 1, NULL, NULL), GA_OK);
  assert_int_equal(ga_session_eval(b, made.ids + ANSWER - 1, 1, after[1], 1, NULL, NULL), GA_OK);
  if (memcmp(after[0], after[1], sizeof after[0])) fail_msg("%s: generated and given differ", arch);
  ga_session_destroy(b);
  ga_session_destroy(a);
}

static void test_ways(void **state) {
  (void)state;
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % (TINY_VOCAB - 4) + 4;
  size_t n = 0;
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    if (only && strcmp(only, archs[i])) continue;
    n++;
    if (tiny_make(archs[i], TINY_VOCAB) != GA_OK) fail_msg("%s: %s", archs[i], ga_error_text());
    opened o = open_tiny(0);
    check_ways(&o, archs[i], GA_F16);
    check_ways(&o, archs[i], GA_Q8_0);
    check_generated(&o, archs[i]);
    close_tiny(&o);
  }
  assert_true(n > 0);
}

static void test_threads(void **state) {
  (void)state;
  if (THREADS == 1) skip();
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  for (int32_t threads = 1; threads <= THREADS; threads++) {
    opened o = open_tiny(threads);
    ga_session *s = session_of(&o, 64, GA_F16);
    eval(s, 0, TOKENS, threads == 1 ? want : got);
    if (threads > 1) assert_same("llama", "threads", 0);
    ga_session_destroy(s);
    close_tiny(&o);
  }
}

static void test_deterministic_refused(void **state) {
  (void)state;
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  opened o = open_tiny(1);
  so.flags = GA_SESSION_DETERMINISTIC;
  so.batch = 2;
  assert_int_equal(ga_session_create(o.model, &so, &s), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "batch 2, deterministic; must be 1"));
  so.batch = 0;
  so.flags = GA_SESSION_DETERMINISTIC | GA_SESSION_E4M3_ACTIVATIONS;
  assert_int_equal(ga_session_create(o.model, &so, &s), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "batch 1 with activations of e4m3"));
  so.flags = GA_SESSION_E4M3_ACTIVATIONS;
  assert_int_equal(ga_session_create(o.model, &so, &s), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "this model has none"));
  so.flags = 4;
  assert_int_equal(ga_session_create(o.model, &so, &s), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "flags 0x4; must be 0, 1 (deterministic) or 2"));
  close_tiny(&o);
}

int main(int argc, char **argv) {
  only = argc > 1 ? argv[1] : NULL;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways), cmocka_unit_test(test_threads),
                                     cmocka_unit_test(test_deterministic_refused)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
