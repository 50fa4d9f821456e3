/* ga_model_load takes the names that -m takes: paths, what lies in the models' folder, known names, hf:. It fetches
 * nothing; an error names what is here and says ga pull. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/tiny_model.h"

static const char *const models[] = {"own.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf", "hf/org/repo/m-Q8_0.gguf",
                                     "hf/org/repo/m-Q4_K_M.gguf", "hf/org/one/sub/x.gguf"};
enum { N_MODELS = sizeof models / sizeof *models };

static const char *in_models(const char *name) {
  static char path[512];
  (void)snprintf(path, sizeof path, "%s/%s", tiny_folder, name);
  return path;
}

static int make_models(void **state) {
  static const char *const folders[] = {"hf", "hf/org", "hf/org/repo", "hf/org/one", "hf/org/one/sub"};
  (void)state;
  if (tiny_make("llama", TINY_VOCAB) != GA_OK) return -1;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    if (mkdir(in_models(folders[i]), 0700)) return -1;
  for (int i = 0; i < N_MODELS; i++)
    if (link(tiny_path, in_models(models[i]))) return -1;
  (void)unlink(tiny_path);
  return setenv("GA_MODELS", tiny_folder, 1);
}

static int remove_models(void **state) {
  (void)state;
  for (int i = 0; i < N_MODELS; i++) (void)unlink(in_models(models[i]));
  (void)rmdir(in_models("hf/org/one/sub"));
  (void)rmdir(in_models("hf/org/one"));
  (void)rmdir(in_models("hf/org/repo"));
  (void)rmdir(in_models("hf/org"));
  (void)rmdir(in_models("hf"));
  return rmdir(tiny_folder);
}

static void opens(const char *name, const char *want) {
  char path[4096];
  ga_ctx *ctx;
  ga_model *model;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "ref";
  o.threads = 1;
  if (ga_model_path(name, path, sizeof path) != GA_OK) fail_msg("%s", ga_error_text());
  assert_string_equal(path, want);
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  if (ga_model_load(ctx, name, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_model_get_info(model)->vocab, TINY_VOCAB);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void test_names_open(void **state) {
  (void)state;
  opens(in_models("own.gguf"), in_models("own.gguf"));
  opens("own.gguf", in_models("own.gguf"));
  opens("smollm2-135m", in_models("SmolLM2-135M-Instruct.Q4_1.gguf"));
  opens("SmolLM2-135M-Instruct.Q4_1.gguf", in_models("SmolLM2-135M-Instruct.Q4_1.gguf"));
  opens("hf:org/repo", in_models("hf/org/repo/m-Q4_K_M.gguf"));
  opens("hf:org/repo:Q8_0", in_models("hf/org/repo/m-Q8_0.gguf"));
  opens("hf:org/repo/m-Q8_0.gguf", in_models("hf/org/repo/m-Q8_0.gguf"));
  opens("hf:org/one", in_models("hf/org/one/sub/x.gguf"));
  opens(GA_TEST_DATA "/arch/qwen2", GA_TEST_DATA "/arch/qwen2"); /* a folder */
}

static void not_here(const char *name, ga_status want, int n, const char *const *parts) {
  char path[4096] = "x";
  ga_ctx *ctx;
  ga_model *model = (ga_model *)1;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "ref";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  assert_int_equal(ga_model_load(ctx, name, NULL, &model), want);
  assert_null(model);
  for (int i = 0; i < n; i++)
    if (!strstr(ga_error_text(), parts[i])) fail_msg("no '%s' in: %s", parts[i], ga_error_text());
  assert_int_equal(ga_model_path(name, path, sizeof path), want);
  assert_string_equal(path, "");
  ga_ctx_destroy(ctx);
}
#define NOT_HERE(name, want, ...) \
  not_here(name, want, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})

static void test_what_is_not_here(void **state) {
  (void)state;
  NOT_HERE("gemma3-270m", GA_ERR_IO, "gemma3-270m is not here yet", "ga pull gemma3-270m", "own.gguf", "smollm2-135m",
           "hf:org/repo/m-Q8_0.gguf");
  NOT_HERE("hf:org/other", GA_ERR_IO, "hf:org/other is not here", "ga pull hf:org/other", "hf:org/one/sub/x.gguf");
  NOT_HERE("hf:org/repo:Q5_0", GA_ERR_IO, "hf:org/repo:Q5_0 is not here", "ga pull hf:org/repo:Q5_0");
  NOT_HERE("nope", GA_ERR_IO, "nope: no such file, and no model of that name", tiny_folder, "own.gguf", "ga pull");
  NOT_HERE("/nope/x.gguf", GA_ERR_IO, "/nope/x.gguf: no such file");
  NOT_HERE("hf/../../own.gguf", GA_ERR_IO, "hf/../../own.gguf: no such file"); /* nothing outside of the folder */
  char long_name[300 + 1] = "";
  memset(long_name, 'x', 300);
  NOT_HERE(long_name, GA_ERR_IO, "File name too long"); /* what cannot be looked at is not told to be missing */
  NOT_HERE("", GA_ERR_ARG, "empty");
  NOT_HERE("hf:org", GA_ERR_ARG, "must be hf:ORGANISATION/REPOSITORY");
  NOT_HERE("hf:../x", GA_ERR_ARG, "must be hf:ORGANISATION/REPOSITORY");
}

static void test_folders(void **state) {
  (void)state;
  assert_int_equal(setenv("GA_MODELS", in_models("none"), 1), 0);
  NOT_HERE("own.gguf", GA_ERR_IO, "has no models", "ga pull");
  NOT_HERE("hf:org/repo", GA_ERR_IO, "has no models", "ga pull hf:org/repo");
  assert_int_equal(unsetenv("GA_MODELS"), 0);
  assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
  assert_int_equal(unsetenv("HOME"), 0);
  NOT_HERE("own.gguf", GA_ERR_IO, "set GA_MODELS or HOME");
  assert_int_equal(setenv("GA_MODELS", tiny_folder, 1), 0);
}

static void test_path_arguments(void **state) {
  char path[8];
  (void)state;
  assert_int_equal(ga_model_path(NULL, path, sizeof path), GA_ERR_ARG);
  assert_int_equal(ga_model_path("x", NULL, 8), GA_ERR_ARG);
  assert_int_equal(ga_model_path("x", path, 0), GA_ERR_ARG);
  assert_int_equal(ga_model_path("a-long-name", path, sizeof path), GA_ERR_ARG);
  assert_int_equal(ga_model_path("own.gguf", path, sizeof path), GA_ERR_ARG);
  assert_int_equal(ga_model_path("own", path, sizeof path), GA_ERR_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names_open), cmocka_unit_test(test_what_is_not_here),
                                     cmocka_unit_test(test_folders), cmocka_unit_test(test_path_arguments)};
  return cmocka_run_group_tests(tests, make_models, remove_models);
}
