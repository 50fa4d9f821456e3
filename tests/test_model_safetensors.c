/* safetensors files and their header's rules, config.json and names of each architecture, indexes and folders. */
#include <jansson.h>
#include <math.h>

#include "base/mem.h"
#include "model/hf.h"
#include "tests/fuzz/walk_model.h"
#include "tests/model_bytes.h"

static raw_bytes raw;

static void make_st(raw_bytes *b, const char *header, size_t data_bytes) {
  b->n = 0;
  raw_text(b, header);
  for (size_t i = 0; i < data_bytes; i++) raw_le(b, 1, i + 1);
}

static void put_st(const char *name, const char *header, size_t data_bytes) {
  make_st(&raw, header, data_bytes);
  put_file_bytes(name, raw.data, raw.n);
}

static void refuse_st(const char *header, size_t data_bytes, ga_status want, const char *part) {
  make_st(&raw, header, data_bytes);
  assert_refused(&raw, want, part);
}

#define ENTRY(name, dtype, shape, begin, end)                                                                          \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

/* --- one file ---------------------------------------------------------------------------------------------------- */

static void test_one_file(void **state) {
  ga_text text;
  const ga_model_tensor *t;
  (void)state;
  put_st("one.safetensors",
         "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY("b", "BF16", "4", 24, 32) "," ENTRY("a", "F32", "2,3", 0,
                                                                                            24) "," //
         ENTRY("empty", "F32", "0,5", 24, 24) "," ENTRY("scalar", "I8", "", 32, 33) "," ENTRY("odd", "F16", "1", 33,
                                                                                              35) "}  ",
         35);
  ga_model_file *f;
  assert_ok(ga_model_file_open(in_folder("one.safetensors"), &f));
  assert_int_equal(ga_model_file_format(f), GA_MODEL_SAFETENSORS);
  assert_int_equal(ga_model_file_tensor_count(f), 5);
  assert_string_equal(ga_model_file_tensor_at(f, 0)->name, "a"); /* in the order of the data */
  assert_string_equal(ga_model_file_tensor_at(f, 1)->name, "empty");
  assert_ok(ga_model_file_tensor(f, "a", 2, (int64_t[]){2, 3}, &t));
  assert_int_equal(t->view.dtype, GA_F32);
  assert_int_equal(t->bytes, 24);
  assert_int_equal(((const uint8_t *)t->view.data)[23], 24);
  assert_ok(ga_model_file_tensor(f, "scalar", 0, NULL, &t));
  assert_int_equal(*(const uint8_t *)t->view.data, 33);
  assert_ok(ga_model_file_tensor(f, "odd", 1, (int64_t[]){1}, &t));
  assert_int_equal(t->is_aligned, (uintptr_t)t->view.data % 2 == 0);
  assert_ok(ga_model_file_text(f, "safetensors.format", &text));
  assert_memory_equal(text.data, "pt", 2);
  walk_model(f);
  ga_model_file_close(f);
}

static void test_every_st_dtype(void **state) {
  static const struct {
    const char *name;
    ga_dtype dtype;
  } all[] = {{"F64", GA_F64},      {"F32", GA_F32},      {"F16", GA_F16}, {"BF16", GA_BF16},
             {"F8_E4M3", GA_E4M3}, {"F8_E5M2", GA_E5M2}, {"I64", GA_I64}, {"I32", GA_I32},
             {"I16", GA_I16},      {"I8", GA_I8},        {"U8", GA_U8},   {"BOOL", GA_U8}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    char header[200];
    int each = ga_dtype_info(all[i].dtype)->block_bytes;
    ga_model_file *f;
    (void)snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[1,2],\"data_offsets\":[0,%d]}}",
                   all[i].name, 2 * each);
    make_st(&raw, header, (size_t)(2 * each));
    assert_ok(ga_model_file_parse("m", raw.data, raw.n, &f));
    assert_int_equal(ga_model_file_find(f, "t")->view.dtype, all[i].dtype);
    ga_model_file_close(f);
  }
}

static void test_header_rules(void **state) {
  (void)state;
  refuse_st("{" ENTRY("a", "F32", "1", 0, 4) "," ENTRY("b", "F32", "1", 5, 9) "}", 9, GA_ERR_FORMAT,
            "m: tensor 'b' begins at 5; must be 4, where the one before it ends");
  refuse_st("{" ENTRY("a", "F32", "1", 0, 4) "," ENTRY("b", "F32", "1", 2, 6) "}", 6, GA_ERR_FORMAT,
            "begins at 2; must be 4");
  refuse_st("{" ENTRY("a", "F32", "1", 4, 8) "}", 8, GA_ERR_FORMAT, "'a' begins at 4; must be 0");
  refuse_st("{" ENTRY("a", "F32", "1", 0, 4) "}", 3, GA_ERR_FORMAT, "'a' ends at 4; the file has 3 bytes of data");
  refuse_st("{" ENTRY("a", "F32", "1", 0, 4) "}", 5, GA_ERR_FORMAT, "5 bytes of data; the tensors end at 4");
  refuse_st("{" ENTRY("a", "F32", "1", 0, 8) "}", 8, GA_ERR_FORMAT,
            "data_offsets span 8 bytes; dtype and shape take 4");
  refuse_st("{" ENTRY("a", "F32", "1", 4, 0) "}", 4, GA_ERR_FORMAT,
            "data_offsets is [4, 0]; must not end before it begins");
  refuse_st("{" ENTRY("a", "F32", "1", -4, 0) "}", 4, GA_ERR_FORMAT, "data_offsets[0] is -4; must be at least 0");
  refuse_st("{" ENTRY("a", "F32", "-1", 0, 4) "}", 4, GA_ERR_FORMAT, "dimension is -1; must be at least 0");
  refuse_st("{" ENTRY("a", "F32", "1.0", 0, 4) "}", 4, GA_ERR_FORMAT, "dimension is a real number; must be an integer");
  refuse_st("{" ENTRY("a", "F32", "4294967296,4294967296,0", 0, 0) "}", 0, GA_ERR_FORMAT,
            "their product is above 2^63");
  refuse_st("{" ENTRY("a", "U8", "9223372036854775807", 0, 9223372036854775807) "}", 4, GA_ERR_FORMAT,
            "'a' ends at 9223372036854775807; the file has 4");
  refuse_st("{" ENTRY("a", "U8", "99999999999999999999", 0, 1) "}", 1, GA_ERR_FORMAT, "too big integer");
  refuse_st("{" ENTRY("a", "U8", "1,1,1,1,1", 0, 1) "}", 1, GA_ERR_UNSUPPORTED, "shape has 5 dimensions; at most 4");
  refuse_st("{" ENTRY("a", "F4\\u001b", "2", 0, 1) "}", 1, GA_ERR_UNSUPPORTED,
            "m: tensor 'a': dtype 'F4?'; must be F64, F32");
  refuse_st("{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("a", "U8", "1", 0, 1) "}", 1, GA_ERR_FORMAT,
            "duplicate object key");
  refuse_st("{" ENTRY("", "U8", "1", 0, 1) "}", 1, GA_ERR_FORMAT, "tensor name '' (0 bytes); must have 1 to 255 bytes");
  refuse_st("{" ENTRY("a\\n", "U8", "1", 0, 1) "}", 1, GA_ERR_FORMAT, "tensor name 'a?' (2 bytes)");
}

static void test_header_form(void **state) {
  (void)state;
  refuse_st("{\"a\":3}", 0, GA_ERR_FORMAT,
            "tensor 'a': is an integer of 0; must be an object of dtype, shape and data_offsets");
  refuse_st("{\"a\":{}}", 0, GA_ERR_FORMAT, "is an object of 0; must be");
  refuse_st("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", 1, GA_ERR_FORMAT,
            "data_offsets is missing of 0");
  refuse_st("{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, GA_ERR_FORMAT,
            "dtype is an integer; must be a text");
  refuse_st("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, GA_ERR_FORMAT,
            "shape is an integer; must be an array");
  refuse_st("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, GA_ERR_FORMAT,
            "data_offsets is an array of 1");
  refuse_st("{\"__metadata__\":[]}", 0, GA_ERR_FORMAT, "__metadata__ is an array; must be an object");
  refuse_st("{\"__metadata__\":{\"k\":1}}", 0, GA_ERR_FORMAT, "__metadata__ 'k' is an integer; must be a text");
  refuse_st("{\"__metadata__\":{\"\":\"\"}}", 0, GA_ERR_FORMAT, "__metadata__ key ''; must have 1 to 255 bytes");
  refuse_st("{\"a\":", 0, GA_ERR_FORMAT, "m: header: JSON, line 1, byte 5: ");
  refuse_st("{}x", 0, GA_ERR_FORMAT, "end of file expected");
  refuse_st("{\"\\u0000\":1}", 0, GA_ERR_FORMAT, "JSON, line 1");
  refuse_st("{\"\xff\":1}", 0, GA_ERR_FORMAT, "JSON, line 1");
  make_st(&raw, "{}", 0);
  ga_store_le(raw.data, 8, 3);
  assert_refused(&raw, GA_ERR_FORMAT, "m: header of 3 bytes; must be 2 to 33554432, and the file has 2 more");
  ga_store_le(raw.data, 8, UINT64_MAX);
  assert_refused(&raw, GA_ERR_FORMAT, "header of 18446744073709551615 bytes");
  ga_store_le(raw.data, 8, 1);
  assert_refused(&raw, GA_ERR_FORMAT, "header of 1 bytes");
}

/* Deep nesting ends at jansson's limit, not at the end of the stack. */
static void test_deep_json(void **state) {
  (void)state;
  char deep[5000];
  size_t n = 0;
  memcpy(deep, "{\"a\":", 5);
  for (n = 5; n < sizeof deep - 1; n++) deep[n] = '[';
  deep[n] = 0;
  refuse_st(deep, 0, GA_ERR_FORMAT, "maximum parsing depth reached");
}

static bool survives_st(const uint8_t *data, size_t n) {
  ga_model_file *file;
  void *copy;
  ga_status status = parse_copy(data, n, &file, &copy);
  if (status == GA_OK) {
    walk_model(file);
    ga_model_file_close(file);
  } else {
    assert_null(file);
  }
  free(copy);
  return status == GA_OK;
}

static void test_st_truncations_and_bits(void **state) {
  (void)state;
  make_st(&raw, "{\"__metadata__\":{\"f\":\"pt\"}," ENTRY("a", "F32", "2,1", 0, 8) "," ENTRY("b", "I8", "", 8, 9) "}",
          9);
  assert_true(survives_st(raw.data, raw.n));
  for (size_t n = 0; n < raw.n; n++) assert_false(survives_st(raw.data, n));
  for (size_t bit = 0; bit < (raw.n - 9) * 8; bit++) {
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    (void)survives_st(raw.data, raw.n);
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

/* --- config.json ------------------------------------------------------------------------------------------------- */

#define BASE                                                                                                           \
  "\"hidden_size\":8,\"num_hidden_layers\":2,\"intermediate_size\":16,\"num_attention_heads\":4,\"vocab_size\":32"

/* Opens the folder with this config.json and tensors of one byte with these names. */
static ga_status open_model(const char *config, int n_names, const char *const *names, ga_model_file **out) {
  static char header[4096];
  int n = snprintf(header, sizeof header, "{");
  for (int i = 0; i < n_names; i++)
    n += snprintf(header + n, sizeof header - (size_t)n,
                  "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", names[i], i,
                  i + 1);
  (void)snprintf(header + n, sizeof header - (size_t)n, "}");
  put_st("model.safetensors", header, (size_t)n_names);
  put_file_text("config.json", config);
  return ga_model_file_open(test_folder, out);
}

static void check_int(const ga_model_file *f, const char *key, int64_t want) {
  int64_t n = -1;
  assert_ok(ga_model_file_int(f, key, INT64_MIN, INT64_MAX, &n));
  if (n != want) fail_msg("%s is %lld, must be %lld", key, (long long)n, (long long)want);
}

static void check_float(const ga_model_file *f, const char *key, double want) {
  double x = -1;
  assert_ok(ga_model_file_float(f, key, &x));
  if (fabs(x - want) > 1e-12 * fabs(want)) fail_msg("%s is %g, must be %g", key, x, want);
}

static void check_text(const ga_model_file *f, const char *key, const char *want) {
  ga_text t;
  assert_ok(ga_model_file_text(f, key, &t));
  assert_int_equal(t.bytes, strlen(want));
  assert_memory_equal(t.data, want, t.bytes);
}

static void check_name(const ga_model_file *f, const char *source, const char *name) {
  const ga_model_tensor *t = ga_model_file_find(f, name);
  if (!t)
    fail_msg("no %s", name);
  else
    assert_string_equal(t->source_name, source);
}

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
  assert_ok(open_model(
      "{\"model_type\":\"llama\"," BASE
      ",\"num_key_value_heads\":2,\"rms_norm_eps\":1e-05,\"rope_theta\":500000,\"head_dim\":null,"
      "\"max_position_embeddings\":8192,\"eos_token_id\":[7,9],\"bos_token_id\":1,\"tie_word_embeddings\":true,"
      "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
      "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":4096}}",
      8, names, &f));
  check_text(f, "general.architecture", "llama");
  check_int(f, "llama.embedding_length", 8);
  check_int(f, "llama.block_count", 2);
  check_int(f, "llama.feed_forward_length", 16);
  check_int(f, "llama.attention.head_count", 4);
  check_int(f, "llama.attention.head_count_kv", 2);
  check_int(f, "llama.context_length", 8192);
  check_int(f, "llama.vocab_size", 32);
  check_float(f, "llama.attention.layer_norm_rms_epsilon", 1e-5);
  check_float(f, "llama.rope.freq_base", 500000);
  check_text(f, "llama.rope.scaling.type", "llama3");
  check_float(f, "llama.rope.scaling.factor", 8);
  check_float(f, "llama.rope.scaling.low_freq_factor", 1);
  check_float(f, "llama.rope.scaling.high_freq_factor", 4);
  check_int(f, "llama.rope.scaling.original_context_length", 4096);
  check_int(f, "tokenizer.ggml.bos_token_id", 1);
  check_int(f, "tokenizer.ggml.eos_token_id", 7);
  check_text(f, "ga.rope_layout", "neox");
  check_text(f, "ga.activation", "silu");
  assert_null(ga_model_file_meta(f, "llama.attention.key_length"));
  assert_ok(ga_model_file_bool(f, "ga.tied_embeddings", &tied));
  assert_true(tied);
  assert_ok(ga_model_file_array(f, "ga.eos_token_ids", GA_META_INTS, &ids));
  assert_int_equal(ga_meta_count(ids), 2);
  check_name(f, names[0], "token_embd.weight");
  check_name(f, names[1], "blk.0.attn_q.weight");
  check_name(f, names[2], "blk.12.ffn_down.weight");
  check_name(f, names[3], "output_norm.weight");
  check_name(f, names[4], "output.weight");
  check_name(f, names[5], "blk.0.attn_output.bias");
  check_name(f, names[6], names[6]); /* a number with a leading zero is no layer */
  check_name(f, names[7], names[7]);
  ga_model_file_close(f);
}

static void test_qwen(void **state) {
  static const char *const names[] = {"model.layers.3.self_attn.k_proj.bias", "model.layers.3.self_attn.q_norm.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_model(
      "{\"model_type\":\"qwen2\"," BASE ",\"use_sliding_window\":false,\"sliding_window\":4096,"
      "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":32,\"beta_slow\":1,\"attention_factor\":1.5}}",
      2, names, &f));
  check_text(f, "qwen2.rope.scaling.type", "yarn");
  check_float(f, "qwen2.rope.scaling.yarn_beta_fast", 32);
  check_float(f, "qwen2.rope.scaling.attn_factor", 1.5);
  check_float(f, "qwen2.rope.freq_base", 10000);
  check_int(f, "qwen2.context_length", 32768);
  assert_null(ga_model_file_meta(f, "qwen2.attention.sliding_window"));
  check_name(f, names[0], "blk.3.attn_k.bias");
  check_name(f, names[1], names[1]);
  ga_model_file_close(f);
  assert_ok(open_model("{\"model_type\":\"qwen3\"," BASE ",\"head_dim\":128,\"partial_rotary_factor\":1.0,"
                       "\"rope_parameters\":{\"rope_theta\":1000000.0,\"rope_type\":\"default\"}}",
                       2, names, &f));
  check_int(f, "qwen3.attention.key_length", 128);
  check_int(f, "qwen3.attention.value_length", 128);
  check_float(f, "qwen3.rope.freq_base", 1e6);
  check_text(f, "qwen3.rope.scaling.type", "none");
  check_name(f, names[1], "blk.3.attn_q_norm.weight");
  ga_model_file_close(f);
}

static void test_gemma3(void **state) {
  static const char *const names[] = {"model.layers.5.post_attention_layernorm.weight",
                                      "model.layers.5.pre_feedforward_layernorm.weight",
                                      "model.layers.5.post_feedforward_layernorm.weight"};
  static const char *const deep_names[] = {"language_model.model.layers.5.mlp.gate_proj.weight",
                                           "vision_tower.vision_model.embeddings.patch_embedding.weight"};
  int64_t sliding[3];
  ga_model_file *f;
  bool plus_one;
  (void)state;
  assert_ok(open_model("{\"model_type\":\"gemma3_text\"," BASE
                       ",\"query_pre_attn_scalar\":256,\"rope_theta\":1000000.0,"
                       "\"rope_local_base_freq\":10000.0,\"sliding_window\":512,\"final_logit_softcapping\":null,"
                       "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
                       3, names, &f));
  check_float(f, "gemma3.attention.scale", 1.0 / 16);
  check_float(f, "gemma3.rope.freq_base", 1e6);
  check_float(f, "gemma3.rope.freq_base_swa", 1e4);
  check_int(f, "gemma3.attention.sliding_window", 512);
  assert_ok(ga_model_file_ints(f, "gemma3.attention.sliding_window_pattern", 3, 0, 1, sliding));
  assert_true(sliding[0] && !sliding[1] && sliding[2]);
  assert_ok(ga_model_file_bool(f, "ga.norm_plus_one", &plus_one));
  assert_true(plus_one);
  check_name(f, names[0], "blk.5.post_attention_norm.weight");
  check_name(f, names[1], "blk.5.ffn_norm.weight");
  check_name(f, names[2], "blk.5.post_ffw_norm.weight");
  ga_model_file_close(f);
  assert_ok(open_model("{\"model_type\":\"gemma3\",\"eos_token_id\":[1,106],\"text_config\":{\"hidden_size\":2560,"
                       "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"}}}",
                       2, deep_names, &f));
  check_text(f, "general.architecture", "gemma3");
  check_int(f, "gemma3.embedding_length", 2560);
  check_int(f, "gemma3.attention.head_count", 8);
  check_int(f, "gemma3.attention.sliding_window_pattern", 6);
  check_float(f, "gemma3.rope.freq_base", 1e6);
  check_float(f, "gemma3.rope.scaling.factor", 8);
  check_int(f, "tokenizer.ggml.eos_token_id", 1);
  check_name(f, deep_names[0], "blk.5.ffn_gate.weight");
  check_name(f, deep_names[1], deep_names[1]);
  ga_model_file_close(f);
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
      open_model("{\"model_type\":\"gpt2\",\"n_embd\":8,\"n_layer\":2,\"n_head\":2,\"vocab_size\":9,\"n_inner\":null}",
                 4, gpt2, &f));
  check_int(f, "gpt2.feed_forward_length", 32);
  check_int(f, "gpt2.context_length", 1024);
  check_float(f, "gpt2.attention.layer_norm_epsilon", 1e-5);
  assert_ok(ga_model_file_bool(f, "ga.gpt2_transposed", &flag));
  assert_true(flag);
  assert_null(ga_model_file_meta(f, "ga.rope_layout"));
  check_name(f, gpt2[0], "token_embd.weight");
  check_name(f, gpt2[1], "blk.0.attn_qkv.bias");
  check_name(f, gpt2[2], gpt2[2]); /* the causal mask, not a bias of ours */
  check_name(f, gpt2[3], "blk.11.ffn_down.weight");
  ga_model_file_close(f);
  assert_int_equal(mkdir(in_folder("1_Pooling"), 0777), 0);
  put_file_text("1_Pooling/config.json", "{\"pooling_mode_cls_token\":true,\"pooling_mode_mean_tokens\":false}");
  assert_ok(open_model("{\"model_type\":\"bert\"," BASE ",\"position_embedding_type\":\"absolute\"}", 4, bert, &f));
  check_int(f, "bert.pooling_type", 2);
  check_int(f, "tokenizer.ggml.token_type_count", 2);
  assert_ok(ga_model_file_bool(f, "bert.attention.causal", &flag));
  assert_false(flag);
  check_name(f, bert[0], "token_embd_norm.weight");
  check_name(f, bert[1], "blk.0.attn_q.weight");
  check_name(f, bert[2], "blk.0.layer_output_norm.bias");
  check_name(f, bert[3], bert[3]);
  ga_model_file_close(f);
}

static void refuse_config(const char *config, ga_status want, const char *part) {
  ga_model_file *f;
  static const char *const names[] = {"model.norm.weight", "norm.weight"};
  assert_error(open_model(config, 1, names, &f), want, part);
  assert_null(f);
}

static void test_config_refused(void **state) {
  static const char *const twice[] = {"model.norm.weight", "norm.weight"};
  ga_model_file *f;
  (void)state;
  refuse_config("{}", GA_ERR_FORMAT, "/config.json: 'model_type' is missing; must be a text");
  refuse_config("{\"model_type\":\"mamba\"}", GA_ERR_UNSUPPORTED,
                "'model_type' is 'mamba'; must be llama, qwen2, qwen3");
  refuse_config("{\"model_type\":\"llama\"}", GA_ERR_FORMAT, "/config.json: 'hidden_size': is missing; must be there");
  refuse_config("{\"model_type\":\"llama\",\"hidden_size\":\"8\"}", GA_ERR_FORMAT,
                "'hidden_size': is a text; must be an integer");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"rope_theta\":\"x\"}", GA_ERR_FORMAT,
                "'rope_theta': is a text; must be a number");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"rope_scaling\":{\"type\":\"longrope\"}}", GA_ERR_UNSUPPORTED,
                "'rope_scaling.type': is 'longrope'; must be default, none, linear, yarn or llama3");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"quantization_config\":{}}", GA_ERR_UNSUPPORTED,
                "'quantization_config': is an object; GA has only models where it is absent, null or false");
  refuse_config("{\"model_type\":\"qwen2\"," BASE ",\"use_sliding_window\":true}", GA_ERR_UNSUPPORTED,
                "'use_sliding_window': is true");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[]}", GA_ERR_FORMAT,
                "'eos_token_id': is missing; must be an integer");
  refuse_config("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[1,\"x\"]}", GA_ERR_FORMAT,
                "'eos_token_id': is a text");
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
  assert_error(open_model("{\"model_type\":\"llama\"," BASE "}", 2, twice, &f), GA_ERR_FORMAT,
               "'output_norm.weight' is there twice");
}

/* No table may add more than the list has room for; every alternative row at once is the most there can be. */
static void test_tables_fit(void **state) {
  (void)state;
  for (int i = 0; ga_hf_arch_at(i); i++) {
    const ga_hf_arch *a = ga_hf_arch_at(i);
    int rows = 0;
    for (const ga_hf_key *row = a->keys; row->json; row++) rows++;
    for (const ga_hf_key *row = a->keys_2; row && row->json; row++) rows++;
    assert_in_range(rows, 1, GA_HF_MOST_KEYS - 12); /* 12: what hf_config.c adds of its own */
  }
}

/* --- folders and indexes ----------------------------------------------------------------------------------------- */

static void write_index(const char *map) {
  char text[1000];
  (void)snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":3},\"weight_map\":{%s}}", map);
  put_file_text("model.safetensors.index.json", text);
}

static void test_index(void **state) {
  const char *index = "model.safetensors.index.json";
  ga_model_file *f;
  (void)state;
  (void)unlink(in_folder("model.safetensors"));
  put_file_text("config.json", "{\"model_type\":\"llama\"," BASE "}");
  put_file_text("tokenizer.json", "{}");
  put_st("m-1.safetensors", "{" ENTRY("model.norm.weight", "U8", "1", 0, 1) "," ENTRY("x", "U8", "1", 1, 2) "}", 2);
  put_st("m-2.safetensors", "{" ENTRY("lm_head.weight", "U8", "1", 0, 1) "}", 1);
  write_index(
      "\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\",\"model.norm.weight\":\"m-1.safetensors\"");
  const char *paths[] = {test_folder, in_folder(index)};
  for (int i = 0; i < 2; i++) {
    assert_ok(ga_model_file_open(paths[i], &f));
    assert_int_equal(ga_model_file_parts(f), 2);
    assert_int_equal(ga_model_file_tensor_count(f), 3);
    assert_int_equal(ga_model_file_find(f, "output.weight")->part, 1);
    assert_string_equal(ga_model_file_side_path(f, "tokenizer.json"), in_folder("tokenizer.json"));
    assert_null(ga_model_file_side_path(f, "tokenizer_config.json"));
    assert_null(ga_model_file_side_path(f, "/etc/passwd"));
    walk_model(f);
    ga_model_file_close(f);
  }
  write_index("\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT,
                    "m-1.safetensors: tensor 'model.norm.weight': the index says it is nowhere");
  write_index(
      "\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-2.safetensors\",\"model.norm.weight\":\"m-1.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "tensor 'x': the index says it is in m-2.safetensors");
  write_index("\"lm_head.weight\":\"m-2.safetensors\",\"gone\":\"m-2.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "weight_map names 2 tensors; the files hold 1 of them");
  write_index("\"a\":\"m-3.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_IO, "m-3.safetensors: No such file");
  write_index("\"a\":\"../m-1.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT,
                    "weight_map 'a' is '../m-1.safetensors'; must be the name of a file in the same folder");
  write_index("\"a\":\"/etc/passwd\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "must be the name of a file in the same folder");
  write_index("\"a\":3");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "weight_map 'a' is 'an integer'");
  write_index("");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "weight_map is empty");
  put_file_text(index, "{\"weight_map\":[]}");
  assert_open_fails(test_folder, GA_ERR_FORMAT, "'weight_map' is an array; must be an object");
  assert_int_equal(unlink(in_folder(index)), 0);
  assert_open_fails(test_folder, GA_ERR_IO, "neither model.safetensors nor model.safetensors.index.json");
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static long allocations_left; /* of jansson: 0 = no bound */

static void *json_alloc(size_t bytes) {
  if (allocations_left == 1) return NULL;
  if (allocations_left > 1) allocations_left--;
  return malloc(bytes);
}

/* Both allocators in turn: GA's own and jansson's. */
static void test_st_memory_runs_out(void **state) {
  static const char *const names[] = {"model.norm.weight", "lm_head.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_model("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[1,2]}", 2, names, &f));
  ga_model_file_close(f);
  json_set_alloc_funcs(json_alloc, free);
  for (int own = 0; own < 2; own++) {
    for (long n = 1;; n++) {
      assert_true(n < 10000);
      if (own)
        ga_mem_fail_after(n);
      else
        allocations_left = n;
      ga_status status = ga_model_file_open(test_folder, &f);
      ga_mem_fail_after(0);
      allocations_left = 0;
      if (status == GA_OK) break;
      assert_null(f);
      /* jansson takes a token that it had no memory for as a token that is wrong. */
      assert_true(status == GA_ERR_NOMEM || (!own && status == GA_ERR_FORMAT));
    }
    ga_model_file_close(f);
  }
  json_set_alloc_funcs(malloc, free);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_file),       cmocka_unit_test(test_every_st_dtype),
      cmocka_unit_test(test_header_rules),   cmocka_unit_test(test_header_form),
      cmocka_unit_test(test_deep_json),      cmocka_unit_test(test_st_truncations_and_bits),
      cmocka_unit_test(test_llama),          cmocka_unit_test(test_qwen),
      cmocka_unit_test(test_gemma3),         cmocka_unit_test(test_gpt2_and_bert),
      cmocka_unit_test(test_config_refused), cmocka_unit_test(test_tables_fit),
      cmocka_unit_test(test_index),          cmocka_unit_test(test_st_memory_runs_out),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
