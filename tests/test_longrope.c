/* longrope's two lists of factors: a session's context says which one all its tokens rotate by. tests/data/arch/phi3
 * was trained for 16 tokens and takes 128; short.txt has what transformers gives for 16 tokens, in f64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ga/llm.h"

enum { TOKENS = 16, VOCAB = 96 };

static int32_t ids[TOKENS];
static double want[TOKENS * VOCAB];
static float got[TOKENS * VOCAB];

static void read_short(void) {
  FILE *f = fopen(GA_TEST_DATA "/arch/phi3/short.txt", "r");
  assert_non_null(f);
  while (getc(f) != '\n') {
  }
  assert_int_equal(fscanf(f, "ids %*d"), 0);
  for (int i = 0; i < TOKENS; i++) assert_int_equal(fscanf(f, "%d", &ids[i]), 1);
  for (int i = 0; i < TOKENS * VOCAB; i++) assert_int_equal(fscanf(f, i % VOCAB ? " %lf" : " row %lf", &want[i]), 1);
  (void)fclose(f);
}

/* Largest difference relative to the spread of what is wanted. */
static double error_in_context(ga_model *model, int32_t context) {
  ga_session *session;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  double worst = 0, sum = 0;
  so.kv_dtype = GA_F32;
  so.context = context;
  assert_int_equal(ga_session_create(model, &so, &session), GA_OK);
  if (ga_session_eval(session, ids, TOKENS, got, TOKENS, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  ga_session_destroy(session);
  for (int i = 0; i < TOKENS * VOCAB; i++) {
    worst = fmax(worst, fabs((double)got[i] - want[i]));
    sum += want[i] * want[i];
  }
  return worst / sqrt(sum / TOKENS / VOCAB);
}

static void test_context_chooses(void **state) {
  ga_ctx *ctx;
  ga_model *model;
  (void)state;
  read_short();
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                   GA_OK);
  if (ga_model_load(ctx, GA_TEST_DATA "/arch/phi3", NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  const double at_16 = error_in_context(model, 16), at_17 = error_in_context(model, 17);
  if (!(at_16 < 5e-5)) fail_msg("context 16: error %g, allowed 5e-5", at_16);
  if (!(at_17 > 1e-2)) fail_msg("context 17: error %g, as if by the short factors", at_17);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_context_chooses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
