/* Exchange of file descriptors between processes of one host. */
#ifndef GA_COMM_COMM_FDS_H
#define GA_COMM_COMM_FDS_H

#include "core/comm.h"

/* Sends `fd` to all other ranks and receives theirs into fds, [ranks]. Ranks are processes of one host
 * (comm_vtable.trade_fds). Sockets are named after the run, the user and the rank. run is a number that all ranks of
 * the run share, and no other run has. */
GA_NODISCARD ga_status comm_trade_fds(ga_comm *comm, uint64_t run, int fd, int *fds);

#endif
