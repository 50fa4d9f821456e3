#include "base/sized.h"

#include <string.h>

static size_t size_of(const void *sized) {
  size_t n;
  memcpy(&n, sized, sizeof n);
  return n;
}

ga_status ga_sized_take(const char *what, const void *given, size_t first, void *full, size_t bytes) {
  const size_t size = size_of(given), known = size < bytes ? size : bytes;
  GA_REQUIRE(size >= first && size <= GA_SIZED_MAX_BYTES, GA_ERR_ARG,
             "%s.struct_size is %zu; must be %zu to %zu, or at most %d with zeros behind: use the INIT macro", what,
             size, first, bytes, GA_SIZED_MAX_BYTES);
  const unsigned char *from = given;
  for (size_t i = bytes; i < size; i++)
    GA_REQUIRE(from[i] == 0, GA_ERR_ARG,
               "%s.struct_size is %zu and byte %zu is not 0: that field is newer than this library (%s), which takes "
               "%zu to %zu bytes, or zeros behind them",
               what, size, i, ga_version(), first, bytes);
  memcpy(full, given, known);
  memset((unsigned char *)full + known, 0, bytes - known);
  memcpy(full, &known, sizeof known);
  return GA_OK;
}

ga_status ga_sized_check_out(const char *what, const void *out, size_t first) {
  const size_t size = size_of(out);
  GA_REQUIRE(size >= first && size <= GA_SIZED_MAX_BYTES, GA_ERR_ARG,
             "%s.struct_size is %zu; must be %zu to %d: use the INIT macro", what, size, first, GA_SIZED_MAX_BYTES);
  return GA_OK;
}

void ga_sized_give(const void *full, size_t bytes, void *out) {
  const size_t size = size_of(out), known = size < bytes ? size : bytes;
  memcpy((unsigned char *)out + sizeof size, (const unsigned char *)full + sizeof size, known - sizeof size);
  memset((unsigned char *)out + known, 0, size - known);
}
