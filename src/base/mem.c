#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

static atomic_long fail_after; /* 0 = off; counts down to 1, then every allocation fails */

void ga_mem_fail_after(long n) { atomic_store(&fail_after, n); }

static atomic_long living; /* allocations that are not freed */

long ga_mem_living(void) { return atomic_load(&living); }

static bool must_fail(void) {
  long n = atomic_load(&fail_after);
  if (GA_LIKELY(n == 0)) return false;
  if (n == 1) return true;
  atomic_store(&fail_after, n - 1);
  return false;
}

/* Large memory is asked for in huge pages: reading weights with pages of 4 KiB waits for address translation (one
 * thread, q5_0 from memory: 77 % of the read bandwidth, 97 with huge pages). A system that has none ignores the advice.
 * */
#define HUGE_PAGE ((size_t)2 << 20)

static void *take_memory(size_t size) {
  if (size < 2 * HUGE_PAGE) return aligned_alloc(GA_CACHE_LINE, size);
  size = ga_round_up(size, HUGE_PAGE);
  void *p = aligned_alloc(HUGE_PAGE, size);
#ifdef MADV_HUGEPAGE
  if (p) (void)madvise(p, size, MADV_HUGEPAGE);
#endif
  return p;
}

ga_status ga_mem_alloc(size_t bytes, const char *what, void **out) {
  *out = NULL;
  if (bytes > SIZE_MAX - HUGE_PAGE) return ga_fail_nomem(what, bytes);
  size_t size = ga_round_up(bytes ? bytes : 1, GA_CACHE_LINE);
  void *p = must_fail() ? NULL : take_memory(size);
  if (!p) return ga_fail_nomem(what, bytes);
  (void)atomic_fetch_add_explicit(&living, 1, memory_order_relaxed);
  *out = p;
  return GA_OK;
}

ga_status ga_mem_zalloc(size_t count, size_t each, const char *what, void **out) {
  *out = NULL;
  uint64_t bytes;
  if (!ga_mul_ok(count, each, &bytes)) return ga_fail_nomem(what, SIZE_MAX);
  GA_TRY(ga_mem_alloc(bytes, what, out));
  memset(*out, 0, bytes);
  return GA_OK;
}

void ga_mem_free(void *p) {
  if (p) (void)atomic_fetch_sub_explicit(&living, 1, memory_order_relaxed);
  free(p);
}

struct ga_arena_chunk {
  ga_arena_chunk *next;
  uint64_t pad; /* keeps the payload 16-byte aligned */
};

#define CHUNK_BYTES ((size_t)64 * 1024)

void ga_arena_init(ga_arena *arena, size_t limit_bytes) { *arena = (ga_arena){.limit_bytes = limit_bytes}; }

ga_status ga_arena_alloc(ga_arena *arena, size_t bytes, void **out) {
  *out = NULL;
  if (bytes > SIZE_MAX / 2) return ga_fail_nomem("arena", bytes);
  size_t need = ga_round_up(bytes ? bytes : 1, 16);
  if (arena->limit_bytes && need > arena->limit_bytes - arena->total_bytes)
    return ga_fail(GA_ERR_NOMEM, "arena: %zu bytes asked for with %zu of %zu used", bytes, arena->total_bytes,
                   arena->limit_bytes);
  if (!arena->chunks || need > arena->size - arena->used) {
    size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
    void *chunk;
    GA_TRY(ga_mem_alloc(sizeof(ga_arena_chunk) + size, "arena", &chunk));
    ((ga_arena_chunk *)chunk)->next = arena->chunks;
    arena->chunks = chunk;
    arena->used = 0;
    arena->size = size;
  }
  char *payload = (char *)(arena->chunks + 1);
  *out = memset(payload + arena->used, 0, need);
  arena->used += need;
  arena->total_bytes += need;
  return GA_OK;
}

ga_status ga_arena_strndup(ga_arena *arena, const char *s, size_t n, char **out) {
  void *p;
  *out = NULL;
  GA_REQUIRE(n < SIZE_MAX, GA_ERR_SHAPE, "arena: string of %zu bytes", n);
  GA_TRY(ga_arena_alloc(arena, n + 1, &p));
  if (n) memcpy(p, s, n);
  *out = p;
  return GA_OK;
}

void ga_arena_free(ga_arena *arena) {
  for (ga_arena_chunk *c = arena->chunks, *next; c; c = next) {
    next = c->next;
    ga_mem_free(c);
  }
  size_t limit = arena->limit_bytes;
  ga_arena_init(arena, limit);
}
