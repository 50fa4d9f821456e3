/* Importance matrices: a session is watched while it reads a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/session.h"
#include "file/gguf_write.h"
#include "ga/quantize.h"
#include "quant/output.h"

/* Sums of a matrix, or of the matrices of a stack. */
typedef struct column_sums {
  double *squares; /* [matrices, cols] NULL: not seen */
  int64_t *rows;   /* [matrices] number of inputs of each matrix */
  int64_t matrices, cols;
} column_sums;

struct ga_imatrix {
  ga_model *model;
  ga_session *session;
  int32_t window, bos;
  int64_t windows;
  column_sums *sums; /* [n_layers * W_COUNT] */
  float *host;       /* inputs of a product */
  size_t host_room;
  int32_t *sorted; /* offsets and order of a product by experts */
  size_t sorted_room;
};

/* --- watching ---------------------------------------------------------------------------------------------------- */

/* Makes room for n elements of `each` bytes in *p, whose contents may be lost. */
static ga_status sums_room(void **p, size_t *room, size_t n, size_t each) {
  if (n <= *room) return GA_OK;
  ga_mem_free(*p);
  *p = NULL;
  *room = 0;
  GA_TRY(ga_mem_alloc(n * each, "importance matrix", p));
  *room = n;
  return GA_OK;
}

static ga_status need_sums(column_sums *s, int64_t matrices, int64_t cols) {
  void *p;
  if (s->squares) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)matrices, sizeof(int64_t), "importance matrix", &p));
  s->rows = p;
  GA_TRY(ga_mem_zalloc((size_t)(matrices * cols), sizeof(double), "importance matrix", &p));
  s->squares = p;
  s->matrices = matrices;
  s->cols = cols;
  return GA_OK;
}

static void add_input(column_sums *s, int64_t matrix, const float *x) {
  double *to = s->squares + matrix * s->cols;
  for (int64_t c = 0; c < s->cols; c++) to[c] += (double)x[c] * (double)x[c];
  s->rows[matrix]++;
}

/* Copies offsets and, if there is one, order from the device. Returns the order in *order, NULL: none. */
static ga_status read_sorted(ga_imatrix *im, ga_ctx *ctx, const exec_watched *w, const int32_t **order) {
  const size_t n_offsets = (size_t)w->n_experts + 1, n_order = w->order ? (size_t)(w->rows * w->top_k) : 0;
  void *p = im->sorted;
  const ga_status status = sums_room(&p, &im->sorted_room, n_offsets + n_order, sizeof(int32_t));
  im->sorted = p;
  GA_TRY(status);
  GA_TRY(ga_copy_to_host(ctx, im->sorted, w->offsets, n_offsets * sizeof(int32_t), NULL));
  *order = n_order ? im->sorted + n_offsets : NULL;
  return n_order ? ga_copy_to_host(ctx, im->sorted + n_offsets, w->order, n_order * sizeof(int32_t), NULL) : GA_OK;
}

/* Adds each sorted row to the sums of its expert. */
static ga_status add_expert_rows(ga_imatrix *im, ga_ctx *ctx, const exec_watched *w, column_sums *s) {
  const int32_t *order;
  GA_TRY(read_sorted(im, ctx, w, &order));
  for (int32_t e = 0; e < w->n_experts; e++)
    for (int32_t i = im->sorted[e]; i < im->sorted[e + 1]; i++)
      add_input(s, e, im->host + (order ? order[i] / w->top_k : i) * w->stride);
  return GA_OK;
}

static ga_status add_squares(void *user, ga_ctx *ctx, const exec_watched *w) {
  ga_imatrix *im = user;
  if (!ga_weight_specs[w->matrix].of_layer) return GA_OK;
  column_sums *s = &im->sums[w->layer * W_COUNT + w->matrix];
  const size_t n = (size_t)((w->rows - 1) * w->stride + w->cols);
  void *p = im->host;
  GA_TRY(need_sums(s, w->n_experts ? w->n_experts : 1, w->cols));
  const ga_status status = sums_room(&p, &im->host_room, n, sizeof(float));
  im->host = p;
  GA_TRY(status);
  GA_TRY(ga_copy_to_host(ctx, im->host, w->x, n * sizeof(float), NULL));
  if (w->n_experts) return add_expert_rows(im, ctx, w, s);
  for (int64_t r = 0; r < w->rows; r++) add_input(s, 0, im->host + r * w->stride);
  return GA_OK;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

static ga_status prepare_imatrix(ga_imatrix *im) {
  ga_session_options o = GA_SESSION_OPTIONS_INIT;
  const ga_tokenizer *tok = ga_model_tokenizer(im->model);
  void *p;
  GA_REQUIRE(!im->model->comm, GA_ERR_UNSUPPORTED,
             "imatrix: the model is the part of rank %d of %d; allowed is a whole one", ga_comm_rank(im->model->comm),
             ga_comm_size(im->model->comm));
  o.context = o.batch = im->window;
  GA_TRY(ga_session_create(im->model, &o, &im->session));
  im->bos = tok && ga_tokenizer_adds_bos(tok) ? ga_tokenizer_special(tok, GA_TOK_BOS) : GA_TOK_NONE;
  GA_TRY(ga_mem_zalloc((size_t)im->model->hparams.n_layers * W_COUNT, sizeof(column_sums), "importance matrix", &p));
  im->sums = p;
  runner_watch(im->session->runner, add_squares, im);
  return GA_OK;
}

ga_status ga_imatrix_create(ga_model *model, int32_t window, ga_imatrix **out) {
  void *p;
  GA_REQUIRE(model && out, GA_ERR_ARG, "importance matrix: model or out is NULL");
  *out = NULL;
  GA_REQUIRE(!window || (window >= 16 && window <= 4096), GA_ERR_ARG,
             "importance matrix: windows of %d tokens; must be 16 to 4096, or 0", window);
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_imatrix), "importance matrix", &p));
  ga_imatrix *im = p;
  im->model = model;
  im->window = window ? window : 512;
  const ga_status status = prepare_imatrix(im);
  if (status != GA_OK) {
    ga_imatrix_destroy(im);
    return status;
  }
  *out = im;
  return GA_OK;
}

void ga_imatrix_destroy(ga_imatrix *im) {
  if (!im) return;
  ga_session_destroy(im->session);
  for (int64_t i = 0; im->sums && i < (int64_t)im->model->hparams.n_layers * W_COUNT; i++) {
    ga_mem_free(im->sums[i].squares);
    ga_mem_free(im->sums[i].rows);
  }
  ga_mem_free(im->sums);
  ga_mem_free(im->host);
  ga_mem_free(im->sorted);
  ga_mem_free(im);
}

int64_t ga_imatrix_windows(const ga_imatrix *im) { return im->windows; }

/* --- a text ------------------------------------------------------------------------------------------------------ */

static ga_status add_window(ga_imatrix *im, const int32_t *ids, int32_t *window) {
  memcpy(window, ids, (size_t)im->window * sizeof *ids);
  if (im->bos != GA_TOK_NONE) window[0] = im->bos;
  GA_TRY(ga_session_rewind(im->session, 0));
  GA_TRY(ga_session_eval(im->session, window, im->window, NULL, 0, NULL, NULL));
  im->windows++;
  return GA_OK;
}

ga_status ga_imatrix_add(ga_imatrix *im, const int32_t *ids, size_t n, ga_progress_fn progress, void *user) {
  void *window;
  GA_REQUIRE(im && ids, GA_ERR_ARG, "importance matrix: im or ids is NULL");
  const size_t windows = n / (size_t)im->window;
  GA_REQUIRE(windows >= 1, GA_ERR_SHAPE, "importance matrix: %zu tokens; at least one window of %d is needed", n,
             im->window);
  GA_TRY(ga_mem_alloc((size_t)im->window * sizeof *ids, "importance matrix", &window));
  ga_status status = GA_OK;
  for (size_t i = 0; i < windows && status == GA_OK; i++) {
    status = add_window(im, ids + i * (size_t)im->window, window);
    if (status == GA_OK && progress && progress(user, i + 1, windows)) status = ga_fail(GA_ERR_CANCELLED, "stopped");
  }
  ga_mem_free(window);
  return status;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* Writes the importance matrix as llama.cpp does: sums of squares and their counts in f32, a row for each expert. */
static ga_status put_sums(ga_gguf_writer *w, ga_arena *arena, const char *name, const column_sums *s) {
  char full[GA_WEIGHT_NAME_BYTES + 16];
  void *squares, *counts;
  GA_TRY(ga_arena_alloc(arena, (size_t)(s->matrices * s->cols) * sizeof(float), &squares));
  GA_TRY(ga_arena_alloc(arena, (size_t)s->matrices * sizeof(float), &counts));
  for (int64_t i = 0; i < s->matrices * s->cols; i++) {
    GA_REQUIRE(isfinite(s->squares[i]), GA_ERR_STATE,
               "inputs of %s are %g at column %lld of matrix %lld: must be finite", name, s->squares[i],
               (long long)(i % s->cols), (long long)(i / s->cols));
    ((float *)squares)[i] = (float)s->squares[i];
  }
  for (int64_t i = 0; i < s->matrices; i++) ((float *)counts)[i] = (float)s->rows[i];
  ga_tensor t = ga_tensor_make(squares, GA_F32, 2, (int64_t[]){s->matrices, s->cols});
  (void)snprintf(full, sizeof full, "%s.in_sum2", name);
  ga_gguf_put_tensor(w, full, &t);
  t = ga_tensor_make(counts, GA_F32, 2, (int64_t[]){s->matrices, 1});
  (void)snprintf(full, sizeof full, "%s.counts", name);
  ga_gguf_put_tensor(w, full, &t);
  return GA_OK;
}

static ga_status put_imatrix(const ga_imatrix *im, ga_gguf_writer *w, ga_arena *arena, const char *dataset) {
  const ga_text set = {dataset, strlen(dataset)};
  char name[GA_WEIGHT_NAME_BYTES];
  ga_gguf_put_text(w, "general.type", "imatrix");
  ga_gguf_put_texts(w, "imatrix.datasets", set.bytes ? 1 : 0, &set);
  ga_gguf_put_int(w, "imatrix.chunk_count", GA_META_U32, im->windows);
  ga_gguf_put_int(w, "imatrix.chunk_size", GA_META_U32, im->window);
  for (int32_t il = 0; il < im->model->hparams.n_layers; il++)
    for (int id = 0; id < W_COUNT; id++) {
      const column_sums *s = &im->sums[il * W_COUNT + id];
      if (s->squares) GA_TRY(put_sums(w, arena, ga_weight_name((weight_id)id, il, name), s));
    }
  return GA_OK;
}

ga_status ga_imatrix_write(const ga_imatrix *im, const char *path, const char *dataset, bool overwrite) {
  ga_gguf_writer *w;
  ga_arena arena;
  GA_REQUIRE(im && path && dataset, GA_ERR_ARG, "importance matrix: im, path or dataset is NULL");
  GA_REQUIRE(im->windows, GA_ERR_STATE, "importance matrix: no text has been read");
  GA_TRY(quant_check_output(im->model->file, NULL, path, overwrite));
  GA_TRY(ga_gguf_writer_create(3, 0, &w));
  ga_arena_init(&arena, (size_t)1 << 34);
  ga_status status = put_imatrix(im, w, &arena, dataset);
  if (status == GA_OK) status = overwrite ? ga_gguf_writer_finish(w, path) : ga_gguf_writer_finish_new(w, path);
  ga_gguf_writer_destroy(w);
  ga_arena_free(&arena);
  return status;
}
