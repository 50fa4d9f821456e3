/* ga/all_reduce.h: sums are the op of ga/collective.h; on GPUs the handle has the windows that its rows need. */
#include "comm/all_reduce.h"

#include <math.h>

#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "ga/collective.h"

#define MOST_ELEMENTS ((int64_t)1 << 24)
#define ALIGN         GA_REDUCE_UNIT

static bool is_on_cpu(const ga_ctx *ctx) { return ga_device_in_host_memory(ctx->device); }

static ga_status check_reduce_desc(const ga_all_reduce_desc *d, const ga_comm *comm, const ga_ctx *ctx) {
  GA_REQUIRE(d->max_elements >= 1 && d->max_elements <= MOST_ELEMENTS, GA_ERR_ARG,
             "all_reduce: max_elements is %lld; must be 1 to %lld", (long long)d->max_elements,
             (long long)MOST_ELEMENTS);
  GA_REQUIRE(d->dtype == GA_F32 || d->dtype == GA_F16 || d->dtype == GA_BF16, GA_ERR_DTYPE,
             "all_reduce: dtype is %s; allowed: f32, f16, bf16", ga_dtype_name((ga_dtype)d->dtype));
  GA_REQUIRE(d->flags == 0, GA_ERR_ARG, "all_reduce: flags is 0x%x; must be 0", d->flags);
  GA_REQUIRE(d->timeout == 0 || (d->timeout >= 0.001 && d->timeout <= 3600), GA_ERR_ARG,
             "all_reduce: timeout is %g s; must be 0.001 to 3600, or 0 = that of the communicator", d->timeout);
  GA_REQUIRE(is_on_cpu(ctx) || comm->size <= GA_REDUCE_RANKS, GA_ERR_ARG,
             "all_reduce: the communicator has %d ranks; on %s it must have 1 to %d", comm->size, ctx->device->name,
             GA_REDUCE_RANKS);
  return GA_OK;
}

/* What all ranks must have alike. */
static ga_status agree(const ga_all_reduce *r) {
  const uint64_t host = is_on_cpu(r->ctx);
  return ga_comm_meet(r->comm, "all_reduce: max_elements x 256 + dtype x 2 + is on a CPU",
                      (uint64_t)r->desc.max_elements << 8 | (uint64_t)r->desc.dtype << 1 | host);
}

static ga_collective_desc sum_desc(const ga_all_reduce *r, int64_t n) {
  ga_collective_desc d = GA_COLLECTIVE_DESC_INIT;
  d.kind = GA_ALL_REDUCE, d.n = n, d.dtype = r->desc.dtype, d.ranks = r->comm->size, d.reach = r->comm->reach;
  if (!is_on_cpu(r->ctx)) d.flags = GA_COLLECTIVE_WINDOWS;
  return d;
}

/* On GPUs the plan is that of the handle, so that a stream which its owner records may take sums of a new size. */
static ga_status sum_ranks(ga_all_reduce *r, const void *x, void *y, int64_t n, ga_stream *stream) {
  const ga_collective_desc d = sum_desc(r, n);
  const ga_collective_io io = {.comm = r->comm, .windows = is_on_cpu(r->ctx) ? NULL : r, .x = x, .y = y};
  return r->sum_plan ? ga_plan_steps_launch(&r->sum_plan->steps, &d, &io, NULL, stream)
                     : ga_collective(r->ctx, &d, &io, stream);
}

static ga_status open_reduce(ga_all_reduce *r) {
  GA_TRY(agree(r));
  if (is_on_cpu(r->ctx)) return GA_OK;
  GA_TRY(reduce_device_open(r));
  const ga_collective_desc d = sum_desc(r, r->desc.max_elements);
  GA_TRY(ga_collective_plan(r->ctx, &d, &r->sum_plan));
  GA_TRY(sum_ranks(r, NULL, NULL, 0, r->ctx->stream)); /* the kernel's first launch */
  GA_TRY(ga_stream_sync(r->ctx, NULL));
  return ga_comm_meet(r->comm, "all_reduce: ready", 0); /* nobody writes into a slot that is still being filled */
}

static ga_status create_reduce(const ga_all_reduce_desc *desc, ga_comm *comm, ga_ctx *ctx, ga_all_reduce **out) {
  ga_all_reduce_desc d;
  void *p;
  GA_TRY(GA_SIZED_TAKE("all_reduce: desc", ga_all_reduce_desc, desc, &d));
  GA_TRY(check_reduce_desc(&d, comm, ctx));
  if (d.timeout == 0) d.timeout = fmin(comm->timeout, 3600);
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_all_reduce), "all_reduce", &p));
  ga_all_reduce *r = p;
  *r = (ga_all_reduce){.ctx = ctx, .comm = comm, .desc = d};
  for (int i = 0; i < GA_REDUCE_RANKS; i++) r->slots[i].fd = -1;
  const ga_status status = open_reduce(r);
  if (status == GA_OK)
    *out = r;
  else
    ga_all_reduce_destroy(r);
  return status;
}

ga_status ga_all_reduce_create(const ga_all_reduce_desc *desc, ga_comm *comm, ga_ctx *ctx, ga_all_reduce **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "all_reduce: out is null");
  *out = NULL;
  GA_REQUIRE(desc && comm && ctx, GA_ERR_ARG, "all_reduce: %s is null", !desc ? "desc" : !comm ? "comm" : "ctx");
  const ga_status status = create_reduce(desc, comm, ctx, out);
  if (status != GA_OK) comm->calls->abort(comm, status, ga_error_text()); /* the others wait for this rank */
  return status;
}

void ga_all_reduce_destroy(ga_all_reduce *reduce) {
  if (!reduce) return;
  reduce_device_close(reduce);
  ga_plan_destroy(reduce->sum_plan);
  ga_mem_free(reduce);
}

/* --- calls --- */

static ga_status check_reduce_tensor(const ga_all_reduce *r, const char *name, const void *p, int64_t element_bytes) {
  const int64_t align = is_on_cpu(r->ctx) ? element_bytes : ALIGN;
  GA_REQUIRE(p, GA_ERR_ARG, "all_reduce: %s is null", name);
  GA_REQUIRE((uintptr_t)p % (uintptr_t)align == 0, GA_ERR_ARG,
             "all_reduce: %s is at %p; must be a multiple of %lld bytes", name, p, (long long)align);
  return GA_OK;
}

ga_status ga_all_reduce_run(ga_all_reduce *reduce, const void *x, void *y, int64_t n, ga_stream *stream) {
  GA_REQUIRE(reduce, GA_ERR_ARG, "all_reduce: reduce is null");
  GA_TRY(ga_stream_of(reduce->ctx, stream, "all_reduce", &stream));
  GA_REQUIRE(n >= 0 && n <= reduce->desc.max_elements, GA_ERR_ARG,
             "all_reduce: n is %lld; must be 0 to max_elements, %lld", (long long)n,
             (long long)reduce->desc.max_elements);
  if (n == 0) return GA_OK;
  GA_TRY(check_reduce_tensor(reduce, "x", x, reduce_element_bytes(reduce)));
  GA_TRY(check_reduce_tensor(reduce, "y", y, reduce_element_bytes(reduce)));
  return sum_ranks(reduce, x, y, n, stream);
}

static ga_status check_norm_io(const ga_all_reduce *r, const ga_all_reduce_norm_io *io) {
  const int64_t most = r->desc.max_elements, bytes = reduce_element_bytes(r),
                step = is_on_cpu(r->ctx) ? 1 : ALIGN / bytes;
  GA_REQUIRE(io->rows >= 0 && io->rows <= most, GA_ERR_ARG, "all_reduce: rows is %lld; must be 0 to %lld",
             (long long)io->rows, (long long)most);
  GA_REQUIRE(io->width >= 0 && io->width <= most && io->width % step == 0, GA_ERR_ARG,
             "all_reduce: width is %lld; must be 0 to %lld, a multiple of %lld", (long long)io->width, (long long)most,
             (long long)step);
  GA_REQUIRE(io->rows * io->width <= most, GA_ERR_ARG,
             "all_reduce: rows x width is %lld; must be 0 to max_elements, %lld", (long long)(io->rows * io->width),
             (long long)most);
  GA_REQUIRE(io->eps >= 0 && isfinite(io->eps), GA_ERR_ARG, "all_reduce: eps is %g; must be 0 or more, and finite",
             (double)io->eps);
  GA_REQUIRE(io->reserved == 0, GA_ERR_ARG, "all_reduce: reserved is %d; must be 0", io->reserved);
  if (io->rows * io->width == 0) return GA_OK;
  GA_TRY(check_reduce_tensor(r, "x", io->x, bytes));
  GA_TRY(check_reduce_tensor(r, "residual", io->residual, bytes));
  GA_TRY(check_reduce_tensor(r, "weight", io->weight, 4));
  return check_reduce_tensor(r, "y", io->y, bytes);
}

ga_status ga_all_reduce_norm(ga_all_reduce *reduce, const ga_all_reduce_norm_io *io, ga_stream *stream) {
  GA_REQUIRE(reduce && io, GA_ERR_ARG, "all_reduce: %s is null", reduce ? "io" : "reduce");
  ga_all_reduce_norm_io full;
  GA_TRY(GA_SIZED_TAKE("all_reduce: io", ga_all_reduce_norm_io, io, &full));
  GA_TRY(ga_stream_of(reduce->ctx, stream, "all_reduce", &stream));
  GA_TRY(check_norm_io(reduce, &full));
  if (full.rows * full.width == 0) return GA_OK;
  const int64_t n = full.rows * full.width;
  if (!is_on_cpu(reduce->ctx)) {
    if (!reduce_device_norm_sums(reduce, n)) GA_TRY(sum_ranks(reduce, full.x, full.y, n, stream));
    return reduce_device_norm(reduce, &full, stream);
  }
  GA_TRY(sum_ranks(reduce, full.x, full.y, n, stream));
  reduce_host_norm(reduce, &full);
  return GA_OK;
}

/* Calls on a CPU have told their errors themselves. */
ga_status ga_all_reduce_check(ga_all_reduce *reduce, ga_stream *stream) {
  GA_REQUIRE(reduce, GA_ERR_ARG, "all_reduce: reduce is null");
  GA_TRY(ga_stream_of(reduce->ctx, stream, "all_reduce", &stream));
  return is_on_cpu(reduce->ctx) ? reduce->comm->calls->check(reduce->comm) : reduce_device_check(reduce, stream);
}
