/* Sums (all-reduce) over the devices of one host, which map each other's memory. A norm may follow the sum in the same
 * launch. */
#ifndef GA_COMM_ALL_REDUCE_H
#define GA_COMM_ALL_REDUCE_H

#include "core/comm.h"
#include "core/ctx.h"
#include "ga/all_reduce.h"
#include "opdef/reduce_windows.h"

struct ga_all_reduce {
  /* Memory of the GPUs, as kernels use it. It must be the first field, because kernels get a pointer to it. */
  ga_reduce_windows windows;
  ga_ctx *ctx;
  ga_comm *comm;
  ga_all_reduce_desc desc;
  /* --- used on a GPU only --- */
  /* Memory of each rank that the other ranks write messages to, [ranks]. */
  ga_shared slots[GA_REDUCE_RANKS];
  ga_reduce_state *state; /* State that kernels keep between calls, in device memory. */
  ga_function *norm;
  ga_plan *sum_plan; /* Plan for a sum of max_elements elements. Smaller sums use the same kernel. */
};

static inline int64_t reduce_element_bytes(const ga_all_reduce *r) { return r->desc.dtype == GA_F32 ? 4 : 2; }

/* Replaces io->y, which holds the sum of all ranks' x, by its norm. Runs on the CPU. */
void reduce_host_norm(const ga_all_reduce *r, const ga_all_reduce_norm_io *io);

/* Maps the memory of the ranks' GPUs. All ranks call it. After a failure, reduce_device_close frees the parts that were
 * allocated. */
GA_NODISCARD ga_status reduce_device_open(ga_all_reduce *r);
void reduce_device_close(ga_all_reduce *r);
/* Returns whether reduce_device_norm also computes the sum of n elements, in one launch. If not, io->y must hold the
 * sum before reduce_device_norm is called. */
bool reduce_device_norm_sums(const ga_all_reduce *r, int64_t n);
GA_NODISCARD ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream);
GA_NODISCARD ga_status reduce_device_check(ga_all_reduce *r, ga_stream *stream);

#endif
