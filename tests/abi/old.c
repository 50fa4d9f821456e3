/* A program compiled against version 0 of the headers (v0.h), run with today's library: tests/abi/programs.py. What
 * lies behind each struct is filled with garbage: a library that took it for newer fields would fail. Argument: a
 * model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/abi/v0.h"

#define ROOM 2048

static ga_ctx *ctx;

static void expect(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "%s; the library's last error: %s\n", what, ga_error_text());
  exit(1);
}

static int is_near(float a, double b) { return fabs((double)a - b) < 1e-5; }

/* A copy of a struct with garbage behind it. The slots are used in turn, so that a few are alive at once. */
static void *old(const void *from, size_t bytes) {
  static _Alignas(16) unsigned char slots[4][ROOM];
  static unsigned turn;
  unsigned char *slot = slots[turn++ % 4];
  memset(slot, 0xA5, ROOM);
  return memcpy(slot, from, bytes);
}
#define OLD(s) old(&(s), sizeof(s))

/* The io of a newer program, which uses none of its newer fields. */
static void *newer_io(const void *from, size_t bytes) {
  unsigned char *slot = old(from, bytes);
  memset(slot + bytes, 0, ROOM - bytes);
  return slot;
}

/* The struct of a newer program: `more` bytes behind it, the last of which is `last`. */
static void *newer(const void *from, size_t bytes, size_t more, unsigned char last) {
  unsigned char *slot = old(from, bytes);
  const size_t size = bytes + more;
  memset(slot + bytes, 0, more);
  slot[size - 1] = last;
  return memcpy(slot, &size, sizeof size);
}

static void open_ctx(void) {
  const ga_ctx_options options = {sizeof options, "cpu", NULL, 1, 0};
  ga_memory_info info = {.struct_size = sizeof info};
  expect(ga_ctx_create(OLD(options), &ctx) == GA_OK, "ctx_create");
  expect(ga_ctx_threads(ctx) == 1, "ctx: one thread was asked for");
  ga_memory_info *filled = OLD(info);
  expect(ga_ctx_memory(ctx, filled) == GA_OK && filled->total_bytes > 0, "ctx_memory");
  expect(((unsigned char *)filled)[sizeof info] == 0xA5, "ctx_memory wrote behind the struct");
}

static void old_gemm(void) {
  enum { M = 3, N = 5, K = 7 };
  float x[M][K], w[N][K], y[M][N], bias[N];
  for (int i = 0; i < M * K; i++) x[0][i] = (float)(i % 5) - 2;
  for (int i = 0; i < N * K; i++) w[0][i] = (float)(i % 7) - 3;
  for (int i = 0; i < N; i++) bias[i] = (float)i;
  const ga_gemm_desc d = {.struct_size = sizeof d,
                          .m = M,
                          .n = N,
                          .k = K,
                          .w_dtype = GA_F32,
                          .x_dtype = GA_F32,
                          .y_dtype = GA_F32,
                          .flags = GA_GEMM_BIAS,
                          .scale = 0.5f};
  const ga_gemm_io io = {.x = x, .w = w, .y = y, .bias = bias};
  expect(ga_gemm(ctx, OLD(d), OLD(io), NULL) == GA_OK, "gemm");
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += (double)x[i][k] * (double)w[j][k];
      expect(is_near(y[i][j], 0.5 * sum + j), "gemm: a wrong element");
    }
}

/* Two queries, two keys, causal: the first query sees the first key alone. */
static void old_attn(void) {
  enum { D = 8 };
  float q[2][D], k[2][D], v[2][D], o[2][D], lse[2];
  for (int i = 0; i < 2 * D; i++) {
    q[0][i] = (float)(i % 3) - 1;
    k[0][i] = (float)(i % 4) - 1.5f;
    v[0][i] = (float)i;
  }
  const ga_attn_desc d = {.struct_size = sizeof d,
                          .batch = 1,
                          .max_q = 2,
                          .max_kv = 2,
                          .q_heads = 1,
                          .kv_heads = 1,
                          .head_dim = D,
                          .q_dtype = GA_F32,
                          .kv_dtype = GA_F32,
                          .o_dtype = GA_F32,
                          .flags = GA_ATTN_CAUSAL | GA_ATTN_LSE,
                          .scale = 0.25f};
  const ga_attn_io io = {.q = q, .k = k, .v = v, .o = o, .lse = lse};
  expect(ga_attn(ctx, OLD(d), OLD(io), NULL) == GA_OK, "attn");
  double logit[2] = {0, 0};
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < D; i++) logit[j] += 0.25 * (double)q[1][i] * (double)k[j][i];
  const double first = exp(logit[0]) / (exp(logit[0]) + exp(logit[1]));
  for (int i = 0; i < D; i++) {
    expect(is_near(o[0][i], (double)v[0][i]), "attn: the first query");
    expect(is_near(o[1][i], first * (double)v[0][i] + (1 - first) * (double)v[1][i]), "attn: the second query");
  }
  expect(is_near(lse[1], log(exp(logit[0]) + exp(logit[1]))), "attn: lse");
}

static void check_norm(const float *x, const float *weight, const float *y, int n) {
  double squares = 0;
  for (int i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
  for (int i = 0; i < n; i++)
    expect(is_near(y[i], (double)x[i] / sqrt(squares / n + 1e-5) * (double)weight[i]), "norm: a wrong element");
}

/* In its three forms, and from programs that are newer than the library. */
static void old_norm(void) {
  enum { N = 6 };
  const float x[N] = {1, -2, 3, -4, 5, -6}, weight[N] = {1, 2, 3, 1, 2, 3};
  float y[N];
  ga_plan *plan;
  const ga_norm_desc d = {.struct_size = sizeof d,
                          .rows = 1,
                          .width = N,
                          .kind = GA_NORM_RMS,
                          .x_dtype = GA_F32,
                          .y_dtype = GA_F32,
                          .eps = 1e-5f};
  const ga_norm_io io = {.x = x, .y = y, .weight = weight};
  expect(ga_norm(ctx, OLD(d), OLD(io), NULL) == GA_OK, "norm");
  check_norm(x, weight, y, N);
  memset(y, 0, sizeof y);
  expect(ga_norm_plan(ctx, OLD(d), &plan) == GA_OK, "norm_plan");
  expect(ga_norm_run(plan, OLD(io), NULL, NULL) == GA_OK, "norm_run");
  check_norm(x, weight, y, N);
  ga_plan_destroy(plan);
  memset(y, 0, sizeof y);
  expect(ga_norm(ctx, newer(&d, sizeof d, 512, 0), newer_io(&io, sizeof io), NULL) == GA_OK,
         "norm: zeros behind the description");
  check_norm(x, weight, y, N);
  expect(ga_norm(ctx, newer(&d, sizeof d, 512, 3), newer_io(&io, sizeof io), NULL) == GA_ERR_ARG,
         "norm: an unknown field is taken");
  const char *says = ga_error_text();
  expect(strstr(says, "norm: desc.struct_size is 576 and byte 575 is not 0") && strstr(says, "takes 64 to "),
         "norm: the text of an unknown field");
  ga_norm_desc less = d;
  less.struct_size = sizeof d - 8;
  expect(ga_norm(ctx, OLD(less), OLD(io), NULL) == GA_ERR_ARG && strstr(ga_error_text(), "must be 64 to "),
         "norm: smaller than the first version");
}

static void kv_store(void) {
  enum { D = 4, SLOTS = 3 };
  const float k[2][D] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, v[2][D] = {{9, 8, 7, 6}, {5, 4, 3, 2}};
  float k_cache[SLOTS][D] = {{0}}, v_cache[SLOTS][D] = {{0}};
  const int32_t slot[2] = {2, 0};
  const ga_kv_store_desc d = {.struct_size = sizeof d,
                              .tokens = 2,
                              .slots = SLOTS,
                              .heads = 1,
                              .head_dim = D,
                              .v_dim = D,
                              .x_dtype = GA_F32,
                              .kv_dtype = GA_F32};
  const ga_kv_store_io io = {.k = k, .v = v, .slot = slot, .k_cache = k_cache, .v_cache = v_cache};
  expect(ga_kv_store(ctx, OLD(d), OLD(io), NULL) == GA_OK, "kv_store");
  expect(!memcmp(k_cache[2], k[0], sizeof k[0]) && !memcmp(k_cache[0], k[1], sizeof k[1]), "kv_store: keys");
  expect(!memcmp(v_cache[2], v[0], sizeof v[0]) && !memcmp(v_cache[0], v[1], sizeof v[1]), "kv_store: values");
  expect(k_cache[1][0] == 0 && v_cache[1][0] == 0, "kv_store: a slot that is not written");
}

static void old_sample(void) {
  const float logits[5] = {0, 3, 1, 2.5f, -1};
  const ga_logit_bias ban[1] = {{1, -INFINITY}};
  const int32_t history[1] = {0};
  int32_t id = -1;
  float logprob = 0;
  const ga_sample_desc d = {
      .struct_size = sizeof d, .vocab = 5, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .presence_penalty = 1};
  const ga_sample_io io = {
      .logits = logits, .bias = ban, .n_bias = 1, .history = history, .n_history = 1, .id = &id, .logprob = &logprob};
  expect(ga_sample(ctx, OLD(d), OLD(io), NULL) == GA_OK && id == 3, "sample");
  double sum = 0;
  for (int i = 0; i < 5; i++) sum += exp((double)logits[i]);
  expect(is_near(logprob, 2.5 - log(sum)), "sample: logprob");
}

static int count_token(void *user, int32_t id, const char *text, size_t bytes) {
  (void)id, (void)text, (void)bytes;
  ++*(int *)user;
  return 0;
}

static void old_session(const char *path) {
  ga_model *model;
  ga_session *s, *none;
  const int32_t ids[2] = {1, 260};
  int pieces = 0;
  const ga_session_options so = {sizeof so, 16, 4, GA_F16, 0};
  const ga_model_options mo = {.struct_size = sizeof mo, .gpu_layers = -1};
  const ga_sample_desc greedy = {.struct_size = sizeof greedy, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
  expect(ga_model_load(ctx, path, OLD(mo), &model) == GA_OK, "model_load");
  expect(ga_session_create(model, OLD(so), &s) == GA_OK, "session_create");
  expect(ga_session_context(s) == 16, "session: a context of 16 was asked for");
  const ga_generate_options go = {.struct_size = sizeof go,
                                  .max_tokens = 3,
                                  .ignore_eog = true,
                                  .sample = OLD(greedy),
                                  .text = count_token,
                                  .user = &pieces};
  ga_generate_result r = {.struct_size = sizeof r};
  ga_generate_result *result = OLD(r);
  expect(ga_generate(s, ids, 2, OLD(go), result) == GA_OK, "generate");
  expect(result->n_prompt == 2 && result->n_generated == 3 && pieces >= 3 && result->finish == GA_FINISH_LENGTH,
         "generate: the result");
  expect(((unsigned char *)result)[sizeof r] == 0xA5, "generate wrote behind the result");
  expect(ga_session_length(s) == 4, "generate: what the session holds");
  expect(ga_session_create(model, newer(&so, sizeof so, 8, 1), &none) == GA_ERR_ARG,
         "session: an unknown field is taken");
  expect(strstr(ga_error_text(), "session: options.struct_size is 32 and byte 31 is not 0") != NULL,
         "session: the text of an unknown field");
  ga_session_destroy(s);
  ga_model_destroy(model);
}

int main(int argc, char **argv) {
  expect(argc == 2, "usage: old MODEL");
  open_ctx();
  old_gemm();
  old_attn();
  old_norm();
  kv_store();
  old_sample();
  old_session(argv[1]);
  ga_ctx_destroy(ctx);
  return 0;
}
