/* Products of many rows with AMX. All weight types share the scheduling; each adds a function that converts a panel to
 * bf16 tiles. */
#ifndef GA_CPU_X86_AMX_AMX_GEMM_H
#define GA_CPU_X86_AMX_AMX_GEMM_H

#include "cpu/cpu_gemm_x16.h"

/* Bytes of a tile of weights: 16 pairs of k by 16 rows by 2 bf16, for 32 elements along k. */
#define GA_AMX_TILE_BYTES 1024

/* Converts a panel of 16 rows to bf16 tiles. k is padded with zeros to a multiple of 32. */
typedef void (*ga_amx_dequant)(const uint8_t *panel, int64_t k, uint8_t *tiles);

typedef struct ga_amx_impl {
  ga_amx_dequant dequant;
} ga_amx_impl;

#endif
