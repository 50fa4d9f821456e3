/* Common parts of kernels 07 and 08 of the ladder, whose warps are specialised. One thread issues the copy engine's
 * loads; two warpgroups compute. They synchronise by mbarriers: "full" when a tile has arrived, "empty" when both
 * warpgroups have used it. */
#pragma once
#include "cuda/dev/pipe/ring.h"
#include "cuda/kern/ladder/warpgroup_mma.h"

enum {
  STAGES = 2, /* number of stages of the K ring and of the V ring */
  THREADS = 384,
  OFF_Q = 0,
  OFF_K = OFF_Q + BM * D * 2,
  OFF_V = OFF_K + STAGES * TILE,
  OFF_Q_FULL = OFF_V + STAGES * TILE,
  OFF_K_FULL = OFF_Q_FULL + 8,
  OFF_K_EMPTY = OFF_K_FULL + 8 * STAGES,
  OFF_V_FULL = OFF_K_EMPTY + 8 * STAGES,
  OFF_V_EMPTY = OFF_V_FULL + 8 * STAGES,
  SMEM_BYTES = OFF_V_EMPTY + 8 * STAGES
};
static_assert(GA_P_SMEM == SMEM_BYTES, "the row's shared memory");

GA_DEV void init_barriers(uint32_t sb) {
  if (thread_index() == 0) {
    mbar_init(sb + OFF_Q_FULL, 1);
    for (uint32_t i = 0; i < STAGES; i++) {
      mbar_init(sb + OFF_K_FULL + 8 * i, 1);
      mbar_init(sb + OFF_K_EMPTY + 8 * i, 2);
      mbar_init(sb + OFF_V_FULL + 8 * i, 1);
      mbar_init(sb + OFF_V_EMPTY + 8 * i, 2);
    }
    mbar_init_fence();
  }
  block_sync();
}
/* Loads block n of K or V into its stage of the ring, once both warpgroups have used the block that was in the
 * stage. */
GA_DEV void load_block(uint32_t sb, const tile_coord *p, const ga_tmap *map, uint32_t off, uint32_t full,
                       uint32_t empty, int n) {
  const uint32_t stage = ring_stage((uint32_t)n, STAGES), bar = sb + full + 8 * stage;
  mbar_wait(sb + empty + 8 * stage, ring_empty_parity((uint32_t)n, STAGES));
  mbar_arrive_expect(bar, TILE);
  for (int i = 0; i < 2; i++)
    bulk_load_4d(sb + off + stage * TILE + (uint32_t)(i * KV_PANEL), map, bar, i * PANEL_COLS, n * BN, p->head_k,
                 p->batch, L2_EVICT_LAST);
}
/* Loads all data of this thread block in the order of use. One thread, the producer, runs it. */
GA_DEV void producer(args a, const tile_coord *p, uint32_t sb) {
  mbar_arrive_expect(sb + OFF_Q_FULL, BM * D * 2);
  for (int i = 0; i < 4; i++) /* Q of two warpgroups, two panels each */
    bulk_load_4d(sb + OFF_Q + (uint32_t)(i * Q_PANEL), &a->q_map, sb + OFF_Q_FULL, i % 2 * PANEL_COLS,
                 p->row0 + i / 2 * 64, p->head, p->batch, L2_EVICT_FIRST);
  GA_ROLL for (int n = 0; n * BN < a->rows_k; n++) {
    load_block(sb, p, &a->k_map, OFF_K, OFF_K_FULL, OFF_K_EMPTY, n);
    load_block(sb, p, &a->v_map, OFF_V, OFF_V_FULL, OFF_V_EMPTY, n);
  }
}

/* Functions of consumers. wait_k and wait_v return the shared address of block n once it has arrived. used_k and used_v
 * say that this warpgroup no longer needs the block. */
GA_DEV uint32_t wait_k(uint32_t sb, int n) {
  const uint32_t stage = ring_stage((uint32_t)n, STAGES);
  mbar_wait(sb + OFF_K_FULL + 8 * stage, ring_full_parity((uint32_t)n, STAGES));
  return sb + OFF_K + stage * TILE;
}
GA_DEV uint32_t wait_v(uint32_t sb, int n) {
  const uint32_t stage = ring_stage((uint32_t)n, STAGES);
  mbar_wait(sb + OFF_V_FULL + 8 * stage, ring_full_parity((uint32_t)n, STAGES));
  return sb + OFF_V + stage * TILE;
}
GA_DEV void used_k(uint32_t sb, int n) {
  if (thread_index() % 128 == 0) mbar_arrive(sb + OFF_K_EMPTY + 8 * ring_stage((uint32_t)n, STAGES));
}
GA_DEV void used_v(uint32_t sb, int n) {
  if (thread_index() % 128 == 0) mbar_arrive(sb + OFF_V_EMPTY + 8 * ring_stage((uint32_t)n, STAGES));
}
