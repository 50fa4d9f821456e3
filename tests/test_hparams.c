/* Hyper-parameters of hostile GGUF files: each is refused by the key's name, with the value and what is allowed. */
#include <math.h>

#include "ga/experts.h"
#include "ga/layer.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "tests/gguf_files.h"

/* A file of that architecture with sizes that all take, the way to one key more. */
static ga_gguf_writer *begin_sizes(const char *arch) {
  static const struct {
    const char *key;
    int64_t value;
  } sizes[] = {{"block_count", 2},
               {"embedding_length", 8},
               {"feed_forward_length", 16},
               {"context_length", 64},
               {"attention.head_count", 2}};
  ga_gguf_writer *w = new_writer(3, 0);
  char key[128];
  ga_gguf_put_text(w, "general.architecture", arch);
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) {
    (void)snprintf(key, sizeof key, "%s.%s", arch, sizes[i].key);
    ga_gguf_put_int(w, key, GA_META_U32, sizes[i].value);
  }
  return w;
}

static void put_vector(ga_gguf_writer *w, const char *name, int64_t n) {
  const ga_tensor t = ga_tensor_make(weights, GA_F32, 1, &n);
  ga_gguf_put_tensor(w, name, &t);
}

static ga_status read_sizes(ga_gguf_writer *w, ga_hparams *p) {
  const ga_tensor table = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 8});
  ga_gguf_put_tensor(w, "token_embd.weight", &table);
  finish_file(w, "sizes.gguf");
  ga_model_file *file = open_file("sizes.gguf");
  const ga_status status = ga_hparams_read(file, p);
  ga_model_file_destroy(file);
  return status;
}

static void test_float_refused(void **state) {
  static const struct {
    const char *arch, *key;
    float value;
    const char *part;
  } all[] = {
      {"granite", "granite.residual_scale", 0, "granite.residual_scale is 0; must be 1e-06 to 1e+06"},
      {"granite", "granite.logit_scale", -8, "granite.logit_scale is -8; must be 1e-06 to 1e+06"},
      {"granite", "granite.embedding_scale", NAN, "'granite.embedding_scale' is nan; must be finite"},
      {"granite", "granite.attention.scale", INFINITY, "'granite.attention.scale' is inf; must be finite"},
      {"gemma2", "gemma2.attn_logit_softcapping", -50, "gemma2.attn_logit_softcapping is -50; must be 0 to 1e+06"},
      {"gemma2", "gemma2.final_logit_softcapping", NAN, "'gemma2.final_logit_softcapping' is nan; must be finite"},
      {"cohere2", "cohere2.logit_scale", 0, "cohere2.logit_scale is 0; must be 1e-06 to 1e+06"},
      {"gemma", "gemma.attention.layer_norm_rms_epsilon", 0,
       "gemma.attention.layer_norm_rms_epsilon is 0; must be in (0, 1)"},
      {"nemotron", "nemotron.attention.layer_norm_epsilon", 1,
       "nemotron.attention.layer_norm_epsilon is 1; must be in (0, 1)"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_gguf_writer *w = begin_sizes(all[i].arch);
    ga_hparams p;
    ga_gguf_put_f32(w, all[i].key, all[i].value);
    assert_error(read_sizes(w, &p), GA_ERR_FORMAT, all[i].part);
  }
}

static void test_int_refused(void **state) {
  static const struct {
    const char *arch, *key;
    int64_t value;
    const char *part;
  } all[] = {
      {"llama", "llama.attention.sliding_window", 1 << 21,
       "'llama.attention.sliding_window' is 2097152; must be from 0 to 1048576"},
      {"phi3", "phi3.attention.sliding_window", 1 << 21,
       "'phi3.attention.sliding_window' is 2097152; must be from 0 to 1048576"},
      {"smollm3", "smollm3.attention.head_count_kv", 3, "2 heads over 3 kv heads; must divide"},
      {"stablelm", "stablelm.rope.dimension_count", 3, "rope.dimension_count is 3; must be even"},
      {"gptneox", "gptneox.rope.dimension_count", 6, "'gptneox.rope.dimension_count' is 6; must be from 0 to 4"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_gguf_writer *w = begin_sizes(all[i].arch);
    ga_hparams p;
    ga_gguf_put_int(w, all[i].key, GA_META_U32, all[i].value);
    const ga_status status = read_sizes(w, &p);
    assert_error(status, status, all[i].part);
    assert_int_not_equal(status, GA_OK);
  }
}

/* Norms of heads, which the largest models of these have: in all layers or in none. */
static void test_head_norms(void **state) {
  static const char *const archs[] = {"stablelm", "command-r"};
  static const char *const all[] = {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight", "blk.1.attn_q_norm.weight",
                                    "blk.1.attn_k_norm.weight"};
  ga_hparams p;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(archs); i++)
    for (size_t n = 0; n <= GA_COUNT_OF(all); n++) {
      ga_gguf_writer *w = begin_sizes(archs[i]);
      for (size_t k = 0; k < n; k++) put_vector(w, all[k], 8);
      if (n == 0 || n == GA_COUNT_OF(all)) {
        assert_ok(read_sizes(w, &p));
        assert_true(p.has_head_norms == (n > 0));
      } else {
        assert_error(read_sizes(w, &p), GA_ERR_FORMAT, "is missing; norms of heads must be in all layers or none");
      }
    }
  ga_gguf_writer *w = begin_sizes("cohere2");
  for (size_t k = 0; k < GA_COUNT_OF(all); k++) put_vector(w, all[k], 8);
  assert_error(read_sizes(w, &p), GA_ERR_UNSUPPORTED, "cohere2 with norms of heads");
}

static ga_status read_int_key(const char *arch, const char *key, int64_t value, ga_hparams *p) {
  ga_gguf_writer *w = begin_sizes(arch);
  ga_gguf_put_int(w, key, GA_META_U32, value);
  return read_sizes(w, p);
}

static ga_gguf_writer *begin_router(const char *arch, int64_t experts, int64_t used) {
  ga_gguf_writer *w = begin_sizes(arch);
  char key[64];
  (void)snprintf(key, sizeof key, "%s.expert_count", arch);
  ga_gguf_put_int(w, key, GA_META_U32, experts);
  (void)snprintf(key, sizeof key, "%s.expert_used_count", arch);
  ga_gguf_put_int(w, key, GA_META_U32, used);
  return w;
}

/* Keys of a router take the place of what the architecture does without them. */
static void test_router(void **state) {
  static const int32_t scores[] = {GA_ROUTE_SOFTMAX, GA_ROUTE_SIGMOID, GA_ROUTE_SOFTMAX_CHOSEN, GA_ROUTE_SQRT_SOFTPLUS};
  ga_hparams p;
  (void)state;
  assert_ok(read_sizes(begin_router("qwen3moe", 8, 2), &p));
  assert_int_equal(p.router.scores, GA_ROUTE_SOFTMAX);
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_SUM);
  assert_true(p.router.scale == 1 && p.expert_act.act_alpha == 1 && p.expert_ff_width == p.ff_width);
  assert_ok(read_sizes(begin_router("gpt-oss", 8, 2), &p));
  assert_int_equal(p.router.scores, GA_ROUTE_SOFTMAX_CHOSEN);
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_NONE);
  assert_true(p.has_sinks && p.expert_act.limit == 7 && p.expert_act.up_offset == 1);
  for (int64_t i = 0; i < 4; i++) {
    ga_gguf_writer *w = begin_router("olmoe", 8, 2);
    ga_gguf_put_int(w, "olmoe.expert_gating_func", GA_META_U32, i + 1);
    assert_ok(read_sizes(w, &p));
    assert_int_equal(p.router.scores, scores[i]);
  }
  ga_gguf_writer *w = begin_router("qwen3moe", 8, 2);
  ga_gguf_put_bool(w, "qwen3moe.expert_weights_norm", false);
  ga_gguf_put_f32(w, "qwen3moe.expert_weights_scale", 2.5f);
  ga_gguf_put_int(w, "qwen3moe.expert_group_count", GA_META_U32, 4);
  ga_gguf_put_int(w, "qwen3moe.expert_group_used_count", GA_META_U32, 3);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_NONE);
  assert_true(p.router.scale == 2.5f && p.router.n_groups == 4 && p.router.top_k_groups == 3);
  w = begin_router("olmoe", 8, 2);
  ga_gguf_put_bool(w, "olmoe.expert_weights_norm", true);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_SUM);
  w = begin_router("llama", 0, 0); /* as files of dense models have it */
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.n_experts, 0);
}

/* Layers with experts, the feed-forward beside them, and layers that predict further tokens. */
static void test_expert_layers(void **state) {
  ga_hparams p;
  (void)state;
  ga_gguf_writer *w = begin_router("glm4moe", 8, 2);
  ga_gguf_put_int(w, "glm4moe.expert_feed_forward_length", GA_META_U32, 24);
  ga_gguf_put_int(w, "glm4moe.expert_shared_count", GA_META_U32, 2);
  ga_gguf_put_int(w, "glm4moe.leading_dense_block_count", GA_META_U32, 1);
  ga_gguf_put_int(w, "glm4moe.nextn_predict_layers", GA_META_U32, 1);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.n_layers, 1); /* of two */
  assert_int_equal(p.shared_ff_width, 48);
  assert_false(block_layer_has_experts(&p, 0));
  assert_true(block_layer_has_experts(&p, 1));
  w = begin_router("ernie4_5-moe", 8, 2);
  ga_gguf_put_int(w, "ernie4_5-moe.interleave_moe_layer_step", GA_META_U32, 2);
  ga_gguf_put_int(w, "ernie4_5-moe.expert_shared_feed_forward_length", GA_META_U32, 5);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.shared_ff_width, 5);
  assert_false(block_layer_has_experts(&p, 0));
  assert_true(block_layer_has_experts(&p, 1));
  assert_ok(read_sizes(begin_router("hunyuan-moe", 8, 2), &p));
  assert_int_equal(p.shared_ff_width, p.ff_width);
  assert_ok(read_sizes(begin_router("minimax-m2", 8, 2), &p));
  assert_int_equal(p.shared_ff_width, 0);
  w = begin_router("glm4moe", 8, 2);
  ga_gguf_put_int(w, "glm4moe.nextn_predict_layers", GA_META_U32, 2);
  assert_error(read_sizes(w, &p), GA_ERR_FORMAT, "'glm4moe.nextn_predict_layers' is 2; must be from 0 to 1");
  w = begin_router("dots1", 8, 2);
  ga_gguf_put_int(w, "dots1.leading_dense_block_count", GA_META_U32, 3);
  assert_error(read_sizes(w, &p), GA_ERR_FORMAT, "'dots1.leading_dense_block_count' is 3; must be from 0 to 2");
}

static ga_status read_dense(const int64_t *layers, int64_t n, ga_hparams *p) {
  ga_gguf_writer *w = begin_router("qwen3moe", 8, 2);
  ga_gguf_put_int(w, "qwen3moe.interleave_moe_layer_step", GA_META_U32, 2);
  ga_gguf_put_array(w, "ga.dense_layers", GA_META_I64, n, layers);
  return read_sizes(w, p);
}

/* Two layers, by their numbers. */
static void test_layers_without_experts(void **state) {
  ga_hparams p;
  (void)state;
  assert_ok(read_dense((const int64_t[]){1, 1}, 2, &p));
  assert_true(!p.is_dense[0] && p.is_dense[1] && p.expert_step == 2);
  assert_error(read_dense((const int64_t[]){0, 2}, 2, &p), GA_ERR_FORMAT,
               "ga.dense_layers: element 1 is 2; must be a layer, 0 to 1");
  assert_error(read_dense((const int64_t[]){-1}, 1, &p), GA_ERR_FORMAT, "element 0 is -1; must be a layer");
}

/* Widths that files of Qwen 2 and Llama 4 need not state, and chunks and factors of queries of Llama 4. */
static void test_experts_by_default(void **state) {
  ga_hparams p;
  (void)state;
  assert_ok(read_sizes(begin_router("qwen2moe", 8, 2), &p));
  assert_int_equal(p.expert_ff_width, p.ff_width / 2);
  assert_int_equal(p.shared_ff_width, p.ff_width);
  assert_int_equal(p.router.renorm, GA_ROUTE_RENORM_NONE);
  assert_error(read_sizes(begin_router("qwen2moe", 20, 17), &p), GA_ERR_FORMAT,
               "qwen2moe.feed_forward_length is 16, which 17 experts share; must be at least 1 each");
  ga_gguf_writer *w = begin_router("granitemoe", 8, 2);
  ga_gguf_put_int(w, "granitemoe.expert_shared_feed_forward_length", GA_META_U32, 16);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.shared_ff_width, 16);
  w = begin_router("llama4", 16, 1);
  ga_gguf_put_int(w, "llama4.expert_feed_forward_length", GA_META_U32, 24);
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.shared_ff_width, 24);
  assert_int_equal(p.context_most, 64);
  assert_true(p.norms_heads && p.expert_act.weighs_input && p.router.scores == GA_ROUTE_SIGMOID);
  w = begin_router("llama4", 128, 1);
  ga_gguf_put_text(w, "llama4.rope.scaling.type", "yarn");
  ga_gguf_put_f32(w, "llama4.rope.scaling.factor", 1000);
  assert_ok(read_sizes(w, &p));
  assert_true(!p.norms_heads && p.context_most == 64000 && p.chunk == 8192 && p.is_local[0]);
  assert_true(p.temperature.length == 8192 && p.temperature.offset == 1 && p.temperature.scale == 0.1f);
  w = begin_router("llama4", 16, 1);
  ga_gguf_put_int(w, "llama4.attention.sliding_window", GA_META_U32, 0);
  assert_ok(read_sizes(w, &p));
  assert_true(!p.chunk && !p.is_local[0]);
  w = begin_router("llama4", 16, 1);
  ga_gguf_put_int(w, "llama4.attention.sliding_window", GA_META_U32, 100);
  assert_error(read_sizes(w, &p), GA_ERR_UNSUPPORTED,
               "llama4.attention.sliding_window is 100; GA has chunks of a multiple of 64 tokens");
}

static void test_router_refused(void **state) {
  ga_hparams p;
  (void)state;
  assert_error(read_sizes(begin_router("qwen3moe", 8, 9), &p), GA_ERR_FORMAT,
               "'qwen3moe.expert_used_count' is 9; must be from 1 to 8");
  assert_error(read_sizes(begin_router("qwen3moe", 1025, 8), &p), GA_ERR_UNSUPPORTED,
               "1025 experts, of which a token chooses 8; GA has at most 1024 and 64");
  assert_error(read_sizes(begin_router("llama", 128, 65), &p), GA_ERR_UNSUPPORTED,
               "128 experts, of which a token chooses 65; GA has at most 1024 and 64");
  ga_gguf_writer *w = begin_router("qwen3moe", 8, 2);
  ga_gguf_put_int(w, "qwen3moe.expert_gating_func", GA_META_U32, 5);
  assert_error(read_sizes(w, &p), GA_ERR_FORMAT, "'qwen3moe.expert_gating_func' is 5; must be from 1 to 4");
}

/* Windows of modern-bert: which layers have one, and none of no tokens. */
static void test_modern_bert(void **state) {
  ga_hparams p;
  (void)state;
  assert_error(read_int_key("modern-bert", "modern-bert.attention.sliding_window", 0, &p), GA_ERR_FORMAT,
               "modern-bert.attention.sliding_window is 0; must be 1 or more");
  assert_error(read_int_key("modern-bert", "modern-bert.attention.sliding_window_pattern", 0, &p), GA_ERR_FORMAT,
               "sliding_window_pattern");
  assert_ok(read_int_key("modern-bert", "modern-bert.attention.sliding_window_pattern", 2, &p));
  assert_int_equal(p.window, 128);
  assert_false(p.is_local[0]);
  assert_true(p.is_local[1]);
}

/* Factors of queries by position, from the context of Ministral 3's first training on. */
static void test_mistral3(void **state) {
  ga_hparams p;
  (void)state;
  ga_gguf_writer *w = begin_sizes("mistral3");
  ga_gguf_put_f32(w, "mistral3.attention.temperature_scale", 0.1f);
  assert_error(read_sizes(w, &p), GA_ERR_FORMAT,
               "mistral3.rope.scaling.original_context_length is missing; must be there");
  w = begin_sizes("mistral3");
  ga_gguf_put_f32(w, "mistral3.attention.temperature_scale", 0.1f);
  ga_gguf_put_int(w, "mistral3.rope.scaling.original_context_length", GA_META_U32, 7);
  assert_ok(read_sizes(w, &p));
  assert_true(p.temperature.length == 7 && p.temperature.scale == 0.1f && !p.temperature.offset && p.context == 64);
  assert_ok(read_sizes(begin_sizes("mistral3"), &p)); /* without a scale, no factors */
  assert_int_equal(p.temperature.length, 0);
  w = begin_sizes("mistral3");
  ga_gguf_put_f32(w, "mistral3.attention.temperature_scale", 0);
  assert_ok(read_sizes(w, &p));
  w = begin_sizes("mistral3");
  ga_gguf_put_f32(w, "mistral3.attention.temperature_scale", -1);
  assert_error(read_sizes(w, &p), GA_ERR_FORMAT, "mistral3.attention.temperature_scale is -1");
}

/* Norms and gates that Jina's models for code have. */
static void test_jina_refused(void **state) {
  static const char *const others[] = {"blk.0.attn_q_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_gate.weight"};
  ga_hparams p;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(others); i++) {
    ga_gguf_writer *w = begin_sizes("jina-bert-v2");
    put_vector(w, others[i], 8);
    assert_error(read_sizes(w, &p), GA_ERR_UNSUPPORTED, others[i]);
  }
}

static void test_gptneox_activation(void **state) {
  ga_hparams p;
  (void)state;
  ga_gguf_writer *w = begin_sizes("gptneox");
  ga_gguf_put_text(w, "ga.activation", "gelu_fast");
  assert_ok(read_sizes(w, &p));
  assert_int_equal(p.act, GA_ACT_GELU_TANH);
  w = begin_sizes("gptneox");
  ga_gguf_put_text(w, "ga.activation", "relu");
  assert_error(read_sizes(w, &p), GA_ERR_UNSUPPORTED, "ga.activation is 'relu'; gptneox has gelu, gelu_fast");
}

static ga_status read_stable(const char *const *norms, ga_hparams *p) {
  ga_gguf_writer *w = begin_sizes("stablelm");
  for (; *norms; norms++) put_vector(w, *norms, 8);
  return read_sizes(w, p);
}

/* A norm before the feed-forward in all layers, or in none. */
static void test_stablelm_norms(void **state) {
  static const char *const both[] = {"blk.0.ffn_norm.weight", "blk.0.ffn_norm.bias", "blk.1.ffn_norm.weight",
                                     "blk.1.ffn_norm.bias", NULL};
  static const char *const first[] = {"blk.0.ffn_norm.weight", "blk.0.ffn_norm.bias", NULL};
  static const char *const second[] = {"blk.1.ffn_norm.weight", NULL};
  static const char *const no_bias[] = {"blk.0.ffn_norm.weight", NULL};
  ga_hparams p;
  (void)state;
  assert_ok(read_stable(both, &p));
  assert_false(p.is_parallel);
  assert_ok(read_stable(both + 4, &p));
  assert_true(p.is_parallel);
  assert_error(read_stable(first, &p), GA_ERR_FORMAT,
               "blk.1.ffn_norm has no weight and no bias; must have both, in every layer alike");
  assert_error(read_stable(second, &p), GA_ERR_FORMAT, "blk.1.ffn_norm has a weight and no bias; must have neither");
  assert_error(read_stable(no_bias, &p), GA_ERR_FORMAT, "blk.0.ffn_norm has a weight and no bias; must have both");
}

/* A folder whose config.json says otherwise than its tensors; a GGUF file may. */
static void test_stablelm_parallel_stated(void **state) {
  static const char config[] = "{\"model_type\":\"stablelm\",\"hidden_size\":64,\"num_hidden_layers\":2,"
                               "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                               "\"vocab_size\":96,\"use_parallel_residual\":true}";
  ga_gguf_writer *w = begin_sizes("stablelm");
  ga_hparams p;
  (void)state;
  ga_gguf_put_bool(w, "stablelm.use_parallel_residual", false);
  assert_ok(read_sizes(w, &p));
  assert_true(p.is_parallel);
  assert_int_equal(mkdir(in_folder("stable"), 0777), 0);
  put_file_text("stable/config.json", config);
  assert_int_equal(symlink(GA_TEST_DATA "/arch/stablelm/model.safetensors", in_folder("stable/model.safetensors")), 0);
  ga_model_file *file = open_file("stable");
  assert_error(ga_hparams_read(file, &p), GA_ERR_FORMAT,
               "use_parallel_residual is true; must be false: the layers have a norm before the feed-forward");
  ga_model_file_destroy(file);
}

static void test_what_files_leave_out(void **state) {
  ga_hparams p;
  (void)state;
  assert_ok(read_sizes(begin_sizes("granite"), &p));
  assert_true(p.embed_scale == 1 && p.residual_scale == 1 && p.logit_scale == 1 && p.attn_scale == 0.5f);
  assert_ok(read_sizes(begin_sizes("smollm3"), &p));
  assert_true(!p.no_rope[0] && !p.no_rope[1]);
  assert_ok(read_sizes(begin_sizes("gptneox"), &p));
  assert_true(p.is_parallel);
  assert_ok(read_sizes(begin_sizes("gemma2"), &p));
  assert_true(p.attn_softcap == 50 && p.logit_softcap == 30 && p.window == 4096 && p.is_local[0] && !p.is_local[1]);
  assert_ok(read_sizes(begin_sizes("llama"), &p));
  assert_int_equal(p.window, 0);
}

/* Kinds of pooling by GGUF's numbers; none, which is 0, makes no embedding. */
static void test_pooling_types(void **state) {
  static const int32_t want[] = {0, POOL_MEAN, POOL_CLS, POOL_LAST, POOL_CLS};
  ga_hparams p;
  (void)state;
  assert_ok(read_sizes(begin_sizes("bert"), &p));
  assert_int_equal(p.pooling, POOL_MEAN);
  for (int i = 1; i <= 4; i++) {
    assert_ok(read_int_key("bert", "bert.pooling_type", i, &p));
    assert_int_equal(p.pooling, want[i]);
  }
  assert_error(read_int_key("bert", "bert.pooling_type", 0, &p), GA_ERR_FORMAT,
               "'bert.pooling_type' is 0; must be from 1 to 4");
  assert_error(read_int_key("bert", "bert.pooling_type", 5, &p), GA_ERR_FORMAT,
               "'bert.pooling_type' is 5; must be from 1 to 4");
}

/* --- scaling of rotary embedding --- */

/* Reads a file, and its frequencies with their magnitude. */
static ga_status read_scaled(ga_gguf_writer *w, ga_hparams *p, float freq[512], float *magnitude) {
  const ga_tensor table = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 8});
  ga_gguf_put_tensor(w, "token_embd.weight", &table);
  finish_file(w, "scaled.gguf");
  ga_model_file *file = open_file("scaled.gguf");
  ga_status status = ga_hparams_read(file, p);
  if (status == GA_OK) status = ga_hparams_rope(file, p, ROPE_GLOBAL, NULL, freq, magnitude);
  ga_model_file_destroy(file);
  return status;
}

static void test_factor_without_type(void **state) {
  static const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
  float freq[512], magnitude;
  ga_hparams p;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++)
    for (int type = 0; type < 3; type++) { /* absent, linear, none */
      ga_gguf_writer *w = begin_sizes("llama");
      ga_gguf_put_f32(w, keys[i], 8);
      if (type) ga_gguf_put_text(w, "llama.rope.scaling.type", type == 1 ? "linear" : "none");
      assert_ok(read_scaled(w, &p, freq, &magnitude));
      assert_true(freq[0] == (type == 2 ? 1.0f : 0.125f) && magnitude == 1.0f);
      /* The stored context may include the factor already; context_most is the bound where it does not. */
      assert_true(p.context == 64 && p.context_most == (type == 2 ? 64 : 512));
    }
  ga_gguf_writer *w = begin_sizes("llama");
  ga_gguf_put_f32(w, keys[0], 0);
  assert_ok(read_scaled(w, &p, freq, &magnitude));
  assert_true(freq[0] == 1.0f && p.context_most == 64);
}

static void test_scaled_context(void **state) {
  static const struct {
    const char *type;
    float factor;
    int64_t original; /* 0: not stated */
    int32_t context, most;
  } all[] = {{"yarn", 4, 64, 256, 256},           {"yarn", 4, 0, 256, 256},  {"yarn", 4, 16, 64, 64},
             {"yarn", 4, 32, 128, 128},           {"yarn", 1, 64, 64, 64},   {"linear", 4, 64, 256, 256},
             {"linear", 4, 16, 64, 64},           {"linear", 4, 0, 64, 256}, {"llama3", 4, 64, 64, 64},
             {"yarn", 1e9f, 64, 1 << 30, 1 << 30}};
  float freq[512], magnitude;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_gguf_writer *w = begin_sizes("llama");
    ga_hparams p;
    ga_gguf_put_text(w, "llama.rope.scaling.type", all[i].type);
    ga_gguf_put_f32(w, "llama.rope.scaling.factor", all[i].factor);
    if (all[i].original) ga_gguf_put_int(w, "llama.rope.scaling.original_context_length", GA_META_U32, all[i].original);
    assert_ok(read_scaled(w, &p, freq, &magnitude));
    if (p.context != all[i].context || p.context_most != all[i].most)
      fail_msg("%zu: context %d, at most %d", i, p.context, p.context_most);
  }
}

static void test_yarn_multiplier(void **state) {
  float freq[512], magnitude;
  ga_hparams p;
  (void)state;
  for (int stated = 0; stated < 2; stated++) {
    ga_gguf_writer *w = begin_sizes("llama");
    ga_gguf_put_text(w, "llama.rope.scaling.type", "yarn");
    ga_gguf_put_f32(w, "llama.rope.scaling.factor", 4);
    if (stated) ga_gguf_put_f32(w, "llama.rope.scaling.yarn_log_multiplier", 1);
    assert_ok(read_scaled(w, &p, freq, &magnitude));
    assert_true(fabs((double)magnitude - (stated ? 1 : 1 + 0.1 * log(4))) < 1e-6);
  }
}

/* The whole magnitude, which llama.cpp's converter writes; 1 where config.json states none. */
static void test_yarn_magnitude(void **state) {
  static const float whole[] = {1.5f, 1, 0};
  float freq[512], magnitude;
  ga_hparams p;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(whole); i++) {
    ga_gguf_writer *w = begin_sizes("llama");
    ga_gguf_put_text(w, "llama.rope.scaling.type", "yarn");
    ga_gguf_put_f32(w, "llama.rope.scaling.factor", 4);
    ga_gguf_put_f32(w, "llama.rope.scaling.yarn_attn_factor", whole[i]);
    if (whole[i] == 0) {
      assert_error(read_scaled(w, &p, freq, &magnitude), GA_ERR_FORMAT, "yarn_attn_factor is 0; must be above 0");
      continue;
    }
    assert_ok(read_scaled(w, &p, freq, &magnitude));
    assert_true(fabs((double)magnitude - (whole[i] > 1 ? 1.5 : 1 + 0.1 * log(4))) < 1e-6);
  }
}

/* Keys that would change angles, embeddings or draws are refused by their names, and so are unknown ones. */
static void test_unknown_keys(void **state) {
  static const struct {
    const char *key;
    float value;
    const char *part; /* NULL: taken */
  } all[] = {
      {"llama.rope.scaling.yarn_ext_factor", 0, "'llama.rope.scaling.yarn_ext_factor' has a value that GA does not"},
      {"llama.rope.scaling.yarn_ext_factor", 1, NULL},
      {"llama.rope.scaling.yarn_attn_factor", 0.5f, NULL},
      {"llama.rope.dimension_sections", 1,
       "'llama.rope.dimension_sections' is not known; docs/reference/model-files.md has the keys *.rope.*"},
      {"llama.rope.scaling.alpha", 1, "'llama.rope.scaling.alpha' is not known"},
      {"llama.rope.scaling.finetuned", 1, NULL},
      {"llama.pooling.layers", 1, "'llama.pooling.layers' is not known"},
      {"general.sampling.mirostat", 2, "'general.sampling.mirostat' has a value"},
      {"general.sampling.mirostat", 0, NULL},
      {"general.sampling.mirostat_tau", 5, NULL},
      {"general.sampling.xtc_probability", 0.5f, "GA has no XTC sampler"},
      {"general.sampling.penalty_last_n", 64, NULL},
      {"general.sampling.temp", 0.5f, NULL},
      {"general.sampling.top_z", 1, "'general.sampling.top_z' is not known"},
      {"general.ropey.x", 1, NULL},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_gguf_writer *w = begin_sizes("llama");
    ga_hparams p;
    ga_gguf_put_f32(w, all[i].key, all[i].value);
    const ga_status status = read_sizes(w, &p);
    if (all[i].part)
      assert_error(status, GA_ERR_UNSUPPORTED, all[i].part);
    else
      assert_ok(status);
  }
}

/* --- factors of longrope --- */

static ga_status read_factors(const char *name, int64_t n, float first, rope_table table) {
  ga_gguf_writer *w = begin_sizes("phi3");
  float values[8] = {first, 1, 1, 1, 1, 1, 1, 1}, out[512];
  const ga_tensor t = ga_tensor_make(values, GA_F32, 1, &n);
  const ga_tensor embd = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 8});
  ga_hparams p;
  bool found;
  ga_gguf_put_tensor(w, "token_embd.weight", &embd);
  ga_gguf_put_tensor(w, name, &t);
  finish_file(w, "factors.gguf");
  ga_model_file *file = open_file("factors.gguf");
  assert_ok(ga_hparams_read(file, &p));
  const ga_status status = ga_rope_factors(file, &p, table, out, &found);
  ga_model_file_destroy(file);
  return status;
}

static void test_factors_refused(void **state) {
  (void)state;
  assert_ok(read_factors("rope_factors_long.weight", 2, 2, ROPE_LONG));
  assert_error(read_factors("rope_factors_long.weight", 3, 2, ROPE_LONG), GA_ERR_SHAPE,
               "rope_factors_long.weight: must be [2]");
  assert_error(read_factors("rope_factors_short.weight", 2, 0, ROPE_GLOBAL), GA_ERR_FORMAT,
               "rope_factors_short.weight: factor 0 is 0; must be above 0 and finite");
  assert_error(read_factors("rope_factors_long.weight", 2, INFINITY, ROPE_LONG), GA_ERR_FORMAT,
               "rope_factors_long.weight: factor 0 is inf; must be above 0 and finite");
}

/* More pairs than there is room for, whoever says so: a tensor of 2048 bytes, or none. */
static void test_too_many_pairs(void **state) {
  static const char part[] = "heads of which 2048 elements rotate; must be 0 to 1024";
  const int64_t n = 1024;
  const ga_tensor t = ga_tensor_make(weights, GA_F16, 1, &n);
  float factors[512], freq[512], magnitude;
  ga_hparams p = {.arch = ga_arch_find("llama", 5), .rot_dim = 2048, .rope_base = 10000, .context = 64};
  bool found;
  (void)state;
  ga_gguf_writer *w = begin_sizes("llama");
  ga_gguf_put_tensor(w, "rope_freqs.weight", &t);
  ga_gguf_put_text(w, "llama.rope.scaling.type", "llama3");
  finish_file(w, "pairs.gguf");
  ga_model_file *file = open_file("pairs.gguf");
  assert_error(ga_rope_factors(file, &p, ROPE_GLOBAL, factors, &found), GA_ERR_SHAPE, part);
  assert_error(ga_hparams_rope(file, &p, ROPE_GLOBAL, NULL, freq, &magnitude), GA_ERR_SHAPE, part);
  ga_model_file_destroy(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_float_refused),
                                     cmocka_unit_test(test_int_refused),
                                     cmocka_unit_test(test_head_norms),
                                     cmocka_unit_test(test_router),
                                     cmocka_unit_test(test_expert_layers),
                                     cmocka_unit_test(test_layers_without_experts),
                                     cmocka_unit_test(test_experts_by_default),
                                     cmocka_unit_test(test_router_refused),
                                     cmocka_unit_test(test_what_files_leave_out),
                                     cmocka_unit_test(test_modern_bert),
                                     cmocka_unit_test(test_mistral3),
                                     cmocka_unit_test(test_pooling_types),
                                     cmocka_unit_test(test_factor_without_type),
                                     cmocka_unit_test(test_scaled_context),
                                     cmocka_unit_test(test_yarn_multiplier),
                                     cmocka_unit_test(test_yarn_magnitude),
                                     cmocka_unit_test(test_unknown_keys),
                                     cmocka_unit_test(test_jina_refused),
                                     cmocka_unit_test(test_gptneox_activation),
                                     cmocka_unit_test(test_factors_refused),
                                     cmocka_unit_test(test_too_many_pairs),
                                     cmocka_unit_test(test_stablelm_norms),
                                     cmocka_unit_test(test_stablelm_parallel_stated)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
