/* Constants that follow from a variant's parameters in all attention backward kernels of sm_90a (attn_bwd_sm90a.cu,
 * attn_bwd_kv_resident_sm90a.cu, attn_bwd_cluster2_sm90a.cu). */
#pragma once
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

enum {
  WINDOW = GA_P_MASK == GA_P_MASK_WINDOW,
  MASKED = GA_P_MASK != GA_P_MASK_FULL,
  EXTRAS = GA_P_EXTRAS,
  KV_RESIDENT = GA_P_KV_RESIDENT,
  BN = 128, /* number of rows of K and V of a tile */
  WGS = 2,  /* number of consumer warpgroups, of 64 rows each */
  THREADS = 128 * (WGS + 1),
  K_PANEL = BN * PANEL_ROW_BYTES
};

#define PACK   GA_CAT(pack_, GA_P_DTYPE)
#define TO_F32 GA_CAT(elem_f32_of_, GA_P_DTYPE)
#define LOG2E  1.442695041f

typedef const ga_kargs_attn_bwd *args;

GA_DEV int is_packed(args a) { return EXTRAS && (a->features & GA_KATTN_VARLEN); }
GA_DEV int imin(int a, int b) { return a < b ? a : b; }
GA_DEV int imax(int a, int b) { return a > b ? a : b; }
