/* Scores of cross-encoders beside those of transformers (tests/refs/make_rankers.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ga/llm.h"

enum { IDS = 64 };

static ga_ctx *open_rank_cpu(void) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.threads = 1;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

static ga_model *load_ranker(ga_ctx *ctx, const char *name) {
  char path[512];
  ga_model *model;
  (void)snprintf(path, sizeof path, "%s/%s", GA_TEST_DATA, name);
  if (ga_model_load(ctx, path, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  return model;
}

/* Reads "pair N ID ... = SCORE"; returns the number of ids, 0 for another line. */
static int read_pair(char *line, int32_t *n_query, int32_t *ids, double *score) {
  int n = 0;
  if (strncmp(line, "pair ", 5) != 0) return 0;
  char *at = line + 5;
  *n_query = (int32_t)strtol(at, &at, 10);
  while (n < IDS && at[1] != '=') ids[n++] = (int32_t)strtol(at, &at, 10);
  *score = strtod(at + 2, NULL);
  return n;
}

static void check_scores(const char *name) {
  char path[512], line[1024];
  int32_t ids[IDS], n_query;
  double want;
  int n_pairs = 0;
  ga_ctx *ctx = open_rank_cpu();
  ga_model *model = load_ranker(ctx, name);
  assert_int_equal(ga_model_get_info(model)->n_labels, 1);
  (void)snprintf(path, sizeof path, "%s/%s/expected.txt", GA_TEST_DATA, name);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f)) {
    float score = NAN;
    const int n = read_pair(line, &n_query, ids, &want);
    if (!n) continue;
    if (ga_rank_ids(model, ids, n, n_query, &score) != GA_OK) fail_msg("%s", ga_error_text());
    float untyped = score; /* all tokens of type 0: BERT's scores differ */
    assert_int_equal(ga_rank_ids(model, ids, n, n, &untyped), GA_OK);
    assert_int_equal(fabsf(untyped - score) > 1e-3f, strstr(name, "xlm") == NULL);
    if (!(fabs((double)score - want) < 2e-5)) fail_msg("%s: %.9g, not %.9g: %s", name, (double)score, want, line);
    n_pairs++;
  }
  assert_int_equal(n_pairs, 5);
  (void)fclose(f);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void test_bert(void **state) {
  (void)state;
  check_scores("rank/bert");
}

static void test_xlm_roberta(void **state) {
  (void)state;
  check_scores("rank/xlm_roberta");
}

static void expect_rank(ga_model *model, int32_t n, int32_t n_query, ga_status status, const char *says) {
  const int32_t ids[IDS + 1] = {2, 5, 3, 6, 3};
  float score = 7;
  assert_int_equal(ga_rank_ids(model, ids, n, n_query, &score), status);
  if (!strstr(ga_error_text(), says)) fail_msg("%s", ga_error_text());
  assert_true(score == 7.0f); /* unchanged */
}

static void test_rank_errors(void **state) {
  (void)state;
  ga_ctx *ctx = open_rank_cpu();
  ga_model *model = load_ranker(ctx, "rank/bert"), *other = load_ranker(ctx, "arch/bert");
  expect_rank(model, 0, 0, GA_ERR_SHAPE, "0 tokens");
  expect_rank(model, IDS + 1, 3, GA_ERR_SHAPE, "1 to 64");
  expect_rank(model, 5, 6, GA_ERR_ARG, "n_query is 6");
  expect_rank(model, 5, -1, GA_ERR_ARG, "n_query is -1");
  expect_rank(other, 5, 3, GA_ERR_UNSUPPORTED, "no head for pairs");
  assert_int_equal(ga_model_get_info(other)->n_labels, 0);
  ga_model_destroy(model);
  ga_model_destroy(other);
  ga_ctx_destroy(ctx);
}

/* The same model still gives embeddings, in which all tokens have type 0. */
static void test_embeddings_of_a_ranker(void **state) {
  (void)state;
  const int32_t ids[] = {2, 5, 3, 6, 3};
  float vector[32];
  double norm = 0;
  ga_ctx *ctx = open_rank_cpu();
  ga_model *model = load_ranker(ctx, "rank/bert");
  assert_int_equal(ga_model_get_info(model)->width, 32);
  assert_int_equal(ga_embed_ids(model, ids, 5, vector), GA_OK);
  for (int i = 0; i < 32; i++) norm += (double)vector[i] * (double)vector[i];
  assert_true(fabs(norm - 1) < 1e-5);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bert), cmocka_unit_test(test_xlm_roberta),
                                     cmocka_unit_test(test_rank_errors), cmocka_unit_test(test_embeddings_of_a_ranker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
