/* Quantising models with experts: types of tensors, importance by expert, and experts that no token has chosen. */
#include <math.h>

#include "base/compiler.h"
#include "ga/llm.h"
#include "ga/quantize.h"
#include "tests/arch_model.h"
#include "tests/gguf_files.h"

enum { WINDOW = 32, EXPERTS = 8, CHOSEN = 3, WIDTH = 32 };

static char out_path[256], imatrix_path[256], model_path[ARCH_PATH_BYTES];

/* --- types ------------------------------------------------------------------------------------------------------- */

typedef struct wanted_types {
  const char *names[8];
  int32_t types[8];
  int n, seen;
} wanted_types;

static void note_wanted(void *user, const ga_quantize_tensor *t) {
  wanted_types *w = user;
  for (int i = 0; i < w->n; i++) {
    if (strcmp(t->name, w->names[i])) continue;
    if (t->wanted != w->types[i])
      fail_msg("%s: %s, must be %s", t->name, ga_dtype_name((ga_dtype)t->wanted), ga_dtype_name((ga_dtype)w->types[i]));
    w->seen++;
  }
}

static void check_types(const char *model, const char *mixture, wanted_types w) {
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  char path[ARCH_PATH_BYTES];
  o.type = mixture;
  o.dry_run = true;
  o.tensor = note_wanted;
  o.user = &w;
  while (w.n < 8 && w.names[w.n]) w.n++;
  if (ga_quantize_file(arch_model_path(model, path), out_path, &o) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(w.seen, w.n);
}

/* As llama.cpp has them: rules for ffn_down hold for experts, and with eight of them attention gets more bits. */
static void test_types_of_mixtures(void **state) {
  (void)state;
  check_types(
      "qwen2moe", "q4_k_m",
      (wanted_types){.names = {"blk.0.ffn_down_exps.weight", "blk.1.ffn_down_exps.weight",
                               "blk.1.ffn_down_shexp.weight", "blk.1.ffn_gate_exps.weight", "blk.0.attn_v.weight",
                               "blk.0.attn_k.weight", "blk.0.attn_output.weight", "blk.0.ffn_gate_inp.weight"},
                     .types = {GA_Q4_K, GA_Q6_K, GA_Q6_K, GA_Q4_K, GA_Q8_0, GA_Q8_0, GA_Q5_K, GA_F32}});
  check_types(
      "qwen2moe", "q3_k_l",
      (wanted_types){.names = {"blk.0.ffn_down_exps.weight", "blk.0.attn_output.weight"}, .types = {GA_Q5_K, GA_Q3_K}});
  check_types("qwen3moe", "q8_0", (wanted_types){.names = {"blk.0.ffn_up_exps.weight"}, .types = {GA_Q8_0}});
  check_types("qwen3moe", "q4_k_m", /* eight, too, but a file for itself has no shared feed-forward */
              (wanted_types){.names = {"blk.0.ffn_down_exps.weight", "blk.1.ffn_down_exps.weight"},
                             .types = {GA_Q4_K, GA_Q6_K}});
  check_types("qwen2moe", "mxfp4_moe",
              (wanted_types){.names = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight",
                                       "blk.0.ffn_down_shexp.weight", "blk.0.attn_q.weight", "output.weight",
                                       "token_embd.weight"},
                             .types = {GA_MXFP4, GA_MXFP4, GA_Q8_0, GA_Q8_0, GA_Q8_0, GA_Q8_0}});
}

/* --- importance -------------------------------------------------------------------------------------------------- */

static void watch_model(const char *model) {
  ga_ctx *ctx;
  ga_model *m;
  ga_imatrix *im;
  int32_t ids[2 * WINDOW];
  for (int i = 0; i < 2 * WINDOW; i++) ids[i] = (i * 37 + 11) % 96;
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx));
  assert_ok(ga_model_load(ctx, arch_model_path(model, model_path), NULL, &m));
  assert_ok(ga_imatrix_create(m, WINDOW, &im));
  assert_ok(ga_imatrix_add(im, ids, 2 * WINDOW, NULL, NULL));
  assert_ok(ga_imatrix_write(im, imatrix_path, "", true));
  ga_imatrix_destroy(im);
  ga_model_destroy(m);
  ga_ctx_destroy(ctx);
}

static const float *sums_of(const ga_model_file *f, const char *name, int64_t rows, int64_t cols) {
  const ga_model_tensor *t;
  if (ga_model_file_tensor(f, name, 2, (int64_t[]){rows, cols}, &t) != GA_OK) fail_msg("%s", ga_error_text());
  return t->view.data;
}

/* Each token's input is among the sums of the experts that it chose: together, as often as it chose some, those of the
 * router. */
static void test_sums_by_expert(void **state) {
  (void)state;
  watch_model("qwen2moe");
  ga_model_file *f = open_file("experts.imatrix");
  for (int il = 0; il < 2; il++) {
    char name[64];
    (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight.in_sum2", il);
    const float *router = sums_of(f, name, 1, WIDTH);
    (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_exps.weight.in_sum2", il);
    const float *gate = sums_of(f, name, EXPERTS, WIDTH);
    (void)snprintf(name, sizeof name, "blk.%d.ffn_up_exps.weight.in_sum2", il);
    assert_memory_equal(gate, sums_of(f, name, EXPERTS, WIDTH), EXPERTS * WIDTH * sizeof *gate);
    for (int c = 0; c < WIDTH; c++) {
      double sum = 0;
      for (int e = 0; e < EXPERTS; e++) sum += (double)gate[e * WIDTH + c];
      if (!(fabs(sum - CHOSEN * (double)router[c]) <= 1e-4 * sum))
        fail_msg("layer %d, column %d: %g, of the router %g", il, c, sum, (double)router[c]);
    }
    (void)snprintf(name, sizeof name, "blk.%d.ffn_down_exps.weight.counts", il);
    const float *counts = sums_of(f, name, EXPERTS, 1);
    double rows = 0;
    for (int e = 0; e < EXPERTS; e++) rows += (double)counts[e];
    assert_true(rows == CHOSEN * 2 * WINDOW);
    (void)snprintf(name, sizeof name, "blk.%d.ffn_down_shexp.weight.counts", il);
    assert_true(sums_of(f, name, 1, 1)[0] == 2 * WINDOW);
  }
  ga_model_file_destroy(f);
}

static char warning[512];

static void keep_warning(void *user, ga_log_level level, const char *text) {
  (void)user;
  if (level == GA_LOG_WARN && strstr(text, "blk.0.ffn_up_exps")) (void)snprintf(warning, sizeof warning, "%s", text);
}

/* A matrix file in which expert 5 of one stack has no inputs, or that has them for one expert less. */
static void write_partial(int64_t experts) {
  static float sums[EXPERTS * WIDTH], counts[EXPERTS];
  ga_gguf_writer *w = new_writer(3, 0);
  for (int i = 0; i < EXPERTS * WIDTH; i++) sums[i] = i / WIDTH == 5 ? 0 : (float)(1 + i * i % 97);
  for (int e = 0; e < EXPERTS; e++) counts[e] = e == 5 ? 0 : (float)(e + 1);
  ga_gguf_put_text(w, "general.type", "imatrix");
  ga_tensor t = ga_tensor_make(sums, GA_F32, 2, (int64_t[]){experts, WIDTH});
  ga_gguf_put_tensor(w, "blk.0.ffn_up_exps.weight.in_sum2", &t);
  t = ga_tensor_make(counts, GA_F32, 2, (int64_t[]){experts, 1});
  ga_gguf_put_tensor(w, "blk.0.ffn_up_exps.weight.counts", &t);
  finish_file(w, "experts.imatrix");
}

static ga_status quantise_with(const char *importance) {
  ga_quantize_options o = GA_QUANTIZE_OPTIONS_INIT;
  o.type = "q4_0";
  o.importance = importance;
  o.overwrite = true;
  return ga_quantize_file(arch_model_path("qwen2moe", model_path), out_path, &o);
}

static void read_stack(uint8_t *bytes, size_t n) {
  ga_model_file *f = open_file("experts.gguf");
  const ga_model_tensor *t = ga_model_file_find(f, "blk.0.ffn_up_exps.weight");
  assert_non_null(t);
  assert_int_equal(t->bytes, n);
  assert_ok(ga_model_file_read(f, t, 0, bytes, n));
  ga_model_file_destroy(f);
}

static void test_experts_never_seen(void **state) {
  enum { ROWS = 32, EXPERT = ROWS * WIDTH / 32 * 18 };
  static uint8_t plain[EXPERTS * EXPERT], weighted[EXPERTS * EXPERT];
  (void)state;
  assert_ok(quantise_with(NULL));
  read_stack(plain, sizeof plain);
  write_partial(EXPERTS);
  ga_log_set(keep_warning, NULL, GA_LOG_INFO);
  const ga_status status = quantise_with(imatrix_path);
  ga_log_set(NULL, NULL, GA_LOG_INFO);
  assert_ok(status);
  read_stack(weighted, sizeof weighted);
  if (!strstr(warning, "no input of expert 5 (1 of 8); errors there are not weighted")) fail_msg("'%s'", warning);
  for (int e = 0; e < EXPERTS; e++) {
    const bool same = !memcmp(plain + e * EXPERT, weighted + e * EXPERT, EXPERT);
    if (same != (e == 5)) fail_msg("expert %d is %s as without importance", e, same ? "the same" : "not the same");
  }
  write_partial(EXPERTS - 1);
  assert_error(quantise_with(imatrix_path), GA_ERR_FORMAT,
               "blk.0.ffn_up_exps.weight.counts has 7 elements; must have 8");
}

static int make_paths(void **state) {
  const int made = make_folder(state);
  (void)snprintf(out_path, sizeof out_path, "%s", in_folder("experts.gguf"));
  (void)snprintf(imatrix_path, sizeof imatrix_path, "%s", in_folder("experts.imatrix"));
  return made;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_types_of_mixtures), cmocka_unit_test(test_sums_by_expert),
                                     cmocka_unit_test(test_experts_never_seen)};
  return cmocka_run_group_tests(tests, make_paths, remove_folder);
}
