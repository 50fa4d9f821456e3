/* What tile_unit.cu is given. */
#ifndef GA_TESTS_EMU_TILE_UNIT_H
#define GA_TESTS_EMU_TILE_UNIT_H
#include <ga/tile/tmap.h>

enum { UNIT_ROWS = 7, UNIT_COLS = 5, UNIT_GROUP = 3 };

typedef struct tile_unit_args {
  ga_tmap x, y;   /* bf16 [2][16][64], [4][16][64] */
  float *rows;    /* [16][4]: maximum, sum, sum of powers, ones */
  int32_t *order; /* [UNIT_ROWS * UNIT_COLS] */
} tile_unit_args;

#endif
