/* Attention over stretches on the emulated GPU: chunks of a sequence have the bits that the plain row of the same tile
 * gives for the whole, though their keys lie anywhere, in pieces of whole blocks; what lies behind a stretch's end does
 * not matter, a NaN neither; keys that come late are waited for, and a wait in vain is told. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/ops.h"

#define STRETCH_ROW "attn_fwd_stretch_bf16_d128v128_window_sm90a_128x128x2_q_smem"
#define PLAIN_ROW   "attn_fwd_bf16_d128v128_window_sm90a_128x128x2_q_smem"

enum {
  TOKENS = 512,
  HEADS = 2,
  DIM = 128,
  CHUNK = 128,
  Q = TOKENS * HEADS * DIM,
  KV = TOKENS * DIM,
  LSE = HEADS * TOKENS
};

static ga_ctx *ctx;
static uint16_t host[4 * KV]; /* as many as Q, or K and V */

static void *buffer(size_t bytes, const void *from) {
  void *p;
  assert_int_equal(ga_buffer_alloc(ctx, bytes, &p), GA_OK);
  assert_int_equal(ga_copy_to_device(ctx, p, from, bytes, NULL), GA_OK);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
  return p;
}

static void *random_buffer(size_t n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (size_t i = 0; i < n; i++) host[i] = ga_f32_to_bf16((float)ga_rng_normal(&rng));
  return buffer(n * sizeof *host, host);
}

static void run_by_row(const char *row, const ga_attn_desc *d, const ga_attn_io *io) {
  ga_plan *plan;
  void *workspace = NULL;
  if (ga_attn_plan_row(ctx, d, row, &plan) != GA_OK) fail_msg("%s", ga_error_text());
  if (ga_plan_workspace_bytes(plan))
    assert_int_equal(ga_buffer_alloc(ctx, ga_plan_workspace_bytes(plan), &workspace), GA_OK);
  if (ga_attn_run(plan, io, workspace, NULL) != GA_OK || ga_stream_sync(ctx, NULL) != GA_OK)
    fail_msg("%s", ga_error_text());
  ga_plan_destroy(plan);
  ga_buffer_free(ctx, workspace);
}

static void fetch_bits(void *to, const void *from, size_t bytes) {
  assert_int_equal(ga_copy_to_host(ctx, to, from, bytes, NULL), GA_OK);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
}

/* Keys at these positions, at these rows of the tensor: pieces of whole blocks but the last. */
static const ga_attn_stretch keys[] = {{.first = 384, .rows = 128, .position = 0},
                                       {.first = 128, .rows = 256, .position = 128},
                                       {.first = 0, .rows = 128, .position = 384}};

typedef struct bits {
  uint16_t o[Q];
  float lse[LSE];
} bits;

enum { PAGE = 32, PAGES = TOKENS / PAGE };
static int32_t page_table[PAGES];

/* Row j of K or V comes to page page_table[j / PAGE]. */
static void to_pages(uint16_t *rows) {
  for (int i = 0; i < PAGES; i++) {
    page_table[i] = (i * 5 + 3) % PAGES;
    memcpy(host + page_table[i] * PAGE * DIM, rows + i * PAGE * DIM, PAGE * DIM * sizeof *host);
  }
  memcpy(rows, host, KV * sizeof *host);
}

/* Not without a mask: there the plain rows look for a new reference more often (MOVES of attn_fwd_sm90a.cu). */
static void same_bits(int32_t window, bool pages) {
  static bits whole, chunks;
  static uint16_t moved[2][KV];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS, d.q_heads = HEADS, d.kv_heads = 1, d.head_dim = DIM;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_LSE, d.window = window;
  memset(&whole, 0xA5, sizeof whole);
  void *q = random_buffer(Q, 1), *k = random_buffer(KV, 2), *v = random_buffer(KV, 3),
       *o = buffer(sizeof whole.o, whole.o);
  float *lse = buffer(sizeof whole.lse, whole.lse);
  ga_attn_io io = {.q = q, .k = k, .v = v, .o = o, .lse = lse};
  run_by_row(PLAIN_ROW, &d, &io);
  fetch_bits(whole.o, o, sizeof whole.o), fetch_bits(whole.lse, lse, sizeof whole.lse);
  for (int i = 0; i < 2; i++) {
    fetch_bits(host, i ? v : k, KV * sizeof *host);
    for (size_t s = 0; s < GA_COUNT_OF(keys); s++)
      memcpy(moved[i] + keys[s].first * DIM, host + keys[s].position * DIM, (size_t)keys[s].rows * DIM * sizeof *host);
  }
  for (int i = 0; i < 2 && pages; i++) to_pages(moved[i]);
  void *const moved_k = buffer(sizeof moved[0], moved[0]), *const moved_v = buffer(sizeof moved[1], moved[1]);
  void *const table = buffer(sizeof page_table, page_table);
  io.k = moved_k, io.v = moved_v;
  if (pages) d.flags |= GA_ATTN_PAGED, d.page_size = PAGE, io.page_table = table;
  d.q_stretches = 2, d.kv_stretches = GA_COUNT_OF(keys), io.kv_stretches = keys;
  assert_int_equal(ga_copy_to_device(ctx, o, memset(&chunks, 0xA5, sizeof chunks), sizeof chunks.o, NULL), GA_OK);
  for (int64_t c = 0; c < TOKENS / CHUNK / 2; c++) {
    const int64_t late = TOKENS - (c + 1) * CHUNK;
    const ga_attn_stretch queries[] = {{.first = c * CHUNK, .rows = CHUNK, .position = c * CHUNK},
                                       {.first = late, .rows = CHUNK, .position = late}};
    io.q_stretches = queries;
    run_by_row(STRETCH_ROW, &d, &io);
  }
  fetch_bits(chunks.o, o, sizeof chunks.o), fetch_bits(chunks.lse, lse, sizeof chunks.lse);
  assert_memory_equal(chunks.o, whole.o, sizeof whole.o);
  assert_memory_equal(chunks.lse, whole.lse, sizeof whole.lse);
  void *const all[] = {q, k, v, o, lse, moved_k, moved_v, table};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
}

static void causal_bits(void **state) {
  (void)state;
  same_bits(0, false);
}
static void window_bits(void **state) {
  (void)state;
  same_bits(150, false);
}
static void bits_by_pages(void **state) {
  (void)state;
  same_bits(150, true);
}
/* Rows of no stretch lie behind short ones in the same boxes. With zeros and with NaN there O has the same bits. */
static void unseen_rows_do_not_matter(void **state) {
  (void)state;
  static const ga_attn_stretch queries[] = {{.first = 0, .rows = 200, .position = 300}};
  static const ga_attn_stretch seen[] = {{.first = 300, .rows = 70, .position = 0},
                                         {.first = 0, .rows = 129, .position = 90},
                                         {.first = 400, .rows = 100, .position = 230},
                                         {.first = 200, .rows = 80, .position = 400}};
  static uint16_t o_of[2][Q];
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS, d.q_heads = HEADS, d.kv_heads = 1, d.head_dim = DIM;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.flags = GA_ATTN_CAUSAL;
  d.q_stretches = 1, d.kv_stretches = GA_COUNT_OF(seen);
  void *q = random_buffer(Q, 1), *k = random_buffer(KV, 2), *o = buffer(sizeof *o_of, memset(o_of, 0, sizeof *o_of));
  fetch_bits(host, k, KV * sizeof *host);
  for (int nan = 0; nan < 2; nan++) {
    for (int64_t row = 0; row < TOKENS; row++) {
      bool in = false;
      for (size_t i = 0; i < GA_COUNT_OF(seen); i++)
        in = in || (row >= seen[i].first && row < seen[i].first + seen[i].rows);
      for (int e = 0; e < DIM && !in; e++) host[row * DIM + e] = nan ? 0x7FC0 : 0;
    }
    assert_int_equal(ga_copy_to_device(ctx, k, host, KV * sizeof *host, NULL), GA_OK);
    const ga_attn_io io = {.q = q, .k = k, .v = k, .o = o, .q_stretches = queries, .kv_stretches = seen};
    run_by_row(STRETCH_ROW, &d, &io);
    fetch_bits(o_of[nan], o, sizeof *o_of);
  }
  assert_memory_equal(o_of[1], o_of[0], sizeof *o_of);
  void *const all[] = {q, k, o};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
}
typedef struct late_rows {
  uint16_t *to; /* emulated memory is the host's */
  const uint16_t *from;
  _Atomic uint32_t *word;
} late_rows;

static void *bring_rows(void *arg) {
  const late_rows *x = arg;
  (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  memcpy(x->to, x->from, (size_t)keys[2].rows * DIM * sizeof *x->to);
  atomic_store_explicit(x->word, 9, memory_order_release);
  return NULL;
}
/* The last stretch is NaN until its word says that it is there: O has the bits of a call that waits for nothing. */
static void waits_for_late_rows(void **state) {
  (void)state;
  static const ga_attn_stretch queries[] = {{.first = 64, .rows = 70, .position = 400}};
  static uint16_t o_of[2][Q], came[KV];
  const uint32_t word = 3;
  const int32_t none = 0;
  int32_t error = -1;
  ga_attn_stretch late[GA_COUNT_OF(keys)];
  memcpy(late, keys, sizeof keys);
  void *q = random_buffer(Q, 1), *k = random_buffer(KV, 2), *o = buffer(sizeof *o_of, memset(o_of, 0, sizeof *o_of));
  void *words = buffer(sizeof word, &word), *found = buffer(sizeof none, &none);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS, d.q_heads = HEADS, d.kv_heads = 1, d.head_dim = DIM;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.q_stretches = 1, d.kv_stretches = GA_COUNT_OF(keys);
  ga_attn_io io = {.q = q, .k = k, .v = k, .o = o, .q_stretches = queries, .kv_stretches = late};
  run_by_row(STRETCH_ROW, &d, &io);
  fetch_bits(o_of[0], o, sizeof *o_of);
  fetch_bits(came, k, sizeof came);
  late_rows x = {(uint16_t *)k + keys[2].first * DIM, came + keys[2].first * DIM, words};
  for (int64_t i = 0; i < keys[2].rows * DIM; i++) x.to[i] = 0x7FC0;
  late[2].ready = 9;
  io.ready = words, io.ready_error = found, io.ready_polls = INT32_MAX;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, bring_rows, &x), 0);
  run_by_row(STRETCH_ROW, &d, &io);
  assert_int_equal(pthread_join(thread, NULL), 0);
  fetch_bits(o_of[1], o, sizeof *o_of);
  fetch_bits(&error, found, sizeof error);
  assert_int_equal(error, 0);
  assert_memory_equal(o_of[1], o_of[0], sizeof *o_of);
  void *const all[] = {q, k, o, words, found};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
}
/* Keys wait for words: the word of the second is there, that of the third never comes. */
static void names_the_wait_in_vain(void **state) {
  (void)state;
  static const uint32_t on_host[] = {7, 2};
  static const ga_attn_stretch queries[] = {{.first = 64, .rows = 70, .position = 400}};
  const int32_t none = 0;
  int32_t error = -1;
  ga_attn_stretch late[GA_COUNT_OF(keys)];
  memcpy(late, keys, sizeof keys);
  void *q = random_buffer(Q, 1), *k = random_buffer(KV, 2), *o = random_buffer(Q, 3);
  void *words = buffer(sizeof on_host, on_host), *found = buffer(sizeof none, &none);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS, d.q_heads = HEADS, d.kv_heads = 1, d.head_dim = DIM;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.q_stretches = 1, d.kv_stretches = GA_COUNT_OF(keys);
  ga_attn_io io = {.q = q, .k = k, .v = k, .o = o, .q_stretches = queries, .kv_stretches = late};
  io.ready = words, io.ready_error = found, io.ready_polls = 4;
  late[1].ready = 7;
  run_by_row(STRETCH_ROW, &d, &io);
  fetch_bits(&error, found, sizeof error);
  assert_int_equal(error, 0);
  late[2].ready = 3, late[2].ready_word = 1;
  run_by_row(STRETCH_ROW, &d, &io);
  fetch_bits(&error, found, sizeof error);
  assert_int_equal(error, 3);
  void *const all[] = {q, k, o, words, found};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) ga_buffer_free(ctx, all[i]);
}

static int open_emulated(void **state) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  (void)state;
  o.device = "emu";
  return ga_ctx_create(&o, &ctx) != GA_OK;
}
static int close_device(void **state) {
  (void)state;
  ga_ctx_destroy(ctx);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(causal_bits),         cmocka_unit_test(window_bits),
      cmocka_unit_test(bits_by_pages),       cmocka_unit_test(unseen_rows_do_not_matter),
      cmocka_unit_test(waits_for_late_rows), cmocka_unit_test(names_the_wait_in_vain),
  };
  return cmocka_run_group_tests(tests, open_emulated, close_device);
}
