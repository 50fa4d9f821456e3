/* Costs of a GPU, by which its rows predict their times: one file a GPU in src/cuda/costs. */
#ifndef GA_CUDA_RT_COSTS_H
#define GA_CUDA_RT_COSTS_H

#include "core/cost.h"

typedef struct cuda_costs {
  ga_rates rates; /* first: ga_caps.rates of a CUDA device points here */
  const char *chip;
  bool fallback;
  double clock_mhz;
  double attn_pair_ns, attn_pair_dim_ns, attn_tile_us, attn_tile_dim_us;
  double attn_bwd_launches_us, attn_bwd_pair_dim_ns, attn_bwd_tile_us, attn_bwd_cluster_tile_us, attn_bwd_tile_dim_us;
} cuda_costs;

/* Generated of the files. */
extern const cuda_costs cuda_all_costs[];
extern const size_t cuda_n_costs;

/* The costs of a GPU whose name, as the driver gives it, has `chip` in it; those of the fallback if no file has. */
const cuda_costs *cuda_costs_of_chip(const char *chip);
static inline const cuda_costs *cuda_costs_of(const ga_caps *caps) { return (const cuda_costs *)caps->rates; }

#endif
