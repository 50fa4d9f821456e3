/* Sums over GPUs by kernels that write into each other's memory (src/cuda/kern/dist): memory, code, launches.
 *
 * One shot or two: P ranks send (P - 1) n bytes each in one, 2 n (P - 1) / P in two, which waits a second time, about
 * 1 us. At 370 GB/s (NVLink of an H200) two shots are ahead from 0.37 MB for 4 ranks and 0.1 MB for 8 on; they never
 * are for 2. */
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "dist/all_reduce.h"

#define CYCLES_A_SECOND 2e9         /* no GPU so far is faster; a slower one waits longer */
#define NONE_WORD_32    0x80000000u /* all_reduce.h in src/cuda/kern/dist */
#define NONE_WORD_16    0x80008000u

static int64_t units_of_call(const ga_all_reduce *r, int64_t n) {
  return ga_div_up(n * reduce_element_bytes(r), GA_REDUCE_UNIT);
}

/* Bytes of x up to which one shot is the faster way. */
static int64_t one_shot_bytes(int32_t ranks) {
  if (ranks <= 2) return INT64_MAX;
  return ranks <= 4 ? 384 * 1024 : 128 * 1024;
}

static void place_reduce(ga_all_reduce *r) {
  const int32_t ranks = r->comm->size;
  const int64_t units = units_of_call(r, r->desc.max_elements);
  r->one_shot_most = ga_min_i64(units, one_shot_bytes(ranks) / GA_REDUCE_UNIT);
  const int64_t one = ranks * r->one_shot_most, two = 2 * ranks * ga_div_up(units, ranks);
  r->args.slot_units = units > r->one_shot_most ? ga_max_i64(one, two) : one;
  r->args.rank = r->comm->rank, r->args.ranks = ranks;
  r->args.patience = (int64_t)(r->desc.timeout * CYCLES_A_SECOND);
}

/* --- memory --- */

static ga_status map_windows(ga_all_reduce *r, const int *fds, const uint64_t *bytes) {
  for (int32_t p = 0; p < r->comm->size; p++)
    if (p != r->comm->rank)
      GA_TRY(r->ctx->device->sharing->open(r->ctx->device, fds[p], (size_t)bytes[p], &r->windows[p]));
  return GA_OK;
}

static ga_status trade_windows(ga_all_reduce *r) {
  int fds[GA_REDUCE_RANKS] = {-1, -1, -1, -1, -1, -1, -1, -1};
  uint64_t bytes[GA_REDUCE_RANKS];
  const uint64_t mine = r->windows[r->comm->rank].bytes;
  GA_TRY(ga_comm_all_gather(r->comm, &mine, sizeof mine, bytes));
  ga_status status = r->comm->calls->trade_fds(r->comm, r->windows[r->comm->rank].fd, fds);
  if (status == GA_OK) status = map_windows(r, fds, bytes);
  for (int32_t p = 0; p < r->comm->size; p++)
    if (fds[p] >= 0) (void)close(fds[p]);
  return status;
}

static ga_status open_windows(ga_all_reduce *r) {
  ga_device *d = r->ctx->device;
  ga_shared *mine = &r->windows[r->comm->rank];
  const int64_t bytes = GA_REDUCE_SLOTS * r->args.slot_units * GA_REDUCE_UNIT;
  void *p;
  GA_REQUIRE(d->sharing && d->code, GA_ERR_UNSUPPORTED, "all_reduce: %s shares no memory with other devices", d->name);
  GA_TRY(ga_buffer_alloc_zeroed(r->ctx, sizeof *r->state, "all_reduce", &p));
  r->state = r->args.state = p;
  GA_TRY(d->sharing->alloc(d, (size_t)bytes, mine));
  GA_TRY(trade_windows(r));
  for (int32_t i = 0; i < r->comm->size; i++) r->args.slots[i] = r->windows[i].data;
  return d->sharing->fill(r->ctx->stream, mine->data, r->desc.dtype == GA_F32 ? NONE_WORD_32 : NONE_WORD_16,
                          (size_t)bytes / 4);
}

/* --- launching --- */

static ga_status start_kernel(const ga_all_reduce *r, ga_function *f, const ga_kargs_all_reduce *args, int64_t blocks,
                              ga_stream *stream) {
  ga_launch l = GA_LAUNCH_INIT;
  const int64_t most = ga_min_i64(GA_REDUCE_BLOCKS, r->ctx->device->caps.sms); /* so that all are there at once */
  l.grid[0] = (uint32_t)ga_max_i64(1, ga_min_i64(blocks, most));
  l.block[0] = f == r->norm ? GA_REDUCE_NORM_THREADS : GA_REDUCE_THREADS;
  l.flags = GA_LAUNCH_DEPENDENT;
  return r->ctx->device->code->launch(f, &l, args, stream);
}

/* A first launch may wait for the whole device, and so for other ranks: that of each kernel is here, without work. */
static ga_status load_kernels(ga_all_reduce *r) {
  const char *type = ga_dtype_name((ga_dtype)r->desc.dtype);
  ga_device *d = r->ctx->device;
  const int ranks = r->comm->size <= 2 && r->desc.dtype == GA_BF16 ? 2 : GA_REDUCE_RANKS; /* that a row is made for */
  char id[64];
  (void)snprintf(id, sizeof id, "all_reduce_%s_sm80_%dx%d", type, ranks, GA_REDUCE_THREADS);
  GA_TRY(d->code->load_kernel(d, id, &r->sum));
  (void)snprintf(id, sizeof id, "all_reduce_norm_%s_sm80_%dx%d", type, ranks, GA_REDUCE_NORM_THREADS);
  GA_TRY(d->code->load_kernel(d, id, &r->norm));
  GA_TRY(start_kernel(r, r->sum, &r->args, 1, r->ctx->stream));
  GA_TRY(start_kernel(r, r->norm, &r->args, 1, r->ctx->stream));
  return ga_stream_sync(r->ctx, NULL);
}

ga_status reduce_device_open(ga_all_reduce *r) {
  place_reduce(r);
  GA_TRY(open_windows(r));
  GA_TRY(load_kernels(r));
  return ga_comm_meet(r->comm, "all_reduce: ready", 0); /* nobody writes into a slot that is still being filled */
}

void reduce_device_close(ga_all_reduce *r) {
  const ga_device *device = r->ctx->device;
  if (r->sum) device->code->destroy(r->sum);
  if (r->norm) device->code->destroy(r->norm);
  for (int i = 0; i < GA_REDUCE_RANKS; i++)
    if (r->windows[i].data) device->sharing->close(r->ctx->device, &r->windows[i]);
  ga_buffer_free(r->ctx, r->state);
}

ga_status reduce_device_run(ga_all_reduce *r, const void *x, void *y, int64_t n, ga_stream *stream) {
  ga_kargs_all_reduce a = r->args;
  const int64_t units = units_of_call(r, n);
  a.x = x, a.y = y, a.n = n;
  a.two_shot = units > r->one_shot_most;
  return start_kernel(r, r->sum, &a, ga_div_up(a.two_shot ? ga_div_up(units, a.ranks) : units, GA_REDUCE_THREADS),
                      stream);
}

ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream) {
  ga_kargs_all_reduce a = r->args;
  const int64_t n = io->rows * io->width;
  a.x = io->x, a.y = io->y, a.residual = io->residual, a.weight = io->weight;
  a.rows = io->rows, a.width = io->width, a.n = n, a.eps = io->eps;
  if (units_of_call(r, n) > r->one_shot_most) { /* the sum first, into y, and then a norm of one rank */
    GA_TRY(reduce_device_run(r, io->x, io->y, n, stream));
    a.x = io->y;
    a.rank = 0, a.ranks = 1;
  }
  return start_kernel(r, r->norm, &a, a.rows, stream);
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
