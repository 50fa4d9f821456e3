/* Accepts connections, checks the head of a connection's first request, and passes the connection to the HTTP library.
 * So each connection gets an answer: 503 if there are too many, and JSON for faults that the library would answer in
 * HTML. */
#ifndef GA_SERVE_ACCEPT_H
#define GA_SERVE_ACCEPT_H

#include <microhttpd.h>

#include "ga/base.h"

typedef struct sv_acceptor sv_acceptor;

typedef struct sv_accept_options {
  int listen_fd; /* a non-blocking socket that listens; owned by the caller */
  struct MHD_Daemon *daemon;
  unsigned max_connections;
  double request_seconds; /* seconds within which the head of a request must be complete */
} sv_accept_options;

/* Starts the thread that accepts connections. The daemon must outlive the acceptor. */
GA_NODISCARD ga_status sv_acceptor_start(const sv_accept_options *options, sv_acceptor **out);
/* Ends the thread of the acceptor, frees the acceptor, and closes the connections that it has not passed on. NULL is
 * fine. */
void sv_acceptor_stop(sv_acceptor *acceptor);

#endif
