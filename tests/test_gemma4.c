/* Sizes of Gemma 4 that differ between layers: from config.json, from GGUF, and hostile ones. */
#include "model/arch/arch.h"
#include "tests/gguf_files.h"
#include "tests/hf_meta.h"

#define ROPE                                                                                    \
  "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e6," \
  "\"partial_rotary_factor\":0.25},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}"
#define GEMMA(fields)                                                                                   \
  "{\"model_type\":\"gemma4_text\",\"hidden_size\":8,\"num_hidden_layers\":4,\"intermediate_size\":16," \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":4,\"vocab_size\":32,"               \
  "\"vocab_size_per_layer_input\":32,\"layer_types\":[\"sliding_attention\",\"full_attention\","        \
  "\"sliding_attention\",\"full_attention\"]," ROPE fields "}"

static const char *const no_names[] = {"model.norm.weight"};

static void is_array(const ga_model_file *f, const char *key, const int64_t want[4]) {
  const ga_meta *meta = ga_model_file_meta(f, key);
  assert_non_null(meta);
  assert_int_equal(ga_meta_count(meta), 4);
  for (int64_t i = 0; i < 4; i++) expect_element(meta, i, want[i]);
}

/* Fields of checkpoints, and the list by layer that transformers writes. */
static void test_of_folder(void **state) {
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder(GEMMA(",\"global_head_dim\":16,\"num_global_key_value_heads\":1,\"attention_k_eq_v\":true"), 1,
                        no_names, &f));
  check_text(f, "general.architecture", "gemma4");
  expect_int(f, "gemma4.attention.key_length", 16);
  expect_int(f, "gemma4.attention.key_length_swa", 4);
  expect_int(f, "gemma4.rope.dimension_count_swa", 4);
  is_array(f, "gemma4.attention.head_count_kv", (int64_t[]){2, 1, 2, 1});
  expect_int(f, "gemma4.feed_forward_length", 16);
  expect_int(f, "gemma4.expert_count", 0); /* without enable_moe_block */
  check_float(f, "ga.rope_proportion", 0.25);
  ga_model_file_destroy(f);
  assert_ok(open_folder(GEMMA(",\"num_global_key_value_heads\":1"), 1, no_names, &f));
  expect_int(f, "gemma4.attention.head_count_kv", 2); /* the field counts with attention_k_eq_v alone */
  expect_int(f, "gemma4.attention.key_length", 512);
  ga_model_file_destroy(f);
  assert_ok(open_folder(GEMMA(",\"per_layer_config\":{\"1\":{\"head_dim\":16,\"num_key_value_heads\":1},\"3\":{"
                              "\"head_dim\":16,\"num_key_value_heads\":1}},\"num_kv_shared_layers\":2,"
                              "\"use_double_wide_mlp\":true,\"enable_moe_block\":true,\"num_experts\":8"),
                        1, no_names, &f));
  expect_int(f, "gemma4.attention.key_length", 16);
  is_array(f, "gemma4.attention.head_count_kv", (int64_t[]){2, 1, 2, 1});
  is_array(f, "gemma4.feed_forward_length", (int64_t[]){16, 16, 32, 32});
  expect_int(f, "gemma4.attention.shared_kv_layers", 2);
  expect_int(f, "gemma4.expert_count", 8);
  ga_model_file_destroy(f);
}

static void test_folder_refused(void **state) {
  static const struct {
    const char *config;
    ga_status want;
    const char *part;
  } all[] = {
      {GEMMA(",\"per_layer_config\":7"), GA_ERR_FORMAT, "'per_layer_config': is an integer; must be an object"},
      {GEMMA(",\"per_layer_config\":{\"1\":[]}"), GA_ERR_FORMAT, "'per_layer_config.1': is an array"},
      {GEMMA(",\"per_layer_config\":{\"1\":{\"sliding_window\":3}}"), GA_ERR_UNSUPPORTED,
       "'per_layer_config.1.sliding_window' is not known"},
      {GEMMA(",\"per_layer_config\":{\"1\":{\"head_dim\":\"x\"}}"), GA_ERR_FORMAT,
       "'head_dim': is a text; must be an integer"},
      {GEMMA(",\"per_layer_config\":{\"1\":{\"head_dim\":16}}"), GA_ERR_UNSUPPORTED,
       "'head_dim' is 16 and 4; must be one number for all layers of a kind"},
      {GEMMA(",\"global_head_dim\":0"), GA_ERR_FORMAT, "'global_head_dim' is 0; must be 1 to"},
      {GEMMA(",\"vocab_size_per_layer_input\":31"), GA_ERR_UNSUPPORTED, "'vocab_size_per_layer_input' is 31; GA has"},
      {GEMMA(",\"use_double_wide_mlp\":1"), GA_ERR_FORMAT, "'use_double_wide_mlp': is an integer; must be true"},
      {GEMMA(",\"use_bidirectional_attention\":\"all\""), GA_ERR_UNSUPPORTED, "'use_bidirectional_attention': is"},
      {GEMMA(",\"hidden_activation\":\"relu\""), GA_ERR_UNSUPPORTED, "'hidden_activation': is another value"},
      {GEMMA(",\"num_hidden_layers\":513"), GA_ERR_FORMAT, "'num_hidden_layers' is 513; must be 1 to 512"},
      {"{\"model_type\":\"gemma4_text\",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\","
       "\"partial_rotary_factor\":0.25}}}",
       GA_ERR_UNSUPPORTED, "'rope_parameters.full_attention.rope_type': is another value"},
      {"{\"model_type\":\"gemma4_text\"}", GA_ERR_FORMAT,
       "'rope_parameters.full_attention.partial_rotary_factor': is missing"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_model_file *f;
    assert_error(open_folder(all[i].config, 1, no_names, &f), all[i].want, all[i].part);
    assert_null(f);
  }
}

/* --- GGUF --- */

typedef struct gemma4_file {
  int64_t kv_heads[4], widths[4], shared;
  const char *values[4]; /* names of tensors for values */
  uint8_t local[4];
} gemma4_file;

static const gemma4_file good = {.kv_heads = {2, 1, 2, 1},
                                 .widths = {16, 16, 32, 32},
                                 .shared = 2,
                                 .values = {"blk.0.attn_v.weight", "blk.1.attn_v.weight"},
                                 .local = {1, 0, 1, 0}};

static ga_status read_gguf(const gemma4_file *g, ga_hparams *p) {
  ga_gguf_writer *w = new_writer(3, 0);
  int32_t kv[4], width[4];
  for (int i = 0; i < 4; i++) kv[i] = (int32_t)g->kv_heads[i], width[i] = (int32_t)g->widths[i];
  ga_gguf_put_text(w, "general.architecture", "gemma4");
  ga_gguf_put_int(w, "gemma4.block_count", GA_META_U32, 4);
  ga_gguf_put_int(w, "gemma4.embedding_length", GA_META_U32, 8);
  ga_gguf_put_int(w, "gemma4.context_length", GA_META_U32, 64);
  ga_gguf_put_int(w, "gemma4.attention.head_count", GA_META_U32, 4);
  ga_gguf_put_array(w, "gemma4.attention.head_count_kv", GA_META_I32, 4, kv);
  ga_gguf_put_array(w, "gemma4.feed_forward_length", GA_META_I32, 4, width);
  ga_gguf_put_int(w, "gemma4.attention.key_length", GA_META_U32, 16);
  ga_gguf_put_int(w, "gemma4.attention.key_length_swa", GA_META_U32, 4);
  ga_gguf_put_int(w, "gemma4.attention.sliding_window", GA_META_U32, 8);
  ga_gguf_put_array(w, "gemma4.attention.sliding_window_pattern", GA_META_BOOL, 4, g->local);
  ga_gguf_put_int(w, "gemma4.attention.shared_kv_layers", GA_META_I32, g->shared);
  const ga_tensor table = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 8});
  ga_gguf_put_tensor(w, "token_embd.weight", &table);
  for (int i = 0; i < 4; i++)
    if (g->values[i]) ga_gguf_put_tensor(w, g->values[i], &table);
  finish_file(w, "sizes.gguf");
  ga_model_file *file = open_file("sizes.gguf");
  const ga_status status = ga_hparams_read(file, p);
  ga_model_file_destroy(file);
  return status;
}

static void test_gemma4_gguf(void **state) {
  ga_hparams p;
  (void)state;
  assert_ok(read_gguf(&good, &p));
  const ga_heads local = ga_heads_of(&p, 0), global = ga_heads_of(&p, 1);
  assert_true(local.n_kv == 2 && local.dim == 4 && local.rot_dim == 4);
  assert_true(global.n_kv == 1 && global.dim == 16 && global.v_dim == 16 && global.rot_dim == 16);
  assert_int_equal(ga_weight_dim(&p, DIM_FF, 1), 16);
  assert_int_equal(ga_weight_dim(&p, DIM_FF, 2), 32);
  assert_int_equal(ga_kv_layer(&p, 2), 0);
  assert_int_equal(ga_kv_layer(&p, 3), 1);
  assert_true(p.is_joined && !p.values_are_keys);
  assert_true(ga_arch_has_weight(&p, W_V, 1) && !ga_arch_has_weight(&p, W_V, 2) && !ga_arch_has_weight(&p, W_K, 3));
  gemma4_file keys = good;
  keys.values[1] = NULL;
  assert_ok(read_gguf(&keys, &p));
  assert_true(p.values_are_keys && !ga_arch_has_weight(&p, W_V, 1) && ga_arch_has_weight(&p, W_V, 0));
}

static void test_gemma4_gguf_refused(void **state) {
  ga_hparams p;
  (void)state;
  gemma4_file g = good;
  g.shared = 4;
  assert_error(read_gguf(&g, &p), GA_ERR_FORMAT, "'gemma4.attention.shared_kv_layers' is 4; must be from 0 to 3");
  g.shared = 3;
  assert_error(read_gguf(&g, &p), GA_ERR_FORMAT,
               "gemma4.attention.shared_kv_layers is 3: layer 1 has no window, and no layer before 1");
  g = good;
  g.kv_heads[2] = 1;
  assert_error(read_gguf(&g, &p), GA_ERR_UNSUPPORTED,
               "gemma4.attention.head_count_kv: layer 2 has 1, layer 0 has 2; layers with a window must have one");
  g = good;
  g.kv_heads[1] = g.kv_heads[3] = 3;
  assert_error(read_gguf(&g, &p), GA_ERR_SHAPE, "gemma4.attention.head_count_kv: 4 heads over 3 kv heads");
  g = good;
  g.widths[3] = 0;
  assert_error(read_gguf(&g, &p), GA_ERR_FORMAT, "gemma4.feed_forward_length");
  g = good;
  g.shared = 0;
  assert_error(read_gguf(&g, &p), GA_ERR_FORMAT, "blk.3.attn_v.weight is missing; global layers must all have it");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_folder), cmocka_unit_test(test_folder_refused),
                                     cmocka_unit_test(test_gemma4_gguf), cmocka_unit_test(test_gemma4_gguf_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
