#include "opdef/shape.h"

#include "ga/tensor.h"

double opdef_elem_bytes(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t ? (double)t->block_bytes / t->block_elems : 4;
}

const char *opdef_to_word(int32_t from, int32_t to) { return to == from ? "" : " to "; }
const char *opdef_to_type(int32_t from, int32_t to) { return to == from ? "" : ga_dtype_name((ga_dtype)to); }
