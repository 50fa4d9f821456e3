/* Communicators, whatever carries their messages. */
#include "core/comm.h"

#include "base/status.h"
#include "core/kernel.h"

void ga_comm_destroy(ga_comm *comm) {
  if (comm) comm->calls->destroy(comm);
}

int32_t ga_comm_rank(const ga_comm *comm) { return comm ? comm->rank : -1; }
int32_t ga_comm_size(const ga_comm *comm) { return comm ? comm->size : 0; }
uint32_t ga_comm_reach(const ga_comm *comm) { return comm ? comm->reach : 0; }

void ga_comm_abort(ga_comm *comm, const char *why) {
  if (comm) comm->calls->abort(comm, GA_ERR_COMM, why ? why : "no reason given");
}

ga_status ga_comm_meet(ga_comm *comm, const char *what, uint64_t value) {
  GA_REQUIRE(comm, GA_ERR_ARG, "comm: comm is null");
  return comm->calls->meet(comm, what ? what : "value", value);
}

/* --- collectives --- */

ga_status comm_compare_calls(const comm_call *calls, int32_t ranks) {
  for (int32_t r = 1; r < ranks; r++) {
    GA_REQUIRE(calls[r].trade == calls[0].trade, GA_ERR_COMM,
               "collective: rank %d is at its collective %llu and rank 0 at %llu; one made another call instead", r,
               (unsigned long long)calls[r].trade, (unsigned long long)calls[0].trade);
    const char *op = ga_op_name((ga_op)calls[0].op);
    GA_REQUIRE(calls[r].op == calls[0].op, GA_ERR_COMM, "collective: the call is %s on rank %d and %s on rank 0",
               ga_op_name((ga_op)calls[r].op), r, op);
    GA_REQUIRE(calls[r].dtype == calls[0].dtype, GA_ERR_COMM, "%s: dtype is %s on rank %d and %s on rank 0", op,
               ga_dtype_name((ga_dtype)calls[r].dtype), r, ga_dtype_name((ga_dtype)calls[0].dtype));
    GA_REQUIRE(calls[r].n == calls[0].n, GA_ERR_COMM, "%s: n is %lld on rank %d and %lld on rank 0", op,
               (long long)calls[r].n, r, (long long)calls[0].n);
  }
  return GA_OK;
}

static ga_status trade_with_all(ga_comm *comm, const comm_trade *trades, comm_ticket *tickets) {
  int32_t n = 0;
  for (int32_t r = 0; r < comm->size; r++) {
    const comm_trade *t = &trades[r];
    if (r == comm->rank) continue;
    GA_TRY(comm->calls->receive(comm, r, t->take, t->take_bytes, &tickets[n++]));
    GA_TRY(comm->calls->send(comm, r, t->give, t->give_bytes, &tickets[n++]));
  }
  for (int32_t i = 0; i < n; i++) GA_TRY(comm->calls->wait(comm, &tickets[i]));
  return GA_OK;
}

ga_status ga_comm_exchange(ga_comm *comm, const comm_trade *trades, comm_ticket *tickets) {
  const ga_status status = trade_with_all(comm, trades, tickets);
  if (status != GA_OK) comm->calls->abort(comm, status, ga_error_text());
  return status;
}
