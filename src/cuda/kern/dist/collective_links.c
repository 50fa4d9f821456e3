#include "base/status.h"
#include "core/comm_port.h"
#include "core/ctx.h"
#include "cuda/kern/dist/dist.h"
#include "ga/collective.h"

static size_t bytes_of_row_of(const ga_collective_desc *d) { return (size_t)d->n * (d->dtype == GA_F32 ? 4 : 2); }

const char *cuda_collective_links_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  (void)k, (void)caps;
  return d->flags & GA_COLLECTIVE_LINKS ? NULL : "it needs links of ga_links_create";
}

/* Microseconds: hosts that compare their calls; bytes through host memory. */
#define AGREE_US   20.0
#define SENT_BYTES 25000.0

double cuda_collective_links_us(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const double others = k->op == GA_OP_send_recv ? 1 : d->ranks - 1;
  (void)caps;
  return AGREE_US + others * (double)bytes_of_row_of(d) / SENT_BYTES;
}

/* Rows that go to one rank and come from one. at: of them in x and y, in rows. */
static int64_t add_row_messages(comm_port *port, const ga_collective_io *a, int64_t n, size_t row, int32_t to,
                                size_t x_at, int32_t from, size_t y_at) {
  void *x = (char *)(uintptr_t)a->x + x_at * row; /* messages have one pointer for both directions */
  if (row && to >= 0) port->messages[n++] = (ga_link_message){.peer = to, .is_send = true, .data = x, .bytes = row};
  if (row && from >= 0)
    port->messages[n++] = (ga_link_message){.peer = from, .data = (char *)a->y + y_at * row, .bytes = row};
  return n;
}

static ga_status copy_own_row(const ga_collective_io *a, size_t row, size_t x_at, size_t y_at, ga_stream *stream) {
  const char *x = (const char *)a->x + x_at * row;
  char *y = (char *)a->y + y_at * row;
  return x == y || !row ? GA_OK : stream->device->ops->copy_within(stream, y, x, row);
}

static ga_status refuse_recording(const ga_kernel *k, ga_stream *stream) {
  bool recorded;
  GA_TRY(ga_stream_recorded(stream, &recorded));
  GA_REQUIRE(!recorded, GA_ERR_STATE, "%s: the hosts of all ranks take part in it: it cannot be recorded", k->id);
  return GA_OK;
}

ga_status cuda_links_agree(const ga_kernel *k, const ga_collective_desc *d, const ga_collective_io *a,
                           ga_stream *stream) {
  const comm_port *port = (const void *)a->links;
  const comm_call mine = {.n = d->n, .op = (int32_t)k->op, .dtype = d->dtype};
  GA_TRY(refuse_recording(k, stream));
  GA_TRY(ga_comm_all_gather(port->comm, &mine, sizeof mine, port->calls));
  return comm_compare_calls(port->calls, d->ranks);
}

ga_status cuda_collective_links(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                                ga_stream *stream) {
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  comm_port *port = (comm_port *)(void *)a->links;
  const size_t row = bytes_of_row_of(d), me = (size_t)port->comm->rank;
  const bool is_all_to_all = k->op == GA_OP_all_to_all;
  int64_t n = 0;
  (void)workspace;
  GA_TRY(refuse_recording(k, stream));
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, 1));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, 1));
  if (k->op == GA_OP_send_recv) return port->run(port, stream, add_row_messages(port, a, 0, row, a->to, 0, a->from, 0));
  GA_TRY(cuda_links_agree(k, d, a, stream));
  for (int32_t r = 0; r < d->ranks; r++)
    if (r != port->comm->rank) n = add_row_messages(port, a, n, row, r, is_all_to_all ? (size_t)r : 0, r, (size_t)r);
  GA_TRY(copy_own_row(a, row, is_all_to_all ? me : 0, me, stream));
  return port->run(port, stream, n);
}
