/* Communicators, whatever carries their messages. */
#include "comm/comm.h"

#include "base/status.h"

void ga_comm_destroy(ga_comm *comm) {
  if (comm) comm->calls->destroy(comm);
}

int32_t ga_comm_rank(const ga_comm *comm) { return comm ? comm->rank : -1; }
int32_t ga_comm_size(const ga_comm *comm) { return comm ? comm->size : 0; }

void ga_comm_abort(ga_comm *comm, const char *why) {
  if (comm) comm->calls->abort(comm, GA_ERR_COMM, why ? why : "no reason given");
}

ga_status ga_comm_meet(ga_comm *comm, const char *what, uint64_t value) {
  GA_REQUIRE(comm, GA_ERR_ARG, "comm: comm is null");
  return comm->calls->meet(comm, what ? what : "value", value);
}
