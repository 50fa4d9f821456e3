#include "ga/tensor.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

static const ga_dtype_traits traits[] = {
    [GA_F32] = {"f32", 1, 4, false},
    [GA_F16] = {"f16", 1, 2, false},
    [GA_BF16] = {"bf16", 1, 2, false},
    [GA_F64] = {"f64", 1, 8, false},
    [GA_I8] = {"i8", 1, 1, false},
    [GA_I16] = {"i16", 1, 2, false},
    [GA_I32] = {"i32", 1, 4, false},
    [GA_I64] = {"i64", 1, 8, false},
    [GA_U8] = {"u8", 1, 1, false},
    [GA_E4M3] = {"e4m3", 1, 1, false},
    [GA_E5M2] = {"e5m2", 1, 1, false},
    [GA_Q4_0] = {"q4_0", 32, 18, true},
    [GA_Q4_1] = {"q4_1", 32, 20, true},
    [GA_Q5_0] = {"q5_0", 32, 22, true},
    [GA_Q5_1] = {"q5_1", 32, 24, true},
    [GA_Q8_0] = {"q8_0", 32, 34, true},
    [GA_Q2_K] = {"q2_k", 256, 84, true},
    [GA_Q3_K] = {"q3_k", 256, 110, true},
    [GA_Q4_K] = {"q4_k", 256, 144, true},
    [GA_Q5_K] = {"q5_k", 256, 176, true},
    [GA_Q6_K] = {"q6_k", 256, 210, true},
    [GA_IQ4_NL] = {"iq4_nl", 32, 18, true},
    [GA_IQ4_XS] = {"iq4_xs", 256, 136, true},
    [GA_MXFP4] = {"mxfp4", 32, 17, true},
    [GA_NVFP4] = {"nvfp4", 64, 36, true},
    [GA_IQ2_XXS] = {"iq2_xxs", 256, 66, true},
    [GA_IQ2_XS] = {"iq2_xs", 256, 74, true},
    [GA_IQ2_S] = {"iq2_s", 256, 82, true},
    [GA_IQ3_XXS] = {"iq3_xxs", 256, 98, true},
    [GA_IQ3_S] = {"iq3_s", 256, 110, true},
    [GA_TQ1_0] = {"tq1_0", 256, 54, true},
    [GA_TQ2_0] = {"tq2_0", 256, 66, true},
    [GA_E4M3_128] = {"e4m3_128", 128, 132, true},
};

const ga_dtype_traits *ga_dtype_info(ga_dtype dtype) {
  size_t i = (size_t)dtype;
  return i < GA_COUNT_OF(traits) && traits[i].name ? &traits[i] : NULL;
}

const char *ga_dtype_name(ga_dtype dtype) {
  const ga_dtype_traits *t = ga_dtype_info(dtype);
  return t ? t->name : "none";
}

bool ga_dtype_is_read_only(ga_dtype dtype) { return dtype >= GA_IQ2_XXS && dtype <= GA_TQ2_0; }

/* In ASCII: strcasecmp follows the host's locale, in Turkish ones "I" is not "i". */
static bool same_name(const char *a, const char *b) {
  for (;; a++, b++) {
    const int x = *a >= 'A' && *a <= 'Z' ? *a | 32 : *a, y = *b >= 'A' && *b <= 'Z' ? *b | 32 : *b;
    if (x != y || !x) return x == y;
  }
}

ga_dtype ga_dtype_from_name(const char *name) {
  for (size_t i = 0; i < GA_COUNT_OF(traits); i++)
    if (traits[i].name && same_name(traits[i].name, name)) return (ga_dtype)i;
  return GA_DTYPE_NONE;
}

ga_status ga_dtype_bytes(ga_dtype dtype, int64_t elems, uint64_t *bytes) {
  const ga_dtype_traits *t = ga_dtype_info(dtype);
  GA_REQUIRE(t, GA_ERR_DTYPE, "dtype: %d is no element type", (int)dtype);
  GA_REQUIRE(elems >= 0 && elems % t->block_elems == 0, GA_ERR_SHAPE,
             "%s: %lld elements; must be a non-negative multiple of %d", t->name, (long long)elems, t->block_elems);
  GA_REQUIRE(ga_mul_ok((uint64_t)(elems / t->block_elems), (uint64_t)t->block_bytes, bytes), GA_ERR_SHAPE,
             "%s: %lld elements do not fit in 64 bits", t->name, (long long)elems);
  return GA_OK;
}

ga_tensor ga_tensor_make(void *data, ga_dtype dtype, int32_t n_dims, const int64_t *dims) {
  ga_tensor t = {.data = data, .dtype = dtype, .n_dims = n_dims};
  int64_t stride = 1;
  for (int i = n_dims - 1; i >= 0; i--) {
    t.dim[i] = dims[i];
    t.stride[i] = stride;
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
  return t;
}

ga_status ga_tensor_bytes(const ga_tensor *tensor, uint64_t *bytes) {
  GA_REQUIRE(tensor->n_dims >= 0 && tensor->n_dims <= GA_MAX_DIMS, GA_ERR_SHAPE, "tensor: %d dimensions; at most %d",
             tensor->n_dims, GA_MAX_DIMS);
  uint64_t elems = 1;
  for (int i = 0; i < tensor->n_dims; i++) {
    GA_REQUIRE(tensor->dim[i] >= 0 && ga_mul_ok(elems, (uint64_t)tensor->dim[i], &elems) && elems <= INT64_MAX,
               GA_ERR_SHAPE, "tensor: dimension %d is %lld", i, (long long)tensor->dim[i]);
  }
  const ga_dtype_traits *t = ga_dtype_info(tensor->dtype);
  if (t && tensor->n_dims > 0)
    GA_REQUIRE(tensor->dim[tensor->n_dims - 1] % t->block_elems == 0, GA_ERR_SHAPE,
               "%s tensor: rows of %lld; must be a multiple of %d", t->name, (long long)tensor->dim[tensor->n_dims - 1],
               t->block_elems);
  return ga_dtype_bytes(tensor->dtype, (int64_t)elems, bytes);
}
