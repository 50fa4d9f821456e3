/* The mixtures of llama.cpp, under its names: rules that choose a type for each tensor of a file. */
#ifndef GA_QUANT_MIXTURE_H
#define GA_QUANT_MIXTURE_H

#include "ga/quantize.h"

typedef struct quant_mixture {
  const char *name;
  ga_dtype most;     /* type of matrices without a rule of their own; GA_DTYPE_NONE: each tensor keeps its type */
  int32_t file_type; /* general.file_type, in llama.cpp's numbers; -1: the source file's value is kept */
} quant_mixture;

/* Properties of a model on which the rules of mixtures depend. */
typedef struct quant_model {
  char arch[64];
  int64_t layers, heads_per_kv, experts;
  bool has_output; /* the output head is a matrix of its own, not the embedding */
  bool has_importance;
  bool pure; /* all matrices get one type, without rules */
} quant_model;

/* Finds a mixture by name, in lower or upper case. GA_ERR_ARG: an unknown name; the text lists the known ones. */
GA_NODISCARD ga_status quant_mixture_find(const char *name, const quant_mixture **out);
/* Returns mixture number `at`; NULL past the last. */
const quant_mixture *quant_mixture_at(int at);

/* Returns whether the rules choose the type of a tensor. Other tensors (vectors, norms, position embeddings) keep their
 * type. */
bool quant_is_matrix(const char *name, int32_t n_dims);
/* Returns the type of a matrix by the rules, whatever the length of its rows. */
ga_dtype quant_wanted(const quant_mixture *mix, const quant_model *model, const char *name, ga_dtype from);
/* Returns the type to write: `wanted` if rows of `cols` elements hold whole blocks of it, else llama.cpp's
 * replacement, else f16. */
ga_dtype quant_fallback(ga_dtype wanted, int64_t cols);

#endif
