/* Messages between the memories of devices, as rows of collectives see them. src/comm makes ports: a larger struct that
 * begins with one. */
#ifndef GA_CORE_COMM_PORT_H
#define GA_CORE_COMM_PORT_H

#include "core/comm.h"
#include "core/device.h"

typedef struct comm_port comm_port;
struct comm_port {
  ga_comm *comm;
  comm_call *calls;          /* [ranks], for comm_compare_calls */
  ga_link_message *messages; /* [2 x ranks]: a row writes the messages of its call here, then calls run */
  /* Enqueues the first n of `messages`: they run after the stream's earlier work, and its later work after them. The
   * host may wait for other ranks. After an error the communicator has ended. */
  ga_status (*run)(comm_port *port, ga_stream *stream, int64_t n);
};

#endif
