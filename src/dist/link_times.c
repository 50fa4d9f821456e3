/* How fast blocks go from rank to rank: the rates of a link that ga_dist_plan_simulate takes.
 *
 * All ranks send to the next one at once, so that each way in and out is busy, as it is in a ring. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/abort.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "comm/exchange.h"
#include "comm/rank_memory.h"
#include "core/comm.h"
#include "core/ctx.h"
#include "ga/dist.h"

enum { DEFAULT_RUNS = 7, MOST_RUNS = 64, MOST_SIZES = 64, LEAST_COPIES = 3, MOST_COPIES = 256 };
#define MOST_BYTES    ((int64_t)1 << 34)
#define BYTES_OF_CPU  ((int64_t)64 << 20) /* that are timed as one, between LEAST_COPIES and MOST_COPIES of them */
#define BYTES_OF_GPU  ((int64_t)512 << 20)
#define PATTERN_BYTES ((size_t)1 << 16)

typedef struct link_bench {
  ga_comm *comm;
  ga_ctx *ctx;
  int32_t to, from, runs;
  bool on_host;
  size_t most; /* bytes of the largest block */
  unsigned char *send, *receive;
  /* GPUs */
  dist_copies wanted;
  ga_stream *stream;
  dist_rank_memory memory; /* the rank before writes to the own one, which is `receive` */
  dist_exchange *exchange; /* not with peer copies */
} link_bench;

/* --- memory --- */

/* Byte i of what a rank sends. Blocks that are shifted, or another rank's, differ. */
static unsigned char pattern_at(int32_t rank, size_t i) {
  return (unsigned char)((uint64_t)(i + 1) * 2654435761u >> 16 ^ (uint64_t)rank * 37);
}

static ga_status fill_send(link_bench *b) {
  void *p;
  GA_TRY(ga_mem_alloc(PATTERN_BYTES, "a block", &p));
  unsigned char *const part = p;
  ga_status status = GA_OK;
  for (size_t at = 0; at < b->most && status == GA_OK; at += PATTERN_BYTES) {
    const size_t n = b->most - at < PATTERN_BYTES ? b->most - at : PATTERN_BYTES;
    for (size_t i = 0; i < n; i++) part[i] = pattern_at(b->comm->rank, at + i);
    status = ga_copy_to_device(b->ctx, b->send + at, part, n, NULL);
  }
  ga_mem_free(p);
  return status;
}

static ga_status open_link_bench(link_bench *b) {
  void *p;
  GA_TRY(ga_buffer_alloc(b->ctx, b->most, &p));
  b->send = p;
  GA_TRY(fill_send(b));
  if (!b->on_host) {
    GA_TRY(ga_stream_create(b->ctx, &b->stream));
    GA_TRY(dist_rank_memory_open(b->comm, b->ctx->device, b->most, b->wanted, &b->memory));
    b->receive = b->memory.of[b->comm->rank].data;
    const dist_copies copies = b->memory.copies;
    return copies == DIST_COPIES_PEER ? GA_OK : dist_exchange_create(b->ctx, b->comm, copies, NULL, &b->exchange);
  }
  GA_TRY(ga_buffer_alloc_zeroed(b->ctx, b->most, "a block", &p));
  b->receive = p;
  return GA_OK;
}

static void close_link_bench(link_bench *b) {
  if (b->stream) {
    const ga_status last = ga_stream_sync(b->ctx, b->stream); /* copies may be under way */
    (void)last;                                               /* a device that is lost copies no more */
  }
  dist_exchange_destroy(b->exchange);
  ga_stream_destroy(b->stream);
  if (b->on_host)
    ga_buffer_free(b->ctx, b->receive);
  else
    dist_rank_memory_close(&b->memory);
  ga_buffer_free(b->ctx, b->send);
}

/* --- copies --- */

static ga_status send_block_on_host(const link_bench *b, size_t bytes) {
  comm_ticket take, give;
  GA_TRY(b->comm->calls->receive(b->comm, b->from, b->receive, bytes, &take));
  GA_TRY(b->comm->calls->send(b->comm, b->to, b->send, bytes, &give));
  GA_TRY(b->comm->calls->wait(b->comm, &take));
  return b->comm->calls->wait(b->comm, &give);
}

static ga_status send_block(const link_bench *b, size_t bytes) {
  if (b->on_host) return send_block_on_host(b, bytes);
  if (!b->exchange) return b->ctx->device->ops->copy_within(b->stream, b->memory.of[b->to].data, b->send, bytes);
  const ga_link_message m[2] = {{b->to, true, b->send, bytes}, {b->from, false, b->receive, bytes}};
  return dist_exchange_run(b->exchange, b->stream, m, 2);
}

static ga_status end_copies(const link_bench *b) {
  GA_TRY(b->on_host ? GA_OK : ga_stream_sync(b->ctx, b->stream));
  return b->exchange ? dist_exchange_check(b->exchange) : GA_OK;
}

/* All bytes of the largest block. */
static ga_status check_received(const link_bench *b) {
  void *p;
  GA_TRY(send_block(b, b->most));
  GA_TRY(end_copies(b));
  GA_TRY(ga_comm_meet(b->comm, "a block", b->most)); /* peer copies: the other rank's has come, too */
  GA_TRY(ga_mem_alloc(PATTERN_BYTES, "a block", &p));
  const unsigned char *part = p;
  ga_status status = GA_OK;
  for (size_t at = 0; at < b->most && status == GA_OK; at += PATTERN_BYTES) {
    const size_t n = b->most - at < PATTERN_BYTES ? b->most - at : PATTERN_BYTES;
    status = ga_copy_to_host(b->ctx, p, b->receive + at, n, NULL);
    for (size_t i = 0; i < n && status == GA_OK; i++)
      if (part[i] != pattern_at(b->from, at + i))
        status = ga_fail(GA_ERR_INTERNAL, "dist: rank %d has got %d as byte %zu of rank %d's block; must be %d",
                         b->comm->rank, part[i], at + i, b->from, pattern_at(b->from, at + i));
  }
  ga_mem_free(p);
  return status;
}

/* *seconds of a block: of the slowest rank. */
static ga_status time_size(const link_bench *b, int64_t bytes, double *all, double *seconds) {
  const int64_t at_once = (b->on_host ? BYTES_OF_CPU : BYTES_OF_GPU) / bytes,
                n = ga_min_i64(ga_max_i64(at_once, LEAST_COPIES), MOST_COPIES);
  GA_TRY(ga_abort_poll("dist"));
  GA_TRY(ga_comm_meet(b->comm, "blocks", (uint64_t)bytes));
  const double begin = ga_seconds();
  for (int64_t i = 0; i < n; i++) GA_TRY(send_block(b, (size_t)bytes));
  GA_TRY(end_copies(b));
  *seconds = (ga_seconds() - begin) / (double)n;
  GA_TRY(ga_comm_all_gather(b->comm, seconds, sizeof *seconds, all));
  for (int32_t r = 0; r < b->comm->size; r++) *seconds = fmax(*seconds, all[r]);
  return GA_OK;
}

static int order_of_seconds(const void *x, const void *y) {
  const double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* In each round all sizes take turns. rounds: [n][runs]. */
static ga_status time_rounds(const link_bench *b, const int64_t *bytes, int32_t n, double *all, double *rounds,
                             double *seconds) {
  double warm;
  for (int32_t i = 0; i < n; i++) GA_TRY(time_size(b, bytes[i], all, &warm));
  for (int32_t run = 0; run < b->runs; run++)
    for (int32_t i = 0; i < n; i++) GA_TRY(time_size(b, bytes[i], all, &rounds[i * b->runs + run]));
  for (int32_t i = 0; i < n; i++) {
    double *const of = rounds + i * b->runs;
    qsort(of, (size_t)b->runs, sizeof *of, order_of_seconds);
    seconds[i] = (of[(b->runs - 1) / 2] + of[b->runs / 2]) / 2;
  }
  return GA_OK;
}

static ga_status time_link(link_bench *b, const int64_t *bytes, int32_t n, double *seconds) {
  void *p, *q;
  GA_TRY(open_link_bench(b));
  GA_TRY(check_received(b));
  GA_TRY(ga_mem_alloc((size_t)b->comm->size * sizeof(double), "ranks", &p));
  ga_status status = ga_mem_alloc((size_t)n * (size_t)b->runs * sizeof(double), "times", &q);
  if (status == GA_OK) {
    status = time_rounds(b, bytes, n, p, q, seconds);
    ga_mem_free(q);
  }
  ga_mem_free(p);
  return status == GA_OK ? ga_comm_meet(b->comm, "the end", 0) : status; /* nobody writes to what is freed */
}

/* --- the call --- */

static ga_status check_sizes(const ga_comm *comm, const int64_t *bytes, int32_t n, int32_t runs) {
  GA_REQUIRE(comm->size >= 2, GA_ERR_ARG, "dist: link times of %d rank; at least 2 are needed", comm->size);
  GA_REQUIRE(n >= 1 && n <= MOST_SIZES, GA_ERR_ARG, "dist: link times of %d sizes; must be 1 to %d", n, MOST_SIZES);
  GA_REQUIRE(runs >= 0 && runs <= MOST_RUNS, GA_ERR_ARG, "dist: link times in %d rounds; must be 1 to %d, or 0", runs,
             MOST_RUNS);
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(bytes[i] >= 1 && bytes[i] <= MOST_BYTES, GA_ERR_ARG,
               "dist: link times: size %d is %lld bytes; must be 1 to %lld", i, (long long)bytes[i],
               (long long)MOST_BYTES);
  return GA_OK;
}

/* Ranks that disagree get an error, and wait for nobody. */
static ga_status begin_link_bench(link_bench *b, const char *copies, const int64_t *bytes, int32_t n) {
  const uint64_t sizes = ga_fnv64(GA_FNV64_START + (uint64_t)b->runs, bytes, (size_t)n * sizeof *bytes);
  GA_TRY(ga_comm_meet(b->comm, "sizes and rounds of link times", sizes));
  return b->on_host ? GA_OK : dist_copies_wanted(b->comm, b->ctx->device, copies, &b->wanted);
}

ga_status ga_dist_link_times(ga_comm *comm, ga_ctx *ctx, const ga_dist_link_options *options, const int64_t *bytes,
                             int32_t n, double *seconds, const char **copies) {
  ga_dist_link_options o = GA_DIST_LINK_OPTIONS_INIT;
  GA_REQUIRE(comm && ctx && bytes && seconds, GA_ERR_ARG, "dist: link times: comm, ctx, bytes or seconds is null");
  if (options) GA_TRY(GA_SIZED_TAKE("dist: options", ga_dist_link_options, options, &o));
  GA_TRY(check_sizes(comm, bytes, n, o.runs));
  link_bench b = {.comm = comm,
                  .ctx = ctx,
                  .to = (comm->rank + 1) % comm->size,
                  .from = (comm->rank + comm->size - 1) % comm->size,
                  .runs = o.runs ? o.runs : DEFAULT_RUNS,
                  .on_host = ga_device_in_host_memory(ctx->device)};
  for (int32_t i = 0; i < n; i++)
    if ((size_t)bytes[i] > b.most) b.most = (size_t)bytes[i];
  ga_status status = begin_link_bench(&b, o.copies, bytes, n);
  if (status == GA_OK) status = time_link(&b, bytes, n, seconds);
  if (status != GA_OK) {
    comm->calls->abort(comm, status, ga_error_text()); /* the others wait for this rank */
    if (b.exchange) dist_exchange_abort(b.exchange);
  }
  const dist_copies used = b.memory.copies;
  close_link_bench(&b);
  if (status == GA_OK && copies) *copies = b.on_host ? "" : dist_copies_name(ctx->device, used);
  return status;
}
