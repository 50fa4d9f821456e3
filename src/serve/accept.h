/* Accepts connections, checks the head of each one's first request, and hands the connection to the HTTP library. So
 * each connection gets an answer: 503 beyond the limit, and faults that the library would answer in HTML get JSON. */
#ifndef GA_SERVE_ACCEPT_H
#define GA_SERVE_ACCEPT_H

#include <microhttpd.h>

#include "ga/base.h"

typedef struct sv_acceptor sv_acceptor;

typedef struct sv_accept_options {
  int listen_fd; /* a non-blocking socket that listens; owned by the caller */
  struct MHD_Daemon *daemon;
  unsigned max_connections;
  double request_seconds; /* seconds in which a head must be complete */
} sv_accept_options;

/* Starts the thread. The daemon must outlive the acceptor. */
GA_NODISCARD ga_status sv_acceptor_start(const sv_accept_options *options, sv_acceptor **out);
/* Ends the thread and closes the connections that it still holds. NULL is fine. */
void sv_acceptor_stop(sv_acceptor *acceptor);

#endif
