/* ga probe on a GPU, over the mock driver, whose every pair of events is 1.5 ms apart; and its file of figures. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda_rig.h"
#include "verify/probe/probe.h"

/* Any kernel is in this build. */
const cuda_image *__wrap_cuda_image_of(const char *id);
const cuda_image *__wrap_cuda_image_of(const char *id) {
  static const cuda_image any = {"", image, image + 8};
  (void)id;
  return &any;
}

/* --- cmd_probe.c without its options and report --- */

void probe_put(probe *p, double value, const char *name, ...) {
  char text[64];
  va_list args;
  va_start(args, name);
  (void)vsnprintf(text, sizeof text, name, args);
  va_end(args);
  (void)json_object_set_new(p->figures, text, json_real(value));
}

ga_status probe_step(probe *p, const char *what) {
  (void)p, (void)what;
  return GA_OK;
}

/* --- tests --- */

static double figure_of(const probe *p, const char *name) { return json_real_value(json_object_get(p->figures, name)); }

static void test_launch_times(void **state) {
  (void)state;
  mockcu.memory_bytes = 1 << 26;
  mockcu.args_bytes = 8;
  probe p = {.ctx = open_cuda(), .seconds = 0.001, .figures = json_object()};
  if (probe_gpu(&p) != GA_OK) fail_msg("%s", ga_error_text());
  assert_true(figure_of(&p, "launch_us") == 1.5 && figure_of(&p, "graph_node_us") == 1.5);
  assert_true(figure_of(&p, "launch_host_us") > 0);
  json_decref(p.figures);
  ga_ctx_destroy(p.ctx);
}

static long json_living; /* allocations */

static void *count_malloc(size_t n) {
  json_living++;
  return malloc(n);
}

static void count_free(void *p) {
  json_living -= p != NULL;
  free(p);
}

/* Figures of another device are not read; those of this one are, and nothing else of the file is kept. */
static void test_file(void **state) {
  (void)state;
  char folder[] = "/tmp/ga_probe_XXXXXX", path[512];
  assert_non_null(mkdtemp(folder));
  (void)setenv("XDG_CACHE_HOME", folder, 1);
  json_set_alloc_funcs(count_malloc, count_free);
  ga_ctx *ctx = open_cuda();
  assert_true(probe_path(ctx, path, sizeof path));
  assert_null(probe_read(ctx));
  const char *const texts[] = {"another one", ga_ctx_device_text(ctx)};
  for (int own = 0; own < 2; own++) {
    json_t *report = json_pack("{s:s, s:{s:f}}", "text", texts[own], "figures", "read_gbs", 4.5);
    assert_int_equal(probe_write(path, report), GA_OK);
    json_decref(report);
    json_t *figures = probe_read(ctx);
    assert_true((figures != NULL) == (own == 1));
    if (own) assert_true(json_real_value(json_object_get(figures, "read_gbs")) == 4.5);
    json_decref(figures);
    assert_int_equal(json_living, 0);
  }
  assert_int_equal(unlink(path), 0);
  for (char *end; (end = strrchr(path, '/')) && strlen(path) > strlen(folder);) {
    *end = 0;
    assert_int_equal(rmdir(path), 0);
  }
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_launch_times, reset, no_leaks),
                                     cmocka_unit_test_setup_teardown(test_file, reset, no_leaks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
