/* Each collective begins with a header from every rank to every other: what it is about to do, and where its x is. A
 * rank that differs makes all ranks return the same error before any array is read.
 *
 *   messages   headers, then one exchange with all ranks. An all_reduce: parts of x, their sums, a second exchange
 *   shared     a meeting that trades headers, reading of all ranks' x, a meeting: x may change again.
 *              A long all_reduce: each rank sums a part into its workspace, a meeting, all read the sums, a meeting
 */
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/status.h"
#include "core/comm.h"
#include "cpu/cpu_kernels.h"
#include "ga/collective.h"

/* One rank's call. The workspace holds what the pointers show, then the numbers of the row. */
typedef struct cpu_collective {
  const ga_collective_desc *d;
  const ga_collective_io *io;
  ga_comm *comm;
  ga_op op;
  size_t element, row; /* bytes of an element, of n of them */
  comm_call *headers;
  comm_trade *trades;
  comm_ticket *tickets;
  const void **parts; /* [ranks] terms of a sum */
  unsigned char *numbers;
} cpu_collective;

static size_t plain_bytes(const ga_collective_desc *d) { return d->dtype == GA_F32 ? 4 : 2; }

static uint64_t lists_bytes(int32_t ranks) {
  return ga_round_up(
      (uint64_t)ranks * (sizeof(comm_call) + sizeof(comm_trade) + 2 * sizeof(comm_ticket) + sizeof(const void *)), 64);
}

static cpu_collective open_call(const ga_kernel *kernel, const void *desc, const void *io, void *workspace) {
  const ga_collective_desc *d = desc;
  const size_t ranks = (size_t)d->ranks;
  cpu_collective c = {.d = d, .io = io, .op = kernel->op, .element = plain_bytes(d)};
  c.comm = c.io->comm;
  c.row = (size_t)d->n * c.element;
  c.headers = workspace;
  c.trades = (comm_trade *)(c.headers + ranks);
  c.tickets = (comm_ticket *)(c.trades + ranks);
  c.parts = (const void **)(c.tickets + 2 * ranks);
  c.numbers = (unsigned char *)workspace + lists_bytes(d->ranks);
  return c;
}

/* --- headers --- */

static comm_call call_to_announce(const cpu_collective *c) {
  return (comm_call){.n = c->d->n, .op = (int32_t)c->op, .dtype = c->d->dtype, .x = c->io->x, .workspace = c->numbers};
}

static ga_status trade_headers(cpu_collective *c) {
  comm_call *mine = &c->headers[c->comm->rank];
  *mine = call_to_announce(c);
  for (int32_t r = 0; r < c->d->ranks; r++)
    c->trades[r] = (comm_trade){mine, &c->headers[r], sizeof *mine, sizeof *mine};
  GA_TRY(ga_comm_exchange(c->comm, c->trades, c->tickets));
  return comm_compare_calls(c->headers, c->d->ranks);
}

/* --- sums --- */

#define AT_ONCE 256 /* elements that are summed in doubles on the stack */

static void add_numbers(int32_t dtype, const void *x, int64_t at, int64_t n, double *sum) {
  const float *f = (const float *)x + at;
  const uint16_t *h = (const uint16_t *)x + at;
  if (dtype == GA_F32)
    for (int64_t i = 0; i < n; i++) sum[i] += (double)f[i];
  else if (dtype == GA_BF16)
    for (int64_t i = 0; i < n; i++) sum[i] += (double)ga_bf16_to_f32(h[i]);
  else
    for (int64_t i = 0; i < n; i++) sum[i] += (double)ga_f16_to_f32(h[i]);
}

static void put_numbers(int32_t dtype, const double *sum, int64_t at, int64_t n, void *y) {
  float *f = (float *)y + at;
  uint16_t *h = (uint16_t *)y + at;
  if (dtype == GA_F32)
    for (int64_t i = 0; i < n; i++) f[i] = (float)sum[i];
  else if (dtype == GA_BF16)
    for (int64_t i = 0; i < n; i++) h[i] = ga_f32_to_bf16((float)sum[i]);
  else
    for (int64_t i = 0; i < n; i++) h[i] = ga_f32_to_f16((float)sum[i]);
}

/* y[n] = the sum of parts[ranks], each [n], in the order of ranks. y may be one of them. */
static void sum_numbers(const cpu_collective *c, int64_t n, void *y) {
  for (int64_t at = 0; at < n; at += AT_ONCE) {
    const int64_t some = ga_min_i64(AT_ONCE, n - at);
    double sum[AT_ONCE] = {0};
    for (int32_t r = 0; r < c->d->ranks; r++) add_numbers(c->d->dtype, c->parts[r], at, some, sum);
    put_numbers(c->d->dtype, sum, at, some, y);
  }
}

/* --- messages --- */

/* Elements [first_of_part(rank), first_of_part(rank + 1)) of n are summed by that rank: n is at most 2^40. */
static int64_t first_of_part(const ga_collective_desc *d, int32_t rank) { return d->n * rank / d->ranks; }
static size_t part_at(const cpu_collective *c, int32_t rank) { return (size_t)first_of_part(c->d, rank) * c->element; }
static size_t part_bytes(const cpu_collective *c, int32_t rank) { return part_at(c, rank + 1) - part_at(c, rank); }

static ga_status reduce_by_messages(cpu_collective *c) {
  const int32_t me = c->comm->rank;
  const unsigned char *x = c->io->x;
  unsigned char *y = c->io->y;
  const size_t mine = part_bytes(c, me);
  for (int32_t r = 0; r < c->d->ranks; r++) {
    unsigned char *part = c->numbers + (size_t)r * mine;
    c->trades[r] = (comm_trade){x + part_at(c, r), part, part_bytes(c, r), mine};
    c->parts[r] = r == me ? x + part_at(c, me) : part;
  }
  GA_TRY(ga_comm_exchange(c->comm, c->trades, c->tickets));
  sum_numbers(c, (int64_t)(mine / c->element), y + part_at(c, me));
  for (int32_t r = 0; r < c->d->ranks; r++)
    c->trades[r] = (comm_trade){y + part_at(c, me), y + part_at(c, r), mine, part_bytes(c, r)};
  return ga_comm_exchange(c->comm, c->trades, c->tickets);
}

static ga_status scatter_by_messages(cpu_collective *c) {
  const unsigned char *x = c->io->x;
  for (int32_t r = 0; r < c->d->ranks; r++) {
    unsigned char *part = c->numbers + (size_t)r * c->row;
    c->trades[r] = (comm_trade){x + (size_t)r * c->row, part, c->row, c->row};
    c->parts[r] = r == c->comm->rank ? x + (size_t)r * c->row : part;
  }
  GA_TRY(ga_comm_exchange(c->comm, c->trades, c->tickets));
  sum_numbers(c, c->d->n, c->io->y);
  return GA_OK;
}

/* step: bytes from what goes to one rank to what goes to the next. */
static ga_status copy_by_messages(cpu_collective *c, size_t step) {
  const unsigned char *x = c->io->x;
  unsigned char *y = c->io->y;
  const size_t me = (size_t)c->comm->rank;
  for (size_t r = 0; r < (size_t)c->d->ranks; r++)
    c->trades[r] = (comm_trade){x + r * step, y + r * c->row, c->row, c->row};
  GA_TRY(ga_comm_exchange(c->comm, c->trades, c->tickets));
  if (c->row) memmove(y + me * c->row, x + me * step, c->row);
  return GA_OK;
}

static ga_status post_send_recv(cpu_collective *c, int *n) {
  const ga_collective_io *io = c->io;
  if (io->from >= 0) GA_TRY(c->comm->calls->receive(c->comm, io->from, io->y, c->row, &c->tickets[(*n)++]));
  if (io->to >= 0) GA_TRY(c->comm->calls->send(c->comm, io->to, io->x, c->row, &c->tickets[(*n)++]));
  for (int i = 0; i < *n; i++) GA_TRY(c->comm->calls->wait(c->comm, &c->tickets[i]));
  return GA_OK;
}

static ga_status send_and_receive(cpu_collective *c) {
  int n = 0;
  const ga_status status = post_send_recv(c, &n);
  if (status != GA_OK) c->comm->calls->abort(c->comm, status, ga_error_text());
  return status;
}

/* An output that may be half written becomes zeros. */
static ga_status zero_after(const cpu_collective *c, ga_status status) {
  const bool has_rows = c->op == GA_OP_all_gather || c->op == GA_OP_all_to_all;
  const bool has_y = c->row && (c->op != GA_OP_send_recv || c->io->from >= 0);
  if (status != GA_OK && has_y) memset(c->io->y, 0, c->row * (has_rows ? (size_t)c->d->ranks : 1));
  return status;
}

static ga_status run_messages(cpu_collective *c) {
  if (c->op == GA_OP_all_reduce) return reduce_by_messages(c);
  if (c->op == GA_OP_reduce_scatter) return scatter_by_messages(c);
  if (c->op == GA_OP_send_recv) return send_and_receive(c);
  return copy_by_messages(c, c->op == GA_OP_all_to_all ? c->row : 0);
}

ga_status ga_cpu_collective_messages(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                     ga_stream *stream) {
  (void)stream;
  cpu_collective c = open_call(kernel, desc, io, workspace);
  if (c.op != GA_OP_send_recv) GA_TRY(trade_headers(&c));
  return zero_after(&c, run_messages(&c));
}

const char *ga_cpu_collective_messages_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  (void)kernel, (void)caps;
  return d->flags ? "windows and links are of GPUs" : NULL;
}

uint64_t ga_cpu_collective_messages_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  (void)caps;
  uint64_t elements = 0;
  if (kernel->op == GA_OP_all_reduce) elements = (uint64_t)ga_div_up(d->n, d->ranks) * (uint64_t)d->ranks;
  if (kernel->op == GA_OP_reduce_scatter) elements = (uint64_t)d->n * (uint64_t)d->ranks;
  return lists_bytes(d->ranks) + elements * plain_bytes(d);
}

/* --- shared memory --- */

/* Elements up to which each rank sums all of an all_reduce itself: a meeting less. */
#define WHOLE_SUM_MOST 16384

static bool sums_parts(const ga_collective_desc *d) { return d->n > WHOLE_SUM_MOST && d->ranks > 1; }

/* Elements from `at` on of the sum of all ranks' x. */
static void sum_shared(cpu_collective *c, size_t at, int64_t n, void *y) {
  for (int32_t r = 0; r < c->d->ranks; r++) c->parts[r] = (const unsigned char *)c->headers[r].x + at;
  sum_numbers(c, n, y);
}

/* Other ranks still read x while the sum is made: what goes to x is in the workspace first. */
static bool is_in_place(const cpu_collective *c) { return c->op == GA_OP_all_reduce && c->io->x == c->io->y; }

static void gather_sums(const cpu_collective *c) {
  for (int32_t r = 0; r < c->d->ranks; r++)
    memcpy((unsigned char *)c->io->y + part_at(c, r), c->headers[r].workspace, part_bytes(c, r));
}

static void copy_shared(cpu_collective *c) {
  const size_t at = c->op == GA_OP_all_to_all ? (size_t)c->comm->rank * c->row : 0;
  unsigned char *y = c->io->y;
  for (int32_t r = 0; r < c->d->ranks && c->row; r++) {
    const unsigned char *x = (const unsigned char *)c->headers[r].x + at;
    if (x != y + (size_t)r * c->row) memcpy(y + (size_t)r * c->row, x, c->row);
  }
}

/* Copies or sums the inputs of all ranks, between the trade of headers and the first meeting. */
static void read_inputs(cpu_collective *c) {
  const int32_t me = c->comm->rank;
  if (c->op == GA_OP_reduce_scatter)
    sum_shared(c, (size_t)me * c->row, c->d->n, c->io->y);
  else if (c->op != GA_OP_all_reduce)
    copy_shared(c);
  else if (sums_parts(c->d))
    sum_shared(c, part_at(c, me), (int64_t)(part_bytes(c, me) / c->element), c->numbers);
  else
    sum_shared(c, 0, c->d->n, is_in_place(c) ? c->numbers : c->io->y);
}

static ga_status end_shared_reading(const cpu_collective *c) {
  c->comm->calls->end_reading(c->comm);
  return c->comm->calls->meet(c->comm, "the end of a collective", 0);
}

/* From when the headers are out other ranks may read, until all have met, or until none reads after an error. */
static ga_status read_shared(cpu_collective *c) {
  GA_TRY(c->comm->calls->begin_reading(c->comm));
  read_inputs(c);
  GA_TRY(end_shared_reading(c));
  if (c->op != GA_OP_all_reduce || !c->row) return GA_OK;
  if (!sums_parts(c->d)) {
    if (is_in_place(c)) memcpy(c->io->y, c->numbers, c->row);
    return GA_OK;
  }
  GA_TRY(c->comm->calls->begin_reading(c->comm));
  gather_sums(c);
  return end_shared_reading(c);
}

ga_status ga_cpu_collective_shared(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                   ga_stream *stream) {
  (void)stream;
  cpu_collective c = open_call(kernel, desc, io, workspace);
  const comm_call mine = call_to_announce(&c);
  ga_status status = c.comm->calls->trade_calls(c.comm, &mine, c.headers);
  if (status == GA_OK) status = comm_compare_calls(c.headers, c.d->ranks);
  const bool agreed = status == GA_OK;
  if (agreed) status = read_shared(&c);
  if (status != GA_OK) c.comm->calls->await_readers(c.comm);
  return agreed ? zero_after(&c, status) : status;
}

const char *ga_cpu_collective_shared_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  if (!(d->reach & GA_COMM_SAME_MEMORY)) return "ranks do not read each other's memory";
  return ga_cpu_collective_messages_ok(kernel, desc, caps);
}

/* Room for the sum of an all_reduce. */
uint64_t ga_cpu_collective_shared_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  (void)caps;
  return lists_bytes(d->ranks) + (kernel->op == GA_OP_all_reduce ? (uint64_t)d->n * plain_bytes(d) : 0);
}

/* --- predicted time --- */

/* Microseconds, of ranks that are threads of a server with two H200 (docs/results/distributed.md): for another rank to
 * wake; for a number to be moved, to be added. */
#define WAKE_US 8.0
#define MOVE_US 0.0005
#define ADD_US  0.0006

/* A meeting: ranks wake one after another. */
static double meeting_us(const ga_collective_desc *d) { return WAKE_US * (d->ranks - 1); }
/* An exchange: each rank hears from all others, and each message wakes all that wait. */
static double exchange_us(const ga_collective_desc *d) { return meeting_us(d) * d->ranks / 2; }

double ga_cpu_collective_messages_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const double n = (double)d->n, rows = n * d->ranks;
  (void)caps;
  if (kernel->op == GA_OP_send_recv) return WAKE_US + n * MOVE_US;
  if (kernel->op == GA_OP_all_reduce) return 3 * exchange_us(d) + n * (2 * MOVE_US + ADD_US);
  return 2 * exchange_us(d) + rows * (kernel->op == GA_OP_reduce_scatter ? MOVE_US + ADD_US : MOVE_US);
}

double ga_cpu_collective_shared_us(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const double n = (double)d->n, rows = n * d->ranks;
  (void)caps;
  if (kernel->op == GA_OP_all_reduce && sums_parts(d)) return 3 * meeting_us(d) + n * (ADD_US + MOVE_US);
  return 2 * meeting_us(d) +
         rows * (kernel->op == GA_OP_all_reduce || kernel->op == GA_OP_reduce_scatter ? ADD_US : MOVE_US);
}
