/* Sums over the devices of one host: the memory that GPUs map of each other, and sums with a norm in the same
 * launch. */
#ifndef GA_COMM_ALL_REDUCE_H
#define GA_COMM_ALL_REDUCE_H

#include "core/comm.h"
#include "core/ctx.h"
#include "ga/all_reduce.h"
#include "opdef/reduce_windows.h"

struct ga_all_reduce {
  ga_reduce_windows windows; /* must be first: kernels get a pointer to it */
  ga_ctx *ctx;
  ga_comm *comm;
  ga_all_reduce_desc desc;
  /* --- on a GPU --- */
  ga_shared slots[GA_REDUCE_RANKS]; /* of each rank */
  ga_reduce_state *state;           /* device memory */
  ga_function *norm;
  ga_plan *sum_plan; /* planned for max_elements; smaller sums use the same kernel */
};

static inline int64_t reduce_element_bytes(const ga_all_reduce *r) { return r->desc.dtype == GA_F32 ? 4 : 2; }

/* On a CPU: replaces y, which holds the sum of all ranks' x, by its norm. */
void reduce_host_norm(const ga_all_reduce *r, const ga_all_reduce_norm_io *io);

/* Maps the GPUs' memory. All ranks call it. After a failure, reduce_device_close frees the parts that were made. */
GA_NODISCARD ga_status reduce_device_open(ga_all_reduce *r);
void reduce_device_close(ga_all_reduce *r);
/* Returns whether reduce_device_norm also computes the sum of n elements, in one launch. Else y must hold it before. */
bool reduce_device_norm_sums(const ga_all_reduce *r, int64_t n);
GA_NODISCARD ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream);
GA_NODISCARD ga_status reduce_device_check(ga_all_reduce *r, ga_stream *stream);

#endif
