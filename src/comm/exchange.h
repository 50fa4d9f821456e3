/* Messages between devices that do not map each other's memory, from device memory to device memory. */
#ifndef GA_COMM_EXCHANGE_H
#define GA_COMM_EXCHANGE_H

#include "comm/copies.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "core/device.h"

typedef struct dist_exchange dist_exchange;

/* Creates a rank's exchange of messages between devices. All ranks call it. copies is HOST or LINK. own is a callback
 * that returns GA_ERR_TIMEOUT if the rank's own streams no longer advance. It is called when no message has arrived
 * within the communicator's timeout. NULL: a wait fails when that timeout has passed. */
GA_NODISCARD ga_status dist_exchange_create(ga_ctx *ctx, ga_comm *comm, dist_copies copies, const ga_patience *own,
                                            dist_exchange **out);
/* Returns the number of copies of messages that the host has seen complete. It shows whether messages advance. */
uint64_t dist_exchange_moves(const dist_exchange *x);
/* Returns an error of a message in flight, or GA_OK. It does not wait. */
GA_NODISCARD ga_status dist_exchange_check(dist_exchange *x);
/* Makes streams stop waiting for messages, after the communicator has ended. */
void dist_exchange_abort(dist_exchange *x);
/* Frees the exchange. None of its work or messages may be in flight: all runs, or its communicator, have ended. NULL is
 * accepted. */
void dist_exchange_destroy(dist_exchange *x);

/* Enqueues the sends and receives of a round. They start after the stream's earlier work, and its later work starts
 * after them. Each rank that has messages of the round calls it. Messages of two ranks must be in the same order on
 * both sides. */
GA_NODISCARD ga_status dist_exchange_run(dist_exchange *x, ga_stream *stream, const ga_link_message *messages,
                                         int64_t n);

/* Position of the next chunk of the messages to or from a rank: index of the message, and offset in it in bytes. */
typedef struct dist_cursor {
  int64_t message;
  size_t offset;
} dist_cursor;
/* Sets *data and *bytes to the next part, of at most `chunk` bytes, of the messages to (is_send) or from `peer`, and
 * moves *at. Returns false when there is none. */
bool dist_next_chunk(dist_cursor *at, const ga_link_message *messages, int64_t n, int32_t peer, bool is_send,
                     size_t chunk, void **data, size_t *bytes);

/* Sets the bytes of a chunk, the same on all ranks, for tests. 0: the number of ranks determines it. Not
 * thread-safe. */
void dist_exchange_cut(size_t chunk);

#endif
