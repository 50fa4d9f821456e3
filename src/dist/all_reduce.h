/* Sums over the devices of one host: what the two ways, by kernels and by messages, share. */
#ifndef GA_DIST_ALL_REDUCE_H
#define GA_DIST_ALL_REDUCE_H

#include "core/ctx.h"
#include "dist/comm.h"
#include "ga/all_reduce.h"
#include "opdef/all_reduce_args.h"

struct ga_all_reduce {
  ga_ctx *ctx;
  ga_comm *comm;
  ga_all_reduce_desc desc;
  /* --- on a CPU --- */
  float *sums; /* [max_elements] */
  /* --- on a GPU --- */
  ga_shared windows[GA_REDUCE_RANKS]; /* slots of each rank */
  ga_reduce_state *state;             /* device memory */
  ga_function *sum, *norm;
  ga_kargs_all_reduce args; /* what is the same in all calls */
  int64_t one_shot_most;    /* units that go in one shot */
};

static inline int64_t reduce_element_bytes(const ga_all_reduce *r) { return r->desc.dtype == GA_F32 ? 4 : 2; }

GA_NODISCARD ga_status reduce_host_run(ga_all_reduce *r, const void *x, void *y, int64_t n);
GA_NODISCARD ga_status reduce_host_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io);

/* All ranks call it. What it has made when it fails is let go by reduce_device_close. */
GA_NODISCARD ga_status reduce_device_open(ga_all_reduce *r);
void reduce_device_close(ga_all_reduce *r);
GA_NODISCARD ga_status reduce_device_run(ga_all_reduce *r, const void *x, void *y, int64_t n, ga_stream *stream);
GA_NODISCARD ga_status reduce_device_norm(ga_all_reduce *r, const ga_all_reduce_norm_io *io, ga_stream *stream);
GA_NODISCARD ga_status reduce_device_check(ga_all_reduce *r, ga_stream *stream);

#endif
