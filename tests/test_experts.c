/* Layers of experts: stacks of matrices from the file to a declared op, their sizes and types in plans, and files that
 * are refused.
 *
 * The library has no such architecture yet. This program has one of its own, by the name that the library looks for: a
 * list of architectures. */
#include "base/half.h"
#include "base/rng.h"
#include "base/status.h"
#include "ga/llm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/exec.h"
#include "tests/gguf_files.h"

enum { LAYERS = 2, WIDTH = 32, FF = 16, EXPERTS = 4, VOCAB = 24, TOKENS = 9 };

/* --- an op: the sum of all experts' relu2(gate x) * up x, by the token's logits, through down --- */

static float weight_element(const ga_weight *w, int64_t i) {
  return w->dtype == GA_F16 ? ga_f16_to_f32(((const uint16_t *)w->data)[i]) : ((const float *)w->data)[i];
}

static float dot_of_row(const ga_weight *w, int64_t expert, int64_t row, const float *x) {
  const int64_t cols = ga_weight_cols(w);
  float sum = 0;
  for (int64_t c = 0; c < cols; c++) sum += weight_element(w, (expert * ga_weight_rows(w) + row) * cols + c) * x[c];
  return sum;
}

static void add_expert(const op_call *call, int64_t expert, float by, const float *x, float *y) {
  float h[FF];
  for (int64_t i = 0; i < FF; i++) {
    const float gate = dot_of_row(call->w[0], expert, i, x);
    h[i] = gate > 0 ? gate * gate * dot_of_row(call->w[1], expert, i, x) : 0;
  }
  for (int64_t i = 0; i < WIDTH; i++) y[i] += by * dot_of_row(call->w[2], expert, i, h);
}

static ga_status run_experts(const op_call *call) {
  for (int32_t t = 0; t < call->shape.n_tokens; t++) {
    float *y = call->y + t * call->y_stride;
    memset(y, 0, WIDTH * sizeof *y);
    for (int64_t e = 0; e < call->shape.hparams->n_experts; e++)
      add_expert(call, e, call->x[1][t * call->x_stride[1] + e], call->x[0] + t * call->x_stride[0], y);
  }
  return GA_OK;
}

/* Weights that the latest plan saw. */
static ga_weight planned[3];
static int32_t n_plans;
static bool lacks_row;

static ga_status plan_experts(ga_ctx *ctx, const op_shape *shape, uint64_t *workspace) {
  (void)ctx;
  for (int i = 0; i < 3; i++) planned[i] = *shape->w[i];
  n_plans++;
  *workspace = 0;
  return lacks_row ? ga_fail(GA_ERR_UNSUPPORTED, "experts: w_dtype is f16") : GA_OK;
}

static const graph_op experts = {
    .name = "experts", .n_inputs = 2, .n_weights = 3, .plan = plan_experts, .run = run_experts};

/* --- an architecture --- */

static value_id experts_layer(graph_builder *b, value_id x) {
  static const weight_id stacks[] = {W_GATE_EXPERTS, W_UP_EXPERTS, W_DOWN_EXPERTS};
  x = build_add(b, x, block_attention(b, block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM)), 0, 1));
  const value_id h = build_rms_norm(b, x, W_FFN_NORM);
  const value_id in[] = {h, build_linear(b, h, W_ROUTER, W_NONE)};
  return build_add(b, x, build_op(b, &experts, in, stacks, WIDTH));
}

static void build_experts(graph_builder *b) {
  block_rms_head(b, block_layers(b, build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1), experts_layer), 1);
}

static ga_status read_experts(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_experts(file, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use experts_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
};
static const ga_arch_desc toy = {.name = "toy",
                                 .weights = experts_weights,
                                 .n_weights = GA_COUNT_OF(experts_weights),
                                 .read = read_experts,
                                 .build = build_experts};
const ga_arch_desc *const ga_archs[] = {&toy, NULL};
const char *ga_arch_names(void) { return toy.name; }

/* --- files --- */

/* What a file has that a loadable one has not. */
typedef struct spoilt {
  int32_t used, ff; /* 0: as they should be */
  bool is_flat;     /* up has two dimensions */
  bool is_turned;   /* gate is [n_experts, width, ff] */
  bool lacks_down;
} spoilt;

static float values[EXPERTS * FF * WIDTH];
static uint16_t halves[EXPERTS * FF * WIDTH];

static void put_dims(ga_gguf_writer *w, const char *name, ga_dtype dtype, int32_t n_dims, const int64_t *dims) {
  const ga_tensor t = ga_tensor_make(dtype == GA_F16 ? (void *)halves : (void *)values, dtype, n_dims, dims);
  ga_gguf_put_tensor(w, name, &t);
}

static void put_layer(ga_gguf_writer *w, int il, const spoilt *s) {
  static const int64_t up[] = {EXPERTS, FF, WIDTH}, flat[] = {EXPERTS * FF, WIDTH}, down[] = {EXPERTS, WIDTH, FF};
  static const char *const squares[] = {"q", "k", "v", "output"};
  char name[64];
  for (int i = 0; i < 2; i++) {
    (void)snprintf(name, sizeof name, "blk.%d.%s_norm.weight", il, i ? "ffn" : "attn");
    put_dims(w, name, GA_F32, 1, (int64_t[]){WIDTH});
  }
  for (int i = 0; i < 4; i++) {
    (void)snprintf(name, sizeof name, "blk.%d.attn_%s.weight", il, squares[i]);
    put_dims(w, name, GA_F32, 2, (int64_t[]){WIDTH, WIDTH});
  }
  (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", il);
  put_dims(w, name, GA_F32, 2, (int64_t[]){EXPERTS, WIDTH});
  (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_exps.weight", il);
  put_dims(w, name, GA_F16, 3, s->is_turned ? down : up);
  (void)snprintf(name, sizeof name, "blk.%d.ffn_up_exps.weight", il);
  put_dims(w, name, GA_F32, s->is_flat ? 2 : 3, s->is_flat ? flat : up);
  (void)snprintf(name, sizeof name, "blk.%d.ffn_down_exps.weight", il);
  if (!s->lacks_down) put_dims(w, name, GA_F32, 3, down);
}

static const char *write_experts(const spoilt *s) {
  const struct {
    const char *key;
    int64_t value;
  } sizes[] = {{"block_count", LAYERS},
               {"embedding_length", WIDTH},
               {"feed_forward_length", 4 * FF},
               {"context_length", 64},
               {"attention.head_count", 2},
               {"expert_count", EXPERTS},
               {"expert_used_count", s->used ? s->used : 2},
               {"expert_feed_forward_length", s->ff ? s->ff : FF}};
  ga_gguf_writer *w = new_writer(3, 0);
  char key[64];
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  for (size_t i = 0; i < GA_COUNT_OF(values); i++) {
    values[i] = (float)((int)ga_rng_below(&rng, 65) - 32) / 64;
    halves[i] = ga_f32_to_f16(values[i]);
  }
  ga_gguf_put_text(w, "general.architecture", "toy");
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) {
    (void)snprintf(key, sizeof key, "toy.%s", sizes[i].key);
    ga_gguf_put_int(w, key, GA_META_U32, sizes[i].value);
  }
  ga_gguf_put_f32(w, "toy.attention.layer_norm_rms_epsilon", 1e-5f);
  put_dims(w, "token_embd.weight", GA_F32, 2, (int64_t[]){VOCAB, WIDTH});
  put_dims(w, "output_norm.weight", GA_F32, 1, (int64_t[]){WIDTH});
  for (int il = 0; il < LAYERS; il++) put_layer(w, il, s);
  finish_file(w, "experts.gguf");
  return in_folder("experts.gguf");
}

/* --- models --- */

static ga_ctx *ctx[LAYERS];

static int open_layer_contexts(void **state) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.threads = 1;
  for (int i = 0; i < LAYERS; i++)
    if (ga_ctx_create(&o, &ctx[i]) != GA_OK) return 1;
  return make_folder(state);
}
static int close_layer_contexts(void **state) {
  for (int i = 0; i < LAYERS; i++) ga_ctx_destroy(ctx[i]);
  return remove_folder(state);
}

static ga_status load(const char *path, int32_t n_ctx, bool no_mmap, ga_model **out) {
  ga_model_options o = GA_MODEL_OPTIONS_INIT;
  o.more = ctx + 1;
  o.n_more = n_ctx - 1;
  o.no_mmap = no_mmap;
  return ga_model_load(ctx[0], path, &o, out);
}

static void is_stack(const ga_weight *w, ga_dtype dtype, int64_t rows, int64_t cols) {
  assert_int_equal(w->n_dims, 3);
  assert_int_equal(w->dims[0], EXPERTS);
  assert_int_equal(ga_weight_rows(w), rows);
  assert_int_equal(ga_weight_cols(w), cols);
  assert_int_equal(w->dtype, dtype);
  assert_int_equal(w->layout, GA_LAYOUT_NATIVE);
}

static void test_stacks_are_loaded(void **state) {
  (void)state;
  for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
    ga_model *m;
    assert_ok(load(write_experts(&(spoilt){0}), LAYERS, no_mmap, &m));
    assert_int_equal(m->n_placements, LAYERS);
    for (int32_t il = 0; il < LAYERS; il++) {
      const ga_weight *gate = ga_weight_at(m, (weight_ref){.id = W_GATE_EXPERTS, .layer = il}),
                      *down = ga_weight_at(m, (weight_ref){.id = W_DOWN_EXPERTS, .layer = il});
      is_stack(gate, GA_F16, FF, WIDTH);
      is_stack(down, GA_F32, WIDTH, FF);
      assert_memory_equal(gate->data, halves, sizeof halves);
      assert_memory_equal(down->data, values, sizeof values);
    }
    ga_model_destroy(m);
  }
}

/* Stacks count as held wherever they lie, as each step reads of them. In the map they take no memory besides. */
static void test_plan_counts_stacks(void **state) {
  (void)state;
  ga_model *m;
  ga_weight_need need[2];
  for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
    assert_ok(load(write_experts(&(spoilt){0}), 1, no_mmap, &m));
    assert_ok(ga_weights_need(m, ctx[0], 0, GROUP_EXPERTS, &need[no_mmap]));
    ga_model_destroy(m);
  }
  assert_int_equal(need[0].held, need[1].held);
  assert_int_equal(need[1].small - need[0].small, sizeof halves + 2 * sizeof values);
}

static void test_plans_of_ops_see_their_weights(void **state) {
  static const ga_session_sizes sizes = {.context = 64, .batch = 8, .max_out = 1, .kv_dtype = GA_F16};
  (void)state;
  ga_model *m;
  uint64_t bytes;
  assert_ok(load(write_experts(&(spoilt){0}), 1, false, &m));
  n_plans = 0;
  assert_ok(exec_workspace(m, ctx[0], &sizes, 0, &bytes));
  assert_int_equal(n_plans, 2 * LAYERS); /* of one token, and of a batch */
  is_stack(&planned[0], GA_F16, FF, WIDTH);
  is_stack(&planned[1], GA_F32, FF, WIDTH);
  is_stack(&planned[2], GA_F32, WIDTH, FF);
  assert_null(planned[0].data);
  ga_model_destroy(m);
}

/* At loading, and not at the first step. */
static void test_types_without_row_are_refused(void **state) {
  (void)state;
  ga_model *m;
  lacks_row = true;
  assert_error(load(write_experts(&(spoilt){0}), LAYERS, false, &m), GA_ERR_UNSUPPORTED, "experts: w_dtype is f16");
  assert_non_null(strstr(ga_error_text(), "layer 0 on cpu"));
  assert_null(m);
  lacks_row = false;
}

static void test_other_files_are_refused(void **state) {
  static const struct {
    spoilt s;
    const char *part;
  } all[] = {
      {{.is_turned = true}, "blk.0.ffn_gate_exps.weight has 3 dimensions, the first 4; must be [4, 16, 32]"},
      {{.is_flat = true}, "blk.0.ffn_up_exps.weight has 2 dimensions, the first 64; must be [4, 16, 32]"},
      {{.ff = 8}, "must be [4, 8, 32]"},
      {{.lacks_down = true}, "tensor blk.0.ffn_down_exps.weight is missing; toy needs it"},
      {{.used = EXPERTS + 1}, "toy.expert_used_count"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_model *m;
    assert_int_not_equal(load(write_experts(&all[i].s), 1, false, &m), GA_OK);
    if (!strstr(ga_error_text(), all[i].part)) fail_msg("'%s' does not say '%s'", ga_error_text(), all[i].part);
  }
}

static void eval_experts(int32_t n_ctx, int32_t chunk, float *logits) {
  ga_model *m;
  ga_session *s;
  int32_t ids[TOKENS];
  for (int i = 0; i < TOKENS; i++) ids[i] = i * 5 % VOCAB;
  assert_ok(load(write_experts(&(spoilt){0}), n_ctx, false, &m));
  assert_ok(ga_session_create(m, NULL, &s));
  for (int at = 0; at < TOKENS; at += chunk)
    assert_ok(ga_session_eval(s, ids + at, chunk, logits + at * VOCAB, chunk, NULL, NULL));
  ga_session_destroy(s);
  ga_model_destroy(m);
}

static void test_sessions_run_experts(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  (void)state;
  eval_experts(1, TOKENS, want);
  assert_true(want[0] != want[VOCAB]);
  for (int32_t n = 1; n <= LAYERS; n++) {
    eval_experts(n, 3, got);
    for (int i = 0; i < TOKENS * VOCAB; i++) assert_float_equal(got[i], want[i], 1e-4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stacks_are_loaded),
      cmocka_unit_test(test_plan_counts_stacks),
      cmocka_unit_test(test_plans_of_ops_see_their_weights),
      cmocka_unit_test(test_types_without_row_are_refused),
      cmocka_unit_test(test_other_files_are_refused),
      cmocka_unit_test(test_sessions_run_experts),
  };
  return cmocka_run_group_tests(tests, open_layer_contexts, close_layer_contexts);
}
