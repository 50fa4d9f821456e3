/* Messages through page-locked host memory that two ranks of one host map: the sender's device writes it, the
 * receiver's reads it, and no processor copies. */
#ifndef GA_COMM_SHARED_HOST_H
#define GA_COMM_SHARED_HOST_H

#include "comm/exchange.h"

typedef struct dist_shared dist_shared;

/* All ranks call it. *out is NULL on all of them where some rank cannot: *can is its status then, with its text. asked:
 * bytes of a chunk, the same on all ranks; 0 = by their number. */
GA_NODISCARD ga_status dist_shared_create(ga_ctx *ctx, ga_comm *comm, size_t asked, dist_shared **out, ga_status *can);
/* No work of it is under way. NULL is fine. */
void dist_shared_destroy(dist_shared *x);
/* Enqueues sends on `stream` and receives on `arrivals`, after the earlier work of each. Returns when all are done.
 * own: as in dist_exchange_create; its ask may be NULL. */
GA_NODISCARD ga_status dist_shared_run(dist_shared *x, ga_stream *stream, ga_stream *arrivals,
                                       const ga_link_message *messages, int64_t n, const ga_patience *own);
/* Grows with each copy that ends. */
uint64_t dist_shared_moves(const dist_shared *x);

#endif
