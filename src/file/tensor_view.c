/* Names, shapes and extents that came from a file. */
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "file/model_store.h"

/* ga_tensor_make multiplies strides unchecked, and a dimension of 0 must not hide an overflow of the others. */
static bool strides_fit(int32_t n_dims, const int64_t *dims) {
  uint64_t product = 1;
  for (int32_t i = 0; i < n_dims; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] && (!ga_mul_ok(product, (uint64_t)dims[i], &product) || product > INT64_MAX)) return false;
  }
  return true;
}

ga_status ga_tensor_describe(ga_model_tensor *tensor, ga_dtype dtype, int32_t n_dims, const int64_t *dims) {
  GA_REQUIRE(n_dims >= 0 && n_dims <= GA_MAX_DIMS, GA_ERR_UNSUPPORTED, "%d dimensions; at most %d", n_dims,
             GA_MAX_DIMS);
  GA_REQUIRE(strides_fit(n_dims, dims), GA_ERR_FORMAT, "dimensions are negative, or their product is above 2^63");
  tensor->view = ga_tensor_make(NULL, dtype, n_dims, dims);
  ga_status status = ga_tensor_bytes(&tensor->view, &tensor->bytes);
  return status == GA_ERR_SHAPE ? GA_ERR_FORMAT : status; /* a shape in a file that breaks a rule is the file's fault */
}

void ga_tensor_bind(ga_model_tensor *tensor, const uint8_t *shard_data, uint64_t offset) {
  const ga_dtype_traits *traits = ga_dtype_info(tensor->view.dtype);
  /* A block's widest field is the f16 scale, except for types whose first field is a byte. */
  uintptr_t align = traits->is_quant ? 2 : (uintptr_t)traits->block_bytes;
  tensor->offset = offset;
  tensor->view.data = (void *)(uintptr_t)(shard_data + offset);
  tensor->is_aligned = (uintptr_t)tensor->view.data % align == 0;
}

bool ga_name_is_sound(const char *name, size_t bytes, size_t most) {
  if (bytes < 1 || bytes > most) return false;
  for (size_t i = 0; i < bytes; i++)
    if (ga_text_control(name + i, bytes - i)) return false;
  return true;
}
