/* Hyper-parameters that differ between layers or positions: heads, keys and values of other layers, widths of
 * feed-forwards, factors of queries. */
#include "base/compiler.h"
#include "base/status.h"
#include "model/arch/arch.h"

/* One number for all layers, or one for each. */
static ga_status read_each(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t most,
                           int64_t each[GA_MODEL_MAX_LAYERS]) {
  char text[GA_HPARAM_KEY_BYTES];
  return ga_model_file_ints(file, hparams_key(p, key, text), p->n_layers, 1, most, each);
}

/* Layers of each kind, local or not, must have one number: that of the first. */
static ga_status read_of_kinds(const ga_model_file *file, const ga_hparams *p, const char *key, int32_t of_kind[2]) {
  char text[GA_HPARAM_KEY_BYTES];
  int64_t each[GA_MODEL_MAX_LAYERS];
  int32_t first[2] = {-1, -1};
  GA_TRY(read_each(file, p, key, 1024, each));
  for (int32_t il = 0; il < p->n_layers; il++) {
    const int kind = p->is_local[il];
    if (first[kind] < 0) first[kind] = il;
    GA_REQUIRE(each[il] == each[first[kind]], GA_ERR_UNSUPPORTED,
               "%s: layer %d has %lld, layer %d has %lld; layers %s a window must have one number",
               hparams_key(p, key, text), il, (long long)each[il], first[kind], (long long)each[first[kind]],
               kind ? "with" : "without");
  }
  for (int kind = 0; kind < 2; kind++) of_kind[kind] = (int32_t)each[first[kind] < 0 ? 0 : first[kind]];
  return GA_OK;
}

/* Heads of keys and values divide those of queries. A file without their number has as many as of queries. */
static ga_status read_kv_heads(const ga_model_file *file, const ga_hparams *p, int32_t n_kv[2]) {
  char text[GA_HPARAM_KEY_BYTES];
  n_kv[0] = n_kv[1] = p->n_heads;
  if (!ga_model_file_meta(file, hparams_key(p, "attention.head_count_kv", text))) return GA_OK;
  GA_TRY(read_of_kinds(file, p, "attention.head_count_kv", n_kv));
  for (int kind = 0; kind < 2; kind++)
    GA_REQUIRE(p->n_heads % n_kv[kind] == 0, GA_ERR_SHAPE, "%s: %d heads over %d kv heads; must divide", text,
               p->n_heads, n_kv[kind]);
  return GA_OK;
}

static ga_status read_local_heads(const ga_model_file *file, const ga_hparams *p, int32_t n_kv, ga_heads *h) {
  char text[GA_HPARAM_KEY_BYTES];
  h->n_kv = n_kv;
  GA_TRY(hparams_int(file, p, "attention.key_length_swa", p->head_dim, 1, 1024, &h->dim));
  GA_TRY(hparams_int(file, p, "attention.value_length_swa", h->dim, 1, 1024, &h->v_dim));
  GA_TRY(hparams_int(file, p, "rope.dimension_count_swa", h->dim, 0, h->dim, &h->rot_dim));
  GA_REQUIRE(h->rot_dim % 2 == 0, GA_ERR_SHAPE, "%s is %d; must be even",
             hparams_key(p, "rope.dimension_count_swa", text), h->rot_dim);
  return GA_OK;
}

ga_status hparams_layer_sizes(const ga_model_file *file, ga_hparams *p) {
  int64_t each[GA_MODEL_MAX_LAYERS];
  int32_t n_kv[2];
  GA_TRY(hparams_stated_int(file, p, "attention.head_count", 1, 1024, &p->n_heads));
  GA_TRY(read_kv_heads(file, p, n_kv));
  p->n_kv_heads = n_kv[0];
  GA_TRY(hparams_head_dims(file, p));
  GA_TRY(read_local_heads(file, p, n_kv[1], &p->local_heads));
  GA_TRY(read_each(file, p, "feed_forward_length", 1 << 22, each));
  p->ff_width = (int32_t)each[0];
  for (int32_t il = 0; il < p->n_layers; il++) p->layer_ff_width[il] = (int32_t)each[il];
  return GA_OK;
}

ga_status hparams_layer_embedding(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_int(file, p, "embedding_length_per_layer_input", 0, 0, 1 << 16, &p->layer_embed_width));
  if (p->layer_embed_width) p->is_joined = true;
  return GA_OK;
}

ga_status hparams_shared_kv(const ga_model_file *file, int32_t fallback, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  int32_t shared;
  GA_TRY(hparams_int(file, p, "attention.shared_kv_layers", fallback, 0, p->n_layers - 1, &shared));
  const int32_t first = p->n_layers - shared;
  for (int32_t il = first; il < p->n_layers; il++) {
    int32_t from = first - 1;
    while (from >= 0 && p->is_local[from] != p->is_local[il]) from--;
    GA_REQUIRE(from >= 0, GA_ERR_FORMAT,
               "%s is %d: layer %d %s window, and no layer before %d, whose keys and values it could read, is alike",
               hparams_key(p, "attention.shared_kv_layers", text), shared, il, p->is_local[il] ? "has a" : "has no",
               first);
    p->kv_distance[il] = (int16_t)(il - from);
    p->is_joined = true;
  }
  return GA_OK;
}

ga_status hparams_temperature(const ga_model_file *file, float scale, int32_t length, ga_hparams *p) {
  ga_temperature *t = &p->temperature;
  GA_TRY(hparams_float(file, p, "attention.temperature_scale", (double)scale, 0, 100, &t->scale));
  GA_TRY(hparams_int(file, p, "attention.temperature_length", length, 1, 1 << 30, &t->length));
  if (t->scale == 0) t->length = 0;
  return GA_OK;
}
