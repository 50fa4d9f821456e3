/* Order between the blocks of a grid. A release is fence_device and then an atomic; an acquire an atomic on the same
 * word and then fence_device (PTX ISA 8.7 and 8.9: release and acquire patterns). What one thread acquires, its block
 * has. */
#include <stdlib.h>

#include "emu/shadow.h"

enum { WORDS = 64 }; /* atomic words that a grid uses; more share places, which hides races and invents none */

/* Steps known of each run of blocks, NULL: none. */
typedef emu_clocks **known;

static known released[WORDS];
static known acquired, met; /* by the blocks that run now: for good; until their next fence */
static uint32_t n_runs;

static void clear_known(known k) {
  for (uint32_t i = 0; k && i < n_runs; i++) {
    emu_clocks_drop(k[i]);
    k[i] = NULL;
  }
}

static known new_known(void) {
  known k = calloc(n_runs, sizeof *k);
  if (!k) abort();
  return k;
}

static void drop_known(known *k) {
  clear_known(*k);
  free(*k);
  *k = NULL;
}

void emu_order_end_grid(void) {
  for (int i = 0; i < WORDS; i++) drop_known(&released[i]);
  drop_known(&acquired);
  drop_known(&met);
}

void emu_order_begin_grid(uint32_t runs) {
  n_runs = runs;
  acquired = new_known();
  met = new_known();
}

void emu_order_begin_run(void) {
  clear_known(acquired);
  clear_known(met);
}

static void learn(emu_clocks **k, emu_clocks *more) {
  if (!more) return;
  if (*k)
    emu_clocks_join(k, more);
  else
    *k = emu_clocks_hold(more);
}

static void add_known(known to, const known from) {
  for (uint32_t i = 0; i < n_runs; i++) learn(&to[i], from[i]);
}

/* at_fence: what t had done and seen at its last fence_device; NULL: it had none. */
void emu_order_atomic(const void *p, emu_clocks *at_fence) {
  known *word = &released[(uintptr_t)p / 4 % WORDS];
  if (!*word) *word = new_known();
  add_known(met, *word);
  if (!at_fence) return;
  learn(&(*word)[emu_now.era - emu_now.launch_era], at_fence);
  add_known(*word, acquired); /* what this block knows is handed on */
}

void emu_order_fence(emu_thread *t) {
  emu_gather g = {0};
  add_known(acquired, met);
  emu_release_to(&g, t);
  emu_clocks_drop(t->at_fence);
  t->at_fence = emu_gather_take(&g);
}

/* Is that step of an earlier run of this launch known to the blocks that run now? */
bool emu_order_seen(uint32_t era, uint16_t agent, uint32_t clock) {
  const emu_clocks *c = acquired[era - emu_now.launch_era];
  return c && c->at[agent] >= clock;
}
