/* Tensors that are made of others when a folder or a file is opened: bytes against the sources' own, ranges that begin
 * and end anywhere, and sources that are missing or do not match. */
#include "base/compiler.h"
#include "base/half.h"
#include "tests/gguf_files.h"
#include "tests/model_folder.h"

#define GPT_OSS                                                                                                    \
  "{\"model_type\":\"gpt_oss\"," BASE ",\"num_local_experts\":2,\"num_experts_per_tok\":1,\"rope_parameters\":{\"" \
  "rope_type\":\"default\"}}"
#define GRANITE "{\"model_type\":\"granitemoe\"," BASE "}"
#define QWEN    "{\"model_type\":\"qwen3_moe\"," BASE "}"

/* Opens a folder with that config.json and those tensors, whose bytes are 1, 2, 3 ... */
static ga_status open_tensors(const char *config, const char *entries, size_t bytes, ga_model_file **out) {
  char header[2048];
  (void)snprintf(header, sizeof header, "{%s}", entries);
  put_st("model.safetensors", header, bytes);
  put_file_text("config.json", config);
  return ga_model_file_open(test_folder, out);
}

/* Reads every range of the tensor's bytes, and compares them with those that are wanted. */
static void check_made_bytes(const ga_model_file *f, const char *name, int64_t rows, int64_t cols, const uint8_t *want,
                             size_t n) {
  const ga_model_tensor *t;
  uint8_t got[640];
  if (ga_model_file_tensor(f, name, 3, (const int64_t[]){2, rows, cols}, &t) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(t->bytes, n);
  assert_int_equal(t->part, -1);
  assert_null(t->view.data);
  for (size_t at = 0; at <= n; at++)
    for (size_t end = at; end <= n; end++) {
      memset(got, 0xee, sizeof got);
      assert_ok(ga_model_file_read(f, t, at, got, end - at));
      if (memcmp(got, want + at, end - at)) fail_msg("%s: bytes %zu to %zu differ", name, at, end);
      assert_int_equal(got[end - at], 0xee);
    }
  assert_error(ga_model_file_read(f, t, 1, got, n), GA_ERR_ARG, name);
  ga_model_file_forget(f, t);
}

/* Two experts, gate and up in turns: rows of 32 elements, in 16 bytes of codes and one of scales. */
static void test_mxfp4(void **state) {
  static const char entries[] =
      ENTRY("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", "2,2,1,16", 0,
            64) "," ENTRY("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", "2,2,1", 64, 68);
  uint8_t want[2][2 * 17]; /* gate, up */
  ga_model_file *f;
  (void)state;
  for (int expert = 0; expert < 2; expert++)
    for (int row = 0; row < 2; row++) {

      uint8_t *to = want[row] + expert * 17, value[32];
      const int first = (expert * 2 + row) * 16;

      to[0] = (uint8_t)(64 + expert * 2 + row + 1);
      for (int i = 0; i < 16; i++) {
        value[2 * i] = (uint8_t)((first + i + 1) & 15);
        value[2 * i + 1] = (uint8_t)((first + i + 1) >> 4);
      }
      for (int i = 0; i < 16; i++) to[1 + i] = (uint8_t)(value[i] | value[i + 16] << 4);
    }
  if (open_tensors(GPT_OSS, entries, 68, &f) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_file_tensor_count(f), 2);
  check_made_bytes(f, "blk.0.ffn_gate_exps.weight", 1, 32, want[0], sizeof want[0]);
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", 1, 32, want[1], sizeof want[1]);
  ga_model_file_destroy(f);
}

/* Two experts of [3 columns, 4 rows] bytes: rows 0 and 2 are gate, 1 and 3 up. */
static void test_columns(void **state) {
  static const char entries[] = ENTRY("model.layers.0.mlp.experts.gate_up_proj", "U8", "2,3,4", 0, 24);
  uint8_t want[2][2 * 2 * 3];
  ga_model_file *f;
  (void)state;
  for (int part = 0; part < 2; part++)
    for (int e = 0; e < 2; e++)
      for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++) want[part][(e * 2 + r) * 3 + c] = (uint8_t)(1 + (e * 3 + c) * 4 + 2 * r + part);
  if (open_tensors(GPT_OSS, entries, 24, &f) != GA_OK) fail_msg("%s", ga_error_text());
  check_made_bytes(f, "blk.0.ffn_gate_exps.weight", 2, 3, want[0], sizeof want[0]);
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", 2, 3, want[1], sizeof want[1]);
  ga_model_file_destroy(f);
}

/* Two experts of 4 rows of 3 bytes: the first two are gate, the others up. */
static void test_halves(void **state) {
  static const char entries[] = ENTRY("model.layers.0.block_sparse_moe.input_linear.weight", "U8", "2,4,3", 0, 24);
  uint8_t want[2][12];
  ga_model_file *f;
  (void)state;
  for (int part = 0; part < 2; part++)
    for (int i = 0; i < 12; i++) want[part][i] = (uint8_t)(1 + i / 6 * 12 + part * 6 + i % 6);
  if (open_tensors(GRANITE, entries, 24, &f) != GA_OK) fail_msg("%s", ga_error_text());
  check_made_bytes(f, "blk.0.ffn_gate_exps.weight", 2, 3, want[0], sizeof want[0]);
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", 2, 3, want[1], sizeof want[1]);
  ga_model_file_destroy(f);
}

/* A tensor for each expert, in another order than theirs. */
static void test_experts(void **state) {
  static const char entries[] = ENTRY("model.layers.0.mlp.experts.1.up_proj.weight", "U8", "2,3", 0,
                                      6) "," ENTRY("model.layers.0.mlp.experts.0.up_proj.weight", "U8", "2,3", 6, 12);
  const uint8_t want[] = {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6};
  ga_model_file *f;
  (void)state;
  if (open_tensors(QWEN, entries, 12, &f) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_file_tensor_count(f), 1);
  assert_null(ga_model_file_find(f, "blk.0.ffn_up.0.weight"));
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", 2, 3, want, sizeof want);
  ga_model_file_destroy(f);
}

/* --- e4m3 -------------------------------------------------------------------------------------------------------- */

typedef struct fp8_case {
  int rows, cols;
  const char *type, *shape, *end; /* of scales */
  int each, down, along;          /* bytes of a scale; rows and columns that have one in common */
} fp8_case;

static float expert_scale_at(const fp8_case *c, int at) { /* byte i of the file is i + 1 */
  uint8_t bytes[4];
  uint16_t half;
  float f;
  for (int i = 0; i < c->each; i++) bytes[i] = (uint8_t)(at + i + 1);
  memcpy(&f, bytes, sizeof f);
  memcpy(&half, bytes, sizeof half);
  return c->each == 4 ? f : strcmp(c->type, "F16") ? ga_bf16_to_f32(half) : ga_f16_to_f32(half);
}

/* Two experts of codes, behind each its scales. */
static void check_fp8_experts(const fp8_case *c) {
  const int n = c->rows * c->cols, along = (c->cols + c->along - 1) / c->along;
  const int scales = (c->rows + c->down - 1) / c->down * along * c->each, bytes = 2 * (n + scales);
  char entries[1024];
  uint16_t want[2 * 130];
  ga_model_file *f;
  int used = 0;
  for (int e = 0; e < 2; e++) {
    const int at = e * (n + scales);
    used +=
        snprintf(entries + used, sizeof entries - (size_t)used,
                 "%s\"model.layers.0.mlp.experts.%d.up_proj.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[%d,%d],"
                 "\"data_offsets\":[%d,%d]},\"model.layers.0.mlp.experts.%d.up_proj.weight%s\":{\"dtype\":\"%s\","
                 "\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                 e ? "," : "", e, c->rows, c->cols, at, at + n, e, c->end, c->type, c->shape, at + n, at + n + scales);
    for (int i = 0; i < n; i++) {
      const int block = i / c->cols / c->down * along + i % c->cols / c->along;
      want[e * n + i] =
          ga_f32_to_bf16(ga_e4m3_to_f32((uint8_t)(at + i + 1)) * expert_scale_at(c, at + n + block * c->each));
    }
  }
  if (open_tensors(QWEN, entries, (size_t)bytes, &f) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_file_tensor_count(f), 1);
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", c->rows, c->cols, (const uint8_t *)want, 4 * (size_t)n);
  ga_model_file_destroy(f);
}

static void test_fp8_experts(void **state) {
  static const fp8_case all[] = {{1, 130, "BF16", "1,2", "_scale_inv", 2, 128, 128},
                                 {130, 1, "F32", "2,1", "_scale_inv", 4, 128, 128},
                                 {3, 5, "F32", "1", "_scale", 4, 3, 5},
                                 {3, 5, "F16", "1,1", "_scale_inv", 2, 128, 128},
                                 {3, 5, "F32", "3,1", "_scale", 4, 1, 5},
                                 {3, 5, "BF16", "3", "_scale", 2, 1, 5}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) check_fp8_experts(&all[i]);
}

/* --- latent attention -------------------------------------------------------------------------------------------- */

#define DEEPSEEK                                                                                                  \
  "{\"model_type\":\"deepseek_v3\",\"hidden_size\":8,\"num_hidden_layers\":2,\"intermediate_size\":16,"           \
  "\"num_attention_heads\":2,\"vocab_size\":32,\"kv_lora_rank\":3,\"qk_nope_head_dim\":2,\"qk_rope_head_dim\":2," \
  "\"v_head_dim\":1}"

/* Two heads, each with two rows of keys and one of values, of three elements. */
static void test_keys_and_values_of_heads(void **state) {
  static const char entries[] = ENTRY("model.layers.0.self_attn.kv_b_proj.weight", "U8", "6,3", 0, 18);
  static const uint8_t keys[] = {1, 4, 2, 5, 3, 6, 10, 13, 11, 14, 12, 15}, values[] = {7, 8, 9, 16, 17, 18};
  ga_model_file *f;
  (void)state;
  if (open_tensors(DEEPSEEK, entries, 18, &f) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_file_tensor_count(f), 2);
  check_made_bytes(f, "blk.0.attn_k_b.weight", 3, 2, keys, sizeof keys);
  check_made_bytes(f, "blk.0.attn_v_b.weight", 1, 3, values, sizeof values);
  ga_model_file_destroy(f);
}

/* The same in e4m3 with one scale, bytes 19 and 20. */
static void test_fp8_keys_and_values(void **state) {
  static const char entries[] = ENTRY("model.layers.0.self_attn.kv_b_proj.weight", "F8_E4M3", "6,3", 0, 18) "," ENTRY(
      "model.layers.0.self_attn.kv_b_proj.weight_scale_inv", "BF16", "1,1", 18, 20);
  static const uint8_t keys[] = {1, 4, 2, 5, 3, 6, 10, 13, 11, 14, 12, 15}, values[] = {7, 8, 9, 16, 17, 18};
  const float scale = ga_bf16_to_f32(20 << 8 | 19);
  uint16_t k[12], v[6];
  ga_model_file *f;
  (void)state;
  for (int i = 0; i < 12; i++) k[i] = ga_f32_to_bf16(ga_e4m3_to_f32(keys[i]) * scale);
  for (int i = 0; i < 6; i++) v[i] = ga_f32_to_bf16(ga_e4m3_to_f32(values[i]) * scale);
  if (open_tensors(DEEPSEEK, entries, 20, &f) != GA_OK) fail_msg("%s", ga_error_text());
  check_made_bytes(f, "blk.0.attn_k_b.weight", 3, 2, (const uint8_t *)k, sizeof k);
  check_made_bytes(f, "blk.0.attn_v_b.weight", 1, 3, (const uint8_t *)v, sizeof v);
  ga_model_file_destroy(f);
}

/* A GGUF file with gate and up of two experts in one stack of Q8_0: rows of one block each. */
static void test_gguf_halves(void **state) {
  enum { ROW = 34, ROWS = 2, BYTES = 2 * 2 * ROWS * ROW };
  uint8_t data[BYTES], want[2][BYTES / 2]; /* gate, up */
  ga_gguf_writer *w = new_writer(3, 0);
  ga_model_file *f;
  (void)state;
  for (int i = 0; i < BYTES; i++) data[i] = (uint8_t)(i * 7 + 1);
  for (int half = 0; half < 2; half++)
    for (int expert = 0; expert < 2; expert++)
      memcpy(want[half] + expert * ROWS * ROW, data + (expert * 2 + half) * ROWS * ROW, ROWS * ROW);
  const ga_tensor both = ga_tensor_make(data, GA_Q8_0, 3, (const int64_t[]){2, 2 * ROWS, 32});
  ga_gguf_put_text(w, "general.architecture", "gemma4");
  ga_gguf_put_tensor(w, "blk.0.ffn_gate_up_exps.weight", &both);
  finish_file(w, "halves.gguf");
  f = open_file("halves.gguf");
  assert_null(ga_model_file_find(f, "blk.0.ffn_gate_up_exps.weight"));
  check_made_bytes(f, "blk.0.ffn_gate_exps.weight", ROWS, 32, want[0], BYTES / 2);
  check_made_bytes(f, "blk.0.ffn_up_exps.weight", ROWS, 32, want[1], BYTES / 2);
  ga_model_file_destroy(f);
}

static void test_sources_refused(void **state) {
#define BLOCKS(shape, n)        ENTRY("model.layers.0.mlp.experts.down_proj_blocks", "U8", shape, 0, n)
#define SCALES(shape, from, to) "," ENTRY("model.layers.0.mlp.experts.down_proj_scales", "U8", shape, from, to)
#define EXPERT(number, shape, from, to) \
  ENTRY("model.layers.0.mlp.experts." number ".up_proj.weight", "U8", shape, from, to)
#define FP8(number, shape, from, to) \
  ENTRY("model.layers.0.mlp.experts." number ".up_proj.weight", "F8_E4M3", shape, from, to)
#define SCALE(number, end, type, shape, from, to) \
  ENTRY("model.layers.0.mlp.experts." number ".up_proj.weight_scale" end, type, shape, from, to)
  static const struct {
    const char *config, *entries;
    size_t bytes;
    const char *says;
  } all[] = {
      {GPT_OSS, BLOCKS("2,1,1,16", 32), 32, "has no 'model.layers.0.mlp.experts.down_proj_scales' beside it"},
      {GPT_OSS, BLOCKS("2,1,1,16", 32) SCALES("2,2,1", 32, 36), 36,
       "_scales' is u8 of 3 dimensions; must be u8 [2, 1, 1]"},
      {GPT_OSS, BLOCKS("2,1,1,8", 16) SCALES("2,1,1", 16, 18), 18, "_blocks' is u8 of 4 dimensions; must be u8"},
      {GPT_OSS, BLOCKS("2,16", 32) SCALES("2,1,1", 32, 34), 34, "_blocks' is u8 of 2 dimensions; must be u8"},
      {GPT_OSS, BLOCKS("0,1,1,16", 0) SCALES("0,1,1", 0, 0), 0, "has a dimension of 0"},
      {GPT_OSS, ENTRY("model.layers.0.mlp.experts.gate_up_proj", "U8", "2,3,3", 0, 18), 18,
       "has 3 rows of gate and up; must be even"},
      {GPT_OSS, ENTRY("model.layers.0.mlp.experts.gate_up_proj", "U8", "2,4", 0, 8), 8,
       "has 2 dimensions; must have 3"},
      {GPT_OSS, ENTRY("model.layers.0.mlp.experts.gate_up_proj_bias", "U8", "8", 0, 8), 8,
       "has 1 dimensions; must have 3, or 2"},
      {GRANITE, ENTRY("model.layers.0.block_sparse_moe.input_linear.weight", "U8", "2,3,2", 0, 12), 12,
       "has 3 rows of gate and up"},
      {GRANITE, ENTRY("model.layers.0.shared_mlp.input_linear.weight", "U8", "1,4,2", 0, 8), 8,
       "has 3 dimensions; must be a matrix"},
      {GRANITE, ENTRY("model.layers.0.shared_mlp.input_linear.weight", "U8", "3,2", 0, 6), 6,
       "has 3 rows of gate and up; must be even"},
      {QWEN, EXPERT("1", "2,3", 0, 6), 6, "no sibling for expert 0"},
      {QWEN, EXPERT("0", "2,3", 0, 6) "," EXPERT("2", "2,3", 6, 12), 12, "no sibling for expert 1"},
      {QWEN, EXPERT("0", "2,3", 0, 6) "," EXPERT("1", "3,2", 6, 12), 12, "differs from"},
      {QWEN, EXPERT("0", "6", 0, 6), 6, "has 1 dimensions; must be a matrix"},
      {QWEN, EXPERT("0", "0,6", 0, 0), 0, "must be a matrix of at least one element"},
      {QWEN, EXPERT("0", "2,3", 0, 6) "," EXPERT("99999", "2,3", 6, 12), 12, "no sibling for expert 1"},
      {QWEN, FP8("0", "2,3", 0, 6), 6, "is e4m3 and has none; scales are of e4m3 alone"},
      {QWEN, EXPERT("0", "2,3", 0, 6) "," SCALE("0", "", "F32", "1", 6, 10), 10,
       "is u8 and has scales; scales are of e4m3 alone"},
      {QWEN, FP8("0", "2,3", 0, 6) "," SCALE("0", "_inv", "F32", "1", 6, 10) "," FP8("1", "2,3", 10, 16), 16,
       "ffn_up.1.weight is e4m3 and has none"},
      {QWEN, FP8("0", "2,3", 0, 6) "," SCALE("0", "_inv", "F32", "1", 6, 10) "," SCALE("0", "", "F32", "1", 10, 14), 14,
       "is there twice, or with both kinds of scales"},
      {QWEN, FP8("0", "2,3", 0, 6) "," SCALE("0", "", "U8", "1", 6, 7), 7, "is u8; scales must be f32, f16 or bf16"},
      {QWEN, FP8("0", "2,3", 0, 6) "," SCALE("0", "", "F32", "3", 6, 18), 18,
       "1 dimensions and 3 scales; must be [1], [2], or [1, 1]"},
      {QWEN, FP8("0", "2,3", 0, 6) "," SCALE("0", "", "F32", "1,2", 6, 14), 14,
       "2 dimensions and 2 scales; must be [1], [2], or [1, 1]"},
      {DEEPSEEK, ENTRY("model.layers.0.self_attn.kv_b_proj.weight", "F8_E4M3", "6,3", 0, 18), 18,
       "is e4m3 and has no scale"},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    ga_model_file *f = NULL;
    const ga_status status = open_tensors(all[i].config, all[i].entries, all[i].bytes, &f);
    if (f) fail_msg("opened, but should say: %s", all[i].says);
    assert_error(status, status, all[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mxfp4),
                                     cmocka_unit_test(test_columns),
                                     cmocka_unit_test(test_halves),
                                     cmocka_unit_test(test_experts),
                                     cmocka_unit_test(test_gguf_halves),
                                     cmocka_unit_test(test_fp8_experts),
                                     cmocka_unit_test(test_keys_and_values_of_heads),
                                     cmocka_unit_test(test_fp8_keys_and_values),
                                     cmocka_unit_test(test_sources_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
