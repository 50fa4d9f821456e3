/* Shadow memory: the last write and the reads since, each with agent and place in the source. A cell is for 16 bytes,
 * or for a word or byte where neighbours differ. */
#ifndef GA_EMU_SHADOW_H
#define GA_EMU_SHADOW_H

#include "emu/machine.h"

enum { EMU_READERS = 3 };

typedef struct emu_step {
  uint32_t clock;
  uint16_t agent, site;
} emu_step;

typedef struct emu_cell {
  emu_step write;
  emu_step read[EMU_READERS]; /* clock 0: free. A fourth reader replaces one that is ordered before it, else any */
  uint32_t era;               /* run of blocks that the steps belong to */
  uint32_t child;             /* index of four (words) or of four (bytes) cells, 0 = none */
  uint8_t written, by_async, atomic;
} emu_cell;

/* The agent of an access. */
typedef struct emu_actor {
  uint16_t agent;
  bool async; /* the copy engine or wgmma */
  uint32_t clock;
  const emu_clocks *seen;
  emu_site at;
} emu_actor;

emu_actor emu_actor_of(const emu_thread *t);

typedef enum emu_access { EMU_READ, EMU_WRITE, EMU_ATOMIC } emu_access;

/* Checks an access to a block's shared memory: bounds, alignment, races. False: out of bounds; the access must not be
 * made. */
bool emu_touch_shared(emu_block *b, const emu_actor *a, uint32_t addr, uint32_t bytes, emu_access access);
/* emu_touch_shared for a thread, which also must not touch bytes that its own cp.async in flight will write. */
bool emu_thread_touch_shared(emu_thread *t, uint32_t addr, uint32_t bytes, emu_access access);
bool emu_touch_global(const emu_actor *a, const void *p, size_t bytes, emu_access access);

/* shadow.c's part */
void emu_cells_access(emu_cell *cells, size_t at, size_t bytes, const emu_actor *a, emu_access access,
                      const void *block);
void emu_cells_written(emu_cell *cells, size_t at, size_t bytes); /* by the host */
void emu_cells_clear(emu_cell *cells, size_t n);
void emu_cells_end(emu_cell *cells, size_t n); /* before their memory is freed */

#endif
