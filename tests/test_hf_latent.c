/* config.json and tensor names of models with latent attention. */
#include "tests/hf_meta.h"

static void test_deepseek(void **state) {
  static const char *const names[] = {"model.layers.3.self_attn.kv_a_proj_with_mqa.weight",
                                      "model.layers.3.self_attn.kv_a_layernorm.weight",
                                      "model.layers.3.self_attn.kv_b_proj.weight",
                                      "model.layers.3.self_attn.q_b_proj.weight",
                                      "model.layers.3.mlp.gate.weight",
                                      "model.layers.3.mlp.gate.e_score_correction_bias",
                                      "model.layers.3.mlp.shared_experts.up_proj.weight"};
  static const char *const gguf[] = {
      "blk.3.attn_kv_a_mqa.weight", "blk.3.attn_kv_a_norm.weight", "blk.3.attn_kv_b.weight",   "blk.3.attn_q_b.weight",
      "blk.3.ffn_gate_inp.weight",  "blk.3.exp_probs_b.bias",      "blk.3.ffn_up_shexp.weight"};
  ga_model_file *f;
  bool flag;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"deepseek_v3\"," BASE
                        ",\"q_lora_rank\":48,\"kv_lora_rank\":64,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":16,"
                        "\"v_head_dim\":24,\"n_routed_experts\":16,\"num_experts_per_tok\":4,\"n_group\":4,"
                        "\"topk_group\":2,\"n_shared_experts\":1,\"moe_intermediate_size\":8,"
                        "\"first_k_dense_replace\":1,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\","
                        "\"norm_topk_prob\":true,\"num_nextn_predict_layers\":1,\"rope_scaling\":{\"type\":\"yarn\","
                        "\"factor\":40,\"mscale\":1.0,\"mscale_all_dim\":0.5,"
                        "\"original_max_position_embeddings\":4096}}",
                        7, names, &f));
  check_text(f, "general.architecture", "deepseek2");
  expect_int(f, "deepseek2.attention.q_lora_rank", 48);
  expect_int(f, "deepseek2.attention.kv_lora_rank", 64);
  expect_int(f, "deepseek2.attention.value_length", 24);
  expect_int(f, "deepseek2.rope.dimension_count", 16);
  expect_int(f, "ga.qk_nope_head_dim", 32);
  expect_int(f, "deepseek2.expert_group_count", 4);
  expect_int(f, "deepseek2.expert_group_used_count", 2);
  expect_int(f, "deepseek2.expert_shared_count", 1);
  expect_int(f, "deepseek2.leading_dense_block_count", 1);
  check_float(f, "deepseek2.expert_weights_scale", 2.5);
  check_float(f, "ga.mscale", 1);
  check_float(f, "ga.mscale_all_dim", 0.5);
  check_text(f, "ga.scoring_func", "sigmoid");
  assert_ok(ga_model_file_bool(f, "ga.rope_interleave", &flag));
  assert_true(flag);
  assert_null(ga_model_file_meta(f, "ga.rope_layout"));
  assert_null(ga_model_file_meta(f, "deepseek2.nextn_predict_layers")); /* they follow num_hidden_layers */
  for (int i = 0; i < 7; i++) check_name(f, names[i], gguf[i]);
  ga_model_file_destroy(f);
  assert_ok(
      open_folder("{\"model_type\":\"deepseek_v2\"," BASE ",\"q_lora_rank\":null,\"n_group\":null}", 0, names, &f));
  assert_null(ga_model_file_meta(f, "deepseek2.attention.q_lora_rank"));
  assert_null(ga_model_file_meta(f, "deepseek2.expert_group_count"));
  check_text(f, "ga.topk_method", "greedy");
  check_text(f, "ga.scoring_func", "softmax");
  check_float(f, "ga.mscale_all_dim", 0);
  ga_model_file_destroy(f);
}

/* Fields that change the mathematics in a way that GA does not have. */
static void test_deepseek_refused(void **state) {
  static const struct {
    const char *config;
    ga_status want;
    const char *part;
  } all[] = {
      {"{\"model_type\":\"deepseek_v32\"," BASE "}", GA_ERR_UNSUPPORTED,
       "'model_type' is 'deepseek_v32'; must be one of"},
      {"{\"model_type\":\"glm_moe_dsa\"," BASE "}", GA_ERR_UNSUPPORTED,
       "'model_type' is 'glm_moe_dsa'; must be one of"},
      {"{\"model_type\":\"deepseek_v3\"," BASE ",\"attention_bias\":true}", GA_ERR_UNSUPPORTED,
       "'attention_bias': is true"},
      {"{\"model_type\":\"deepseek_v3\"," BASE ",\"scoring_func\":\"softmax\"}", GA_ERR_UNSUPPORTED,
       "'scoring_func': is another value; GA has only models where it is absent, null or \"sigmoid\""},
      {"{\"model_type\":\"deepseek_v3\"," BASE ",\"moe_layer_freq\":2}", GA_ERR_UNSUPPORTED,
       "'moe_layer_freq': is another value; GA has only models where it is absent, null or 1"},
      {"{\"model_type\":\"deepseek_v2\"," BASE ",\"topk_method\":\"noaux_tc\"}", GA_ERR_UNSUPPORTED,
       "'topk_method': is another value"},
      {"{\"model_type\":\"deepseek_v2\"," BASE ",\"kv_lora_rank\":\"x\"}", GA_ERR_FORMAT,
       "'kv_lora_rank': is a text; must be an integer"},
      {"{\"model_type\":\"glm4_moe_lite\"," BASE ",\"mlp_layer_types\":[\"sparse\",\"dense\"]}", GA_ERR_UNSUPPORTED,
       "'mlp_layer_types': element 1 is dense behind sparse ones; must be first"},
      {"{\"model_type\":\"glm4_moe_lite\"," BASE ",\"mlp_layer_types\":[\"dense\",7]}", GA_ERR_UNSUPPORTED,
       "'mlp_layer_types': element 1 is 'no text'; must be dense or sparse"},
      {"{\"model_type\":\"glm4_moe_lite\"," BASE ",\"partial_rotary_factor\":0.5}", GA_ERR_UNSUPPORTED,
       "'partial_rotary_factor': is another value"},
      {"{\"model_type\":\"mistral4\"," BASE "}", GA_ERR_FORMAT, "'rope.rope_type': is missing; must be there"},
      {"{\"model_type\":\"mistral4\"," BASE ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"factor\":4,"
       "\"original_max_position_embeddings\":16}}",
       GA_ERR_FORMAT, "'rope_parameters.llama_4_scaling_beta': is missing; must be there"},
      {"{\"model_type\":\"deepseek_v2\"," BASE ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":\"x\"}}",
       GA_ERR_FORMAT, "'rope_scaling.mscale': is a text; must be a number"},
  };
  static const char *const names[] = {"model.norm.weight"};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_model_file *f;
    assert_error(open_folder(all[i].config, 1, names, &f), all[i].want, all[i].part);
    assert_null(f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_deepseek), cmocka_unit_test(test_deepseek_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
