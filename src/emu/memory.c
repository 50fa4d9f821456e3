/* Device memory, ordinary loads and stores of global memory, and atomics. Global memory is one reserved range with its
 * shadow beside it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/half.h"
#include "emu/shadow.h"

/* --- the arena: addresses are handed out upwards and start again when nothing is alive --- */

#define ARENA ((size_t)1 << 36)
#define GAP   256 /* at least, between allocations */

typedef struct range {
  char *lo, *hi;
  bool live;
} range;

static struct {
  char *base;
  emu_cell *cells;
  size_t used, n, capacity, live;
  range *ranges; /* ascending */
} arena;

static void *reserve(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static bool arena_ready(void) {
  if (arena.base) return true;
  arena.cells = reserve(ARENA / 16 * sizeof(emu_cell));
  arena.base = arena.cells ? reserve(ARENA) : NULL;
  return arena.base != NULL;
}

void *emu_alloc(size_t bytes) {
  if (!arena_ready() || bytes > ARENA - arena.used - 2 * GAP) return NULL;
  if (arena.n == arena.capacity) {
    size_t capacity = arena.capacity ? 2 * arena.capacity : 64;
    range *p = realloc(arena.ranges, capacity * sizeof *p);
    if (!p) return NULL;
    arena.ranges = p;
    arena.capacity = capacity;
  }
  char *lo = arena.base + arena.used + GAP;
  arena.ranges[arena.n++] = (range){lo, lo + bytes, true};
  arena.used += (bytes + GAP + GAP - 1) / GAP * GAP;
  arena.live++;
  return lo;
}

static range *range_at(const void *p) {
  static size_t hit;
  const char *c = p;
  if (hit < arena.n && c >= arena.ranges[hit].lo && c < arena.ranges[hit].hi) return &arena.ranges[hit];
  size_t lo = 0, hi = arena.n;
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (arena.ranges[mid].lo <= c)
      lo = mid;
    else
      hi = mid;
  }
  if (!arena.n || c < arena.ranges[lo].lo || c >= arena.ranges[lo].hi) return NULL;
  hit = lo;
  return &arena.ranges[lo];
}

static void start_again(void) {
  emu_cells_clear(arena.cells, arena.used / 16 + 32);
  (void)madvise(arena.base, arena.used + 2 * GAP, MADV_DONTNEED);
  arena.used = arena.n = 0;
}

bool emu_free(void *p) {
  if (!p) return true;
  range *r = range_at(p);
  if (!r && arena.n) /* of zero bytes */
    for (size_t i = 0; i < arena.n && !r; i++)
      if (arena.ranges[i].lo == p) r = &arena.ranges[i];
  if (!r || r->lo != (char *)p || !r->live) return false;
  r->live = false;
  if (!--arena.live) start_again();
  return true;
}

bool emu_is_device(const void *p, size_t bytes) {
  const range *r = range_at(p);
  return r && r->live && bytes <= (size_t)(r->hi - (const char *)p);
}

void emu_mark_written(void *p, size_t bytes) {
  if (bytes) emu_cells_written(arena.cells, (size_t)((char *)p - arena.base), bytes);
}

/* --- accesses --- */

static bool power_of_two_aligned(uintptr_t a, size_t bytes) {
  return bytes > 16 || bytes & (bytes - 1) || !(a & (bytes - 1));
}

bool emu_touch_shared(emu_block *b, const emu_actor *a, uint32_t addr, uint32_t bytes, emu_access access) {
  if (addr < EMU_SMEM_BASE || addr + (uint64_t)bytes > b->smem_end) {
    emu_report(EMU_RULE_BOUNDS, a->at, "%u bytes at shared %#x; block %d has %#x to %#x", bytes, addr, b->index,
               EMU_SMEM_BASE, b->smem_end);
    return false;
  }
  if (!power_of_two_aligned(addr, bytes)) emu_report(EMU_RULE_MISALIGNED, a->at, "%u bytes at shared %#x", bytes, addr);
  if (emu_opt.checks) emu_cells_access(b->cells, addr, bytes, a, access, b);
  return true;
}

bool emu_touch_global(const emu_actor *a, const void *p, size_t bytes, emu_access access) {
  if (!emu_is_device(p, bytes)) {
    const range *r = range_at(p);
    const char *why = !r ? "no allocation there" : !r->live ? "freed" : "past the end of the allocation";
    emu_report(EMU_RULE_BOUNDS, a->at, "%zu bytes at global %p: %s", bytes, p, why);
    return false;
  }
  /* A box may begin at any element. */
  if (!a->async && !power_of_two_aligned((uintptr_t)p, bytes))
    emu_report(EMU_RULE_MISALIGNED, a->at, "%zu bytes at global %p", bytes, p);
  if (emu_opt.checks) emu_cells_access(arena.cells, (size_t)((const char *)p - arena.base), bytes, a, access, NULL);
  return true;
}

/* --- global memory --- */

void emu_ldg(void *r, const void *p, int bytes, EMU_SITE) {
  emu_actor a = emu_actor_of(emu_begin("ld.global", file, line));
  if (emu_touch_global(&a, p, (size_t)bytes, EMU_READ))
    memcpy(r, p, (size_t)bytes);
  else
    memset(r, 0, (size_t)bytes);
}

void emu_stg(void *p, const void *x, int bytes, EMU_SITE) {
  emu_actor a = emu_actor_of(emu_begin("st.global", file, line));
  if (emu_touch_global(&a, p, (size_t)bytes, EMU_WRITE)) memcpy(p, x, (size_t)bytes);
}

/* No race with others of their kind. What other processes do to the memory is not seen. */
void emu_ldg_peer(void *r, const void *p, int bytes, EMU_SITE) {
  emu_actor a = emu_actor_of(emu_begin("ld.volatile", file, line));
  if (emu_touch_global(&a, p, (size_t)bytes, EMU_ATOMIC))
    memcpy(r, p, (size_t)bytes);
  else
    memset(r, 0, (size_t)bytes);
}

void emu_stg_peer(void *p, const void *x, int bytes, EMU_SITE) {
  emu_actor a = emu_actor_of(emu_begin("st.volatile", file, line));
  if (emu_touch_global(&a, p, (size_t)bytes, EMU_ATOMIC)) memcpy(p, x, (size_t)bytes);
  emu_maybe_yield();
}

int emu_atomic_add_i32(int32_t *p, int x, EMU_SITE) {
  emu_thread *t = emu_begin("atom.add", file, line);
  emu_actor a = emu_actor_of(t);
  emu_order_atomic(p, t->at_fence);
  if (!emu_touch_global(&a, p, 4, EMU_ATOMIC)) return 0;
  int old = *p;
  *p = (int)((uint32_t)old + (uint32_t)x);
  emu_maybe_yield();
  return old;
}

static float half_of(const void *p, bool bf16) {
  uint16_t h;
  memcpy(&h, p, 2);
  return bf16 ? ga_bf16_to_f32(h) : ga_f16_to_f32(h);
}

static uint16_t to_half(float x, bool bf16) { return x != x ? 0x7fff : bf16 ? ga_f32_to_bf16(x) : ga_f32_to_f16(x); }

/* Sums are rounded once: those of two halves are exact in double or nearly so. Minima and maxima pass NaN by. */
static void combine_half(int op, void *p, const void *x) {
  const bool bf16 = op == EMU_ADD_BF16 || op == EMU_MAX_BF16 || op == EMU_MIN_BF16;
  const float a = half_of(p, bf16), b = half_of(x, bf16);
  const bool add = op == EMU_ADD_F16 || op == EMU_ADD_BF16, larger = op == EMU_MAX_F16 || op == EMU_MAX_BF16;
  const uint16_t h = to_half(add ? a + b : a != a ? b : b != b || (larger ? a > b : a < b) ? a : b, bf16);
  memcpy(p, &h, 2);
}

static void add_f32(char *p, const char *x, bool flush) {
  const uint32_t nan = 0x7fffffff;
  float v[2];
  memcpy(&v[0], p, 4);
  memcpy(&v[1], x, 4);
  for (int i = 0; i < 2 && flush; i++) v[i] = fabsf(v[i]) < 0x1p-126f ? copysignf(0, v[i]) : v[i];
  v[0] += v[1];
  if (flush && fabsf(v[0]) < 0x1p-126f) v[0] = copysignf(0, v[0]);
  memcpy(p, v[0] != v[0] ? (const void *)&nan : v, 4);
}

void emu_combine(int op, void *p, const void *x, size_t bytes) {
  if (op == EMU_STORE)
    memcpy(p, x, bytes);
  else if (op == EMU_ADD_F32)
    for (size_t i = 0; i < bytes; i += 4) add_f32((char *)p + i, (const char *)x + i, false);
  else if (op == EMU_ADD_I32)
    for (size_t i = 0; i < bytes / 4; i++) {
      uint32_t a, b;
      memcpy(&a, (char *)p + 4 * i, 4);
      memcpy(&b, (const char *)x + 4 * i, 4);
      a += b;
      memcpy((char *)p + 4 * i, &a, 4);
    }
  else
    for (size_t i = 0; i < bytes / 2; i++) combine_half(op, (char *)p + 2 * i, (const char *)x + 2 * i);
}

void emu_atomic_add(int op, void *p, const void *x, int bytes, void *old, EMU_SITE) {
  emu_thread *t = emu_begin(old ? "atom.add" : "red.add", file, line);
  emu_actor a = emu_actor_of(t);
  emu_order_atomic(p, t->at_fence);
  if (old) memset(old, 0, (size_t)bytes);
  if (!emu_touch_global(&a, p, (size_t)bytes, EMU_ATOMIC)) return;
  if (old) memcpy(old, p, (size_t)bytes);
  for (int i = 0; i < bytes && op == EMU_ADD_F32; i += 4)
    add_f32((char *)p + i, (const char *)x + i, true); /* atomics flush, bulk sums do not */
  if (op != EMU_ADD_F32) emu_combine(op, p, x, (size_t)bytes);
  emu_maybe_yield();
}

void emu_fence_device(EMU_SITE) {
  emu_thread *t = emu_begin("fence.acq_rel.gpu", file, line);
  t->mark[EMU_LOADED] = t->own++;
  emu_order_fence(t);
}

/* --- static shared memory: the section emu_shared of all kernels in the program; empty when none has any --- */

extern char __start_emu_shared[] __attribute__((weak)), __stop_emu_shared[] __attribute__((weak));
static emu_cell *static_cells;

static size_t static_bytes(void) { return (size_t)(__stop_emu_shared - __start_emu_shared); }

/* A new block finds anything there. */
void emu_static_reset(void) {
  size_t n = static_bytes();
  if (!n) return;
  if (!static_cells) static_cells = calloc(n / 16 + 2, sizeof *static_cells);
  if (!static_cells) abort();
  emu_cells_clear(static_cells, n / 16 + 2);
  memset(__start_emu_shared, 0xff, n);
}

static void touch_static(const emu_actor *a, const char *p, size_t bytes, emu_access access) {
  if (emu_now.n_blocks > 1) emu_report(EMU_RULE_LAUNCH, a->at, "static shared memory in a cluster is not modelled");
  emu_cells_access(static_cells, (size_t)(p - __start_emu_shared), bytes, a, access, __start_emu_shared);
}

/* --- hooks: what the compiler's thread instrumentation reports of plain accesses in kernels --- */

void emu_hook(void *p, size_t n, bool write, void *pc);
void emu_hook(void *p, size_t n, bool write, void *pc) {
  emu_thread *t = emu_me;
  if (!t || !emu_opt.checks) return;
  char *c = p;
  if (c >= t->stack && c < t->stack + EMU_STACK) {
    emu_wgmma_hook(t, c, n, write, (emu_site){NULL, (intptr_t)pc});
  } else if (c >= arena.base && c < arena.base + ARENA) {
    emu_actor a = {.agent = t->agent, .clock = t->own, .seen = t->seen, .at = {NULL, (intptr_t)pc}};
    (void)emu_touch_global(&a, p, n, write ? EMU_WRITE : EMU_READ);
  } else if (c >= __start_emu_shared && c < __stop_emu_shared) {
    emu_actor a = {.agent = t->agent, .clock = t->own, .seen = t->seen, .at = {NULL, (intptr_t)pc}};
    touch_static(&a, c, n, write ? EMU_WRITE : EMU_READ);
  }
}
