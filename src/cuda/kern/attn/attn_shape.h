/* Constants of attn_fwd_sm90a.cu and attn_fp8_sm90a.cu, and a thread's position in a tile. Both kernels compute tiles
 * of Q with blocks of K and V. The constants follow from parameters that both have. */
#pragma once
#include "cuda/dev/ptx/base.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

enum {
  D = GA_P_D,
  DV = GA_P_DV,
  BM = GA_P_BM,
  BN = GA_P_BN,
  ST = GA_P_STAGES,
  CAUSAL = GA_P_MASK == GA_P_MASK_CAUSAL,
  WINDOW = GA_P_MASK == GA_P_MASK_WINDOW,
  MASKED = CAUSAL || WINDOW,
  KV_RESIDENT = GA_P_RESIDENT,
  EXTRAS = GA_P_EXTRAS,
  CARRY = GA_P_CARRY,
  PAGES = GA_P_PAGES,
  PACKS = GA_P_PACKS,
  STRETCH = GA_P_STRETCHES,
  SPLITS = PACKS && CARRY, /* 1: the keys of a tile may be divided among several blocks */
  WGS = BM / 64,
  THREADS = 128 * (WGS + 1), /* the producer is a whole warpgroup, because registers are divided among warpgroups */
  TILE_SLOTS = 4             /* number of tile records (attn_tiles.h) between producer and consumers */
};
static_assert(BM % 64 == 0 && WGS >= 2 && WGS <= 3, "one warpgroup per 64 rows; registers end at three");
static_assert(EXTRAS || !(CARRY || PAGES || PACKS), "lengths and features of a call are read where EXTRAS is");

#define PACK  GA_CAT(pack_, GA_P_DTYPE)
#define LOG2E 1.442695041f /* log2 e */

typedef const ga_kargs_attn_fwd *args;

/* The kernel's arguments, and the position of a consumer thread. */
typedef struct {
  args a;
  uint32_t sb; /* Shared address of the block's shared memory. */
  /* w is the warpgroup, wl the warp in it, lane the lane of the warp. g is lane / 4, and q2 is 2 * (lane % 4). */
  int w, wl, lane, g, q2;
} attn_place;

GA_DEV int imin(int a, int b) { return a < b ? a : b; }
GA_DEV int imax(int a, int b) { return a > b ? a : b; }
