/* Compiling rows at run time: when, with which options, and what the cache on disk does. NVRTC and driver are mocks. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "core/ctx.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/jit.h"
#include "cuda/rt/nvrtc.h"
#include "tests/mockcu.h"

#define ADD    "add_f32_rows_sm80_256x4"
#define SOURCE "src/cuda/kern/layer/add_sm80.cu"

static const unsigned char image[] = "an image";
static const char text[] = "the source";
static const cuda_image no_images[] = {{0}}, images[] = {{ADD, image, image + 8}, {0}};
static const cuda_source_part parts[] = {{text, text + 4}, {text + 4, text + 10}, {0}};
static const cuda_source sources[] = {{SOURCE, parts}, {0}};

/* --- a compiler --- */

static struct {
  int version, compiles, alive;
  bool fails;
  char options[512];
} rtc;

static int rtc_version(int *major, int *minor) {
  *major = rtc.version;
  *minor = 0;
  return 0;
}
static const char *rtc_error(int rc) { return rc == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
static int rtc_create(nvrtcProgram *program, const char *source, const char *name, int n, const char *const *headers,
                      const char *const *names) {
  (void)headers, (void)names;
  assert_string_equal(source, text);
  assert_string_equal(name, SOURCE);
  assert_int_equal(n, 0);
  rtc.alive++;
  *program = (nvrtcProgram)(void *)&rtc;
  return 0;
}
static int rtc_destroy(nvrtcProgram *program) {
  rtc.alive--;
  *program = NULL;
  return 0;
}
static int rtc_compile(nvrtcProgram program, int n, const char *const *options) {
  (void)program;
  rtc.compiles++;
  rtc.options[0] = 0;
  for (int i = 0; i < n; i++) {
    strncat(rtc.options, options[i], sizeof rtc.options - strlen(rtc.options) - 2);
    strcat(rtc.options, " ");
  }
  return rtc.fails ? 6 : 0;
}
static int rtc_log_size(nvrtcProgram program, size_t *n) {
  (void)program;
  *n = 18;
  return 0;
}
static int rtc_log(nvrtcProgram program, char *log) {
  (void)program;
  memcpy(log, "line 1: not so fast", 18);
  return 0;
}
static int rtc_cubin_size(nvrtcProgram program, size_t *n) {
  (void)program;
  *n = 6;
  return 0;
}
static int rtc_cubin(nvrtcProgram program, char *cubin) {
  (void)program;
  memcpy(cubin, "cubin", 6);
  return 0;
}

static const ga_nvrtc compiler = {rtc_version,  rtc_error, rtc_create,     rtc_destroy, rtc_compile,
                                  rtc_log_size, rtc_log,   rtc_cubin_size, rtc_cubin};

/* --- a cache folder of our own --- */

static char folder[64], files[160];

static int n_files(char *last, size_t capacity) {
  int n = 0;
  DIR *d = opendir(files);
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    n++;
    if (last) (void)snprintf(last, capacity, "%s/%s", files, e->d_name);
  }
  if (d) (void)closedir(d);
  return n;
}

static int reset_jit(void **state) {
  (void)state;
  mockcu_reset();
  memset(&rtc, 0, sizeof rtc);
  rtc.version = 13;
  ga_cu_replace(&mockcu_table);
  ga_nvrtc_replace(&compiler);
  cuda_replace_tables(no_images, sources);
  (void)snprintf(folder, sizeof folder, "/tmp/ga-test-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  (void)snprintf(files, sizeof files, "%s/ga/jit", folder);
  setenv("XDG_CACHE_HOME", folder, 1);
  unsetenv("GA_JIT");
  return 0;
}

static int clean(void **state) {
  (void)state;
  char path[512];
  while (n_files(path, sizeof path)) (void)unlink(path);
  (void)rmdir(files);
  (void)snprintf(path, sizeof path, "%s/ga", folder);
  (void)rmdir(path);
  (void)rmdir(folder);
  ga_mem_fail_after(0);
  ga_cu_replace(NULL);
  ga_nvrtc_replace(NULL);
  cuda_replace_tables(NULL, NULL);
  return mockcu.live || mockcu.misuse[0] || rtc.alive;
}

static ga_status launch_jit_add(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_add_desc d = GA_ADD_DESC_INIT;
  ga_ctx *ctx;
  void *x = NULL;
  o.device = "cuda:0";
  d.rows = d.width = 4;
  ga_status status = ga_ctx_create(&o, &ctx);
  if (status != GA_OK) return status;
  status = ga_buffer_alloc(ctx, 64, &x);
  ga_add_io io = {.x = x, .y = x};
  if (status == GA_OK) status = ga_add(ctx, &d, &io, NULL);
  ga_buffer_free(ctx, x);
  ga_ctx_destroy(ctx);
  return status;
}

static void compiles_once_then_reads(void **state) {
  (void)state;
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 1);
  assert_string_equal(rtc.options, "-arch=sm_90 -DGA_KERNEL_ID=" ADD
                                   " --std=c++17 -DGA_P_DTYPE=f32 -DGA_P_THREADS=256 -DGA_P_SMEM=0 ");
  assert_int_equal(n_files(NULL, 0), 1);
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 1);
  assert_int_equal(mockcu.loads, 2);
  rtc.version = 14; /* another compiler is another key */
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 2);
  assert_int_equal(n_files(NULL, 0), 2);
}

static void images_come_first_unless_forced(void **state) {
  (void)state;
  cuda_replace_tables(images, sources);
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 0);
  setenv("GA_JIT", "force", 1);
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 1);
}

static void off_means_no_row(void **state) {
  (void)state;
  setenv("GA_JIT", "off", 1);
  assert_int_equal(launch_jit_add(), GA_ERR_UNSUPPORTED);
  assert_int_equal(rtc.compiles, 0);
  if (!strstr(ga_error_text(), "no row is built for this device")) fail_msg("%s", ga_error_text());
}

/* Changes the file at a place, or cuts it there. */
static void damage(const char *path, long at, bool cut) {
  FILE *f = fopen(path, "r+b");
  assert_non_null(f);
  if (cut) {
    assert_int_equal(ftruncate(fileno(f), at), 0);
  } else {
    (void)fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    (void)fseek(f, at, SEEK_SET);
    (void)fputc(c ^ 1, f);
  }
  (void)fclose(f);
}

static void damaged_files_are_made_anew(void **state) {
  (void)state;
  char path[512], before[200], after[200];
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(n_files(path, sizeof path), 1);
  FILE *f = fopen(path, "rb");
  size_t size = fread(before, 1, sizeof before, f);
  (void)fclose(f);
  assert_int_equal(size, 139 + 6);
  /* magic, key, hash, cubin; cut in the header, at its end, in the cubin, empty */
  static const long places[] = {0, 20, 100, 140, -50, -139, -142, 0};
  int n = (int)(sizeof places / sizeof places[0]);
  for (int i = 0; i < n; i++) {
    bool cut = places[i] < 0 || i == n - 1;
    damage(path, labs(places[i]), cut);
    assert_int_equal(launch_jit_add(), GA_OK);
    assert_int_equal(rtc.compiles, 2 + i);
    f = fopen(path, "rb");
    assert_int_equal(fread(after, 1, sizeof after, f), size);
    (void)fclose(f);
    assert_memory_equal(before, after, size);
  }
  assert_int_equal(n_files(NULL, 0), 1); /* no temporary files stay */
}

static void no_place_to_write(void **state) {
  (void)state;
  setenv("XDG_CACHE_HOME", "/proc/no-such-place", 1);
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(launch_jit_add(), GA_OK);
  assert_int_equal(rtc.compiles, 2);
}

static void failing_compilation_says_why(void **state) {
  (void)state;
  rtc.fails = true;
  assert_int_equal(launch_jit_add(), GA_ERR_DEVICE);
  assert_string_equal(ga_error_text(), ADD ": NVRTC: NVRTC_ERROR_COMPILATION: line 1: not so fas");
  assert_int_equal(n_files(NULL, 0), 0);
}

static void parameters_and_limits(void **state) {
  (void)state;
  size_t n;
  const ga_kernel *rows = cuda_rows(&n), *k = NULL;
  for (size_t i = 0; i < n; i++)
    if (!strcmp(rows[i].id, ADD)) k = &rows[i];
  assert_non_null(k);
  void *cubin;
  char many[1000] = "";
  assert_int_equal(cuda_jit(k, " A=1 ,allow_spills=why, B=2,fast_math=1", 120, &cubin, &n), GA_OK);
  assert_string_equal(rtc.options,
                      "-arch=sm_120 -DGA_KERNEL_ID=" ADD " --std=c++17 -DGA_P_A=1 -DGA_P_B=2 --use_fast_math ");
  assert_memory_equal(cubin, "cubin", n);
  ga_mem_free(cubin);
  for (int i = 0; i < 60; i++) strcat(many, "X=1,");
  assert_int_equal(cuda_jit(k, many, 90, &cubin, &n), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), ADD ": too many parameters");
}

/* Source number `number`, which the row is of: due in full runs, if it has changed (tests/emu/checked.py lists the rows
 * in $GA_TEST_CHANGED), and each sixth one. */
static bool is_source_due(const char *id, size_t number) {
  const char *path = getenv("GA_TEST_CHANGED");
  char line[256];
  FILE *f = path ? fopen(path, "r") : NULL;
  bool due = !f || number % 6 == 0;
  while (!due && fgets(line, sizeof line, f)) due = !strncmp(line, id, strlen(id)) && line[strlen(id)] == ' ';
  if (f) (void)fclose(f);
  return due;
}

/* With the real compiler, where there is one: a row of each source. Needs no GPU. Runs when it is named. */
static void every_source_compiles(void **state) {
  (void)state;
  const ga_nvrtc *nvrtc;
  size_t n, bytes, sources_seen = 0;
  const char *last = "";
  ga_nvrtc_replace(NULL);
  cuda_replace_tables(NULL, NULL);
  if (ga_nvrtc_load(&nvrtc) != GA_OK) skip();
  const ga_kernel *rows = cuda_rows(&n);
  for (size_t i = 0; i < n; i++) {
    void *cubin;
    if (!rows[i].impl || !strcmp(last, rows[i].source))
      continue; /* rows without a device half have no source to compile */
    last = rows[i].source;
    if (!is_source_due(rows[i].id, sources_seen++)) continue;
    if (cuda_jit(&rows[i], ((const cuda_variant *)rows[i].impl)->params, 90, &cubin, &bytes) != GA_OK)
      fail_msg("%s", ga_error_text());
    assert_memory_equal(cubin, "\177ELF", 4);
    ga_mem_free(cubin);
  }
}

static void no_host_memory(void **state) {
  (void)state;
  ga_status status = GA_ERR_NOMEM;
  for (long i = 1; i < 100 && status != GA_OK; i++) {
    ga_mem_fail_after(i);
    status = launch_jit_add();
    ga_mem_fail_after(0);
    assert_int_equal(mockcu.live, 0);
    assert_int_equal(rtc.alive, 0);
  }
  assert_int_equal(status, GA_OK);
}

int main(int argc, char **argv) {
#define T(name) cmocka_unit_test_setup_teardown(name, reset_jit, clean)
  const struct CMUnitTest tests[] = {
      T(compiles_once_then_reads), T(images_come_first_unless_forced),
      T(off_means_no_row),         T(damaged_files_are_made_anew),
      T(no_place_to_write),        T(failing_compilation_says_why),
      T(parameters_and_limits),    T(every_source_compiles),
      T(no_host_memory),
  };
  const char *slow = "every_source_compiles";
  if (argc > 1 && strcmp(argv[1], slow)) return 2;
  if (argc > 1)
    cmocka_set_test_filter(slow);
  else
    cmocka_set_skip_filter(slow);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
