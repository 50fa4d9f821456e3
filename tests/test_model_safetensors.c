/* safetensors files and their header's rules, indexes and folders, memory that runs out. */
#include <jansson.h>

#include "base/mem.h"
#include "file/hf.h"
#include "file/limits.h"
#include "tests/fuzz/walk_model.h"
#include "tests/model_folder.h"

static void refuse_st(const char *header, size_t data_bytes, ga_status want, const char *part) {
  make_st(&raw, header, data_bytes);
  assert_refused(&raw, want, part);
}

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
  ga_model_file_destroy(f);
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
    ga_model_file_destroy(f);
  }
}

/* A file whose header has n entries, none of which describes a tensor: their number is looked at first. */
static void refuse_entries(const char *before, int n, const char *after, const char *part) {
  const size_t room = strlen(before) + (size_t)n * 16 + strlen(after) + 1;
  char *bytes = malloc(8 + room), *const header = bytes + 8, *at = header;
  ga_model_file *f = NULL;
  assert_non_null(bytes);
  at += sprintf(at, "%s", before);
  for (int i = 0; i < n; i++) at += sprintf(at, "%s\"%x\":0", i ? "," : "", i);
  at += sprintf(at, "%s", after);
  ga_store_le((uint8_t *)bytes, 8, (uint64_t)(at - header));
  assert_error(ga_model_file_parse("m", (uint8_t *)bytes, (size_t)(at - bytes), &f), GA_ERR_FORMAT, part);
  assert_null(f);
  free(bytes);
}

/* As many as the limit pass it. */
static void test_header_limits(void **state) {
  (void)state;
  refuse_entries("{", GA_MODEL_MAX_TENSORS + 1, "}", "1048577 tensors; at most 1048576");
  refuse_entries("{", GA_MODEL_MAX_TENSORS, "}", "m: tensor '0'");
  refuse_entries("{\"__metadata__\":{", GA_MODEL_MAX_KEYS + 1, "}}", "__metadata__ has 65537 keys; at most 65536");
  refuse_entries("{\"__metadata__\":{", GA_MODEL_MAX_KEYS, "}}", "__metadata__ '0' is an integer; must be a text");
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
  refuse_st("{" ENTRY("a", "U8", "99999999999999999999", 0, 1) "}", 1, GA_ERR_FORMAT, "beyond 64 bits");
  refuse_st("{" ENTRY("a", "U8", "1,1,1,1,1", 0, 1) "}", 1, GA_ERR_UNSUPPORTED, "shape has 5 dimensions; at most 4");
  refuse_st("{" ENTRY("a", "F4\\u001b", "2", 0, 1) "}", 1, GA_ERR_UNSUPPORTED,
            "m: tensor 'a': dtype 'F4?'; must be F64, F32");
  refuse_st("{" ENTRY("a", "U8", "1", 0, 1) "," ENTRY("a", "U8", "1", 0, 1) "}", 1, GA_ERR_FORMAT,
            "an object has a key twice");
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
  refuse_st("{}x", 0, GA_ERR_FORMAT, "goes on behind its value");
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
  refuse_st(deep, 0, GA_ERR_FORMAT, "nest too deeply");
}

static void test_st_truncations_and_bits(void **state) {
  (void)state;
  make_st(&raw, "{\"__metadata__\":{\"f\":\"pt\"}," ENTRY("a", "F32", "2,1", 0, 8) "," ENTRY("b", "I8", "", 8, 9) "}",
          9);
  assert_true(survives(raw.data, raw.n));
  for (size_t n = 0; n < raw.n; n++) assert_false(survives(raw.data, n));
  for (size_t bit = 0; bit < (raw.n - 9) * 8; bit++) {
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    (void)survives(raw.data, raw.n);
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
}

/* --- folders and indexes ----------------------------------------------------------------------------------------- */

static void write_index(const char *map) {
  char text[1000];
  (void)snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":3},\"weight_map\":{%s}}", map);
  put_file_text("model.safetensors.index.json", text);
}

static void expect_parts(const char *map, int32_t norm, int32_t x, int32_t head) {
  const struct {
    const char *name;
    int32_t part;
  } all[] = {{"output_norm.weight", norm}, {"x", x}, {"output.weight", head}};
  ga_model_file *f;
  write_index(map);
  assert_ok(ga_model_file_open(test_folder, &f));
  assert_int_equal(ga_model_file_tensor_count(f), 3);
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    if (!ga_model_file_find(f, all[i].name)) fail_msg("%s: no %s", map, all[i].name);
    assert_int_equal(ga_model_file_find(f, all[i].name)->part, all[i].part);
  }
  ga_model_file_destroy(f);
}

/* Tensors that the index does not list, or lists elsewhere, are taken from where they are; of two the index chooses. */
static void test_index_and_shards_disagree(void **state) {
  (void)state;
  (void)unlink(in_folder("model.safetensors"));
  put_file_text("config.json", "{\"model_type\":\"llama\"," BASE "}");
  put_st("m-1.safetensors", "{" ENTRY("model.norm.weight", "U8", "1", 0, 1) "," ENTRY("x", "U8", "1", 1, 2) "}", 2);
  put_st("m-2.safetensors", "{" ENTRY("lm_head.weight", "U8", "1", 0, 1) "}", 1);
  expect_parts("\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\"", 0, 0, 1);
  expect_parts("\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-2.safetensors\",\"model.norm.weight\":"
               "\"m-1.safetensors\"",
               0, 0, 1);
  put_st("m-2.safetensors", "{" ENTRY("lm_head.weight", "U8", "1", 0, 1) "," ENTRY("x", "U8", "1", 1, 2) "}", 2);
  expect_parts("\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\"", 0, 0, 1);
  expect_parts("\"lm_head.weight\":\"m-1.safetensors\",\"x\":\"m-2.safetensors\"", 0, 1, 1);
  expect_parts("\"lm_head.weight\":\"m-1.safetensors\",\"model.norm.weight\":\"m-2.safetensors\"", 0, 1, 1);
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
    assert_int_equal(ga_model_file_shards(f), 2);
    assert_int_equal(ga_model_file_tensor_count(f), 3);
    assert_int_equal(ga_model_file_find(f, "output.weight")->part, 1);
    assert_string_equal(ga_model_file_side_path(f, "tokenizer.json"), in_folder("tokenizer.json"));
    assert_null(ga_model_file_side_path(f, "tokenizer_config.json"));
    assert_null(ga_model_file_side_path(f, "/etc/passwd"));
    walk_model(f);
    ga_model_file_destroy(f);
  }
  write_index("\"lm_head.weight\":\"m-2.safetensors\",\"gone\":\"m-2.safetensors\"");
  assert_open_fails(test_folder, GA_ERR_FORMAT,
                    "weight_map names tensor 'gone' in 'm-2.safetensors'; none of the files has it");
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
  assert_ok(open_folder("{\"model_type\":\"llama\"," BASE ",\"eos_token_id\":[1,2]}", 2, names, &f));
  ga_model_file_destroy(f);
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
      assert_int_equal(status, GA_ERR_NOMEM);
    }
    ga_model_file_destroy(f);
  }
  json_set_alloc_funcs(malloc, free);
}

static ga_status open_test_folder(ga_model_file *file) { return ga_hf_open_folder(file, test_folder); }

static void test_st_arena_runs_out(void **state) {
  static const char *const names[] = {"model.norm.weight", "lm_head.weight"};
  ga_model_file *f;
  (void)state;
  assert_ok(open_folder("{\"model_type\":\"gemma3_text\",\"eos_token_id\":[1,2],\"layer_types\":[\"full_attention\"]}",
                        2, names, &f));
  ga_model_file_destroy(f);
  assert_every_arena_failure(open_test_folder);
  assert_int_equal(unlink(in_folder("model.safetensors")), 0);
  put_st("m-1.safetensors", "{\"__metadata__\":{\"a\":\"b\"}," ENTRY("x", "U8", "1", 0, 1) "}", 1);
  put_st("m-2.safetensors", "{" ENTRY("lm_head.weight", "U8", "1", 0, 1) "}", 1);
  write_index("\"lm_head.weight\":\"m-2.safetensors\",\"x\":\"m-1.safetensors\"");
  assert_every_arena_failure(open_test_folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_file),
      cmocka_unit_test(test_every_st_dtype),
      cmocka_unit_test(test_header_limits),
      cmocka_unit_test(test_header_rules),
      cmocka_unit_test(test_header_form),
      cmocka_unit_test(test_deep_json),
      cmocka_unit_test(test_st_truncations_and_bits),
      cmocka_unit_test(test_index_and_shards_disagree),
      cmocka_unit_test(test_index),
      cmocka_unit_test(test_st_memory_runs_out),
      cmocka_unit_test(test_st_arena_runs_out),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
