/* File descriptors that go from process to process of one host. */
#ifndef GA_COMM_COMM_FDS_H
#define GA_COMM_COMM_FDS_H

#include "core/comm.h"

/* comm_vtable.trade_fds for ranks that are processes of one host. Sockets are named after the run, the user and the
 * rank. run: a number that all ranks of the run have, and no other run. */
GA_NODISCARD ga_status comm_trade_fds(ga_comm *comm, uint64_t run, int fd, int *fds);

#endif
