/* Weights: one table says which tensors each architecture has and what shape they must be.
 *
 * Matrices are packed for the device and the file's pages are given back; vectors become f32; the embedding table stays
 * as the file has it, and where device memory is host memory it stays in the map, of which only looked-up rows cost
 * memory. */
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/status.h"
#include "model/model.h"

typedef enum weight_kind { KIND_MATRIX, KIND_VECTOR, KIND_TABLE } weight_kind;

/* Sizes that shapes are made of. */
typedef enum weight_dim {
  DIM_ONE,
  DIM_WIDTH,
  DIM_FF,
  DIM_Q,
  DIM_K,
  DIM_V,
  DIM_QKV,
  DIM_O,
  DIM_HEAD,
  DIM_VOCAB,
  DIM_CONTEXT,
  DIM_TYPES
} weight_dim;

typedef struct weight_spec {
  const char *name; /* layer tensors: what follows "blk.N." */
  weight_kind kind;
  size_t offset;               /* of the ga_matrix or ga_vector in ga_layer or ga_model */
  weight_dim rows, cols;       /* vectors: cols only */
  uint32_t required, optional; /* bits 1 << ga_model_arch */
  bool is_norm;                /* 1 + w when the file says ga.norm_plus_one */
} weight_spec;

#define A(name) (1u << GA_MODEL_##name)
#define LLAMAS  (A(llama) | A(qwen2) | A(qwen3) | A(gemma3))
#define OLD     (A(gpt2) | A(bert))

#define M(field) offsetof(ga_model, field)
static const weight_spec model_specs[] = {
    {"token_embd.weight", KIND_TABLE, M(token_embd), DIM_VOCAB, DIM_WIDTH, LLAMAS | OLD, 0, false},
    {"position_embd.weight", KIND_TABLE, M(position_embd), DIM_CONTEXT, DIM_WIDTH, OLD, 0, false},
    {"token_types.weight", KIND_TABLE, M(type_embd), DIM_TYPES, DIM_WIDTH, 0, A(bert), false},
    {"token_embd_norm.weight", KIND_VECTOR, M(embd_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"token_embd_norm.bias", KIND_VECTOR, M(embd_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"output_norm.weight", KIND_VECTOR, M(output_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"output_norm.bias", KIND_VECTOR, M(output_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"output.weight", KIND_MATRIX, M(output), DIM_VOCAB, DIM_WIDTH, 0, LLAMAS | A(gpt2), false},
};
#undef M

#define L(field) offsetof(ga_layer, field)
static const weight_spec layer_specs[] = {
    {"attn_norm.weight", KIND_VECTOR, L(attn_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"attn_norm.bias", KIND_VECTOR, L(attn_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"attn_q.weight", KIND_MATRIX, L(q), DIM_Q, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_k.weight", KIND_MATRIX, L(k), DIM_K, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_v.weight", KIND_MATRIX, L(v), DIM_V, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_q.bias", KIND_VECTOR, L(q_b), DIM_ONE, DIM_Q, A(qwen2) | A(bert), A(llama), false},
    {"attn_k.bias", KIND_VECTOR, L(k_b), DIM_ONE, DIM_K, A(qwen2) | A(bert), A(llama), false},
    {"attn_v.bias", KIND_VECTOR, L(v_b), DIM_ONE, DIM_V, A(qwen2) | A(bert), A(llama), false},
    {"attn_qkv.weight", KIND_MATRIX, L(qkv), DIM_QKV, DIM_WIDTH, A(gpt2), 0, false},
    {"attn_qkv.bias", KIND_VECTOR, L(qkv_b), DIM_ONE, DIM_QKV, A(gpt2), 0, false},
    {"attn_q_norm.weight", KIND_VECTOR, L(q_norm), DIM_ONE, DIM_HEAD, A(qwen3) | A(gemma3), 0, true},
    {"attn_k_norm.weight", KIND_VECTOR, L(k_norm), DIM_ONE, DIM_HEAD, A(qwen3) | A(gemma3), 0, true},
    {"attn_output.weight", KIND_MATRIX, L(o), DIM_WIDTH, DIM_O, LLAMAS | OLD, 0, false},
    {"attn_output.bias", KIND_VECTOR, L(o_b), DIM_ONE, DIM_WIDTH, OLD, A(llama), false},
    {"attn_output_norm.weight", KIND_VECTOR, L(post_attn_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"attn_output_norm.bias", KIND_VECTOR, L(post_attn_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"post_attention_norm.weight", KIND_VECTOR, L(post_attn_norm), DIM_ONE, DIM_WIDTH, A(gemma3), 0, true},
    {"ffn_norm.weight", KIND_VECTOR, L(ffn_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"ffn_norm.bias", KIND_VECTOR, L(ffn_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"ffn_gate.weight", KIND_MATRIX, L(gate), DIM_FF, DIM_WIDTH, LLAMAS, 0, false},
    {"ffn_up.weight", KIND_MATRIX, L(up), DIM_FF, DIM_WIDTH, LLAMAS | OLD, 0, false},
    {"ffn_down.weight", KIND_MATRIX, L(down), DIM_WIDTH, DIM_FF, LLAMAS | OLD, 0, false},
    {"ffn_gate.bias", KIND_VECTOR, L(gate_b), DIM_ONE, DIM_FF, 0, A(llama), false},
    {"ffn_up.bias", KIND_VECTOR, L(up_b), DIM_ONE, DIM_FF, OLD, A(llama), false},
    {"ffn_down.bias", KIND_VECTOR, L(down_b), DIM_ONE, DIM_WIDTH, OLD, A(llama), false},
    {"layer_output_norm.weight", KIND_VECTOR, L(post_ffn_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"layer_output_norm.bias", KIND_VECTOR, L(post_ffn_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"post_ffw_norm.weight", KIND_VECTOR, L(post_ffn_norm), DIM_ONE, DIM_WIDTH, A(gemma3), 0, true},
};
#undef L

typedef struct loader {
  ga_model *model;
  ga_progress_fn progress;
  void *user;
  uint64_t done, total;
  bool norm_plus_one, is_transposed; /* see ga_model_file.h */
} loader;

static int64_t dim_of(const ga_hparams *p, weight_dim dim) {
  const int64_t heads = p->n_heads, kv = p->n_kv_heads, d = p->head_dim, dv = p->v_dim;
  switch (dim) {
  case DIM_ONE:
    return 1;
  case DIM_WIDTH:
    return p->width;
  case DIM_FF:
    return p->ff_width;
  case DIM_Q:
    return heads * d;
  case DIM_K:
    return kv * d;
  case DIM_V:
    return kv * dv;
  case DIM_QKV:
    return heads * d + kv * d + kv * dv;
  case DIM_O:
    return heads * dv;
  case DIM_HEAD:
    return d;
  case DIM_VOCAB:
    return p->vocab;
  case DIM_CONTEXT:
    return p->context;
  case DIM_TYPES:
    return 2;
  }
  return 0;
}

static ga_status own_buffer(ga_model *model, size_t bytes, void **out) {
  *out = NULL;
  if (model->n_buffers == model->buffers_capacity) {
    size_t capacity = model->buffers_capacity ? model->buffers_capacity * 2 : 256;
    void *p;
    GA_TRY(ga_mem_zalloc(capacity, sizeof(void *), "model", &p));
    if (model->n_buffers) memcpy(p, model->buffers, model->n_buffers * sizeof(void *));
    ga_mem_free(model->buffers);
    model->buffers = p;
    model->buffers_capacity = capacity;
  }
  GA_TRY(ga_buffer_alloc_for(model->ctx, bytes, "weights", out));
  model->buffers[model->n_buffers++] = *out;
  return GA_OK;
}

/* Weights of small models are smaller than a huge page each (see ga_mem_alloc): they share buffers of this size. */
#define SLAB_BYTES ((size_t)16 << 20)

ga_status ga_model_own(ga_model *model, size_t bytes, void **out) {
  *out = NULL;
  if (bytes > SLAB_BYTES / 4) GA_TRY(own_buffer(model, bytes, out));
  else {
    size_t need = ga_round_up(bytes ? bytes : 1, 256);
    if (need > model->slab_bytes) {
      void *p;
      GA_TRY(own_buffer(model, SLAB_BYTES, &p));
      model->slab = p;
      model->slab_bytes = SLAB_BYTES;
    }
    *out = model->slab;
    model->slab += need;
    model->slab_bytes -= need;
  }
  model->info.weight_bytes += bytes;
  return GA_OK;
}

static bool is_host(const loader *l) {
  return l->model->ctx->device->caps.host_memory;
}

/* Bytes on the device in a new buffer of the model. */
static ga_status upload(loader *l, const void *bytes, uint64_t n, void **out) {
  GA_TRY(ga_model_own(l->model, n, out));
  return ga_copy_to_device(l->model->ctx, *out, bytes, n, NULL);
}

/* [in, out] as stored to [out, in]: plain types only (gpt2 in safetensors). *copy is released by the caller. */
static ga_status transpose(const ga_model_tensor *t, void **copy) {
  const int64_t rows = t->view.dim[0], cols = t->view.dim[1];
  const ga_dtype_traits *traits = ga_dtype_info(t->view.dtype);
  GA_REQUIRE(!traits->is_quant, GA_ERR_UNSUPPORTED, "%s: cannot transpose %s", t->name, traits->name);
  const size_t each = (size_t)traits->block_bytes;
  GA_TRY(ga_mem_alloc(t->bytes, "transpose", copy));
  const char *src = t->view.data;
  char *dst = *copy;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      memcpy(dst + (size_t)(c * rows + r) * each, src + (size_t)(r * cols + c) * each, each);
  return GA_OK;
}

/* Rows packed at a time: file pages are given back slice by slice, so that a matrix is never held twice. */
#define SLICE_ROWS (16 * GA_PACK_ROWS)

/* t: the tensor whose pages to give back, NULL when src is a copy of it. */
static ga_status pack_on_host(loader *l, const ga_model_tensor *t, const char *src, const ga_matrix *m, char *dst) {
  ga_ctx *ctx = l->model->ctx;
  ga_pack_desc desc = GA_PACK_DESC_INIT;
  desc.k = m->cols;
  desc.w_dtype = (int32_t)m->dtype;
  desc.w_layout = (int32_t)m->layout;
  for (int64_t row = 0; row < m->rows; row += desc.n) {
    uint64_t native, packed;
    desc.n = ga_min_i64(SLICE_ROWS, m->rows - row);
    GA_TRY(ga_dtype_bytes(m->dtype, desc.n * m->cols, &native));
    GA_TRY(ga_pack_bytes(ctx, &desc, &packed));
    GA_TRY(ga_pack(ctx, &desc, src, dst, NULL));
    if (t) ga_model_file_forget_part(l->model->file, t, (uint64_t)(src - (const char *)t->view.data), native);
    src += native;
    dst += packed;
  }
  return GA_OK;
}

/* Packs native weights that lie at `src` in host memory, or leaves them native; t as in pack_on_host. */
static ga_status place_matrix(loader *l, const ga_model_tensor *t, const void *src, uint64_t bytes, ga_matrix *m) {
  ga_ctx *ctx = l->model->ctx;
  uint64_t packed_bytes;
  GA_TRY(ga_pack_choose(ctx, m->dtype, m->rows, m->cols, &m->layout, &packed_bytes));
  void *dst;
  if (m->layout == GA_LAYOUT_NATIVE) {
    if (t && is_host(l)) {
      m->data = src;
      l->model->info.weight_bytes += bytes;
      return GA_OK;
    }
    GA_TRY(upload(l, src, bytes, &dst));
    m->data = dst;
    return GA_OK;
  }
  GA_TRY(ga_model_own(l->model, packed_bytes, &dst));
  m->data = dst;
  if (is_host(l)) return pack_on_host(l, t, src, m, dst);
  ga_pack_desc desc = GA_PACK_DESC_INIT;
  desc.n = m->rows;
  desc.k = m->cols;
  desc.w_dtype = (int32_t)m->dtype;
  desc.w_layout = (int32_t)m->layout;
  void *staged;
  GA_TRY(ga_buffer_alloc(ctx, bytes, &staged));
  ga_status status = ga_copy_to_device(ctx, staged, src, bytes, NULL);
  if (status == GA_OK) status = ga_pack(ctx, &desc, staged, dst, NULL);
  if (status == GA_OK) status = ga_stream_sync(ctx, NULL);
  ga_buffer_free(ctx, staged);
  return status;
}

static ga_status load_matrix(loader *l, const ga_model_tensor *t, bool is_transposed, ga_matrix *m) {
  void *copy = NULL;
  if (is_transposed)
    GA_TRY(transpose(t, &copy));
  else if (!t->is_aligned) {
    GA_TRY(ga_mem_alloc(t->bytes, t->name, &copy));
    memcpy(copy, t->view.data, t->bytes);
  }
  ga_status status = place_matrix(l, copy ? NULL : t, copy ? copy : t->view.data, t->bytes, m);
  ga_mem_free(copy);
  if (status == GA_OK && m->data != t->view.data) ga_model_file_forget(l->model->file, t);
  return status;
}

/* Table: native on the device; in the map where that is host memory. */
static ga_status load_table(loader *l, const ga_model_tensor *t, ga_matrix *m) {
  m->layout = GA_LAYOUT_NATIVE;
  if (is_host(l) && t->is_aligned) {
    m->data = t->view.data;
    return GA_OK;
  }
  void *dst;
  GA_TRY(upload(l, t->view.data, t->bytes, &dst));
  m->data = dst;
  return GA_OK;
}

static ga_status to_f32(const ga_model_tensor *t, float add, float *out) {
  const int64_t n = t->view.dim[t->view.n_dims - 1];
  const unsigned char *src = t->view.data; /* may be unaligned */
  for (int64_t i = 0; i < n; i++) {
    uint16_t h;
    switch (t->view.dtype) {
    case GA_F32:
      memcpy(&out[i], src + 4 * i, 4);
      break;
    case GA_F16:
      memcpy(&h, src + 2 * i, 2);
      out[i] = ga_f16_to_f32(h);
      break;
    case GA_BF16:
      memcpy(&h, src + 2 * i, 2);
      out[i] = ga_bf16_to_f32(h);
      break;
    default:
      return ga_fail(GA_ERR_UNSUPPORTED, "%s is %s; vectors must be f32, f16 or bf16", t->name,
                     ga_dtype_name(t->view.dtype));
    }
    out[i] += add;
  }
  return GA_OK;
}

static ga_status load_vector(loader *l, const ga_model_tensor *t, bool is_norm, ga_vector *out) {
  void *host, *device;
  const uint64_t bytes = (uint64_t)t->view.dim[t->view.n_dims - 1] * sizeof(float);
  GA_TRY(ga_mem_alloc(bytes, t->name, &host));
  ga_status status = to_f32(t, is_norm && l->norm_plus_one ? 1.0f : 0.0f, host);
  if (status == GA_OK) status = upload(l, host, bytes, &device);
  ga_mem_free(host);
  if (status == GA_OK) *out = device;
  return status;
}

static ga_status check_shape(const ga_hparams *p, const weight_spec *spec, const ga_model_tensor *t,
                             bool is_transposed) {
  int64_t rows = dim_of(p, spec->rows), cols = dim_of(p, spec->cols);
  if (spec->kind == KIND_VECTOR) {
    GA_REQUIRE(t->view.n_dims == 1 && t->view.dim[0] == cols, GA_ERR_SHAPE,
               "%s: %d dimensions, the last %lld; must be [%lld]", t->name, t->view.n_dims,
               (long long)(t->view.n_dims ? t->view.dim[t->view.n_dims - 1] : 0), (long long)cols);
    return GA_OK;
  }
  const int64_t *d = t->view.dim;
  /* A single row may come as a vector (token types); position tables may be shorter than the stated context. */
  bool one_row = t->view.n_dims == 1 && spec->rows == DIM_TYPES && d[0] == cols;
  bool fits = t->view.n_dims == 2 && (is_transposed ? d[0] == cols && d[1] == rows : d[0] == rows && d[1] == cols);
  if (spec->rows == DIM_TYPES) fits = t->view.n_dims == 2 && d[0] >= 1 && d[1] == cols;
  GA_REQUIRE(fits || one_row, GA_ERR_SHAPE, "%s is [%lld, %lld]; must be [%lld, %lld]", t->name, (long long)d[0],
             (long long)(t->view.n_dims > 1 ? d[1] : 0), (long long)(is_transposed ? cols : rows),
             (long long)(is_transposed ? rows : cols));
  return GA_OK;
}

static ga_status load_one(loader *l, const weight_spec *spec, const char *name, void *base) {
  const ga_hparams *p = &l->model->hparams;
  const uint32_t arch = 1u << p->arch;
  if (!((spec->required | spec->optional) & arch)) return GA_OK;
  const ga_model_tensor *t = ga_model_file_find(l->model->file, name);
  if (!t) {
    GA_REQUIRE(!(spec->required & arch), GA_ERR_FORMAT, "tensor %s is missing; %s needs it", name,
               ga_model_arch_name(p->arch));
    return GA_OK;
  }
  const bool is_transposed = l->is_transposed && spec->kind == KIND_MATRIX && spec->rows != DIM_VOCAB;
  GA_TRY(check_shape(p, spec, t, is_transposed));
  void *field = (char *)base + spec->offset;
  if (spec->kind == KIND_VECTOR)
    GA_TRY(load_vector(l, t, spec->is_norm, field));
  else {
    ga_matrix *m = field;
    *m = (ga_matrix){.dtype = t->view.dtype,
                     .rows = spec->rows == DIM_TYPES ? 1 : dim_of(p, spec->rows),
                     .cols = dim_of(p, spec->cols)};
    GA_TRY(spec->kind == KIND_MATRIX ? load_matrix(l, t, is_transposed, m) : load_table(l, t, m));
  }
  l->done += t->bytes;
  if (l->progress && l->progress(l->user, l->done, l->total)) return ga_fail(GA_ERR_CANCELLED, "loading was stopped");
  return GA_OK;
}

/* Tied head: the embedding again, packed. Its native pages are then needed for looked-up rows alone. */
static ga_status tie_output(loader *l) {
  ga_model *model = l->model;
  if (model->output.data || model->hparams.arch == GA_MODEL_bert) return GA_OK;
  const ga_model_tensor *t = ga_model_file_find(model->file, "token_embd.weight");
  model->output = (ga_matrix){.dtype = t->view.dtype, .rows = model->hparams.vocab, .cols = model->hparams.width};
  return load_matrix(l, t, false, &model->output);
}

static ga_status load_rope(ga_model *model) {
  const ga_hparams *p = &model->hparams;
  if (!p->rot_dim) return GA_OK;
  float factors[512], freq[512];
  const ga_model_tensor *t = ga_model_file_find(model->file, "rope_freqs.weight");
  if (t) {
    GA_REQUIRE(t->view.n_dims == 1 && t->view.dim[0] == p->rot_dim / 2, GA_ERR_SHAPE, "%s: must be [%d]", t->name,
               p->rot_dim / 2);
    GA_TRY(to_f32(t, 0, factors));
  }
  for (int local = 0; local < 2; local++) {
    float *magnitude = local ? &model->rope_magnitude_local : &model->rope_magnitude;
    const float **out = local ? &model->rope_freq_local : &model->rope_freq;
    void *device;
    GA_TRY(ga_hparams_rope(model->file, p, local, t ? factors : NULL, freq, magnitude));
    GA_TRY(ga_model_own(model, sizeof(float) * (size_t)p->rot_dim / 2, &device));
    GA_TRY(ga_copy_to_device(model->ctx, device, freq, sizeof(float) * (size_t)p->rot_dim / 2, NULL));
    *out = device;
  }
  return GA_OK;
}

static void count_totals(ga_model *model, loader *l) {
  for (int64_t i = 0; i < ga_model_file_tensor_count(model->file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(model->file, i);
    uint64_t elems = 1;
    for (int d = 0; d < t->view.n_dims; d++) elems *= (uint64_t)t->view.dim[d];
    l->total += t->bytes;
    model->info.n_params += elems;
    model->info.file_bytes += t->bytes;
  }
}

ga_status ga_weights_load(ga_model *model, const ga_model_options *options) {
  loader l = {.model = model, .progress = options ? options->progress : NULL, .user = options ? options->user : NULL};
  void *p;
  count_totals(model, &l);
  GA_TRY(ga_model_file_bool_or(model->file, "ga.norm_plus_one", false, &l.norm_plus_one));
  GA_TRY(ga_model_file_bool_or(model->file, "ga.gpt2_transposed", false, &l.is_transposed));
  GA_TRY(ga_mem_zalloc((size_t)model->hparams.n_layers, sizeof(ga_layer), "model", &p));
  model->layers = p;
  for (size_t i = 0; i < GA_COUNT_OF(model_specs); i++)
    GA_TRY(load_one(&l, &model_specs[i], model_specs[i].name, model));
  for (int il = 0; il < model->hparams.n_layers; il++) {
    for (size_t i = 0; i < GA_COUNT_OF(layer_specs); i++) {
      char name[64];
      (void)snprintf(name, sizeof name, "blk.%d.%s", il, layer_specs[i].name);
      GA_TRY(load_one(&l, &layer_specs[i], name, &model->layers[il]));
    }
  }
  GA_TRY(tie_output(&l));
  GA_TRY(load_rope(model));
  if (l.progress && l.progress(l.user, l.total, l.total)) return ga_fail(GA_ERR_CANCELLED, "loading was stopped");
  return GA_OK;
}
