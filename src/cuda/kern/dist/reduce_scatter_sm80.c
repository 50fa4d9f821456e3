/* A reduce-scatter over links: each rank gets its rows of all ranks' x in the workspace, and a kernel adds them. */
#include "base/mem.h"
#include "base/status.h"
#include "core/comm_port.h"
#include "cuda/kern/dist/dist.h"
#include "cuda/kern/dist/reduce_scatter_args.h"

#define WIDE_BYTES    16 /* that a lane moves at once */
#define BLOCKS_PER_SM 8

static size_t bytes_of_summand(const ga_collective_desc *d) { return d->dtype == GA_F32 ? 4 : 2; }
static size_t bytes_of_rank_row(const ga_collective_desc *d) { return (size_t)d->n * bytes_of_summand(d); }
/* Distance of received rows. */
static size_t received_row_bytes(const ga_collective_desc *d) { return ga_round_up(bytes_of_rank_row(d), WIDE_BYTES); }

const char *cuda_reduce_scatter_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  if (d->dtype != (int32_t)k->dtype[0]) return "it is for another type";
  return cuda_collective_links_ok(k, desc, caps);
}

uint64_t cuda_reduce_scatter_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  (void)k, (void)caps;
  return (uint64_t)(d->ranks - 1) * received_row_bytes(d);
}

/* Microseconds: a launch; bytes of GPU memory (H200). */
#define LAUNCH_US    2.2
#define MEMORY_BYTES 3500000.0

double cuda_reduce_scatter_us(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const double rows = d->ranks + 1;
  return cuda_collective_links_us(k, desc, caps) + LAUNCH_US + rows * (double)bytes_of_rank_row(d) / MEMORY_BYTES;
}

/* Row r of x goes to rank r; what rank r sends is received in the workspace. */
static ga_status exchange_rows(const ga_collective_desc *d, const ga_collective_io *a, char *received,
                               ga_stream *stream) {
  comm_port *port = (comm_port *)(void *)a->links;
  const size_t row = bytes_of_rank_row(d);
  char *x = (char *)(uintptr_t)a->x; /* messages have one pointer for both directions */
  int64_t n = 0;
  for (int32_t r = 0; r < d->ranks && row; r++) {
    if (r == port->comm->rank) continue;
    port->messages[n++] = (ga_link_message){.peer = r, .is_send = true, .data = x + (size_t)r * row, .bytes = row};
    port->messages[n++] = (ga_link_message){.peer = r, .data = received, .bytes = row};
    received += received_row_bytes(d);
  }
  return port->run(port, stream, n);
}

static ga_status start_row_sum(const ga_kernel *k, const ga_kargs_reduce_scatter *args, size_t element,
                               ga_stream *stream) {
  const cuda_variant *v = k->impl;
  const int64_t units = ga_div_up(args->n, (int64_t)(WIDE_BYTES / element) * v->threads);
  const int64_t most = (int64_t)stream->device->caps.sms * BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(units, most), 1, 1}, .block = {v->threads, 1, 1}};
  return cuda_enqueue(stream, k, &l, args);
}

ga_status cuda_reduce_scatter(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                              ga_stream *stream) {
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  const int32_t me = a->comm->rank;
  const char *own = (const char *)a->x + (size_t)me * bytes_of_rank_row(d);
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, bytes_of_summand(d)));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, bytes_of_summand(d)));
  GA_TRY(cuda_links_agree(k, d, a, stream));
  GA_TRY(exchange_rows(d, a, workspace, stream));
  if (!d->n) return GA_OK;
  const ga_kargs_reduce_scatter args = {
      .own = own,
      .received = workspace,
      .y = a->y,
      .n = d->n,
      .row_bytes = (int64_t)received_row_bytes(d),
      .rank = me,
      .ranks = d->ranks,
      .vec16 = ((uintptr_t)own | (uintptr_t)workspace | (uintptr_t)a->y) % WIDE_BYTES == 0,
  };
  return start_row_sum(k, &args, bytes_of_summand(d), stream);
}
