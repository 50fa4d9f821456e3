/* Next-token distributions of the fast kernels against those of the oracles (device "ref"), on the real models.
 * The oracles are slow: GA_TEST_TOKENS=64 makes a longer run than the default, GA_TEST_TOKENS=1 a shorter one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ga/llm.h"
#include "tests/engine_models.h"

static const char text[] =
    "The old lighthouse stood at the end of the pier, and every evening its keeper climbed the hundred and "
    "twelve steps to light the lamp. In 1893 he wrote: \"for (int i = 0; i < n; i++) sum += a[i];\" which nobody "
    "understood until much later, when a visitor from the university came by boat.";

static float *logits_on(const char *device, const char *path, int32_t *ids, int n, int *vocab) {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  size_t n_ids;
  static int32_t all[1024];
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = device}, &ctx),
                   GA_OK);
  if (ga_model_load(ctx, path, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_session_create(model, NULL, &session), GA_OK);
  assert_int_equal(ga_tokenize(ga_model_tokenizer(model), text, sizeof text - 1, GA_TOK_ADD_SPECIAL, all, 1024, &n_ids),
                   GA_OK);
  assert_true(n_ids >= (size_t)n);
  memcpy(ids, all, (size_t)n * sizeof *ids);
  *vocab = ga_model_get_info(model)->vocab;
  float *logits = malloc((size_t)n * (size_t)*vocab * sizeof(float));
  assert_non_null(logits);
  if (ga_session_eval(session, ids, n, logits, n, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  return logits;
}

static double log_sum_exp(const float *x, int n) {
  double most = (double)x[0], sum = 0;
  for (int i = 1; i < n; i++) most = fmax(most, (double)x[i]);
  for (int i = 0; i < n; i++) sum += exp((double)x[i] - most);
  return most + log(sum);
}

/* KL(p || q) of two rows of logits, in nats. */
static double divergence(const float *p, const float *q, int n) {
  double lp = log_sum_exp(p, n), lq = log_sum_exp(q, n), kl = 0;
  for (int i = 0; i < n; i++) {
    double a = (double)p[i] - lp;
    kl += exp(a) * (a - ((double)q[i] - lq));
  }
  return kl;
}

static void check_oracle(const char *file, int tokens) {
  const char *path = model_path(file), *longer = getenv("GA_TEST_TOKENS");
  if (!path) {
    print_message("%s is not here (make models)\n", file);
    skip();
  }
  if (longer) tokens = atoi(longer);
  int32_t ids[1024];
  int vocab;
  assert_in_range(tokens, 1, 64);
  float *oracle = logits_on("ref", path, ids, tokens, &vocab), *fast = logits_on("cpu", path, ids, tokens, &vocab);
  double sum = 0, worst = 0;
  for (int t = 0; t < tokens; t++) {
    double kl = divergence(oracle + (size_t)t * (size_t)vocab, fast + (size_t)t * (size_t)vocab, vocab);
    sum += kl;
    worst = fmax(worst, kl);
  }
  print_message("%s: KL from the oracles, mean %.2e worst %.2e over %d tokens\n", file, sum / tokens, worst, tokens);
  assert_true(sum / tokens < 1e-3);
  free(oracle);
  free(fast);
}

static void test_oracle_smollm2(void **state) {
  (void)state;
  check_oracle("SmolLM2-135M-Instruct.Q4_1.gguf", 10);
}

static void test_oracle_gemma3(void **state) {
  (void)state;
  check_oracle("gemma-3-270m-q4_k_m.gguf", 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_oracle_smollm2), cmocka_unit_test(test_oracle_gemma3)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
