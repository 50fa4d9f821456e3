/* Barriers of all blocks of a grid, in cooperative launches. */
#pragma once
#include "cuda/dev/ptx/mem.h"

/* All threads of all `blocks` blocks of the grid meet, and see what any of them has written before: once for each zeroed *p. Leaves `blocks` in *p.
 * Bounded, as turn_wait is. */
#ifdef GA_EMU
GA_DEV void grid_sync(int32_t *p, int blocks, EMU_AT) /* a cooperative launch is one cluster here */
{
    if (emu_thread_index() == 0) (void)emu_atomic_add_i32(p, 1, file, line);
    (void)blocks;
    emu_cluster_arrive(file, line);
    emu_cluster_wait(file, line);
}
#else
GA_DEV void grid_sync(int32_t *p, int blocks) {
  block_sync();
  if (thread_index() == 0) {
    turn_done(p);
    turn_wait(p, blocks);
  }
  block_sync();
}
#endif
