/* The rules are those of llama.cpp's llama-quantize (src/llama-quant.cpp, late 2025), in a table: a mixture, a tensor,
 * which layers, a type. The first row that fits wins. Their reason: errors in values and in the second matrix of the
 * feed-forward part cost most, and those of the first and last layers more than of others. */
#include "quant/mixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/status.h"
#include "base/text.h"

static const quant_mixture mixtures[] = {
    {"f32", GA_F32, 0},      {"f16", GA_F16, 1},         {"bf16", GA_BF16, 32},       {"q8_0", GA_Q8_0, 7},
    {"q4_0", GA_Q4_0, 2},    {"q4_1", GA_Q4_1, 3},       {"q5_0", GA_Q5_0, 8},        {"q5_1", GA_Q5_1, 9},
    {"q2_k", GA_Q2_K, 10},   {"q2_k_s", GA_Q2_K, 21},    {"q3_k_s", GA_Q3_K, 11},     {"q3_k_m", GA_Q3_K, 12},
    {"q3_k_l", GA_Q3_K, 13}, {"q4_k_s", GA_Q4_K, 14},    {"q4_k_m", GA_Q4_K, 15},     {"q5_k_s", GA_Q5_K, 16},
    {"q5_k_m", GA_Q5_K, 17}, {"q6_k", GA_Q6_K, 18},      {"iq4_nl", GA_IQ4_NL, 25},   {"iq4_xs", GA_IQ4_XS, 30},
    {"mxfp4", GA_MXFP4, 38}, {"mxfp4_moe", GA_Q8_0, 38}, {"copy", GA_DTYPE_NONE, -1}, {"q3_k", GA_Q3_K, 12},
    {"q4_k", GA_Q4_K, 15},   {"q5_k", GA_Q5_K, 17}, /* llama.cpp's short names */
};

const quant_mixture *quant_mixture_at(int at) {
  return at >= 0 && (size_t)at < GA_COUNT_OF(mixtures) ? &mixtures[at] : NULL;
}

ga_status quant_mixture_find(const char *name, const quant_mixture **out) {
  char names[400] = "";
  for (size_t i = 0; i < GA_COUNT_OF(mixtures); i++) {
    if (!strcasecmp(name, mixtures[i].name)) {
      *out = &mixtures[i];
      return GA_OK;
    }
    (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", mixtures[i].name);
  }
  return ga_fail(GA_ERR_ARG, "type '%s' is not known; allowed: %s", ga_quote(name, strlen(name)).text, names);
}

/* --- rules ------------------------------------------------------------------------------------------------------- */

typedef enum which_layers {
  EVERY,
  FIRST_2,
  FIRST_4,
  FIRST_8TH,
  FIRST_16TH,
  MORE_BITS,      /* the first and last eighth, and every third between */
  GROUPED,        /* every layer, if 4 or more query heads share one of keys and values */
  UNWEIGHTED_8TH, /* the first eighth, without an importance matrix */
  WEIGHTED_8TH    /* the first eighth, with one */
} which_layers;

typedef struct mix_rule {
  const char *mixture, *tensor; /* tensor: what follows "blk.N." and ends before ".weight" */
  which_layers layers;
  ga_dtype type;
} mix_rule;

static const mix_rule rules[] = {
    {"q2_k", "attn_v", GROUPED, GA_Q4_K},
    {"q2_k", "attn_v", EVERY, GA_Q3_K},
    {"q2_k", "ffn_down", EVERY, GA_Q3_K},
    {"q2_k", "attn_output", EVERY, GA_Q3_K},
    {"q2_k_s", "attn_v", GROUPED, GA_Q4_K},
    {"q2_k_s", "ffn_down", FIRST_8TH, GA_Q4_K},
    {"q3_k_m", "attn_v", FIRST_2, GA_Q5_K},
    {"q3_k_m", "attn_v", EVERY, GA_Q4_K},
    {"q3_k_m", "ffn_down", FIRST_16TH, GA_Q5_K},
    {"q3_k_m", "ffn_down", EVERY, GA_Q4_K},
    {"q3_k_m", "attn_output", EVERY, GA_Q4_K},
    {"q3_k_m", "attn_qkv", EVERY, GA_Q4_K},
    {"q3_k_l", "attn_v", EVERY, GA_Q5_K},
    {"q3_k_l", "ffn_down", EVERY, GA_Q5_K},
    {"q3_k_l", "attn_output", EVERY, GA_Q5_K},
    {"q3_k_l", "attn_qkv", EVERY, GA_Q4_K},
    {"q4_k_s", "attn_v", FIRST_4, GA_Q5_K},
    {"q4_k_s", "ffn_down", FIRST_8TH, GA_Q5_K},
    {"q4_k_m", "attn_v", MORE_BITS, GA_Q6_K},
    {"q4_k_m", "ffn_down", MORE_BITS, GA_Q6_K},
    {"q4_k_m", "attn_qkv", EVERY, GA_Q5_K},
    {"q5_k_m", "attn_v", MORE_BITS, GA_Q6_K},
    {"q5_k_m", "ffn_down", MORE_BITS, GA_Q6_K},
    {"q5_k_m", "attn_qkv", EVERY, GA_Q6_K},
    {"iq4_nl", "attn_v", GROUPED, GA_Q5_K},
    {"iq4_xs", "attn_v", GROUPED, GA_Q5_K},
    {"iq4_nl", "ffn_down", UNWEIGHTED_8TH, GA_Q5_K},
    {"iq4_xs", "ffn_down", UNWEIGHTED_8TH, GA_Q5_K},
    {"q4_0", "ffn_down", WEIGHTED_8TH, GA_Q4_1},
    {"q5_0", "ffn_down", WEIGHTED_8TH, GA_Q5_1},
};

static bool layer_fits(which_layers which, const quant_model *m, int64_t il) {
  const int64_t eighth = m->layers / 8;
  switch (which) {
  case EVERY: return true;
  case FIRST_2: return il < 2;
  case FIRST_4: return il < 4;
  case FIRST_8TH: return il < eighth;
  case FIRST_16TH: return il < m->layers / 16;
  case MORE_BITS: return il < eighth || il >= 7 * m->layers / 8 || (il - eighth) % 3 == 2;
  case GROUPED: return m->heads_per_kv >= 4;
  case UNWEIGHTED_8TH: return !m->has_importance && il < eighth;
  case WEIGHTED_8TH: return m->has_importance && il < eighth;
  }
  return false;
}

/* "blk.12.ffn_down.weight": 12, and where "ffn_down.weight" begins; -1 for other names. */
static int64_t layer_of_name(const char *name, const char **rest) {
  char *end;
  if (strncmp(name, "blk.", 4)) return -1;
  const long il = strtol(name + 4, &end, 10);
  if (end == name + 4 || *end != '.' || il < 0) return -1;
  *rest = end + 1;
  return il;
}

/* Rules for ffn_down hold for the experts' and for the shared feed-forward's second matrix, too. */
static bool tensor_is(const char *rest, const char *tensor) {
  static const char *const ends[] = {".weight", "_exps.weight", "_shexp.weight"};
  const size_t n = strlen(tensor);
  for (size_t i = 0; i < GA_COUNT_OF(ends); i++)
    if (!strncmp(rest, tensor, n) && !strcmp(rest + n, ends[i])) return true;
  return false;
}

/* Models with eight experts have small attention beside them: it gets more bits. */
static ga_dtype type_beside_eight(const char *mixture, ga_dtype most, const char *rest, ga_dtype ruled) {
  static const char *const with_output[] = {"q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "iq4_nl", "iq4_xs"};
  if (tensor_is(rest, "attn_v") || tensor_is(rest, "attn_k")) return GA_Q8_0;
  if (!tensor_is(rest, "attn_output")) return ruled;
  for (size_t i = 0; i < GA_COUNT_OF(with_output); i++)
    if (!strcmp(mixture, with_output[i])) return GA_Q5_K;
  return most;
}

static ga_dtype ruled_type(const char *mixture, ga_dtype most, const quant_model *m, const char *name) {
  const char *rest = NULL;
  const int64_t il = layer_of_name(name, &rest);
  const ga_dtype usual = most;
  for (size_t i = 0; il >= 0 && i < GA_COUNT_OF(rules); i++) {
    const mix_rule *r = &rules[i];
    if (!strcmp(r->mixture, mixture) && tensor_is(rest, r->tensor) && layer_fits(r->layers, m, il))
      most = r->type;
    else
      continue;
    break;
  }
  /* Models of 80 layers share values among 8 query heads: they are small, and cost little. */
  const bool is_70b = m->layers == 80 && !strcmp(m->arch, "llama");
  if (il >= 0 && is_70b && tensor_is(rest, "attn_v") && (most == GA_Q3_K || most == GA_Q4_K)) return GA_Q5_K;
  return il >= 0 && m->experts == 8 ? type_beside_eight(mixture, usual, rest, most) : most;
}

bool quant_is_matrix(const char *name, int32_t n_dims) {
  static const char *const others[] = {"position_embd.weight", "token_types.weight", "rope_freqs.weight"};
  if (n_dims < 2 || !ga_ends_with(name, "weight") || ga_ends_with(name, "_norm.weight")) return false;
  for (size_t i = 0; i < GA_COUNT_OF(others); i++)
    if (!strcmp(name, others[i])) return false;
  return !strstr(name, "ffn_gate_inp"); /* routers of experts */
}

/* The mixture that a short name stands for. */
static const char *long_name(const quant_mixture *mix) {
  for (size_t i = 0; i < GA_COUNT_OF(mixtures); i++)
    if (mixtures[i].file_type == mix->file_type) return mixtures[i].name;
  return mix->name;
}

ga_dtype quant_wanted(const quant_mixture *mix, const quant_model *m, const char *name, ga_dtype from) {
  if (mix->most == GA_DTYPE_NONE) return from;
  if (!ga_dtype_info(mix->most)->is_quant || m->pure) return mix->most;
  const char *head = m->has_output ? "output.weight" : "token_embd.weight";
  if (!strcmp(mix->name, "mxfp4_moe")) return ga_ends_with(name, "_exps.weight") ? GA_MXFP4 : GA_Q8_0;
  if (!strcmp(name, head)) return mix->most == GA_Q8_0 || mix->most == GA_MXFP4 ? GA_Q8_0 : GA_Q6_K;
  return ruled_type(long_name(mix), mix->most, m, name);
}

ga_dtype quant_fallback(ga_dtype wanted, int64_t cols) {
  if (cols % ga_dtype_info(wanted)->block_elems == 0) return wanted;
  ga_dtype other;
  switch (wanted) {
  case GA_Q4_K: other = GA_Q5_0; break;
  case GA_Q5_K: other = GA_Q5_1; break;
  case GA_Q6_K: other = GA_Q8_0; break;
  default: other = GA_IQ4_NL; break; /* q2_k, q3_k, iq4_xs */
  }
  return cols % ga_dtype_info(other)->block_elems == 0 ? other : GA_F16;
}
