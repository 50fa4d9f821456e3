/* Messages between devices that do not map each other's memory: from device memory to device memory. */
#ifndef GA_COMM_EXCHANGE_H
#define GA_COMM_EXCHANGE_H

#include "comm/copies.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "core/device.h"

typedef struct dist_exchange dist_exchange;

/* All ranks call it. copies: HOST or LINK. own: says GA_ERR_TIMEOUT where the rank's own streams come no further. It is
 * asked when no message has come for the communicator's timeout, which is that of a wait for others. NULL: at once. */
GA_NODISCARD ga_status dist_exchange_create(ga_ctx *ctx, ga_comm *comm, dist_copies copies, const ga_patience *own,
                                            dist_exchange **out);
/* Grows with each copy of a message that ends, where the host sees that. */
uint64_t dist_exchange_moves(const dist_exchange *x);
/* Does not wait: an error of messages under way. */
GA_NODISCARD ga_status dist_exchange_check(dist_exchange *x);
/* The communicator has ended: streams wait for no message any more. */
void dist_exchange_abort(dist_exchange *x);
/* No work of it is under way, and no message: its communicator has ended, or all runs have. NULL is fine. */
void dist_exchange_destroy(dist_exchange *x);

/* Enqueues the sends and receives of a round: they run after the stream's earlier work, and its later work after
 * them. Each rank that has messages of the round calls it, with those of two ranks in one order on both sides. */
GA_NODISCARD ga_status dist_exchange_run(dist_exchange *x, ga_stream *stream, const ga_link_message *messages,
                                         int64_t n);

/* Where a rank's next chunk to or from another one begins. */
typedef struct dist_cursor {
  int64_t message;
  size_t offset;
} dist_cursor;
/* The next part of messages of one direction, of at most `chunk` bytes. False: there is none. */
bool dist_next_chunk(dist_cursor *at, const ga_link_message *messages, int64_t n, int32_t peer, bool is_send,
                     size_t chunk, void **data, size_t *bytes);

/* For tests: bytes of a chunk, the same on all ranks; 0 = by the number of ranks. Not thread-safe. */
void dist_exchange_cut(size_t chunk);

#endif
