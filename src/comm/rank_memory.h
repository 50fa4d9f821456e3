/* Memory of each rank's device that the other ranks write to, where the devices can access each other. */
#ifndef GA_COMM_RANK_MEMORY_H
#define GA_COMM_RANK_MEMORY_H

#include "comm/copies.h"
#include "core/comm.h"
#include "core/device.h"

enum { DIST_WHY_HOST = 400 };

typedef struct dist_rank_memory {
  ga_comm *comm;
  ga_device *device;
  /* Memory of each rank, [ranks]. Unless copies is DIST_COPIES_PEER, only the rank's own entry has memory. */
  ga_shared *of;
  dist_copies copies;           /* Kind of copies that is used, never DIST_COPIES_AUTO. */
  char why_host[DIST_WHY_HOST]; /* With DIST_COPIES_HOST: the reason why copies are not DIST_COPIES_PEER. */
} dist_rank_memory;

/* Allocates `bytes` zeroed bytes of the rank's own device memory and maps the memory of the other ranks. All ranks call
 * it, and get the same kind of copies. If `wanted` is DIST_COPIES_AUTO and peer access is impossible, the log gives the
 * reason once per process. Call dist_rank_memory_close also after a failure. */
GA_NODISCARD ga_status dist_rank_memory_open(ga_comm *comm, ga_device *device, size_t bytes, dist_copies wanted,
                                             dist_rank_memory *m);
/* Unmaps and frees the memory. No stream of any rank may still use it. */
void dist_rank_memory_close(dist_rank_memory *m);

#endif
