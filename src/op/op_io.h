/* Versions of the arguments of ops: docs/adr/0003-growing-structs.md.
 *
 * An io has no size of its own. It grows only where its description grows too, so that the description's size says
 * which io a caller has. */
#ifndef GA_OP_OP_IO_H
#define GA_OP_OP_IO_H

#include "base/status.h"
#include "core/kernel.h"
#include "opdef/ops.h"

/* From this size of the description on, the io has that many bytes. */
typedef struct ga_io_version {
  ga_op op;
  uint32_t desc_bytes, io_bytes;
} ga_io_version;

typedef struct ga_io_versions {
  const ga_io_version *rows; /* of one op: oldest first */
  size_t n;
} ga_io_versions;

/* Every version of every op. Append-only: an io that grows gets a row more behind its op's last. */
extern const ga_io_versions ga_io_all;

/* Bytes of the io that comes with a description of desc_bytes; 0 when there is none. */
size_t ga_io_bytes(const ga_io_versions *versions, ga_op op, size_t desc_bytes);

/* *full of `bytes` = the caller's io, which comes with a description of desc_bytes, and zeros. */
GA_NODISCARD ga_status ga_io_take(const ga_io_versions *versions, ga_op op, size_t desc_bytes, const void *io,
                                  void *full, size_t bytes);

#endif
