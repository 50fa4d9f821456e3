/* Pages that go to host memory and come back: what requests get is the same, to the bit. On the tiny models of
 * tests/data/arch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

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
enum { FLAGS = GA_ENGINE_DETERMINISTIC };

enum { CONTEXT = 256, N = FEW ? 2 : 12, PROMPT = 60, NEW = FEW ? 72 : 150, PAGES = FEW ? 4 : 9, PAGE = 64 };
enum { SWAP_BYTES = 1 << 24, POLL_MS = FEW ? 600000 : 60000 };

typedef struct rig {
  ga_ctx *ctx;
  ga_model *model;
} rig;

static rig swap_open(const char *arch) {
  rig r = {0};
  tiny_context = CONTEXT;
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = GA_TEST_DEVICE;
  co.threads = 2;
  assert_int_equal(ga_ctx_create(&co, &r.ctx), GA_OK);
  if (ga_model_load(r.ctx, tiny_path, NULL, &r.model) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  return r;
}

static void swap_close(rig *r) {
  ga_model_destroy(r->model);
  ga_ctx_destroy(r->ctx);
}

static ga_engine *engine_of(const rig *r, int pages, int64_t swap_bytes, uint32_t flags, ga_dtype kv) {
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 8;
  o.step_tokens = 64;
  o.kv_tokens = (int64_t)pages * PAGE;
  o.swap_bytes = swap_bytes;
  o.flags = flags | FLAGS;
  o.kv_dtype = (int32_t)kv;
  if (ga_engine_create(r->model, &o, &e) != GA_OK) fail_msg("%s", ga_error_text());
  return e;
}

static ga_engine_stats swap_stats(ga_engine *e) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

/* Waits until nothing runs: the engine's thread tells a moment after the last request has ended. */
static ga_engine_stats idle_stats(ga_engine *e) {
  ga_engine_stats s = swap_stats(e);
  for (int i = 0; i < 2000 && (s.kv_pages_used || s.running || s.waiting); i++, s = swap_stats(e)) usleep(1000);
  assert_int_equal(s.kv_pages_used + s.running + s.waiting + s.swapped, 0);
  return s;
}

/* --- what a request gives --- */

typedef struct answer {
  int32_t ids[PROMPT + NEW];
  float logprobs[PROMPT + NEW];
  int n, n_prompt;
} answer;

static void fill_swap_prompt(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 3 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 3);
}

static void read_answer(ga_request *r, answer *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  for (*a = (answer){.n = 0};;) {
    assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    if (out.event == GA_REQUEST_END) break;
    assert_true(a->n < PROMPT + NEW);
    a->n_prompt += out.event == GA_REQUEST_PROMPT;
    a->ids[a->n] = out.id;
    a->logprobs[a->n++] = isnan(out.logprob) ? 0.0f : out.logprob;
  }
  if (out.status != GA_OK) fail_msg("%s", ga_request_error(r));
  ga_request_destroy(r);
}

/* Every third one draws, every fourth wants its prompt scored. */
static ga_request *submit_one(ga_engine *e, int i, const int32_t *ids) {
  static const ga_sample_desc warm = {.struct_size = sizeof(ga_sample_desc),
                                      .temperature = 0.8f,
                                      .top_p = 0.9f,
                                      .typical_p = 1,
                                      .repetition_penalty = 1.1f};
  ga_request *r;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = PROMPT;
  o.sample = i % 3 == 1 ? &warm : NULL;
  o.seed = (uint64_t)i;
  o.max_tokens = NEW;
  o.ignore_eog = true;
  o.logprobs = FEW ? -1 : 0;
  o.prompt_logprobs = i % 4 == 3;
  if (ga_engine_submit(e, &o, &r) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

/* All at once. */
static ga_engine_stats answer_all(ga_engine *e, answer *answers) {
  static int32_t prompts[N][PROMPT];
  ga_request *requests[N];
  for (int i = 0; i < N; i++) {
    fill_swap_prompt(prompts[i], PROMPT, i % 5 ? (uint64_t)i : 7);
    requests[i] = submit_one(e, i, prompts[i]);
  }
  for (int i = 0; i < N; i++) read_answer(requests[i], &answers[i]);
  return idle_stats(e);
}

static void same_answers(const answer *got, const answer *want, const char *arch) {
  for (int i = 0; i < N; i++) {
    assert_int_equal(got[i].n, want[i].n);
    assert_int_equal(got[i].n_prompt, i % 4 == 3 ? PROMPT : 0);
    for (int k = 0; k < got[i].n; k++)
      if (got[i].ids[k] != want[i].ids[k] || memcmp(&got[i].logprobs[k], &want[i].logprobs[k], sizeof(float)) != 0)
        fail_msg("%s: request %d, token %d: %d (%a), not %d (%a)", arch, i, k, got[i].ids[k],
                 (double)got[i].logprobs[k], want[i].ids[k], (double)want[i].logprobs[k]);
  }
}

/* --- tests --- */

static void swapped_as_alone(const char *arch, uint32_t flags, ga_dtype kv) {
  static answer want[N], got[N];
  rig r = swap_open(arch);
  ga_engine *e = engine_of(&r, N * CONTEXT / PAGE, 0, 0, kv);
  assert_int_equal(answer_all(e, want).preemptions, 0);
  ga_engine_destroy(e);
  e = engine_of(&r, PAGES, SWAP_BYTES, flags, kv);
  const ga_engine_stats s = answer_all(e, got);
  assert_true(s.preemptions > 0 && s.swapped_out_bytes > 0 && s.swapped_in_bytes > 0);
  assert_true(s.swap_pages > 0 && s.swap_pages_used <= s.swap_pages);
  if (flags & GA_ENGINE_NO_PREFIX_CACHE) assert_true(s.prefix_hits == 0 && s.kv_pages_cached + s.swap_pages_used == 0);
  same_answers(got, want, arch);
  ga_engine_destroy(e);
  swap_close(&r);
}

static void test_swapped_as_alone(void **state) {
  (void)state;
  swapped_as_alone("llama", 0, GA_F16);
  if (FEW) return;
  swapped_as_alone("llama", 0, GA_E4M3); /* scales lie behind the codes */
  swapped_as_alone("gemma3", 0, GA_Q8_0);
  swapped_as_alone("llama", GA_ENGINE_NO_PREFIX_CACHE, GA_F32);
  swapped_as_alone("gemma3", GA_ENGINE_OFFLOAD_PREFIXES, GA_BF16);
}

/* Tokens of the prompt that were found kept. */
static int32_t n_found_of(ga_engine *e, const int32_t *ids, int n, int32_t *id) {
  ga_request *r;
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = n;
  o.max_tokens = 1;
  o.ignore_eog = true;
  assert_int_equal(ga_engine_submit(e, &o, &r), GA_OK);
  assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
  assert_int_equal(out.event, GA_REQUEST_TOKEN);
  *id = out.id;
  assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
  assert_int_equal(out.event, GA_REQUEST_END);
  assert_int_equal(ga_request_get_info(r, &info), GA_OK);
  ga_request_destroy(r);
  return info.n_cached;
}

/* Three prompts, in a cache that holds one or two of them. */
static void prefixes_come_back(const char *arch, bool offloads) {
  enum { LONG = (FEW ? 2 : 3) * PAGE - 10, PROMPTS = 3 };
  static int32_t ids[PROMPTS][LONG];
  int32_t first[PROMPTS], again;
  rig r = swap_open(arch);
  ga_engine *e = engine_of(&r, 4, SWAP_BYTES, offloads ? GA_ENGINE_OFFLOAD_PREFIXES : 0, GA_F16);
  for (int i = 0; i < PROMPTS; i++) {
    fill_swap_prompt(ids[i], LONG, (uint64_t)i + 20);
    assert_int_equal(n_found_of(e, ids[i], LONG, &first[i]), 0);
  }
  assert_int_equal(idle_stats(e).swapped_in_bytes, 0);
  const int32_t found = n_found_of(e, ids[0], LONG, &again);
  assert_int_equal(again, first[0]);
  assert_int_equal(found, offloads ? LONG - 1 : 0);
  assert_int_equal(idle_stats(e).swapped_in_bytes > 0, offloads);
  assert_int_equal(idle_stats(e).preemptions, 0);
  ga_engine_destroy(e);
  swap_close(&r);
}

static void test_prefixes_come_back(void **state) {
  (void)state;
  prefixes_come_back("llama", true);
  if (FEW) return;
  prefixes_come_back("gemma3", true);
  prefixes_come_back("llama", false);
}

static void test_swap_options(void **state) {
  (void)state;
  rig r = swap_open("llama");
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.kv_tokens = PAGES * PAGE; /* not most of the memory, which the emulator fills anew for each engine */
  o.swap_bytes = 1;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "swap_bytes is 1; a page of"));
  o.swap_bytes = -1;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "swap_bytes is -1"));
  o.swap_bytes = 0;
  o.flags = GA_ENGINE_OFFLOAD_PREFIXES;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "needs swap_bytes"));
  o.swap_bytes = SWAP_BYTES;
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) { /* no memory at the n-th allocation: nothing is left behind */
    ga_mem_fail_after(n);
    status = ga_engine_create(r.model, &o, &e);
    ga_mem_fail_after(0);
  }
  assert_int_equal(status, GA_OK);
  ga_engine_destroy(e);
  swap_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_swapped_as_alone),
      cmocka_unit_test(test_prefixes_come_back),
      cmocka_unit_test(test_swap_options),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
