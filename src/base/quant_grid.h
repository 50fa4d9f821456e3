/* GGUF types whose codes are points of a grid (IQ2, IQ3) or one of three values (TQ), in blocks of 256 elements. GA
 * reads them from files and has no kernels for them. src/ref/ref_dequant_grid.c defines the meaning of the bytes. */
#ifndef GA_BASE_QUANT_GRID_H
#define GA_BASE_QUANT_GRID_H

#include "ga/tensor.h"

enum { GA_GRID_BLOCK = 256, GA_GRID_RUN = 16, GA_GRID_RUNS = GA_GRID_BLOCK / GA_GRID_RUN };

/* Tables of points with 8 coordinates. An entry is one point: coordinate j has a code in bits 2j and 2j + 1. */
extern const uint16_t ga_iq2_xxs_grid[256], ga_iq2_xs_grid[512], ga_iq2_s_grid[1024];
/* Tables of points with 4 coordinates. An entry is one point: coordinate j has a code in bits 3j to 3j + 2. */
extern const uint16_t ga_iq3_xxs_grid[256], ga_iq3_s_grid[512];

/* Decodes a block into integer codes of -62 to 62 and scales. The value of element e is code[e] * scale[e /
 * GA_GRID_RUN]. */
void ga_grid_codes(ga_dtype dtype, const uint8_t *block, int8_t code[GA_GRID_BLOCK], float scale[GA_GRID_RUNS]);

#endif
