/* GGUF files written and read back, metadata by type, splits, the writer's promises. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "model/gguf.h"
#include "model/gguf_write.h"
#include "tests/fuzz/walk_model.h"
#include "tests/model_bytes.h"

static ga_gguf_writer *new_writer(uint32_t version, uint32_t alignment) {
  ga_gguf_writer *w;
  assert_ok(ga_gguf_writer_create(version, alignment, &w));
  return w;
}

static void finish(ga_gguf_writer *w, const char *name) {
  assert_ok(ga_gguf_writer_finish(w, in_folder(name)));
  ga_gguf_writer_destroy(w);
}

static ga_model_file *open_file(const char *name) {
  ga_model_file *file;
  assert_ok(ga_model_file_open(in_folder(name), &file));
  return file;
}

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
    finish(w, "scalars.gguf");
    ga_model_file *file = open_file("scalars.gguf");
    assert_int_equal(ga_model_file_format(file), GA_MODEL_GGUF);
    assert_int_equal(ga_model_file_meta_count(file), 16);
    assert_int_equal(ga_model_file_tensor_count(file), 0);
    assert_string_equal(ga_meta_key(ga_model_file_meta_at(file, 15)), "nothing");
    assert_null(ga_model_file_meta_at(file, 16));
    assert_null(ga_model_file_meta_at(file, -1));
    check_scalars(file);
    ga_model_file_close(file);
  }
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
  finish(w, "g.gguf");
  ga_model_file *f = open_file("g.gguf");
  assert_error(ga_model_file_int(f, "gone", 0, 9, &n), GA_ERR_FORMAT,
               "/g.gguf: metadata 'gone' is missing; must be there, an integer (u8 to u64, i8 to i64)");
  assert_error(ga_model_file_int(f, "f32", 0, 9, &n), GA_ERR_FORMAT, "metadata 'f32' is f32; must be an integer");
  assert_error(ga_model_file_int(f, "yes", 0, 9, &n), GA_ERR_FORMAT, "metadata 'yes' is bool; must be an integer");
  assert_error(ga_model_file_int(f, "list", 0, 9, &n), GA_ERR_FORMAT, "'list' is an array of 3 u8; must be an integer");
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
  ga_model_file_close(f);
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
  finish(w, "arrays.gguf");
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
  ga_model_file_close(f);
}

static void test_text_arrays(void **state) {
  static const ga_text texts[] = {{"<s>", 3}, {"", 0}, {"a\0b", 3}, {"\xff", 1}};
  const ga_meta *a;
  ga_text text;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_texts(w, "tokens", 4, texts);
  finish(w, "texts.gguf");
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
  finish(w, "texts2.gguf");
  ga_model_file *again = open_file("texts2.gguf");
  assert_ok(ga_model_file_array(again, "tokens", GA_META_TEXTS, &a));
  assert_ok(ga_meta_text(a, 2, &text));
  assert_memory_equal(text.data, "a\0b", 3);
  ga_model_file_close(again);
  ga_model_file_close(f);
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
  finish(w, "layers.gguf");
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
  ga_model_file_close(f);
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static uint8_t weights[65536];

static void fill_weights(void) {
  for (size_t i = 0; i < sizeof weights; i++) weights[i] = (uint8_t)(i * 167 + i / 256);
}

static void check_tensor(const ga_model_file *file, ga_dtype dtype, const int64_t *dims) {
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
    for (ga_dtype d = GA_F32; d <= GA_NVFP4; d++) {
      if (ga_gguf_type_of(d) < 0) continue;
      ga_tensor t = ga_tensor_make(weights, d, 3, (int64_t[]){2, 3, ga_dtype_info(d)->block_elems});
      ga_gguf_put_tensor(w, ga_dtype_name(d), &t);
      written++;
    }
    finish(w, "dtypes.gguf");
    ga_model_file *file = open_file("dtypes.gguf");
    assert_int_equal(written, 22);
    assert_int_equal(ga_model_file_tensor_count(file), written);
    for (ga_dtype d = GA_F32; d <= GA_NVFP4; d++)
      if (ga_gguf_type_of(d) >= 0) check_tensor(file, d, (int64_t[]){2, 3, ga_dtype_info(d)->block_elems});
    walk_model(file);
    ga_model_file_close(file);
  }
}

static void test_tensor_lookup(void **state) {
  const ga_model_tensor *t;
  (void)state;
  ga_gguf_writer *w = new_writer(3, 0);
  ga_tensor matrix = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){3, 4});
  ga_gguf_put_tensor(w, "blk.0.attn_q.weight", &matrix);
  finish(w, "one.gguf");
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
  assert_int_equal(ga_model_file_parts(f), 1);
  assert_string_equal(ga_model_file_part_path(f, 0), in_folder("one.gguf"));
  assert_true(ga_model_file_part_bytes(f, 0) >= 48);
  assert_null(ga_model_file_part_path(f, 1));
  assert_int_equal(ga_model_file_part_bytes(f, -1), 0);
  assert_null(ga_model_file_side_path(f, "tokenizer.json"));
  ga_model_file_close(f);
}

/* --- splits ------------------------------------------------------------------------------------------------------ */

typedef struct shard_spec {
  const char *file, *tensor;
  int64_t number, count, tensors;
} shard_spec;

static void write_shard(shard_spec s) {
  ga_gguf_writer *w = new_writer(3, 0);
  if (s.number == 0) ga_gguf_put_text(w, "general.architecture", "llama");
  ga_gguf_put_int(w, "split.no", GA_META_U16, s.number);
  ga_gguf_put_int(w, "split.count", GA_META_U16, s.count);
  ga_gguf_put_int(w, "split.tensors.count", GA_META_I32, s.tensors);
  ga_tensor t = ga_tensor_make(weights + s.number, GA_F32, 1, (int64_t[]){5});
  ga_gguf_put_tensor(w, s.tensor, &t);
  finish(w, s.file);
}

static void write_split(void) {
  write_shard((shard_spec){"s-00001-of-00003.gguf", "a", 0, 3, 3});
  write_shard((shard_spec){"s-00002-of-00003.gguf", "b", 1, 3, 3});
  write_shard((shard_spec){"s-00003-of-00003.gguf", "c", 2, 3, 3});
}

static void test_split(void **state) {
  (void)state;
  fill_weights();
  write_split();
  ga_model_file *f = open_file("s-00001-of-00003.gguf");
  assert_int_equal(ga_model_file_parts(f), 3);
  assert_int_equal(ga_model_file_tensor_count(f), 3);
  const ga_model_tensor *c = ga_model_file_find(f, "c");
  assert_int_equal(c->part, 2);
  assert_memory_equal(c->view.data, weights + 2, 20);
  assert_string_equal(ga_model_file_part_path(f, 2), in_folder("s-00003-of-00003.gguf"));
  assert_non_null(ga_model_file_meta(f, "general.architecture"));
  walk_model(f);
  ga_model_file_close(f);
}

static void test_split_refused(void **state) {
  const char *first = "s-00001-of-00003.gguf", *second = "s-00002-of-00003.gguf", *third = "s-00003-of-00003.gguf";
  (void)state;
  write_split();
  assert_open_fails(in_folder(second), GA_ERR_FORMAT, "'split.no' is 1, a later one of 3 files; open the first");
  write_shard((shard_spec){third, "b", 2, 3, 3});
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "s-00003-of-00003.gguf: tensor 'b': 'b' is there twice");
  write_shard((shard_spec){third, "c", 2, 4, 3});
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "s-00003-of-00003.gguf: metadata 'split.count' is 4; must be 3");
  assert_int_equal(unlink(in_folder(third)), 0);
  assert_open_fails(in_folder(first), GA_ERR_IO, "file 3 of 3: ");
  assert_int_equal(symlink(second, in_folder(third)), 0); /* one shard under two names */
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "s-00003-of-00003.gguf: metadata 'split.no' is 1; must be 2");
  assert_int_equal(unlink(in_folder(third)), 0);
  assert_int_equal(symlink(first, in_folder(third)), 0); /* a cycle */
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "metadata 'split.no' is 0; must be 2");
  assert_int_equal(unlink(in_folder(third)), 0);
  assert_int_equal(symlink(third, in_folder(third)), 0);
  assert_open_fails(in_folder(first), GA_ERR_IO, "file 3 of 3: ");
  assert_int_equal(unlink(in_folder(third)), 0);
  write_split();
  write_shard((shard_spec){first, "a", 0, 3, 4});
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "metadata 'split.tensors.count' is 4; must be 3");
  write_shard((shard_spec){first, "a", 0, 2000, 3});
  assert_open_fails(in_folder(first), GA_ERR_FORMAT, "metadata 'split.count' is 2000; must be from 0 to 1024");
  write_shard((shard_spec){"alone.gguf", "a", 0, 3, 3});
  assert_open_fails(in_folder("alone.gguf"), GA_ERR_FORMAT, "its name must end with '-00001-of-00003.gguf'");
}

/* --- writer ------------------------------------------------------------------------------------------------------ */

static void writer_fails(void (*put)(ga_gguf_writer *), const char *part) {
  ga_gguf_writer *w = new_writer(3, 0);
  put(w);
  ga_gguf_put_text(w, "later", "the first failure is kept");
  ga_status status = ga_gguf_writer_finish(w, in_folder("never.gguf"));
  assert_true(status != GA_OK);
  assert_error(status, status, part);
  ga_gguf_writer_destroy(w);
  assert_int_equal(access(in_folder("never.gguf"), F_OK), -1);
}

static void put_wide(ga_gguf_writer *w) {
  ga_gguf_put_int(w, "k", GA_META_U8, 256);
}
static void put_not_int(ga_gguf_writer *w) {
  ga_gguf_put_int(w, "k", GA_META_F32, 1);
}
static void put_no_key(ga_gguf_writer *w) {
  ga_gguf_put_bool(w, "", true);
}
static void put_control_key(ga_gguf_writer *w) {
  ga_gguf_put_bool(w, "a\nb", true);
}
static void put_text_array(ga_gguf_writer *w) {
  ga_gguf_put_array(w, "k", GA_META_TEXT, 1, "x");
}
static void put_twice(ga_gguf_writer *w) {
  ga_gguf_put_bool(w, "k", true);
  ga_gguf_put_bool(w, "k", true);
}
static void put_fp8(ga_gguf_writer *w) {
  ga_tensor t = ga_tensor_make(weights, GA_E4M3, 1, (int64_t[]){4});
  ga_gguf_put_tensor(w, "t", &t);
}
static void put_strided(ga_gguf_writer *w) {
  ga_tensor t = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 4});
  t.stride[0] = 8;
  ga_gguf_put_tensor(w, "t", &t);
}
static void put_long_name(ga_gguf_writer *w) {
  ga_tensor t = ga_tensor_make(weights, GA_F32, 1, (int64_t[]){4});
  ga_gguf_put_tensor(w, "0123456789012345678901234567890123456789012345678901234567890123", &t);
}
static void put_broken_block(ga_gguf_writer *w) {
  ga_tensor t = ga_tensor_make(weights, GA_Q4_0, 1, (int64_t[]){33});
  ga_gguf_put_tensor(w, "t", &t);
}

static void test_writer_refuses(void **state) {
  ga_gguf_writer *w;
  (void)state;
  writer_fails(put_wide, "gguf writer: 'k': 256 does not fit in u8");
  writer_fails(put_not_int, "1 does not fit in f32");
  writer_fails(put_no_key, "key must have 1 to 255 bytes");
  writer_fails(put_control_key, "'a?b': key must have 1 to 255 bytes without control characters");
  writer_fails(put_text_array, "array of text; elements must be numbers or bools");
  writer_fails(put_twice, "'k' is there twice");
  writer_fails(put_fp8, "'t': GGUF has no type for e4m3");
  writer_fails(put_strided, "'t': must be contiguous");
  writer_fails(put_long_name, "name must have 1 to 63 bytes");
  writer_fails(put_broken_block, "rows of 33; must be a multiple of 32");
  assert_error(ga_gguf_writer_create(1, 0, &w), GA_ERR_ARG, "version 1; must be 2 or 3");
  assert_error(ga_gguf_writer_create(3, 48, &w), GA_ERR_ARG, "alignment 48; must be a power of two from 8 to 65536");
}

static int count_files(void) {
  char command[128];
  int n = -1;
  (void)snprintf(command, sizeof command, "ls -A '%s' | wc -l", test_folder);
  FILE *p = popen(command, "r");
  assert_non_null(p);
  assert_int_equal(fscanf(p, "%d", &n), 1);
  (void)pclose(p);
  return n;
}

/* A disk that is full half-way: the old file stays as it was and nothing is left behind. */
static void test_writer_is_atomic(void **state) {
  struct rlimit old, small = {.rlim_cur = 4096};
  (void)state;
  put_file_text("kept.gguf", "old");
  int files = count_files();
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  small.rlim_max = old.rlim_max;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  ga_gguf_writer *w = new_writer(3, 0);
  ga_tensor t = ga_tensor_make(weights, GA_F32, 1, (int64_t[]){8192});
  ga_gguf_put_tensor(w, "t", &t);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  ga_status status = ga_gguf_writer_finish(w, in_folder("kept.gguf"));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  (void)signal(SIGXFSZ, handler);
  assert_error(status, GA_ERR_IO, "kept.gguf: cannot write");
  ga_gguf_writer_destroy(w);
  assert_int_equal(count_files(), files);
  assert_open_fails(in_folder("kept.gguf"), GA_ERR_FORMAT, "neither GGUF");
  w = new_writer(3, 0);
  assert_error(ga_gguf_writer_finish(w, in_folder("no/such/folder.gguf")), GA_ERR_IO, "No such file");
  ga_gguf_writer_destroy(w);
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
  ga_model_file_close(NULL);
}

/* The two models that the demo and the other tests use. */
static void test_real_models(void **state) {
  static const struct {
    const char *file, *arch;
    int64_t tensors, width;
  } models[] = {{"SmolLM2-135M-Instruct.Q4_1.gguf", "llama", 272, 576},
                {"gemma-3-270m-q4_k_m.gguf", "gemma3", 236, 640}};
  const char *home = getenv("HOME"), *folder = getenv("GA_MODELS");
  int opened = 0;
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(models); i++) {
    char path[512], key[64];
    ga_model_file *file;
    ga_text arch;
    int64_t width;
    (void)snprintf(path, sizeof path, "%s%s/%s",
                   folder ? folder
                   : home ? home
                          : "",
                   folder ? "" : "/.cache/ga/models", models[i].file);
    if (access(path, R_OK)) {
      print_message("skipped: no %s\n", path);
      continue;
    }
    assert_ok(ga_model_file_open(path, &file));
    assert_int_equal(ga_model_file_tensor_count(file), models[i].tensors);
    assert_ok(ga_model_file_text(file, "general.architecture", &arch));
    assert_int_equal(arch.bytes, strlen(models[i].arch));
    assert_memory_equal(arch.data, models[i].arch, arch.bytes);
    (void)snprintf(key, sizeof key, "%s.embedding_length", models[i].arch);
    assert_ok(ga_model_file_int(file, key, 1, 1 << 20, &width));
    assert_int_equal(width, models[i].width);
    assert_non_null(ga_model_file_find(file, "token_embd.weight"));
    ga_model_file_close(file);
    opened++;
  }
  if (!opened) skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),          cmocka_unit_test(test_getters_name_what_is_wrong),
      cmocka_unit_test(test_number_arrays),    cmocka_unit_test(test_text_arrays),
      cmocka_unit_test(test_ints_per_layer),   cmocka_unit_test(test_every_dtype),
      cmocka_unit_test(test_tensor_lookup),    cmocka_unit_test(test_split),
      cmocka_unit_test(test_split_refused),    cmocka_unit_test(test_writer_refuses),
      cmocka_unit_test(test_writer_is_atomic), cmocka_unit_test(test_paths),
      cmocka_unit_test(test_real_models),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
