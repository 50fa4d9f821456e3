#include "op/op_io.h"

#include <string.h>

/* The versions that src/op/<op>.toml lists. */
static const ga_io_version rows[] = {
#define X(op, desc_bytes, io_bytes) {GA_OP_##op, desc_bytes, io_bytes},
    GA_IO_VERSIONS(X)
#undef X
};

const ga_io_versions ga_io_all = {rows, GA_COUNT_OF(rows)};

size_t ga_io_bytes(const ga_io_versions *versions, ga_op op, size_t desc_bytes) {
  size_t bytes = 0;
  for (size_t i = 0; i < versions->n; i++)
    if (versions->rows[i].op == op && versions->rows[i].desc_bytes <= desc_bytes) bytes = versions->rows[i].io_bytes;
  return bytes;
}

ga_status ga_io_take(const ga_io_versions *versions, ga_op op, size_t desc_bytes, const void *io, void *full,
                     size_t bytes) {
  const size_t known = ga_io_bytes(versions, op, desc_bytes);
  GA_REQUIRE(known && known <= bytes, GA_ERR_INTERNAL, "%s: an io of %zu bytes for a description of %zu",
             ga_op_name(op), known, desc_bytes);
  memcpy(full, io, known);
  memset((unsigned char *)full + known, 0, bytes - known);
  return GA_OK;
}
