#include "model/kv_split.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/layer.h"

static const ga_model_tensor *unsplit_tensor(const ga_model *model, int32_t il) {
  char name[GA_WEIGHT_NAME_BYTES];
  (void)snprintf(name, sizeof name, "blk.%d.attn_kv_b.weight", il);
  return ga_model_file_find(model->file, name);
}

static bool is_blocked(const ga_model_tensor *t) { return ga_dtype_info(t->view.dtype)->is_quant; }

static int64_t unsplit_rows(const ga_hparams *p) { return p->n_heads * (ga_weight_dim(p, DIM_NOPE, 0) + p->v_dim); }

static bool is_of_shape(const ga_hparams *p, const ga_model_tensor *t) {
  return t->view.n_dims == 2 && t->view.dim[0] == unsplit_rows(p) && t->view.dim[1] == p->kv_latent;
}

ga_status kv_split_check(const ga_model *model, int32_t il) {
  const ga_hparams *p = &model->hparams;
  const ga_model_tensor *t = unsplit_tensor(model, il);
  GA_REQUIRE(!t || is_of_shape(p, t), GA_ERR_SHAPE,
             "%s has %d dimensions, the first %lld, the last %lld; must be [%lld, %d]", t->name, t->view.n_dims,
             (long long)t->view.dim[0], (long long)t->view.dim[t->view.n_dims - 1], (long long)unsplit_rows(p),
             p->kv_latent);
  return GA_OK;
}

bool kv_split_describe(const ga_model *model, weight_id id, int32_t il, ga_model_tensor *out) {
  const ga_hparams *p = &model->hparams;
  const ga_model_tensor *t = unsplit_tensor(model, il);
  uint64_t bytes;
  if (!t || !is_of_shape(p, t)) return false;
  *out = *t;
  out->is_aligned = false; /* it lies nowhere in one piece */
  out->view.data = NULL;
  out->view.n_dims = ga_weight_dims(p, id, il, out->view.dim);
  if (id == W_K_UP && is_blocked(t)) out->view.dtype = GA_F32;
  if (ga_dtype_bytes(out->view.dtype, out->view.dim[0] * out->view.dim[1] * out->view.dim[2], &bytes) != GA_OK)
    return false;
  out->bytes = bytes;
  return true;
}

/* [n_heads, rows, cols] to [n_heads, cols, rows], `each` bytes an element, from heads that are `step` rows apart. */
static void transpose_heads(const uint8_t *src, int64_t heads, int64_t rows, int64_t cols, int64_t step, size_t each,
                            uint8_t *dst) {
  for (int64_t h = 0; h < heads; h++)
    for (int64_t c = 0; c < cols; c++)
      for (int64_t r = 0; r < rows; r++, dst += each)
        memcpy(dst, src + (size_t)((h * step + r) * cols + c) * each, each);
}

/* All rows of t as f32, in new memory. */
static ga_status to_f32(ga_ctx *cpu, const ga_model_tensor *t, const void *raw, void **out) {
  ga_convert_desc d = GA_CONVERT_DESC_INIT;
  ga_ctx *own = NULL;
  d.rows = t->view.dim[0], d.width = t->view.dim[1];
  d.x_dtype = (int32_t)t->view.dtype, d.y_dtype = GA_F32;
  GA_TRY(ga_mem_alloc((size_t)(d.rows * d.width) * sizeof(float), t->name, out));
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  ga_status status = cpu ? GA_OK : ga_ctx_create(&o, &own);
  if (status == GA_OK) status = ga_convert(cpu ? cpu : own, &d, &(ga_convert_io){.x = raw, .y = *out}, NULL);
  ga_ctx_destroy(own);
  if (status == GA_OK) return GA_OK;
  ga_mem_free(*out);
  *out = NULL;
  return status;
}

/* Splits `raw`, the rows of t in the type of `described` where it takes keys. */
static void split_kv_rows(const ga_hparams *p, weight_id id, const ga_model_tensor *t, const ga_model_tensor *described,
                          const uint8_t *raw, uint8_t *dst) {
  const int64_t nope = ga_weight_dim(p, DIM_NOPE, 0), step = nope + p->v_dim;
  if (id == W_K_UP) {
    const size_t each = (size_t)ga_dtype_info(described->view.dtype)->block_bytes;
    transpose_heads(raw, p->n_heads, nope, p->kv_latent, step, each, dst);
    return;
  }
  const size_t row = (size_t)(t->bytes / (uint64_t)t->view.dim[0]), values = (size_t)p->v_dim * row;
  for (int64_t h = 0; h < p->n_heads; h++, dst += values) memcpy(dst, raw + (size_t)(h * step + nope) * row, values);
}

ga_status kv_split_read(const ga_model *model, ga_ctx *cpu, weight_id id, int32_t il, const ga_model_tensor *described,
                        void **copy) {
  const ga_model_tensor *t = unsplit_tensor(model, il);
  void *raw = NULL, *plain = NULL;
  *copy = NULL;
  ga_status status = ga_mem_alloc(t->bytes, t->name, &raw);
  if (status == GA_OK) status = ga_model_file_read(model->file, t, 0, raw, t->bytes);
  if (status == GA_OK && id == W_K_UP && is_blocked(t)) status = to_f32(cpu, t, raw, &plain);
  if (status == GA_OK) status = ga_mem_alloc(described->bytes, t->name, copy);
  if (status == GA_OK) split_kv_rows(&model->hparams, id, t, described, plain ? plain : raw, *copy);
  ga_mem_free(plain);
  ga_mem_free(raw);
  return status;
}
