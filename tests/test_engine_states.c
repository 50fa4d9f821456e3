/* Layers that remember a state of fixed size: sessions that go back, and an engine that shares prefixes, preempts and
 * swaps, give the same bits as one that computes everything anew.
 *
 * The library has no such architecture yet. This program has one of its own, by the names that the library looks for:
 * a list of architectures, a list of kinds of memory, and a declared op. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "ga/engine.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/pass/shard.h"
#include "tests/tiny_model.h"

/* --- an op: h = a h + w x of each channel, y = h + the x before --- */

enum { SUMS, LAST, CHANNELS = 64 };

/* Nearly 1: a state that is lost is seen a hundred tokens later. */
static float decay_of(int channel) { return 1 - 0.01f * (float)(1 + channel % 5); }

static void advance_channels(float *h, float *last, const float *x, const float *w, float *y) {
  for (int c = 0; c < CHANNELS; c++) {
    h[c] = decay_of(c) * h[c] + w[c] * x[c];
    y[c] = h[c] + last[c];
    last[c] = x[c];
  }
}

static ga_status run_recurrence(const op_call *call) {
  const float *w = call->w[0]->data;
  for (int32_t s = 0; s < call->shape.n_seqs; s++) {
    const int32_t first = call->q_start[s], end = call->q_start[s + 1], unit = call->memory.units[s];
    float *h = (float *)call->memory.tensors[SUMS] + (int64_t)unit * CHANNELS,
          *last = (float *)call->memory.tensors[LAST] + (int64_t)unit * CHANNELS;
    GA_REQUIRE(unit < call->memory.n_units, GA_ERR_INTERNAL, "unit %d", unit);
    if (unit < 0) continue;
    if (call->kv_len[s] == end - first) { /* the sequence begins */
      memset(h, 0, CHANNELS * sizeof *h);
      memset(last, 0, CHANNELS * sizeof *last);
    }
    for (int32_t t = first; t < end; t++)
      advance_channels(h, last, call->x[0] + t * call->x_stride[0], w, call->y + t * call->y_stride);
  }
  return GA_OK;
}

static bool lacks_invariant_row;

static ga_status plan_recurrence(ga_ctx *ctx, const op_shape *shape, uint64_t *workspace) {
  (void)ctx;
  *workspace = 0;
  return shape->is_invariant && lacks_invariant_row ? ga_fail(GA_ERR_UNSUPPORTED, "no invariant row") : GA_OK;
}

static const graph_op recurrence = {.name = "recurrence",
                                    .n_inputs = 1,
                                    .n_weights = 1,
                                    .has_memory = true,
                                    .memory = MEMORY_STATE,
                                    .plan = plan_recurrence,
                                    .run = run_recurrence};

/* --- a kind of memory: two arrays of CHANNELS numbers --- */

static bool every_layer(const ga_hparams *p, int32_t layer) {
  (void)p, (void)layer;
  return true;
}

static ga_status state_layout(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_units, memory_layout *out) {
  const uint64_t bytes = CHANNELS * sizeof(float);
  (void)p, (void)dtype, (void)layer;
  out->n_tensors = 2;
  for (int t = 0; t < 2; t++)
    out->tensors[t] = (memory_tensor){
        .bytes = (uint64_t)n_units * bytes, .n_spans = 1, .spans = {{.bytes = bytes, .unit_stride = bytes, .runs = 1}}};
  return GA_OK;
}

static const memory_kind_type states = {.name = "states", .has_layer = every_layer, .layout = state_layout};

extern const memory_kind_type memory_full_pages; /* of the library */
const memory_kind_type *const memory_kind_types[] = {&memory_full_pages, &states, NULL};

/* --- an architecture: layer 0 has a recurrence, layer 1 a recurrence beside attention --- */

static value_id hybrid_layer(graph_builder *b, value_id x) {
  static const weight_id scale = W_FFN_NORM;
  const value_id h = build_rms_norm(b, x, W_ATTN_NORM), mixed = build_linear(b, h, W_Q, W_NONE);
  const value_id y = build_op(b, &recurrence, &mixed, &scale, CHANNELS);
  const value_id out = build_linear(b, y, W_O, W_NONE);
  value_id sum = build_add(b, x, out);
  if (!b->model->hparams.no_attention[b->layer]) {
    block_qkv t = block_qkv_of(b, h);
    block_rotate(b, &t, false);
    sum = build_add(b, sum, block_attention(b, t, 0, 1));
  }
  return build_add(b, sum, block_gated_ffn(b, build_rms_norm(b, sum, W_FFN_NORM), GA_ACT_SILU, 1));
}

static void build_hybrid(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);
  block_rms_head(b, block_layers(b, x, hybrid_layer), 1);
}

static ga_status read_hybrid(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "norm", p));
  GA_TRY(hparams_vocab(file, p));
  p->no_attention[0] = true;
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use hybrid_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},      {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},        {W_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
static bool has_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  return (id != W_K && id != W_V) || !p->no_attention[layer];
}

/* Reads the tiny model that llama has. */
static const ga_arch_desc hybrid = {.name = "llama",
                                    .weights = hybrid_weights,
                                    .n_weights = GA_COUNT_OF(hybrid_weights),
                                    .has_weight = has_weight,
                                    .read = read_hybrid,
                                    .build = build_hybrid};
const ga_arch_desc *const ga_archs[] = {&hybrid, NULL};
const char *ga_arch_names(void) { return hybrid.name; }

/* --- models --- */

enum { CONTEXT = 512, PAGE = GA_KV_PAGE, POLL_MS = 60000 };

typedef struct rig {
  ga_ctx *ctx[2];
  ga_model *model;
} rig;

/* On one or two contexts, with a layer each. */
static rig open_hybrid_on(int32_t n_ctx) {
  rig r = {.model = NULL};
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  co.device = "cpu";
  co.threads = 2;
  tiny_context = CONTEXT;
  mo.more = &r.ctx[1];
  mo.n_more = n_ctx - 1;
  for (int32_t i = 0; i < n_ctx; i++) assert_int_equal(ga_ctx_create(&co, &r.ctx[i]), GA_OK);
  if (tiny_make("llama", TINY_VOCAB) != GA_OK || ga_model_load(r.ctx[0], tiny_path, &mo, &r.model) != GA_OK)
    fail_msg("%s", ga_error_text());
  assert_int_equal(r.model->n_placements, n_ctx);
  return r;
}

static rig open_hybrid(void) { return open_hybrid_on(1); }

static void close_hybrid(rig *r) {
  ga_model_destroy(r->model);
  for (int i = 0; i < 2; i++) ga_ctx_destroy(r->ctx[i]);
}

static void hybrid_ids(int32_t *ids, int n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (int i = 0; i < n; i++) ids[i] = 3 + (int32_t)ga_rng_below(&rng, TINY_VOCAB - 3);
}

/* --- the graph --- */

static void test_texts_name_the_state(void **state) {
  (void)state;
  rig r = open_hybrid();
  char *text;
  assert_int_equal(graph_text(r.model->graph, &text), GA_OK);
  assert_non_null(strstr(text, "= recurrence(%2, blk.0.ffn_norm.weight) with state\n"));
  ga_mem_free(text);
  close_hybrid(&r);
}

static void test_op_is_not_split(void **state) {
  (void)state;
  rig r = open_hybrid();
  ga_hparams part;
  ga_model_graph *graph;
  assert_int_equal(shard_sizes(&r.model->hparams, 0, 2, &part), GA_OK);
  assert_int_equal(graph_create(r.model, &graph), GA_OK);
  assert_int_equal(shard_graph(&r.model->hparams, &part, 0, 2, &graph), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "layer 0 has recurrence, which is not split by tensors"));
  graph_destroy(graph);
  close_hybrid(&r);
}

static void test_layers_have_their_weights(void **state) {
  (void)state;
  rig r = open_hybrid();
  for (int32_t il = 0; il < 2; il++) {
    assert_int_equal(ga_weight_at(r.model, (weight_ref){W_K, il})->data != NULL, il == 1);
    assert_non_null(ga_weight_at(r.model, (weight_ref){W_Q, il})->data);
  }
  close_hybrid(&r);
}

static void test_plan_counts_both_forms(void **state) {
  (void)state;
  rig r = open_hybrid();
  const ga_model_placement *plan = &r.model->placements[0].plan;
  const uint64_t token = 2 * TINY_HEAD * 2, sequence = 2 * 2 * CHANNELS * sizeof(float); /* one KV head; 2 layers */
  assert_int_equal(plan->kv_token, token);
  assert_int_equal(plan->kv, CONTEXT * token + MEMORY_SESSION_STATES * sequence);
  close_hybrid(&r);
}

/* --- sessions --- */

static ga_session *hybrid_session(const rig *r) {
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.flags = GA_SESSION_DETERMINISTIC;
  if (ga_session_create(r->model, &so, &s) != GA_OK) fail_msg("%s", ga_error_text());
  return s;
}

static void hybrid_eval(ga_session *s, const int32_t *ids, int n, float *row) {
  if (ga_session_eval(s, ids, n, row, row ? 1 : 0, NULL, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* Goes back to n tokens, and on with others. */
static void hybrid_goes_back(const rig *r, ga_session *s, int32_t *ids, int length, int n) {
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

static void test_sessions_go_back(void **state) {
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

static ga_engine *hybrid_engine(const rig *r, int n_pages, int64_t swap_bytes, uint32_t flags, int32_t sequences) {
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

static ga_request *hybrid_submit(ga_engine *e, const int32_t *ids, int n, int max_tokens) {
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

static void hybrid_read(ga_request *r, answer *a) {
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
static void fill_prompts(int32_t prompts[N][PROMPT]) {
  for (int i = 0; i < N; i++) {
    hybrid_ids(prompts[i], SHARED, i % 3 ? (uint64_t)i : 1000);
    hybrid_ids(prompts[i] + SHARED, PROMPT - SHARED, (uint64_t)i + 50);
  }
}

static ga_engine_stats hybrid_answers(ga_engine *e, int32_t prompts[N][PROMPT], answer *answers) {
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  ga_request *requests[N];
  for (int i = 0; i < N; i++) requests[i] = hybrid_submit(e, prompts[i], PROMPT, NEW);
  for (int i = 0; i < N; i++) hybrid_read(requests[i], &answers[i]);
  assert_int_equal(ga_engine_get_stats(e, &s), GA_OK);
  return s;
}

static void hybrid_same(const answer *got, const answer *want, const char *way, int i) {
  assert_int_equal(got->n, want->n);
  for (int k = 0; k < got->n; k++)
    if (got->ids[k] != want->ids[k] || memcmp(&got->logprobs[k], &want->logprobs[k], sizeof(float)))
      fail_msg("%s: request %d, token %d: %d (%a), not %d (%a)", way, i, k, got->ids[k], (double)got->logprobs[k],
               want->ids[k], (double)want->logprobs[k]);
}

/* One after the other, with nothing kept. */
static void answer_alone(const rig *r, int32_t prompts[N][PROMPT], answer *answers) {
  ga_engine *e = hybrid_engine(r, 4, 0, GA_ENGINE_NO_PREFIX_CACHE, 1);
  for (int i = 0; i < N; i++) {
    hybrid_read(hybrid_submit(e, prompts[i], PROMPT, NEW), &answers[i]);
    assert_int_equal(answers[i].n, NEW);
    assert_int_equal(answers[i].n_cached, 0);
  }
  ga_engine_destroy(e);
}

static void engine_gives_the_same(int32_t n_ctx) {
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

static void test_engine_gives_the_same(void **state) {
  (void)state;
  engine_gives_the_same(1);
  engine_gives_the_same(2);
}

static void test_engine_asks_for_invariant_rows(void **state) {
  (void)state;
  rig r = open_hybrid();
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.flags = GA_ENGINE_DETERMINISTIC;
  lacks_invariant_row = true;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_ERR_UNSUPPORTED);
  o.flags = 0;
  assert_int_equal(ga_engine_create(r.model, &o, &e), GA_OK);
  lacks_invariant_row = false;
  ga_engine_destroy(e);
  close_hybrid(&r);
}

/* Prefixes end at snapshots: at a border of pages, and at the end of an earlier sequence. */
static void test_prefixes_are_found(void **state) {
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_name_the_state),      cmocka_unit_test(test_op_is_not_split),
      cmocka_unit_test(test_layers_have_their_weights), cmocka_unit_test(test_plan_counts_both_forms),
      cmocka_unit_test(test_sessions_go_back),          cmocka_unit_test(test_engine_gives_the_same),
      cmocka_unit_test(test_prefixes_are_found),        cmocka_unit_test(test_engine_asks_for_invariant_rows),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
