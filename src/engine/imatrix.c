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

/* Of one matrix. */
typedef struct column_sums {
  double *squares; /* [cols] NULL: not seen */
  int64_t cols, rows;
} column_sums;

struct ga_imatrix {
  ga_model *model;
  ga_session *session;
  int32_t window, bos;
  int64_t windows;
  column_sums *sums; /* [n_layers * W_COUNT] */
  float *host;       /* inputs of a product */
  size_t host_room;
};

/* --- watching ---------------------------------------------------------------------------------------------------- */

static ga_status need_host(ga_imatrix *im, size_t n) {
  void *p;
  if (n <= im->host_room) return GA_OK;
  ga_mem_free(im->host);
  im->host = NULL;
  im->host_room = 0;
  GA_TRY(ga_mem_alloc(n * sizeof(float), "importance matrix", &p));
  im->host = p;
  im->host_room = n;
  return GA_OK;
}

static ga_status add_squares(void *user, ga_ctx *ctx, weight_id matrix, int32_t layer, const float *x, int64_t rows,
                             int64_t cols, int64_t stride) {
  ga_imatrix *im = user;
  if (!ga_weight_specs[matrix].of_layer) return GA_OK;
  column_sums *s = &im->sums[layer * W_COUNT + matrix];
  const size_t n = (size_t)((rows - 1) * stride + cols);
  if (!s->squares) {
    void *p;
    GA_TRY(ga_mem_zalloc((size_t)cols, sizeof(double), "importance matrix", &p));
    s->squares = p;
    s->cols = cols;
  }
  GA_TRY(need_host(im, n));
  GA_TRY(ga_copy_to_host(ctx, im->host, x, n * sizeof(float), NULL));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const double v = (double)im->host[r * stride + c];
      s->squares[c] += v * v;
    }
  s->rows += rows;
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
  for (int64_t i = 0; im->sums && i < (int64_t)im->model->hparams.n_layers * W_COUNT; i++)
    ga_mem_free(im->sums[i].squares);
  ga_mem_free(im->sums);
  ga_mem_free(im->host);
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

/* What llama.cpp keeps: sums of squares, and their number, as f32. */
static ga_status put_sums(ga_gguf_writer *w, ga_arena *arena, const char *name, const column_sums *s) {
  char full[GA_WEIGHT_NAME_BYTES + 16];
  void *squares, *count;
  GA_TRY(ga_arena_alloc(arena, (size_t)s->cols * sizeof(float), &squares));
  GA_TRY(ga_arena_alloc(arena, sizeof(float), &count));
  for (int64_t c = 0; c < s->cols; c++) {
    GA_REQUIRE(isfinite(s->squares[c]), GA_ERR_STATE, "inputs of %s are %g at column %lld: must be finite", name,
               s->squares[c], (long long)c);
    ((float *)squares)[c] = (float)s->squares[c];
  }
  *(float *)count = (float)s->rows;
  ga_tensor t = ga_tensor_make(squares, GA_F32, 2, (int64_t[]){1, s->cols});
  (void)snprintf(full, sizeof full, "%s.in_sum2", name);
  ga_gguf_put_tensor(w, full, &t);
  t = ga_tensor_make(count, GA_F32, 2, (int64_t[]){1, 1});
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
  ga_arena_init(&arena, (size_t)1 << 30);
  ga_status status = put_imatrix(im, w, &arena, dataset);
  if (status == GA_OK) status = overwrite ? ga_gguf_writer_finish(w, path) : ga_gguf_writer_finish_new(w, path);
  ga_gguf_writer_destroy(w);
  ga_arena_free(&arena);
  return status;
}
