/* cp.async (PTX ISA 9.7.9.25.3): a thread's own copies, carried out when it waits for them; those that an mbarrier
 * tracks, when nobody can go on without them. A copy is ordered behind what its thread had seen when it issued it, and
 * is known to whoever knows of the wait. It is an ordinary access (9.7.9.25.1.2 lists only the bulk copies as accesses
 * of the async proxy). */
#include <stdlib.h>
#include <string.h>

#include "emu/shadow.h"

struct emu_cp {
  uint32_t dst;
  int size, bytes; /* written, read; 0: an arrival at bar */
  const uint8_t *src;
  emu_mbar *bar;
  emu_clocks *seen; /* when issued */
  uint32_t step;    /* arrival: the thread's own step */
  emu_site at;
};

static emu_thread **tracked; /* [emu_now.n_cp] one entry for each arrival to come */
static size_t capacity;

static void move(emu_thread *t, const emu_cp *c) {
  emu_block *b = t->block;
  emu_actor a = {.agent = t->agent, .clock = t->own, .seen = c->seen, .at = c->at};
  uint8_t x[16] = {0};
  if (c->bytes && emu_touch_global(&a, c->src, (size_t)c->bytes, EMU_READ)) memcpy(x, c->src, (size_t)c->bytes);
  if (emu_touch_shared(b, &a, c->dst, (uint32_t)c->size, EMU_WRITE)) memcpy(b->smem + c->dst, x, (size_t)c->size);
}

static void arrive(emu_thread *t, const emu_cp *c) {
  emu_gather g = {0};
  emu_gather_add(&g, c->seen);
  emu_gather_step(&g, t->agent, c->step);
  for (int i = 0; i < EMU_MARKS; i++) emu_gather_step(&g, emu_now.mark0[i] + t->agent, t->mark[i]);
  emu_clocks *clocks = emu_gather_take(&g);
  emu_mbar_arrived(c->bar, clocks, c->at);
  emu_clocks_drop(clocks);
  for (size_t i = 0; i < emu_now.n_cp; i++)
    if (tracked[i] == t) {
      tracked[i] = tracked[--emu_now.n_cp];
      break;
    }
}

/* The first n of what the thread has in flight. */
static void carry_out_copies(emu_thread *t, int n) {
  const emu_cp *next_arrival = NULL;
  uint32_t own = t->own;
  for (int i = 0; i < n; i++) {
    emu_cp *c = &t->cp[i];
    if (!next_arrival || next_arrival <= c) /* copies that an arrival tracks are known with its step */
      for (next_arrival = c; next_arrival < t->cp + n && next_arrival->size; next_arrival++) {
      }
    t->own = next_arrival < t->cp + n ? next_arrival->step : own;
    if (c->size)
      move(t, c);
    else
      arrive(t, c);
    emu_clocks_drop(c->seen);
  }
  t->own = own;
  memmove(t->cp, t->cp + n, (size_t)(t->n_cp - n) * sizeof *t->cp);
  t->n_cp -= n;
  t->cp_first += (uint32_t)n;
}

/* One tracked arrival, with the copies before it. */
void emu_cp_step(void) {
  emu_thread *t = tracked[emu_random((uint32_t)emu_now.n_cp)];
  int i = 0;
  while (t->cp[i].size) i++;
  carry_out_copies(t, i + 1);
}

static emu_cp *queue_copy(emu_thread *t) {
  if (t->n_cp == t->cp_capacity) {
    t->cp_capacity = t->cp_capacity ? 2 * t->cp_capacity : 32;
    emu_cp *p = realloc(t->cp, (size_t)t->cp_capacity * sizeof *p);
    if (!p) abort();
    t->cp = p;
  }
  emu_cp *c = &t->cp[t->n_cp++];
  memset(c, 0, sizeof *c);
  c->seen = emu_clocks_hold(t->seen);
  c->at = t->at;
  return c;
}

/* The issuing thread itself touches what a copy of its own will write. */
void emu_cp_touched(const emu_thread *t, uint32_t addr, uint32_t bytes, bool write, emu_site at) {
  for (int i = 0; i < t->n_cp; i++) {
    const emu_cp *c = &t->cp[i];
    if (!c->size || addr >= c->dst + (uint32_t)c->size || addr + bytes <= c->dst) continue;
    emu_report(EMU_RULE_RACE_SHARED, at,
               "%s of shared %#x, which this thread's cp.async at %s will write: it has not waited for it",
               write ? "write" : "read", addr, emu_site_text(c->at));
    return;
  }
}

void emu_cp_async(uint32_t dst, const void *src, int size, int bytes, EMU_SITE) {
  emu_thread *t = emu_begin("cp.async", file, line);
  dst = emu_own_address(t->block, dst);
  if (bytes < 0 || bytes > size) {
    emu_report(EMU_RULE_COPY_ARGS, t->at, "%d bytes of source for a copy of %d", bytes, size);
    emu_stop();
  }
  if (dst % (uint32_t)size || (uintptr_t)src % (uintptr_t)size)
    emu_report(EMU_RULE_MISALIGNED, t->at, "shared %#x, global %p: both aligned to the %d bytes copied", dst, src,
               size);
  if (emu_opt.checks) emu_cp_touched(t, dst, (uint32_t)size, true, t->at);
  emu_cp *c = queue_copy(t);
  c->dst = dst;
  c->size = size;
  c->bytes = bytes;
  c->src = src;
  bool early = emu_opt.when == EMU_EARLY || (emu_opt.when == EMU_MIXED && emu_random(2));
  /* The values may be there early; that they are is known only after the wait. */
  if (early && dst >= EMU_SMEM_BASE && dst + (uint32_t)size <= t->block->smem_end &&
      (!bytes || emu_is_device(src, (size_t)bytes))) {
    memset(t->block->smem + dst, 0, (size_t)size);
    if (bytes) memcpy(t->block->smem + dst, src, (size_t)bytes);
  }
  emu_maybe_yield();
}

void emu_cp_commit(EMU_SITE) {
  emu_thread *t = emu_begin("cp.async.commit_group", file, line);
  if (t->n_cp_groups == EMU_MAX_GROUPS) {
    memmove(t->cp_group, t->cp_group + 1, sizeof t->cp_group - sizeof t->cp_group[0]);
    t->n_cp_groups--;
  }
  t->cp_group[t->n_cp_groups++] = t->cp_first + (uint32_t)t->n_cp;
}

/* n < 0: all, committed or not */
void emu_cp_wait(int n, EMU_SITE) {
  emu_thread *t = emu_begin(n < 0 ? "cp.async.wait_all" : "cp.async.wait_group", file, line);
  uint32_t end = t->cp_first;
  if (n < 0) {
    end = t->cp_first + (uint32_t)t->n_cp;
    t->n_cp_groups = 0;
  } else if (t->n_cp_groups > n) {
    end = t->cp_group[t->n_cp_groups - 1 - n];
    memmove(t->cp_group, t->cp_group + (t->n_cp_groups - n), (size_t)n * sizeof t->cp_group[0]);
    t->n_cp_groups = n;
  }
  if ((int32_t)(end - t->cp_first) > 0) carry_out_copies(t, (int)(end - t->cp_first));
  emu_maybe_yield();
}

void emu_cp_arrive(uint32_t addr, int inc, EMU_SITE) {
  emu_thread *t = emu_begin("cp.async.mbarrier.arrive", file, line);
  emu_mbar *bar = emu_mbar_of(t->block, addr, t->at);
  emu_mbar_check(bar, t);
  if (inc) bar->pending++;
  if (emu_now.n_cp == capacity) {
    capacity = capacity ? 2 * capacity : 256;
    emu_thread **p = realloc(tracked, capacity * sizeof *p);
    if (!p) abort();
    tracked = p;
  }
  tracked[emu_now.n_cp++] = t;
  emu_cp *c = queue_copy(t);
  c->bar = bar;
  c->step = t->own++;
  if (emu_opt.when == EMU_EARLY) carry_out_copies(t, t->n_cp);
  emu_maybe_yield();
}

/* Shared memory is gone when the block ends. */
void emu_cp_exit(emu_block *b) {
  for (int i = 0; i < b->n_threads; i++)
    for (int k = 0; k < b->threads[i].n_cp; k++)
      emu_report(EMU_RULE_EXIT, b->threads[i].cp[k].at, "block %d has ended; thread %d never waited for this copy",
                 b->index, i);
}

void emu_cp_forget(emu_block *b) {
  for (int i = 0; i < b->n_threads; i++) {
    for (int k = 0; k < b->threads[i].n_cp; k++) emu_clocks_drop(b->threads[i].cp[k].seen);
    free(b->threads[i].cp);
  }
  emu_now.n_cp = 0;
}
