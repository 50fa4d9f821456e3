/* The library NCCL, loaded at run time if messages between ranks use it. Values are from NCCL's user guide and nccl.h,
 * 2.17 and newer. */
#ifndef GA_CUDA_RT_NCCL_H
#define GA_CUDA_RT_NCCL_H

#include <limits.h>

#include "core/device.h"
#include "cuda/rt/driver.h"

typedef int ncclResult_t;
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_INT8 = 0 };
#define NCCL_OLDEST 21700 /* 2.17.0, the version that has the ncclConfig below. Older versions are refused. */
#define NCCL_ABOVE  30000 /* 3.0.0. This version and newer ones are refused. */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclUniqueId {
  char bytes[GA_LINK_ID_BYTES];
} ncclUniqueId;

/* ncclConfig_t of version 2.17. Newer versions accept it, because it states its size and version. */
typedef struct ncclConfig {
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
} ncclConfig;
#define NCCL_MAGIC     0xcafebeefu
#define NCCL_UNDEFINED INT_MIN
#define NCCL_CONFIG_INIT \
  { sizeof(ncclConfig), NCCL_MAGIC, NCCL_OLDEST, 0, NCCL_UNDEFINED, NCCL_UNDEFINED, NCCL_UNDEFINED, NULL }

/* GA_NCCL_SYMBOLS lists NCCL's functions as X(name, parameters). In the library a function's name is nccl<name>. */
/* clang-format off */
#define GA_NCCL_SYMBOLS(X) \
  X(GetVersion, (int *version)) \
  X(GetUniqueId, (ncclUniqueId *id)) \
  X(CommInitRankConfig, (ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig *config)) \
  X(CommFinalize, (ncclComm_t comm)) \
  X(CommDestroy, (ncclComm_t comm)) \
  X(CommAbort, (ncclComm_t comm)) \
  X(CommGetAsyncError, (ncclComm_t comm, ncclResult_t *state)) \
  X(GroupStart, (void)) \
  X(GroupEnd, (void)) \
  X(Send, (const void *data, size_t n, int type, int peer, ncclComm_t comm, CUstream stream)) \
  X(Recv, (void *data, size_t n, int type, int peer, ncclComm_t comm, CUstream stream))
/* clang-format on */

typedef struct ga_nccl {
#define X(name, params) ncclResult_t(*name) params;
  GA_NCCL_SYMBOLS(X)
#undef X
  const char *(*GetErrorString)(ncclResult_t rc);
  const char *(*GetLastError)(ncclComm_t comm);
  int version; /* Version of the library: 22803 is 2.28.3. */
} ga_nccl;

/* Sets *out to NCCL's functions, which are loaded on first use from $GA_NCCL or as libnccl.so.2. Later calls return the
 * same result.
 *
 * Returns GA_ERR_UNSUPPORTED if the library is not found, has an unknown version, or lacks a function. The error text
 * says which, and names the file. */
GA_NODISCARD ga_status ga_nccl_load(const ga_nccl **out);
/* Writes a version as text: 22803 is "2.28.3", 2804 is "2.8.4". */
void ga_nccl_version_text(int version, char text[16]);

/* Functions of the facet ga_link_library (core/facets.h). */
ga_status cuda_link_load(ga_device *device, ga_link_facts *out);
ga_status cuda_link_id(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]);
ga_status cuda_link_open(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                         const ga_patience *patience, ga_link **out);
ga_status cuda_link_exchange(ga_link *link, ga_stream *stream, const ga_link_message *messages, int64_t n,
                             const ga_patience *patience);
ga_status cuda_link_check(ga_link *link);
void cuda_link_abort(ga_link *link);
void cuda_link_close(ga_link *link);

#endif
