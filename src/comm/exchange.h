/* Messages from device memory to device memory, between devices that do not map each other's memory. */
#ifndef GA_COMM_EXCHANGE_H
#define GA_COMM_EXCHANGE_H

#include "comm/copies.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "core/device.h"

typedef struct dist_exchange dist_exchange;

/* Creates a rank's exchange of messages between devices. All ranks call it. copies is DIST_COPIES_HOST or
 * DIST_COPIES_LINK. own is a callback that returns GA_ERR_TIMEOUT if the rank's own streams no longer advance. It is
 * called when no message has arrived within the communicator's timeout. own may be NULL: a wait then fails when that
 * timeout has passed. */
GA_NODISCARD ga_status dist_exchange_create(ga_ctx *ctx, ga_comm *comm, dist_copies copies, const ga_patience *own,
                                            dist_exchange **out);
/* Returns how many copies of messages the host has seen end. The number grows as long as messages advance. */
uint64_t dist_exchange_moves(const dist_exchange *x);
/* Returns the error of a message in flight, or GA_OK if there is none. Does not wait. */
GA_NODISCARD ga_status dist_exchange_check(dist_exchange *x);
/* Makes streams stop waiting for messages, after the communicator has ended. */
void dist_exchange_abort(dist_exchange *x);
/* Frees the exchange. None of its work or messages may be in flight: all runs have ended, or the communicator has. NULL
 * is accepted. */
void dist_exchange_destroy(dist_exchange *x);

/* Enqueues the sends and receives of one round on `stream`. They start after the stream's earlier work, and its later
 * work starts after them. Each rank that has messages of the round calls it. Messages between two ranks must be listed
 * in the same order on both sides. */
GA_NODISCARD ga_status dist_exchange_run(dist_exchange *x, ga_stream *stream, const ga_link_message *messages,
                                         int64_t n);

/* Position of the next chunk in a list of messages: index of the message, and offset in the message in bytes. */
typedef struct dist_cursor {
  int64_t message;
  size_t offset;
} dist_cursor;
/* Sets *data and *bytes to the next chunk, of at most `chunk` bytes, of the messages to `peer` (is_send) or from
 * `peer`. Moves *at past the chunk. Returns false when no chunk is left. */
bool dist_next_chunk(dist_cursor *at, const ga_link_message *messages, int64_t n, int32_t peer, bool is_send,
                     size_t chunk, void **data, size_t *bytes);

/* Sets the size in bytes of the chunks in which messages are sent, the same on all ranks. Only tests use it. 0: the
 * number of ranks determines the size. Not thread-safe. */
void dist_exchange_cut(size_t chunk);

#endif
