/* Checked arithmetic on sizes, aligned memory, and an arena. */
#ifndef GA_BASE_MEM_H
#define GA_BASE_MEM_H

#include "base/compiler.h"
#include "ga/base.h"

/* Sets *out = a * b. Returns false, with *out unchanged, when the result does not fit in 64 bits. */
GA_INLINE bool ga_mul_ok(uint64_t a, uint64_t b, uint64_t *out) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return false;
  *out = product;
  return true;
}

GA_INLINE bool ga_add_ok(uint64_t a, uint64_t b, uint64_t *out) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return false;
  *out = sum;
  return true;
}

/* Returns n rounded up to a multiple of `to`, a power of two. */
GA_INLINE size_t ga_round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }
GA_INLINE int64_t ga_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
GA_INLINE int64_t ga_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
GA_INLINE uint64_t ga_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
GA_INLINE int64_t ga_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#define GA_CACHE_LINE 64

/* Allocates `bytes` bytes at an address that is a multiple of 64, not cleared. `bytes` 0 counts as 1. On failure *out
 * is NULL. Release with ga_mem_free. `what` names the purpose in error texts. */
GA_NODISCARD ga_status ga_mem_alloc(size_t bytes, const char *what, void **out);
/* Allocates count elements of `each` bytes, zeroed, otherwise like ga_mem_alloc. The product is checked for
 * overflow. */
GA_NODISCARD ga_status ga_mem_zalloc(size_t count, size_t each, const char *what, void **out);
void ga_mem_free(void *p); /* frees memory of ga_mem_alloc; NULL is accepted */
/* Returns the number of allocations that are not freed, for tests. */
long ga_mem_living(void);

/* Makes allocations fail, for tests: the n-th allocation from now (n >= 1) and all later ones. n 0: allocations no
 * longer fail. */
void ga_mem_fail_after(long n);

/* Arena: many small allocations that are freed together (a parsed file, a compiled template). Not thread-safe. */
typedef struct ga_arena_chunk ga_arena_chunk;
typedef struct ga_arena {
  ga_arena_chunk *chunks; /* List of memory blocks, newest first. */
  size_t used, size;      /* Bytes used in the newest chunk, and bytes that it has. */
  size_t total_bytes;     /* Bytes allocated so far. */
  /* Largest total_bytes, which bounds hostile input: beyond it ga_arena_alloc returns GA_ERR_NOMEM. 0: no limit. */
  size_t limit_bytes;
} ga_arena;

void ga_arena_init(ga_arena *arena, size_t limit_bytes);
/* Allocates zeroed bytes, 16-byte aligned. They live until ga_arena_free. */
GA_NODISCARD ga_status ga_arena_alloc(ga_arena *arena, size_t bytes, void **out);
/* Copies n bytes of s to the arena and appends a NUL. */
GA_NODISCARD ga_status ga_arena_strndup(ga_arena *arena, const char *s, size_t n, char **out);
void ga_arena_free(ga_arena *arena);

#endif
