/* Threads are fibers; which ready one runs next is drawn from the seed. A thread that waits sits in the list of what it
 * waits for, so that waiting costs nothing. */
#include <stdlib.h>

#include "emu/fiber.h"
#include "emu/shadow.h"

emu_run emu_now;
emu_thread *emu_me;

uint32_t emu_random(uint32_t n) {
  emu_now.rng ^= emu_now.rng << 13;
  emu_now.rng ^= emu_now.rng >> 7;
  emu_now.rng ^= emu_now.rng << 17;
  return (uint32_t)((emu_now.rng >> 32) * n >> 32);
}

/* --- whose turn it is --- */

static void end_slice(void) {
  emu_now.idle = emu_now.slice_spun ? emu_now.idle + 1 : 0;
  emu_now.slice_spun = false;
}

/* A thread comes next, and nothing else is drawn or done before. */
static bool is_plain_choice(void) {
  const bool stuck = emu_is_stuck();
  if (!emu_now.n_live || emu_now.abort || emu_is_dead() || (stuck && emu_now.looks_at_peers)) return false;
  return !(stuck || emu_opt.when == EMU_MIXED) || !(emu_now.n_bulk + emu_now.n_cp);
}

/* The one that runs from now on. */
static emu_thread *choose_thread(void) {
  uint32_t i = emu_random((uint32_t)emu_now.n_ready);
  emu_me = emu_now.ready[i];
  emu_now.ready[i] = emu_now.ready[--emu_now.n_ready];
  return emu_me;
}

/* The thread whose stack goes to *sp gives way. Mostly to another thread: the scheduler's own stack between them would
 * be twice the switches. */
void emu_give_way(void **sp) {
  end_slice();
  if (!is_plain_choice())
    emu_switch(sp, emu_now.main_sp);
  else if (&choose_thread()->sp != sp)
    emu_switch(sp, emu_me->sp);
}

void emu_run_slices(void) {
  emu_switch(&emu_now.main_sp, choose_thread()->sp);
  emu_me = NULL;
}

/* --- giving way --- */

static void switch_out(emu_thread *t) {
  char here;
  if (&here < t->stack + 8192) {
    emu_report(EMU_RULE_STACK, t->at, "the thread's stack of %d bytes is nearly full", EMU_STACK);
    emu_now.abort = true;
  }
  emu_give_way(&t->sp);
}

static void make_ready(emu_thread *t) {
  t->state = EMU_READY;
  emu_now.ready[emu_now.n_ready++] = t;
}

void emu_block_here(emu_state state) {
  emu_me->state = state;
  switch_out(emu_me);
}

void emu_yield(void) {
  make_ready(emu_me);
  switch_out(emu_me);
}

void emu_maybe_yield(void) {
  if (!emu_random(8)) emu_yield();
}

void emu_wake(emu_thread *t) { make_ready(t); }

void emu_wait_in(emu_list *list, emu_state state) {
  emu_me->next = list->first;
  list->first = emu_me;
  emu_block_here(state);
}

void emu_wake_all(emu_list *list) {
  emu_thread *t = list->first;
  list->first = NULL;
  for (emu_thread *next; t; t = next) {
    next = t->next;
    make_ready(t);
  }
}

_Noreturn void emu_stop(void) {
  emu_now.abort = true;
  void *nowhere;
  emu_switch(&nowhere, emu_now.main_sp);
  abort(); /* nobody continues a stopped run */
}

/* A failed try_wait gives way; that alone is not progress. */
void emu_spin(void);
void emu_spin(void) {
  emu_now.slice_spun = true;
  emu_yield();
}

/* Another process may write what is looked for. That is waited for only once all threads that are ready have looked in
 * vain: the kernel's own clock ends it. */
void emu_peer_pause(EMU_SITE) {
  (void)emu_begin("peer_pause", file, line);
  emu_now.looks_at_peers = true;
  emu_spin();
}

/* --- clocks --- */

void emu_release_to(emu_gather *g, emu_thread *t) {
  emu_gather_add(g, t->seen);
  emu_gather_step(g, t->agent, t->own);
  for (int i = 0; i < EMU_MARKS; i++) emu_gather_step(g, emu_now.mark0[i] + t->agent, t->mark[i]);
  t->own++;
}

void emu_acquire(emu_thread *t, emu_clocks *released) { emu_clocks_join(&t->seen, released); }
