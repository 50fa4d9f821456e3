#include "base/compiler.h"
#include "file/gguf.h"

/* Numbers 4, 5, 31 to 33 and 36 to 38 were types once and are refused by all readers. */
/* clang-format off */
static const struct {
  const char *name;
  ga_dtype dtype;
} gguf_types[] = {
    /* clang-format off */
    [0] = {"F32", GA_F32}, [1] = {"F16", GA_F16}, [2] = {"Q4_0", GA_Q4_0}, [3] = {"Q4_1", GA_Q4_1},
    [6] = {"Q5_0", GA_Q5_0}, [7] = {"Q5_1", GA_Q5_1}, [8] = {"Q8_0", GA_Q8_0}, [9] = {"Q8_1", GA_DTYPE_NONE},
    [10] = {"Q2_K", GA_Q2_K}, [11] = {"Q3_K", GA_Q3_K}, [12] = {"Q4_K", GA_Q4_K}, [13] = {"Q5_K", GA_Q5_K},
    [14] = {"Q6_K", GA_Q6_K}, [15] = {"Q8_K", 0}, [16] = {"IQ2_XXS", GA_IQ2_XXS}, [17] = {"IQ2_XS", GA_IQ2_XS},
    [18] = {"IQ3_XXS", GA_IQ3_XXS}, [19] = {"IQ1_S", 0}, [20] = {"IQ4_NL", GA_IQ4_NL}, [21] = {"IQ3_S", GA_IQ3_S},
    [22] = {"IQ2_S", GA_IQ2_S}, [23] = {"IQ4_XS", GA_IQ4_XS}, [24] = {"I8", GA_I8}, [25] = {"I16", GA_I16},
    [26] = {"I32", GA_I32}, [27] = {"I64", GA_I64}, [28] = {"F64", GA_F64}, [29] = {"IQ1_M", 0},
    [30] = {"BF16", GA_BF16}, [34] = {"TQ1_0", GA_TQ1_0}, [35] = {"TQ2_0", GA_TQ2_0}, [39] = {"MXFP4", GA_MXFP4},
    [40] = {"NVFP4", GA_NVFP4}, [41] = {"Q1_0", 0}, [42] = {"Q2_0", 0},
    /* clang-format on */
};
/* clang-format on */

int32_t ga_gguf_type_of(ga_dtype dtype) {
  for (size_t i = 0; i < GA_COUNT_OF(gguf_types); i++)
    if (dtype != GA_DTYPE_NONE && gguf_types[i].dtype == dtype) return (int32_t)i;
  return -1;
}

ga_dtype ga_gguf_dtype(uint32_t type) {
  return type < GA_COUNT_OF(gguf_types) ? gguf_types[type].dtype : GA_DTYPE_NONE;
}

const char *ga_gguf_type_name(uint32_t type) {
  return type < GA_COUNT_OF(gguf_types) && gguf_types[type].name ? gguf_types[type].name : "unknown";
}
