/* Launch side of the matrix products of plain operands on Hopper (src/cuda/kern/gemm/gemm_tile_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_TILE_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_TILE_SM90A_H

#include "cuda/rt/cuda.h"

/* A variant's shape; see gemm_tile_sm90a.toml. */
typedef struct cuda_gemm_tile_variant {
  cuda_variant base;
  int32_t bm, bn;       /* rows and columns of a tile */
  int32_t cooperative;  /* 1: clusters of two tiles, one above the other */
  int32_t k_splits;     /* 1: k may be cut into parts */
  int32_t cluster_k;    /* 1: clusters of two blocks, each with half of k */
  int32_t block_scales; /* 1: blocks of k have scales */
  uint32_t across;      /* GA_GEMM_XT, GA_GEMM_WT: operands stored across */
} cuda_gemm_tile_variant;

const char *cuda_gemm_tile_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_tile_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_tile_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_tile(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
