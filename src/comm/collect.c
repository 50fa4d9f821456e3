/* Collectives over any transport. Each is one exchange in which all ranks speak to all others. Sums are made by one
 * rank each, in the order of ranks, so that all ranks have the same bits. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/comm.h"

typedef struct exchange {
  comm_trade *trades; /* [ranks] */
  comm_ticket *tickets;
} exchange;

static ga_status new_exchange(const ga_comm *comm, exchange *x) {
  void *p;
  *x = (exchange){0};
  GA_TRY(ga_mem_zalloc((size_t)comm->size, sizeof *x->trades, "ranks", &p));
  x->trades = p;
  GA_TRY(ga_mem_zalloc(2 * (size_t)comm->size, sizeof *x->tickets, "messages", &p));
  x->tickets = p;
  return GA_OK;
}

static void free_exchange(exchange *x) {
  ga_mem_free(x->trades);
  ga_mem_free(x->tickets);
}

/* Elements [begin, end) of n are those of a rank; n is at most 2^40, and there are at most 4096 ranks. */
static int64_t part_begin(const ga_comm *comm, int64_t n, int32_t rank) { return n * rank / comm->size; }
static int64_t part_size(const ga_comm *comm, int64_t n, int32_t rank) {
  return part_begin(comm, n, rank + 1) - part_begin(comm, n, rank);
}

ga_status ga_comm_all_gather(ga_comm *comm, const void *mine, size_t bytes, void *all) {
  GA_REQUIRE(comm && ((mine && all) || !bytes), GA_ERR_ARG, "comm all_gather: %s is null",
             !comm  ? "comm"
             : mine ? "all"
                    : "mine");
  exchange x;
  ga_status status = new_exchange(comm, &x);
  if (status == GA_OK) {
    unsigned char *to = all;
    for (int32_t r = 0; r < comm->size; r++) x.trades[r] = (comm_trade){mine, to + (size_t)r * bytes, bytes, bytes};
    status = ga_comm_exchange(comm, x.trades, x.tickets);
    if (status == GA_OK && bytes) memmove(to + (size_t)comm->rank * bytes, mine, bytes);
  }
  free_exchange(&x);
  return status;
}

static ga_status check_sum(const char *what, const ga_comm *comm, const void *x, int64_t n) {
  GA_REQUIRE(comm && (x || !n), GA_ERR_ARG, "comm %s: %s is null", what, comm ? "x" : "comm");
  GA_REQUIRE(n >= 0 && n <= (int64_t)1 << 40, GA_ERR_SHAPE, "comm %s: n is %lld; must be 0 to 2^40", what,
             (long long)n);
  return GA_OK;
}

/* In double, in the order of ranks; parts[r]: that of rank r, NULL = x itself. */
static void sum_parts(const ga_comm *comm, const float *own, const float *parts, int64_t n, float *sum) {
  for (int64_t i = 0; i < n; i++) {
    double s = 0;
    for (int32_t r = 0; r < comm->size; r++) s += (double)(r == comm->rank ? own[i] : parts[r * n + i]);
    sum[i] = (float)s;
  }
}

ga_status ga_comm_reduce_scatter(ga_comm *comm, const float *x, int64_t n, float *part) {
  GA_TRY(check_sum("reduce_scatter", comm, x, n));
  const int64_t mine = part_size(comm, n, comm->rank);
  GA_REQUIRE(part || !mine, GA_ERR_ARG, "comm reduce_scatter: part is null");
  exchange e;
  void *parts = NULL;
  ga_status status = new_exchange(comm, &e);
  if (status == GA_OK) status = ga_mem_alloc((size_t)(mine * comm->size) * sizeof(float), "parts of a sum", &parts);
  for (int32_t r = 0; r < comm->size && status == GA_OK; r++)
    e.trades[r] = (comm_trade){n ? x + part_begin(comm, n, r) : NULL, (float *)parts + r * mine,
                               (size_t)part_size(comm, n, r) * sizeof(float), (size_t)mine * sizeof(float)};
  if (status == GA_OK) status = ga_comm_exchange(comm, e.trades, e.tickets);
  if (status == GA_OK && mine) sum_parts(comm, x + part_begin(comm, n, comm->rank), parts, mine, part);
  free_exchange(&e);
  ga_mem_free(parts);
  return status;
}

ga_status ga_comm_all_reduce(ga_comm *comm, float *x, int64_t n) {
  GA_TRY(check_sum("all_reduce", comm, x, n));
  const int64_t mine = part_size(comm, n, comm->rank);
  exchange e;
  void *part = NULL;
  ga_status status = new_exchange(comm, &e);
  if (status == GA_OK) status = ga_mem_alloc((size_t)mine * sizeof(float), "a part of a sum", &part);
  if (status == GA_OK) status = ga_comm_reduce_scatter(comm, x, n, part);
  for (int32_t r = 0; r < comm->size && status == GA_OK; r++)
    e.trades[r] = (comm_trade){part, n ? x + part_begin(comm, n, r) : NULL, (size_t)mine * sizeof(float),
                               (size_t)part_size(comm, n, r) * sizeof(float)};
  if (status == GA_OK) status = ga_comm_exchange(comm, e.trades, e.tickets);
  if (status == GA_OK && mine) memcpy(x + part_begin(comm, n, comm->rank), part, (size_t)mine * sizeof(float));
  free_exchange(&e);
  ga_mem_free(part);
  return status;
}
