/* Traces of chosen experts: written by a model's steps, read back, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ga/llm.h"
#include "model/expert_trace.h"
#include "tests/arch_model.h"

enum { TOKENS = 24, VOCAB = 96 };

#define assert_ok(call) \
  if ((call) != GA_OK) fail_msg("%s", ga_error_text())

static char trace_path[] = "/tmp/ga-expert-trace-XXXXXX";

static int make_path(void **state) {
  (void)state;
  const int fd = mkstemp(trace_path);
  if (fd < 0) return 1;
  return close(fd);
}

static int remove_path(void **state) {
  (void)state;
  return unlink(trace_path);
}

static ga_status load_traced(const char *name, const char *to, ga_ctx *ctx, ga_model **model) {
  char path[ARCH_PATH_BYTES];
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.expert_trace = to;
  return ga_model_load(ctx, arch_model_path(name, path), &o, model);
}

/* Runs TOKENS tokens, `chunk` at a time, and reads what they have chosen. */
static void trace_model(const char *name, const char *device, int chunk, expert_choices *out) {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  int32_t ids[TOKENS];
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % VOCAB;
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = device}, &ctx));
  assert_ok(load_traced(name, trace_path, ctx, &model));
  assert_ok(ga_session_create(model, NULL, &session));
  for (int at = 0; at < TOKENS; at += chunk) assert_ok(ga_session_eval(session, ids + at, chunk, NULL, 0, NULL, NULL));
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  assert_ok(expert_choices_read(trace_path, out));
}

static void check_traced(const expert_choices *c) {
  assert_int_equal(c->n_tokens, TOKENS);
  for (int32_t l = 0; l < c->n_layers; l++)
    for (int64_t t = 0; c->layers[l] && t < c->n_tokens; t++)
      for (int32_t j = 0; j < c->top_k; j++)
        for (int32_t i = 0; i < j; i++)
          assert_int_not_equal(c->layers[l][t * c->top_k + i], c->layers[l][t * c->top_k + j]);
}

/* By the CPU and by the oracles, in one step and in several: the same choices. */
static void test_steps_are_traced(void **state) {
  (void)state;
  static const char *const names[] = {"qwen3moe", "glm4moe"}; /* glm4moe's first layer has no experts */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    expert_choices one, other;
    trace_model(names[i], "ref", TOKENS, &one);
    check_traced(&one);
    assert_int_equal(one.layers[0] == NULL, i);
    for (int chunk = 1; chunk <= TOKENS; chunk *= 4) {
      trace_model(names[i], "ref", chunk == 16 ? TOKENS : chunk, &other);
      for (int32_t l = 0; l < one.n_layers; l++) {
        assert_int_equal(one.layers[l] != NULL, other.layers[l] != NULL);
        if (one.layers[l])
          assert_memory_equal(one.layers[l], other.layers[l], (size_t)(TOKENS * one.top_k) * sizeof(uint16_t));
      }
      expert_choices_free(&other);
    }
    expert_choices_free(&one);
  }
}

static void test_trace_refused(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_model *model;
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx));
  assert_int_equal(load_traced("qwen3", trace_path, ctx, &model), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "but the model has no experts"));
  assert_int_equal(load_traced("qwen3moe", "/nowhere/trace", ctx, &model), GA_ERR_IO);
  assert_non_null(strstr(ga_error_text(), "/nowhere/trace: No such file"));
  ga_ctx_destroy(ctx);
}

static ga_status read_bytes(const unsigned char *bytes, size_t n) {
  expert_choices c;
  FILE *f = fopen(trace_path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
  const ga_status status = expert_choices_read(trace_path, &c);
  if (status == GA_OK) expert_choices_free(&c);
  assert_null(c.layers);
  return status;
}

/* A file that is cut anywhere but between records is refused, and no change of a byte does harm. */
static void test_hostile_traces(void **state) {
  (void)state;
  expert_choices c;
  ga_rng rng;
  static unsigned char bytes[1 << 16], changed[1 << 16];
  trace_model("qwen3moe", "cpu", 6, &c);
  const size_t record = 8 + (size_t)(6 * c.top_k) * 2;
  expert_choices_free(&c);
  FILE *f = fopen(trace_path, "rb");
  const size_t n = fread(bytes, 1, sizeof bytes, f);
  (void)fclose(f);
  assert_true(n > 24 && n < sizeof bytes);
  for (size_t cut = 0; cut < n; cut++) {
    const bool at_end = cut > 24 && (cut - 24) % record < 8 && cut - 24 >= record;
    assert_int_equal(read_bytes(bytes, cut), at_end ? GA_OK : GA_ERR_FORMAT);
  }
  ga_rng_seed(&rng, 11);
  for (int i = 0; i < 2000; i++) {
    memcpy(changed, bytes, n);
    for (int k = 0; k < 3; k++) changed[ga_rng_below(&rng, n)] = (unsigned char)ga_rng_below(&rng, 256);
    const ga_status status = read_bytes(changed, n);
    assert_true(status == GA_OK || status == GA_ERR_FORMAT);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_are_traced), cmocka_unit_test(test_trace_refused),
                                     cmocka_unit_test(test_hostile_traces)};
  return cmocka_run_group_tests(tests, make_path, remove_path);
}
