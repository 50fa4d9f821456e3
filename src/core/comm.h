/* The interface of communicators: a small table of functions. Transports (src/comm) provide it; the kernels of
 * collectives and the executors of distributed attention call it. Each rank counts its sends to a peer, and its
 * receives from it, in the order of the calls. The k-th send of one rank is the k-th receive of the other, in
 * whatever order messages arrive. */
#ifndef GA_CORE_COMM_H
#define GA_CORE_COMM_H

#include "ga/comm.h"

typedef struct comm_ticket {
  int32_t peer;
  bool is_send;
  uint64_t turn;
} comm_ticket;

/* A rank's announcement of a collective. All ranks receive those of the others before any reads an array. */
typedef struct comm_call {
  int64_t n; /* elements of the description */
  int32_t op, dtype;
  const void *x, *workspace; /* with GA_COMM_SAME_MEMORY */
  uint64_t trade;            /* the number of this call of trade_calls on its rank, set by the transport */
} comm_call;

typedef struct comm_vtable {
  /* Begin a message and return. data must stay valid, and the sender's unchanged, until the ticket has been waited for.
   * Each ticket must be waited for once. */
  ga_status (*send)(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*receive)(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*wait)(ga_comm *comm, const comm_ticket *ticket);
  ga_status (*meet)(ga_comm *comm, const char *what, uint64_t value);
  ga_status (*check)(ga_comm *comm); /* does not wait: the error when the communicator has ended */
  /* Ends the communicator: no message reads or writes memory once it has returned. Other ranks get GA_ERR_TIMEOUT if
   * status is that, else GA_ERR_COMM. */
  void (*abort)(ga_comm *comm, ga_status status, const char *why);
  void (*destroy)(ga_comm *comm);
  /* Exchanges file descriptors; all ranks call it. fds[ranks] become descriptors of the files that the ranks gave,
   * which the caller closes, also after an error; -1 = none, as for the rank itself. GA_ERR_UNSUPPORTED on all ranks
   * if they are on several hosts; the communicator stays usable. */
  ga_status (*trade_fds)(ga_comm *comm, int fd, int *fds);
  /* --- NULL without GA_COMM_SAME_MEMORY --- */
  /* Exchanges the ranks' announcements; all ranks call it, and each waits for the others. calls[ranks]: one of each. */
  ga_status (*trade_calls)(ga_comm *comm, const comm_call *mine, comm_call *calls);
  /* Between begin and end this rank may read the arrays that other ranks announced. begin fails when the communicator
   * has ended. */
  ga_status (*begin_reading)(ga_comm *comm);
  void (*end_reading)(ga_comm *comm);
  /* After an error: returns when no rank reads any more, so that announced arrays may be freed. */
  void (*await_readers)(ga_comm *comm);
} comm_vtable;

struct ga_comm {
  const comm_vtable *calls;
  int32_t rank, size;
  double timeout; /* seconds */
  uint32_t reach; /* ga_comm_reaches */
};

/* Compares the announcements of all ranks. GA_ERR_COMM if two differ, with a text, the same on all ranks, that names
 * two of them and their values. */
GA_NODISCARD ga_status comm_compare_calls(const comm_call *calls, int32_t ranks);

/* One rank's messages in an exchange: bytes that go to it, and bytes that come from it. */
typedef struct comm_trade {
  const void *give;
  void *take;
  size_t give_bytes, take_bytes;
} comm_trade;

/* Exchanges messages with all other ranks, and waits for them: trades[r] with rank r; the rank's own entry is
 * ignored. tickets: memory for 2 x ranks. After an error the communicator has ended, and no message uses the memory
 * of trades. */
GA_NODISCARD ga_status ga_comm_exchange(ga_comm *comm, const comm_trade *trades, comm_ticket *tickets);

#endif
