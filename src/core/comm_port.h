/* A port: messages between the memories of devices, for kernels of collectives. src/comm allocates a larger struct that
 * begins with a port. */
#ifndef GA_CORE_COMM_PORT_H
#define GA_CORE_COMM_PORT_H

#include "core/comm.h"
#include "core/device.h"

typedef struct comm_port comm_port;
struct comm_port {
  ga_comm *comm;
  /* Memory for comm_compare_calls, [ranks]. */
  comm_call *calls;
  /* Messages of a call, [2 x ranks]. A kernel writes its messages here, then calls run. */
  ga_link_message *messages;
  /* Enqueues the first n entries of `messages`. They start after the stream's earlier work, and its later work starts
   * after them. The host may wait for other ranks. After an error the communicator has ended. */
  ga_status (*run)(comm_port *port, ga_stream *stream, int64_t n);
};

#endif
