/* A step is ordered before an access when the accessing agent has seen it. The async proxy rule (PTX ISA 9.1, 8.x
 * "proxies"): an ordinary write is visible to the copy engine and to wgmma only if its thread executed
 * fence.proxy.async after it, and that fence is ordered before: so each thread has two more entries in the clock sets,
 * the steps of its last such fences of shared and of global memory. And an arrival does not wait for the loads before
 * it (H200: docs/log/attention.md, "Loads that an arrival overtakes"): the copy engine may write what a thread has
 * read only if that thread's loads are known to have returned, the third such entry. */
#include "emu/shadow.h"

#include <stdlib.h>
#include <string.h>

static struct {
  emu_cell *cell;
  uint32_t n, capacity, unused; /* groups of four; unused: linked through child */
} pool;

emu_actor emu_actor_of(const emu_thread *t) {
  return (emu_actor){.agent = t->agent, .clock = t->own, .seen = t->seen, .at = t->at};
}

/* --- splitting: a cell of 16 bytes into 4 words, a word into 4 bytes --- */

static uint32_t new_group(void) {
  if (pool.unused) {
    uint32_t g = pool.unused;
    pool.unused = pool.cell[4 * g].child;
    return g;
  }
  if (pool.n + 1 >= pool.capacity) {
    uint32_t capacity = pool.capacity ? 2 * pool.capacity : 4096;
    emu_cell *p = realloc(pool.cell, (size_t)capacity * 4 * sizeof *p);
    if (!p) abort();
    pool.cell = p;
    pool.capacity = capacity;
  }
  return ++pool.n;
}

static void merge_cells(emu_cell *c) {
  uint32_t g = c->child;
  if (!g) return;
  for (int i = 0; i < 4; i++) merge_cells(&pool.cell[4 * g + (uint32_t)i]);
  pool.cell[4 * g].child = pool.unused;
  pool.unused = g;
  c->child = 0;
}

/* Pointers to pool cells do not outlive a split: cells are named by index from then on. Index 0 is `root`. */
static emu_cell *cell_at(emu_cell *root, uint32_t i) { return i ? &pool.cell[i] : root; }

static void split_cells(emu_cell *root, uint32_t i) {
  uint32_t g = new_group();
  emu_cell *c = cell_at(root, i);
  for (uint32_t k = 0; k < 4; k++) pool.cell[4 * g + k] = *c;
  c->child = g;
}

/* --- what happened before --- */

/* Threads come first, then the warpgroups' products, then the copy engine. */
static bool is_thread(uint16_t agent) { return agent < emu_now.n_blocks * emu_now.blocks[0].n_threads; }

static bool seen_before(const emu_actor *a, const emu_step *s) {
  return s->agent == a->agent || a->seen->at[s->agent] >= s->clock;
}

static bool mark_seen(const emu_actor *a, const emu_step *s, int mark) {
  return a->seen->at[emu_now.mark0[mark] + s->agent] >= s->clock;
}

static const char *kind(bool async, bool write) {
  return async ? (write ? "asynchronous write" : "asynchronous read") : (write ? "write" : "read");
}

static void report_race(const emu_actor *a, bool write, const emu_step *s, bool was_write, bool was_async,
                        const void *block, size_t at, size_t size) {
  emu_rule rule = block ? EMU_RULE_RACE_SHARED : EMU_RULE_RACE_GLOBAL;
  emu_report(rule, a->at, "%s by %s races an earlier %s by %s at %s (%s %#zx, %zu bytes)", kind(a->async, write),
             emu_agent_text(a->agent), kind(was_async, was_write), emu_agent_text(s->agent),
             emu_site_text(emu_site_of(s->site)), block ? "shared" : "global", at, size);
}

static void check_write_seen(const emu_cell *c, const emu_actor *a, bool write, const void *block, size_t at,
                             size_t size) {
  const emu_step *s = &c->write;
  if (s->agent == a->agent && !a->async) return;
  if (!seen_before(a, s))
    report_race(a, write, s, true, c->by_async, block, at, size);
  else if (a->async && !c->by_async && is_thread(s->agent) &&
           !mark_seen(a, s, block ? EMU_FENCED_SHARED : EMU_FENCED_GLOBAL))
    emu_report(EMU_RULE_PROXY_FENCE, a->at,
               "%s at %s %#zx sees the write by %s at %s without a fence.proxy.async by its thread", kind(true, write),
               block ? "shared" : "global", at, emu_agent_text(s->agent), emu_site_text(emu_site_of(s->site)));
}

/* Before a write by a. Only what the copy engine writes into shared memory overtakes loads: other stores queue behind
 * them. */
static void check_read_seen(const emu_step *s, const emu_actor *a, const void *block, size_t at, size_t size) {
  if (!seen_before(a, s))
    report_race(a, true, s, false, !is_thread(s->agent), block, at, size);
  else if (a->async && block && is_thread(s->agent) && !mark_seen(a, s, EMU_LOADED))
    emu_report(
        EMU_RULE_LOAD, a->at,
        "%s at shared %#zx, %zu bytes, may overtake the read by %s at %s: no loads_done between that and its release",
        kind(true, true), at, size, emu_agent_text(s->agent), emu_site_text(emu_site_of(s->site)));
}

/* Steps of earlier runs: the grid before counts as one agent while this launch may overlap it; other blocks of this
 * launch have left their mark, and only atomics may meet theirs. */
static void enter_era(emu_cell *c, const emu_actor *a, emu_access access, const void *block, size_t at, size_t size) {
  if (c->era == emu_now.era) return;
  bool other_block = c->era >= emu_now.launch_era && c->era,
       prior = emu_now.prior_era && c->era >= emu_now.prior_era && !other_block;
  if (emu_opt.dependent && !block && !c->era && c->written) prior = true; /* the host stands for the grid before */
  bool was_write = c->write.clock != 0 || !c->era, was_read = c->read[0].clock != 0, write = access != EMU_READ;
  emu_step s = was_write ? c->write : c->read[0];
  if ((other_block || prior) && (was_write || (write && was_read)) && !(access == EMU_ATOMIC && c->atomic)) {
    if (prior && !a->seen->at[emu_now.prior])
      emu_report(EMU_RULE_RACE_GLOBAL, a->at,
                 "%s by %s of what the grid before used at %s: no grid_dependency_wait before it (global %#zx)",
                 kind(a->async, write), emu_agent_text(a->agent), emu_site_text(emu_site_of(s.site)), at);
    if (other_block && !c->atomic && !emu_order_seen(c->era, s.agent, s.clock))
      emu_report(EMU_RULE_RACE_GLOBAL, a->at,
                 "%s by %s races %s by another block of the grid at %s (global %#zx, %zu bytes)", kind(a->async, write),
                 emu_agent_text(a->agent), kind(c->by_async, was_write), emu_site_text(emu_site_of(s.site)), at, size);
  }
  (void)block;
  uint8_t written = c->written;
  memset(c, 0, sizeof *c);
  c->written = written;
  c->era = emu_now.era;
}

static void note_read(emu_cell *c, const emu_actor *a) {
  int slot = -1, ordered = -1;
  for (int i = 0; i < EMU_READERS && slot < 0; i++)
    if (!c->read[i].clock || c->read[i].agent == a->agent)
      slot = i;
    else if (seen_before(a, &c->read[i]))
      ordered = i;
  if (slot < 0) slot = ordered >= 0 ? ordered : (int)emu_random(EMU_READERS);
  c->read[slot] = (emu_step){a->clock, a->agent, emu_site_id(a->at)};
}

static void access_cell(emu_cell *c, const emu_actor *a, emu_access access, const void *block, size_t at, size_t size) {
  bool write = access != EMU_READ;
  enter_era(c, a, access, block, at, size);
  if (access != EMU_WRITE && !c->written) {
    emu_report(EMU_RULE_UNWRITTEN, a->at, "%s by %s of %s %#zx, which nothing has written", kind(a->async, false),
               emu_agent_text(a->agent), block ? "shared" : "global", at);
    c->written = 1; /* once is enough */
  }
  if (c->write.clock && !(access == EMU_ATOMIC && c->atomic)) check_write_seen(c, a, write, block, at, size);
  if (!write) {
    note_read(c, a);
    return;
  }
  for (int i = 0; i < EMU_READERS; i++)
    if (c->read[i].clock && !(access == EMU_ATOMIC && c->atomic)) check_read_seen(&c->read[i], a, block, at, size);
  memset(c->read, 0, sizeof c->read);
  c->write = (emu_step){a->clock, a->agent, emu_site_id(a->at)};
  c->written = 1;
  c->by_async = a->async;
  c->atomic = access == EMU_ATOMIC;
}

/* [at, at + bytes) of the cell at `base` of `size` bytes (16, 4 or 1). */
static void visit(emu_cell *root, uint32_t i, size_t base, size_t size, size_t at, size_t bytes, const emu_actor *a,
                  emu_access access, const void *block) {
  bool whole = at <= base && at + bytes >= base + size;
  emu_cell *c = cell_at(root, i);
  if (whole && access == EMU_WRITE && c->child) {
    for (uint32_t k = 0; k < 4; k++)
      visit(root, 4 * c->child + k, base + k * size / 4, size / 4, at, bytes, a, access, block), c = cell_at(root, i);
    emu_cell first = pool.cell[4 * c->child];
    merge_cells(c);
    first.child = 0;
    *c = first;
    return;
  }
  if (whole && !c->child) {
    access_cell(c, a, access, block, base, size);
    return;
  }
  if (!c->child) split_cells(root, i);
  for (uint32_t k = 0; k < 4; k++) {
    size_t b = base + k * size / 4;
    if (b < at + bytes && b + size / 4 > at)
      visit(root, 4 * cell_at(root, i)->child + k, b, size / 4, at, bytes, a, access, block);
  }
}

void emu_cells_access(emu_cell *cells, size_t at, size_t bytes, const emu_actor *a, emu_access access,
                      const void *block) {
  for (size_t base = at & ~(size_t)15; base < at + bytes; base += 16) {
    emu_cell *c = &cells[base / 16];
    if (!c->child && at <= base && at + bytes >= base + 16)
      access_cell(c, a, access, block, base, 16);
    else
      visit(c, 0, base, 16, at, bytes, a, access, block);
  }
}

static void mark_cells(emu_cell *root, uint32_t i, size_t base, size_t size, size_t at, size_t bytes) {
  if (at <= base && at + bytes >= base + size) {
    emu_cell *c = cell_at(root, i);
    merge_cells(c);
    memset(c, 0, sizeof *c);
    c->written = 1;
    return;
  }
  if (!cell_at(root, i)->child) split_cells(root, i);
  for (uint32_t k = 0; k < 4; k++) {
    size_t b = base + k * size / 4;
    if (b < at + bytes && b + size / 4 > at) mark_cells(root, 4 * cell_at(root, i)->child + k, b, size / 4, at, bytes);
  }
}

void emu_cells_written(emu_cell *cells, size_t at, size_t bytes) {
  for (size_t base = at & ~(size_t)15; base < at + bytes; base += 16)
    mark_cells(&cells[base / 16], 0, base, 16, at, bytes);
}

void emu_cells_end(emu_cell *cells, size_t n) {
  for (size_t i = 0; i < n; i++) merge_cells(&cells[i]);
}

void emu_cells_clear(emu_cell *cells, size_t n) {
  emu_cells_end(cells, n);
  memset(cells, 0, n * sizeof *cells);
}
