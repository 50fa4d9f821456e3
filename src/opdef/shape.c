#include "opdef/shape.h"

#include <stdio.h>

#include "ga/tensor.h"

double opdef_elem_bytes(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t ? (double)t->block_bytes / t->block_elems : 4;
}

static const char *to_word(int32_t from, int32_t to) { return to == from ? "" : " to "; }
static const char *to_type(int32_t from, int32_t to) { return to == from ? "" : ga_dtype_name((ga_dtype)to); }

void opdef_put_matrix(char *text, size_t capacity, int64_t rows, int64_t width, int32_t from, int32_t to) {
  (void)snprintf(text, capacity, "%lld x %lld %s%s%s", (long long)rows, (long long)width, ga_dtype_name((ga_dtype)from),
                 to_word(from, to), to_type(from, to));
}

void opdef_put_heads(char *text, size_t capacity, int64_t tokens, int32_t heads, int32_t dim, int32_t from,
                     int32_t to) {
  (void)snprintf(text, capacity, "%lld tokens, %d heads of %d, %s%s%s", (long long)tokens, heads, dim,
                 ga_dtype_name((ga_dtype)from), to_word(from, to), to_type(from, to));
}
