/* Attention over stretches beside plain calls, on a GPU:
 * usage: attn_stretch_times [DEVICE [TOKENS [HEADS KV_HEADS [DIM]]]]
 * A causal sequence of TOKENS, bf16, of which a rank of two has the first and the last quarter of the queries (zigzag).
 * Plain: two calls, one after the other. Stretches: one call, keys as one stretch, then as eight. Rounds take turns;
 * medians in ms and TFLOP/s, a line of JSON for each. O of the ways is compared. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "ga/attn.h"

enum { WAYS = 3, ROUNDS = 15, KEYS = 8 };
static const char *const names[WAYS] = {"plain, two calls", "stretches", "stretches, keys in 8"};

typedef struct stretch_bench {
  ga_ctx *ctx;
  int64_t tokens;
  int32_t heads, kv_heads, dim;
  void *q, *k, *v, *o[2], *lse; /* Q and O of half of the tokens */
} stretch_bench;

static void must_be_ok(ga_status status) {
  if (status == GA_OK) return;
  (void)fprintf(stderr, "attn_stretch_times: %s\n", ga_error_text());
  exit(1);
}

static void *random_tensor(const stretch_bench *b, int64_t n, uint64_t seed) {
  ga_rng rng;
  void *out;
  uint16_t *host = malloc((size_t)n * sizeof *host);
  if (!host) exit(1);
  ga_rng_seed(&rng, seed);
  for (int64_t i = 0; i < n; i++)
    host[i] = i < 1 << 20 ? ga_f32_to_bf16((float)ga_rng_normal(&rng)) : host[i % (1 << 20)];
  must_be_ok(ga_buffer_alloc(b->ctx, (size_t)n * sizeof *host, &out));
  must_be_ok(ga_copy_to_device(b->ctx, out, host, (size_t)n * sizeof *host, NULL));
  must_be_ok(ga_stream_sync(b->ctx, NULL));
  free(host);
  return out;
}

static ga_attn_desc describe_rank(const stretch_bench *b, int64_t q, int64_t kv) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = q, d.max_kv = kv, d.q_heads = b->heads, d.kv_heads = b->kv_heads, d.head_dim = d.v_dim = b->dim;
  d.q_dtype = d.kv_dtype = d.o_dtype = GA_BF16;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_LSE;
  return d;
}

/* Queries of the first quarter see as many keys; those of the last one all. */
static void run_by_plain_calls(const stretch_bench *b) {
  const int64_t quarter = b->tokens / 4, half = quarter * b->heads * b->dim;
  for (int i = 0; i < 2; i++) {
    const ga_attn_desc d = describe_rank(b, quarter, i ? b->tokens : quarter);
    const ga_attn_io io = {
        .q = (uint16_t *)b->q + i * half, .k = b->k, .v = b->v, .o = (uint16_t *)b->o[0] + i * half, .lse = b->lse};
    must_be_ok(ga_attn(b->ctx, &d, &io, NULL));
  }
}

static void run_by_stretches(const stretch_bench *b, int32_t keys) {
  const int64_t quarter = b->tokens / 4;
  const ga_attn_stretch q[2] = {{.rows = quarter},
                                {.first = quarter, .rows = quarter, .position = b->tokens - quarter}};
  ga_attn_stretch kv[KEYS] = {{0}};
  for (int32_t i = 0; i < keys; i++) {
    const int64_t from = b->tokens * i / keys, at = keys - 1 - i; /* in memory the other way round: none goes on */
    kv[i].position = from, kv[i].rows = b->tokens * (i + 1) / keys - from;
    kv[i].first = keys == 1 ? 0 : b->tokens * at / keys;
  }
  ga_attn_desc d = describe_rank(b, 2 * quarter, b->tokens);
  d.q_stretches = 2, d.kv_stretches = keys;
  const ga_attn_io io = {
      .q = b->q, .k = b->k, .v = b->v, .o = b->o[1], .lse = b->lse, .q_stretches = q, .kv_stretches = kv};
  must_be_ok(ga_attn(b->ctx, &d, &io, NULL));
}

static double time_stretch_way(const stretch_bench *b, int way, ga_event *const *events) {
  double ms;
  must_be_ok(ga_event_record(b->ctx, events[0], NULL));
  if (way == 0)
    run_by_plain_calls(b);
  else
    run_by_stretches(b, way == 1 ? 1 : KEYS);
  must_be_ok(ga_event_record(b->ctx, events[1], NULL));
  must_be_ok(ga_stream_sync(b->ctx, NULL));
  must_be_ok(ga_event_elapsed(events[0], events[1], &ms));
  return ms;
}

/* Numbers of O with other bits, and the largest difference. */
static void compare_ways(const stretch_bench *b) {
  const int64_t n = b->tokens / 2 * b->heads * b->dim;
  uint16_t *x[2];
  int64_t other = 0;
  double most = 0;
  run_by_plain_calls(b);
  run_by_stretches(b, 1);
  for (int i = 0; i < 2; i++) {
    x[i] = malloc((size_t)n * sizeof *x[i]);
    if (!x[i]) exit(1);
    must_be_ok(ga_copy_to_host(b->ctx, x[i], b->o[i], (size_t)n * sizeof *x[i], NULL));
  }
  must_be_ok(ga_stream_sync(b->ctx, NULL));
  for (int64_t i = 0; i < n; i++) {
    other += x[0][i] != x[1][i];
    most = fmax(most, fabs((double)ga_bf16_to_f32(x[0][i]) - (double)ga_bf16_to_f32(x[1][i])));
  }
  (void)printf("{\"other_bits\": %lld, \"of\": %lld, \"largest_difference\": %.3g}\n", (long long)other, (long long)n,
               most);
  for (int i = 0; i < 2; i++) free(x[i]);
}

static int order_of_ms(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  stretch_bench b = {.tokens = argc > 2 ? atoll(argv[2]) : 32768,
                     .heads = argc > 4 ? atoi(argv[3]) : 32,
                     .kv_heads = argc > 4 ? atoi(argv[4]) : 8,
                     .dim = argc > 5 ? atoi(argv[5]) : 128};
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_event *events[2];
  double ms[WAYS][ROUNDS];
  o.device = argc > 1 ? argv[1] : "cuda:0";
  must_be_ok(ga_ctx_create(&o, &b.ctx));
  for (int i = 0; i < 2; i++) must_be_ok(ga_event_create(b.ctx, &events[i]));
  b.q = random_tensor(&b, b.tokens / 2 * b.heads * b.dim, 1);
  b.k = random_tensor(&b, b.tokens * b.kv_heads * b.dim, 2);
  b.v = random_tensor(&b, b.tokens * b.kv_heads * b.dim, 3);
  for (int i = 0; i < 2; i++) b.o[i] = random_tensor(&b, b.tokens / 2 * b.heads * b.dim, 4);
  must_be_ok(ga_buffer_alloc(b.ctx, (size_t)(b.tokens / 2 * b.heads) * sizeof(float), &b.lse));
  compare_ways(&b);
  for (int round = -2; round < ROUNDS; round++)
    for (int way = 0; way < WAYS; way++) {
      const double x = time_stretch_way(&b, way, events);
      if (round >= 0) ms[way][round] = x;
    }
  const double pairs = (double)b.tokens / 4 * ((double)b.tokens / 4 + (double)b.tokens * 7 / 4) / 2;
  for (int way = 0; way < WAYS; way++) {
    qsort(ms[way], ROUNDS, sizeof **ms, order_of_ms);
    (void)printf("{\"way\": \"%s\", \"tokens\": %lld, \"heads\": %d, \"kv_heads\": %d, \"head_dim\": %d, \"ms\": %.4f, "
                 "\"least\": %.4f, \"most\": %.4f, \"tflops\": %.1f}\n",
                 names[way], (long long)b.tokens, b.heads, b.kv_heads, b.dim, ms[way][ROUNDS / 2], ms[way][0],
                 ms[way][ROUNDS - 1], 4 * pairs * b.heads * b.dim / ms[way][ROUNDS / 2] * 1e-9);
  }
  ga_ctx_destroy(b.ctx);
  return 0;
}
