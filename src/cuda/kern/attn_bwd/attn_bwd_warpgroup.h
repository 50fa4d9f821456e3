/* Selects the warpgroup of the kernel being compiled, for headers that the backward kernels of sm_90a share: constants
 * (BM, NS, OFF_*, ...), `warpgroup`, and functions that all of these kernels define:
 *   tile_record  shared address of its tile's record
 *   stat_of      shared address of lse and delta of this lane's rows of Q
 *   kv_of        this lane's first row of K, relative to the diagonal of row 0
 * All except cluster2 also define lane_of and warp_of (in the warpgroup), record_of (of tile number i) and
 * wait_v_room. */
#pragma once
#include "cuda/kern/attn_bwd/attn_bwd_shape.h"
#if GA_P_CLUSTER == 2
#include "cuda/kern/attn_bwd/attn_bwd_cluster2_shape.h"
#elif GA_P_KV_RESIDENT
#include "cuda/kern/attn_bwd/attn_bwd_kv_resident_shape.h"
#else
#include "cuda/kern/attn_bwd/attn_bwd_tile_shape.h"
#endif
