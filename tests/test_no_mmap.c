/* ga_model_options.no_mmap: once a model is loaded its file may be shortened, overwritten or removed. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/tiny_model.h"

enum { PROMPT = 12, ANSWER = 16 };

static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2"};

static ga_ctx *open_ctx(const char *device) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  o.threads = 2;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s", ga_error_text());
  return ctx;
}

static ga_model *open_by(ga_ctx *ctx, bool no_mmap) {
  ga_model *model;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.no_mmap = no_mmap;
  if (ga_model_load(ctx, tiny_path, &o, &model) != GA_OK) fail_msg("%s", ga_error_text());
  return model;
}

typedef struct answer {
  int32_t ids[ANSWER];
  int n;
} answer;

static int keep_id(void *user, int32_t id, const char *text, size_t bytes) {
  answer *a = user;
  (void)text, (void)bytes;
  if (id != GA_TOK_NONE && a->n < ANSWER) a->ids[a->n++] = id;
  return 0;
}

static answer answer_of(ga_model *model) {
  int32_t ids[PROMPT];
  answer a = {.n = 0};
  ga_session *s;
  ga_generate_options o = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  for (int i = 0; i < PROMPT; i++) ids[i] = (i * 37 + 5) % (TINY_VOCAB - 4) + 4;
  o.max_tokens = ANSWER;
  o.ignore_eog = true;
  o.text = keep_id;
  o.user = &a;
  if (ga_session_create(model, NULL, &s) != GA_OK || ga_generate(s, ids, PROMPT, &o, &r) != GA_OK)
    fail_msg("%s", ga_error_text());
  ga_session_destroy(s);
  assert_int_equal(a.n, ANSWER);
  return a;
}

static void overwrite(void) {
  static char ones[1 << 16];
  struct stat st;
  const int fd = open(tiny_path, O_WRONLY);
  memset(ones, 0xff, sizeof ones);
  assert_true(fd >= 0 && fstat(fd, &st) == 0);
  for (off_t left = st.st_size; left > 0; left -= (off_t)sizeof ones)
    assert_true(write(fd, ones, (size_t)left < sizeof ones ? (size_t)left : sizeof ones) > 0);
  assert_int_equal(close(fd), 0);
}

/* The same tokens as before, from a file of other bytes, then of none, then without a file. */
static void unharmed(const char *device, const char *arch) {
  ga_ctx *ctx = open_ctx(device);
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  ga_model *mapped = open_by(ctx, false);
  const answer want = answer_of(mapped);
  ga_model_destroy(mapped);
  ga_model *model = open_by(ctx, true);
  for (int harm = 0; harm < 3; harm++) {
    if (harm == 0) overwrite();
    if (harm == 1) assert_int_equal(truncate(tiny_path, 0), 0);
    if (harm == 2) assert_int_equal(remove(tiny_path), 0);
    const answer got = answer_of(model);
    assert_memory_equal(got.ids, want.ids, sizeof want.ids);
  }
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void test_file_may_change(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
    unharmed("cpu", archs[i]);
    unharmed("ref", archs[i]); /* packs nothing: all matrices would be in the map */
  }
}

/* The plan counts what is copied, and a plan alone as what is loaded. */
static void test_plan(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx("ref");
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  uint64_t bytes[2];
  for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
    ga_model *plan, *model = open_by(ctx, no_mmap);
    ga_model_options o = GA_MODEL_OPTIONS_INIT;
    o.no_mmap = no_mmap;
    o.plan_only = true;
    assert_int_equal(ga_model_load(ctx, tiny_path, &o, &plan), GA_OK);
    bytes[no_mmap] = ga_model_get_info(model)->weight_bytes;
    assert_int_equal(ga_model_get_info(plan)->weight_bytes, bytes[no_mmap]);
    ga_model_destroy(plan);
    ga_model_destroy(model);
  }
  assert_true(bytes[1] > bytes[0]);
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  ga_model *none;
  o.reserved2[3] = 1;
  assert_int_equal(ga_model_load(ctx, tiny_path, &o, &none), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "reserved2[3] is 1"));
  ga_ctx_destroy(ctx);
}

/* That the other test can fail: with the map, a shortened file ends the process. */
static void test_map_is_harmed(void **state) {
  (void)state;
  int status = 0;
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    (void)signal(SIGBUS, SIG_DFL);
    ga_ctx *ctx = open_ctx("ref");
    if (tiny_make("llama", TINY_VOCAB) != GA_OK) _exit(1);
    ga_model *model = open_by(ctx, false);
    if (truncate(tiny_path, 0)) _exit(2);
    (void)answer_of(model);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_file_may_change),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_map_is_harmed),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
