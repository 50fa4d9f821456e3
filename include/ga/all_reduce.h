/* GA, sums over the GPUs of one host: the all-reduce of tensor parallelism, a few microseconds for kilobytes.
 *
 * Each rank, a thread or a process of the host, has a GPU (a context) and an end of a communicator. A kernel writes to
 * the memory of the other GPUs, and waits in its own GPU's memory for their data; the host takes no part. On a CPU
 * context the same calls exchange messages of the communicator, and their work is done when they return.
 *
 * Sums are made in f32, in the order of ranks, and rounded once (on a CPU context in double, to f32, and then to the
 * type): all ranks get the same bits. A negative zero may become a positive one.
 */
#ifndef GA_ALL_REDUCE_H
#define GA_ALL_REDUCE_H

#include "ga/comm.h"
#include "ga/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ga_all_reduce ga_all_reduce;

typedef struct ga_all_reduce_desc {
  size_t struct_size;
  int64_t max_elements; /* largest number of elements in one call, 1 to 2^24 */
  int32_t dtype;        /* GA_F32, GA_F16 or GA_BF16 */
  uint32_t flags;       /* must be 0 */
  /* seconds that a GPU waits for another rank's numbers, 0.001 to 3600; 0 = the communicator's timeout */
  double timeout;
} ga_all_reduce_desc;
#define GA_ALL_REDUCE_DESC_INIT \
  { sizeof(ga_all_reduce_desc), 0, GA_BF16, 0, 0.0 }

/* Creates this rank's part of an all-reduce. All ranks of comm call it with equal descriptions; GA_ERR_COMM names ranks
 * whose descriptions differ. On GPUs comm has at most 8 ranks. Each rank has its own context, and on GPUs its own GPU,
 * since the kernels of all ranks must run at the same time. comm and ctx must outlive *out. On a GPU each rank
 * allocates three slots for arriving data. A slot has room for 2 x max_elements elements. Small calls, in which each
 * rank adds up all elements itself, may need more: ranks x the elements of the largest such call. */
GA_API GA_NODISCARD ga_status ga_all_reduce_create(const ga_all_reduce_desc *desc, ga_comm *comm, ga_ctx *ctx,
                                                   ga_all_reduce **out);
/* Destroys this rank's part of the all-reduce. Each rank calls it, once its streams have finished the work that the
 * part enqueued. NULL is fine. */
GA_API void ga_all_reduce_destroy(ga_all_reduce *reduce);

/* Computes y[n] = the sum of all ranks' x[n]; y may be x. n is 0 to max_elements, the same on all ranks. On GPUs the
 * addresses x and y must be multiples of 16. On GPUs the call only enqueues, and may be recorded in a graph that is
 * launched repeatedly. All ranks enqueue the same calls in the same order, each on one stream or on streams that wait
 * for each other. stream NULL = the context's own. */
GA_API GA_NODISCARD ga_status ga_all_reduce_run(ga_all_reduce *reduce, const void *x, void *y, int64_t n,
                                                ga_stream *stream);

typedef struct ga_all_reduce_norm_io {
  size_t struct_size;
  const void *x;  /* this rank's addend, [rows, width] of the desc's dtype */
  void *residual; /* [rows, width]: the sum of all ranks' x is added to it. Must be the same on all ranks */
  /* [width] factors of the norm. A GPU may read them before earlier launches have ended, so no earlier launch may
   * write them */
  const float *weight;
  void *y; /* [rows, width]: residual / sqrt(mean of its squares + eps) * weight, row by row; may be x */
  /* rows x width is at most max_elements and the same on all ranks. On GPUs the bytes of a row are a multiple of 16. */
  int64_t rows, width;
  float eps;        /* added to the mean of squares; 0 or more */
  int32_t reserved; /* must be 0 */
} ga_all_reduce_norm_io;
#define GA_ALL_REDUCE_NORM_IO_INIT \
  { sizeof(ga_all_reduce_norm_io), NULL, NULL, NULL, NULL, 0, 0, 1e-6f, 0 }

/* Runs the sum, the addition to the residual and the RMS norm in one launch, or in two where the sum is large. The sum
 * and the new residual are rounded to the dtype, so that results equal those of three separate calls. The rules of
 * ga_all_reduce_run for ranks, streams and recording apply. */
GA_API GA_NODISCARD ga_status ga_all_reduce_norm(ga_all_reduce *reduce, const ga_all_reduce_norm_io *io,
                                                 ga_stream *stream);

/* Waits for the stream, then returns whether all calls so far received the data of all ranks. GA_ERR_TIMEOUT names the
 * missing ranks. Results of the first failed call and of all later ones are then invalid, and *reduce may only be
 * destroyed. Ranks that have waited for this rank get the same error from their own call. */
GA_API GA_NODISCARD ga_status ga_all_reduce_check(ga_all_reduce *reduce, ga_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
