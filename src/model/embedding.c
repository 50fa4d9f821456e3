#include "model/embedding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/filemap.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/status.h"
#include "file/hf_modules.h"
#include "file/model_store.h"
#include "text/json_io.h"

/* --- reading --- */

static ga_status pooling_mode_of(const char *name, ga_pooling *out) {
  static const struct {
    const char *name;
    ga_pooling mode;
  } known[] = {{"mean", POOL_MEAN},
               {"cls", POOL_CLS},
               {"lasttoken", POOL_LAST},
               {"max", POOL_MAX},
               {"weightedmean", POOL_WEIGHTED_MEAN},
               {"mean_sqrt_len_tokens", POOL_MEAN_SQRT}};
  for (size_t i = 0; i < GA_COUNT_OF(known); i++)
    if (name && !strcmp(name, known[i].name)) {
      *out = known[i].mode;
      return GA_OK;
    }
  return ga_fail(GA_ERR_FORMAT, "pooling '%s'", name ? ga_quote(name, strlen(name)).text : "");
}

static ga_status take_modes(const json_t *modes, ga_embedding *e) {
  const size_t n = json_array_size(modes);
  GA_REQUIRE(n >= 1 && n <= EMBEDDING_MOST_MODES, GA_ERR_FORMAT, "%zu kinds of pooling; must be 1 to %d", n,
             EMBEDDING_MOST_MODES);
  for (size_t i = 0; i < n; i++) GA_TRY(pooling_mode_of(json_string_value(json_array_get(modes, i)), &e->modes[i]));
  e->n_modes = (int32_t)n;
  return GA_OK;
}

static ga_status act_of(const char *name, embedding_act *out) {
  static const char *const names[] = {[ACT_IDENTITY] = "identity", [ACT_TANH] = "tanh", [ACT_RELU] = "relu",
                                      [ACT_GELU] = "gelu",         [ACT_SILU] = "silu", [ACT_SIGMOID] = "sigmoid"};
  for (size_t i = 0; i < GA_COUNT_OF(names); i++)
    if (name && !strcmp(name, names[i])) {
      *out = (embedding_act)i;
      return GA_OK;
    }
  return ga_fail(GA_ERR_FORMAT, "activation '%s'", name ? ga_quote(name, strlen(name)).text : "");
}

/* Reads a tensor of plain numbers as f32, malloc'd. */
static ga_status dense_floats(const ga_model_file *file, const char *name, int32_t n_dims, const int64_t *dims,
                              float **out) {
  const ga_model_tensor *t;
  void *values = NULL;
  const size_t n = (size_t)dims[0] * (size_t)(n_dims > 1 ? dims[1] : 1);
  GA_TRY(ga_model_file_tensor(file, name, n_dims, dims, &t));
  GA_TRY(ga_mem_alloc(n * sizeof(float), "weights of a Dense module", &values));
  const ga_status status = ga_vector_to_f32(t, t->view.data, 0, values);
  if (status == GA_OK)
    *out = values;
  else
    ga_mem_free(values);
  return status;
}

static ga_status load_dense(const char *path, bool has_bias, embedding_module *m) {
  ga_filemap map;
  ga_model_file *file = NULL;
  const int64_t dims[2] = {m->out, m->in};
  GA_TRY(ga_filemap_open(path, &map));
  ga_status status = ga_model_file_parse(ga_path_label(path), map.data, map.bytes, &file);
  if (status == GA_OK) status = dense_floats(file, "linear.weight", 2, dims, &m->weights);
  if (status == GA_OK && has_bias) status = dense_floats(file, "linear.bias", 1, dims, &m->bias);
  ga_model_file_destroy(file);
  ga_filemap_close(&map);
  return status;
}

/* <folder of the model>/<module>/model.safetensors */
static ga_status dense_path(const ga_model_file *file, const char *module, char *out, size_t room) {
  const char *shard = ga_model_file_shard_path(file, 0), *slash = strrchr(shard, '/');
  const int n = snprintf(out, room, "%.*s%s/model.safetensors", slash ? (int)(slash - shard) + 1 : 0, shard, module);
  GA_REQUIRE(n > 0 && (size_t)n < room, GA_ERR_ARG, "%s: the path of its weights is too long", module);
  return GA_OK;
}

static ga_status take_dense(const ga_model_file *file, const json_t *module, bool plan_only, ga_embedding *e) {
  embedding_module *m = &e->modules[e->n_modules - 1];
  const char *folder = json_string_value(json_object_get(module, "dense"));
  char path[4096];
  m->in = (int32_t)json_integer_value(json_object_get(module, "in"));
  m->out = (int32_t)json_integer_value(json_object_get(module, "out"));
  GA_TRY(act_of(json_string_value(json_object_get(module, "activation")), &m->act));
  GA_REQUIRE(m->in == e->width, GA_ERR_SHAPE, "%s: 'in_features' is %d; the vector before it has %d elements", folder,
             m->in, e->width);
  e->width = m->out;
  e->most = (int32_t)ga_max_i64(e->most, m->out);
  if (plan_only) return GA_OK;
  GA_TRY(dense_path(file, folder, path, sizeof path));
  return load_dense(path, json_is_true(json_object_get(module, "bias")), m);
}

static ga_status take_modules(const ga_model_file *file, const ga_hparams *p, const json_t *all, bool plan_only,
                              ga_embedding *e) {
  GA_TRY(take_modes(json_object_get(json_array_get(all, 0), "pooling"), e));
  e->width = e->most = p->width * e->n_modes;
  for (size_t i = 1; i < json_array_size(all); i++) {
    const json_t *module = json_array_get(all, i);
    GA_REQUIRE(e->n_modules < EMBEDDING_MOST_MODULES, GA_ERR_UNSUPPORTED, "modules.json has more than %d modules",
               EMBEDDING_MOST_MODULES);
    e->n_modules++;
    if (json_object_get(module, "dense")) GA_TRY(take_dense(file, module, plan_only, e));
  }
  return GA_OK;
}

static ga_status read_embedding(const ga_model_file *file, const ga_hparams *p, bool plan_only, ga_embedding *e) {
  ga_text text;
  json_error_t error;
  GA_TRY(ga_model_file_text_or(file, GA_EMBEDDING_MODULES, "", &text));
  if (!text.bytes) {
    e->modes[0] = (ga_pooling)p->pooling;
    e->n_modes = 1;
    e->width = e->most = p->width;
    return GA_OK;
  }
  json_t *all = ga_json_load(text.data, text.bytes, 0, &error);
  GA_REQUIRE(all || json_error_code(&error) != json_error_out_of_memory, GA_ERR_NOMEM, "embedding: out of memory");
  GA_REQUIRE(all, GA_ERR_FORMAT, "metadata '%s': %s", GA_EMBEDDING_MODULES, error.text);
  const ga_status status = take_modules(file, p, all, plan_only, e);
  json_decref(all);
  return status;
}

ga_status embedding_create(const ga_model_file *file, const ga_hparams *p, bool plan_only, ga_embedding **out) {
  void *made;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_embedding), "embedding", &made));
  const ga_status status = read_embedding(file, p, plan_only, made);
  if (status == GA_OK)
    *out = made;
  else
    embedding_destroy(made);
  return status;
}

void embedding_destroy(ga_embedding *e) {
  if (!e) return;
  for (int32_t i = 0; i < e->n_modules; i++) {
    ga_mem_free(e->modules[i].weights);
    ga_mem_free(e->modules[i].bias);
  }
  ga_mem_free(e);
}

/* --- computing --- */

/* One column of the rows, [n] with a step of `width`. */
static double pool_column(ga_pooling mode, const float *x, int32_t n, int32_t width) {
  double sum = 0, most = -INFINITY;
  if (mode == POOL_CLS) return (double)x[0];
  if (mode == POOL_LAST) return (double)x[(int64_t)(n - 1) * width];
  for (int64_t t = 0; t < n; t++) {
    const double v = (double)x[t * width];
    most = v > most ? v : most;
    sum += mode == POOL_WEIGHTED_MEAN ? v * (double)(t + 1) : v / n;
  }
  if (mode == POOL_MAX) return most;
  if (mode == POOL_WEIGHTED_MEAN) return sum / (0.5 * n * (n + 1.0));
  return mode == POOL_MEAN_SQRT ? sum * sqrt(n) : sum;
}

static double activate(embedding_act act, double v) {
  switch (act) {
  case ACT_IDENTITY: return v;
  case ACT_TANH: return tanh(v);
  case ACT_RELU: return v > 0 ? v : 0;
  case ACT_GELU: return 0.5 * v * (1 + erf(v * 0.7071067811865476));
  case ACT_SILU: return v / (1 + exp(-v));
  case ACT_SIGMOID: return 1 / (1 + exp(-v));
  }
  return v;
}

/* Elements are rounded to f32 before they are scaled. */
static void to_length_1(double *v, int32_t n) {
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += v[i] * v[i];
  const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
  for (int32_t i = 0; i < n; i++) v[i] = (double)(float)v[i] * scale;
}

static void apply_dense(const embedding_module *m, const double *x, double *y) {
  for (int32_t r = 0; r < m->out; r++) {
    double sum = m->bias ? (double)m->bias[r] : 0;
    for (int32_t c = 0; c < m->in; c++) sum += (double)m->weights[(int64_t)r * m->in + c] * x[c];
    y[r] = activate(m->act, sum);
  }
}

ga_status embedding_compute(const ga_embedding *e, const float *x, int32_t n, int32_t width, float *out) {
  void *room;
  GA_TRY(ga_mem_alloc(2 * (size_t)e->most * sizeof(double), "embedding", &room));
  double *v = room, *next = v + e->most;
  for (int32_t k = 0; k < e->n_modes; k++)
    for (int32_t c = 0; c < width; c++) v[(int64_t)k * width + c] = pool_column(e->modes[k], x + c, n, width);
  int32_t size = e->n_modes * width;
  for (int32_t i = 0; i < e->n_modules; i++) {
    if (!e->modules[i].weights) {
      to_length_1(v, size);
      continue;
    }
    apply_dense(&e->modules[i], v, next);
    double *swap = v;
    v = next;
    next = swap;
    size = e->modules[i].out;
  }
  to_length_1(v, size);
  for (int32_t i = 0; i < size; i++) out[i] = (float)v[i];
  ga_mem_free(room);
  return GA_OK;
}
