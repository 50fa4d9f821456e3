/* GGUF files made to do harm: each rule broken in turn, every truncation, every flipped bit, memory that runs out. */
#include "base/mem.h"
#include "file/gguf.h"
#include "file/gguf_write.h"
#include "file/limits.h"
#include "tests/model_bytes.h"

static raw_bytes raw; /* the file being made */

/* --- header ------------------------------------------------------------------------------------------------------ */

static void test_header(void **state) {
  (void)state;
  raw.n = 0;
  raw_put(&raw, "GGML", 4);
  raw_pad(&raw, 64);
  assert_refused(&raw, GA_ERR_FORMAT, "m: neither GGUF (begins with 'GGUF') nor safetensors");
  raw_gguf(&raw, 1, 0, 0);
  assert_refused(&raw, GA_ERR_UNSUPPORTED, "m: GGUF version 1; must be 2 or 3");
  raw_gguf(&raw, 4, 0, 0);
  assert_refused(&raw, GA_ERR_UNSUPPORTED, "GGUF version 4; must be 2 or 3");
  raw_gguf(&raw, 0x03000000, 0, 0);
  assert_refused(&raw, GA_ERR_UNSUPPORTED, "version 0x03000000: a big-endian file");
  raw_gguf(&raw, 3, UINT64_MAX, 0);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor count is 18446744073709551615; at most 1048576");
  raw_gguf(&raw, 3, 1000, 0);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor count is 1000; at most 1048576, and the bytes left hold at most 0");
  raw_gguf(&raw, 3, 0, 65537);
  assert_refused(&raw, GA_ERR_FORMAT, "key count is 65537; at most 65536");
  raw_gguf(&raw, 3, 0, 1);
  assert_refused(&raw, GA_ERR_FORMAT, "key count is 1; at most 65536, and the bytes left hold at most 0");
}

/* --- metadata ---------------------------------------------------------------------------------------------------- */

/* One key "k" of this type; the value follows. */
static void begin_value(uint32_t type) {
  raw_gguf(&raw, 3, 0, 1);
  raw_text(&raw, "k");
  raw_le(&raw, 4, type);
}

static void begin_hostile_array(uint32_t elem, uint64_t n) {
  begin_value(9);
  raw_le(&raw, 4, elem);
  raw_le(&raw, 8, n);
}

static void test_keys(void **state) {
  char key[300];
  (void)state;
  memset(key, 'k', sizeof key);
  key[256] = 0;
  raw_gguf(&raw, 3, 0, 1);
  raw_u32_key(&raw, key, 1);
  assert_refused(&raw, GA_ERR_FORMAT, "m: metadata 0 of 1: key of 256 bytes at byte 24; at most 255");
  raw_gguf(&raw, 3, 0, 1);
  raw_u32_key(&raw, "", 1);
  assert_refused(&raw, GA_ERR_FORMAT, "key '' (0 bytes); must have 1 to 255 bytes without control characters");
  raw_gguf(&raw, 3, 0, 1);
  raw_u32_key(&raw, "a\x1b[31m", 1);
  assert_refused(&raw, GA_ERR_FORMAT, "key 'a?[31m' (6 bytes)");
  raw_gguf(&raw, 3, 0, 2);
  raw_u32_key(&raw, "twice", 1);
  raw_u32_key(&raw, "twice", 2);
  assert_refused(&raw, GA_ERR_FORMAT, "m: metadata: 'twice' is there twice");
}

/* Layouts of folders, which would turn weights over or make room too small. */
static void test_keys_of_folders(void **state) {
  static const char *const keys[] = {"ga.rope_fraction",      "ga.rope_layers",       "ga.no_rope_every",
                                     "ga.rope_short_factors", "ga.rope_long_factors", "ga.qkv_by_head"};
  char part[128];
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(keys); i++) {
    raw_gguf(&raw, 3, 0, 1);
    raw_u32_key(&raw, keys[i], 1);
    (void)snprintf(part, sizeof part, "m: metadata '%s': is of folders with a config.json", keys[i]);
    assert_refused(&raw, GA_ERR_FORMAT, part);
  }
}

static void test_values(void **state) {
  (void)state;
  begin_value(13);
  assert_refused(&raw, GA_ERR_FORMAT, "m: metadata 'k': value type is 13; must be 0 to 12");
  begin_value(UINT32_MAX);
  assert_refused(&raw, GA_ERR_FORMAT, "value type is 4294967295");
  begin_value(7);
  raw_le(&raw, 1, 2);
  assert_refused(&raw, GA_ERR_FORMAT, "metadata 'k': bool is 2; must be 0 or 1");
  begin_value(10);
  raw_le(&raw, 4, 0);
  assert_refused(&raw, GA_ERR_FORMAT, "value takes 8 bytes at byte 37; the file has 4 more");
  begin_value(8);
  raw_le(&raw, 8, UINT64_MAX);
  assert_refused(&raw, GA_ERR_FORMAT, "text of 18446744073709551615 bytes at byte 37; at most 16777216");
  begin_value(8);
  raw_le(&raw, 8, 100);
  assert_refused(&raw, GA_ERR_FORMAT, "text takes 100 bytes at byte 45; the file has 0 more");
}

static void test_arrays(void **state) {
  (void)state;
  begin_hostile_array(9, 1);
  assert_refused(&raw, GA_ERR_UNSUPPORTED,
                 "m: metadata 'k': array of arrays; elements must be numbers, bools or texts");
  begin_hostile_array(77, 1);
  assert_refused(&raw, GA_ERR_FORMAT, "element type is 77; must be 0 to 12");
  begin_hostile_array(0, UINT64_MAX);
  assert_refused(&raw, GA_ERR_FORMAT, "array of 18446744073709551615 elements; at most 4194304");
  begin_hostile_array(12, 1 << 22);
  assert_refused(&raw, GA_ERR_FORMAT, "value takes 33554432 bytes");
  begin_hostile_array(8, 1 << 22); /* must not allocate 32 MiB first */
  assert_refused(&raw, GA_ERR_FORMAT, "array of 4194304 texts; the 0 bytes left hold at most 0");
  begin_hostile_array(7, 3);
  raw_put(&raw, "\0\1\x80", 3);
  assert_refused(&raw, GA_ERR_FORMAT, "bool is 128; must be 0 or 1");
  begin_hostile_array(8, 2);
  raw_text(&raw, "fine");
  raw_le(&raw, 8, 9);
  assert_refused(&raw, GA_ERR_FORMAT, "text takes 9 bytes");
}

static void refuse_alignment(uint32_t alignment, const char *part) {
  raw_gguf(&raw, 3, 0, 1);
  raw_u32_key(&raw, "general.alignment", alignment);
  assert_refused(&raw, GA_ERR_FORMAT, part);
}

static void test_alignment(void **state) {
  (void)state;
  refuse_alignment(0, "m: metadata 'general.alignment' is 0; must be a power of two from 8 to 65536");
  refuse_alignment(1, "is 1; must be a power of two");
  refuse_alignment(24, "is 24; must be a power of two");
  refuse_alignment(131072, "is 131072; must be a power of two from 8 to 65536");
  refuse_alignment(0x80000000u, "is 2147483648; must be");
  raw_gguf(&raw, 3, 0, 1);
  raw_text(&raw, "general.alignment");
  raw_le(&raw, 4, 10);
  raw_le(&raw, 8, 32);
  assert_refused(&raw, GA_ERR_FORMAT, "metadata 'general.alignment' is u64; must be u32");
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

static void refuse_tensor(uint64_t ne, uint32_t type, uint64_t offset, ga_status want, const char *part) {
  raw_gguf(&raw, 3, 1, 0);
  raw_tensor(&raw, "t", ne, type, offset);
  raw_pad(&raw, 32);
  raw_le(&raw, 8, 0);
  assert_refused(&raw, want, part);
}

static void test_tensor_shapes(void **state) {
  (void)state;
  refuse_tensor(0, 0, 0, GA_ERR_FORMAT, "m: tensor 't': ne[0] is 0; must be at least 1");
  refuse_tensor(UINT64_MAX, 0, 0, GA_ERR_FORMAT, "ne[0] is -1; must be at least 1");
  refuse_tensor(INT64_MAX, 0, 0, GA_ERR_FORMAT, "tensor 't': f32: 9223372036854775807 elements do not fit in 64 bits");
  refuse_tensor((uint64_t)1 << 60, 0, 0, GA_ERR_FORMAT, "4611686018427387904 bytes from byte 64; the file has 72");
  refuse_tensor(3, 0, 0, GA_ERR_FORMAT, "tensor 't': 12 bytes from byte 64; the file has 72");
  refuse_tensor(33, 2, 0, GA_ERR_FORMAT, "q4_0 tensor: rows of 33; must be a multiple of 32");
  refuse_tensor(1, 19, 0, GA_ERR_UNSUPPORTED, "m: tensor 't': type 19 (IQ1_S); must be F32");
  refuse_tensor(1, 4, 0, GA_ERR_UNSUPPORTED, "type 4 (unknown)");
  refuse_tensor(1, UINT32_MAX, 0, GA_ERR_UNSUPPORTED, "type 4294967295 (unknown)");
  refuse_tensor(1, 0, 32, GA_ERR_FORMAT, "tensor 't': offset 32; must be 0, where the one before it ends");
  refuse_tensor(1, 0, UINT64_MAX, GA_ERR_FORMAT, "offset 18446744073709551615; must be 0");
  raw_gguf(&raw, 3, 1, 0);
  raw_text(&raw, "t");
  raw_le(&raw, 4, 5);
  raw_pad(&raw, 256);
  assert_refused(&raw, GA_ERR_FORMAT, "5 dimensions; must be 1 to 4");
  raw_gguf(&raw, 3, 1, 0);
  raw_text(&raw, "t");
  raw_le(&raw, 4, 0);
  raw_pad(&raw, 256);
  assert_refused(&raw, GA_ERR_FORMAT, "0 dimensions; must be 1 to 4");
}

static void test_tensor_product_overflow(void **state) {
  (void)state;
  raw_gguf(&raw, 3, 1, 0);
  raw_text(&raw, "t");
  raw_le(&raw, 4, 4);
  for (int i = 0; i < 4; i++) raw_le(&raw, 8, 1u << 31);
  raw_le(&raw, 4, 0);
  raw_le(&raw, 8, 0);
  raw_pad(&raw, 32);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor 't': dimensions are negative, or their product is above 2^63");
}

static void two_tensors(const char *first, const char *second, uint64_t second_offset) {
  raw_gguf(&raw, 3, 2, 0);
  raw_tensor(&raw, first, 8, 0, 0);
  raw_tensor(&raw, second, 8, 0, second_offset);
  raw_pad(&raw, 32);
  for (int i = 0; i < 8; i++) raw_le(&raw, 8, 0);
}

static void test_tensor_names_and_offsets(void **state) {
  char name[70];
  (void)state;
  two_tensors("a", "a", 32);
  assert_refused(&raw, GA_ERR_FORMAT, "m: tensor 'a': 'a' is there twice");
  two_tensors("a", "b", 0);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor 'b': offset 0; must be 32, where the one before it ends");
  two_tensors("a", "b", 64);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor 'b': offset 64; must be 32");
  two_tensors("a", "", 32);
  assert_refused(&raw, GA_ERR_FORMAT, "m: tensor 1 of 2: name '' (0 bytes); must have 1 to 63 bytes");
  memset(name, 'n', sizeof name);
  name[64] = 0;
  two_tensors("a", name, 32);
  assert_refused(&raw, GA_ERR_FORMAT, "tensor 1 of 2: name of 64 bytes at byte 57; at most 63");
  name[63] = 0;
  two_tensors("a", name, 32);
  ga_model_file *file;
  assert_ok(ga_model_file_parse("m", raw.data, raw.n, &file));
  assert_non_null(ga_model_file_find(file, name));
  ga_model_file_destroy(file);
}

/* --- every truncation, every bit --------------------------------------------------------------------------------- */

/* A file with every kind of thing in it. *header_bytes = where the data begins. */
static void make_small(raw_bytes *b, size_t *header_bytes) {
  raw_gguf(b, 3, 2, 4);
  raw_u32_key(b, "general.alignment", 32);
  raw_text(b, "text");
  raw_le(b, 4, 8);
  raw_text(b, "llama");
  raw_text(b, "texts");
  raw_le(b, 4, 9);
  raw_le(b, 4, 8);
  raw_le(b, 8, 2);
  raw_text(b, "a");
  raw_text(b, "");
  raw_text(b, "bools");
  raw_le(b, 4, 9);
  raw_le(b, 4, 7);
  raw_le(b, 8, 2);
  raw_put(b, "\0\1", 2);
  raw_tensor(b, "first", 32, 8, 0);
  raw_tensor(b, "second", 3, 0, 64);
  raw_pad(b, 32);
  *header_bytes = b->n;
  for (int i = 0; i < 76; i++) raw_le(b, 1, (uint64_t)i);
}

static void test_every_truncation(void **state) {
  size_t header;
  (void)state;
  make_small(&raw, &header);
  assert_true(survives(raw.data, raw.n));
  for (size_t n = 0; n < raw.n; n++) assert_false(survives(raw.data, n));
}

static void test_every_bit(void **state) {
  size_t header;
  int accepted = 0;
  (void)state;
  make_small(&raw, &header);
  for (size_t bit = 0; bit < header * 8; bit++) {
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    accepted += survives(raw.data, raw.n);
    raw.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  /* Bits of names, texts, bools and padding may change; lengths, counts, types and places may not. */
  assert_in_range(accepted, 1, header * 8 / 2);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void test_memory_runs_out(void **state) {
  size_t header;
  ga_model_file *file;
  (void)state;
  make_small(&raw, &header);
  put_file_bytes("oom.gguf", raw.data, raw.n);
  for (long n = 1;; n++) {
    assert_true(n < 1000);
    ga_mem_fail_after(n);
    ga_status status = ga_model_file_open(in_folder("oom.gguf"), &file);
    ga_mem_fail_after(0);
    if (status == GA_OK) break;
    assert_error(status, GA_ERR_NOMEM, "out of memory");
    assert_null(file);
  }
  ga_model_file_destroy(file);
}

static ga_status open_small(ga_model_file *file) {
  ga_status status = ga_model_store_borrow(file, "m", raw.data, raw.n);
  if (status == GA_OK) status = ga_gguf_parse(&file->arena, &file->shards[0]);
  return status == GA_OK ? ga_model_store_join(file, NULL) : status;
}

static ga_status open_shard_pair(ga_model_file *file) {
  ga_status status = ga_model_store_shards(file, 1);
  if (status == GA_OK) status = ga_model_store_map(file, 0, in_folder("pair-00001-of-00002.gguf"));
  if (status == GA_OK) status = ga_gguf_parse(&file->arena, &file->shards[0]);
  if (status == GA_OK) status = ga_gguf_open_rest(file);
  return status == GA_OK ? ga_model_store_join(file, NULL) : status;
}

static void test_arena_runs_out(void **state) {
  size_t header;
  (void)state;
  make_small(&raw, &header);
  assert_every_arena_failure(open_small);
  for (uint32_t i = 0; i < 2; i++) {
    raw_gguf(&raw, 3, 1, 3);
    raw_u32_key(&raw, "split.no", i);
    raw_u32_key(&raw, "split.count", 2);
    raw_u32_key(&raw, "split.tensors.count", 2);
    raw_tensor(&raw, i ? "b" : "a", 1, 24, 0);
    raw_pad(&raw, 32);
    raw_le(&raw, 1, 1);
    put_file_bytes(i ? "pair-00002-of-00002.gguf" : "pair-00001-of-00002.gguf", raw.data, raw.n);
  }
  assert_every_arena_failure(open_shard_pair);
}

static ga_status write_some(void) {
  ga_gguf_writer *w;
  static float values[4096];
  ga_tensor t = ga_tensor_make(values, GA_F32, 1, (int64_t[]){4096});
  ga_status status = ga_gguf_writer_create(3, 64, &w);
  if (status) return status;
  ga_gguf_put_text(w, "general.architecture", "llama");
  ga_gguf_put_array(w, "numbers", GA_META_F32, 4096, values);
  ga_gguf_put_tensor(w, "a", &t);
  ga_gguf_put_tensor(w, "b", &t);
  status = ga_gguf_writer_finish(w, in_folder("written.gguf"));
  ga_gguf_writer_destroy(w);
  return status;
}

static void test_memory_runs_out_writing(void **state) {
  (void)state;
  for (long n = 1;; n++) {
    assert_true(n < 1000);
    ga_mem_fail_after(n);
    ga_status status = write_some();
    ga_mem_fail_after(0);
    if (status == GA_OK) break;
    assert_error(status, GA_ERR_NOMEM, "out of memory");
    assert_int_equal(access(in_folder("written.gguf"), F_OK), -1);
  }
}

/* --- names that collide ------------------------------------------------------------------------------------------ */

static void test_name_table(void **state) {
  ga_arena arena;
  ga_name_table table;
  static char names[3000][8];
  (void)state;
  ga_arena_init(&arena, 0);
  assert_ok(ga_name_table_init(&arena, 3000, &table));
  assert_int_equal(ga_name_table_find(&table, "x"), -1);
  for (uint32_t i = 0; i < 3000; i++) {
    (void)snprintf(names[i], sizeof names[i], "n%u", i);
    assert_ok(ga_name_table_add(&table, names[i], i));
  }
  for (uint32_t i = 0; i < 3000; i++) assert_int_equal(ga_name_table_find(&table, names[i]), i);
  assert_int_equal(ga_name_table_find(&table, "n3000"), -1);
  assert_error(ga_name_table_add(&table, "n7", 0), GA_ERR_FORMAT, "'n7' is there twice");
  table.mask = 511; /* a full neighbourhood, as names made to collide would give */
  for (size_t i = 0; i < 512; i++) table.slots[i] = (ga_name_slot){1, "taken", 0};
  assert_error(ga_name_table_add(&table, "late", 0), GA_ERR_FORMAT, "'late': no free place within 512 steps");
  assert_int_equal(ga_name_table_find(&table, "late"), -1);
  ga_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header),
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_keys_of_folders),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_arrays),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_tensor_shapes),
      cmocka_unit_test(test_tensor_product_overflow),
      cmocka_unit_test(test_tensor_names_and_offsets),
      cmocka_unit_test(test_every_truncation),
      cmocka_unit_test(test_every_bit),
      cmocka_unit_test(test_memory_runs_out),
      cmocka_unit_test(test_arena_runs_out),
      cmocka_unit_test(test_memory_runs_out_writing),
      cmocka_unit_test(test_name_table),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
