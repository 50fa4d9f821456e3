/* Matrix products with many rows of X by AMX instructions. All weight types share the scheduling. Each type adds a
 * function that converts packed weights to bf16 tiles. */
#ifndef GA_CPU_X86_AMX_AMX_GEMM_H
#define GA_CPU_X86_AMX_AMX_GEMM_H

#include "cpu/cpu_gemm_x16.h"

/* Bytes of an AMX tile of weights: 16 rows of W x 32 elements along k, as bf16. The tile has 16 rows, one for each pair
 * of k. */
#define GA_AMX_TILE_BYTES 1024

/* Converts a panel of 16 rows and k elements to bf16 tiles of GA_AMX_TILE_BYTES. k is padded with zeros to a multiple
 * of 32. */
typedef void (*ga_amx_dequant)(const uint8_t *panel, int64_t k, uint8_t *tiles);

typedef struct ga_amx_impl {
  ga_amx_dequant dequant;
} ga_amx_impl;

#endif
