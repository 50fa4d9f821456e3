/* The files of the chat page in the program are those of the tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "serve/page.h"

static void check_page_file(const page_file *file, const char *name) {
  static unsigned char bytes[1 << 16];
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/../src/serve/page/%s", GA_TEST_DIR, name);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fread(bytes, 1, sizeof bytes, f), file->size);
  assert_int_equal(fclose(f), 0);
  assert_memory_equal(bytes, file->bytes, file->size);
}

static void test_files(void **state) {
  (void)state;
  size_t total = 0;
  assert_int_equal(n_page_files, 4);
  for (size_t i = 0; i < n_page_files; i++) {
    const page_file *file = &page_files[i];
    const char *dot = strrchr(file->path, '.');
    assert_int_equal(file->path[0], '/');
    check_page_file(file, file->path[1] ? file->path + 1 : "index.html");
    assert_string_equal(file->type, !dot                  ? "text/html; charset=utf-8"
                                    : !strcmp(dot, ".js") ? "text/javascript; charset=utf-8"
                                                          : "text/css; charset=utf-8");
    total += file->size;
  }
  assert_true(total < 40000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
