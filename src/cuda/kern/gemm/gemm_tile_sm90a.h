/* Host side of the matrix products of plain operands on Hopper (src/cuda/kern/gemm/gemm_tile_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_TILE_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_TILE_SM90A_H

#include "cuda/rt/cuda.h"

/* Parameters of a variant; gemm_tile_sm90a.toml explains them. */
typedef struct cuda_gemm_tile_variant {
  cuda_variant base;
  /* bm is the number of rows of a tile of Y, bn the number of its columns. */
  int32_t bm, bn;
  int32_t cooperative;  /* 1: a cluster computes two tiles of Y, one above the other. */
  int32_t k_splits;     /* 1: k may be divided into parts. */
  int32_t cluster_k;    /* 1: a cluster of two blocks computes a tile, each with half of k. */
  int32_t block_scales; /* 1: operands have a scale for each block along k. */
  /* Bits GA_GEMM_XT and GA_GEMM_WT: operands that are stored transposed. */
  uint32_t across;
} cuda_gemm_tile_variant;

const char *cuda_gemm_tile_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_tile_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_tile_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_tile(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
