/* What an engine promises: each request gets what a session would give it, whatever else runs; nothing is lost, every
 * page comes back. On the tiny models of tests/data/arch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/step_gaps.h"
#include "ga/engine.h"
#include "tests/tiny_model.h"

/* The emulator is some hundred times slower: few requests there. */
#ifdef GA_TEST_DEVICE
enum { FEW = 1 };
#else
#define GA_TEST_DEVICE "cpu"
enum { FEW = 0 };
#endif
/* Left to itself the pool takes the whole device, and the emulator keeps four bytes for each of its bytes: 14 GB. */
#define EMU_KV_TOKENS 16384
/* For a token: an emulated step takes seconds, and half a minute beside other programs. */
#define WAIT_MS (FEW ? 600000 : 20000)

enum { CONTEXT = 512, MOST = 64 };

typedef struct rig {
  ga_ctx *ctx;
  ga_model *model;
  ga_engine *engine;
} rig;

static rig rig_open(const char *arch, const ga_engine_options *options) {
  rig r = {0};
  tiny_context = CONTEXT;
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = GA_TEST_DEVICE;
  co.threads = 2;
  assert_int_equal(ga_ctx_create(&co, &r.ctx), GA_OK);
  if (ga_model_load(r.ctx, tiny_path, NULL, &r.model) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  if (options && ga_engine_create(r.model, options, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

static ga_engine_stats engine_stats(ga_engine *e) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

static void rig_close(rig *r) {
  ga_engine_destroy(r->engine);
  ga_model_destroy(r->model);
  ga_ctx_destroy(r->ctx);
}

static void prompt_fill(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 4 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 4);
}

/* --- what a session gives --- */

typedef struct answer {
  int32_t ids[MOST];
  int n;
} answer;

static int take_piece(void *user, int32_t id, const char *text, size_t bytes) {
  (void)text, (void)bytes;
  answer *a = user;
  if (id != GA_TOK_NONE) a->ids[a->n++] = id;
  return 0;
}

static answer session_answer(const rig *r, const int32_t *ids, int n, const ga_sample_desc *sample, uint64_t seed,
                             int max_tokens) {
  answer a = {0};
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  ga_generate_options go = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result result = GA_GENERATE_RESULT_INIT;
  so.context = CONTEXT;
  assert_int_equal(ga_session_create(r->model, &so, &s), GA_OK);
  go.max_tokens = max_tokens;
  go.sample = sample;
  go.seed = seed;
  go.ignore_eog = true;
  go.text = take_piece;
  go.user = &a;
  if (ga_generate(s, ids, n, &go, &result) != GA_OK) fail_msg("%s", ga_error_text());
  ga_session_destroy(s);
  return a;
}

/* --- what an engine gives --- */

static ga_request *submit(ga_engine *e, const ga_request_options *o) {
  ga_request *r;
  if (ga_engine_submit(e, o, &r) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

/* Reads it to its end and destroys it. */
static answer finish(ga_request *r, int32_t *status, int32_t *why) {
  answer a = {0};
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  do {
    assert_int_equal(ga_request_poll(r, WAIT_MS, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    if (out.event == GA_REQUEST_TOKEN) a.ids[a.n++] = out.id;
  } while (out.event != GA_REQUEST_END);
  if (status) *status = out.status;
  if (why) *why = out.finish;
  if (!status && out.status != GA_OK) fail_msg("%s", ga_request_error(r));
  ga_request_destroy(r);
  return a;
}

static void same_answer(const answer *a, const answer *b, const char *what, int which) {
  if (a->n != b->n) fail_msg("%s %d: %d tokens, not %d", what, which, a->n, b->n);
  for (int i = 0; i < a->n; i++)
    if (a->ids[i] != b->ids[i])
      fail_msg("%s %d: token %d of %d is %d, not %d", what, which, i, a->n, a->ids[i], b->ids[i]);
}

/* Nothing is held once the last request has ended: the engine's thread tells a moment later. */
static void all_pages_back(ga_engine *e) {
  ga_engine_stats s = engine_stats(e);
  for (int i = 0; i < 2000 && (s.kv_pages_used || s.running || s.waiting); i++, s = engine_stats(e)) usleep(1000);
  assert_int_equal(s.kv_pages_used, 0);
  assert_int_equal(s.running, 0);
  assert_int_equal(s.waiting, 0);
}

/* --- tests --- */

static const ga_sample_desc warm = {.struct_size = sizeof(ga_sample_desc),
                                    .temperature = 0.8f,
                                    .top_p = 0.9f,
                                    .typical_p = 1,
                                    .repetition_penalty = 1.1f};

static void many_as_single(const char *arch, const ga_engine_options *options, int n_requests) {
  static int32_t prompts[40][300];
  static int lengths[40];
  rig r = rig_open(arch, NULL);
  answer want[40];
  ga_request *requests[40];
  for (int i = 0; i < n_requests; i++) {
    lengths[i] = 1 + (i * 53) % (FEW ? 100 : 290);
    prompt_fill(prompts[i], lengths[i], i % 3 ? (uint64_t)i : 7); /* every third begins alike */
    want[i] = session_answer(&r, prompts[i], lengths[i], i % 2 ? &warm : NULL, (uint64_t)i, (FEW ? 4 : 5) + i % 40);
  }
  if (ga_engine_create(r.model, options, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < n_requests; i++) {
    ga_request_options o = GA_REQUEST_OPTIONS_INIT;
    o.ids = prompts[i];
    o.n_ids = lengths[i];
    o.sample = i % 2 ? &warm : NULL;
    o.seed = (uint64_t)i;
    o.max_tokens = (FEW ? 4 : 5) + i % 40;
    o.ignore_eog = true;
    requests[i] = submit(r.engine, &o);
  }
  for (int i = 0; i < n_requests; i++) {
    int32_t why;
    const answer got = finish(requests[i], NULL, &why);
    assert_int_equal(why, GA_FINISH_LENGTH);
    same_answer(&got, &want[i], arch, i);
  }
  all_pages_back(r.engine);
  rig_close(&r);
}

static void test_many_as_single(void **state) {
  (void)state;
  static const char *const archs[] = {"llama", "gemma3", "qwen3", "starcoder2", "qwen2"};
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 8;
  o.step_tokens = 96;
  if (FEW) o.kv_tokens = EMU_KV_TOKENS;
  for (size_t i = 0; i < (FEW ? 2 : sizeof archs / sizeof archs[0]); i++)
    many_as_single(archs[i], &o, FEW ? 4 - (int)i : 24);
}

/* A request that begins with its whole prompt found kept goes on with one token, beside others: whose is which must not
 * depend on who is more urgent. */
static void test_urgent_repeat(void **state) {
  (void)state;
  enum { LOW = FEW ? 24 : 60, HIGH = FEW ? 6 : 20 };
  int32_t a[40], b[30];
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  rig r = rig_open("llama", NULL);
  prompt_fill(a, 40, 1);
  prompt_fill(b, 30, 2);
  const answer want_a = session_answer(&r, a, 40, &warm, 5, LOW), want_b = session_answer(&r, b, 30, &warm, 6, HIGH);
  o.max_sequences = 4;
  if (FEW) o.kv_tokens = EMU_KV_TOKENS;
  if (ga_engine_create(r.model, &o, &r.engine) != GA_OK) fail_msg("%s", ga_error_text());
  ga_request_options ra = GA_REQUEST_OPTIONS_INIT, rb = GA_REQUEST_OPTIONS_INIT;
  ra.ids = a, ra.n_ids = 40, ra.sample = &warm, ra.seed = 5, ra.max_tokens = LOW, ra.ignore_eog = true, ra.priority = 5;
  rb.ids = b, rb.n_ids = 30, rb.sample = &warm, rb.seed = 6, rb.max_tokens = HIGH, rb.ignore_eog = true;
  answer got = finish(submit(r.engine, &rb), NULL, NULL);
  same_answer(&got, &want_b, "first", 0);
  ga_request *low = submit(r.engine, &ra);
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  answer got_a = {0};
  for (; got_a.n < 3; got_a.ids[got_a.n++] = out.id) assert_int_equal(ga_request_poll(low, WAIT_MS, &out), GA_OK);
  got = finish(submit(r.engine, &rb), NULL, NULL);
  same_answer(&got, &want_b, "urgent", 0);
  const answer rest = finish(low, NULL, NULL);
  for (int i = 0; i < rest.n; i++) got_a.ids[got_a.n++] = rest.ids[i];
  same_answer(&got_a, &want_a, "other", 0);
  all_pages_back(r.engine);
  rig_close(&r);
}

static void test_few_pages(void **state) {
  (void)state;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.max_sequences = 8;
  o.step_tokens = 64;
  o.kv_tokens = CONTEXT;
  many_as_single("llama", &o, 24);
  many_as_single("gemma3", &o, 24);
  o.flags = GA_ENGINE_NO_PREFIX_CACHE;
  many_as_single("llama", &o, 12);
}

/* --- a prompt that was read before --- */

static ga_request_options plain_options(const int32_t *ids, int n, int max_tokens) {
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = n;
  o.max_tokens = max_tokens;
  o.ignore_eog = true;
  return o;
}

static int32_t cached_tokens(ga_engine *e, const ga_request_options *o, answer *a) {
  ga_request *r = submit(e, o);
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  *a = (answer){0};
  do {
    assert_int_equal(ga_request_poll(r, WAIT_MS, &out), GA_OK);
    if (out.event == GA_REQUEST_TOKEN) a->ids[a->n++] = out.id;
  } while (out.event != GA_REQUEST_END);
  assert_int_equal(out.status, GA_OK);
  assert_int_equal(ga_request_get_info(r, &info), GA_OK);
  assert_int_equal(info.n_prompt, o->n_ids);
  assert_int_equal(info.n_generated, a->n);
  assert_true(info.total_seconds >= info.first_token_seconds && info.first_token_seconds >= info.queue_seconds);
  ga_request_destroy(r);
  return info.n_cached;
}

static void prefix_cache(const char *arch) {
  static int32_t turn[400];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 4;
  rig r = rig_open(arch, &eo);
  answer first, again;
  prompt_fill(turn, 400, 1);
  ga_request_options o = plain_options(turn, 200, 30);
  assert_int_equal(cached_tokens(r.engine, &o, &first), 0);
  assert_int_equal(cached_tokens(r.engine, &o, &again), 199); /* all but one, whose logits are wanted */
  same_answer(&again, &first, arch, 0);
  /* The next turn goes on behind the answer: nothing of it is read again, on a model with windows too. */
  memcpy(turn + 200, first.ids, 30 * sizeof *turn);
  o = plain_options(turn, 300, 5);
  assert_int_equal(cached_tokens(r.engine, &o, &again), 229); /* the last token drawn was never evaluated */
  /* Another salt or tenant, and a prompt whose log-probabilities are wanted, find nothing. */
  o.cache_salt = "salt";
  assert_int_equal(cached_tokens(r.engine, &o, &first), 0);
  same_answer(&again, &first, arch, 1);
  o.cache_salt = NULL;
  o.tenant = 2;
  assert_int_equal(cached_tokens(r.engine, &o, &first), 0);
  o.tenant = 0;
  o.prompt_logprobs = true;
  assert_int_equal(cached_tokens(r.engine, &o, &first), 0);
  const ga_engine_stats s = engine_stats(r.engine);
  assert_int_equal(s.prefix_hits, 199 + 229);
  assert_int_equal(s.prefix_queries, 200 + 200 + 300 + 300 + 300);
  assert_true(s.kv_pages_cached > 0);
  all_pages_back(r.engine);
  rig_close(&r);
}

static void test_prefix_cache(void **state) {
  (void)state;
  prefix_cache("llama");
  prefix_cache("gemma3");
  static int32_t ids[200];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  answer a;
  eo.flags = GA_ENGINE_NO_PREFIX_CACHE;
  rig r = rig_open("llama", &eo);
  prompt_fill(ids, 200, 1);
  const ga_request_options o = plain_options(ids, 200, 3);
  for (int i = 0; i < 2; i++) assert_int_equal(cached_tokens(r.engine, &o, &a), 0);
  rig_close(&r);
}

/* --- bit by bit --- */

typedef struct scored {
  int32_t ids[MOST];
  float logprobs[MOST];
  int n;
} scored;

static scored finish_scored(ga_request *r) {
  scored s = {.n = 0};
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  do {
    assert_int_equal(ga_request_poll(r, WAIT_MS, &out), GA_OK);
    if (out.event != GA_REQUEST_TOKEN) continue;
    s.ids[s.n] = out.id;
    s.logprobs[s.n++] = out.logprob;
  } while (out.event != GA_REQUEST_END);
  if (out.status != GA_OK) fail_msg("%s", ga_request_error(r));
  ga_request_destroy(r);
  return s;
}

/* A prompt's length; of few one is longer than a page. */
static int deterministic_prompt(int i) { return FEW ? (const int[]){5, 72, 19, 30}[i] : 5 + i * 67 % 290; }

static void deterministic(const char *arch) {
  enum { N = FEW ? 4 : 12, NEW = FEW ? 5 : 20, ROUNDS = FEW ? 2 : 4 };
  static int32_t prompts[N][300];
  static scored alone[N];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = FEW ? 3 : 6;
  eo.step_tokens = FEW ? 24 : 40;
  eo.kv_tokens = 2 * CONTEXT;
  eo.flags = GA_ENGINE_DETERMINISTIC;
  rig r = rig_open(arch, &eo);
  for (int i = 0; i < N; i++) {
    prompt_fill(prompts[i], 300, i % 3 ? (uint64_t)i : 7);
    ga_request_options o = plain_options(prompts[i], deterministic_prompt(i), NEW);
    o.sample = &warm;
    o.seed = (uint64_t)i;
    o.logprobs = 0;
    alone[i] = finish_scored(submit(r.engine, &o));
  }
  for (int round = 0; round < ROUNDS; round++) {
    ga_request *requests[N];
    for (int k = 0; k < N; k++) {
      const int i = (k * (int[]){5, 7, 11, 1}[round] + round) % N; /* another order each time */
      ga_request_options o = plain_options(prompts[i], deterministic_prompt(i), NEW);
      o.sample = &warm;
      o.seed = (uint64_t)i;
      o.logprobs = 0;
      o.cache_salt = round % 2 ? "other" : NULL;
      requests[i] = submit(r.engine, &o);
    }
    for (int i = 0; i < N; i++) {
      const scored s = finish_scored(requests[i]);
      assert_int_equal(s.n, alone[i].n);
      for (int t = 0; t < s.n; t++)
        if (s.ids[t] != alone[i].ids[t] || memcmp(&s.logprobs[t], &alone[i].logprobs[t], sizeof(float)))
          fail_msg("%s, round %d, request %d: token %d is %d (%.9g), alone %d (%.9g)", arch, round, i, t, s.ids[t],
                   (double)s.logprobs[t], alone[i].ids[t], (double)alone[i].logprobs[t]);
    }
  }
  rig_close(&r);
}

static void test_deterministic(void **state) {
  (void)state;
  deterministic("llama");
  deterministic("gemma3");
  if (!FEW) deterministic("starcoder2");
}

/* --- log-probabilities --- */

static void test_logprobs(void **state) {
  (void)state;
  enum { N = 150 };
  static int32_t ids[N + 8];
  double want[N];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.step_tokens = 64;
  rig r = rig_open("llama", NULL);
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  prompt_fill(ids, N, 3);
  so.context = CONTEXT;
  assert_int_equal(ga_session_create(r.model, &so, &s), GA_OK);
  assert_int_equal(ga_session_score(s, ids, N, 0, want, NULL, NULL), GA_OK);
  ga_session_destroy(s);
  assert_int_equal(ga_engine_create(r.model, &eo, &r.engine), GA_OK);
  ga_request_options o = plain_options(ids, N, 8);
  o.prompt_logprobs = true;
  o.logprobs = 5;
  ga_request *q = submit(r.engine, &o);
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  for (int i = 0; i < N; i++) {
    assert_int_equal(ga_request_poll(q, WAIT_MS, &out), GA_OK);
    assert_int_equal(out.event, GA_REQUEST_PROMPT);
    assert_int_equal(out.id, ids[i]);
    assert_int_equal(out.n_top, i ? 5 : 0);
    if (i) assert_true(fabs((double)out.logprob - want[i - 1]) < 2e-4);
    if (!i) assert_true(isnan(out.logprob));
    for (int t = 1; t < out.n_top; t++) assert_true(out.top[t].logprob <= out.top[t - 1].logprob);
  }
  for (int i = 0; i < 8; i++) {
    assert_int_equal(ga_request_poll(q, WAIT_MS, &out), GA_OK);
    assert_int_equal(out.event, GA_REQUEST_TOKEN);
    assert_int_equal(out.top[0].id, out.id); /* greedy */
    assert_true(out.logprob == out.top[0].logprob);
  }
  assert_int_equal(finish(q, NULL, NULL).n, 0);
  /* The prompt alone. */
  o.max_tokens = 0;
  q = submit(r.engine, &o);
  for (int i = 0; i < N; i++) {
    assert_int_equal(ga_request_poll(q, WAIT_MS, &out), GA_OK);
    assert_int_equal(out.event, GA_REQUEST_PROMPT);
  }
  assert_int_equal(finish(q, NULL, NULL).n, 0);
  all_pages_back(r.engine);
  rig_close(&r);
}

/* --- ends --- */

static void test_ends(void **state) {
  (void)state;
  static int32_t ids[CONTEXT];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  rig r = rig_open("llama", &eo);
  int32_t why;
  prompt_fill(ids, CONTEXT, 3);
  ga_request_options o = plain_options(ids, 20, 10);
  const answer a = finish(submit(r.engine, &o), NULL, &why);
  assert_int_equal(why, GA_FINISH_LENGTH);
  assert_int_equal(a.n, 10);
  /* A token that ends it, which is given. */
  o.stop_ids = &a.ids[4];
  o.n_stop_ids = 1;
  int first = 0;
  while (a.ids[first] != a.ids[4]) first++;
  answer b = finish(submit(r.engine, &o), NULL, &why);
  assert_int_equal(why, GA_FINISH_EOG);
  assert_int_equal(b.n, first + 1);
  /* Which min_tokens keeps from being drawn. */
  o.min_tokens = 9;
  b = finish(submit(r.engine, &o), NULL, &why);
  assert_true(b.n >= 9);
  for (int i = 0; i < 9; i++) assert_int_not_equal(b.ids[i], a.ids[4]);
  /* Biases: one token alone. */
  const ga_logit_bias only = {.id = 9, .bias = 1000};
  o = plain_options(ids, 20, 5);
  o.bias = &only;
  o.n_bias = 1;
  b = finish(submit(r.engine, &o), NULL, &why);
  for (int i = 0; i < 5; i++) assert_int_equal(b.ids[i], 9);
  /* The context. */
  o = plain_options(ids, CONTEXT - 3, -1);
  b = finish(submit(r.engine, &o), NULL, &why);
  assert_int_equal(b.n, 3);
  assert_int_equal(why, GA_FINISH_CONTEXT);
  all_pages_back(r.engine);
  const ga_engine_stats s = engine_stats(r.engine);
  assert_int_equal(s.submitted, 5);
  assert_true(s.finished_stop >= 1 && s.finished_stop + s.finished_length == 5);
  rig_close(&r);
}

static void test_cancelled(void **state) {
  (void)state;
  static int32_t ids[300];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 2;
  rig r = rig_open("llama", &eo);
  ga_request *q[6];
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  prompt_fill(ids, 300, 3);
  const ga_request_options o = plain_options(ids, 100, 400);
  for (int i = 0; i < 6; i++) q[i] = submit(r.engine, &o);
  assert_int_equal(ga_request_poll(q[0], WAIT_MS, &out), GA_OK);
  assert_int_equal(out.event, GA_REQUEST_TOKEN);
  ga_request_cancel(q[0]); /* runs */
  ga_request_cancel(q[5]); /* waits */
  ga_request_destroy(q[4]);
  for (int i = 0; i < 6; i += 5) {
    do assert_int_equal(ga_request_poll(q[i], WAIT_MS, &out), GA_OK);
    while (out.event == GA_REQUEST_TOKEN);
    assert_int_equal(out.event, GA_REQUEST_END);
    assert_int_equal(out.status, GA_OK);
    assert_int_equal(out.finish, GA_FINISH_STOPPED);
    ga_request_cancel(q[i]);
    ga_request_destroy(q[i]);
  }
  ga_request_destroy(q[1]);
  ga_request_destroy(q[2]);
  ga_request_destroy(q[3]);
  all_pages_back(r.engine);
  assert_int_equal(engine_stats(r.engine).finished_abort, 6);
  rig_close(&r);
}

/* The engine goes first: its requests end, and stay valid. */
static void test_engine_ends_first(void **state) {
  (void)state;
  static int32_t ids[300];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 2;
  rig r = rig_open("llama", &eo);
  ga_request *q[4];
  int32_t status;
  prompt_fill(ids, 300, 3);
  const ga_request_options o = plain_options(ids, 100, 400);
  for (int i = 0; i < 4; i++) q[i] = submit(r.engine, &o);
  ga_engine_destroy(r.engine);
  r.engine = NULL;
  for (int i = 0; i < 4; i++) {
    ga_request_cancel(q[i]);
    ga_request_output out = GA_REQUEST_OUTPUT_INIT;
    do assert_int_equal(ga_request_poll(q[i], 0, &out), GA_OK);
    while (out.event == GA_REQUEST_TOKEN);
    status = out.status;
    assert_int_equal(out.event, GA_REQUEST_END);
    assert_int_equal(status, GA_ERR_CANCELLED);
    assert_string_equal(ga_request_error(q[i]), "the engine has ended");
    ga_request_destroy(q[i]);
  }
  rig_close(&r);
}

/* --- what is submit_refused --- */

static void submit_refused(ga_engine *e, const ga_request_options *o, ga_status status, const char *text) {
  ga_request *r = (ga_request *)&status;
  assert_int_equal(ga_engine_submit(e, o, &r), status);
  assert_null(r);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' does not say '%s'", ga_error_text(), text);
}

static void test_submit_refused(void **state) {
  (void)state;
  static int32_t ids[CONTEXT + 1];
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.max_sequences = 1;
  eo.max_waiting = 2;
  rig r = rig_open("llama", &eo);
  prompt_fill(ids, CONTEXT + 1, 3);
  const ga_request_options good = plain_options(ids, 20, 10);
#define REFUSE(field, value, status, text)      \
  {                                             \
    ga_request_options o = good;                \
    o.field = (value);                          \
    submit_refused(r.engine, &o, status, text); \
  }
  const ga_sample_desc cold = {.struct_size = sizeof cold, .temperature = -1, .top_p = 1, .typical_p = 1};
  int32_t bad_id = TINY_VOCAB;
  REFUSE(ids, NULL, GA_ERR_ARG, "ids is null");
  REFUSE(n_ids, 0, GA_ERR_ARG, "n_ids is 0");
  REFUSE(n_ids, CONTEXT, GA_ERR_SHAPE, "the context holds 512");
  REFUSE(max_tokens, -2, GA_ERR_ARG, "max_tokens is -2");
  REFUSE(max_tokens, CONTEXT, GA_ERR_SHAPE, "20 tokens and 512 new ones");
  REFUSE(min_tokens, -1, GA_ERR_ARG, "min_tokens is -1");
  REFUSE(penalty_last, -2, GA_ERR_ARG, "penalty_last is -2");
  REFUSE(n_bias, 1, GA_ERR_ARG, "bias is null");
  REFUSE(n_stop_ids, -1, GA_ERR_ARG, "n_stop_ids is -1");
  REFUSE(logprobs, 21, GA_ERR_ARG, "logprobs is 21");
  REFUSE(first_token_deadline, NAN, GA_ERR_ARG, "first_token_deadline is nan");
  REFUSE(reserved[2], 1, GA_ERR_ARG, "reserved[2] is 1");
  REFUSE(sample, &cold, GA_ERR_ARG, "temperature is -1");
  {
    ga_request_options o = good;
    o.ids = &bad_id;
    o.n_ids = 1;
    submit_refused(r.engine, &o, GA_ERR_ARG, "id 96 at 0; must be 0 to 95");
  }
  /* One runs, two wait: no more. */
  ga_request *q[3], *none;
  const ga_request_options slow = plain_options(ids, 300, 200);
  for (int i = 0; i < 3; i++) q[i] = submit(r.engine, &slow);
  assert_int_equal(ga_engine_submit(r.engine, &slow, &none), GA_ERR_BUSY);
  assert_int_equal(engine_stats(r.engine).refused, 1);
  for (int i = 0; i < 3; i++) ga_request_destroy(q[i]);
  all_pages_back(r.engine);
  /* A moment is too short for the second of two. */
  ga_request_options late = slow;
  late.first_token_deadline = 1e-6;
  int32_t status;
  q[0] = submit(r.engine, &slow);
  q[1] = submit(r.engine, &late);
  assert_int_equal(finish(q[1], &status, NULL).n, 0);
  assert_int_equal(status, GA_ERR_TIMEOUT);
  ga_request_destroy(q[0]);
  rig_close(&r);
}

static void test_engine_options(void **state) {
  (void)state;
  rig r = rig_open("llama", NULL);
  const ga_engine_options good = GA_ENGINE_OPTIONS_INIT;
  ga_engine *e;
#define BAD(field, value, text)                                            \
  {                                                                        \
    ga_engine_options o = good;                                            \
    o.field = (value);                                                     \
    assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_ARG);       \
    assert_null(e);                                                        \
    if (!strstr(ga_error_text(), text)) fail_msg("'%s'", ga_error_text()); \
  }
  BAD(context, CONTEXT + 1, "context is 513; must be 1 to 512");
  BAD(context, -1, "context is -1");
  BAD(max_sequences, 1025, "max_sequences is 1025");
  BAD(step_tokens, 15, "step_tokens is 15; must be 16 to");
  BAD(step_tokens, 16385, "step_tokens is 16385");
  BAD(max_waiting, -1, "max_waiting is -1");
  BAD(kv_tokens, 511, "kv_tokens is 511; must be 512 to");
  BAD(flags, 32, "flags 0x20; must be 0 to 31");
  BAD(flags, GA_ENGINE_OFFLOAD_PREFIXES, "needs swap_bytes");
  /* No memory at the n-th allocation: an error, and nothing is left behind. */
  ga_status status = GA_ERR_NOMEM;
  for (long n = 1; status == GA_ERR_NOMEM; n++) {
    ga_mem_fail_after(n);
    status = ga_engine_create(r.model, &good, &e);
    ga_mem_fail_after(0);
  }
  assert_int_equal(status, GA_OK);
  r.engine = e;
  static int32_t ids[20];
  prompt_fill(ids, 20, 3);
  const ga_request_options o = plain_options(ids, 20, 5);
  assert_int_equal(finish(submit(e, &o), NULL, NULL).n, 5);
  rig_close(&r);
}

/* Two requests, one after the other: each step but their first ones follows another. The pause between them, in which
 * nobody asks for anything, is no gap. */
static void test_step_gaps(void **state) {
  (void)state;
  static int32_t ids[20];
  prompt_fill(ids, 20, 3);
  ga_engine_options eo = GA_ENGINE_OPTIONS_INIT;
  eo.kv_tokens = EMU_KV_TOKENS;
  const ga_request_options o = plain_options(ids, 20, 12);
  for (int on = 0; on < 2; on++) {
    const struct timespec pause = {.tv_nsec = 400000000};
    eo.flags = on ? GA_ENGINE_TIME_STEPS : 0;
    rig r = rig_open("llama", &eo);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(finish(submit(r.engine, &o), NULL, NULL).n, 12);
      (void)nanosleep(&pause, NULL);
    }
    const ga_engine_stats s = engine_stats(r.engine);
    assert_int_equal(s.step_gaps, on ? s.steps - 2 : 0);
    if (on) assert_true(s.step_gap_median > 0 && s.step_gap_median <= s.step_gap_p99);
    if (s.step_gap_median > 0.2) fail_msg("median of gaps: %g s", s.step_gap_median);
    rig_close(&r);
  }
}

/* Classes are a sixteenth of an octave. */
static void test_gap_quantiles(void **state) {
  (void)state;
  static step_gaps g;
  assert_true(step_gaps_quantile(&g, 0.5) == 0);
  for (int i = 1; i <= 1000; i++) step_gaps_count(&g, i * 1e-6);
  assert_true(fabs(step_gaps_quantile(&g, 0.5) / 500e-6 - 1) < 0.045);
  assert_true(fabs(step_gaps_quantile(&g, 0.99) / 990e-6 - 1) < 0.045);
  step_gaps_count(&g, 0);
  step_gaps_count(&g, 1e9);
  assert_true(step_gaps_quantile(&g, 1) > 10 && step_gaps_quantile(&g, 0.0005) < 1e-6);
}

static int main_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_as_single),
      cmocka_unit_test(test_few_pages),
      cmocka_unit_test(test_urgent_repeat),
      cmocka_unit_test(test_prefix_cache),
      cmocka_unit_test(test_deterministic),
      cmocka_unit_test(test_logprobs),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_cancelled),
      cmocka_unit_test(test_engine_ends_first),
      cmocka_unit_test(test_submit_refused),
      cmocka_unit_test(test_engine_options),
      cmocka_unit_test(test_step_gaps),
      cmocka_unit_test(test_gap_quantiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* rest: all but the first. */
static int few_tests(bool rest) {
  const struct CMUnitTest first[] = {cmocka_unit_test(test_many_as_single)};
  const struct CMUnitTest others[] = {cmocka_unit_test(test_urgent_repeat), cmocka_unit_test(test_deterministic),
                                      cmocka_unit_test(test_step_gaps)};
  return rest ? cmocka_run_group_tests(others, NULL, NULL) : cmocka_run_group_tests(first, NULL, NULL);
}

int main(int argc, char **argv) {
  const int failed = FEW ? few_tests(argc > 1 && !strcmp(argv[1], "rest")) : main_tests();
  tiny_remove();
  return failed;
}
