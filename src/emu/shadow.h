/* Shadow memory, which records accesses: the last write of each place in memory and the reads since then. Each has its
 * agent (clock.h) and place in the source. A cell stands for 16 bytes, or for a word or a byte where neighbours
 * differ. */
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
  /* Reads since the last write. clock 0: the entry is free. A fourth reader replaces a reader that happened before it,
   * or else an arbitrary reader. */
  emu_step read[EMU_READERS];
  /* Number of the run (emu_run.era) that the steps belong to. */
  uint32_t era;
  /* Index of four child cells, for words or for bytes. 0: none. */
  uint32_t child;
  uint8_t written, by_async, atomic;
} emu_cell;

/* The agent that makes an access, and its place in the source. */
typedef struct emu_actor {
  uint16_t agent;
  bool async; /* True: the agent is the copy engine or wgmma. */
  uint32_t clock;
  const emu_clocks *seen;
  emu_site at;
} emu_actor;

emu_actor emu_actor_of(const emu_thread *t);

typedef enum emu_access { EMU_READ, EMU_WRITE, EMU_ATOMIC } emu_access;

/* Checks an access to a block's shared memory for bounds, alignment and races. Returns false if it is out of bounds;
 * the access must then not be made. */
bool emu_touch_shared(emu_block *b, const emu_actor *a, uint32_t addr, uint32_t bytes, emu_access access);
/* Checks an access of a thread like emu_touch_shared. In addition, the thread must not access bytes that its own
 * cp.async copies in flight will write. */
bool emu_thread_touch_shared(emu_thread *t, uint32_t addr, uint32_t bytes, emu_access access);
bool emu_touch_global(const emu_actor *a, const void *p, size_t bytes, emu_access access);

/* --- functions of shadow.c --- */
void emu_cells_access(emu_cell *cells, size_t at, size_t bytes, const emu_actor *a, emu_access access,
                      const void *block);
void emu_cells_written(emu_cell *cells, size_t at, size_t bytes); /* marks bytes as written by the host */
void emu_cells_clear(emu_cell *cells, size_t n);
void emu_cells_end(emu_cell *cells, size_t n); /* must be called before the cells' memory is freed */

#endif
