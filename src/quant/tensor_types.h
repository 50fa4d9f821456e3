/* Types that the caller gives to tensors by their names, before the mixture is asked. */
#ifndef GA_QUANT_TENSOR_TYPES_H
#define GA_QUANT_TENSOR_TYPES_H

#include "base/mem.h"
#include "ga/quantize.h"

typedef struct tensor_type {
  const char *pattern; /* of fnmatch(3) */
  ga_dtype type;
  bool is_used; /* some tensor has it */
} tensor_type;

typedef struct tensor_types {
  tensor_type *item;
  int32_t n;
} tensor_types;

/* From texts PATTERN=TYPE. GA_ERR_ARG names the one that is wrong and the types there are. */
GA_NODISCARD ga_status tensor_types_read(ga_arena *arena, const char *const *texts, int32_t n, tensor_types *out);
/* The type of the first pattern that fits the whole name, the name without ".weight", or what is between "blk.N." and
 * ".weight". GA_DTYPE_NONE: none fits. */
ga_dtype tensor_types_find(const tensor_types *types, const char *name);
/* GA_ERR_ARG names a pattern that fitted no matrix. */
GA_NODISCARD ga_status tensor_types_all_used(const tensor_types *types);

#endif
