/* A port: messages between the memories of devices, for kernels of collectives. src/comm allocates a larger struct that
 * begins with a port. */
#ifndef GA_CORE_COMM_PORT_H
#define GA_CORE_COMM_PORT_H

#include "core/comm.h"
#include "core/device.h"

typedef struct comm_port comm_port;
struct comm_port {
  ga_comm *comm;
  /* [ranks] memory for the announcements that comm_compare_calls compares. */
  comm_call *calls;
  /* [2 x ranks] messages of one collective call. A kernel writes its messages here, then calls run. */
  ga_link_message *messages;
  /* Enqueues the first n entries of `messages`. They start after the stream's earlier work, and the stream's later work
   * starts after them. The host may wait for other ranks. After an error the communicator has ended. */
  ga_status (*run)(comm_port *port, ga_stream *stream, int64_t n);
};

#endif
