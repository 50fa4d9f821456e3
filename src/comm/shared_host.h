/* Messages through page-locked host memory that two ranks of one host map: the sender's device writes it, the
 * receiver's reads it, and no processor copies. */
#ifndef GA_COMM_SHARED_HOST_H
#define GA_COMM_SHARED_HOST_H

#include "comm/exchange.h"

typedef struct dist_shared dist_shared;

/* Allocates and maps the memory. All ranks call it. If some rank cannot, *out is NULL on all, and *can is that rank's
 * status, with its text. asked: bytes of a chunk, the same on all ranks; 0: chosen by the number of ranks. */
GA_NODISCARD ga_status dist_shared_create(ga_ctx *ctx, ga_comm *comm, size_t asked, dist_shared **out, ga_status *can);
/* Frees the memory. No copy may be in flight. NULL is fine. */
void dist_shared_destroy(dist_shared *x);
/* Enqueues sends on `stream` and receives on `arrivals`, after the earlier work of each. Returns when all are done.
 * own: as in dist_exchange_create; its ask may be NULL. */
GA_NODISCARD ga_status dist_shared_run(dist_shared *x, ga_stream *stream, ga_stream *arrivals,
                                       const ga_link_message *messages, int64_t n, const ga_patience *own);
/* Returns the number of copies that have ended so far. */
uint64_t dist_shared_moves(const dist_shared *x);

#endif
