/* Models with experts in block types: stacks are packed where the CPU has a layout for them, and the logits are those
 * of the oracles, but for the rounding of activations to 8 bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ga/llm.h"
#include "ga/quantize.h"
#include "model/weight_spec.h"
#include "tests/arch_model.h"

enum { TOKENS = 24, VOCAB = 96 };

#define assert_ok(call) \
  if ((call) != GA_OK) fail_msg("%s", ga_error_text())

/* Writes a model of tests/data/arch with all matrices in one type. */
static void write_quantised(const char *name, const char *type, const char *to) {
  char path[ARCH_PATH_BYTES];
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  o.type = type;
  o.n_threads = 1;
  o.overwrite = true;
  o.pure = true;
  assert_ok(ga_quantize_file(arch_model_path(name, path), to, &o));
}

/* Evaluates a prompt of TOKENS tokens at once, or token by token. Returns the layout of the experts' gates. */
static ga_layout run_experts_on(const char *path, const char *device, int step, float *logits) {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  int32_t ids[TOKENS];
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % VOCAB;
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = device}, &ctx));
  assert_ok(ga_model_load(ctx, path, NULL, &model));
  assert_ok(ga_session_create(model, NULL, &session));
  for (int at = 0; at < TOKENS; at += step)
    assert_ok(ga_session_eval(session, ids + at, step, logits + at * VOCAB, step, NULL, NULL));
  const ga_layout layout = ga_weight_slot(model, W_GATE_EXPERTS, 0)->layout;
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return layout;
}

static int by_error(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median over tokens of the root of the mean square of x - y, over that of y. A few tokens choose other experts where
 * logits of the router are nearly equal, and are far off then. */
static double median_error(const float *x, const float *y) {
  double error[TOKENS];
  for (int t = 0; t < TOKENS; t++) {
    double off = 0, all = 0;
    for (int i = t * VOCAB; i < (t + 1) * VOCAB; i++) {
      off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
      all += (double)y[i] * (double)y[i];
    }
    error[t] = sqrt(off / all);
  }
  qsort(error, TOKENS, sizeof *error, by_error);
  return error[TOKENS / 2];
}

static void check_experts_in(const char *name, const char *type, bool is_packed) {
  static const double one_token = 2e-3, prompt = 2e-2;
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  char path[] = "/tmp/ga-expert-models-XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  (void)close(fd);
  write_quantised(name, type, path);
  assert_int_equal(run_experts_on(path, "ref", TOKENS, want), GA_LAYOUT_NATIVE);
  for (int step = 1; step <= TOKENS; step += TOKENS - 1) {
    const ga_layout layout = run_experts_on(path, "cpu", step, got);
    if (is_packed) assert_int_not_equal(layout, GA_LAYOUT_NATIVE);
    const double error = median_error(got, want), bound = step == 1 ? one_token : prompt;
    if (!(error < bound)) fail_msg("%s in %s, %d at a time: error %g, allowed %g", name, type, step, error, bound);
  }
  (void)unlink(path);
}

static void test_block_types(void **state) {
  static const char *const names[] = {"qwen3moe", "gpt_oss", "olmoe", "mixtral", "granitemoe"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    check_experts_in(names[i], "q8_0", true);
    check_experts_in(names[i], "q4_0", true);
    check_experts_in(names[i], "mxfp4", false);
    check_experts_in(names[i], "bf16", false);
  }
}

/* Copies a file of the model qwen3_moe into the folder `to`, and replaces a text in it by one of the same length. */
static void copy_file(const char *name, const char *to, const char *was, const char *is) {
  char path[ARCH_PATH_BYTES];
  (void)snprintf(path, sizeof path, "%s/arch/qwen3_moe/%s", GA_TEST_DATA, name);
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  static char bytes[1 << 20];
  const size_t n = fread(bytes, 1, sizeof bytes, in);
  (void)fclose(in);
  assert_true(n > 0 && n < sizeof bytes);
  for (size_t i = 0; was && i + strlen(was) <= n; i++)
    if (!memcmp(bytes + i, was, strlen(was))) memcpy(bytes + i, is, strlen(was));
  (void)snprintf(path, sizeof path, "%s/%s", to, name);
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, n, out), n);
  assert_int_equal(fclose(out), 0);
}

/* Folders with a tensor for each expert, of which one has another name, shape or type. */
static void test_experts_that_do_not_match(void **state) {
  static const struct {
    const char *was, *is, *says;
  } all[] = {
      {NULL, NULL, NULL},
      {"layers.1.mlp.experts.3.up_proj", "layers.1.mlp.experts.9.up_proj", "no sibling for expert 3"},
      {"layers.0.mlp.experts.0.gate_proj", "layers.0.mlp.experts.9.gate_proj", "no sibling for expert 0"},
      {"layers.0.mlp.experts.5.down_proj.weight\": {\"dtype\": \"F32\", \"shape\": [64, 32]",
       "layers.0.mlp.experts.5.down_proj.weight\": {\"dtype\": \"F32\", \"shape\": [32, 64]", "differs from"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char folder[] = "/tmp/ga-expert-folder-XXXXXX", file[64];
    ga_ctx *ctx;
    ga_model *model = NULL;
    assert_non_null(mkdtemp(folder));
    copy_file("config.json", folder, NULL, NULL);
    copy_file("model.safetensors", folder, all[i].was, all[i].is);
    assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx));
    const ga_status status = ga_model_load(ctx, folder, NULL, &model);
    if (!all[i].says) {
      assert_ok(status);
    } else {
      assert_int_not_equal(status, GA_OK);
      if (!strstr(ga_error_text(), all[i].says)) fail_msg("'%s' lacks '%s'", ga_error_text(), all[i].says);
    }
    ga_model_destroy(model);
    ga_ctx_destroy(ctx);
    (void)snprintf(file, sizeof file, "%s/config.json", folder);
    (void)unlink(file);
    (void)snprintf(file, sizeof file, "%s/model.safetensors", folder);
    (void)unlink(file);
    (void)rmdir(folder);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_block_types),
                                     cmocka_unit_test(test_experts_that_do_not_match)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
