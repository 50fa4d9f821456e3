/* The interface of communicators: a small table of functions. Transports (src/comm) provide it; the kernels of
 * collectives and the executors of distributed attention call it. Each rank counts its sends to another rank, and its
 * receives from it, in the order of the calls. The k-th send of one rank matches the k-th receive of the other, in
 * whatever order messages arrive. */
#ifndef GA_CORE_COMM_H
#define GA_CORE_COMM_H

#include "ga/comm.h"

typedef struct comm_ticket {
  int32_t peer;
  bool is_send;
  uint64_t turn;
} comm_ticket;

/* A rank's announcement of a collective call. Each rank receives the announcements of all ranks before any rank reads
 * an array. */
typedef struct comm_call {
  /* Field n of the collective's description, a number of elements. */
  int64_t n;
  int32_t op, dtype;
  const void *x, *workspace; /* Arrays of this rank, which others may read with GA_COMM_SAME_MEMORY. */
  uint64_t trade;            /* Number of calls of trade_calls that the rank has made before. The transport sets it. */
} comm_call;

typedef struct comm_vtable {
  /* send and receive begin a message and return at once. The bytes at data must stay valid, and those of a send
   * unchanged, until the ticket has been waited for. Each ticket must be waited for once. */
  ga_status (*send)(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*receive)(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*wait)(ga_comm *comm, const comm_ticket *ticket);
  ga_status (*meet)(ga_comm *comm, const char *what, uint64_t value);
  /* Returns the error with which the communicator has ended, or GA_OK. It does not wait. */
  ga_status (*check)(ga_comm *comm);
  /* Ends the communicator: when the function returns, no message reads or writes memory any more. Other ranks get
   * GA_ERR_TIMEOUT if status is GA_ERR_TIMEOUT, otherwise GA_ERR_COMM. */
  void (*abort)(ga_comm *comm, ga_status status, const char *why);
  void (*destroy)(ga_comm *comm);
  /* Exchanges file descriptors; all ranks call it. fds[ranks] become descriptors of the files that the ranks gave. The
   * caller closes them, also after an error. fds[r] is -1 if rank r gave none, or is the calling rank.
   * GA_ERR_UNSUPPORTED on all ranks if they are on several hosts; the communicator stays usable. */
  ga_status (*trade_fds)(ga_comm *comm, int fd, int *fds);
  /* --- The functions below are NULL without GA_COMM_SAME_MEMORY. --- */
  /* Exchanges the ranks' announcements. All ranks call it, and each waits for the others. calls[r] becomes the
   * announcement of rank r. */
  ga_status (*trade_calls)(ga_comm *comm, const comm_call *mine, comm_call *calls);
  /* Between begin_reading and end_reading this rank may read the arrays that other ranks announced. begin_reading fails
   * when the communicator has ended. */
  ga_status (*begin_reading)(ga_comm *comm);
  void (*end_reading)(ga_comm *comm);
  /* Waits, after an error, until no rank reads announced arrays any more, so that they may be freed. */
  void (*await_readers)(ga_comm *comm);
} comm_vtable;

struct ga_comm {
  const comm_vtable *calls;
  int32_t rank, size;
  double timeout; /* Longest wait for other ranks, in seconds. */
  uint32_t reach; /* Abilities of the ranks besides messages, bits of ga_comm_reaches. */
};

/* Compares the announcements of all ranks. GA_ERR_COMM: two of them differ. The error text is the same on all ranks,
 * and names two ranks and their values. */
GA_NODISCARD ga_status comm_compare_calls(const comm_call *calls, int32_t ranks);

/* The messages between this rank and one other rank in an exchange: `give` is sent, `take` is received. */
typedef struct comm_trade {
  const void *give;
  void *take;
  size_t give_bytes, take_bytes;
} comm_trade;

/* Exchanges messages with all other ranks and waits for them. trades[r] is the exchange with rank r; the rank's own
 * entry is ignored. tickets is memory for 2 x ranks tickets. After an error the communicator has ended, and no message
 * uses the memory of trades. */
GA_NODISCARD ga_status ga_comm_exchange(ga_comm *comm, const comm_trade *trades, comm_ticket *tickets);

#endif
