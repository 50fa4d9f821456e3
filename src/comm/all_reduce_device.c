/* Sums over GPUs by kernels that write into each other's memory (src/cuda/kern/dist): memory, code, norms.
 *
 * One shot or two: P ranks send (P - 1) n bytes each in one, 2 n (P - 1) / P in two, which waits a second time, about
 * 1 us. At 370 GB/s (NVLink of an H200) two shots are ahead from 0.37 MB for 4 ranks and 0.1 MB for 8 on; they never
 * are for 2. */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "comm/all_reduce.h"

#define CYCLES_A_SECOND 2e9         /* no GPU so far is faster; a slower one waits longer */
#define NONE_WORD_32    0x80000000u /* all_reduce.h in src/cuda/kern/dist */
#define NONE_WORD_16    0x80008000u

static int64_t units_of_call(const ga_all_reduce *r, int64_t n) {
  return ga_div_up(n * reduce_element_bytes(r), GA_REDUCE_UNIT);
}

static void place_reduce(ga_all_reduce *r) {
  const int32_t ranks = r->comm->size;
  const int64_t units = units_of_call(r, r->desc.max_elements);
  r->windows.one_shot_most = ga_min_i64(units, ga_reduce_one_shot_bytes(ranks) / GA_REDUCE_UNIT);
  const int64_t one = ranks * r->windows.one_shot_most, two = 2 * ranks * ga_div_up(units, ranks);
  r->windows.args.slot_units = units > r->windows.one_shot_most ? ga_max_i64(one, two) : one;
  r->windows.args.rank = r->comm->rank, r->windows.args.ranks = ranks;
  r->windows.args.patience = (int64_t)(r->desc.timeout * CYCLES_A_SECOND);
}

/* --- memory --- */

static ga_status map_windows(ga_all_reduce *r, const int *fds, const uint64_t *bytes) {
  for (int32_t p = 0; p < r->comm->size; p++)
    if (p != r->comm->rank)
      GA_TRY(r->ctx->device->sharing->open(r->ctx->device, fds[p], (size_t)bytes[p], &r->slots[p]));
  return GA_OK;
}

static ga_status trade_windows(ga_all_reduce *r) {
  int fds[GA_REDUCE_RANKS] = {-1, -1, -1, -1, -1, -1, -1, -1};
  uint64_t bytes[GA_REDUCE_RANKS];
  const uint64_t mine = r->slots[r->comm->rank].bytes;
  GA_TRY(ga_comm_all_gather(r->comm, &mine, sizeof mine, bytes));
  ga_status status = r->comm->calls->trade_fds(r->comm, r->slots[r->comm->rank].fd, fds);
  if (status == GA_OK) status = map_windows(r, fds, bytes);
  for (int32_t p = 0; p < r->comm->size; p++)
    if (fds[p] >= 0) (void)close(fds[p]);
  return status;
}

static ga_status open_windows(ga_all_reduce *r) {
  ga_device *d = r->ctx->device;
  ga_shared *mine = &r->slots[r->comm->rank];
  const int64_t bytes = GA_REDUCE_SLOTS * r->windows.args.slot_units * GA_REDUCE_UNIT;
  void *p;
  GA_REQUIRE(d->sharing && d->code, GA_ERR_UNSUPPORTED, "all_reduce: %s shares no memory with other devices", d->name);
  GA_TRY(ga_buffer_alloc_zeroed(r->ctx, sizeof *r->state, "all_reduce", &p));
  r->state = r->windows.args.state = p;
  GA_TRY(d->sharing->alloc(d, (size_t)bytes, mine));
  GA_TRY(trade_windows(r));
  for (int32_t i = 0; i < r->comm->size; i++) r->windows.args.slots[i] = r->slots[i].data;
  return d->sharing->fill(r->ctx->stream, mine->data, r->desc.dtype == GA_F32 ? NONE_WORD_32 : NONE_WORD_16,
                          (size_t)bytes / 4);
}

/* --- launching --- */

static ga_status start_norm(const ga_all_reduce *r, const ga_kargs_all_reduce *args, int64_t blocks,
                            ga_stream *stream) {
  ga_launch l = GA_LAUNCH_INIT;
  const int64_t most = ga_min_i64(GA_REDUCE_BLOCKS, r->ctx->device->caps.sms); /* so that all are there at once */
  l.grid[0] = (uint32_t)ga_max_i64(1, ga_min_i64(blocks, most));
  l.block[0] = GA_REDUCE_NORM_THREADS;
  l.flags = GA_LAUNCH_DEPENDENT;
  return r->ctx->device->code->launch(r->norm, &l, args, stream);
}

/* A first launch may wait for the whole device, and so for other ranks: that of the norm is here, without work; that of
 * the sum is an op's with n = 0. */
static ga_status load_kernels(ga_all_reduce *r) {
  const char *type = ga_dtype_name((ga_dtype)r->desc.dtype);
  ga_device *d = r->ctx->device;
  const int ranks = r->comm->size <= 2 && r->desc.dtype == GA_BF16 ? 2 : GA_REDUCE_RANKS; /* that a row is made for */
  char id[64];
  (void)snprintf(id, sizeof id, "all_reduce_%s_sm80_%dx%d", type, ranks, GA_REDUCE_THREADS);
  GA_TRY(d->code->load_kernel(d, id, &r->windows.sum));
  r->windows.sum_ranks = ranks;
  (void)snprintf(id, sizeof id, "all_reduce_norm_%s_sm80_%dx%d", type, ranks, GA_REDUCE_NORM_THREADS);
  GA_TRY(d->code->load_kernel(d, id, &r->norm));
  return start_norm(r, &r->windows.args, 1, r->ctx->stream);
}

ga_status reduce_device_open(ga_all_reduce *r) {
  place_reduce(r);
  GA_TRY(open_windows(r));
  return load_kernels(r);
}

void reduce_device_close(ga_all_reduce *r) {
  const ga_device *device = r->ctx->device;
  if (r->windows.sum) device->code->destroy(r->windows.sum);
  if (r->norm) device->code->destroy(r->norm);
  for (int i = 0; i < GA_REDUCE_RANKS; i++)
    if (r->slots[i].data) device->sharing->close(r->ctx->device, &r->slots[i]);
  ga_buffer_free(r->ctx, r->state);
}

bool reduce_device_norm_sums(const ga_all_reduce *r, int64_t n) {
  return units_of_call(r, n) <= r->windows.one_shot_most;
}

ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream) {
  ga_kargs_all_reduce a = r->windows.args;
  const int64_t n = io->rows * io->width;
  a.x = io->x, a.y = io->y, a.residual = io->residual, a.weight = io->weight;
  a.rows = io->rows, a.width = io->width, a.n = n, a.eps = io->eps;
  if (!reduce_device_norm_sums(r, n)) { /* a norm of one rank */
    a.x = io->y;
    a.rank = 0, a.ranks = 1;
  }
  return start_norm(r, &a, a.rows, stream);
}

ga_status reduce_device_check(ga_all_reduce *r, ga_stream *stream) {
  int32_t missing[GA_REDUCE_RANKS];
  char names[64] = "";
  size_t at = 0;
  GA_TRY(ga_copy_to_host(r->ctx, missing, r->state->missing, sizeof missing, stream));
  for (int p = 0; p < GA_REDUCE_RANKS; p++)
    if (missing[p]) at += (size_t)snprintf(names + at, sizeof names - at, "%s%d", at ? ", " : "", p);
  GA_REQUIRE(!at, GA_ERR_TIMEOUT, "all_reduce: rank %d on %s waited %g s; ranks that did not come: %s", r->comm->rank,
             r->ctx->device->name, r->desc.timeout, names);
  return GA_OK;
}
