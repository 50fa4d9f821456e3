/* Attention over stretches whose keys come while it runs, on a GPU:
 * usage: attn_stretch_late [DEVICE [PAGE_SIZE]]
 * Seven of eight stretches of keys are NaN when the call is enqueued. Another stream copies them 10 ms apart and raises
 * their words: O has the bits of a call that waits for nothing, and the call ends after the last word. Then a word that
 * never comes: ready_error names its stretch. With a PAGE_SIZE (128 or a divisor) keys lie in pages, in another order.
 * Prints what it saw; exit 1 when anything is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "base/rng.h"
#include "ga/attn.h"

enum { TOKENS = 8192, HEADS = 16, KV_HEADS = 4, DIM = 128, KEYS = 8, PART = TOKENS / KEYS, APART_MS = 10 };
#define ROW   (KV_HEADS * DIM) /* elements of a key */
#define Q     ((size_t)TOKENS * HEADS * DIM)
#define VALUE 5 /* that words come to */

typedef struct late_bench {
  ga_ctx *ctx;
  ga_stream *later;
  uint16_t *rows; /* page-locked: K as it will be, V the same */
  void *q, *kv, *o;
  uint32_t *words;
  int32_t *error;
  int32_t page_size, *table;
  ga_attn_stretch keys[KEYS];
} late_bench;

static void must_work(ga_status status) {
  if (status == GA_OK) return;
  (void)fprintf(stderr, "attn_stretch_late: %s\n", ga_error_text());
  exit(1);
}

static void *late_buffer(late_bench *b, size_t bytes, const void *from) {
  void *p;
  must_work(ga_buffer_alloc(b->ctx, bytes, &p));
  must_work(ga_copy_to_device(b->ctx, p, from, bytes, NULL));
  must_work(ga_stream_sync(b->ctx, NULL));
  return p;
}

static void open_late_bench(late_bench *b) {
  ga_rng rng;
  void *p;
  uint16_t *q = malloc(Q * sizeof *q);
  static const uint32_t none[KEYS];
  static int32_t table[TOKENS];
  if (!q) exit(1);
  ga_rng_seed(&rng, 1);
  for (size_t i = 0; i < Q; i++) q[i] = ga_f32_to_bf16((float)ga_rng_normal(&rng));
  b->q = late_buffer(b, Q * sizeof *q, q), b->o = late_buffer(b, Q * sizeof *q, q);
  must_work(ga_host_alloc(b->ctx, (size_t)TOKENS * ROW * sizeof *q, &p));
  b->rows = p;
  memcpy(b->rows, q, (size_t)TOKENS * ROW * sizeof *q);
  b->kv = late_buffer(b, (size_t)TOKENS * ROW * sizeof *q, b->rows);
  b->words = late_buffer(b, sizeof none, none), b->error = late_buffer(b, sizeof *b->error, none);
  for (int i = 0; b->page_size && i < TOKENS / b->page_size; i++) /* pages backwards */
    table[i] = TOKENS / b->page_size - 1 - i;
  b->table = late_buffer(b, sizeof table, table);
  for (int i = 0; i < KEYS; i++) b->keys[i] = (ga_attn_stretch){.first = i * PART, .rows = PART, .position = i * PART};
  free(q);
}

/* Enqueued, and not waited for. */
static void enqueue_late_call(const late_bench *b, int64_t polls) {
  static const ga_attn_stretch queries = {.rows = TOKENS};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS, d.q_heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.flags = GA_ATTN_CAUSAL | (b->page_size ? GA_ATTN_PAGED : 0), d.page_size = b->page_size;
  d.q_stretches = 1, d.kv_stretches = KEYS;
  const ga_attn_io io = {.q = b->q,
                         .k = b->kv,
                         .v = b->kv,
                         .o = b->o,
                         .page_table = b->table,
                         .q_stretches = &queries,
                         .kv_stretches = b->keys,
                         .ready = b->words,
                         .ready_error = b->error,
                         .ready_polls = polls};
  must_work(ga_attn(b->ctx, &d, &io, NULL));
}

/* Stretch i's rows, from `rows`, by the other stream. Pages lie backwards, rows within a page forwards. */
static void bring_stretch(const late_bench *b, const uint16_t *rows, int i) {
  const int size = b->page_size ? b->page_size : PART;
  for (int at = i * PART; at < (i + 1) * PART; at += size) {
    const size_t to = (size_t)(b->page_size ? TOKENS - size - at : at) * ROW;
    must_work(ga_copy_to_device(b->ctx, (uint16_t *)b->kv + to, rows + (size_t)at * ROW,
                                (size_t)size * ROW * sizeof *rows, b->later));
  }
}

static int32_t fetch_late(const late_bench *b, uint16_t *o) {
  int32_t error;
  must_work(ga_copy_to_host(b->ctx, o, b->o, Q * sizeof *o, NULL));
  must_work(ga_copy_to_host(b->ctx, &error, b->error, sizeof error, NULL));
  must_work(ga_stream_sync(b->ctx, NULL));
  return error;
}

int main(int argc, char **argv) {
  static const uint32_t value = VALUE;
  static const struct timespec apart = {.tv_nsec = APART_MS * 1000000L};
  late_bench b = {.page_size = argc > 2 ? atoi(argv[2]) : 0};
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  ga_event *events[2];
  uint16_t *want = malloc(Q * sizeof *want), *got = malloc(Q * sizeof *got),
           *nan_rows = malloc((size_t)TOKENS * ROW * sizeof *nan_rows);
  double ms;
  if (!want || !got || !nan_rows || b.page_size < 0 || (b.page_size && PART % b.page_size)) return 2;
  options.device = argc > 1 ? argv[1] : "cuda:0";
  must_work(ga_ctx_create(&options, &b.ctx));
  must_work(ga_stream_create(b.ctx, &b.later));
  for (int i = 0; i < 2; i++) must_work(ga_event_create(b.ctx, &events[i]));
  open_late_bench(&b);
  for (int i = 0; i < KEYS; i++) bring_stretch(&b, b.rows, i);
  must_work(ga_stream_sync(b.ctx, b.later));
  enqueue_late_call(&b, 0);
  (void)fetch_late(&b, want);
  for (size_t i = 0; i < (size_t)TOKENS * ROW; i++) nan_rows[i] = 0x7FC0;
  for (int i = 1; i < KEYS; i++) {
    b.keys[i].ready = VALUE, b.keys[i].ready_word = i;
    bring_stretch(&b, nan_rows, i);
  }
  must_work(ga_stream_sync(b.ctx, b.later));
  must_work(ga_event_record(b.ctx, events[0], NULL));
  enqueue_late_call(&b, 0);
  must_work(ga_event_record(b.ctx, events[1], NULL));
  for (int i = 1; i < KEYS; i++) {
    (void)nanosleep(&apart, NULL);
    bring_stretch(&b, b.rows, i);
    must_work(ga_copy_to_device(b.ctx, b.words + i, &value, sizeof value, b.later));
  }
  must_work(ga_event_elapsed(events[0], events[1], &ms));
  const int32_t error = fetch_late(&b, got);
  const bool same = memcmp(got, want, Q * sizeof *want) == 0, waited = ms >= APART_MS * (KEYS - 1) * 0.9;
  (void)printf("late keys: %s bits, ready_error %d, %.1f ms\n", same ? "the same" : "OTHER", error, ms);
  b.keys[3].ready = VALUE + 1;
  enqueue_late_call(&b, 1000);
  const int32_t named = fetch_late(&b, got);
  (void)printf("a word that never comes: ready_error %d, must be 4\n", named);
  ga_stream_destroy(b.later);
  ga_ctx_destroy(b.ctx);
  return !(same && waited && error == 0 && named == 4);
}
