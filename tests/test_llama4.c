/* Llama 4 beyond the first chunk of attention: a text of 150 tokens with chunks of 64, at once, in uneven parts and
 * token by token, on one session and beside other sequences. tests/refs/make_arch.py wrote long.txt. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ga/llm.h"

enum { TOKENS = 150, VOCAB = 96, EVERY = 7, ROWS = (TOKENS + EVERY - 1) / EVERY };

static int32_t ids[TOKENS];
static double want[ROWS][VOCAB];

static int read_long(void **state) {
  char word[16];
  FILE *f = fopen(GA_TEST_DATA "/arch/llama4_folder/long.txt", "r");
  (void)state;
  assert_non_null(f);
  while (getc(f) != '\n') {
  }
  assert_int_equal(fscanf(f, "%15s %*d", word), 1);
  for (int i = 0; i < TOKENS; i++) assert_int_equal(fscanf(f, "%d", &ids[i]), 1);
  for (int r = 0; r < ROWS; r++) {
    assert_int_equal(fscanf(f, "%15s", word), 1);
    for (int c = 0; c < VOCAB; c++) assert_int_equal(fscanf(f, "%lf", &want[r][c]), 1);
  }
  (void)fclose(f);
  return 0;
}

/* Largest difference relative to the spread of the expected values. */
static double error_of_long(const float *got) {
  double worst = 0, sum = 0;
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < VOCAB; c++) {
      worst = fmax(worst, fabs((double)got[r * EVERY * VOCAB + c] - want[r][c]));
      sum += want[r][c] * want[r][c];
    }
  return worst / sqrt(sum / ROWS / VOCAB);
}

static double error_in_chunks(ga_model *model, int chunk) {
  static float logits[TOKENS * VOCAB];
  ga_session *session;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.kv_dtype = GA_F32;
  so.context = TOKENS;
  assert_int_equal(ga_session_create(model, &so, &session), GA_OK);
  for (int at = 0; at < TOKENS; at += chunk) {
    const int n = TOKENS - at < chunk ? TOKENS - at : chunk;
    if (ga_session_eval(session, ids + at, n, logits + at * VOCAB, n, NULL, NULL) != GA_OK)
      fail_msg("%s", ga_error_text());
  }
  ga_session_destroy(session);
  return error_of_long(logits);
}

static void test_long_text(void **state) {
  static const char *const devices[] = {"ref", "cpu"};
  static const int chunks[] = {TOKENS, 64, 33, 1};
  (void)state;
  for (int d = 0; d < 2; d++) {
    ga_ctx *ctx;
    ga_model *model;
    ga_ctx_options options = GA_CTX_OPTIONS_INIT;
    options.device = devices[d];
    assert_int_equal(ga_ctx_create(&options, &ctx), GA_OK);
    assert_int_equal(ga_model_load(ctx, GA_TEST_DATA "/arch/llama4_folder", NULL, &model), GA_OK);
    for (int i = 0; i < 4; i++) {
      const double error = error_in_chunks(model, chunks[i]);
      if (!(error < 1e-5)) fail_msg("%s, parts of %d: error %g", devices[d], chunks[i], error);
    }
    ga_model_destroy(model);
    ga_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_text)};
  return cmocka_run_group_tests(tests, read_long, NULL);
}
