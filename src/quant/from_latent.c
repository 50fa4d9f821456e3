/* Keys of folders with latent attention, in the words of GGUF files whose keys and values are absorbed: a row of the
 * cache counts as the one key, its latent vector as the one value, and heads' own sizes have keys of their own. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "quant/rewrite.h"

static const char *latent_key(const rewrite *r, const char *name, char out[128]) {
  (void)snprintf(out, 128, "%s.%s", r->model.arch, name);
  return out;
}

static ga_status latent_int(const rewrite *r, const char *name, int64_t *out) {
  char key[128];
  return ga_model_file_int(r->file, latent_key(r, name, key), 1, 1 << 20, out);
}

static void put_latent_int(rewrite *r, const char *name, int64_t v) {
  char key[128];
  ga_gguf_put_int(r->writer, latent_key(r, name, key), GA_META_U32, v);
}

static ga_status latent_text_is(const rewrite *r, const char *key, const char *want, bool *is_it) {
  ga_text text;
  GA_TRY(ga_model_file_text_or(r->file, key, "", &text));
  *is_it = text.bytes == strlen(want) && !memcmp(text.data, want, text.bytes);
  return GA_OK;
}

bool rewrite_is_latent(const rewrite *r) { return ga_model_file_meta(r->file, "ga.qk_nope_head_dim") != NULL; }

/* Sizes that GGUF has in other keys, and groups that a greedy choice has no use for. */
ga_status rewrite_is_latents_own(const rewrite *r, const char *key, bool *is_own) {
  static const char *const sizes[] = {".attention.key_length", ".attention.value_length", ".attention.head_count_kv"};
  static const char *const groups[] = {".expert_group_count", ".expert_group_used_count"};
  bool is_greedy;
  *is_own = false;
  if (!rewrite_is_latent(r)) return GA_OK;
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) *is_own = *is_own || ga_ends_with(key, sizes[i]);
  GA_TRY(latent_text_is(r, "ga.topk_method", "greedy", &is_greedy));
  for (size_t i = 0; i < GA_COUNT_OF(groups) && is_greedy; i++) *is_own = *is_own || ga_ends_with(key, groups[i]);
  return GA_OK;
}

static ga_status put_latent_sizes(rewrite *r) {
  int64_t nope, turned, v, latent;
  GA_TRY(ga_model_file_int(r->file, "ga.qk_nope_head_dim", 1, 1 << 20, &nope));
  GA_TRY(latent_int(r, "rope.dimension_count", &turned));
  GA_TRY(latent_int(r, "attention.value_length", &v));
  GA_TRY(latent_int(r, "attention.kv_lora_rank", &latent));
  put_latent_int(r, "attention.head_count_kv", 1);
  put_latent_int(r, "attention.key_length", latent + turned);
  put_latent_int(r, "attention.value_length", latent);
  put_latent_int(r, "attention.key_length_mla", nope + turned);
  put_latent_int(r, "attention.value_length_mla", v);
  return GA_OK;
}

/* GGUF has a tenth of the m that multiplies logits, and takes the m of sine and cosine to equal it: where it does not,
 * the file keeps the folder's keys. */
static ga_status put_mscales(rewrite *r) {
  bool is_yarn;
  double all, turned;
  char key[128];
  GA_TRY(latent_text_is(r, latent_key(r, "rope.scaling.type", key), "yarn", &is_yarn));
  if (!is_yarn || !ga_model_file_meta(r->file, "ga.mscale")) return GA_OK;
  GA_TRY(ga_model_file_float(r->file, "ga.mscale", &turned));
  GA_TRY(ga_model_file_float_or(r->file, "ga.mscale_all_dim", 0, &all));
  ga_gguf_put_f32(r->writer, latent_key(r, "rope.scaling.yarn_log_multiplier", key), (float)(0.1 * all));
  if (all == turned) return GA_OK;
  ga_gguf_put_f32(r->writer, "ga.mscale", (float)turned);
  ga_gguf_put_f32(r->writer, "ga.mscale_all_dim", (float)all);
  return GA_OK;
}

/* Writes keys that GGUF does not have: the epsilon of norms of latent vectors, and whether rotated pairs are half a
 * head apart. */
static ga_status put_keys_of_ours(rewrite *r) {
  bool is_interleaved;
  GA_TRY(ga_model_file_bool_or(r->file, "ga.rope_interleave", true, &is_interleaved));
  if (!is_interleaved) ga_gguf_put_bool(r->writer, "ga.rope_interleave", false);
  ga_gguf_put_f32(r->writer, "ga.latent_norm_eps", REWRITE_LATENT_EPS);
  return GA_OK;
}

ga_status rewrite_put_latent_keys(rewrite *r) {
  enum { SOFTMAX = 1, SIGMOID = 2 };
  bool is_sigmoid;
  if (!rewrite_is_latent(r)) return GA_OK;
  GA_TRY(put_latent_sizes(r));
  GA_TRY(latent_text_is(r, "ga.scoring_func", "sigmoid", &is_sigmoid));
  put_latent_int(r, "expert_gating_func", is_sigmoid ? SIGMOID : SOFTMAX);
  GA_TRY(put_mscales(r));
  return put_keys_of_ours(r);
}
