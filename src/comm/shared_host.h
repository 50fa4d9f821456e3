/* Messages between devices through page-locked host memory that both ranks map. The ranks are on one host. The sender's
 * device writes the memory and the receiver's device reads it, without a copy by a CPU. */
#ifndef GA_COMM_SHARED_HOST_H
#define GA_COMM_SHARED_HOST_H

#include "comm/exchange.h"

typedef struct dist_shared dist_shared;

/* Allocates and maps the host memory for messages. All ranks call it. If a rank cannot, *out is NULL on all ranks, and
 * *can is the status of that rank, with its text. asked is the size of a chunk in bytes, the same on all ranks; 0: the
 * number of ranks determines it. */
GA_NODISCARD ga_status dist_shared_create(ga_ctx *ctx, ga_comm *comm, size_t asked, dist_shared **out, ga_status *can);
/* Frees the host memory. No copy may be in flight. NULL is accepted. */
void dist_shared_destroy(dist_shared *x);
/* Enqueues the sends of `messages` on `stream` and the receives on `arrivals`, each after the stream's earlier work.
 * Returns when all are done. own: the callback own->ask returns GA_ERR_TIMEOUT if the rank's own streams no longer
 * advance; own->ask may be NULL. */
GA_NODISCARD ga_status dist_shared_run(dist_shared *x, ga_stream *stream, ga_stream *arrivals,
                                       const ga_link_message *messages, int64_t n, const ga_patience *own);
/* Returns the number of copies of messages that have ended so far. */
uint64_t dist_shared_moves(const dist_shared *x);

#endif
