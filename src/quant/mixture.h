/* Which type each tensor of a file gets: the mixtures of llama.cpp, under its names. */
#ifndef GA_QUANT_MIXTURE_H
#define GA_QUANT_MIXTURE_H

#include "ga/quantize.h"

typedef struct quant_mixture {
  const char *name;
  ga_dtype most;     /* of what no rule names; GA_DTYPE_NONE: each tensor keeps its type */
  int32_t file_type; /* general.file_type, numbers of llama.cpp; -1: that of the source */
} quant_mixture;

/* What the rules look at. */
typedef struct quant_model {
  char arch[64];
  int64_t layers, heads_per_kv;
  bool has_output; /* a head of its own, not the embedding */
  bool has_importance;
  bool pure; /* one type for all matrices, no rules */
} quant_model;

/* GA_ERR_ARG, with the names there are, for one that is not known. Upper case is taken too. */
GA_NODISCARD ga_status quant_mixture_find(const char *name, const quant_mixture **out);
/* By place; NULL at the end. */
const quant_mixture *quant_mixture_at(int at);

/* Is this a tensor that rules give a type? Others (vectors, norms, positions) stay as they are. */
bool quant_is_matrix(const char *name, int32_t n_dims);
/* What a matrix is to be, before its rows are looked at. */
ga_dtype quant_wanted(const quant_mixture *mix, const quant_model *model, const char *name, ga_dtype from);
/* The type itself if rows of `cols` elements hold whole blocks of it, else the one that llama.cpp puts in its place,
 * else f16. */
ga_dtype quant_fallback(ga_dtype wanted, int64_t cols);

#endif
