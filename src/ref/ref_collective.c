/* Collectives, as simple as can be: every rank gets what all ranks gave, and takes its part of it. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/collective.h"
#include "ref/ref.h"

/* all = x of all ranks, [ranks, rows, n], from ga_mem_alloc. A rank without an x gives zeros. */
static ga_status gather_inputs(const ga_collective_desc *d, const ga_collective_io *io, int64_t rows, char **all) {
  const size_t bytes = (size_t)(rows * d->n) * (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)d->ranks, bytes ? bytes : 1, "what all ranks gave", &p));
  *all = p;
  const void *mine = io->x ? io->x : *all + (size_t)ga_comm_rank(io->comm) * bytes;
  const ga_status status = ga_comm_all_gather(io->comm, mine, bytes, *all);
  if (status != GA_OK) ga_mem_free(p);
  return status;
}

/* y[n] = the sum over ranks of x[ranks, rows, n] at row `row`: in double, in the order of ranks, rounded at the end. */
static void sum_rows(const ga_collective_desc *d, const void *x, int64_t rows, int64_t row, void *y) {
  const ga_dtype t = (ga_dtype)d->dtype;
  for (int64_t i = 0; i < d->n; i++) {
    double sum = 0;
    for (int64_t r = 0; r < d->ranks; r++) sum += ga_ref_load(t, x, (r * rows + row) * d->n + i);
    ga_ref_store(t, y, i, sum);
  }
}

/* Row `to` of y = row `from` of x; rows have n elements. */
static void copy_rank_row(const ga_collective_desc *d, const void *x, int64_t from, void *y, int64_t to) {
  const size_t bytes = (size_t)d->n * (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  if (bytes) memcpy((char *)y + (size_t)to * bytes, (const char *)x + (size_t)from * bytes, bytes);
}

ga_status ga_ref_all_reduce(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_collective_io *a = io;
  char *all;
  GA_TRY(gather_inputs(desc, a, 1, &all));
  sum_rows(desc, all, 1, 0, a->y);
  ga_mem_free(all);
  return GA_OK;
}

ga_status ga_ref_reduce_scatter(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  char *all;
  GA_TRY(gather_inputs(d, a, d->ranks, &all));
  sum_rows(d, all, d->ranks, ga_comm_rank(a->comm), a->y);
  ga_mem_free(all);
  return GA_OK;
}

ga_status ga_ref_all_gather(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  char *all;
  GA_TRY(gather_inputs(d, a, 1, &all));
  for (int64_t r = 0; r < d->ranks; r++) copy_rank_row(d, all, r, a->y, r);
  ga_mem_free(all);
  return GA_OK;
}

ga_status ga_ref_all_to_all(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_collective_desc *d = desc;
  const ga_collective_io *a = io;
  char *all;
  GA_TRY(gather_inputs(d, a, d->ranks, &all));
  for (int64_t r = 0; r < d->ranks; r++) copy_rank_row(d, all, r * d->ranks + ga_comm_rank(a->comm), a->y, r);
  ga_mem_free(all);
  return GA_OK;
}

ga_status ga_ref_send_recv(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_collective_io *a = io;
  char *all;
  GA_TRY(gather_inputs(desc, a, 1, &all));
  if (a->from >= 0) copy_rank_row(desc, all, a->from, a->y, 0);
  ga_mem_free(all);
  return GA_OK;
}
