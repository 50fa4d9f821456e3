/* Memory of each rank's device that the others write to, where devices can. */
#ifndef GA_COMM_RANK_MEMORY_H
#define GA_COMM_RANK_MEMORY_H

#include "comm/copies.h"
#include "core/comm.h"
#include "core/device.h"

enum { DIST_WHY_HOST = 400 };

typedef struct dist_rank_memory {
  ga_comm *comm;
  ga_device *device;
  ga_shared *of;                /* [ranks]; but for PEER the own one alone has data */
  dist_copies copies;           /* not AUTO */
  char why_host[DIST_WHY_HOST]; /* of HOST */
} dist_rank_memory;

/* All ranks call it, each with the bytes of its own memory, which is zeros; they get the same copies. With AUTO a line
 * of the log says when they are not PEER, and why; once in a process. Also after a failure it is closed. */
GA_NODISCARD ga_status dist_rank_memory_open(ga_comm *comm, ga_device *device, size_t bytes, dist_copies wanted,
                                             dist_rank_memory *m);
/* No stream uses it any more, of this rank or another. */
void dist_rank_memory_close(dist_rank_memory *m);

#endif
