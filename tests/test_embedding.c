/* From rows to an embedding: kinds of pooling, Dense and Normalize modules, refused fields of modules.json. */
#include <math.h>
#include <sys/stat.h>

#include "model/embedding.h"
#include "tests/model_folder.h"

enum { WIDTH = 8 };

#define BERT       "{\"model_type\":\"bert\"," BASE "}"
#define POOL(mode) "{\"pooling_mode\":" mode "}"
#define MODULE(type, path) \
  "{\"idx\":0,\"name\":\"x\",\"path\":\"" path "\",\"type\":\"sentence_transformers.models." type "\"}"
#define BEGIN "[" MODULE("Transformer", "") "," MODULE("Pooling", "1_Pooling")

static void make_folders(void) {
  static const char *const names[] = {"1_Pooling", "2_Dense", "3_Dense"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++) (void)mkdir(in_folder(names[i]), 0700);
}

static void drop_files(void) {
  static const char *const names[] = {"1_Pooling/config.json",     "2_Dense/config.json",       "3_Dense/config.json",
                                      "2_Dense/model.safetensors", "3_Dense/model.safetensors", "modules.json",
                                      "sentence_bert_config.json"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++) (void)unlink(in_folder(names[i]));
}

static ga_status read_modules_folder(bool plan_only, ga_embedding **out) {
  const ga_hparams p = {.width = WIDTH, .pooling = POOL_MEAN};
  ga_model_file *file;
  *out = NULL;
  const ga_status opened = open_folder(BERT, 0, NULL, &file);
  if (opened) return opened;
  ga_hparams own = p;
  int64_t type = POOL_MEAN;
  ga_status status = ga_model_file_int_or(file, "bert.pooling_type", POOL_MEAN, 0, 3, &type);
  own.pooling = (int32_t)type;
  if (status == GA_OK) status = embedding_create(file, &own, plan_only, out);
  ga_model_file_destroy(file);
  return status;
}

/* A Dense module whose weights are 1, 2, 3, ... times 1/64, row by row, and whose bias is that of the row's number. */
static void put_dense(const char *folder, int in, int out, const char *more, bool has_bias) {
  char name[64], text[512];
  float values[512];
  const int n = in * out, all = n + (has_bias ? out : 0);
  for (int i = 0; i < n; i++) values[i] = (float)(i + 1) / 64;
  for (int i = 0; i < out; i++) values[n + i] = (float)i;
  (void)snprintf(name, sizeof name, "%s/config.json", folder);
  (void)snprintf(text, sizeof text, "{\"in_features\":%d,\"out_features\":%d%s}", in, out, more);
  put_file_text(name, text);
  int used =
      snprintf(text, sizeof text, "{\"linear.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}",
               out, in, 4 * n);
  if (has_bias)
    used +=
        snprintf(text + used, sizeof text - (size_t)used,
                 ",\"linear.bias\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", out, 4 * n, 4 * all);
  (void)snprintf(text + used, sizeof text - (size_t)used, "}");
  raw.n = 0;
  raw_text(&raw, text);
  for (int i = 0; i < all; i++) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    raw_le(&raw, 4, bits);
  }
  (void)snprintf(name, sizeof name, "%s/model.safetensors", folder);
  put_file_bytes(name, raw.data, raw.n);
}

/* Column c of row t is (t + 1) * (c + 1), but for the last column, which falls: -t. */
static void fill_token_rows(float *x, int n) {
  for (int t = 0; t < n; t++)
    for (int c = 0; c < WIDTH; c++) x[t * WIDTH + c] = c == WIDTH - 1 ? (float)-t : (float)((t + 1) * (c + 1));
}

static void expect_vector(const ga_embedding *e, int n, const double *want) {
  float x[16 * WIDTH], got[64];
  double sum = 0;
  fill_token_rows(x, n);
  assert_ok(embedding_compute(e, x, n, WIDTH, got));
  for (int i = 0; i < e->width; i++) sum += want[i] * want[i];
  for (int i = 0; i < e->width; i++)
    if (fabs((double)got[i] - want[i] / sqrt(sum)) > 1e-6)
      fail_msg("element %d is %g, must be %g", i, (double)got[i], want[i] / sqrt(sum));
}

/* The pooled column c of three rows by each kind. */
static double pooled(const char *mode, int c) {
  const double first = c == WIDTH - 1 ? 0 : c + 1, step = c == WIDTH - 1 ? -1 : c + 1;
  if (!strcmp(mode, "cls")) return first;
  if (!strcmp(mode, "lasttoken")) return first + 2 * step;
  if (!strcmp(mode, "max")) return step > 0 ? first + 2 * step : first;
  if (!strcmp(mode, "weightedmean")) return (first + 2 * (first + step) + 3 * (first + 2 * step)) / 6;
  return (first + step) * (strcmp(mode, "mean") ? sqrt(3) : 1);
}

static void expect_modes(const char *config, int n, const char *const *modes) {
  ga_embedding *e;
  double want[64];
  put_file_text("1_Pooling/config.json", config);
  const ga_status status = read_modules_folder(false, &e);
  if (status) fail_msg("%s: %s", config, ga_error_text());
  assert_int_equal(e->width, n * WIDTH);
  for (int k = 0; k < n; k++)
    for (int c = 0; c < WIDTH; c++) want[k * WIDTH + c] = pooled(modes[k], c);
  expect_vector(e, 3, want);
  embedding_destroy(e);
}

static void test_pooling(void **state) {
  static const char *const names[] = {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
  static const char *const old[] = {"cls_token",           "max_tokens", "mean_tokens", "mean_sqrt_len_tokens",
                                    "weightedmean_tokens", "lasttoken"};
  char config[256];
  (void)state;
  make_folders();
  for (size_t i = 0; i < GA_COUNT_OF(names); i++) {
    (void)snprintf(config, sizeof config,
                   "{\"embedding_dimension\":64,\"pooling_mode\":\"%s\",\"include_prompt\":true}", names[i]);
    expect_modes(config, 1, &names[i]);
    (void)snprintf(config, sizeof config, "{\"word_embedding_dimension\":64,\"pooling_mode_%s\":true}", old[i]);
    expect_modes(config, 1, &names[i]);
  }
  expect_modes("{}", 1, (const char *const[]){"mean"});
  expect_modes("{\"pooling_mode_mean_tokens\":false}", 1, (const char *const[]){"mean"});
  expect_modes(POOL("[\"max\"]"), 1, (const char *const[]){"max"});
  expect_modes(POOL("[\"mean\",\"cls\",\"max\"]"), 3, (const char *const[]){"mean", "cls", "max"});
  expect_modes("{\"pooling_mode_lasttoken\":true,\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}", 3,
               (const char *const[]){"cls", "mean", "lasttoken"});
  drop_files();
}

/* W x + b of a Dense module of put_dense. */
static void dense(int in, int out, bool has_bias, const double *x, double *y) {
  for (int r = 0; r < out; r++) {
    y[r] = has_bias ? r : 0;
    for (int c = 0; c < in; c++) y[r] += (r * in + c + 1) / 64.0 * x[c];
  }
}

static void test_dense(void **state) {
  static const struct {
    const char *type;
    int act;
  } acts[] = {{"linear.Identity", 0}, {"activation.Tanh", 1}, {"activation.ReLU", 2},
              {"activation.GELU", 3}, {"activation.SiLU", 4}, {"activation.Sigmoid", 5}};
  ga_embedding *e;
  double x[WIDTH], y[16], z[16], sum = 0;
  char more[128];
  (void)state;
  make_folders();
  put_file_text("1_Pooling/config.json", POOL("\"mean\""));
  put_file_text("modules.json", BEGIN "," MODULE("Dense", "2_Dense") "," MODULE("Dropout", "x") "]");
  for (int c = 0; c < WIDTH; c++) x[c] = pooled("mean", c);
  for (size_t i = 0; i < GA_COUNT_OF(acts); i++)
    for (int has_bias = 0; has_bias < 2; has_bias++) {
      (void)snprintf(more, sizeof more, ",\"bias\":%s,\"activation_function\":\"torch.nn.modules.%s\"",
                     has_bias ? "true" : "false", acts[i].type);
      put_dense("2_Dense", WIDTH, 3, more, has_bias);
      assert_ok(read_modules_folder(false, &e));
      dense(WIDTH, 3, has_bias, x, y);
      for (int r = 0; r < 3; r++)
        y[r] = acts[i].act == 0   ? y[r]
               : acts[i].act == 1 ? tanh(y[r])
               : acts[i].act == 2 ? fmax(y[r], 0)
               : acts[i].act == 3 ? y[r] * 0.5 * erfc(-y[r] / sqrt(2))
               : acts[i].act == 4 ? y[r] / (1 + exp(-y[r]))
                                  : 1 / (1 + exp(-y[r]));
      assert_int_equal(e->width, 3);
      expect_vector(e, 3, y);
      embedding_destroy(e);
    }
  /* Old files mean Tanh and a bias. A Normalize before a module counts. Modules follow one another. */
  put_file_text("modules.json", BEGIN "," MODULE("Normalize", "n") "," MODULE("Dense", "2_Dense") "," MODULE(
                                    "Dense", "3_Dense") "," MODULE("Normalize", "n") "]");
  put_dense("2_Dense", WIDTH, 3, "", true);
  put_dense("3_Dense", 3, 16, ",\"activation_function\":\"torch.nn.modules.linear.Identity\",\"bias\":false", false);
  assert_ok(read_modules_folder(false, &e));
  for (int c = 0; c < WIDTH; c++) sum += x[c] * x[c];
  for (int c = 0; c < WIDTH; c++) x[c] /= sqrt(sum);
  dense(WIDTH, 3, true, x, y);
  for (int r = 0; r < 3; r++) y[r] = tanh(y[r]);
  dense(3, 16, false, y, z);
  assert_int_equal(e->width, 16);
  expect_vector(e, 3, z);
  embedding_destroy(e);
  (void)unlink(in_folder("2_Dense/model.safetensors"));
  assert_ok(read_modules_folder(true, &e)); /* a plan reads no weights */
  assert_int_equal(e->width, 16);
  embedding_destroy(e);
  drop_files();
}

static void expect_modules_refused(const char *modules, ga_status want, const char *part) {
  ga_embedding *e;
  put_file_text("modules.json", modules);
  assert_error(read_modules_folder(false, &e), want, part);
  assert_null(e);
}

static void test_modules_refused(void **state) {
  static const struct {
    const char *config;
    ga_status status;
    const char *part;
  } poolings[] = {
      {POOL("\"rank\""), GA_ERR_UNSUPPORTED, "1_Pooling/config.json: 'pooling_mode' is rank; must be cls, max, mean"},
      {POOL("[]"), GA_ERR_UNSUPPORTED, "'pooling_mode' has 0 modes"},
      {POOL("7"), GA_ERR_UNSUPPORTED, "'pooling_mode' is an integer"},
      {"{\"pooling_mode_cls_token\":1}", GA_ERR_FORMAT,
       "'pooling_mode_cls_token' is an integer; must be true or false"},
      {"{\"pooling_mode_attention\":true}", GA_ERR_UNSUPPORTED, "'pooling_mode_attention' is not known"},
  };
  static const struct {
    const char *more;
    ga_status status;
    const char *part;
  } denses[] = {
      {",\"activation_function\":\"torch.nn.modules.activation.Mish\"", GA_ERR_UNSUPPORTED,
       "2_Dense/config.json: 'activation_function' is torch.nn.modules.activation.Mish"},
      {",\"use_residual\":true", GA_ERR_UNSUPPORTED, "'use_residual' is true"},
      {",\"module_input_name\":\"token_embeddings\"", GA_ERR_UNSUPPORTED, "'module_input_name' is 'token_embeddings'"},
      {",\"bias\":\"yes\"", GA_ERR_FORMAT, "'bias' is a text"},
      {",\"rank\":4", GA_ERR_UNSUPPORTED, "'rank' is not known"},
  };
  ga_embedding *e;
  (void)state;
  make_folders();
  for (size_t i = 0; i < GA_COUNT_OF(poolings); i++) {
    put_file_text("1_Pooling/config.json", poolings[i].config);
    assert_error(read_modules_folder(false, &e), poolings[i].status, poolings[i].part);
  }
  put_file_text("1_Pooling/config.json", "{}");
  put_file_text("sentence_bert_config.json", "{\"max_seq_length\":256,\"do_lower_case\":true}");
  assert_error(read_modules_folder(false, &e), GA_ERR_UNSUPPORTED,
               "sentence_bert_config.json: 'do_lower_case' is true");
  put_file_text("sentence_bert_config.json", "{\"max_seq_length\":256,\"do_lower_case\":false}");
  expect_modules_refused("{}", GA_ERR_FORMAT, "modules.json: JSON is an object; must be an array");
  expect_modules_refused(
      "[" MODULE("Pooling", "1_Pooling") "]", GA_ERR_UNSUPPORTED,
      "module 0: 'type' is 'sentence_transformers.models.Pooling'; the first module must be a Transformer");
  expect_modules_refused("[{\"type\":\"custom_st.Transformer\",\"path\":\"\"}]", GA_ERR_UNSUPPORTED,
                         "'custom_st.Transformer'");
  expect_modules_refused("[" MODULE("Transformer", "0_Transformer") "]", GA_ERR_UNSUPPORTED,
                         "'path' of the Transformer is '0_Transformer'; open that folder");
  expect_modules_refused("[" MODULE("Transformer", "") "," MODULE("Dense", "2_Dense") "]", GA_ERR_UNSUPPORTED,
                         "module 1: 'type' is 'Dense'; one Pooling must stand before");
  expect_modules_refused(BEGIN "," MODULE("Pooling", "1_Pooling") "]", GA_ERR_UNSUPPORTED,
                         "module 2: 'type' is 'Pooling'; one Pooling");
  expect_modules_refused(BEGIN "," MODULE("LayerNorm", "2") "]", GA_ERR_UNSUPPORTED,
                         "'sentence_transformers.models.LayerNorm'; must be Pooling, Dense, Normalize or Dropout");
  expect_modules_refused("[" MODULE("Transformer", "") "," MODULE("Pooling", "../x") "]", GA_ERR_FORMAT,
                         "'path' is ../x; must be the name of a folder");
  expect_modules_refused("[3]", GA_ERR_FORMAT, "module 0: is an integer; must be an object");
  expect_modules_refused("[{\"speed\":1}]", GA_ERR_UNSUPPORTED, "modules.json: '0.speed' is not known");
  for (int n = EMBEDDING_MOST_MODULES; n <= EMBEDDING_MOST_MODULES + 1; n++) {
    char many[4096] = BEGIN;
    for (int i = 0; i <= n; i++) (void)strcat(many, "," MODULE("Normalize", "n")); /* the last one adds nothing */
    (void)strcat(many, "]");
    put_file_text("modules.json", many);
    const ga_status status = read_modules_folder(false, &e);
    if (n > EMBEDDING_MOST_MODULES) assert_error(status, GA_ERR_UNSUPPORTED, "modules.json has more than 16 modules");
    if (n == EMBEDDING_MOST_MODULES) assert_ok(status);
    embedding_destroy(e);
  }
  for (size_t i = 0; i < GA_COUNT_OF(denses); i++) {
    put_dense("2_Dense", WIDTH, 3, denses[i].more, true);
    expect_modules_refused(BEGIN "," MODULE("Dense", "2_Dense") "]", denses[i].status, denses[i].part);
  }
  put_dense("2_Dense", 5, 3, "", true);
  expect_modules_refused(BEGIN "," MODULE("Dense", "2_Dense") "]", GA_ERR_SHAPE,
                         "2_Dense: 'in_features' is 5; the vector before it has 8 elements");
  put_dense("2_Dense", WIDTH, 3, "", false);
  expect_modules_refused(BEGIN "," MODULE("Dense", "2_Dense") "]", GA_ERR_FORMAT, "tensor 'linear.bias' is missing");
  (void)unlink(in_folder("2_Dense/model.safetensors"));
  expect_modules_refused(BEGIN "," MODULE("Dense", "2_Dense") "]", GA_ERR_IO,
                         "2_Dense/model.safetensors: No such file");
  drop_files();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pooling), cmocka_unit_test(test_dense),
                                     cmocka_unit_test(test_modules_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
