/* Layers that remember a state of fixed size: sessions that go back, and an engine that shares prefixes, preempts and
 * swaps, give the same bits as one that computes everything anew.
 *
 * The library has no such architecture yet. This program has one of its own, by the names that the library looks for:
 * a list of architectures, a list of kinds of memory, and a declared op. */
#include "base/mem.h"
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/pass/shard.h"
#include "tests/hybrid_rig.h"

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

static int runs_to_failure; /* 0: none fails */

static ga_status run_recurrence(const op_call *call) {
  const float *w = call->w[0]->data;
  if (runs_to_failure && !--runs_to_failure) return ga_fail(GA_ERR_NOMEM, "recurrence: no memory");
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
    assert_int_equal(ga_weight_at(r.model, (weight_ref){.id = W_K, .layer = il})->data != NULL, il == 1);
    assert_non_null(ga_weight_at(r.model, (weight_ref){.id = W_Q, .layer = il})->data);
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

/* A session whose way back fails halfway has states of no length: the next call begins the way anew. */
static void test_way_back_fails(void **state) {
  (void)state;
  enum { LENGTH = 4 * PAGE + 7, BACK = 4 * PAGE - 5 };
  int32_t ids[LENGTH];
  rig r = open_hybrid();
  ga_session *s = hybrid_session(&r);
  hybrid_ids(ids, LENGTH, 99);
  hybrid_eval(s, ids, LENGTH, NULL);
  assert_int_equal(ga_session_rewind(s, BACK), GA_OK);
  runs_to_failure = 7;
  assert_int_equal(ga_session_eval(s, ids + BACK, 1, NULL, 0, NULL, NULL), GA_ERR_NOMEM);
  assert_int_equal(runs_to_failure, 0);
  hybrid_goes_back(&r, s, ids, LENGTH, BACK);
  ga_session_destroy(s);
  close_hybrid(&r);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_name_the_state),
      cmocka_unit_test(test_op_is_not_split),
      cmocka_unit_test(test_layers_have_their_weights),
      cmocka_unit_test(test_plan_counts_both_forms),
      cmocka_unit_test(test_sessions_go_back),
      cmocka_unit_test(test_way_back_fails),
      cmocka_unit_test(test_engine_gives_the_same),
      cmocka_unit_test(test_prefixes_are_found),
      cmocka_unit_test(test_engine_asks_for_invariant_rows),
  };
  hybrid_folder = "llama";
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
