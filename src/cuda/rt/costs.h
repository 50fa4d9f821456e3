/* Measured rates of a GPU, from which its kernels predict their times. src/cuda/costs has a file for each GPU. */
#ifndef GA_CUDA_RT_COSTS_H
#define GA_CUDA_RT_COSTS_H

#include "core/cost.h"

typedef struct cuda_costs {
  /* Must be the first field: ga_caps.rates of a CUDA device points to it. */
  ga_rates rates;
  const char *chip; /* Part of the name that the driver gives the GPU. */
  bool fallback;    /* True: the costs are used for GPUs that no file names. */
  double clock_mhz; /* Clock rate at which clock cycles of kernels become microseconds. */
  /* Attention on one multiprocessor. pair: a pair of a query and a key. tile: a tile of queries. dim: the additional
   * time for each dimension of a head of K and of V. */
  double attn_pair_ns, attn_pair_dim_ns, attn_tile_us, attn_tile_dim_us;
  /* Attention backward on one multiprocessor. launches: all launches of a call. pair_dim: a pair of a query and a key,
   * for each dimension of a head. tile: a tile of keys. cluster_tile: a tile of keys that a cluster of two blocks
   * computes. tile_dim: the additional time of a tile for each dimension. */
  double attn_bwd_launches_us, attn_bwd_pair_dim_ns, attn_bwd_tile_us, attn_bwd_cluster_tile_us, attn_bwd_tile_dim_us;
} cuda_costs;

/* The costs of all GPUs, generated from the files of src/cuda/costs. */
extern const cuda_costs cuda_all_costs[];
extern const size_t cuda_n_costs;

/* Returns the costs whose file names a part of `chip`, the GPU's name as the driver gives it. Returns the fallback's
 * costs if no file matches. */
const cuda_costs *cuda_costs_of_chip(const char *chip);
static inline const cuda_costs *cuda_costs_of(const ga_caps *caps) { return (const cuda_costs *)caps->rates; }

#endif
