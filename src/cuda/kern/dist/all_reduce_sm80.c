#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/dist/dist.h"
#include "ga/collective.h"
#include "opdef/reduce_windows.h"

static int64_t bytes_of_sum(const ga_collective_desc *d) { return d->n * (d->dtype == GA_F32 ? 4 : 2); }

const char *cuda_all_reduce_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const cuda_reduce_variant *v = k->impl;
  (void)caps;
  if (!(d->flags & GA_COLLECTIVE_WINDOWS)) return "it needs windows of ga_all_reduce_create";
  if (d->dtype != (int32_t)k->dtype[0]) return "it is for another type";
  if (d->ranks > v->ranks) return "it is for fewer ranks";
  return NULL;
}

/* Microseconds: a launch with one wait for the others; a second wait; bytes that a GPU sends (NVLink of an H200). */
#define LAUNCH_US  2.2
#define WAIT_US    1.0
#define SENT_BYTES 370000.0

double cuda_all_reduce_us(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_collective_desc *d = desc;
  const double bytes = (double)bytes_of_sum(d), others = d->ranks - 1;
  (void)k, (void)caps;
  if (bytes_of_sum(d) <= ga_reduce_one_shot_bytes(d->ranks)) return LAUNCH_US + others * bytes / SENT_BYTES;
  return LAUNCH_US + WAIT_US + 2 * others * bytes / d->ranks / SENT_BYTES;
}

/* By the kernel that the windows have; a row that was not chosen has its own. */
static ga_status start_sum(const ga_kernel *k, const ga_reduce_windows *w, const cuda_launch *launch,
                           const ga_kargs_all_reduce *args, ga_stream *stream) {
  ga_launch l = GA_LAUNCH_INIT;
  if (((const cuda_reduce_variant *)k->impl)->ranks != w->sum_ranks) return cuda_enqueue(stream, k, launch, args);
  l.grid[0] = launch->grid[0];
  l.block[0] = launch->block[0];
  l.flags = GA_LAUNCH_DEPENDENT;
  return stream->device->code->launch(w->sum, &l, args, stream);
}

ga_status cuda_all_reduce(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  const ga_reduce_windows *w = (const void *)a->windows;
  const int64_t units = ga_div_up(bytes_of_sum(d), GA_REDUCE_UNIT);
  ga_kargs_all_reduce args = w->args;
  cuda_launch l = {.block = {GA_REDUCE_THREADS, 1, 1}, .dependent = true};
  (void)workspace;
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, GA_REDUCE_UNIT));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, GA_REDUCE_UNIT));
  args.x = a->x, args.y = a->y, args.n = d->n;
  args.two_shot = units > w->one_shot_most;
  const int64_t blocks = ga_div_up(args.two_shot ? ga_div_up(units, args.ranks) : units, GA_REDUCE_THREADS);
  const int64_t most = ga_min_i64(GA_REDUCE_BLOCKS, stream->device->caps.sms); /* so that all are there at once */
  l.grid[0] = (uint32_t)ga_max_i64(1, ga_min_i64(blocks, most)), l.grid[1] = l.grid[2] = 1;
  return start_sum(k, w, &l, &args, stream);
}
