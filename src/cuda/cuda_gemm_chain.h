/* Products of one token that are held back while a stream joins launches (ga_join_begin), and go out together (gemm_chain_sm90a.cu). */
#ifndef GA_CUDA_CUDA_GEMM_CHAIN_H
#define GA_CUDA_CUDA_GEMM_CHAIN_H

#include "core/kargs_gemm_ring.h"
#include "cuda/cuda.h"

/* A launch of a product by a ring of packed weights. */
typedef struct cuda_ring_launch {
  const ga_kernel *kernel;
  cuda_launch launch;
  ga_kargs_gemm_ring args;
  int64_t x_bytes; /* of shared memory behind the rings */
} cuda_ring_launch;

/* Enqueues it, now or, while the stream joins launches, with others. */
GA_NODISCARD ga_status cuda_gemm_join(ga_stream *stream, const cuda_ring_launch *l);

#endif
