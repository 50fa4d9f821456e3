/* Adapters of low rank on a model's matrices: the logits of a model whose matrices have them merged, W + scale B A. On
 * the tiny models of tests/data/arch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/attachment.h"
#include "tests/tiny_model.h"

enum { TOKENS = 40, RANK = 3, MOST = 16, FLOATS = 256 };

static ga_ctx *ctx;

/* --- adapters --- */

typedef struct adapter {
  attachment_source source;
  float a[RANK * FLOATS], b[FLOATS * RANK];
} adapter;

typedef struct adapters {
  adapter list[MOST];
  int n;
} adapters;

static void fill_normal(ga_rng *rng, float *x, int n, float scale) {
  for (int i = 0; i < n; i++) x[i] = scale * (float)ga_rng_normal(rng);
}

/* One for each listed matrix of both layers, with factors of its own. */
static void make_adapters(adapters *all, const weight_id *ids, int n_ids, const ga_hparams *p) {
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  all->n = 0;
  for (int i = 0; i < n_ids; i++)
    for (int32_t il = 0; il < (ga_weight_specs[ids[i]].of_layer ? p->n_layers : 1); il++) {
      adapter *one = &all->list[all->n++];
      const int64_t rows = ga_weight_dim(p, ga_weight_specs[ids[i]].rows, il),
                    cols = ga_weight_dim(p, ga_weight_specs[ids[i]].cols, il);
      assert_true(all->n <= MOST && rows <= FLOATS && cols <= FLOATS);
      fill_normal(&rng, one->a, (int)(RANK * cols), 1 / sqrtf((float)cols));
      fill_normal(&rng, one->b, (int)(RANK * rows), 1);
      one->source = (attachment_source){
          .id = ids[i], .layer = il, .rank = RANK, .a = one->a, .b = one->b, .scale = il ? -0.2f : 0.3f};
    }
}

static void list_sources(const adapters *all, attachment_source *list) {
  for (int i = 0; i < all->n; i++) list[i] = all->list[i].source;
}

static const adapter *adapter_of(const adapters *all, const char *tensor) {
  char name[GA_WEIGHT_NAME_BYTES];
  for (int i = 0; i < all->n; i++)
    if (!strcmp(ga_weight_name(all->list[i].source.id, all->list[i].source.layer, name), tensor)) return &all->list[i];
  return NULL;
}

/* --- models --- */

static ga_model *load_tiny(const char *path) {
  ga_model *model;
  if (ga_model_load(ctx, path, NULL, &model) != GA_OK) fail_msg("%s", ga_error_text());
  return model;
}

/* W + scale B A, in double. */
static float *merged(const ga_model_tensor *t, const adapter *one) {
  const int64_t rows = t->view.dim[0], cols = t->view.dim[1];
  float *w = malloc((size_t)(rows * cols) * sizeof(float));
  assert_non_null(w);
  assert_int_equal(t->view.dtype, GA_F32);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      double sum = 0;
      for (int k = 0; k < RANK; k++) sum += (double)one->b[r * RANK + k] * (double)one->a[k * cols + c];
      w[r * cols + c] = (float)((double)((const float *)t->view.data)[r * cols + c] + (double)one->source.scale * sum);
    }
  return w;
}

/* Writes the model of tiny_path again, with the adapters merged. */
static void write_merged(const adapters *all, const char *path) {
  ga_model_file *file;
  ga_gguf_writer *w;
  float *kept[MOST];
  int n_kept = 0;
  assert_int_equal(ga_model_file_open(tiny_path, &file), GA_OK);
  assert_int_equal(ga_gguf_writer_create(3, 0, &w), GA_OK);
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) ga_gguf_put_meta(w, ga_model_file_meta_at(file, i));
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    const adapter *one = adapter_of(all, t->name);
    ga_tensor view = t->view;
    if (one) view = ga_tensor_make(kept[n_kept++] = merged(t, one), GA_F32, 2, t->view.dim);
    ga_gguf_put_tensor(w, t->name, &view);
  }
  assert_int_equal(n_kept, all->n);
  assert_int_equal(ga_gguf_writer_finish(w, path), GA_OK);
  while (n_kept > 0) free(kept[--n_kept]);
  ga_gguf_writer_destroy(w);
  ga_model_file_destroy(file);
}

typedef float rows_of_logits[TOKENS][TINY_VOCAB];

/* batch: tokens of a step. */
static void attach_logits(ga_model *model, int32_t batch, rows_of_logits rows) {
  int32_t ids[TOKENS];
  ga_session *s;
  ga_session_options o = GA_SESSION_OPTIONS_INIT;
  o.kv_dtype = GA_F32;
  o.batch = batch;
  for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 5) % (TINY_VOCAB - 4) + 4;
  if (ga_session_create(model, &o, &s) != GA_OK ||
      ga_session_eval(s, ids, TOKENS, rows[0], TOKENS, NULL, NULL) != GA_OK)
    fail_msg("%s", ga_error_text());
  ga_session_destroy(s);
}

static double relative_rms(rows_of_logits got, rows_of_logits want) {
  double diff = 0, size = 0;
  for (int i = 0; i < TOKENS * TINY_VOCAB; i++) {
    diff += pow((double)got[0][i] - (double)want[0][i], 2);
    size += pow((double)want[0][i], 2);
  }
  return sqrt(diff / size);
}

/* --- tests --- */

static void as_merged(const char *arch, const weight_id *ids, int n_ids) {
  static adapters all;
  static rows_of_logits bare, want, got;
  static const int32_t batches[] = {1, 7, 512};
  attachment_source list[MOST];
  char path[sizeof tiny_path + 8];
  if (tiny_make(arch, TINY_VOCAB) != GA_OK) fail_msg("%s: %s", arch, ga_error_text());
  ga_model *model = load_tiny(tiny_path);
  make_adapters(&all, ids, n_ids, &model->hparams);
  list_sources(&all, list);
  (void)snprintf(path, sizeof path, "%s.merged", tiny_path);
  write_merged(&all, path);
  ga_model *whole = load_tiny(path);
  (void)unlink(path);
  attach_logits(model, 512, bare);
  assert_int_equal(model_attach(model, list, all.n), GA_OK);
  for (size_t i = 0; i < GA_COUNT_OF(batches); i++) {
    attach_logits(whole, batches[i], want);
    attach_logits(model, batches[i], got);
    if (!(relative_rms(got, want) < 1e-5)) fail_msg("%s, batch %d: %g", arch, batches[i], relative_rms(got, want));
  }
  if (!(relative_rms(got, bare) > 0.05)) fail_msg("%s: adapters change nothing", arch);
  ga_model_destroy(whole);
  ga_model_destroy(model);
}

static void test_as_merged(void **state) {
  (void)state;
  static const weight_id each[] = {W_Q, W_K, W_V, W_O, W_GATE, W_UP, W_DOWN, W_OUTPUT}, one[] = {W_V},
                         gate[] = {W_GATE}, down[] = {W_DOWN}, both[] = {W_Q, W_UP};
  static const weight_id ungated[] = {W_UP, W_DOWN, W_K};
  as_merged("llama", each, 8);
  as_merged("llama", one, 1);
  as_merged("llama", gate, 1);
  as_merged("llama", down, 1);
  as_merged("qwen2", both, 2);   /* biases */
  as_merged("gemma2", both, 2);  /* norms after blocks */
  as_merged("granite", both, 2); /* scaled products */
  as_merged("starcoder2", ungated, 3);
}

static void test_attach_refused(void **state) {
  (void)state;
  static const float zeros[FLOATS * RANK] = {0};
  ga_model *model, *share;
  attachment_source list[2];
  assert_int_equal(tiny_make("llama", TINY_VOCAB), GA_OK);
  model = load_tiny(tiny_path);
  list[0] = list[1] = (attachment_source){.id = W_Q, .rank = 1, .a = zeros, .b = zeros, .scale = 1};
  assert_int_equal(model_attach(model, list, 2), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "two for attn_q.weight of layer 0"));
  list[1].layer = 2;
  assert_int_equal(model_attach(model, list, 2), GA_ERR_UNSUPPORTED);
  list[1] = list[0];
  list[1].id = W_ATTN_NORM;
  assert_int_equal(model_attach(model, list, 2), GA_ERR_UNSUPPORTED);
  list[1].id = W_K;
  list[1].rank = 0;
  assert_int_equal(model_attach(model, list, 2), GA_ERR_ARG);
  list[1].rank = 1;
  for (long n = 1;; n++) { /* no memory at the n-th allocation: the model is as before */
    ga_mem_fail_after(n);
    const ga_status status = model_attach(model, list, 2);
    ga_mem_fail_after(0);
    if (status == GA_OK) break;
    assert_int_equal(status, GA_ERR_NOMEM);
    assert_null(model->attachments);
    assert_null(ga_weight_at(model, (weight_ref){.id = W_Q})->attachment);
  }
  assert_int_equal(model_attach(model, list, 2), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "one that has some"));
  assert_int_equal(ga_model_share(model, ctx, &share), GA_OK); /* has the adapters, too */
  assert_int_equal(model_attach(share, list, 2), GA_ERR_UNSUPPORTED);
  ga_model_destroy(share);
  ga_model_destroy(model);
}

int main(void) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  if (ga_ctx_create(&o, &ctx) != GA_OK) return 1;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_merged), cmocka_unit_test(test_attach_refused)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  ga_ctx_destroy(ctx);
  tiny_remove();
  return failed;
}
