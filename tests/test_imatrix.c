/* Importance matrices: mean squares that can be computed by hand, the file that carries them, and files that lie. */
#include <math.h>

#include "ga/quantize.h"
#include "quant/importance.h"
#include "tests/gguf_files.h"
#include "tests/tiny_model.h"

enum { WINDOW = 16, WINDOWS = 3, IDS = WINDOW * WINDOWS + 5, COLS = 64 };

static int32_t ids[IDS];

typedef struct rig {
  ga_ctx *ctx;
  ga_model *model;
  ga_imatrix *im;
} rig;

static void open_watched(const char *arch, rig *r) {
  assert_ok(tiny_make(arch, TINY_VOCAB));
  assert_ok(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &r->ctx));
  assert_ok(ga_model_load(r->ctx, tiny_path, NULL, &r->model));
  assert_ok(ga_imatrix_create(r->model, WINDOW, &r->im));
  for (int i = 0; i < IDS; i++) ids[i] = (7 * i + 5) % TINY_VOCAB;
}

static void close_watched(rig *r) {
  ga_imatrix_destroy(r->im);
  ga_model_destroy(r->model);
  ga_ctx_destroy(r->ctx);
}

static void write_rig(const rig *r, const char *name) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s", in_folder(name));
  assert_ok(ga_imatrix_write(r->im, path, "some text", true));
}

static const float *floats_of(const ga_model_file *f, const char *name, int64_t cols) {
  const ga_model_tensor *t;
  assert_ok(ga_model_file_tensor(f, name, 2, (int64_t[]){1, cols}, &t));
  assert_int_equal(t->view.dtype, GA_F32);
  return t->view.data;
}

/* The first layer's queries are of RMS-normed embeddings: sums of squares by hand. */
static void test_first_layer_by_hand(void **state) {
  rig r;
  double want[COLS] = {0};
  (void)state;
  open_watched("llama", &r);
  const bool bos = ga_tokenizer_adds_bos(ga_model_tokenizer(r.model));
  assert_ok(ga_imatrix_add(r.im, ids, IDS, NULL, NULL)); /* 5 ids are no window */
  assert_int_equal(ga_imatrix_windows(r.im), WINDOWS);
  write_rig(&r, "m.gguf");
  ga_model_file *m = open_file("m.gguf"), *model;
  assert_ok(ga_model_file_open(tiny_path, &model));
  const float *table = ga_model_file_find(model, "token_embd.weight")->view.data,
              *norm = ga_model_file_find(model, "blk.0.attn_norm.weight")->view.data;
  double eps;
  assert_ok(ga_model_file_float(model, "llama.attention.layer_norm_rms_epsilon", &eps));
  for (int i = 0; i < WINDOW * WINDOWS; i++) {
    const int id = bos && i % WINDOW == 0 ? 1 : ids[i];
    double sum = 0;
    for (int c = 0; c < COLS; c++) sum += pow((double)table[id * COLS + c], 2);
    for (int c = 0; c < COLS; c++)
      want[c] += pow((double)table[id * COLS + c] * (double)norm[c], 2) / (sum / COLS + eps);
  }
  const float *have = floats_of(m, "blk.0.attn_q.weight.in_sum2", COLS);
  for (int c = 0; c < COLS; c++) assert_true(fabs((double)have[c] - want[c]) < 1e-4 * want[c]);
  assert_memory_equal(have, floats_of(m, "blk.0.attn_k.weight.in_sum2", COLS), COLS * 4);
  assert_memory_equal(have, floats_of(m, "blk.0.attn_v.weight.in_sum2", COLS), COLS * 4);
  assert_true(floats_of(m, "blk.0.ffn_down.weight.counts", 1)[0] == (float)(WINDOW * WINDOWS));
  assert_null(ga_model_file_find(m, "output.weight.in_sum2"));
  ga_model_file_destroy(model);
  ga_model_file_destroy(m);
  close_watched(&r);
}

/* Every matrix of every layer is seen, whatever the architecture does between them. */
static void test_all_matrices_are_seen(void **state) {
  static const char *const archs[] = {"llama", "qwen2", "qwen3", "gemma3", "gpt2", "starcoder2"};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(archs); i++) {
    rig r;
    int matrices = 0;
    open_watched(archs[i], &r);
    assert_ok(ga_imatrix_add(r.im, ids, IDS, NULL, NULL));
    write_rig(&r, "m.gguf");
    ga_model_file *m = open_file("m.gguf"), *model;
    assert_ok(ga_model_file_open(tiny_path, &model));
    for (int64_t t = 0; t < ga_model_file_tensor_count(model); t++) {
      const ga_model_tensor *w = ga_model_file_tensor_at(model, t);
      char name[128];
      if (strncmp(w->name, "blk.", 4) || w->view.n_dims != 2) continue;
      (void)snprintf(name, sizeof name, "%s.in_sum2", w->name);
      (void)floats_of(m, name, w->view.dim[strcmp(archs[i], "gpt2") ? 1 : 0]); /* that of gpt2 is [in, out] */
      matrices++;
    }
    assert_true(matrices >= 4);
    assert_int_equal(ga_model_file_tensor_count(m), 2 * matrices);
    ga_model_file_destroy(model);
    ga_model_file_destroy(m);
    close_watched(&r);
  }
}

static void test_imatrix_refuses(void **state) {
  rig r;
  ga_imatrix *im;
  (void)state;
  open_watched("llama", &r);
  assert_error(ga_imatrix_write(r.im, in_folder("n.gguf"), "", false), GA_ERR_STATE, "no text has been read");
  assert_error(ga_imatrix_add(r.im, ids, WINDOW - 1, NULL, NULL), GA_ERR_SHAPE, "15 tokens; at least one window of 16");
  assert_error(ga_imatrix_create(NULL, 0, &im), GA_ERR_ARG, "model or out is NULL");
  assert_error(ga_imatrix_create(r.model, 0, NULL), GA_ERR_ARG, "model or out is NULL");
  assert_error(ga_imatrix_create(r.model, 4097, &im), GA_ERR_ARG, "windows of 4097 tokens; must be 16 to 4096");
  assert_error(ga_imatrix_create(r.model, 15, &im), GA_ERR_ARG, "windows of 15 tokens; must be 16 to 4096");
  assert_null(im);
  ids[3] = TINY_VOCAB;
  assert_error(ga_imatrix_add(r.im, ids, IDS, NULL, NULL), GA_ERR_ARG, "id 96 at 3");
  ids[3] = 3;
  assert_ok(ga_imatrix_add(r.im, ids, IDS, NULL, NULL));
  put_file_text("there", "mine");
  assert_error(ga_imatrix_write(r.im, in_folder("there"), "", false), GA_ERR_ARG, "exists; give another name");
  close_watched(&r);
}

/* --- files that lie ---------------------------------------------------------------------------------------------- */

typedef struct lie {
  const char *type, *says;
  int64_t cols, counts;
  float square, count;
  ga_status status;
} lie;

static ga_status read_lie(const lie *l, bool *found) {
  static float squares[COLS], count;
  float out[COLS], seen;
  quant_importance *imp;
  ga_gguf_writer *w = new_writer(3, 0);
  for (int c = 0; c < COLS; c++) squares[c] = 2;
  squares[5] = l->square;
  count = l->count;
  if (l->type) ga_gguf_put_text(w, "general.type", l->type);
  ga_tensor t = ga_tensor_make(squares, GA_F32, 2, (int64_t[]){1, l->cols});
  if (l->cols) ga_gguf_put_tensor(w, "a.weight.in_sum2", &t);
  t = ga_tensor_make(&count, GA_F32, 2, (int64_t[]){1, 1});
  if (l->counts) ga_gguf_put_tensor(w, "a.weight.counts", &t);
  finish_file(w, "lie.gguf");
  *found = false;
  ga_status status = quant_importance_open(in_folder("lie.gguf"), &imp);
  if (status != GA_OK) {
    assert_null(imp);
    return status;
  }
  status = quant_importance_of(imp, "a.weight", 1, COLS, &seen, out, found);
  if (*found) assert_true(out[4] == 2 / l->count);
  quant_importance_close(imp);
  return status;
}

static void test_files_that_lie(void **state) {
  static const lie lies[] = {
      {"imatrix", NULL, COLS, 1, 3, 4, GA_OK},
      {"model", "general.type is 'model'; must be 'imatrix'", COLS, 1, 3, 4, GA_ERR_FORMAT},
      {NULL, "general.type is ''", COLS, 1, 3, 4, GA_ERR_FORMAT},
      {"imatrix", "has 63 elements; must have 64: is it of this model?", 63, 1, 3, 4, GA_ERR_FORMAT},
      {"imatrix", "element 5 is nan; must be finite", COLS, 1, NAN, 4, GA_ERR_FORMAT},
      {"imatrix", "element 5 is -1; must be finite", COLS, 1, -1, 4, GA_ERR_FORMAT},
      {"imatrix", "counts is inf; must be at least 0", COLS, 1, 3, INFINITY, GA_ERR_FORMAT},
      {"imatrix", "counts without a.weight.in_sum2", 0, 1, 3, 4, GA_ERR_FORMAT},
  };
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(lies); i++) {
    bool found;
    const ga_status status = read_lie(&lies[i], &found);
    if (lies[i].says)
      assert_error(status, lies[i].status, lies[i].says);
    else
      assert_ok(status);
    assert_int_equal(found, i == 0);
  }
  bool found;
  assert_ok(read_lie(&(lie){"imatrix", NULL, COLS, 0, 3, 4, GA_OK}, &found)); /* sums alone: not seen */
  assert_false(found);
  assert_ok(read_lie(&(lie){"imatrix", NULL, COLS, 1, 3, 0, GA_OK}, &found)); /* no input */
  assert_false(found);
}

static int remove_all(void **state) {
  tiny_remove();
  return remove_folder(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_layer_by_hand),
                                     cmocka_unit_test(test_all_matrices_are_seen),
                                     cmocka_unit_test(test_imatrix_refuses), cmocka_unit_test(test_files_that_lie)};
  return cmocka_run_group_tests(tests, make_folder, remove_all);
}
