/* Rotary embedding: frequencies and their scaling, as the file states it. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ga/layer.h"
#include "model/arch/arch.h"

/* Pairs of the widest head: hparams.c allows 1024 elements. */
#define MOST_PAIRS 512

static ga_status float_or(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback,
                          double *out) {
  char text[GA_HPARAM_KEY_BYTES];
  return ga_model_file_float_or(file, hparams_key(p, key, text), fallback, out);
}

int32_t ga_rope_dims(const ga_hparams *p, rope_table table) {
  return table == ROPE_LOCAL && p->local_heads.dim ? p->local_heads.rot_dim : p->rot_dim;
}

/* Of what the arrays here and in weights.c have room for. */
static ga_status check_pairs(int32_t rot_dim) {
  GA_REQUIRE(rot_dim >= 0 && rot_dim <= 2 * MOST_PAIRS, GA_ERR_SHAPE,
             "heads of which %d elements rotate; must be 0 to %d", rot_dim, 2 * MOST_PAIRS);
  return GA_OK;
}

/* --- divisors of frequencies --- */

static ga_status check_factors(const char *name, int32_t n, const float *factors) {
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(factors[i] > 0 && isfinite(factors[i]), GA_ERR_FORMAT, "%s: factor %d is %g; must be above 0 and finite",
               name, i, (double)factors[i]);
  return GA_OK;
}

/* A tensor of a GGUF file. n: at most MOST_PAIRS, the elements of out. */
static ga_status factors_of_tensor(const ga_model_file *file, const ga_model_tensor *t, int32_t n, float *out) {
  unsigned char raw[MOST_PAIRS * sizeof(float)];
  GA_REQUIRE(t->view.n_dims == 1 && t->view.dim[0] == n, GA_ERR_SHAPE, "%s: must be [%d]", t->name, n);
  GA_REQUIRE(t->bytes <= sizeof raw, GA_ERR_UNSUPPORTED, "%s is %s; vectors must be f32, f16 or bf16", t->name,
             ga_dtype_name(t->view.dtype));
  GA_TRY(ga_model_file_read(file, t, 0, raw, t->bytes));
  GA_TRY(ga_vector_to_f32(t, raw, 0, out));
  return check_factors(t->name, n, out);
}

/* An array of config.json. */
static ga_status factors_of_array(const ga_meta *meta, int32_t n, float *out) {
  GA_REQUIRE(ga_meta_count(meta) == n, GA_ERR_SHAPE, "%s: %lld factors; must be %d, one for each pair that turns",
             ga_meta_key(meta), (long long)ga_meta_count(meta), n);
  for (int32_t i = 0; i < n; i++) {
    double x;
    GA_TRY(ga_meta_float(meta, i, &x));
    out[i] = (float)x;
  }
  return check_factors(ga_meta_key(meta), n, out);
}

/* Pairs beyond a proportion of the head do not rotate: their frequencies are divided by so much that no angle is
 * left. A folder states the proportion (GGUF bakes it into rope_freqs.weight). */
static ga_status proportional_factors(const ga_model_file *file, int32_t pairs, float *factors, bool *found) {
  double part;
  *found = ga_model_file_meta(file, "ga.rope_proportion") != NULL;
  GA_TRY(ga_model_file_float_or(file, "ga.rope_proportion", 1, &part));
  GA_REQUIRE(part > 0 && part <= 1, GA_ERR_FORMAT, "ga.rope_proportion is %g; must be above 0 and at most 1", part);
  for (int32_t i = 0; *found && i < pairs; i++) factors[i] = i < (int32_t)(part * pairs) ? 1 : 1e30f;
  return GA_OK;
}

ga_status ga_rope_factors(const ga_model_file *file, const ga_hparams *p, rope_table table, float *out, bool *found) {
  const bool is_long = table == ROPE_LONG;
  const int32_t pairs = ga_rope_dims(p, table) / 2;
  *found = false;
  if (table == ROPE_LOCAL && p->local_heads.dim) return check_pairs(2 * pairs); /* divisors are of the other heads */
  const ga_model_tensor *t =
      ga_model_file_find(file, is_long ? "rope_factors_long.weight" : "rope_factors_short.weight");
  const ga_meta *meta;
  GA_TRY(check_pairs(2 * pairs));
  if (!t && !is_long) t = ga_model_file_find(file, "rope_freqs.weight");
  GA_TRY(ga_model_file_array_or_null(file, is_long ? "ga.rope_long_factors" : "ga.rope_short_factors", GA_META_FLOATS,
                                     &meta));
  if (!t && !meta && !is_long) return proportional_factors(file, pairs, out, found);
  *found = t || meta;
  if (t) return factors_of_tensor(file, t, pairs, out);
  return meta ? factors_of_array(meta, pairs, out) : GA_OK;
}

ga_status ga_rope_short_context(const ga_model_file *file, const ga_hparams *p, int32_t *tokens) {
  *tokens = 0;
  if (!ga_model_file_find(file, "rope_factors_long.weight") && !ga_model_file_meta(file, "ga.rope_long_factors"))
    return GA_OK;
  return hparams_original_context(file, p, tokens);
}

/* --- scaling --- */

/* Llama 3.1's division of low frequencies, as config.json states it (GGUF bakes it into rope_freqs.weight). */
static ga_status llama3_factors(const ga_model_file *file, const ga_hparams *p, const ga_rope_params *r,
                                float *factors) {
  double low, high;
  GA_TRY(float_or(file, p, "rope.scaling.low_freq_factor", 1, &low));
  GA_TRY(float_or(file, p, "rope.scaling.high_freq_factor", 4, &high));
  GA_REQUIRE(low > 0 && high >= low && r->factor >= 1, GA_ERR_FORMAT,
             "rope scaling llama3: low %g, high %g, factor %g; need 0 < low <= high, factor at least 1", low, high,
             r->factor);
  for (int i = 0; i < p->rot_dim / 2; i++) {
    double turns = r->original_context * pow(r->base, -2.0 * i / p->rot_dim) / 6.283185307179586;
    double keep = high > low ? (turns - low) / (high - low) : turns >= low; /* Llama 4 has equal bounds */
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    factors[i] = (float)(1 / (keep + (1 - keep) / r->factor));
  }
  return GA_OK;
}

/* longrope's magnitude (arXiv 2402.13753), where the file does not state it. */
static double longrope_magnitude(double longer, double original) {
  return longer > 1 && original > 1 ? sqrt(1 + log(longer) / log(original)) : 1;
}

/* The magnitude of yarn as config.json states it, which llama.cpp's converter writes. It writes 1 for models
 * without. */
static ga_status read_yarn_whole(const ga_model_file *file, const ga_hparams *p, double usual, double *magnitude) {
  char text[GA_HPARAM_KEY_BYTES];
  double whole;
  GA_TRY(float_or(file, p, "rope.scaling.yarn_attn_factor", 1, &whole));
  GA_REQUIRE(whole > 0 && whole <= 100, GA_ERR_FORMAT, "%s is %g; must be above 0 and at most 100",
             hparams_key(p, "rope.scaling.yarn_attn_factor", text), whole);
  if (whole != 1) *magnitude = whole / usual;
  return GA_OK;
}

static ga_status read_scaling(const ga_model_file *file, const ga_hparams *p, ga_rope_params *r, ga_text *type) {
  char text[GA_HPARAM_KEY_BYTES];
  int32_t original;
  double multiplier = p->yarn_log_multiplier, stated = 0;
  bool truncates;
  GA_TRY(hparams_rope_scaling(file, p, type, &stated));
  GA_TRY(hparams_original_context(file, p, &original));
  r->original_context = original;
  const bool is_long = hparams_text_is(type, "longrope");
  r->factor = stated != 0 ? stated : is_long ? (double)p->context / original : 1;
  double magnitude = is_long ? longrope_magnitude(r->factor, original) : 1;
  if (p->yarn_magnitude == 0) GA_TRY(float_or(file, p, "rope.scaling.yarn_log_multiplier", multiplier, &multiplier));
  GA_REQUIRE(multiplier >= 0 && multiplier <= 100, GA_ERR_FORMAT, "%s is %g; must be 0 to 100",
             hparams_key(p, "rope.scaling.yarn_log_multiplier", text), multiplier);
  if (hparams_text_is(type, "yarn") && r->factor > 1) {
    const double usual = 1 + 0.1 * log(r->factor); /* which ga_rope_freqs multiplies by */
    magnitude = p->yarn_magnitude > 0 ? p->yarn_magnitude / usual : 1 / (1 + 0.1 * multiplier * log(r->factor));
    GA_TRY(read_yarn_whole(file, p, usual, &magnitude));
  }
  GA_TRY(ga_model_file_bool_or(file, "ga.rope_truncate", true, &truncates));
  r->exact_bounds = !truncates;
  GA_TRY(float_or(file, p, "rope.scaling.attn_factor", magnitude, &r->attn_factor));
  GA_TRY(float_or(file, p, "rope.scaling.yarn_beta_fast", 32, &r->beta_fast));
  return float_or(file, p, "rope.scaling.yarn_beta_slow", 1, &r->beta_slow);
}

ga_status ga_hparams_rope(const ga_model_file *file, const ga_hparams *p, rope_table table, const float *factors,
                          float *inv_freq, float *magnitude) {
  ga_rope_params r = GA_ROPE_PARAMS_INIT;
  r.rot_dim = ga_rope_dims(p, table);
  GA_TRY(check_pairs(r.rot_dim));
  r.freq_factors = factors;
  float own_factors[MOST_PAIRS];
  ga_text type = {"none", 4};
  r.base = table == ROPE_LOCAL ? p->rope_base_local : p->rope_base;
  if (table != ROPE_LOCAL) GA_TRY(read_scaling(file, p, &r, &type));
  if (hparams_text_is(&type, "linear"))
    r.scaling = GA_ROPE_SCALE_LINEAR;
  else if (hparams_text_is(&type, "yarn"))
    r.scaling = GA_ROPE_SCALE_YARN;
  else if (hparams_text_is(&type, "llama3")) {
    GA_TRY(llama3_factors(file, p, &r, own_factors));
    r.freq_factors = own_factors;
  } else if (hparams_text_is(&type, "longrope")) {
    GA_REQUIRE(factors, GA_ERR_FORMAT, "rope scaling longrope without its %s factors; must be there",
               table == ROPE_LONG ? "long" : "short");
  } else {
    GA_REQUIRE(hparams_text_is(&type, "none"), GA_ERR_UNSUPPORTED,
               "rope scaling '%.*s'; GA has none, linear, yarn, llama3, longrope",
               type.bytes < 32 ? (int)type.bytes : 32, type.data);
  }
  return ga_rope_freqs(&r, inv_freq, magnitude);
}
