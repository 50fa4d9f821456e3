/* Structs that grow, as versions that do not exist yet would use them: src/base/sized.h, src/op/op_io.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/sized.h"
#include "op/op_io.h"

typedef struct first {
  size_t struct_size;
  int64_t a;
} first;

typedef struct second {
  size_t struct_size;
  int64_t a, b;
} second;

typedef struct third {
  size_t struct_size;
  int64_t a, b, c;
} third;

enum { FIRST = sizeof(first) };

static void refuse_struct(const void *given, const char *text) {
  second full = {7, 7, 7};
  assert_int_equal(ga_sized_take("op: desc", given, FIRST, &full, sizeof full), GA_ERR_ARG);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
  assert_int_equal(full.a, 7);
}

static void test_older(void **state) {
  (void)state;
  const first old = {sizeof old, 5};
  second full = {7, 7, 7};
  assert_int_equal(ga_sized_take("op: desc", &old, FIRST, &full, sizeof full), GA_OK);
  assert_int_equal(full.struct_size, sizeof old);
  assert_int_equal(full.a, 5);
  assert_int_equal(full.b, 0);
}

static void test_same(void **state) {
  (void)state;
  const second same = {sizeof same, 5, 6};
  second full = {7, 7, 7};
  assert_int_equal(ga_sized_take("op: desc", &same, FIRST, &full, sizeof full), GA_OK);
  assert_memory_equal(&full, &same, sizeof full);
}

static void test_newer(void **state) {
  (void)state;
  third new = {sizeof new, 5, 6, 0};
  second full = {7, 7, 7};
  assert_int_equal(ga_sized_take("op: desc", &new, FIRST, &full, sizeof full), GA_OK);
  assert_int_equal(full.struct_size, sizeof full);
  assert_int_equal(full.a, 5);
  assert_int_equal(full.b, 6);
  new.c = (int64_t)1 << 40;
  refuse_struct(&new, "op: desc.struct_size is 32 and byte 29 is not 0");
  refuse_struct(&new, "takes 16 to 24 bytes");
}

static void test_no_struct(void **state) {
  (void)state;
  const size_t sizes[] = {0, 8, FIRST - 1, GA_SIZED_MAX_BYTES + 1, SIZE_MAX};
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) {
    const second given = {sizes[i], 5, 6};
    refuse_struct(&given, "must be 16 to 24, or at most 1024 with zeros behind: use the INIT macro");
  }
}

/* The largest: its last byte is read, and none behind it. */
static void test_largest(void **state) {
  (void)state;
  size_t words[GA_SIZED_MAX_BYTES / sizeof(size_t) + 1] = {GA_SIZED_MAX_BYTES};
  words[GA_COUNT_OF(words) - 1] = 1;
  second full;
  assert_int_equal(ga_sized_take("op: desc", words, FIRST, &full, sizeof full), GA_OK);
  words[GA_COUNT_OF(words) - 2] = 1;
  refuse_struct(words, "is not 0");
}

static void test_out(void **state) {
  (void)state;
  const second values = {sizeof values, 5, 6};
  first old[2] = {{sizeof(first), 1}, {3, 4}};
  assert_int_equal(ga_sized_check_out("op: info", old, FIRST), GA_OK);
  ga_sized_give(&values, sizeof values, old);
  assert_int_equal(old[0].struct_size, sizeof(first));
  assert_int_equal(old[0].a, 5);
  assert_int_equal(old[1].struct_size, 3); /* not written */
  third new = {sizeof new, 1, 1, 1};
  assert_int_equal(ga_sized_check_out("op: info", &new, FIRST), GA_OK);
  ga_sized_give(&values, sizeof values, &new);
  assert_int_equal(new.struct_size, sizeof new);
  assert_int_equal(new.b, 6);
  assert_int_equal(new.c, 0);
  new.struct_size = FIRST - 1;
  assert_int_equal(ga_sized_check_out("op: info", &new, FIRST), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "op: info.struct_size is 15; must be 16 to 1024"));
}

/* An op whose io grew with its description, once. */
static void test_io(void **state) {
  (void)state;
  static const ga_io_version rows[] = {{GA_OP_norm, 64, 8}, {GA_OP_add, 64, 8}, {GA_OP_norm, 72, 24}};
  const ga_io_versions versions = {rows, GA_COUNT_OF(rows)};
  assert_int_equal(ga_io_bytes(&versions, GA_OP_norm, 64), 8);
  assert_int_equal(ga_io_bytes(&versions, GA_OP_norm, 71), 8);
  assert_int_equal(ga_io_bytes(&versions, GA_OP_norm, 72), 24);
  assert_int_equal(ga_io_bytes(&versions, GA_OP_norm, 80), 24);
  assert_int_equal(ga_io_bytes(&versions, GA_OP_norm, 63), 0);
  assert_int_equal(ga_io_bytes(&versions, GA_OP_gemm, 64), 0);
  const int64_t io[] = {1, 2, 3};
  int64_t full[] = {7, 7, 7};
  assert_int_equal(ga_io_take(&versions, GA_OP_norm, 64, io, full, sizeof full), GA_OK);
  assert_memory_equal(full, ((int64_t[]){1, 0, 0}), sizeof full);
  assert_int_equal(ga_io_take(&versions, GA_OP_norm, 72, io, full, sizeof full), GA_OK);
  assert_memory_equal(full, io, sizeof full);
  assert_int_equal(ga_io_take(&versions, GA_OP_norm, 8, io, full, sizeof full), GA_ERR_INTERNAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_older),     cmocka_unit_test(test_same),    cmocka_unit_test(test_newer),
      cmocka_unit_test(test_no_struct), cmocka_unit_test(test_largest), cmocka_unit_test(test_out),
      cmocka_unit_test(test_io),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
