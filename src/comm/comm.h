/* What a transport does for the executor. Messages between two ranks are numbered by the order of their posting, apart
 * for sends and receives; message k of one side is message k of the other, whatever the order of arrival. */
#ifndef GA_COMM_COMM_H
#define GA_COMM_COMM_H

#include "ga/comm.h"

typedef struct comm_ticket {
  int32_t peer;
  bool is_send;
  uint64_t turn;
} comm_ticket;

typedef struct comm_vtable {
  /* Post and return; data must stay, and stay unchanged, until the ticket has been waited for. Each is, once. */
  ga_status (*send)(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*receive)(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket);
  ga_status (*wait)(ga_comm *comm, const comm_ticket *ticket);
  ga_status (*meet)(ga_comm *comm, const char *what, uint64_t value);
  ga_status (*check)(ga_comm *comm); /* does not wait: the error when the communicator has ended */
  /* Nothing is read or written for any rank once it has returned. Other ranks get GA_ERR_TIMEOUT if status is that,
   * else GA_ERR_COMM. */
  void (*abort)(ga_comm *comm, ga_status status, const char *why);
  void (*destroy)(ga_comm *comm);
  /* All ranks call it: fds[ranks] become descriptors of what each rank gives, which the caller closes, also after an
   * error; -1 = none, as its own. GA_ERR_UNSUPPORTED on all ranks, and the communicator goes on: they are on several
   * hosts. */
  ga_status (*trade_fds)(ga_comm *comm, int fd, int *fds);
} comm_vtable;

struct ga_comm {
  const comm_vtable *calls;
  int32_t rank, size;
  double timeout; /* seconds */
};

/* comm_vtable.trade_fds of ranks that are processes of one host, over sockets that are named after the run, the user
 * and the rank. run: the same on all ranks, and of no other run. */
GA_NODISCARD ga_status comm_trade_fds(ga_comm *comm, uint64_t run, int fd, int *fds);

#endif
