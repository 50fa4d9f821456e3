/* A checkpoint of e4m3 weights with scales computes what the same values in bf16 compute, bit by bit: the tiny qwen3 of
 * tests/data/arch, its matrices rounded to e4m3 with one scale a tensor, or one a row. */
#include <math.h>

#include "base/half.h"
#include "ga/llm.h"
#include "tests/model_bytes.h"

typedef enum scale_names { SCALE_ONE, SCALE_NONE, SCALE_BOTH } scale_names;
static scale_names names_of_scales; /* that add_fp8_matrix writes */

enum { TOKENS = 24, VOCAB = 96, MOST_BYTES = 1 << 20, MOST_HEADER = 1 << 14 };

/* A safetensors file that is being written. */
static struct {
  char header[MOST_HEADER];
  uint8_t data[MOST_BYTES];
  size_t h, n;
} out;

static void put_tensor(const char *name, const char *suffix, const char *dtype, int n_dims, const int64_t *dim,
                       const void *bytes, size_t n) {
  char shape[64] = "";
  for (int i = 0; i < n_dims; i++)
    (void)snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld", i ? "," : "", (long long)dim[i]);
  assert_true(out.n + n <= sizeof out.data);
  out.h += (size_t)snprintf(out.header + out.h, sizeof out.header - out.h,
                            "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                            out.h ? "," : "{", name, suffix, dtype, shape, out.n, out.n + n);
  assert_true(out.h < sizeof out.header - 2);
  memcpy(out.data + out.n, bytes, n);
  out.n += n;
}

/* Scales are no powers of two, so that products are rounded. */
static void add_fp8_matrix(const ga_model_tensor *t, bool by_row, bool as_bf16) {
  static uint8_t codes[128 * 128];
  static ga_bf16 values[128 * 128];
  float scales[128];
  const int64_t rows = t->view.dim[0], cols = t->view.dim[1];
  assert_true(rows <= 128 && cols <= 128);
  for (int64_t r = 0; r < rows; r++) scales[r] = 0.0013f * (by_row ? 1 + (float)r / 64 : 1);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const float w = ((const float *)t->view.data)[r * cols + c];
      codes[r * cols + c] = ga_f32_to_e4m3(w / scales[r]);
      values[r * cols + c] = ga_f32_to_bf16(ga_e4m3_to_f32(codes[r * cols + c]) * scales[r]);
    }
  const size_t n = (size_t)(rows * cols);
  if (as_bf16) {
    put_tensor(t->source_name, "", "BF16", 2, t->view.dim, values, 2 * n);
    return;
  }
  put_tensor(t->source_name, "", "F8_E4M3", 2, t->view.dim, codes, n);
  for (int inverse = 0; inverse < 2; inverse++)
    if (names_of_scales == SCALE_BOTH || (names_of_scales == SCALE_ONE && by_row != inverse))
      put_tensor(t->source_name, inverse ? "_scale_inv" : "_scale", "F32", by_row ? 2 : 0, (int64_t[]){rows, 1}, scales,
                 by_row ? 4 * (size_t)rows : 4);
}

static void put_config(const char *from, const char *to, bool as_bf16) {
  static char text[4096], more[4400];
  FILE *f = fopen(from, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  (void)fclose(f);
  (void)snprintf(more, sizeof more, "{%s%s",
                 as_bf16 ? ""
                         : "\"quantization_config\":{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\","
                           "\"activation_scheme\":\"dynamic\"},",
                 strchr(text, '{') + 1);
  put_file_text(to, more); /* relative to the folder */
}

static void make_checkpoint(const char *name, bool by_row, bool as_bf16) {
  char path[64];
  ga_model_file *f;
  assert_ok(ga_model_file_open(GA_TEST_DATA "/arch/qwen3", &f));
  out.h = out.n = 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(f); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(f, i);
    if (t->view.n_dims == 2 && strstr(t->source_name, ".layers."))
      add_fp8_matrix(t, by_row, as_bf16);
    else
      put_tensor(t->source_name, "", "F32", t->view.n_dims, t->view.dim, t->view.data, t->bytes);
  }
  ga_model_file_destroy(f);
  assert_int_equal(mkdir(in_folder(name), 0700), 0);
  (void)snprintf(path, sizeof path, "%s/config.json", name);
  put_config(GA_TEST_DATA "/arch/qwen3/config.json", path, as_bf16);
  static uint8_t file[8 + MOST_HEADER + MOST_BYTES];
  out.header[out.h++] = '}';
  ga_store_le(file, 8, out.h);
  memcpy(file + 8, out.header, out.h);
  memcpy(file + 8 + out.h, out.data, out.n);
  (void)snprintf(path, sizeof path, "%s/model.safetensors", name);
  put_file_bytes(path, file, 8 + out.h + out.n);
}

static void logits_of(const char *name, const char *device, float *logits) {
  int32_t ids[TOKENS];
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  for (int i = 0; i < TOKENS; i++) ids[i] = i * 37 % VOCAB;
  assert_ok(ga_ctx_create(&o, &ctx));
  assert_ok(ga_model_load(ctx, in_folder(name), NULL, &model));
  assert_ok(ga_session_create(model, NULL, &session));
  assert_ok(ga_session_eval(session, ids, TOKENS, logits, TOKENS, NULL, NULL));
  ga_session_destroy(session);
  ga_model_destroy(model);
  ga_ctx_destroy(ctx);
}

static void same_logits(bool by_row) {
  static float scaled[TOKENS * VOCAB], plain[TOKENS * VOCAB];
  static const char *const devices[] = {"ref", "cpu"};
  const char *e4m3 = by_row ? "e4m3-rows" : "e4m3", *bf16 = by_row ? "bf16-rows" : "bf16";
  make_checkpoint(e4m3, by_row, false);
  make_checkpoint(bf16, by_row, true);
  for (size_t i = 0; i < GA_COUNT_OF(devices); i++) {
    double size = 0;
    logits_of(e4m3, devices[i], scaled);
    logits_of(bf16, devices[i], plain);
    assert_memory_equal(scaled, plain, sizeof plain);
    for (int j = 0; j < TOKENS * VOCAB; j++) size += fabs((double)plain[j]);
    assert_true(isfinite(size) && size > 1);
  }
}

static void test_scale_of_tensor(void **state) {
  (void)state;
  same_logits(false);
}
static void test_scales_of_rows(void **state) {
  (void)state;
  same_logits(true);
}

/* Neither taken for 1 nor chosen between. */
static void refuse_scales(scale_names names, const char *folder, const char *says) {
  ga_ctx *ctx;
  ga_model *model;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  names_of_scales = names;
  make_checkpoint(folder, false, false);
  names_of_scales = SCALE_ONE;
  assert_ok(ga_ctx_create(&o, &ctx));
  assert_int_equal(ga_model_load(ctx, in_folder(folder), NULL, &model), GA_ERR_FORMAT);
  if (!strstr(ga_error_text(), says)) fail_msg("%s", ga_error_text());
  ga_ctx_destroy(ctx);
}
static void test_wrong_scales(void **state) {
  (void)state;
  refuse_scales(SCALE_NONE, "none", "is e4m3 and has no scale; quantization_config says fp8");
  refuse_scales(SCALE_BOTH, "both", "has both blk.0.");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scale_of_tensor), cmocka_unit_test(test_scales_of_rows),
                                     cmocka_unit_test(test_wrong_scales)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
