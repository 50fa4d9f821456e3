/* Copies between GPUs, for machines with several:
 * usage: dist_copies DEVICES [WAYS [RUNS [BYTES [TOKENS [HEADS [DIM]]]]]]
 * DEVICES: cuda:0,cuda:1: a process for each. WAYS: peer,host,nccl, as of ga dist --copies.
 *
 * Causal attention (bf16, head dim DIM) of so many tokens and heads again and again, alone and while each rank sends
 * BYTES to the next one and receives as many from the one before: how much longer it takes. Copies alone: `ga dist
 * links`. Medians of RUNS rounds; in each round all take turns. A line of JSON for each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/exchange.h"
#include "comm/rank_memory.h"
#include "core/ctx.h"
#include "ga/attn.h"
#include "ga/comm.h"

enum { WAYS = 3, RUNS = 64, RANKS = 64 };
static const char *const way_names[WAYS] = {"peer", "host", "nccl"};
#define LEAST_BYTES  ((size_t)64 << 10)
#define BYTES_A_TIME ((size_t)512 << 20) /* that are timed as one, but at least 3 copies and at most 256 */
#define BESIDE_LONG  1.5                 /* copies are to go on so much longer than attention alone takes */

typedef struct copy_bench {
  const char *device;
  bool takes[WAYS];
  int runs;
  size_t most;
  int64_t tokens, heads, head_dim;
  int repeats; /* of attention, that are timed as one */
  ga_comm *comm;
  ga_ctx *ctx;
  ga_stream *copies;
  int32_t rank, ranks, to, from;
  unsigned char *send, *receive[WAYS];
  dist_rank_memory memory; /* peer: the rank before writes to the own one */
  dist_exchange *exchange[WAYS];
  void *q, *k, *v, *o;
} copy_bench;

static int order_of_times(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_time(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, order_of_times);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* --- making --- */

/* Uniform bf16 between -1 and 1: power depends on the data. */
static ga_status new_tensor(copy_bench *b, int64_t elements, uint32_t seed, void **out) {
  uint16_t *x = malloc((size_t)elements * 2);
  GA_REQUIRE(x, GA_ERR_NOMEM, "out of memory");
  for (int64_t i = 0; i < elements; i++) {
    seed = seed * 1664525u + 1013904223u;
    const float f = (float)(int32_t)seed * 0x1p-31f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    x[i] = (uint16_t)(bits >> 16);
  }
  ga_status status = ga_buffer_alloc(b->ctx, (size_t)elements * 2, out);
  if (status == GA_OK) status = ga_copy_to_device(b->ctx, *out, x, (size_t)elements * 2, NULL);
  free(x);
  return status;
}

static ga_status open_ways(copy_bench *b) {
  const int64_t n = b->tokens * b->heads * b->head_dim;
  void *p;
  GA_TRY(ga_stream_create(b->ctx, &b->copies));
  GA_TRY(new_tensor(b, (int64_t)(b->most / 2), (uint32_t)b->rank + 1, &p));
  b->send = p;
  for (int w = 0; w < WAYS; w++) {
    if (!b->takes[w]) continue;
    if (w == 0) {
      GA_TRY(dist_rank_memory_open(b->comm, b->ctx->device, b->most, DIST_COPIES_PEER, &b->memory));
      continue;
    }
    GA_TRY(ga_buffer_alloc(b->ctx, b->most, &p));
    b->receive[w] = p;
    GA_TRY(dist_exchange_create(b->ctx, b->comm, w == 1 ? DIST_COPIES_HOST : DIST_COPIES_LINK, NULL, &b->exchange[w]));
  }
  GA_TRY(new_tensor(b, n, 100, &b->q));
  GA_TRY(new_tensor(b, n, 200, &b->k));
  GA_TRY(new_tensor(b, n, 300, &b->v));
  return ga_buffer_alloc(b->ctx, (size_t)n * 2, &b->o);
}

/* Others may have failed: nobody waits for them. */
static void close_ways(copy_bench *b) {
  void *const all[] = {b->send, b->receive[1], b->receive[2], b->q, b->k, b->v, b->o};
  for (int w = 0; w < WAYS; w++) dist_exchange_destroy(b->exchange[w]);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) ga_buffer_free(b->ctx, all[i]);
  dist_rank_memory_close(&b->memory);
  ga_stream_destroy(b->copies);
}

/* --- work --- */

static ga_status copy_once(const copy_bench *b, int way, size_t bytes) {
  const ga_link_message m[2] = {{b->to, true, b->send, bytes}, {b->from, false, b->receive[way], bytes}};
  if (way) return dist_exchange_run(b->exchange[way], b->copies, m, 2);
  return b->ctx->device->ops->copy_within(b->copies, b->memory.of[b->to].data, b->send, bytes);
}

static ga_status enqueue_attention(const copy_bench *b) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = b->tokens, d.q_heads = d.kv_heads = (int32_t)b->heads,
  d.head_dim = d.v_dim = (int32_t)b->head_dim;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16, d.flags = GA_ATTN_CAUSAL;
  const ga_attn_io io = {.q = b->q, .k = b->k, .v = b->v, .o = b->o};
  for (int i = 0; i < b->repeats; i++) GA_TRY(ga_attn(b->ctx, &d, &io, NULL));
  return GA_OK;
}

/* The largest of all ranks. */
static ga_status slowest_rank(const copy_bench *b, double *x) {
  double all[RANKS];
  GA_TRY(ga_comm_all_gather(b->comm, x, sizeof *x, all));
  for (int32_t r = 0; r < b->ranks; r++) *x = fmax(*x, all[r]);
  return GA_OK;
}

static int copies_of(size_t bytes) {
  const size_t n = BYTES_A_TIME / bytes;
  return n < 3 ? 3 : n > 256 ? 256 : (int)n;
}

/* Seconds of a copy. */
static ga_status time_copies(const copy_bench *b, int way, size_t bytes, double *seconds) {
  const int n = copies_of(bytes);
  GA_TRY(ga_comm_meet(b->comm, "copies", bytes));
  const double begin = ga_seconds();
  for (int i = 0; i < n; i++) GA_TRY(copy_once(b, way, bytes));
  GA_TRY(ga_stream_sync(b->ctx, b->copies));
  *seconds = (ga_seconds() - begin) / n;
  return slowest_rank(b, seconds);
}

static ga_status look_for_end(const copy_bench *b, double begin, double *end) {
  bool done;
  if (*end > 0) return GA_OK;
  GA_TRY(b->ctx->device->ops->stream_query(b->ctx->stream, &done));
  if (done) *end = ga_seconds() - begin;
  return GA_OK;
}

/* way: -1 = alone. Seconds of attention, and of n copies. */
static ga_status time_beside(const copy_bench *b, int way, int n, double *attention, double *copies) {
  const size_t bytes = b->most;
  *attention = 0;
  GA_TRY(ga_comm_meet(b->comm, "attention", (uint64_t)n));
  const double begin = ga_seconds();
  GA_TRY(enqueue_attention(b));
  for (int i = 0; i < n && way >= 0; i++) {
    GA_TRY(copy_once(b, way, bytes));
    GA_TRY(look_for_end(b, begin, attention));
  }
  while (*attention == 0) GA_TRY(look_for_end(b, begin, attention));
  GA_TRY(ga_stream_sync(b->ctx, b->copies));
  *copies = ga_seconds() - begin;
  GA_TRY(slowest_rank(b, copies));
  return slowest_rank(b, attention);
}

/* --- tables --- */

static ga_status bench_beside(copy_bench *b) {
  static double alone[RUNS], beside[WAYS][RUNS], copies[WAYS][RUNS], slower[WAYS][RUNS];
  const size_t bytes = b->most;
  int n[WAYS] = {0};
  double t, none;
  GA_TRY(time_beside(b, -1, 0, &t, &none));
  GA_TRY(time_beside(b, -1, 0, &t, &none));
  for (int w = 0; w < WAYS; w++) {
    double each;
    if (!b->takes[w]) continue;
    GA_TRY(time_copies(b, w, bytes, &each));
    n[w] = (int)ceil(BESIDE_LONG * t / each);
  }
  for (int run = 0; run < b->runs; run++) {
    GA_TRY(time_beside(b, -1, 0, &alone[run], &none));
    for (int w = 0; w < WAYS; w++) {
      if (!b->takes[w]) continue;
      GA_TRY(time_beside(b, w, n[w], &beside[w][run], &copies[w][run]));
      slower[w][run] = beside[w][run] / alone[run] - 1;
    }
  }
  for (int w = 0; w < WAYS && b->rank == 0; w++) {
    if (!b->takes[w]) continue;
    int covered = 0; /* copies went on to its end */
    for (int run = 0; run < b->runs; run++) covered += copies[w][run] >= beside[w][run];
    const double s = median_time(slower[w], b->runs), c = median_time(copies[w], b->runs);
    printf("{\"copies\": \"%s\", \"tokens\": %lld, \"heads\": %lld, \"ms_beside\": %.3f, \"slower\": %.4f, "
           "\"slower_least\": %.4f, \"slower_most\": %.4f, \"bytes\": %zu, \"gbytes_beside\": %.2f, \"covered\": "
           "%d, \"rounds\": %d}\n",
           way_names[w], (long long)b->tokens, (long long)b->heads, median_time(beside[w], b->runs) * 1e3 / b->repeats,
           s, slower[w][0], slower[w][b->runs - 1], bytes, (double)bytes * n[w] / c * 1e-9, covered, b->runs);
  }
  if (b->rank == 0)
    printf("{\"copies\": \"none\", \"tokens\": %lld, \"heads\": %lld, \"ms\": %.3f}\n", (long long)b->tokens,
           (long long)b->heads, median_time(alone, b->runs) * 1e3 / b->repeats);
  return GA_OK;
}

static ga_status live(copy_bench *b, const char *run) {
  ga_comm_process_options o = GA_COMM_PROCESS_OPTIONS_INIT;
  ga_ctx_options c = GA_CTX_OPTIONS_INIT;
  o.rank = b->rank, o.ranks = b->ranks, o.run = run, o.timeout = 60;
  c.device = b->device;
  GA_TRY(ga_comm_processes_create(&o, &b->comm));
  ga_status status = ga_ctx_create(&c, &b->ctx);
  if (status == GA_OK) status = open_ways(b);
  if (status == GA_OK) status = bench_beside(b);
  if (status == GA_OK) status = ga_comm_meet(b->comm, "the end", 0);
  if (status != GA_OK) {
    fprintf(stderr, "dist_copies: rank %d: %s\n", b->rank, ga_error_text());
    ga_comm_abort(b->comm, ga_error_text());
  }
  for (int w = 0; w < WAYS && status != GA_OK; w++)
    if (b->exchange[w]) dist_exchange_abort(b->exchange[w]);
  if (b->ctx) close_ways(b);
  ga_ctx_destroy(b->ctx);
  ga_comm_destroy(b->comm);
  return status;
}

static int read_arguments(int argc, char **argv, copy_bench *b) {
  const char *ways = argc > 2 ? argv[2] : "peer,host,nccl";
  b->runs = argc > 3 ? atoi(argv[3]) : 7;
  b->most = argc > 4 ? strtoull(argv[4], NULL, 10) : (size_t)16 << 20;
  b->tokens = argc > 5 ? atoll(argv[5]) : 16384;
  b->heads = argc > 6 ? atoll(argv[6]) : 16;
  b->head_dim = argc > 7 ? atoll(argv[7]) : 128;
  b->repeats = b->tokens >= 1024 ? 20 : 1;
  for (int w = 0; w < WAYS; w++) b->takes[w] = strstr(ways, way_names[w]) != NULL;
  if (argc >= 2 && b->runs >= 1 && b->runs <= RUNS && b->most >= LEAST_BYTES && b->most <= (size_t)1 << 32 &&
      b->tokens > 0 && b->heads > 0)
    return 0;
  fprintf(stderr,
          "usage: dist_copies DEVICE,DEVICE[,...] [WAYS [RUNS [BYTES [TOKENS [HEADS [DIM]]]]]]; RUNS: 1 to %d; BYTES: "
          "65536 to 4294967296\n",
          RUNS);
  return 2;
}

int main(int argc, char **argv) {
  copy_bench b = {.runs = 0};
  char run[48], *names[RANKS];
  int failed = read_arguments(argc, argv, &b);
  if (failed) return failed;
  for (char *p = strtok(argv[1], ","); p && b.ranks < RANKS; p = strtok(NULL, ",")) names[b.ranks++] = p;
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  (void)snprintf(run, sizeof run, "dist-copies-%d", (int)getpid());
  for (b.rank = 0; b.rank < b.ranks; b.rank++) {
    b.device = names[b.rank], b.to = (b.rank + 1) % b.ranks, b.from = (b.rank + b.ranks - 1) % b.ranks;
    if (fork() == 0) return live(&b, run) == GA_OK ? 0 : 1;
  }
  for (int32_t r = 0, status; r < b.ranks; r++) failed |= wait(&status) < 0 || status != 0;
  return failed;
}
