/* Scenarios for models whose layers remember states of fixed size. Sessions that go back, and engines that share
 * prefixes, preempt and swap, give the bits of those that compute everything anew. A program sets hybrid_folder. */
#ifndef GA_TESTS_HYBRID_RIG_H
#define GA_TESTS_HYBRID_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ga/engine.h"
#include "model/memory_kind.h"
#include "tests/tiny_model.h"

/* --- models --- */

enum { CONTEXT = 512, PAGE = GA_KV_PAGE, POLL_MS = 60000 };

static const char *hybrid_folder; /* of tests/data/arch */

typedef struct rig {
  ga_ctx *ctx[2];
  ga_model *model;
} rig;

/* On one or two contexts, with a layer each. */
static inline rig open_hybrid_on(int32_t n_ctx) {
  rig r = {.model = NULL};
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  co.device = "cpu";
  co.threads = 2;
  tiny_context = CONTEXT;
  mo.more = &r.ctx[1];
  mo.n_more = n_ctx - 1;
  for (int32_t i = 0; i < n_ctx; i++) assert_int_equal(ga_ctx_create(&co, &r.ctx[i]), GA_OK);
  if (tiny_make(hybrid_folder, TINY_VOCAB) != GA_OK || ga_model_load(r.ctx[0], tiny_path, &mo, &r.model) != GA_OK)
    fail_msg("%s", ga_error_text());
  assert_int_equal(r.model->n_placements, n_ctx);
  return r;
}

static inline rig open_hybrid(void) { return open_hybrid_on(1); }

static inline void close_hybrid(rig *r) {
  ga_model_destroy(r->model);
  for (int i = 0; i < 2; i++) ga_ctx_destroy(r->ctx[i]);
}

static inline void hybrid_ids(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 3 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 3);
}

/* --- sessions --- */

static inline ga_session *hybrid_session(const rig *r) {
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.flags = GA_SESSION_DETERMINISTIC;
  if (ga_session_create(r->model, &so, &s) != GA_OK) fail_msg("%s", ga_error_text());
  return s;
}

static inline void hybrid_eval(ga_session *s, const int32_t *ids, int n, float *row) {
  if (ga_session_eval(s, ids, n, row, row ? 1 : 0, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* Goes back to n tokens, and on with others. */
static inline void hybrid_goes_back(const rig *r, ga_session *s, int32_t *ids, int length, int n) {
  static float want[TINY_VOCAB], got[TINY_VOCAB];
  ga_session *fresh = hybrid_session(r);
  if (ga_session_rewind(s, n) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_session_length(s), n);
  hybrid_ids(ids + n, length - n, (uint64_t)n);
  hybrid_eval(s, ids + n, length - n, got);
  hybrid_eval(fresh, ids, length, want);
  if (memcmp(got, want, sizeof got)) fail_msg("after going back to %d of %d tokens the logits differ", n, length);
  ga_session_destroy(fresh);
}

static inline void test_sessions_go_back(void **state) {
  (void)state;
  enum { N = 7 * PAGE + 11 };
  static const int back[] = {N - 1, N - 20, 7 * PAGE, 7 * PAGE - 1, 3 * PAGE + 1, 3 * PAGE, 2 * PAGE + 40, 70, 64,
                             63,    1,      0};
  int32_t ids[N];
  rig r = open_hybrid();
  ga_session *s = hybrid_session(&r);
  hybrid_ids(ids, N, 99);
  hybrid_eval(s, ids, N, NULL);
  for (size_t i = 0; i < GA_COUNT_OF(back); i++) hybrid_goes_back(&r, s, ids, N, back[i]);
  ga_session_destroy(s);
  close_hybrid(&r);
}

/* --- the engine --- */

enum { N = 12, PROMPT = 100, SHARED = 70, NEW = 130 };

typedef struct answer {
  int32_t ids[PROMPT + NEW];
  float logprobs[PROMPT + NEW];
  int n, n_cached;
} answer;

static inline ga_engine *hybrid_engine(const rig *r, int n_pages, int64_t swap_bytes, uint32_t flags,
                                       int32_t sequences) {
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.context = 256;
  o.max_sequences = sequences;
  o.step_tokens = 96;
  o.kv_tokens = (int64_t)n_pages * PAGE;
  o.swap_bytes = swap_bytes;
  o.flags = flags | GA_ENGINE_DETERMINISTIC;
  if (ga_engine_create(r->model, &o, &e) != GA_OK) fail_msg("%s", ga_error_text());
  return e;
}

static inline ga_request *hybrid_submit(ga_engine *e, const int32_t *ids, int n, int max_tokens) {
  ga_request *r;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = n;
  o.max_tokens = max_tokens;
  o.ignore_eog = true;
  o.logprobs = 0;
  if (ga_engine_submit(e, &o, &r) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

static inline void hybrid_read(ga_request *r, answer *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  for (*a = (answer){.n = 0};;) {
    assert_int_equal(ga_request_poll(r, POLL_MS, &out), GA_OK);
    assert_int_not_equal(out.event, GA_REQUEST_PENDING);
    if (out.event == GA_REQUEST_END) break;
    a->ids[a->n] = out.id;
    a->logprobs[a->n++] = out.logprob;
  }
  if (out.status != GA_OK) fail_msg("%s", ga_request_error(r));
  assert_int_equal(ga_request_get_info(r, &info), GA_OK);
  a->n_cached = info.n_cached;
  ga_request_destroy(r);
}

/* Some prompts begin alike. */
static inline void fill_prompts(int32_t prompts[N][PROMPT]) {
  for (int i = 0; i < N; i++) {
    hybrid_ids(prompts[i], SHARED, i % 3 ? (uint64_t)i : 1000);
    hybrid_ids(prompts[i] + SHARED, PROMPT - SHARED, (uint64_t)i + 50);
  }
}

static inline ga_engine_stats hybrid_answers(ga_engine *e, int32_t prompts[N][PROMPT], answer *answers) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  ga_request *requests[N];
  for (int i = 0; i < N; i++) requests[i] = hybrid_submit(e, prompts[i], PROMPT, NEW);
  for (int i = 0; i < N; i++) hybrid_read(requests[i], &answers[i]);
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

static inline void hybrid_same(const answer *got, const answer *want, const char *way, int i) {
  assert_int_equal(got->n, want->n);
  for (int k = 0; k < got->n; k++)
    if (got->ids[k] != want->ids[k] || memcmp(&got->logprobs[k], &want->logprobs[k], sizeof(float)))
      fail_msg("%s: request %d, token %d: %d (%a), not %d (%a)", way, i, k, got->ids[k], (double)got->logprobs[k],
               want->ids[k], (double)want->logprobs[k]);
}

/* One after the other, with nothing kept. */
static inline void answer_alone(const rig *r, int32_t prompts[N][PROMPT], answer *answers) {
  ga_engine *e = hybrid_engine(r, 4, 0, GA_ENGINE_NO_PREFIX_CACHE, 1);
  for (int i = 0; i < N; i++) {
    hybrid_read(hybrid_submit(e, prompts[i], PROMPT, NEW), &answers[i]);
    assert_int_equal(answers[i].n, NEW);
    assert_int_equal(answers[i].n_cached, 0);
  }
  ga_engine_destroy(e);
}

static inline void engine_gives_the_same(int32_t n_ctx) {
  static int32_t prompts[N][PROMPT];
  static answer want[N], got[N];
  static const struct {
    const char *name;
    int n_pages;
    int64_t swap_bytes;
    uint32_t flags;
    bool preempts, swaps;
  } ways[] = {
      {"together", 4 * N, 0, 0, false, false},
      {"preempted", 9, 0, 0, true, false},
      {"preempted, nothing kept", 9, 0, GA_ENGINE_NO_PREFIX_CACHE, true, false},
      {"swapped", 9, 1 << 22, 0, true, true},
      {"offloaded", 9, 1 << 22, GA_ENGINE_OFFLOAD_PREFIXES, true, true},
  };
  rig r = open_hybrid_on(n_ctx);
  fill_prompts(prompts);
  answer_alone(&r, prompts, want);
  for (size_t w = 0; w < GA_COUNT_OF(ways); w++) {
    ga_engine *e = hybrid_engine(&r, ways[w].n_pages, ways[w].swap_bytes, ways[w].flags, 8);
    for (int round = 0; round < 2; round++) { /* the second one finds what the first has left */
      const ga_engine_stats s = hybrid_answers(e, prompts, got);
      for (int i = 0; i < N; i++) hybrid_same(&got[i], &want[i], ways[w].name, i);
      assert_int_equal(s.preemptions > 0, ways[w].preempts);
      assert_int_equal(s.swapped_out_bytes > 0 && s.swapped_in_bytes > 0, ways[w].swaps);
    }
    ga_engine_destroy(e);
  }
  close_hybrid(&r);
}

static inline void test_engine_gives_the_same(void **state) {
  (void)state;
  engine_gives_the_same(1);
  engine_gives_the_same(2);
}

/* Prefixes end at snapshots: at a border of pages, and at the end of an earlier sequence. */
static inline void test_prefixes_are_found(void **state) {
  (void)state;
  enum { LONG = 3 * PAGE + 20 };
  static answer first, again, other, alone;
  int32_t ids[LONG];
  rig r = open_hybrid();
  ga_engine *e = hybrid_engine(&r, 40, 0, 0, 4);
  hybrid_ids(ids, LONG, 5);
  hybrid_read(hybrid_submit(e, ids, LONG, 1), &first);
  assert_int_equal(first.n_cached, 0);
  hybrid_read(hybrid_submit(e, ids, LONG, 1), &again);
  hybrid_same(&again, &first, "again", 0);
  assert_int_equal(again.n_cached, 3 * PAGE);
  hybrid_ids(ids + 2 * PAGE + 7, LONG - 2 * PAGE - 7, 6); /* another end: the third page is another */
  hybrid_read(hybrid_submit(e, ids, LONG, 20), &other);
  assert_int_equal(other.n_cached, 2 * PAGE);
  ga_engine_destroy(e);
  e = hybrid_engine(&r, 40, 0, GA_ENGINE_NO_PREFIX_CACHE, 1);
  hybrid_read(hybrid_submit(e, ids, LONG, 20), &alone);
  hybrid_same(&other, &alone, "another end", 0);
  ga_engine_destroy(e);
  close_hybrid(&r);
}

#endif
