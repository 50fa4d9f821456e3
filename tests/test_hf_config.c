/* config.json and tensor names of each architecture. */
#include <sys/stat.h>

#include "file/hf.h"
#include "tests/hf_meta.h"

static void test_llama(void **state) {
  static const char *const names[] = {"model.embed_tokens.weight",
                                      "model.layers.0.self_attn.q_proj.weight",
                                      "model.layers.12.mlp.down_proj.weight",
                                      "model.norm.weight",
                                      "lm_head.weight",
                                      "model.layers.0.self_attn.o_proj.bias",
                                      "model.layers.01.mlp.up_proj.weight",
                                      "model.layers.0.self_attn.rotary_emb.inv_freq"};
  ga_model_file *f;
  const ga_meta *ids;
  bool tied;
  (void)state;
  assert_ok(open_folder(
      "{\"model_type\":\"llama\"," BASE
      ",\"num_key_value_heads\":2,\"rms_norm_eps\":1e-05,\"rope_theta\":500000,\"head_dim\":null,"
      "\"max_position_embeddings\":8192,\"eos_token_id\":[7,9],\"bos_token_id\":1,\"tie_word_embeddings\":true,"
      "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
      "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":4096}}",
      8, names, &f));
  check_text(f, "general.architecture", "llama");
  expect_int(f, "llama.embedding_length", 8);
  expect_int(f, "llama.block_count", 2);
  expect_int(f, "llama.feed_forward_length", 16);
  expect_int(f, "llama.attention.head_count", 4);
  expect_int(f, "llama.attention.head_count_kv", 2);
  expect_int(f, "llama.context_length", 8192);
  expect_int(f, "llama.vocab_size", 32);
  check_float(f, "llama.attention.layer_norm_rms_epsilon", 1e-5);
  check_float(f, "llama.rope.freq_base", 500000);
  check_text(f, "llama.rope.scaling.type", "llama3");
  check_float(f, "llama.rope.scaling.factor", 8);
  check_float(f, "llama.rope.scaling.low_freq_factor", 1);
  check_float(f, "llama.rope.scaling.high_freq_factor", 4);
  expect_int(f, "llama.rope.scaling.original_context_length", 4096);
  expect_int(f, "tokenizer.ggml.bos_token_id", 1);
  expect_int(f, "tokenizer.ggml.eos_token_id", 7);
  check_text(f, "ga.rope_layout", "neox");
  check_text(f, "ga.activation", "silu");
  assert_null(ga_model_file_meta(f, "llama.attention.key_length"));
  assert_ok(ga_model_file_bool(f, "ga.tied_embeddings", &tied));
  assert_true(tied);
  assert_ok(ga_model_file_array(f, "ga.eos_token_ids", GA_META_INTS, &ids));
  assert_int_equal(ga_meta_count(ids), 2);
  expect_element(ids, 0, 7);
  expect_element(ids, 1, 9);
  check_name(f, names[0], "token_embd.weight");
  check_name(f, names[1], "blk.0.attn_q.weight");
  check_name(f, names[2], "blk.12.ffn_down.weight");
  check_name(f, names[3], "output_norm.weight");
  check_name(f, names[4], "output.weight");
  check_name(f, names[5], "blk.0.attn_output.bias");
  check_name(f, names[6], names[6]); /* a number with a leading zero is no layer */
  check_name(f, names[7], names[7]);
  ga_model_file_destroy(f);
}

static void test_qwen(void **state) {
  static const char *const names[] = {"model.layers.3.self_attn.k_proj.bias", "model.layers.3.self_attn.q_norm.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder(
      "{\"model_type\":\"qwen2\"," BASE ",\"use_sliding_window\":false,\"sliding_window\":4096,"
      "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":32,\"beta_slow\":1,\"attention_factor\":1.5}}",
      2, names, &f));
  check_text(f, "qwen2.rope.scaling.type", "yarn");
  check_float(f, "qwen2.rope.scaling.yarn_beta_fast", 32);
  check_float(f, "qwen2.rope.scaling.attn_factor", 1.5 / (1 + 0.1 * log(4)));
  check_float(f, "qwen2.rope.freq_base", 10000);
  expect_int(f, "qwen2.context_length", 32768);
  assert_null(ga_model_file_meta(f, "qwen2.attention.sliding_window"));
  check_name(f, names[0], "blk.3.attn_k.bias");
  check_name(f, names[1], names[1]);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"qwen3\"," BASE ",\"head_dim\":128,\"partial_rotary_factor\":1.0,"
                        "\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\"}}",
                        2, names, &f));
  expect_int(f, "qwen3.attention.key_length", 128);
  expect_int(f, "qwen3.attention.value_length", 128);
  check_float(f, "qwen3.rope.freq_base", 1e6);
  check_text(f, "qwen3.rope.scaling.type", "none");
  check_name(f, names[1], "blk.3.attn_q_norm.weight");
  ga_model_file_destroy(f);
}

static void test_config_gemma3(void **state) {
  static const char *const names[] = {"model.layers.5.post_attention_layernorm.weight",
                                      "model.layers.5.pre_feedforward_layernorm.weight",
                                      "model.layers.5.post_feedforward_layernorm.weight"};
  static const char *const deep_names[] = {"language_model.model.layers.5.mlp.gate_proj.weight",
                                           "vision_tower.vision_model.embeddings.patch_embedding.weight"};
  int64_t sliding[3];
  ga_model_file *f;
  bool plus_one;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"gemma3_text\"," BASE
                        ",\"query_pre_attn_scalar\":256,\"rope_theta\":1000000.0,"
                        "\"rope_local_base_freq\":10000.0,\"sliding_window\":512,\"final_logit_softcapping\":null,"
                        "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
                        3, names, &f));
  check_float(f, "gemma3.attention.scale", 1.0 / 16);
  check_float(f, "gemma3.rope.freq_base", 1e6);
  check_float(f, "gemma3.rope.freq_base_swa", 1e4);
  expect_int(f, "gemma3.attention.sliding_window", 512);
  assert_ok(ga_model_file_ints(f, "gemma3.attention.sliding_window_pattern", 3, 0, 1, sliding));
  assert_true(sliding[0] && !sliding[1] && sliding[2]);
  assert_ok(ga_model_file_bool(f, "ga.norm_plus_one", &plus_one));
  assert_true(plus_one);
  check_name(f, names[0], "blk.5.post_attention_norm.weight");
  check_name(f, names[1], "blk.5.ffn_norm.weight");
  check_name(f, names[2], "blk.5.post_ffw_norm.weight");
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"text_config\":{\"hidden_size\":2560,"
                        "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}",
                        2, deep_names, &f));
  check_text(f, "general.architecture", "gemma3");
  expect_int(f, "gemma3.embedding_length", 2560);
  expect_int(f, "gemma3.attention.head_count", 8);
  expect_int(f, "gemma3.attention.sliding_window_pattern", 6);
  check_float(f, "gemma3.rope.freq_base", 1e6);
  check_float(f, "gemma3.rope.scaling.factor", 8);
  expect_int(f, "tokenizer.ggml.eos_token_id", 1);
  check_name(f, deep_names[0], "blk.5.ffn_gate.weight");
  check_name(f, deep_names[1], deep_names[1]);
  ga_model_file_destroy(f);
}

static void test_gpt2_and_bert(void **state) {
  static const char *const gpt2[] = {"wte.weight", "transformer.h.0.attn.c_attn.bias", "h.0.attn.bias",
                                     "h.11.mlp.c_proj.weight"};
  static const char *const bert[] = {"bert.embeddings.LayerNorm.gamma", "encoder.layer.0.attention.self.query.weight",
                                     "encoder.layer.0.output.LayerNorm.beta", "pooler.dense.weight"};
  ga_model_file *f;
  bool flag;
  (void)state;
  assert_ok(
      open_folder("{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_layer\":2,\"n_head\":2,\"vocab_size\":9,\"n_inner\":null}",
                  4, gpt2, &f));
  expect_int(f, "gpt2.feed_forward_length", 32);
  expect_int(f, "gpt2.context_length", 1024);
  check_float(f, "gpt2.attention.layer_norm_epsilon", 1e-5);
  assert_ok(ga_model_file_bool(f, "ga.gpt2_transposed", &flag));
  assert_true(flag);
  assert_null(ga_model_file_meta(f, "ga.rope_layout"));
  check_name(f, gpt2[0], "token_embd.weight");
  check_name(f, gpt2[1], "blk.0.attn_qkv.bias");
  check_name(f, gpt2[2], gpt2[2]); /* the causal mask, not a bias of ours */
  check_name(f, gpt2[3], "blk.11.ffn_down.weight");
  ga_model_file_destroy(f);
  assert_int_equal(mkdir(in_folder("1_Pooling"), 0777), 0);
  put_file_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}");
  assert_ok(open_folder("{\"model_type\":\"bert\"," BASE ",\"position_embedding_type\":\"absolute\"}", 4, bert, &f));
  expect_int(f, "bert.pooling_type", 2);
  expect_int(f, "tokenizer.ggml.token_type_count", 2);
  assert_ok(ga_model_file_bool(f, "bert.attention.causal", &flag));
  assert_false(flag);
  check_name(f, bert[0], "token_embd_norm.weight");
  check_name(f, bert[1], "blk.0.attn_q.weight");
  check_name(f, bert[2], "blk.0.layer_output_norm.bias");
  check_name(f, bert[3], bert[3]);
  ga_model_file_destroy(f);
}

/* --- families with factors, parts of heads, layers of their own --- */

static void check_flag(const ga_model_file *f, const char *key, bool want) {
  bool flag = !want;
  assert_ok(ga_model_file_bool(f, key, &flag));
  assert_int_equal(flag, want);
}

static void test_config_mistral(void **state) {
  static const char *const names[] = {"model.layers.1.post_attention_layernorm.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"mistral\"," BASE ",\"num_key_value_heads\":2,\"sliding_window\":64}", 1,
                        names, &f));
  check_text(f, "general.architecture", "llama");
  expect_int(f, "llama.attention.sliding_window", 64);
  check_name(f, names[0], "blk.1.ffn_norm.weight");
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"mistral\"," BASE ",\"sliding_window\":null}", 1, names, &f));
  expect_int(f, "llama.attention.sliding_window", 0);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"mistral\"," BASE "}", 1, names, &f)); /* the class's defaults */
  expect_int(f, "llama.attention.sliding_window", 4096);
  expect_int(f, "llama.attention.head_count_kv", 8);
  ga_model_file_destroy(f);
}

/* As many kv heads as heads where config.json says null, not the class's default. */
static void test_kv_heads_null(void **state) {
  static const char *const types[][2] = {{"mistral", "llama"}, {"smollm3", "smollm3"},    {"gemma", "gemma"},
                                         {"gemma2", "gemma2"}, {"gemma3_text", "gemma3"}, {"starcoder2", "starcoder2"}};
  char config[512], key[64];
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    ga_model_file *f;
    (void)snprintf(config, sizeof config, "{\"model_type\":\"%s\"," BASE ",\"num_key_value_heads\":null}", types[i][0]);
    (void)snprintf(key, sizeof key, "%s.attention.head_count_kv", types[i][1]);
    assert_ok(open_folder(config, 0, NULL, &f));
    assert_null(ga_model_file_meta(f, key));
    ga_model_file_destroy(f);
  }
}

/* What the classes take where config.json is silent, and the longer of Command-R's two lengths. */
static void test_defaults_of_classes(void **state) {
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"smollm3\"," BASE "}", 0, NULL, &f));
  check_float(f, "smollm3.rope.freq_base", 2000000);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"cohere\"," BASE "}", 0, NULL, &f));
  check_float(f, "command-r.rope.freq_base", 500000);
  expect_int(f, "command-r.context_length", 8192);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"cohere\"," BASE ",\"rope_parameters\":{\"rope_theta\":8e6},"
                        "\"max_position_embeddings\":8192,\"model_max_length\":131072}",
                        0, NULL, &f));
  check_float(f, "command-r.rope.freq_base", 8e6);
  expect_int(f, "command-r.context_length", 131072);
  ga_model_file_destroy(f);
}

static void test_gemma_1_and_2(void **state) {
  static const char *const names[] = {"model.layers.0.post_attention_layernorm.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"gemma\"," BASE ",\"hidden_act\":\"gelu\"}", 1, names, &f));
  expect_int(f, "gemma.attention.key_length", 256);
  check_flag(f, "ga.norm_plus_one", true);
  check_name(f, names[0], "blk.0.ffn_norm.weight");
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"gemma2\"," BASE ",\"query_pre_attn_scalar\":144,"
                        "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":30.0}",
                        1, names, &f));
  check_float(f, "gemma2.attention.scale", 1.0 / 12);
  check_float(f, "gemma2.attn_logit_softcapping", 0);
  check_float(f, "gemma2.final_logit_softcapping", 30);
  expect_int(f, "gemma2.attention.sliding_window", 4096);
  check_flag(f, "ga.norm_plus_one", true);
  check_name(f, names[0], "blk.0.post_attention_norm.weight");
  ga_model_file_destroy(f);
}

static void test_granite_and_smollm3(void **state) {
  int64_t rotates[2];
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"granite\"," BASE ",\"embedding_multiplier\":12,\"residual_multiplier\":0.22,"
                        "\"attention_multiplier\":0.0625,\"logits_scaling\":8}",
                        0, NULL, &f));
  check_float(f, "granite.embedding_scale", 12);
  check_float(f, "granite.residual_scale", 0.22);
  check_float(f, "granite.attention.scale", 0.0625);
  check_float(f, "granite.logit_scale", 8);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"smollm3\"," BASE ",\"no_rope_layers\":[1,0]}", 0, NULL, &f));
  assert_ok(ga_model_file_ints(f, "ga.rope_layers", 2, 0, 1, rotates));
  assert_true(rotates[0] && !rotates[1]);
  expect_int(f, "ga.no_rope_every", 4);
  ga_model_file_destroy(f);
}

/* Each integer of an array arrives whole, in its place and with its sign; a number alone is an array of one. */
static void test_integer_arrays(void **state) {
  static const int64_t want[] = {1, -2, 0x0102030405060708, INT64_MIN, 255};
  ga_model_file *f;
  const ga_meta *meta;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"smollm3\"," BASE
                        ",\"no_rope_layers\":[1,-2,72623859790382856,-9223372036854775808,255]}",
                        0, NULL, &f));
  assert_ok(ga_model_file_array(f, "ga.rope_layers", GA_META_INTS, &meta));
  assert_int_equal(ga_meta_count(meta), GA_COUNT_OF(want));
  for (size_t i = 0; i < GA_COUNT_OF(want); i++) expect_element(meta, (int64_t)i, want[i]);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"smollm3\"," BASE ",\"no_rope_layers\":-3}", 0, NULL, &f));
  assert_ok(ga_model_file_array(f, "ga.rope_layers", GA_META_INTS, &meta));
  assert_int_equal(ga_meta_count(meta), 1);
  expect_element(meta, 0, -3);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[-1,300,7,-5,9]}", 0, NULL, &f));
  assert_ok(ga_model_file_array(f, "ga.eos_token_ids", GA_META_INTS, &meta));
  assert_int_equal(ga_meta_count(meta), 3);
  expect_element(meta, 0, 300);
  expect_element(meta, 1, 7);
  expect_element(meta, 2, 9);
  expect_int(f, "tokenizer.ggml.eos_token_id", 300);
  ga_model_file_destroy(f);
}

static void test_phi3(void **state) {
  static const char *const names[] = {"model.layers.0.self_attn.qkv_proj.weight",
                                      "model.layers.0.mlp.gate_up_proj.weight"};
  const ga_meta *factors;
  double x;
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"phi3\"," BASE ",\"original_max_position_embeddings\":4096,"
                        "\"rope_scaling\":{\"type\":\"su\",\"short_factor\":[1],\"long_factor\":[2.5],"
                        "\"attention_factor\":1.19},\"partial_rotary_factor\":0.75,\"sliding_window\":2047}",
                        2, names, &f));
  check_text(f, "phi3.rope.scaling.type", "longrope");
  check_float(f, "phi3.rope.scaling.attn_factor", 1.19);
  expect_int(f, "phi3.rope.scaling.original_context_length", 4096);
  expect_int(f, "phi3.attention.sliding_window", 2047);
  check_float(f, "ga.rope_fraction", 0.75);
  assert_ok(ga_model_file_array(f, "ga.rope_long_factors", GA_META_FLOATS, &factors));
  assert_ok(ga_meta_float(factors, 0, &x));
  assert_true(x == 2.5);
  check_name(f, names[0], "blk.0.attn_qkv.weight");
  check_name(f, names[1], "blk.0.ffn_up.weight");
  ga_model_file_destroy(f);
}

static void test_layer_norm_families(void **state) {
  static const char *const names[] = {"gpt_neox.layers.0.attention.query_key_value.bias", "embed_out.weight",
                                      "gpt_neox.layers.0.attention.bias"};
  ga_model_file *f;
  (void)state;
  assert_ok(
      open_folder("{\"model_type\":\"cohere2\"," BASE ",\"logit_scale\":0.25,\"sliding_window\":16}", 0, NULL, &f));
  check_float(f, "cohere2.logit_scale", 0.25);
  expect_int(f, "cohere2.attention.sliding_window_pattern", 4);
  assert_null(ga_model_file_meta(f, "ga.rope_layout"));
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"stablelm\"," BASE "}", 0, NULL, &f));
  check_float(f, "ga.rope_fraction", 0.25);
  check_flag(f, "stablelm.use_parallel_residual", false);
  ga_model_file_destroy(f);
  assert_ok(open_folder("{\"model_type\":\"nemotron\"," BASE ",\"norm_eps\":1e-6}", 0, NULL, &f));
  check_float(f, "ga.rope_fraction", 0.5);
  check_float(f, "nemotron.attention.layer_norm_epsilon", 1e-6);
  check_flag(f, "ga.norm_plus_one", true);
  ga_model_file_destroy(f);
  assert_ok(
      open_folder("{\"model_type\":\"gpt_neox\"," BASE ",\"rotary_emb_base\":500,\"rotary_pct\":1}", 3, names, &f));
  check_text(f, "general.architecture", "gptneox");
  check_float(f, "gptneox.rope.freq_base", 500);
  check_float(f, "ga.rope_fraction", 1);
  check_flag(f, "gptneox.use_parallel_residual", true);
  check_flag(f, "ga.qkv_by_head", true);
  check_name(f, names[0], "blk.0.attn_qkv.bias");
  check_name(f, names[1], "output.weight");
  check_name(f, names[2], names[2]); /* the causal mask of old files */
  ga_model_file_destroy(f);
}

static void test_nomic_bert(void **state) {
  static const char *const names[] = {"encoder.layers.1.mlp.fc12.weight", "emb_ln.bias"};
  ga_model_file *f;
  (void)state;
  (void)mkdir(in_folder("1_Pooling"), 0777); /* it may be there */
  put_file_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\":true}");
  assert_ok(open_folder("{\"model_type\":\"nomic_bert\",\"n_embd\":8,\"n_layer\":2,\"n_inner\":16,\"n_head\":4,"
                        "\"vocab_size\":9,\"n_positions\":8192,\"max_trained_positions\":2048,"
                        "\"activation_function\":\"swiglu\",\"rotary_emb_base\":500,\"rotary_emb_fraction\":1.0,"
                        "\"qkv_proj_bias\":false,\"rotary_emb_interleaved\":false,\"num_experts\":0}",
                        2, names, &f));
  check_text(f, "general.architecture", "nomic-bert");
  expect_int(f, "nomic-bert.embedding_length", 8);
  expect_int(f, "nomic-bert.context_length", 2048);
  expect_int(f, "nomic-bert.pooling_type", 2);
  check_float(f, "nomic-bert.rope.freq_base", 500);
  check_float(f, "nomic-bert.attention.layer_norm_epsilon", 1e-12);
  check_flag(f, "nomic-bert.attention.causal", false);
  check_name(f, names[0], "blk.1.ffn_gate.weight");
  check_name(f, names[1], "token_embd_norm.bias");
  ga_model_file_destroy(f);
}

static void refuse_config(const char *config, ga_status want, const char *part) {
  ga_model_file *f;
  static const char *const names[] = {"model.norm.weight", "norm.weight"};
  assert_error(open_folder(config, 1, names, &f), want, part);
  assert_null(f);
}

static void test_config_refused(void **state) {
  static const char *const twice[] = {"model.norm.weight", "norm.weight"};
  ga_model_file *f;
  (void)state;
  refuse_config("{}", GA_ERR_FORMAT, "/config.json: 'model_type' is missing; must be a text");
  refuse_config(
      "{\"model_type\":\"mamba\"}", GA_ERR_UNSUPPORTED,
      "'model_type' is 'mamba'; must be one of llama, ministral3, mistral, qwen2, qwen3, "
      "gemma, gemma2, gemma3_text, "
      "gemma3, phi3, phi, granite, smollm3, cohere, cohere2, olmo2, olmo3, starcoder2, stablelm, nemotron, gpt_neox, "
      "gpt2, nomic_bert, bert");
  refuse_config("{\"model_type\":\"llama\"}", GA_ERR_FORMAT, "/config.json: 'hidden_size': is missing; must be there");
  refuse_config("{\"model_type\":\"llama\",\"hidden_size\":\"8\"}", GA_ERR_FORMAT,
                "'hidden_size': is a text; must be an integer");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"rope_theta\":\"x\"}", GA_ERR_FORMAT,
                "'rope_theta': is a text; must be a number");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"rope_scaling\":{\"type\":\"dynamic\"}}", GA_ERR_UNSUPPORTED,
                "'rope_scaling.type': is 'dynamic'; must be default, none, linear, yarn, llama3 or longrope");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"hidden_act\":\"gelu\"}", GA_ERR_UNSUPPORTED, "null or \"silu\"");
  refuse_config("{\"model_type\":\"llama\"," BASE
                ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0.5,\"attention_factor\":1}}",
                GA_ERR_FORMAT, "'factor' of yarn is 0.5; must be at least 1");
  refuse_config("{\"model_type\":\"llama\"," BASE
                ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"attention_factor\":\"x\"}}",
                GA_ERR_FORMAT, "'attention_factor': is a text; must be a number");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"quantization_config\":{}}", GA_ERR_UNSUPPORTED,
                "'quantization_config': is an object with 'quant_method' ''; GA has only models where it is absent");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"quantization_config\":{\"quant_method\":\"gptq\"}}",
                GA_ERR_UNSUPPORTED, "with 'quant_method' 'gptq'; GA has only models");
  refuse_config("{\"model_type\":\"llama\"," BASE
                ",\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}}",
                GA_ERR_UNSUPPORTED, "'quantization_config': has 'fmt' 'e5m2'; must be absent or e4m3");
  refuse_config("{\"model_type\":\"llama\"," BASE
                ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,64]}}",
                GA_ERR_UNSUPPORTED, "'weight_block_size' an array of 2, 128 x 64; must be absent, null or [128, 128]");
  refuse_config("{\"model_type\":\"llama\"," BASE
                ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":128}}",
                GA_ERR_UNSUPPORTED, "'weight_block_size' an integer of 0, 0 x 0; must be absent, null or [128, 128]");
  refuse_config("{\"model_type\":\"qwen2\"," BASE ",\"use_sliding_window\":true}", GA_ERR_UNSUPPORTED,
                "'use_sliding_window': is true");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[]}", GA_ERR_FORMAT,
                "'eos_token_id': is missing; must be an integer");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[1,\"x\"]}", GA_ERR_FORMAT,
                "'eos_token_id': is a text");
  refuse_config("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"mamba\"}}", GA_ERR_UNSUPPORTED,
                "'text_config.model_type' of mistral3 must be mistral, ministral3 or mistral4");
  refuse_config("{\"model_type\":\"mistral3\"}", GA_ERR_FORMAT, "'text_config' is missing; must be an object");
  refuse_config("{\"model_type\":\"gemma3\"}", GA_ERR_FORMAT, "'text_config' is missing; must be an object");
  refuse_config("{\"model_type\":\"gemma3_text\",\"query_pre_attn_scalar\":0}", GA_ERR_FORMAT, "is 0; must be above 0");
  refuse_config("{\"model_type\":\"gemma3_text\",\"layer_types\":[\"odd\"]}", GA_ERR_UNSUPPORTED, "element 0 is 'odd'");
  refuse_config("{\"model_type\":\"gpt2\",\"n_embd\":-8,\"n_layer\":2,\"n_head\":2,\"vocab_size\":9}", GA_ERR_FORMAT,
                "'n_embd' is -8");
  refuse_config(
      "{\"model_type\":\"bert\"," BASE ",\"position_embedding_type\":\"relative_key\"}", GA_ERR_UNSUPPORTED,
      "'position_embedding_type': is another value; GA has only models where it is absent, null or \"absolute\"");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"partial_rotary_factor\":0.5}", GA_ERR_UNSUPPORTED, "null or 1");
  refuse_config("[]", GA_ERR_FORMAT, "/config.json: JSON is an array; must be an object");
  refuse_config("", GA_ERR_FORMAT, "/config.json: JSON, line 1");
  assert_error(open_folder("{\"model_type\":\"llama\"," BASE "}", 2, twice, &f), GA_ERR_FORMAT,
               "'output_norm.weight' is there twice");
}

/* What changes the mathematics in a way that GA does not have, one of each. */
static void test_families_refused(void **state) {
  static const struct {
    const char *config;
    ga_status want;
    const char *part;
  } all[] = {
      {"{\"model_type\":\"mistral\"," BASE ",\"sliding_window\":\"x\"}", GA_ERR_FORMAT,
       "'sliding_window': is a text; must be an integer"},
      {"{\"model_type\":\"gemma\"," BASE ",\"hidden_act\":\"relu\"}", GA_ERR_UNSUPPORTED,
       "'hidden_act': is another value; GA has only models where it is absent, null or [\"gelu\", "
       "\"gelu_pytorch_tanh\"]"},
      {"{\"model_type\":\"gemma2\"," BASE ",\"attn_logit_softcapping\":[]}", GA_ERR_FORMAT,
       "'attn_logit_softcapping': is an array; must be a number"},
      {"{\"model_type\":\"gemma2\"," BASE ",\"use_bidirectional_attention\":true}", GA_ERR_UNSUPPORTED,
       "'use_bidirectional_attention': is true"},
      {"{\"model_type\":\"granite\"," BASE ",\"attention_bias\":true}", GA_ERR_UNSUPPORTED,
       "'attention_bias': is true"},
      {"{\"model_type\":\"granite\"," BASE ",\"logits_scaling\":\"8\"}", GA_ERR_FORMAT,
       "'logits_scaling': is a text; must be a number"},
      {"{\"model_type\":\"smollm3\"," BASE ",\"no_rope_layers\":[1,\"x\"]}", GA_ERR_FORMAT,
       "'no_rope_layers': is a text; must be an integer or an array of integers"},
      {"{\"model_type\":\"smollm3\"," BASE ",\"use_sliding_window\":true}", GA_ERR_UNSUPPORTED,
       "'use_sliding_window': is true"},
      {"{\"model_type\":\"phi3\"," BASE ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":4}}", GA_ERR_FORMAT,
       "'rope_scaling.short_factor': is an integer; must be an array of numbers"},
      {"{\"model_type\":\"phi3\"," BASE ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[true]}}",
       GA_ERR_FORMAT, "'rope_scaling.long_factor': is true; must be an array of numbers"},
      {"{\"model_type\":\"cohere2\"," BASE ",\"use_qk_norm\":true}", GA_ERR_UNSUPPORTED, "'use_qk_norm': is true"},
      {"{\"model_type\":\"phi\"," BASE ",\"hidden_act\":\"relu\"}", GA_ERR_UNSUPPORTED,
       "null or [\"gelu_new\", \"gelu_pytorch_tanh\"]"},
      {"{\"model_type\":\"stablelm\"," BASE ",\"partial_rotary_factor\":1.5}", GA_ERR_FORMAT,
       "'partial_rotary_factor': is 1.5; must be above 0 and at most 1"},
      {"{\"model_type\":\"nemotron\"," BASE ",\"hidden_act\":\"silu\"}", GA_ERR_UNSUPPORTED, "null or \"relu2\""},
      {"{\"model_type\":\"nomic_bert\"," BASE ",\"num_experts\":8}", GA_ERR_UNSUPPORTED,
       "'num_experts': is another value; GA has only models where it is absent, null or 0"},
      {"{\"model_type\":\"nomic_bert\"," BASE ",\"activation_function\":\"gelu\"}", GA_ERR_UNSUPPORTED,
       "null or \"swiglu\""},
      {"{\"model_type\":\"nomic_bert\",\"n_embd\":8}", GA_ERR_FORMAT, "'n_layer': is missing; must be there"},
      {"{\"model_type\":\"gpt_neox\"," BASE ",\"rotary_pct\":0}", GA_ERR_FORMAT,
       "'rotary_pct': is 0; must be above 0 and at most 1"},
      {"{\"model_type\":\"gpt_neox\"," BASE ",\"hidden_act\":\"relu\"}", GA_ERR_UNSUPPORTED,
       "null or [\"gelu\", \"gelu_fast\"]"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"pad_token_id\":-1}", GA_ERR_FORMAT,
       "'pad_token_id' is an integer -1"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"pad_token_id\":9223372036854775807}", GA_ERR_FORMAT,
       "'pad_token_id' is an integer 9223372036854775807"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"pad_token_id\":\"x\"}", GA_ERR_FORMAT, "'pad_token_id': is a text"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"max_position_embeddings\":2}", GA_ERR_FORMAT,
       "'max_position_embeddings' is an integer 2; must be an integer from 3"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"position_embedding_type\":\"relative_key\"}", GA_ERR_UNSUPPORTED,
       "'position_embedding_type'"},
      {"{\"model_type\":\"xlm-roberta\"," BASE ",\"lora_adaptations\":[\"x\"]}", GA_ERR_UNSUPPORTED,
       "'lora_adaptations'"},
      {"{\"model_type\":\"modernbert\"," BASE ",\"norm_bias\":true}", GA_ERR_UNSUPPORTED, "'norm_bias': is true"},
      {"{\"model_type\":\"modernbert\"," BASE ",\"mlp_bias\":true}", GA_ERR_UNSUPPORTED, "'mlp_bias': is true"},
      {"{\"model_type\":\"modernbert\"," BASE ",\"attention_bias\":true}", GA_ERR_UNSUPPORTED,
       "'attention_bias': is true"},
      {"{\"model_type\":\"modernbert\"," BASE ",\"hidden_activation\":\"silu\"}", GA_ERR_UNSUPPORTED,
       "null or \"gelu\""},
      {"{\"model_type\":\"modernbert\"," BASE ",\"layer_types\":[\"x\"]}", GA_ERR_UNSUPPORTED, "element 0 is 'x'"},
      {"{\"model_type\":\"bert\"," BASE ",\"position_embedding_type\":\"alibi\"}", GA_ERR_FORMAT,
       "'feed_forward_type': is missing"},
      {"{\"model_type\":\"bert\"," BASE ",\"position_embedding_type\":\"alibi\",\"feed_forward_type\":\"reglu\"}",
       GA_ERR_UNSUPPORTED, "'feed_forward_type'"},
      {"{\"model_type\":\"ministral3\"," BASE "}", GA_ERR_FORMAT, "'rope_parameters.mscale': is missing"},
      {"{\"model_type\":\"ministral3\"," BASE ",\"rope_parameters\":{\"mscale\":2,\"mscale_all_dim\":1}}",
       GA_ERR_UNSUPPORTED, "'rope_parameters.mscale': is another value"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) refuse_config(all[i].config, all[i].want, all[i].part);
}

static void expect_ends(const char *config, const char *generation, int n, const int64_t *want) {
  ga_model_file *f;
  const ga_meta *ids;
  put_file_text("generation_config.json", generation);
  assert_ok(open_folder(config, 0, NULL, &f));
  assert_ok(ga_model_file_array_or_null(f, "ga.eos_token_ids", GA_META_INTS, &ids));
  if ((ids ? ga_meta_count(ids) : 0) != n)
    fail_msg("%s: %lld ids", generation, ids ? (long long)ga_meta_count(ids) : 0);
  for (int i = 0; i < n; i++) {
    int64_t id = 0;
    assert_ok(ga_meta_int(ids, i, &id));
    assert_int_equal(id, want[i]);
  }
  if (n) expect_int(f, "tokenizer.ggml.eos_token_id", want[0]);
  ga_model_file_destroy(f);
}

/* Ends of generation are those of both files; ids below 0 are none. */
static void test_ends_of_generation(void **state) {
  static const char eos_2[] = "{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":2}",
                    none[] = "{\"model_type\":\"llama\"," BASE "}",
                    minus[] = "{\"model_type\":\"llama\"," BASE
                              ",\"eos_token_id\":[-1,5],\"bos_token_id\":-1,\"pad_token_id\":-1}",
                    nested[] = "{\"model_type\":\"gemma3\",\"text_config\":{\"eos_token_id\":[4]}}";
  ga_model_file *f;
  (void)state;
  expect_ends(eos_2, "{\"eos_token_id\":[2,8]}", 2, (const int64_t[]){2, 8});
  expect_ends(eos_2, "{\"eos_token_id\":8,\"temperature\":0.5}", 2, (const int64_t[]){2, 8});
  expect_ends(eos_2, "{\"eos_token_id\":null}", 1, (const int64_t[]){2});
  expect_ends(eos_2, "{\"eos_token_id\":-1,\"unknown\":1}", 1, (const int64_t[]){2});
  expect_ends(none, "{\"eos_token_id\":[8]}", 1, (const int64_t[]){8});
  expect_ends(none, "{}", 0, NULL);
  expect_ends(minus, "{}", 1, (const int64_t[]){5});
  expect_ends(nested, "{\"eos_token_id\":1}", 2, (const int64_t[]){4, 1});
  assert_ok(open_folder(minus, 0, NULL, &f));
  assert_null(ga_model_file_meta(f, "tokenizer.ggml.bos_token_id"));
  assert_null(ga_model_file_meta(f, "tokenizer.ggml.padding_token_id"));
  ga_model_file_destroy(f);
  static const char *const refused[][2] = {
      {"{\"eos_token_id\":\"x\"}", "generation_config.json: 'eos_token_id': is a text"},
      {"{\"eos_token_id\":99999999999999999999}", "'eos_token_id': is an integer beyond 64 bits"},
      {"{\"num_beams\":4}", "generation_config.json: 'num_beams' is 4; must be absent, empty or one of [1]"},
      {"{\"suppress_tokens\":[1]}", "'suppress_tokens' is an array"},
      {"{\"stop_strings\":[\"x\"]}", "'stop_strings' is an array"},
      {"{\"typical_p\":0.5}", "'typical_p' is 0.5"},
  };
  for (size_t i = 0; i < GA_COUNT_OF(refused); i++) {
    put_file_text("generation_config.json", refused[i][0]);
    const ga_status status = open_folder(eos_2, 0, NULL, &f);
    assert_error(status, status, refused[i][1]);
    assert_int_not_equal(status, GA_OK);
  }
  put_file_text("generation_config.json",
                "{\"num_beams\":1,\"suppress_tokens\":[],\"typical_p\":1.0,\"max_length\":4096,\"max_time\":NaN}");
  assert_ok(open_folder(eos_2, 0, NULL, &f));
  ga_model_file_destroy(f);
  (void)unlink(in_folder("generation_config.json"));
}

static void expect_templates(const char *plain, const char *tools, const char *error) {
  const struct {
    const char *key, *want;
  } all[] = {{"tokenizer.chat_template", plain},
             {"tokenizer.chat_template.tool_use", tools},
             {"ga.chat_template_error", error}};
  ga_model_file *f;
  assert_ok(open_folder("{\"model_type\":\"llama\"," BASE "}", 0, NULL, &f));
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_text text;
    assert_ok(ga_model_file_text_or(f, all[i].key, "", &text));
    if (text.bytes != strlen(all[i].want) || memcmp(text.data, all[i].want, text.bytes))
      fail_msg("%s is '%.*s', must be '%s'", all[i].key, (int)text.bytes, text.data, all[i].want);
  }
  ga_model_file_destroy(f);
}

/* Where a folder's chat templates may stand; a broken one leaves the model usable. */
static void test_templates(void **state) {
  (void)state;
  expect_templates("", "", "");
  put_file_text("chat_template.json", "{\"chat_template\":\"J\"}");
  expect_templates("J", "", "");
  put_file_text("tokenizer_config.json",
                "{\"chat_template\":[{\"name\":\"rag\",\"template\":\"R\"},{\"name\":\"tool_use\","
                "\"template\":\"T\"},{\"name\":\"default\",\"template\":\"D\"}]}");
  expect_templates("D", "T", "");
  put_file_text("tokenizer_config.json", "{\"chat_template\":{\"tool_use\":\"T\",\"default\":\"D\"}}");
  expect_templates("D", "T", "");
  put_file_text("tokenizer_config.json", "{\"chat_template\":{\"tool_use\":\"T\"}}");
  expect_templates("T", "T", "");
  put_file_text("tokenizer_config.json", "{\"chat_template\":\"one\"}");
  expect_templates("one", "", "");
  put_file_text("tokenizer_config.json", "{\"chat_template\":NaN}");
  expect_templates("", "",
                   "tokenizer_config.json: chat_template is no finite number; must be a text, or a list of templates");
  put_file_text("chat_template.jinja", "own");
  expect_templates("own", "", "");
  assert_int_equal(mkdir(in_folder("additional_chat_templates"), 0700), 0);
  put_file_text("additional_chat_templates/tool_use.jinja", "tools");
  expect_templates("own", "tools", "");
  static const char *const made[] = {"additional_chat_templates/tool_use.jinja", "chat_template.jinja",
                                     "tokenizer_config.json", "chat_template.json"};
  for (size_t i = 0; i < GA_COUNT_OF(made); i++) (void)unlink(in_folder(made[i]));
  assert_int_equal(rmdir(in_folder("additional_chat_templates")), 0);
}

#define ROPE(text) "{\"model_type\":\"llama\"," BASE "," text "}"

/* A factor without a type, parameters of several kinds of layers, and what GA does not have. */
static void test_rope_objects(void **state) {
  static const char *const linear[] = {
      ROPE("\"rope_scaling\":{\"factor\":8}"),
      ROPE("\"rope_parameters\":{\"factor\":8,\"rope_theta\":10000}"),
      ROPE("\"rope_scaling\":null,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":8},"
           "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":5}}"),
      ROPE(
          "\"rope_scaling\":{\"type\":\"linear\",\"factor\":8.0,\"finetuned\":true},\"rope_parameters\":{\"rope_type\":"
          "\"yarn\",\"beta_fast\":16}"),
      ROPE("\"rope_scaling\":{\"rope_type\":\"linear\",\"type\":\"yarn\",\"factor\":[8,8]}"),
  };
  static const char *const refused[][2] = {
      {ROPE("\"rope_scaling\":{\"factor\":[8,4]}"), "'rope_scaling.factor': is an array whose elements 0 and 1 differ"},
      {ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"alpha\":2}"), "'rope_scaling.alpha' is not known"},
      {ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"truncate\":true,\"attn_factor\":0.5}"),
       "'rope_scaling.attn_factor' is 0.5"},
      {ROPE("\"rope_scaling\":{\"type\":\"yarn\",\"truncate\":0}"),
       "'rope_scaling.truncate': is an integer; must be true"},
      {ROPE("\"rope_parameters\":{\"mrope_section\":[1,2]}"), "'rope_parameters.mrope_section' is not known"},
      {ROPE("\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}"),
       "'rope_parameters.sliding_attention.rope_type': is linear; must be default"},
      {ROPE("\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"x\"}}"),
       "'rope_parameters.full_attention.rope_type': is 'x'"},
      {ROPE("\"rope_scaling\":NaN"), "'rope_scaling': is no finite number; must be an object"},
      {"{\"model_type\":\"qwen3\"," BASE ",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
       "'layer_types': element 1 is 'sliding_attention'; must be full_attention"},
      {"{\"model_type\":\"llama\"," BASE ",\"head_dim\":[2,4]}",
       "'head_dim': is an array whose elements 0 and 1 differ"},
  };
  ga_model_file *f;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(linear); i++) {
    const ga_status status = open_folder(linear[i], 0, NULL, &f);
    if (status) fail_msg("%s: %s", linear[i], ga_error_text());
    check_text(f, "llama.rope.scaling.type", "linear");
    check_float(f, "llama.rope.scaling.factor", 8);
    ga_model_file_destroy(f);
  }
  for (size_t i = 0; i < GA_COUNT_OF(refused); i++) {
    const ga_status status = open_folder(refused[i][0], 0, NULL, &f);
    assert_error(status, status, refused[i][1]);
    assert_int_not_equal(status, GA_OK);
  }
  /* A length beside the object comes before one inside it, as in transformers. */
  assert_ok(open_folder(
      ROPE("\"original_max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,"
           "\"original_max_position_embeddings\":32},\"time_step_limit\":[0.0,Infinity],\"rope_theta\":[5,5.0]"),
      0, NULL, &f));
  expect_int(f, "llama.rope.scaling.original_context_length", 64);
  check_float(f, "llama.rope.freq_base", 5);
  ga_model_file_destroy(f);
}

/* Magnitudes of yarn that GA does not have, wherever they stand. */
static void test_yarn_magnitudes_refused(void **state) {
  static const char *const fields[] = {"mscale", "mscale_all_dim"}, *const objects[] = {"rope_scaling",
                                                                                        "rope_parameters"};
  char config[512], part[128];
  (void)state;
  for (int i = 0; i < 4; i++) {
    const char *field = fields[i / 2], *object = objects[i % 2];
    (void)snprintf(config, sizeof config,
                   "{\"model_type\":\"llama\"," BASE ",\"%s\":{\"rope_type\":\"yarn\",\"%s\":0.707}}", object, field);
    (void)snprintf(part, sizeof part, "'%s.%s': is a real number", object, field);
    refuse_config(config, GA_ERR_UNSUPPORTED, part);
  }
}

/* No table may add more than the list has room for; every alternative row at once is the most there can be. */
static void test_tables_fit(void **state) {
  (void)state;
  for (int i = 0; ga_hf_arch_at(i); i++) {
    const ga_hf_arch *a = ga_hf_arch_at(i);
    int rows = 0;
    for (const ga_hf_key *row = a->keys; row->json; row++) rows += row->key != NULL;
    for (const ga_hf_key *row = a->keys_2; row && row->json; row++) rows += row->key != NULL;
    assert_in_range(rows, 1, GA_HF_MOST_KEYS - 12); /* 12: what hf_config.c adds of its own */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ends_of_generation),
      cmocka_unit_test(test_templates),
      cmocka_unit_test(test_rope_objects),
      cmocka_unit_test(test_llama),
      cmocka_unit_test(test_qwen),
      cmocka_unit_test(test_config_gemma3),
      cmocka_unit_test(test_gpt2_and_bert),
      cmocka_unit_test(test_config_refused),
      cmocka_unit_test(test_tables_fit),
      cmocka_unit_test(test_config_mistral),
      cmocka_unit_test(test_gemma_1_and_2),
      cmocka_unit_test(test_kv_heads_null),
      cmocka_unit_test(test_defaults_of_classes),
      cmocka_unit_test(test_yarn_magnitudes_refused),
      cmocka_unit_test(test_granite_and_smollm3),
      cmocka_unit_test(test_integer_arrays),
      cmocka_unit_test(test_phi3),
      cmocka_unit_test(test_layer_norm_families),
      cmocka_unit_test(test_nomic_bert),
      cmocka_unit_test(test_families_refused),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
