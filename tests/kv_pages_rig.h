/* Pages of the KV cache for tests of them: pools, prompts of rising tokens, sequences that come and go. */
#ifndef GA_TESTS_KV_PAGES_RIG_H
#define GA_TESTS_KV_PAGES_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kv_pages_impl.h"

enum { PAGE = 4, IDS = 64 };

static kv_pages *pages;
static const kv_copy *copies; /* that the last match asked for */
static int32_t n_copies;

static inline void open_pages(int32_t full, int32_t window_pages, int32_t window) {
  const kv_pages_options o = {
      .n_pages = {full, window_pages}, .page_tokens = PAGE, .window = window, .keep_prefixes = true};
  assert_int_equal(kv_pages_create(&o, &pages), GA_OK);
}

static inline void open_with_host(int32_t full, int32_t host, bool offloads) {
  const kv_pages_options o = {.n_pages = {full, 0},
                              .page_tokens = PAGE,
                              .keep_prefixes = true,
                              .n_host = {host, 0},
                              .offload_prefixes = offloads};
  assert_int_equal(kv_pages_create(&o, &pages), GA_OK);
}

static inline void close_pages(void) {
  for (int kind = 0; kind < KV_KINDS; kind++) assert_int_equal(kv_pages_counts(pages, (kv_kind)kind).held, 0);
  assert_int_equal(kv_pages_verify(pages, NULL, 0), GA_OK);
  kv_pages_destroy(pages);
}

static inline void expect_counts(kv_kind kind, int32_t held, int32_t kept) {
  const kv_pages_count count = kv_pages_counts(pages, kind);
  assert_int_equal(count.held, held);
  assert_int_equal(count.kept, kept);
}

/* begin, begin + 1 ... */
static inline const int32_t *ids_from(int32_t begin) {
  static int32_t ids[4][IDS];
  static int at;
  at = (at + 1) % 4;
  for (int32_t i = 0; i < IDS; i++) ids[at][i] = begin + i;
  return ids[at];
}

static inline int32_t match_ids(kv_sequence *q, const int32_t *ids, int32_t n) {
  kv_found found;
  const int32_t peeked = kv_pages_peek(pages, 0, ids, n);
  kv_pages_copied(pages);
  assert_int_equal(kv_pages_match(pages, 0, ids, n, q, &found), GA_OK);
  kv_pages_load(pages, q, &found);
  copies = kv_pages_copies(pages, &n_copies);
  assert_int_equal(found.tokens, peeked);
  return found.tokens;
}

static inline void compute_ids(kv_sequence *q, const int32_t *ids, int32_t n) {
  assert_int_equal(kv_pages_extend(pages, q, n), GA_OK);
  kv_pages_computed(pages, 0, q, ids, n);
}

/* A sequence of n tokens comes and goes. */
static inline void leave_ids(const int32_t *ids, int32_t n) {
  kv_sequence q = {.n_pages = 0};
  (void)match_ids(&q, ids, n);
  compute_ids(&q, ids, n);
  kv_pages_release(pages, 0, &q, ids, n);
  assert_null(q.table[KV_FULL]);
}

static inline void verify_two(const kv_sequence *a, const kv_sequence *b) {
  const kv_sequence *const list[] = {a, b};
  const ga_status status = kv_pages_verify(pages, list, b ? 2 : 1);
  if (status != GA_OK) fail_msg("%s", ga_error_text());
}

/* All pages of the device but n are needed by one that has no prefix in common with others. */
static inline void need_all_but(int32_t n) {
  kv_sequence q = {.n_pages = 0};
  kv_pages_copied(pages);
  assert_int_equal(kv_pages_extend(pages, &q, (kv_pages_counts(pages, KV_FULL).total - n) * PAGE), GA_OK);
  copies = kv_pages_copies(pages, &n_copies);
  assert_int_equal(kv_pages_verify(pages, (const kv_sequence *const[]){&q}, 1), GA_OK);
  kv_pages_release(pages, 0, &q, NULL, 0);
}

#endif
