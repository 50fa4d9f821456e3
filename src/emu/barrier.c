/* mbarriers (PTX ISA 9.7.13.15), named barriers (9.7.13.1), setmaxnreg (9.7.19.5). */
#include <string.h>

#include "emu/shadow.h"

void emu_spin(void); /* sched.c */

/* --- mbarrier --- */

static void finish_phase(emu_mbar *bar) {
  if (bar->pending || bar->tx) return;
  emu_clocks_drop(bar->out);
  bar->out = emu_gather_take(&bar->gather);
  bar->phase++;
  bar->pending = bar->count;
  emu_wake_all(&bar->waiters);
}

emu_mbar *emu_mbar_of(emu_block *b, uint32_t addr, emu_site at) {
  addr = emu_own_address(emu_me->block, addr);
  if (addr % 8) {
    emu_report(EMU_RULE_MISALIGNED, at, "mbarrier at %#x: 8 bytes, aligned to 8", addr);
    emu_stop();
  }
  if (addr < EMU_SMEM_BASE || addr + 8 > b->smem_end) {
    emu_report(EMU_RULE_BOUNDS, at, "mbarrier at shared %#x; this block has %#x to %#x", addr, EMU_SMEM_BASE,
               b->smem_end);
    emu_stop();
  }
  uint16_t i = b->bar_at[addr / 8];
  if (!i) {
    emu_report(EMU_RULE_BARRIER_INIT, at, "mbarrier at %#x is not initialised", addr);
    emu_stop();
  }
  return &b->bars[i - 1];
}

/* Its initialisation must be ordered before any use, and its block must not have ended. */
void emu_mbar_check(const emu_mbar *bar, const emu_thread *t) {
  const emu_block *b = &emu_now.blocks[bar->init_agent / t->block->n_threads];
  if (b->n_done == b->n_threads)
    emu_report(EMU_RULE_EXIT, t->at, "mbarrier %#x: block %d, whose shared memory holds it, has ended", bar->addr,
               b->index);
  if (emu_opt.checks && bar->init_agent != t->agent && t->seen->at[bar->init_agent] < bar->init_clock)
    emu_report(EMU_RULE_BARRIER_INIT, t->at, "mbarrier at %#x: nothing orders its initialisation at %s before this use",
               bar->addr, emu_site_text(bar->init_at));
}

void emu_mbar_init(uint32_t addr, uint32_t count, EMU_SITE) {
  emu_thread *t = emu_begin("mbarrier.init", file, line);
  emu_block *b = t->block;
  addr = emu_own_address(b, addr);
  emu_actor a = emu_actor_of(t);
  if (!emu_touch_shared(b, &a, addr, 8, EMU_WRITE)) emu_stop();
  if (count < 1 || count > (1 << 20) - 1)
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "mbarrier count %u; 1 to 2^20 - 1", count);
  uint16_t i = b->bar_at[addr / 8];
  if (!i && b->n_bars == EMU_SMEM_MAX / 512) {
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "more than %d mbarriers", EMU_SMEM_MAX / 512);
    emu_stop();
  }
  if (!i) i = b->bar_at[addr / 8] = (uint16_t)++b->n_bars;
  emu_mbar *bar = &b->bars[i - 1];
  *bar = (emu_mbar){
      .addr = addr, .count = count, .pending = count, .init_agent = t->agent, .init_clock = t->own, .init_at = t->at};
}

void emu_mbar_init_fence(EMU_SITE) {
  emu_thread *t = emu_begin("fence.mbarrier_init", file, line);
  for (int i = 0; i < t->block->n_bars; i++)
    if (t->block->bars[i].init_agent == t->agent) t->block->bars[i].init_fenced = true;
}

int emu_mbar_arrive(uint32_t addr, uint32_t tx, int rank, EMU_SITE) {
  emu_thread *t = emu_begin("mbarrier.arrive", file, line);
  if (rank >= emu_now.n_blocks) {
    emu_report(EMU_RULE_BOUNDS, t->at, "block %d of a cluster of %d", rank, emu_now.n_blocks);
    emu_stop();
  }
  emu_block *b = rank < 0 ? t->block : &emu_now.blocks[rank];
  emu_mbar *bar = emu_mbar_of(b, addr, t->at);
  emu_mbar_check(bar, t);
  emu_remote_access(b, t);
  if (!bar->pending) {
    emu_report(EMU_RULE_OVER_ARRIVAL, t->at,
               "mbarrier %#x: all %u arrivals of phase %u are in, %lld bytes are still to come", addr, bar->count,
               bar->phase, (long long)bar->tx);
    return 0;
  }
  bar->tx += tx;
  const int last = --bar->pending == 0;
  emu_release_to(&bar->gather, t);
  finish_phase(bar);
  emu_maybe_yield();
  return last;
}

/* An arrival that comes later than its thread, when its copies have landed. */
void emu_mbar_arrived(emu_mbar *bar, const emu_clocks *clocks, emu_site at) {
  if (!bar->pending) {
    emu_report(EMU_RULE_OVER_ARRIVAL, at, "mbarrier %#x: all %u arrivals of phase %u are in", bar->addr, bar->count,
               bar->phase);
    return;
  }
  bar->pending--;
  emu_gather_add(&bar->gather, clocks);
  finish_phase(bar);
}

void emu_mbar_expect(uint32_t addr, uint32_t tx, EMU_SITE) {
  emu_thread *t = emu_begin("mbarrier.expect_tx", file, line);
  emu_mbar *bar = emu_mbar_of(t->block, addr, t->at);
  emu_mbar_check(bar, t);
  bar->tx += tx;
}

/* The copy engine has moved `bytes` for it. */
void emu_mbar_complete(emu_mbar *bar, int64_t bytes, const emu_clocks *clocks) {
  bar->tx -= bytes;
  emu_gather_add(&bar->gather, clocks);
  finish_phase(bar);
}

static bool passed(const emu_mbar *bar, uint32_t parity) { return (bar->phase & 1) != parity; }

static emu_mbar *begin_wait(uint32_t addr, uint32_t parity, const char *what, const char *file, int line) {
  emu_thread *t = emu_begin(what, file, line);
  emu_mbar *bar = emu_mbar_of(t->block, addr, t->at);
  emu_mbar_check(bar, t);
  if (parity > 1) emu_report(EMU_RULE_BARRIER_ARGS, t->at, "mbarrier %#x: parity %u; 0 or 1", addr, parity);
  t->bar = bar;
  t->parity = parity;
  return bar;
}

void emu_mbar_wait(uint32_t addr, uint32_t parity, EMU_SITE) {
  emu_mbar *bar = begin_wait(addr, parity, "mbarrier wait", file, line);
  while (!passed(bar, parity)) emu_wait_in(&bar->waiters, EMU_AT_MBAR);
  emu_acquire(emu_me, bar->out);
}

uint32_t emu_mbar_try_wait(uint32_t addr, uint32_t parity, EMU_SITE) {
  emu_mbar *bar = begin_wait(addr, parity, "mbarrier try_wait", file, line);
  if (!passed(bar, parity)) emu_spin();
  if (!passed(bar, parity)) return 0;
  emu_acquire(emu_me, bar->out);
  return 1;
}

static void dump_bar(const emu_block *b, const emu_mbar *bar) {
  emu_report_more(
      "\n    mbarrier %#x (block %d, set up at %s): phase %u, %u of %u arrivals to come, %lld bytes to come", bar->addr,
      b->index, emu_site_text(bar->init_at), bar->phase, bar->pending, bar->count, (long long)bar->tx);
}

void emu_dump_barriers(void) {
  for (int k = 0; k < emu_now.n_blocks; k++) {
    const emu_block *b = &emu_now.blocks[k];
    for (int i = 0; i < b->n_bars; i++) dump_bar(b, &b->bars[i]);
    for (int i = 0; i < EMU_NAMED; i++)
      if (b->named[i].count)
        emu_report_more("\n    barrier %d (block %d): %d of %d threads, first at %s", i, b->index, b->named[i].count,
                        b->named[i].n, emu_site_text(b->named[i].at));
  }
  emu_bars_at_exit(NULL);
}

/* Bytes that were announced and never came, or came unannounced. b NULL: all blocks. */
void emu_bars_at_exit(emu_block *b) {
  for (int k = 0; k < emu_now.n_blocks; k++)
    for (int i = 0; (!b || b == &emu_now.blocks[k]) && i < emu_now.blocks[k].n_bars; i++) {
      const emu_mbar *bar = &emu_now.blocks[k].bars[i];
      if (bar->tx && !emu_now.n_bulk)
        emu_report(EMU_RULE_TX_BYTES, bar->init_at, "mbarrier %#x, phase %u: %lld bytes %s", bar->addr, bar->phase,
                   (long long)(bar->tx < 0 ? -bar->tx : bar->tx),
                   bar->tx < 0 ? "more were copied than announced" : "announced were never copied");
    }
}

/* --- named barriers; barrier 0 with all threads is __syncthreads --- */

static void arrive_named(emu_named *b, emu_thread *t, int n) {
  if (!b->count) {
    b->n = n;
    b->at = t->at;
    memset(b->lanes, 0, sizeof b->lanes);
  } else if (b->n != n) {
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "%d threads here, %d at %s", n, b->n, emu_site_text(b->at));
    emu_stop();
  }
  uint32_t *lanes = &b->lanes[t->tid / EMU_LANES];
  if (*lanes >> t->lane & 1) /* the arrivals of one round stand in for those that never came */
    emu_report(EMU_RULE_OVER_ARRIVAL, t->at,
               "thread %d arrives twice in one round of barrier %d; %d of %d threads are in", t->tid, t->named,
               b->count, n);
  b->count++;
  *lanes |= 1u << t->lane;
  emu_release_to(&b->gather, t);
}

/* True when t was the last. */
static bool finish_named(emu_named *b) {
  if (b->count < b->n) return false;
  b->count = 0;
  emu_clocks_drop(b->out);
  b->out = emu_gather_take(&b->gather);
  for (emu_thread *t = b->waiters.first; t; t = t->next) emu_acquire(t, b->out);
  emu_wake_all(&b->waiters);
  return true;
}

void emu_bar(int id, int n, int wait, EMU_SITE) {
  emu_thread *t = emu_begin(wait ? "bar.sync" : "bar.arrive", file, line);
  if (!n) n = t->block->n_threads;
  if (id < 0 || id >= EMU_NAMED || n % EMU_LANES || n <= 0 || n > t->block->n_threads) {
    emu_report(EMU_RULE_BARRIER_ARGS, t->at, "barrier %d, %d threads: ids 0 to 15, whole warps, at most the block's %d",
               id, n, t->block->n_threads);
    emu_stop();
  }
  emu_named *b = &t->block->named[id];
  t->named = id;
  arrive_named(b, t, n);
  if (finish_named(b)) {
    if (wait) emu_acquire(t, b->out);
    emu_maybe_yield();
  } else if (wait) {
    emu_wait_in(&b->waiters, EMU_AT_NAMED);
  }
}

/* bar.sync is aligned: whole warps or nobody. */
void emu_named_check(void) {
  for (int k = 0; k < emu_now.n_blocks; k++)
    for (int i = 0; i < EMU_NAMED; i++) {
      const emu_named *b = &emu_now.blocks[k].named[i];
      for (int w = 0; b->count && w < emu_now.blocks[k].n_warps; w++)
        if (b->lanes[w] && ~b->lanes[w])
          emu_report(EMU_RULE_DIVERGENT, b->at, "barrier %d of block %d was reached by lanes %#x of warp %d only", i,
                     emu_now.blocks[k].index, b->lanes[w], w);
    }
}

void emu_named_drop(emu_named *b) {
  emu_gather_drop(&b->gather);
  emu_clocks_drop(b->out);
  b->out = NULL;
}

/* --- registers: a pool per block; a thread counts for itself, the warpgroup must agree --- */

void emu_setmaxnreg(int n, int inc, EMU_SITE) {
  emu_thread *t = emu_begin("setmaxnreg", file, line);
  t->resized++;
  emu_block *b = t->block;
  if (n % 8 || n < 24 || n > 256 || (inc ? n < t->registers : n > t->registers)) {
    emu_report(EMU_RULE_REGISTER_BUDGET, t->at,
               "setmaxnreg.%s %d of a thread with %d: a multiple of 8 in 24 to 256, %s", inc ? "inc" : "dec", n,
               t->registers, inc ? "not less than it has" : "not more than it has");
    return;
  }
  while (n - t->registers > b->free_registers) emu_wait_in(&b->register_waiters, EMU_AT_REGISTERS);
  b->free_registers -= n - t->registers;
  t->registers = n;
  emu_wake_all(&b->register_waiters);
  for (int i = 0; t->group && i < 128; i++)
    if (t->group->first[i].what == t->what && t->group->first[i].at.line != line)
      emu_report(EMU_RULE_DIVERGENT, t->at, "setmaxnreg differs within a warpgroup");
}

void emu_grid_wait(EMU_SITE) {
  emu_thread *t = emu_begin("griddepcontrol.wait", file, line);
  emu_gather g = {0};
  emu_gather_step(&g, emu_now.prior, 1);
  emu_clocks *c = emu_gather_take(&g);
  emu_acquire(t, c);
  emu_clocks_drop(c);
}

int emu_thread_index(void) { return emu_me->tid; }
int emu_block_index(void) { return emu_me->block->index; }
int emu_block_count(void) { return (int)emu_now.launch->grid[0]; }
/* In a cluster with the rank above bit 24, as on a GPU: what takes fewer bits (descriptors) must mask it. */
uint32_t emu_smem_base(void) {
  return emu_now.n_blocks > 1 ? emu_cluster_address(EMU_SMEM_BASE, (uint32_t)emu_me->block->rank) : EMU_SMEM_BASE;
}
static int64_t clock_now;
int64_t emu_clock_cycles(void) { return ++clock_now; }
void emu_clock_advance(int64_t cycles) { clock_now += cycles; }
