/* GA, communicators: a number of ranks that exchange messages.
 *
 * A ga_comm is one rank's end. It is used by one thread at a time; each rank has a thread or process of its own.
 * A wait that takes longer than the timeout, a rank that is gone and ga_comm_abort end the communicator for all ranks:
 * every call then gives GA_ERR_COMM or GA_ERR_TIMEOUT with one text that says what happened first.
 */
#ifndef GA_COMM_H
#define GA_COMM_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_comm ga_comm;

typedef enum ga_comm_flags {
  GA_COMM_BUFFERED = 1 /* a send is done when it is posted; else when its receiver has taken the message */
} ga_comm_flags;

typedef struct ga_comm_threads_options {
  size_t struct_size;
  int32_t ranks;  /* 1 to 4096 */
  uint32_t flags; /* ga_comm_flags */
  uint64_t seed;  /* 0 = messages arrive as soon as both sides are ready; else in a random order that follows from it */
  double timeout; /* seconds, 0.01 to 86400; 0 = 5 */
} ga_comm_threads_options;
#define GA_COMM_THREADS_OPTIONS_INIT \
  { sizeof(ga_comm_threads_options), 1, 0, 0, 0.0 }

/* Ranks as threads of this process: out[ranks]. */
GA_API GA_NODISCARD ga_status ga_comm_threads_create(const ga_comm_threads_options *options, ga_comm **out);
/* Each rank releases its own end. Ranks that still wait for it get GA_ERR_COMM. NULL is fine. */
GA_API void ga_comm_destroy(ga_comm *comm);
/* Of NULL: rank -1, size 0. */
GA_API int32_t ga_comm_rank(const ga_comm *comm);
GA_API int32_t ga_comm_size(const ga_comm *comm);
/* Ends the communicator for all ranks, with a text that they see. The first call counts. */
GA_API void ga_comm_abort(ga_comm *comm, const char *why);
/* Returns when all ranks have called it. value is compared: GA_ERR_COMM names the ranks whose values differ, and what
 * of them is compared. */
GA_API GA_NODISCARD ga_status ga_comm_meet(ga_comm *comm, const char *what, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif
