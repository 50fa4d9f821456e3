/* Constants, offsets in shared memory and the state of a consumer warpgroup for attn_bwd_sm90a.cu, whose thread blocks
 * compute one tile each. */
#pragma once
#include "cuda/kern/attn_bwd/attn_bwd_block.h"

enum {
  DETERMINISTIC = GA_P_DETERMINISTIC,
  ANEW = EXTRAS && GA_P_D == 128,
  /* 1: dQ is added to the workspace from registers, because shared memory has no room for it. */
  DIRECT = BM == 128 && !DETERMINISTIC
};
enum { /* offsets and sizes in shared memory, in bytes */
       OFF_K = 0,
       OFF_V = OFF_K + K_BYTES,
       OFF_Q = OFF_V + K_BYTES,
       OFF_O = OFF_Q + ST * Q_BYTES,
       OFF_DS = OFF_O + ST * Q_BYTES,
       OFF_DQ = OFF_DS + DS_BUFFERS * DS_BYTES,
       OFF_STAT = OFF_DQ + (DIRECT ? 0 : GA_KBWD_WARPS * PIECE_BYTES),
       OFF_BAR_K = OFF_STAT + ST * STAT_BYTES,
       OFF_VF = OFF_BAR_K + 8,
       OFF_BAR_DS = OFF_VF + 8,
       OFF_QF = OFF_BAR_DS + 8,
       OFF_QE = OFF_QF + 8 * ST,
       OFF_OF = OFF_QE + 8 * ST,
       OFF_OE = OFF_OF + 8 * ST,
       OFF_TILE = (OFF_OE + 8 * ST + 15) / 16 * 16,
       OFF_READY = OFF_TILE + 48,
       OFF_USED = OFF_READY + 8,
       OFF_EMPTY = OFF_USED + 16,
       SMEM_BYTES = OFF_EMPTY + 8
};
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

GA_DEV uint32_t record_of(uint32_t sb, uint32_t i) { /* ignores i, because a thread block has one tile */
  (void)i;
  return sb + OFF_TILE;
}
/* Returns at once: the buffer of V is free for a thread block's only tile. */
GA_DEV void wait_v_room(uint32_t sb, uint32_t i) { (void)sb, (void)i; }

typedef struct {
  args a;
  uint32_t sb;
  /* w is the warpgroup, wl the warp in it, lane the lane of the warp; q2 is 2 * (lane % 4). */
  int w, wl, lane, q2;
  /* This lane's first row of K, minus rows_k - rows_q: the query that has the position of this key. */
  int kv;
  /* Current stage and mbarrier parity of Q and dO. */
  int stage, parity;
  /* Index of the current buffer of dS. */
  int ds;
} warpgroup;

/* lane_of returns the thread's lane, and warp_of its warp in the warpgroup. Both are kept in registers or, where
 * registers are few (ANEW), computed from the thread index at each use. */
GA_DEV int lane_of(const warpgroup *c) { return ANEW ? thread_index_anew() & 31 : c->lane; }
GA_DEV int warp_of(const warpgroup *c) { return ANEW ? thread_index_anew() >> 5 & 3 : c->wl; }
GA_DEV uint32_t tile_record(const warpgroup *c) { return c->sb + OFF_TILE; }
GA_DEV int kv_of(const warpgroup *c) { return c->kv; }
GA_DEV uint32_t stat_of(const warpgroup *c) { return c->sb + OFF_STAT + c->stage * STAT_BYTES + c->q2 * 4; }
