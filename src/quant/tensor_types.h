/* Types that the caller chooses for tensors by their names, in place of the mixture's. */
#ifndef GA_QUANT_TENSOR_TYPES_H
#define GA_QUANT_TENSOR_TYPES_H

#include "base/mem.h"
#include "ga/quantize.h"

typedef struct tensor_type {
  const char *pattern; /* pattern of fnmatch(3) */
  ga_dtype type;
  bool is_used; /* the pattern has matched a tensor */
} tensor_type;

typedef struct tensor_types {
  tensor_type *item;
  int32_t n;
} tensor_types;

/* Reads texts PATTERN=TYPE. GA_ERR_ARG: a text has another form or an unknown type; the error text quotes it and lists
 * the known types. */
GA_NODISCARD ga_status tensor_types_read(ga_arena *arena, const char *const *texts, int32_t n, tensor_types *out);
/* Returns the type of the first pattern that matches the tensor. A pattern matches the whole name, the name without
 * ".weight", or the part between "blk.N." and ".weight". GA_DTYPE_NONE: none matches. */
ga_dtype tensor_types_find(const tensor_types *types, const char *name);
/* Checks that every pattern matched a matrix. GA_ERR_ARG: a pattern matched none; the error text has the pattern. */
GA_NODISCARD ga_status tensor_types_all_used(const tensor_types *types);

#endif
