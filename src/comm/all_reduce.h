/* Sums over the devices of one host: the memory that GPUs map, and the norm that goes with a sum. */
#ifndef GA_COMM_ALL_REDUCE_H
#define GA_COMM_ALL_REDUCE_H

#include "core/comm.h"
#include "core/ctx.h"
#include "ga/all_reduce.h"
#include "opdef/reduce_windows.h"

struct ga_all_reduce {
  ga_reduce_windows windows; /* first: rows of the table see this alone */
  ga_ctx *ctx;
  ga_comm *comm;
  ga_all_reduce_desc desc;
  /* --- on a GPU --- */
  ga_shared slots[GA_REDUCE_RANKS]; /* of each rank */
  ga_reduce_state *state;           /* device memory */
  ga_function *norm;
  ga_plan *sum_plan; /* of max_elements: smaller sums take the same row */
};

static inline int64_t reduce_element_bytes(const ga_all_reduce *r) { return r->desc.dtype == GA_F32 ? 4 : 2; }

/* On a CPU: y is the sum of all ranks' x, and becomes the norm. */
void reduce_host_norm(const ga_all_reduce *r, const ga_all_reduce_norm_io *io);

/* All ranks call it. What it has made when it fails is let go by reduce_device_close. */
GA_NODISCARD ga_status reduce_device_open(ga_all_reduce *r);
void reduce_device_close(ga_all_reduce *r);
/* The norm of so many elements is one launch with the sum; else y must have the sum first. */
bool reduce_device_norm_sums(const ga_all_reduce *r, int64_t n);
GA_NODISCARD ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream);
GA_NODISCARD ga_status reduce_device_check(ga_all_reduce *r, ga_stream *stream);

#endif
