#include "emu/clock.h"

#include <stdlib.h>
#include <string.h>

#define MEMO 256

static struct {
  bool on;
  emu_clocks *none; /* all zero */
  uint32_t entries;
  uint64_t serial;
  emu_clocks *unused; /* linked through serial */
  struct {
    uint64_t a, b;
    emu_clocks *result;
  } memo[MEMO];
} all;

static void *need_memory(void *p) {
  if (!p) abort(); /* a few MiB: the test machine is out of memory */
  return p;
}

static void forget_memo(void) {
  for (int i = 0; i < MEMO; i++) {
    if (all.memo[i].result) emu_clocks_drop(all.memo[i].result);
    all.memo[i].result = NULL;
  }
}

void emu_clocks_size(uint32_t entries, bool on) {
  forget_memo();
  emu_clocks_drop(all.none);
  all.none = NULL;
  all.on = on;
  if (entries == all.entries) return;
  while (all.unused) {
    emu_clocks *next;
    memcpy(&next, all.unused->at, sizeof next);
    free(all.unused);
    all.unused = next;
  }
  all.entries = entries;
}

static emu_clocks *new_clocks(void) {
  emu_clocks *c = all.unused;
  if (c)
    memcpy(&all.unused, c->at, sizeof all.unused);
  else
    c = need_memory(malloc(sizeof *c + (all.entries + 16) * sizeof c->at[0]));
  c->serial = ++all.serial;
  c->refs = 1;
  return c;
}

static emu_clocks *fresh_zero(void) {
  emu_clocks *c = new_clocks();
  memset(c->at, 0, all.entries * sizeof c->at[0]);
  return c;
}

emu_clocks *emu_clocks_zero(void) {
  if (!all.none) all.none = fresh_zero();
  return emu_clocks_hold(all.none);
}

emu_clocks *emu_clocks_hold(emu_clocks *c) {
  c->refs++;
  return c;
}

void emu_clocks_drop(emu_clocks *c) {
  if (!c || --c->refs) return;
  memcpy(c->at, &all.unused, sizeof all.unused);
  all.unused = c;
}

/* out = max(a, b); bit 0 of the result: a holds something newer, bit 1: b does. Half of the time of a small kernel, so
 * that the compiler must see that nothing overlaps and that n stays. */
EMU_VECTOR static int join_into(uint32_t *restrict out, const uint32_t *restrict a, const uint32_t *restrict b,
                                uint32_t n) {
  uint32_t a_newer = 0, b_newer = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t most = a[i] > b[i] ? a[i] : b[i];
    a_newer |= most ^ b[i];
    b_newer |= most ^ a[i];
    out[i] = most;
  }
  return (a_newer != 0) | (b_newer != 0) << 1;
}

EMU_VECTOR static void raise_clocks(uint32_t *restrict sum, const uint32_t *restrict seen, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) sum[i] = sum[i] > seen[i] ? sum[i] : seen[i];
}

static emu_clocks *merge_clocks(emu_clocks *a, emu_clocks *b) {
  uint64_t slot = (a->serial * 31 + b->serial) % MEMO;
  if (all.memo[slot].result && all.memo[slot].a == a->serial && all.memo[slot].b == b->serial)
    return emu_clocks_hold(all.memo[slot].result);
  emu_clocks *c = new_clocks(), *result = c;
  int newer = join_into(c->at, a->at, b->at, all.entries);
  if (newer != 3) {
    result = emu_clocks_hold(newer & 2 ? b : a);
    emu_clocks_drop(c);
  }
  emu_clocks_drop(all.memo[slot].result);
  all.memo[slot].a = a->serial;
  all.memo[slot].b = b->serial;
  all.memo[slot].result = emu_clocks_hold(result);
  return result;
}

void emu_clocks_join(emu_clocks **c, emu_clocks *with) {
  if (!all.on || !with || *c == with) return;
  emu_clocks *old = *c;
  *c = merge_clocks(old, with);
  emu_clocks_drop(old);
}

void emu_gather_add(emu_gather *g, const emu_clocks *seen) {
  if (!all.on || (g->sum && g->last == seen->serial)) return;
  if (!g->sum) {
    g->sum = new_clocks();
    memcpy(g->sum->at, seen->at, all.entries * sizeof seen->at[0]);
  } else {
    raise_clocks(g->sum->at, seen->at, all.entries);
  }
  g->last = seen->serial;
}

void emu_gather_step(emu_gather *g, uint32_t agent, uint32_t clock) {
  if (!all.on) return;
  if (!g->sum) g->sum = fresh_zero();
  if (g->sum->at[agent] < clock) g->sum->at[agent] = clock;
}

emu_clocks *emu_gather_take(emu_gather *g) {
  emu_clocks *c = g->sum ? g->sum : emu_clocks_zero();
  g->sum = NULL;
  g->last = 0;
  return c;
}

void emu_gather_drop(emu_gather *g) {
  emu_clocks_drop(g->sum);
  g->sum = NULL;
  g->last = 0;
}
