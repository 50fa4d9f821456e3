/* Split models, and what the writer promises: nothing that cannot be read, nothing half written. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/fuzz/walk_model.h"
#include "tests/gguf_files.h"

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
  finish_file(w, s.file);
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
  assert_int_equal(ga_model_file_shards(f), 3);
  assert_int_equal(ga_model_file_tensor_count(f), 3);
  const ga_model_tensor *c = ga_model_file_find(f, "c");
  assert_int_equal(c->part, 2);
  assert_memory_equal(c->view.data, weights + 2, 20);
  assert_string_equal(ga_model_file_shard_path(f, 2), in_folder("s-00003-of-00003.gguf"));
  assert_non_null(ga_model_file_meta(f, "general.architecture"));
  walk_model(f);
  ga_model_file_destroy(f);
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

static void put_wide(ga_gguf_writer *w) { ga_gguf_put_int(w, "k", GA_META_U8, 256); }
static void put_not_int(ga_gguf_writer *w) { ga_gguf_put_int(w, "k", GA_META_F32, 1); }
static void put_no_key(ga_gguf_writer *w) { ga_gguf_put_bool(w, "", true); }
static void put_control_key(ga_gguf_writer *w) { ga_gguf_put_bool(w, "a\nb", true); }
static void put_text_array(ga_gguf_writer *w) { ga_gguf_put_array(w, "k", GA_META_TEXT, 1, "x"); }
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
  writer_fails(put_twice, "never.gguf: as written: metadata: 'k' is there twice");
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

/* A process of our number was killed here before: its names are taken, and stay. */
static void test_writer_among_stale_names(void **state) {
  enum { STALE = 100 };
  (void)state;
  for (int i = 0; i < STALE; i++) {
    char name[64];
    (void)snprintf(name, sizeof name, "new.gguf.%ld.%d.tmp", (long)getpid(), i);
    put_file_text(name, "stale");
  }
  const int files = count_files();
  ga_gguf_writer *w = new_writer(3, 0);
  ga_gguf_put_bool(w, "k", true);
  finish_file(w, "new.gguf");
  assert_int_equal(count_files(), files + 1);
  ga_model_file *f = open_file("new.gguf");
  assert_non_null(ga_model_file_meta(f, "k"));
  ga_model_file_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_split),
      cmocka_unit_test(test_split_refused),
      cmocka_unit_test(test_writer_refuses),
      cmocka_unit_test(test_writer_is_atomic),
      cmocka_unit_test(test_writer_among_stale_names),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
