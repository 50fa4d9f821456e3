/* GGUF files written and read back: metadata by type, tensors by name, paths, real models. */
#include <float.h>
#include <math.h>

#include "tests/fuzz/walk_model.h"
#include "tests/gguf_files.h"

/* --- values ------------------------------------------------------------------------------------------------------ */

static void put_scalars(ga_gguf_writer *w) {
  ga_gguf_put_int(w, "u8", GA_META_U8, 255);
  ga_gguf_put_int(w, "i8", GA_META_I8, -128);
  ga_gguf_put_int(w, "u16", GA_META_U16, 65535);
  ga_gguf_put_int(w, "i16", GA_META_I16, -32768);
  ga_gguf_put_int(w, "u32", GA_META_U32, UINT32_MAX);
  ga_gguf_put_int(w, "i32", GA_META_I32, INT32_MIN);
  ga_gguf_put_int(w, "u64", GA_META_U64, INT64_MAX);
  ga_gguf_put_int(w, "i64", GA_META_I64, INT64_MIN);
  ga_gguf_put_u64(w, "huge", UINT64_MAX);
  ga_gguf_put_f32(w, "f32", -1.5f);
  ga_gguf_put_f64(w, "f64", DBL_MIN);
  ga_gguf_put_f32(w, "inf", INFINITY);
  ga_gguf_put_bool(w, "yes", true);
  ga_gguf_put_bool(w, "no", false);
  ga_gguf_put_text(w, "text", "h\xc3\xa9llo");
  ga_gguf_put_text(w, "nothing", "");
}

static void check_int(const ga_model_file *file, const char *key, int64_t want) {
  int64_t value = 0;
  assert_ok(ga_model_file_int(file, key, INT64_MIN, INT64_MAX, &value));
  assert_true(value == want);
}

static void check_scalars(const ga_model_file *file) {
  double x;
  bool b;
  ga_text text;
  check_int(file, "u8", 255);
  check_int(file, "i8", -128);
  check_int(file, "u16", 65535);
  check_int(file, "i16", -32768);
  check_int(file, "u32", UINT32_MAX);
  check_int(file, "i32", INT32_MIN);
  check_int(file, "u64", INT64_MAX);
  check_int(file, "i64", INT64_MIN);
  assert_ok(ga_model_file_float(file, "f32", &x));
  assert_true(x == -1.5);
  assert_ok(ga_model_file_float(file, "f64", &x));
  assert_true(x == DBL_MIN);
  assert_ok(ga_model_file_bool(file, "yes", &b));
  assert_true(b);
  assert_ok(ga_model_file_bool(file, "no", &b));
  assert_false(b);
  assert_ok(ga_model_file_text(file, "text", &text));
  assert_int_equal(text.bytes, 6);
  assert_memory_equal(text.data, "h\xc3\xa9llo", 6);
  assert_ok(ga_model_file_text(file, "nothing", &text));
  assert_int_equal(text.bytes, 0);
}

static void test_scalars(void **state) {
  (void)state;
  for (uint32_t version = 2; version <= 3; version++) {
    ga_gguf_writer *w = new_writer(version, 0);
    put_scalars(w);
    finish_file(w, "scalars.gguf");
    ga_model_file *file = open_file("scalars.gguf");
    assert_int_equal(ga_model_file_format(file), GA_MODEL_GGUF);
    assert_int_equal(ga_model_file_meta_count(file), 16);
    assert_int_equal(ga_model_file_tensor_count(file), 0);
    assert_string_equal(ga_meta_key(ga_model_file_meta_at(file, 15)), "nothing");
    assert_null(ga_model_file_meta_at(file, 16));
    assert_null(ga_model_file_meta_at(file, -1));
    check_scalars(file);
    ga_model_file_destroy(file);
  }
}

/* Every entry of one file into another: the same bytes. */
static void test_copy(void **state) {
  uint8_t bytes[2][2048];
  size_t n[2];
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  put_scalars(w);
  ga_gguf_put_array(w, "list", GA_META_I16, 2, "\1\2\3\4");
  finish_file(w, "from.gguf");
  ga_model_file *file = open_file("from.gguf");
  w = new_writer(3, 0);
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) ga_gguf_put_meta(w, ga_model_file_meta_at(file, i));
  finish_file(w, "to.gguf");
  ga_model_file_destroy(file);
  for (int i = 0; i < 2; i++) {
    FILE *f = fopen(in_folder(i ? "to.gguf" : "from.gguf"), "rb");
    assert_non_null(f);
    n[i] = fread(bytes[i], 1, sizeof bytes[i], f);
    assert_int_equal(fclose(f), 0);
  }
  assert_in_range(n[0], 200, sizeof bytes[0] - 1);
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(bytes[0], bytes[1], n[0]);
}

/* One number that a file has for each layer. */
static void test_equal_elements_are_one(void **state) {
  static const uint32_t ints[] = {7, 7, 7};
  static const float floats[] = {0.5f, 0.5f};
  int64_t n = 0;
  double x = 0;
  bool b = false;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_array(w, "ints", GA_META_U32, 3, ints);
  ga_gguf_put_array(w, "floats", GA_META_F32, 2, floats);
  ga_gguf_put_array(w, "bools", GA_META_BOOL, 2, "\1\1");
  ga_gguf_put_array(w, "one", GA_META_U8, 1, "\5");
  finish_file(w, "g.gguf");
  ga_model_file *f = open_file("g.gguf");
  assert_ok(ga_model_file_int(f, "ints", 0, 9, &n));
  assert_int_equal(n, 7);
  assert_error(ga_model_file_int(f, "ints", 0, 6, &n), GA_ERR_FORMAT, "'ints' is 7; must be from 0 to 6");
  assert_ok(ga_model_file_int_or(f, "one", 1, 0, 9, &n));
  assert_int_equal(n, 5);
  assert_ok(ga_model_file_float(f, "floats", &x));
  assert_true(x == 0.5);
  assert_ok(ga_model_file_bool(f, "bools", &b));
  assert_true(b);
  ga_model_file_destroy(f);
}

static void test_getters_name_what_is_wrong(void **state) {
  int64_t n = 77;
  double x = 77;
  bool b = true;
  ga_text text = {"kept", 4};
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  put_scalars(w);
  ga_gguf_put_array(w, "list", GA_META_U8, 3, "\1\2\3");
  ga_gguf_put_array(w, "late", GA_META_U8, 3, "\1\1\2");
  ga_gguf_put_array(w, "none", GA_META_U8, 0, "");
  ga_gguf_put_texts(w, "texts", 2, (ga_text[]){{"a", 1}, {"a", 1}});
  finish_file(w, "g.gguf");
  ga_model_file *f = open_file("g.gguf");
  assert_error(ga_model_file_int(f, "gone", 0, 9, &n), GA_ERR_FORMAT,
               "/g.gguf: metadata 'gone' is missing; must be there, an integer (u8 to u64, i8 to i64)");
  assert_error(ga_model_file_int(f, "f32", 0, 9, &n), GA_ERR_FORMAT, "metadata 'f32' is f32; must be an integer");
  assert_error(ga_model_file_int(f, "yes", 0, 9, &n), GA_ERR_FORMAT, "metadata 'yes' is bool; must be an integer");
  assert_error(ga_model_file_int(f, "list", 0, 9, &n), GA_ERR_FORMAT,
               "'list' is an array of 3 u8, elements 0 and 1 differ; must be an integer");
  assert_error(ga_model_file_int(f, "late", 0, 9, &n), GA_ERR_FORMAT, "elements 0 and 2 differ");
  assert_error(ga_model_file_int(f, "none", 0, 9, &n), GA_ERR_FORMAT, "'none' is an array of 0 u8; must be an integer");
  assert_error(ga_model_file_float(f, "list", &x), GA_ERR_FORMAT, "'list' is an array of 3 u8; must be a float");
  assert_error(ga_model_file_text(f, "texts", &text), GA_ERR_FORMAT, "'texts' is an array of 2 text; must be a text");
  assert_error(ga_model_file_int(f, "u8", 0, 9, &n), GA_ERR_FORMAT, "metadata 'u8' is 255; must be from 0 to 9");
  assert_error(ga_model_file_int(f, "huge", 0, 9, &n), GA_ERR_FORMAT,
               "'huge' is 18446744073709551615; must be at most 9223372036854775807");
  assert_error(ga_model_file_int_or(f, "u8", 1, 0, 9, &n), GA_ERR_FORMAT, "'u8' is 255; must be from 0 to 9");
  assert_error(ga_model_file_float(f, "u8", &x), GA_ERR_FORMAT, "metadata 'u8' is u8; must be a float (f32, f64)");
  assert_error(ga_model_file_float(f, "inf", &x), GA_ERR_FORMAT, "metadata 'inf' is inf; must be finite");
  assert_error(ga_model_file_float_or(f, "text", 1, &x), GA_ERR_FORMAT, "metadata 'text' is text; must be a float");
  assert_error(ga_model_file_bool(f, "u8", &b), GA_ERR_FORMAT, "metadata 'u8' is u8; must be a bool");
  assert_error(ga_model_file_bool_or(f, "text", false, &b), GA_ERR_FORMAT, "must be a bool");
  assert_error(ga_model_file_text(f, "u8", &text), GA_ERR_FORMAT, "metadata 'u8' is u8; must be a text");
  assert_error(ga_model_file_text_or(f, "list", "", &text), GA_ERR_FORMAT, "must be a text");
  assert_true(n == 77 && x == 77 && b && text.bytes == 4);
  assert_ok(ga_model_file_int_or(f, "gone", -7, 0, 9, &n));
  assert_ok(ga_model_file_float_or(f, "gone", 0.5, &x));
  assert_ok(ga_model_file_bool_or(f, "gone", false, &b));
  assert_ok(ga_model_file_text_or(f, "gone", "none", &text));
  assert_true(n == -7 && x == 0.5 && !b && text.bytes == 4 && !memcmp(text.data, "none", 4));
  ga_model_file_destroy(f);
}

/* --- arrays ------------------------------------------------------------------------------------------------------ */

static void test_number_arrays(void **state) {
  static const int16_t shorts[] = {-1, 2, INT16_MAX};
  static const uint64_t longs[] = {1, UINT64_MAX};
  static const double reals[] = {0.25, -8};
  const ga_meta *a;
  int64_t n;
  double x;
  bool b;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_array(w, "i16", GA_META_I16, 3, shorts);
  ga_gguf_put_array(w, "u64", GA_META_U64, 2, longs);
  ga_gguf_put_array(w, "f64", GA_META_F64, 2, reals);
  ga_gguf_put_array(w, "bool", GA_META_BOOL, 2, "\0\1");
  ga_gguf_put_array(w, "empty", GA_META_U8, 0, "");
  finish_file(w, "arrays.gguf");
  ga_model_file *f = open_file("arrays.gguf");
  assert_ok(ga_model_file_array(f, "i16", GA_META_INTS, &a));
  assert_int_equal(ga_meta_count(a), 3);
  assert_int_equal(ga_meta_type_of(a), GA_META_ARRAY);
  assert_int_equal(ga_meta_elem_type(a), GA_META_I16);
  assert_ok(ga_meta_int(a, 0, &n));
  assert_int_equal(n, -1);
  assert_error(ga_meta_int(a, 3, &n), GA_ERR_ARG, "'i16': element 3 of 3");
  assert_error(ga_meta_int(a, -1, &n), GA_ERR_ARG, "element -1 of 3");
  assert_error(ga_meta_float(a, 0, &x), GA_ERR_FORMAT, "metadata 'i16' is an array of i16; must be a float");
  assert_ok(ga_model_file_array(f, "u64", GA_META_INTS, &a));
  assert_error(ga_meta_int(a, 1, &n), GA_ERR_FORMAT, "is 18446744073709551615");
  assert_ok(ga_model_file_array(f, "f64", GA_META_FLOATS, &a));
  assert_ok(ga_meta_float(a, 1, &x));
  assert_true(x == -8);
  assert_ok(ga_model_file_array(f, "bool", GA_META_BOOLS, &a));
  assert_ok(ga_meta_bool(a, 1, &b));
  assert_true(b);
  assert_ok(ga_model_file_array(f, "empty", GA_META_INTS, &a));
  assert_int_equal(ga_meta_count(a), 0);
  assert_error(ga_model_file_array(f, "f64", GA_META_INTS, &a), GA_ERR_FORMAT,
               "metadata 'f64' is an array of f64; must be an array, each element an integer");
  assert_error(ga_model_file_array(f, "gone", GA_META_TEXTS, &a), GA_ERR_FORMAT, "'gone' is missing; must be an array");
  assert_ok(ga_model_file_array_or_null(f, "gone", GA_META_TEXTS, &a));
  assert_null(a);
  ga_model_file_destroy(f);
}

static void test_text_arrays(void **state) {
  static const ga_text texts[] = {{"<s>", 3}, {"", 0}, {"a\0b", 3}, {"\xff", 1}};
  const ga_meta *a;
  ga_text text;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_texts(w, "tokens", 4, texts);
  finish_file(w, "texts.gguf");
  ga_model_file *f = open_file("texts.gguf");
  assert_ok(ga_model_file_array(f, "tokens", GA_META_TEXTS, &a));
  assert_int_equal(ga_meta_count(a), 4);
  for (int64_t i = 0; i < 4; i++) {
    assert_ok(ga_meta_text(a, i, &text));
    assert_int_equal(text.bytes, texts[i].bytes);
    assert_memory_equal(text.data, texts[i].data, text.bytes);
  }
  assert_error(ga_meta_text(a, 4, &text), GA_ERR_ARG, "element 4 of 4");
  w = new_writer(3, 0);
  ga_gguf_put_meta(w, a); /* from one file to another */
  finish_file(w, "texts2.gguf");
  ga_model_file *again = open_file("texts2.gguf");
  assert_ok(ga_model_file_array(again, "tokens", GA_META_TEXTS, &a));
  assert_ok(ga_meta_text(a, 2, &text));
  assert_memory_equal(text.data, "a\0b", 3);
  ga_model_file_destroy(again);
  ga_model_file_destroy(f);
}

static void test_ints_per_layer(void **state) {
  static const uint32_t heads[] = {4, 2, 4};
  int64_t n[3] = {9, 9, 9};
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_array(w, "each", GA_META_U32, 3, heads);
  ga_gguf_put_array(w, "flags", GA_META_BOOL, 3, "\1\0\1");
  ga_gguf_put_int(w, "all", GA_META_U32, 5);
  ga_gguf_put_f32(w, "real", 1);
  finish_file(w, "layers.gguf");
  ga_model_file *f = open_file("layers.gguf");
  assert_error(ga_model_file_ints(f, "each", 2, 0, 9, n), GA_ERR_FORMAT, "'each' is an array of 3; must be one of 2");
  assert_error(ga_model_file_ints(f, "each", 3, 0, 3, n), GA_ERR_FORMAT, "'each' is 4; must be from 0 to 3");
  assert_error(ga_model_file_ints(f, "real", 3, 0, 3, n), GA_ERR_FORMAT, "'real' is f32; must be an integer");
  assert_error(ga_model_file_ints(f, "gone", 3, 0, 3, n), GA_ERR_FORMAT, "'gone' is missing");
  assert_true(n[0] == 9 && n[1] == 9 && n[2] == 9);
  assert_ok(ga_model_file_ints(f, "each", 3, 1, 9, n));
  assert_true(n[0] == 4 && n[1] == 2 && n[2] == 4);
  assert_ok(ga_model_file_ints(f, "flags", 3, 0, 1, n));
  assert_true(n[0] == 1 && n[1] == 0 && n[2] == 1);
  assert_ok(ga_model_file_ints(f, "all", 3, 1, 9, n));
  assert_true(n[0] == 5 && n[2] == 5);
  ga_model_file_destroy(f);
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static void expect_tensor(const ga_model_file *file, ga_dtype dtype, const int64_t *dims) {
  const ga_model_tensor *t;
  assert_ok(ga_model_file_tensor(file, ga_dtype_name(dtype), 3, dims, &t));
  assert_int_equal(t->view.dtype, dtype);
  assert_int_equal(t->view.layout, GA_LAYOUT_NATIVE);
  assert_true(t->view.stride[2] == 1 && t->view.stride[1] == dims[2] && t->view.stride[0] == dims[1] * dims[2]);
  assert_string_equal(t->source_name, t->name);
  assert_true(t->is_aligned);
  assert_memory_equal(t->view.data, weights, t->bytes);
  ga_model_file_forget(file, t);
  assert_memory_equal(t->view.data, weights, t->bytes); /* from disk again */
}

static void test_every_dtype(void **state) {
  (void)state;
  fill_weights();
  for (uint32_t alignment = 0; alignment <= 4096; alignment = alignment ? alignment * 8 : 8) {
    ga_gguf_writer *w = new_writer(alignment == 64 ? 2 : 3, alignment);
    int written = 0;
    for (ga_dtype d = GA_F32; d <= GA_TQ2_0; d++) {
      if (ga_gguf_type_of(d) < 0) continue;
      ga_tensor t = ga_tensor_make(weights, d, 3, (int64_t[]){2, 3, ga_dtype_info(d)->block_elems});
      ga_gguf_put_tensor(w, ga_dtype_name(d), &t);
      written++;
    }
    finish_file(w, "dtypes.gguf");
    ga_model_file *file = open_file("dtypes.gguf");
    assert_int_equal(written, 29);
    assert_int_equal(ga_model_file_tensor_count(file), written);
    for (ga_dtype d = GA_F32; d <= GA_TQ2_0; d++)
      if (ga_gguf_type_of(d) >= 0) expect_tensor(file, d, (int64_t[]){2, 3, ga_dtype_info(d)->block_elems});
    walk_model(file);
    ga_model_file_destroy(file);
  }
}

static void test_tensor_lookup(void **state) {
  const ga_model_tensor *t;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_tensor matrix = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){3, 4});
  ga_gguf_put_tensor(w, "blk.0.attn_q.weight", &matrix);
  finish_file(w, "one.gguf");
  ga_model_file *f = open_file("one.gguf");
  assert_ok(ga_model_file_tensor(f, "blk.0.attn_q.weight", 2, (int64_t[]){3, 4}, &t));
  assert_ptr_equal(t, ga_model_file_tensor_at(f, 0));
  assert_ptr_equal(t, ga_model_file_find(f, "blk.0.attn_q.weight"));
  assert_null(ga_model_file_find(f, "blk.0.attn_q.weigh"));
  assert_null(ga_model_file_tensor_at(f, 1));
  assert_null(ga_model_file_tensor_at(f, -1));
  assert_error(ga_model_file_tensor(f, "blk.0.attn_q.weight", 2, (int64_t[]){4, 3}, &t), GA_ERR_SHAPE,
               "/one.gguf: tensor 'blk.0.attn_q.weight' has dimensions [3, 4]; must be [4, 3]");
  assert_null(t);
  assert_error(ga_model_file_tensor(f, "output.weight", 1, (int64_t[]){4}, &t), GA_ERR_FORMAT,
               "tensor 'output.weight' is missing; must be there with dimensions [4]");
  assert_int_equal(ga_model_file_shards(f), 1);
  assert_string_equal(ga_model_file_shard_path(f, 0), in_folder("one.gguf"));
  assert_true(ga_model_file_shard_bytes(f, 0) >= 48);
  assert_null(ga_model_file_shard_path(f, 1));
  assert_int_equal(ga_model_file_shard_bytes(f, -1), 0);
  assert_null(ga_model_file_side_path(f, "tokenizer.json"));
  ga_model_file_destroy(f);
}

/* --- paths ------------------------------------------------------------------------------------------------------- */

static void test_paths(void **state) {
  char long_path[3000];
  (void)state;
  ga_model_file *file;
  assert_error(ga_model_file_open(NULL, &file), GA_ERR_ARG, "path is NULL");
  assert_error(ga_model_file_open("", &file), GA_ERR_ARG, "path is empty");
  assert_error(ga_model_file_open("x", NULL), GA_ERR_ARG, "out is NULL");
  assert_open_fails("/no/such/file.gguf", GA_ERR_IO, "/no/such/file.gguf: No such file");
  assert_open_fails("/dev/null", GA_ERR_IO, "/dev/null: not a regular file");
  assert_open_fails(test_folder, GA_ERR_IO, "a folder without config.json");
  put_file_text("empty.gguf", "");
  assert_open_fails(in_folder("empty.gguf"), GA_ERR_FORMAT, "/empty.gguf: empty file");
  put_file_text("text.gguf", "GGU");
  assert_open_fails(in_folder("text.gguf"), GA_ERR_FORMAT, "neither GGUF");
  memset(long_path, 'x', sizeof long_path);
  long_path[sizeof long_path - 1] = 0;
  assert_open_fails(long_path, GA_ERR_IO, "xxx");
  ga_model_file_destroy(NULL);
}

typedef struct real_model {
  const char *file, *arch, *last;
  int64_t tensors, width;
} real_model;

static void check_real_model(const char *path, const real_model *want) {
  ga_model_file *file;
  ga_text arch;
  char key[64];
  int64_t width;
  assert_ok(ga_model_file_open(path, &file));
  assert_int_equal(ga_model_file_tensor_count(file), want->tensors);
  assert_ok(ga_model_file_text(file, "general.architecture", &arch));
  assert_int_equal(arch.bytes, strlen(want->arch));
  assert_memory_equal(arch.data, want->arch, arch.bytes);
  (void)snprintf(key, sizeof key, "%s.embedding_length", want->arch);
  assert_ok(ga_model_file_int(file, key, 1, 1 << 20, &width));
  assert_int_equal(width, want->width);
  assert_non_null(ga_model_file_find(file, "token_embd.weight"));
  assert_non_null(ga_model_file_find(file, want->last));
  ga_model_file_destroy(file);
}

/* The models that the demo and other tests use, where they have been fetched. */
static void test_real_models(void **state) {
  static const real_model models[] = {{"SmolLM2-135M-Instruct.Q4_1.gguf", "llama", "blk.29.ffn_down.weight", 272, 576},
                                      {"gemma-3-270m-q4_k_m.gguf", "gemma3", "blk.17.post_ffw_norm.weight", 236, 640},
                                      {"all-MiniLM-L6-v2", "bert", "blk.5.layer_output_norm.bias", 104, 384}};
  const char *home = getenv("HOME"), *given = getenv("GA_MODELS");
  char folder[256], path[512];
  int opened = 0;
  (void)state;
  (void)snprintf(folder, sizeof folder, "%s%s", given ? given : home ? home : "", given ? "" : "/.cache/ga/models");
  for (size_t i = 0; i < GA_COUNT_OF(models); i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, models[i].file);
    if (access(path, R_OK)) {
      print_message("skipped: no %s\n", path);
      continue;
    }
    check_real_model(path, &models[i]);
    opened++;
  }
  if (!opened) skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_copy),
      cmocka_unit_test(test_equal_elements_are_one),
      cmocka_unit_test(test_getters_name_what_is_wrong),
      cmocka_unit_test(test_number_arrays),
      cmocka_unit_test(test_text_arrays),
      cmocka_unit_test(test_ints_per_layer),
      cmocka_unit_test(test_every_dtype),
      cmocka_unit_test(test_tensor_lookup),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_real_models),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
