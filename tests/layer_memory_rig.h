/* Pages of the KV cache for tests of them: pools, prompts of rising tokens, sequences that come and go. */
#ifndef GA_TESTS_LAYER_MEMORY_RIG_H
#define GA_TESTS_LAYER_MEMORY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/layer_memory_impl.h"
#include "tests/memory_kinds.h"

enum { PAGE = 4, IDS = 64 };

static layer_memory *memory;
static const unit_copy *copies; /* that the last match asked for */
static int32_t n_copies;

static inline void open_pages(int32_t full, int32_t window_pages, int32_t window) {
  layer_memory_options o = memory_test_options(PAGE, window);
  o.n_units[FULL] = full;
  o.n_units[WINDOW] = window_pages;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
}

static inline void open_with_host(int32_t full, int32_t host, bool offloads) {
  layer_memory_options o = memory_test_options(PAGE, 0);
  o.n_units[FULL] = full;
  o.n_host[FULL] = host;
  o.offload_prefixes = offloads;
  assert_int_equal(layer_memory_create(&o, &memory), GA_OK);
}

static inline void close_pages(void) {
  for (int32_t kind = 0; kind < KINDS; kind++) assert_int_equal(layer_memory_counts(memory, kind).used, 0);
  assert_int_equal(layer_memory_verify(memory, NULL, 0), GA_OK);
  layer_memory_destroy(memory);
}

static inline void expect_counts(int32_t kind, int32_t held, int32_t kept) {
  const unit_counts count = layer_memory_counts(memory, kind);
  assert_int_equal(count.used, held);
  assert_int_equal(count.cached, kept);
}

/* begin, begin + 1 ... */
static inline const int32_t *ids_from(int32_t begin) {
  static int32_t ids[4][IDS];
  static int at;
  at = (at + 1) % 4;
  for (int32_t i = 0; i < IDS; i++) ids[at][i] = begin + i;
  return ids[at];
}

static inline int32_t match_ids(sequence_memory *q, const int32_t *ids, int32_t n) {
  prefix_match found;
  const int32_t peeked = layer_memory_peek(memory, 0, ids, n);
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_match(memory, 0, ids, n, q, &found), GA_OK);
  layer_memory_load(memory, q, &found);
  copies = layer_memory_copies(memory, &n_copies);
  assert_int_equal(found.tokens, peeked);
  return found.tokens;
}

static inline void compute_ids(sequence_memory *q, const int32_t *ids, int32_t n) {
  assert_int_equal(layer_memory_extend(memory, q, n), GA_OK);
  layer_memory_computed(memory, 0, q, ids, n);
}

/* A sequence of n tokens comes and goes. */
static inline void leave_ids(const int32_t *ids, int32_t n) {
  sequence_memory q = {.n_pages = 0};
  (void)match_ids(&q, ids, n);
  compute_ids(&q, ids, n);
  layer_memory_release(memory, 0, &q, ids, n);
  assert_null(q.units[FULL]);
}

static inline void verify_two(const sequence_memory *a, const sequence_memory *b) {
  const sequence_memory *const list[] = {a, b};
  const ga_status status = layer_memory_verify(memory, list, b ? 2 : 1);
  if (status != GA_OK) fail_msg("%s", ga_error_text());
}

/* All pages of the device but n are needed by one that has no prefix in common with others. */
static inline void need_all_but(int32_t n) {
  sequence_memory q = {.n_pages = 0};
  layer_memory_copied(memory);
  assert_int_equal(layer_memory_extend(memory, &q, (layer_memory_counts(memory, FULL).total - n) * PAGE), GA_OK);
  copies = layer_memory_copies(memory, &n_copies);
  assert_int_equal(layer_memory_verify(memory, (const sequence_memory *const[]){&q}, 1), GA_OK);
  layer_memory_release(memory, 0, &q, NULL, 0);
}

#endif
