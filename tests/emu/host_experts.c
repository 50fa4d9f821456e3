/* Models whose experts are in host memory, where the CPU multiplies by them, and whose other parts are on the emulated
 * GPU: logits are those of the CPU alone, whichever layers' experts are where. `emu_host_experts NAME` runs one model
 * of tests/data/arch. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ga/engine.h"
#include "ga/llm.h"
#include "model/expert_cache.h"
#include "tests/tiny_model.h"

enum { TOKENS = 16, VOCAB = 96 };

#define assert_ok(call) \
  if ((call) != GA_OK) fail_msg("%s", ga_error_text())

static const char *model_name;

static void open_with_experts(const char *device, const ga_model_options *o, ga_ctx **ctx, ga_model **model) {
  char path[ARCH_PATH_BYTES];
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = device;
  assert_ok(ga_ctx_create(&co, ctx));
  assert_ok(ga_model_load(*ctx, arch_model_path(model_name, path), o, model));
}

/* Logits of TOKENS tokens, `chunk` tokens at a time. */
static void run_placed(ga_model *model, uint32_t flags, int chunk, float *logits) {
  ga_session *session;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  int32_t ids[TOKENS];
  so.kv_dtype = GA_F32;
  so.flags = flags;
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % VOCAB;
  assert_ok(ga_session_create(model, &so, &session));
  for (int at = 0; at < TOKENS; at += chunk) {
    const int n = TOKENS - at < chunk ? TOKENS - at : chunk;
    assert_ok(ga_session_eval(session, ids + at, n, logits + at * VOCAB, n, NULL, NULL));
  }
  ga_session_destroy(session);
}

/* Largest difference, relative to the root of the mean square of `want`. */
static double error_beside_cpu(const float *got, const float *want) {
  double worst = 0, sum = 0;
  for (int i = 0; i < TOKENS * VOCAB; i++) {
    worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    sum += (double)want[i] * (double)want[i];
  }
  return worst / sqrt(sum / TOKENS / VOCAB);
}

static void check_chunks(ga_model *model, const float *want, const char *what) {
  static const double bound = 5e-5; /* as emu_arch has it */
  static const int chunks[] = {TOKENS, 7, 1};
  static float got[TOKENS * VOCAB];
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
    run_placed(model, 0, chunks[i], got);
    const double error = error_beside_cpu(got, want);
    if (!(error < bound))
      fail_msg("%s, %s, %d at a time: error %g, allowed %g", model_name, what, chunks[i], error, bound);
  }
}

static float expected[TOKENS * VOCAB];

static void test_logits(void **state) {
  (void)state;
  static const int32_t counts[] = {0, 1, GA_CPU_MOE_ALL};
  ga_ctx *ctx;
  ga_model *model;
  open_with_experts("cpu", NULL, &ctx, &model);
  const int32_t layers = ga_model_get_info(model)->n_layers;
  run_placed(model, 0, TOKENS, expected);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    ga_model_options o = GA_MODEL_OPTIONS_INIT;
    char what[32];
    o.n_cpu_moe = counts[i];
    open_with_experts("emu", &o, &ctx, &model);
    const ga_model_placement *p = ga_model_placement_at(model, 0);
    assert_int_equal(ga_model_placement_count(model), 1);
    assert_true(p->n_host_expert_layers <= (counts[i] < layers ? counts[i] : layers));
    assert_int_equal(p->host_experts > 0, p->n_host_expert_layers > 0);
    if (counts[i] == GA_CPU_MOE_ALL) assert_true(p->n_host_expert_layers > 0);
    (void)snprintf(what, sizeof what, "experts of %d layers", p->n_host_expert_layers);
    check_chunks(model, expected, what);
    ga_model_destroy(model);
    ga_ctx_destroy(ctx);
  }
}

/* Loads a model with a cache of that many bytes; returns the status. */
static ga_status open_with_cache(uint64_t bytes, int32_t n_cpu_moe, ga_ctx **ctx, ga_model **model) {
  char path[ARCH_PATH_BYTES];
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  co.device = "emu";
  o.n_cpu_moe = n_cpu_moe;
  o.expert_cache = bytes;
  assert_ok(ga_ctx_create(&co, ctx));
  return ga_model_load(*ctx, arch_model_path(model_name, path), &o, model);
}

/* The bounds of the cache, from the error of one that is too small. */
static void cache_bounds(uint64_t *least, uint64_t *most) {
  ga_ctx *ctx;
  ga_model *model;
  assert_int_equal(open_with_cache(1, GA_CPU_MOE_ALL, &ctx, &model), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "expert_cache: 0.0 MiB (1 bytes) for "));
  const char *pair = strrchr(ga_error_text(), '(');
  assert_non_null(pair);
  assert_int_equal(sscanf(pair, "(%" SCNu64 " to %" SCNu64, least, most), 2);
  assert_true(*least > 1 && *most > *least);
  ga_ctx_destroy(ctx);
}

static ga_expert_cache_stats cache_stats(const ga_model *model) {
  ga_expert_cache_stats s = GA_EXPERT_CACHE_STATS_INIT;
  assert_ok(ga_model_expert_cache(model, &s));
  return s;
}

/* One expert of each type, half of all, and all of them; until the cache is full of what it is asked for. */
static void test_cache(void **state) {
  (void)state;
  enum { ROUNDS = 2 };
  uint64_t least, most, rate = 0;
  ga_ctx *ctx;
  ga_model *model;
  cache_bounds(&least, &most);
  const uint64_t sizes[] = {least, (least + most) / 2, most};
  for (int i = 0; i < 3; i++) {
    char what[64];
    assert_ok(open_with_cache(sizes[i], GA_CPU_MOE_ALL, &ctx, &model));
    assert_int_equal(ga_model_placement_at(model, 0)->expert_cache, sizes[i]);
    (void)snprintf(what, sizeof what, "cache of %llu of %llu bytes", (unsigned long long)sizes[i],
                   (unsigned long long)most);
    for (int round = 0; round < ROUNDS; round++) check_chunks(model, expected, what);
    const ga_expert_cache_stats s = cache_stats(model);
    assert_true(s.bytes <= sizes[i] && s.bytes > 0);
    assert_true(s.slots_used <= s.slots && s.slots_used > 0);
    assert_true(s.hits > 0 && s.hits <= s.lookups && s.loads >= (uint64_t)s.slots_used);
    const uint64_t now = s.hits * 1000 / s.lookups;
    print_message("%s: %lld slots, %lld used, %llu of 1000 hits, %llu loads\n", what, (long long)s.slots,
                  (long long)s.slots_used, (unsigned long long)now, (unsigned long long)s.loads);
    assert_true(now >= rate);
    rate = now;
    ga_model_destroy(model);
    ga_ctx_destroy(ctx);
  }
}

/* Steps of many tokens load whole layers into the cache, where it has the slots. */
static void test_streaming(void **state) {
  (void)state;
  if (strcmp(model_name, "qwen3moe")) skip();
  uint64_t least, most;
  ga_ctx *ctx;
  ga_model *model;
  cache_bounds(&least, &most);
  for (int way = 0; way < 3; way++) {
    const uint64_t bytes = way == 1 ? most : (least + most) / 2;
    assert_ok(open_with_cache(bytes, GA_CPU_MOE_ALL, &ctx, &model));
    expert_cache_set_streaming(model->placements[0].cache, way == 2 ? STREAM_NEVER : STREAM_ALWAYS);
    check_chunks(model, expected, way == 2 ? "not streamed" : way ? "streamed to all slots" : "streamed to half");
    const ga_expert_cache_stats s = cache_stats(model);
    if (way == 0) assert_true(s.loads > (uint64_t)s.slots); /* one layer makes way for the next */
    if (way == 1) assert_int_equal(s.loads, s.slots_used);
    ga_model_destroy(model);
    ga_ctx_destroy(ctx);
  }
}

/* Sizes that make no sense, and what a cache excludes. */
static void test_cache_refused(void **state) {
  (void)state;
  uint64_t least, most;
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  cache_bounds(&least, &most);
  const uint64_t wrong[] = {least - 1, most + 1};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(open_with_cache(wrong[i], GA_CPU_MOE_ALL, &ctx, &model), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "must be "));
    ga_ctx_destroy(ctx);
  }
  assert_int_equal(open_with_cache(least, 0, &ctx, &model), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "no layer on a GPU has its experts in host memory"));
  ga_ctx_destroy(ctx);
  assert_ok(open_with_cache(least, GA_CPU_MOE_ALL, &ctx, &model));
  so.flags = GA_SESSION_DETERMINISTIC;
  assert_int_equal(ga_session_create(model, &so, &session), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "has a cache of experts"));
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* The CPU has whole layers, too, and a second model shares the weights. */
static void test_beside_layers_of_the_cpu(void **state) {
  (void)state;
  if (strcmp(model_name, "qwen3moe")) skip();
  ga_ctx *ctx, *second;
  ga_model *model, *shared;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.n_cpu_moe = GA_CPU_MOE_ALL;
  o.gpu_layers = 1;
  co.device = "emu";
  open_with_experts("emu", &o, &ctx, &model);
  assert_int_equal(ga_model_placement_count(model), 2);
  assert_int_equal(ga_model_placement_at(model, 0)->n_host_expert_layers, 0);
  assert_int_equal(ga_model_placement_at(model, 1)->n_host_expert_layers, 1);
  check_chunks(model, expected, "one layer on the GPU");
  assert_ok(ga_ctx_create(&co, &second));
  assert_ok(ga_model_share(model, second, &shared));
  check_chunks(shared, expected, "one layer on the GPU, shared");
  ga_model_destroy(shared);
  ga_ctx_destroy(second);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* However tokens are divided into calls. */
static void test_equal_bits(void **state) {
  (void)state;
  static float one[TOKENS * VOCAB], other[TOKENS * VOCAB];
  ga_ctx *ctx;
  ga_model *model;
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.n_cpu_moe = GA_CPU_MOE_ALL;
  open_with_experts("emu", &o, &ctx, &model);
  run_placed(model, GA_SESSION_DETERMINISTIC, TOKENS, one);
  run_placed(model, GA_SESSION_DETERMINISTIC, 5, other);
  assert_memory_equal(one, other, sizeof one);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

/* Requests of an engine get the tokens that they get on the CPU. */
static void answer_requests(const char *device, int32_t n_cpu_moe, uint32_t flags, int32_t *tokens) {
  enum { REQUESTS = 3, NEXT = 6, PROMPT = 24 };
  ga_ctx *ctx;
  ga_model *model;
  ga_engine *e;
  ga_request *r[REQUESTS];
  int32_t ids[PROMPT];
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  co.device = device;
  mo.n_cpu_moe = n_cpu_moe;
  eo.context = 64, eo.max_sequences = 4, eo.step_tokens = 16, eo.kv_tokens = 1024, eo.kv_dtype = GA_F32;
  eo.flags = flags;
  assert_ok(ga_ctx_create(&co, &ctx));
  assert_ok(ga_model_load(ctx, tiny_path, &mo, &model));
  assert_ok(ga_engine_create(model, &eo, &e));
  for (int i = 0; i < REQUESTS; i++) {
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    for (int k = 0; k < PROMPT; k++) ids[k] = (k * 37 + 5 * i + 5) % VOCAB;
    o.ids = ids, o.n_ids = 8 + 7 * i, o.max_tokens = NEXT, o.ignore_eog = true;
    assert_ok(ga_engine_submit(e, &o, &r[i]));
  }
  for (int i = 0, n = 0; i < REQUESTS; i++, n = 0) {
    ga_request_output out = GA_REQUEST_OUTPUT_INIT;
    do {
      assert_ok(ga_request_poll(r[i], -1, &out));
      if (out.event == GA_REQUEST_TOKEN) tokens[i * NEXT + n++] = out.id;
    } while (out.event != GA_REQUEST_END);
    if (out.status != GA_OK) fail_msg("%s", ga_request_error(r[i]));
    assert_int_equal(n, NEXT);
    ga_request_destroy(r[i]);
  }
  ga_engine_destroy(e);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void test_engine(void **state) {
  (void)state;
  int32_t want[18], got[18];
  if (strchr(model_name, '_')) skip(); /* tiny_make takes names of architectures */
  if (tiny_make(model_name, TINY_VOCAB) != GA_OK) fail_msg("%s", ga_error_text());
  answer_requests("cpu", -1, 0, want);
  answer_requests("emu", GA_CPU_MOE_ALL, 0, got);
  assert_memory_equal(got, want, sizeof want);
  if (!strcmp(model_name, "qwen2moe")) return; /* whose shared feed-forward has a gate, which is the GPU's */
  answer_requests("emu", GA_CPU_MOE_ALL, GA_ENGINE_DETERMINISTIC, got);
  assert_memory_equal(got, want, sizeof want);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_logits),
                                     cmocka_unit_test(test_cache),
                                     cmocka_unit_test(test_streaming),
                                     cmocka_unit_test(test_cache_refused),
                                     cmocka_unit_test(test_beside_layers_of_the_cpu),
                                     cmocka_unit_test(test_equal_bits),
                                     cmocka_unit_test(test_engine)};
  model_name = argc > 1 ? argv[1] : "qwen3moe";
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
