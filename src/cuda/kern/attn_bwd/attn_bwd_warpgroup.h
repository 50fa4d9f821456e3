/* Includes the header of the kernel being compiled, for headers that the backward kernels of sm_90a share. The included
 * header defines constants (BM, NS, OFF_*, ...), the struct `warpgroup`, and these functions:
 *   tile_record  returns the shared address of the record of the warpgroup's tile
 *   stat_of      returns the shared address of lse and delta of this lane's queries
 *   kv_of        returns this lane's first row of K, minus rows_k - rows_q
 * All kernels except cluster2 also define:
 *   lane_of      returns the thread's lane
 *   warp_of      returns the index of the thread's warp in its warpgroup
 *   record_of    returns the shared address of the record of tile number i of the thread block
 *   wait_v_room  waits until the buffer of V is free for tile number i */
#pragma once
#include "cuda/kern/attn_bwd/attn_bwd_shape.h"
#if GA_P_CLUSTER == 2
#include "cuda/kern/attn_bwd/attn_bwd_cluster2_shape.h"
#elif GA_P_KV_RESIDENT
#include "cuda/kern/attn_bwd/attn_bwd_kv_resident_shape.h"
#else
#include "cuda/kern/attn_bwd/attn_bwd_tile_shape.h"
#endif
