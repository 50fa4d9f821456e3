/* Vector clocks. Every agent (a thread, a warpgroup's products, a slot of the copy engine) counts its own steps. A
 * clock set belongs to an agent. It holds, for each agent, the last step that is known to precede the owner's present
 * step.
 *
 * Sets are immutable, have reference counts and are shared. Threads that left the same barrier hold the same set, so
 * that joins are mostly comparisons of pointers. */
#ifndef GA_EMU_CLOCK_H
#define GA_EMU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct emu_clocks {
  uint64_t serial; /* Number that is unique in the process. It is never reused, unlike the set's address. */
  uint32_t refs;
  uint32_t at[];
} emu_clocks;

/* Sets the number of entries of all later sets and frees the memory of older sets, none of which may be in use. With
 * `on` false nothing is recorded, and all sets are zero. */
void emu_clocks_size(uint32_t entries, bool on);
emu_clocks *emu_clocks_zero(void);
emu_clocks *emu_clocks_hold(emu_clocks *c);
void emu_clocks_drop(emu_clocks *c);
/* Replaces *c by the join of *c and `with`: the larger number for each agent. The caller's reference to the old *c is
 * dropped, and *c holds a reference to the new set. */
void emu_clocks_join(emu_clocks **c, emu_clocks *with);

/* EMU_VECTOR precedes functions whose loops are compiled for several vector widths, of which the processor's widest is
 * used. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EMU_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EMU_VECTOR
#endif

/* A clock set under construction, the join of sets. At a barrier it joins the sets that arriving threads release. */
typedef struct emu_gather {
  emu_clocks *sum;
  uint64_t last; /* Serial of the set that was added last. */
} emu_gather;

void emu_gather_add(emu_gather *g, const emu_clocks *seen);
void emu_gather_step(emu_gather *g, uint32_t agent, uint32_t clock); /* raises the entry of one agent to `clock` */
emu_clocks *emu_gather_take(emu_gather *g);                          /* returns the finished set and empties g */
void emu_gather_drop(emu_gather *g);

#endif
