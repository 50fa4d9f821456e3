/* Constants, offsets in shared memory and the state of a consumer warpgroup for attn_bwd_kv_resident_sm90a.cu, whose
 * thread blocks compute many tiles in sequence. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/kern/attn_bwd/attn_bwd_block.h"

enum {
  CYCLE = 24,        /* number of steps after which stages, buffers and parities repeat */
  DETERMINISTIC = 0, /* for attn_bwd_tiles.h. 0: tiles add to dQ in any order */
  /* number of buffers of K; there are two because the last dQ of a tile is computed in the first step of the next
   * tile */
  K_BUFFERS = 2,
  RECORDS = 2,
  FETCHED = D == 128 ? 32 : 16 /* number of values of the accumulated dQ that a thread loads together */
};
enum { /* offsets and sizes in shared memory, in bytes */
       RECORD_BYTES = 48,
       OFF_K = 0,
       OFF_V = OFF_K + K_BUFFERS * K_BYTES,
       OFF_Q = OFF_V + K_BYTES,
       OFF_O = OFF_Q + ST * Q_BYTES,
       OFF_DS = OFF_O + ST * Q_BYTES,
       OFF_STAT = OFF_DS + DS_BUFFERS * DS_BYTES,
       OFF_KF = OFF_STAT + ST * STAT_BYTES,
       OFF_KE = OFF_KF + 16,
       OFF_VF = OFF_KE + 16,
       OFF_VE = OFF_VF + 8,
       OFF_BAR_DS = OFF_VE + 8,
       OFF_QF = OFF_BAR_DS + 8,
       OFF_QE = OFF_QF + 8 * ST,
       OFF_OF = OFF_QE + 8 * ST,
       OFF_OE = OFF_OF + 8 * ST,
       OFF_TILE = (OFF_OE + 8 * ST + 15) / 16 * 16,
       SMEM_BYTES = OFF_TILE + RECORDS * RECORD_BYTES
};
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(CYCLE % (2 * ST) == 0 && CYCLE % DS_BUFFERS == 0, "steps come again");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

/* Returns the shared address of the record of tile number i of this thread block. */
GA_DEV uint32_t record_of(uint32_t sb, uint32_t i) { return sb + OFF_TILE + i % RECORDS * RECORD_BYTES; }
/* Waits until all warps have read V of tile number i - 1, so that the buffer of V is free for tile i. */
GA_DEV void wait_v_room(uint32_t sb, uint32_t i) { mbar_wait(sb + OFF_VE, ~i & 1u); }

typedef struct {
  args a;
  uint32_t sb;
  /* w is the warpgroup; q2 is 2 * (lane % 4). */
  int w, q2;
  /* Number of the current tile among the tiles of this thread block. */
  uint32_t tile;
  /* Step number, from which stages, buffers and parities follow: 0 at the start, then 1 to CYCLE in a loop. */
  uint32_t step;
  /* The block of dQ that the previous step computed, packed by tag_of (attn_bwd_kv_resident_sm90a.cu). -1: none. */
  int before;
} warpgroup;

/* lane_of returns the thread's lane, and warp_of its warp in the warpgroup. They read the thread index again at each
 * use, because registers are few. */
GA_DEV int lane_of(const warpgroup *c) {
  (void)c;
  return thread_index_anew() & 31;
}
GA_DEV int warp_of(const warpgroup *c) {
  (void)c;
  return thread_index_anew() >> 5 & 3;
}
GA_DEV int leads(void) { return (thread_index_anew() & 127) == 0; }
GA_DEV uint32_t tile_record(const warpgroup *c) { return record_of(c->sb, c->tile); }
GA_DEV uint32_t stage_of(const warpgroup *c) { return c->step % ST; }
/* Returns this lane's first row of K, minus rows_k - rows_q: the query that has the position of this key. */
GA_DEV int kv_of(const warpgroup *c) {
  return lds_i4(tile_record(c) + 32).w + c->w * 64 + warp_of(c) * 16 + (lane_of(c) >> 2);
}

GA_DEV uint32_t stat_of(const warpgroup *c) { return c->sb + OFF_STAT + stage_of(c) * STAT_BYTES + c->q2 * 4; }
