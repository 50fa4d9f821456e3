/* The rig of tests in which an engine must answer the same, to the bit, however it is set up: requests on a tiny model
 * of tests/data/arch, over one device or several, in a cache that may be too small for all of them at once. */
#ifndef GA_TESTS_ANSWERS_RIG_H
#define GA_TESTS_ANSWERS_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "ga/engine.h"
#include "tests/tiny_model.h"

/* The emulator is some hundred times slower. */
#ifdef GA_TEST_DEVICE
enum { FEW = 1 };
#else
#define GA_TEST_DEVICE "cpu"
enum { FEW = 0 };
#endif

/* With FEW each request begins a third page, which the cache has for one of them alone. */
enum { CONTEXT = 256, N = FEW ? 2 : 12, PROMPT = 60, NEW = FEW ? 72 : 100, PAGE = 64, DEVICES_MAX = 3 };
enum { FEW_PAGES = FEW ? 4 : 9, MANY_PAGES = N * CONTEXT / PAGE };
enum { SWAP_BYTES = 1 << 24, POLL_MS = FEW ? 600000 : 60000 };

typedef struct rig {
  ga_ctx *ctx[DEVICES_MAX];
  ga_model *model;
  int n;
} rig;

/* GPUs that GA_TEST_GPUS asks for; 0: the tests run on GA_TEST_DEVICE. */
static inline int n_test_gpus(void) {
  const char *n = getenv("GA_TEST_GPUS");
  return n ? atoi(n) : 0;
}

/* Opens GA_TEST_DEVICE, or the i-th of the GPUs in turn. */
static inline ga_ctx *open_test_device(int i) {
  char gpu[32];
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  (void)snprintf(gpu, sizeof gpu, "cuda:%d", n_test_gpus() ? i % n_test_gpus() : 0);
  o.device = n_test_gpus() ? gpu : GA_TEST_DEVICE;
  o.threads = 2;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s", ga_error_text());
  return ctx;
}

/* A model whose layers are on n devices. */
static inline rig answers_open(const char *arch, int n) {
  rig r = {.n = n};
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  tiny_context = CONTEXT;
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  for (int i = 0; i < n; i++) r.ctx[i] = open_test_device(i);
  o.more = r.ctx + 1;
  o.n_more = n - 1;
  if (ga_model_load(r.ctx[0], tiny_path, &o, &r.model) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  assert_int_equal(ga_model_placement_count(r.model), n);
  return r;
}

static inline void answers_close(rig *r) {
  ga_model_destroy(r->model);
  for (int i = 0; i < r->n; i++) ga_ctx_destroy(r->ctx[i]);
}

static inline ga_engine *engine_of(const rig *r, int pages, int64_t swap_bytes, uint32_t flags, ga_dtype kv) {
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 8;
  o.step_tokens = 64;
  o.kv_tokens = (int64_t)pages * PAGE;
  o.swap_bytes = swap_bytes;
  o.flags = flags;
  o.kv_dtype = (int32_t)kv;
  if (ga_engine_create(r->model, &o, &e) != GA_OK) fail_msg("%s", ga_error_text());
  return e;
}

static inline ga_engine_stats engine_stats_of(ga_engine *e) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

/* Waits until nothing runs: the engine's thread says so a moment after the last request has ended. */
static inline ga_engine_stats idle_stats(ga_engine *e) {
  ga_engine_stats s = engine_stats_of(e);
  for (int i = 0; i < 2000 && (s.kv_pages_used || s.running || s.waiting); i++, s = engine_stats_of(e)) usleep(1000);
  assert_int_equal(s.kv_pages_used + s.running + s.waiting + s.swapped, 0);
  return s;
}

/* Creates an engine after its first, second, ... allocation has failed, until one is made: nothing may be left of the
 * others. */
static inline ga_engine *engine_after_failures(const rig *r, const ga_engine_options *o) {
  ga_engine *e;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) {
    ga_mem_fail_after(n);
    status = ga_engine_create(r->model, o, &e);
    ga_mem_fail_after(0);
  }
  if (status != GA_OK) fail_msg("%s", ga_error_text());
  return e;
}

/* --- what a request gives --- */

typedef struct answer {
  int32_t ids[PROMPT + NEW];
  float logprobs[PROMPT + NEW];
  int n, n_prompt, n_cached;
} answer;

static inline void fill_seeded(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 3 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 3);
}

static inline void read_answer(ga_request *request, answer *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  for (*a = (answer){.n = 0};;) {
    assert_int_equal(ga_request_poll(request, POLL_MS, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    if (out.event == GA_REQUEST_END) break;
    assert_true(a->n < PROMPT + NEW);
    a->n_prompt += out.event == GA_REQUEST_PROMPT;
    a->ids[a->n] = out.id;
    a->logprobs[a->n++] = isnan(out.logprob) ? 0.0f : out.logprob;
  }
  if (out.status != GA_OK) fail_msg("%s", ga_request_error(request));
  assert_int_equal(ga_request_get_info(request, &info), GA_OK);
  a->n_cached = info.n_cached;
  ga_request_destroy(request);
}

static bool answers_are_bare; /* no request wants log-probabilities */

static inline bool is_scored(int i) { return !answers_are_bare && i % 4 == 3; }

/* Submits request i. Every third one draws with penalties and a bias, every fourth has its prompt scored, every fifth
 * wants no log-probabilities, so that steps are enqueued ahead where the device draws. */
static inline ga_request *submit_one(ga_engine *e, int i, const int32_t *ids) {
  static const ga_sample_desc warm = {.struct_size = sizeof(ga_sample_desc),
                                      .temperature = 0.8f,
                                      .top_p = 0.9f,
                                      .typical_p = 1,
                                      .repetition_penalty = 1.1f};
  static const ga_logit_bias bias = {7, -2};
  ga_request *request;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = PROMPT;
  o.sample = i % 3 == 1 ? &warm : NULL;
  o.bias = &bias;
  o.n_bias = i % 3 == 1;
  o.seed = (uint64_t)i;
  o.max_tokens = NEW;
  o.ignore_eog = true;
  o.logprobs = FEW || answers_are_bare || i % 5 == 0 ? -1 : 0;
  o.prompt_logprobs = is_scored(i);
  if (ga_engine_submit(e, &o, &request) != GA_OK) fail_msg("%s", ga_error_text());
  return request;
}

/* Answers N requests that are submitted at once; some have the same prompt. */
static inline ga_engine_stats answer_all(ga_engine *e, answer *answers) {
  static int32_t prompts[N][PROMPT];
  ga_request *requests[N];
  for (int i = 0; i < N; i++) {
    fill_seeded(prompts[i], PROMPT, i % 5 ? (uint64_t)i : 7);
    requests[i] = submit_one(e, i, prompts[i]);
  }
  for (int i = 0; i < N; i++) read_answer(requests[i], &answers[i]);
  return idle_stats(e);
}

static inline void same_answers(const answer *got, const answer *want, const char *arch, int n) {
  for (int i = 0; i < N; i++) {
    assert_int_equal(got[i].n, want[i].n);
    assert_int_equal(want[i].n, NEW + (is_scored(i) ? PROMPT : 0));
    assert_int_equal(got[i].n_prompt, is_scored(i) ? PROMPT : 0);
    for (int k = 0; k < got[i].n; k++)
      if (got[i].ids[k] != want[i].ids[k] || memcmp(&got[i].logprobs[k], &want[i].logprobs[k], sizeof(float)) != 0)
        fail_msg("%s over %d, request %d, token %d: %d (%a), not %d (%a)", arch, n, i, k, got[i].ids[k],
                 (double)got[i].logprobs[k], want[i].ids[k], (double)want[i].logprobs[k]);
  }
}

#endif
