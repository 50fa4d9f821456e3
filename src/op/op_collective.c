#include "ga/collective.h"

#include "comm/all_reduce.h"
#include "core/comm_port.h"
#include "op/op.h"

static const ga_op op_of_kind[] = {[GA_ALL_REDUCE] = GA_OP_all_reduce,
                                   [GA_ALL_GATHER] = GA_OP_all_gather,
                                   [GA_REDUCE_SCATTER] = GA_OP_reduce_scatter,
                                   [GA_ALL_TO_ALL] = GA_OP_all_to_all,
                                   [GA_SEND_RECV] = GA_OP_send_recv};

static const char *collective_name(const ga_collective_desc *d) { return ga_op_name(op_of_kind[d->kind]); }

static ga_status complete(ga_collective_desc *d) {
  GA_REQUIRE(d->kind >= 0 && d->kind < (int32_t)GA_COUNT_OF(op_of_kind), GA_ERR_ARG,
             "collective: kind is %d; must be 0 to %d", d->kind, (int)GA_COUNT_OF(op_of_kind) - 1);
  const char *op = collective_name(d);
  GA_TRY(ga_collective_complete_fields(op, d));
  GA_REQUIRE(d->flags <= GA_COLLECTIVE_LINKS, GA_ERR_ARG, "%s: flags is 0x%x; allowed: 0, 0x%x, 0x%x", op, d->flags,
             (unsigned)GA_COLLECTIVE_WINDOWS, (unsigned)GA_COLLECTIVE_LINKS);
  return ga_check_elements(op, "ranks x n", d->ranks, d->n, 1, 1);
}

/* --- the arguments of a call --- */

static ga_status check_comm(const ga_collective_desc *d, const ga_collective_io *io) {
  const char *op = collective_name(d);
  GA_CHECK_PTR(op, io->comm, "comm");
  GA_REQUIRE(io->comm->size == d->ranks, GA_ERR_ARG, "%s: the plan is for %d ranks; comm has %d", op, d->ranks,
             io->comm->size);
  GA_REQUIRE((d->reach & ~io->comm->reach) == 0, GA_ERR_ARG, "%s: the plan is for reach 0x%x; comm has 0x%x", op,
             d->reach, io->comm->reach);
  return GA_OK;
}

static ga_status check_windows(const ga_collective_desc *d, const ga_collective_io *io) {
  const char *op = collective_name(d);
  const ga_all_reduce *w = io->windows;
  const bool wanted = d->flags & GA_COLLECTIVE_WINDOWS;
  GA_REQUIRE(!w == !wanted, GA_ERR_ARG, "%s: windows is %s; the plan is %s them", op, w ? "given" : "null",
             wanted ? "with" : "without");
  if (!w) return GA_OK;
  GA_REQUIRE(w->comm == io->comm, GA_ERR_ARG, "%s: windows are of another communicator", op);
  GA_REQUIRE(w->desc.dtype == d->dtype && w->desc.max_elements >= d->n, GA_ERR_ARG,
             "%s: windows are for %lld elements of %s; the plan is for %lld of %s", op, (long long)w->desc.max_elements,
             ga_dtype_name((ga_dtype)w->desc.dtype), (long long)d->n, ga_dtype_name((ga_dtype)d->dtype));
  return GA_OK;
}

static ga_status check_links(const ga_collective_desc *d, const ga_collective_io *io) {
  const bool wanted = d->flags & GA_COLLECTIVE_LINKS;
  GA_REQUIRE(!io->links == !wanted, GA_ERR_ARG, "%s: links is %s; the plan is %s them", collective_name(d),
             io->links ? "given" : "null", wanted ? "with" : "without");
  GA_REQUIRE(!wanted || ((const comm_port *)(const void *)io->links)->comm == io->comm, GA_ERR_ARG,
             "%s: links are of another communicator", collective_name(d));
  return GA_OK;
}

static ga_status check_other_rank(const ga_collective_desc *d, const ga_collective_io *io, const char *name,
                                  int32_t peer) {
  GA_REQUIRE(peer >= -1 && peer < d->ranks && peer != io->comm->rank, GA_ERR_ARG,
             "%s: %s is %d on rank %d; must be another rank, 0 to %d, or -1 = none", collective_name(d), name, peer,
             io->comm->rank, d->ranks - 1);
  return GA_OK;
}

/* Bytes of x and of y. */
static size_t bytes_of_rank_array(const ga_collective_desc *d, bool has_row_for_each_rank) {
  return (size_t)d->n * (size_t)(d->dtype == GA_F32 ? 4 : 2) * (size_t)(has_row_for_each_rank ? d->ranks : 1);
}

static ga_status arrays_are_apart(const ga_collective_desc *d, const ga_collective_io *io) {
  const uintptr_t x = (uintptr_t)io->x, y = (uintptr_t)io->y, row = bytes_of_rank_array(d, false);
  const uintptr_t x_bytes = bytes_of_rank_array(d, d->kind == GA_REDUCE_SCATTER || d->kind == GA_ALL_TO_ALL),
                  y_bytes = bytes_of_rank_array(d, d->kind == GA_ALL_GATHER || d->kind == GA_ALL_TO_ALL);
  if (x + x_bytes <= y || y + y_bytes <= x || (d->kind == GA_ALL_REDUCE && x == y)) return GA_OK;
  if (d->kind == GA_ALL_GATHER && x == y + (uintptr_t)io->comm->rank * row) return GA_OK;
  return ga_fail(GA_ERR_ARG, "%s: x at %p and y at %p overlap", collective_name(d), io->x, io->y);
}

static ga_status check_io(const ga_collective_desc *d, const ga_collective_io *io) {
  const char *op = collective_name(d);
  const bool is_send_recv = d->kind == GA_SEND_RECV;
  GA_TRY(check_comm(d, io));
  GA_TRY(check_windows(d, io));
  GA_TRY(check_links(d, io));
  if (is_send_recv) {
    GA_TRY(check_other_rank(d, io, "to", io->to));
    GA_TRY(check_other_rank(d, io, "from", io->from));
  }
  if (d->n == 0) return GA_OK;
  const bool reads = !is_send_recv || io->to >= 0, writes = !is_send_recv || io->from >= 0;
  if (reads) GA_CHECK_AT(op, io->x, d->dtype, "x");
  if (writes) GA_CHECK_AT(op, io->y, d->dtype, "y");
  return reads && writes ? arrays_are_apart(d, io) : GA_OK;
}

/* --- the three public forms --- */

ga_status ga_collective_plan(ga_ctx *ctx, const ga_collective_desc *desc, ga_plan **out) {
  ga_collective_desc full;
  GA_REQUIRE(out, GA_ERR_ARG, "collective: out is null");
  *out = NULL;
  GA_TAKE_DESC("collective", ctx, desc, ga_collective_desc, &full);
  GA_TRY(complete(&full));
  return ga_plan_make(ctx, op_of_kind[full.kind], &full, sizeof full, out);
}

ga_status ga_collective_run(const ga_plan *plan, const ga_collective_io *io, void *workspace, ga_stream *stream) {
  GA_REQUIRE(plan && io, GA_ERR_ARG, "collective: %s is null", plan ? "io" : "plan");
  GA_REQUIRE(plan->op >= GA_OP_all_reduce && plan->op <= GA_OP_send_recv, GA_ERR_ARG, "collective: the plan is for %s",
             ga_op_name(plan->op));
  GA_TRY(ga_check_run(ga_op_name(plan->op), plan->op, plan, io, workspace));
  GA_TRY(check_io((const void *)plan->desc, io));
  GA_TRY(ga_stream_of(plan->ctx, stream, "collective", &stream));
  return ga_plan_launch(plan, io, workspace, stream);
}

ga_status ga_collective(ga_ctx *ctx, const ga_collective_desc *desc, const ga_collective_io *io, ga_stream *stream) {
  ga_collective_desc full;
  const ga_plan *plan;
  GA_TAKE_DESC("collective", ctx, desc, ga_collective_desc, &full);
  GA_TRY(complete(&full));
  GA_TRY(ga_plan_remember(ctx, op_of_kind[full.kind], &full, sizeof full, &plan, &stream));
  return ga_collective_run(plan, io, ga_workspace_of(stream), stream);
}

GA_CHECK_DESC_ROOM(collective);
