/* Messages between devices that do not map each other's memory: from device memory to device memory. */
#ifndef GA_DIST_EXCHANGE_H
#define GA_DIST_EXCHANGE_H

#include "core/ctx.h"
#include "dist/comm.h"

typedef struct dist_exchange dist_exchange;

/* All ranks call it. */
GA_NODISCARD ga_status dist_exchange_create(ga_ctx *ctx, ga_comm *comm, dist_exchange **out);
/* No work of it is under way, and no message: its communicator has ended, or all runs have. NULL is fine. */
void dist_exchange_destroy(dist_exchange *x);

typedef struct dist_message {
  int32_t peer;
  bool is_send;
  void *data; /* of the device, of so many bytes */
  size_t bytes;
} dist_message;

/* Sends and receives of a round, behind the work of the stream; what the stream gets next is behind them. Each rank
 * that has messages of the round calls it, with those of two ranks in one order on both sides. */
GA_NODISCARD ga_status dist_exchange_run(dist_exchange *x, ga_stream *stream, const dist_message *messages, int64_t n);

/* For tests: bytes of a chunk, the same on all ranks; 0 = by the number of ranks. Not thread-safe. */
void dist_exchange_cut(size_t chunk);

#endif
