/* Versions of ops' io structs, which have the pointers of a call: docs/adr/0003-growing-structs.md.
 *
 * An io struct has no field for its size. It grows only together with the op's description, so the size of the
 * description determines the version of the io. */
#ifndef GA_OP_OP_IO_H
#define GA_OP_OP_IO_H

#include "base/status.h"
#include "core/kernel.h"
#include "opdef/ops.h"

/* One version of an op's io: io_bytes is its size for descriptions of desc_bytes or more. */
typedef struct ga_io_version {
  ga_op op;
  uint32_t desc_bytes, io_bytes;
} ga_io_version;

typedef struct ga_io_versions {
  const ga_io_version *rows; /* [n] versions; the versions of an op are in order, the oldest first */
  size_t n;
} ga_io_versions;

/* Every version of every op's io. Append-only: when an io grows, src/op/<op>.toml gets another version after the
 * last. */
extern const ga_io_versions ga_io_all;

/* Returns the size of the io that belongs to a description of desc_bytes bytes; 0: there is no such version. */
size_t ga_io_bytes(const ga_io_versions *versions, ga_op op, size_t desc_bytes);

/* Copies the caller's io, whose description has desc_bytes bytes, to *full, which has `bytes` bytes. The rest of *full
 * becomes 0. */
GA_NODISCARD ga_status ga_io_take(const ga_io_versions *versions, ga_op op, size_t desc_bytes, const void *io,
                                  void *full, size_t bytes);

#endif
