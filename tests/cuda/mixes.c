/* GA_ENGINE_DETERMINISTIC on a real model, for machines with a GPU: usage: mixes MODEL DEVICE [REQUESTS [MIXES [KV]]]
 * MODEL: a GGUF file or a folder; an FP8 one: tests/fp8_folder.py. KV: f16 or e4m3.
 *
 * The same requests, at most so many, through engines of other sizes, in another order each time: batches of 1 to 256,
 * chunked prompts, cached prefixes, preempted requests, with swap space and without; beside requests that are
 * cancelled. Each mix is compared with the first, bit by bit: tokens and log-probabilities. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ga/engine.h"

enum { REQUESTS = 1000, MIXES = 20, CONTEXT = 512, PROMPT = 150, ANSWER = 180, FAMILIES = 7, EACH_ALONE = 20 };

typedef struct answer {
  int32_t n, ids[ANSWER];
  uint32_t logprobs[ANSWER]; /* bits; 0: not asked for */
} answer;

typedef struct bench {
  ga_ctx *ctx;
  ga_model *model;
  int32_t vocab, kv;
  int n;
  answer *want, *got;
} bench;

static void mixes_fail(const char *what) {
  fprintf(stderr, "mixes: %s: %s\n", what, ga_error_text());
  exit(2);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* SplitMix64: below n. */
static uint64_t below(uint64_t *seed, uint64_t n) {
  uint64_t z = *seed += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) % n;
}

/* --- requests --- */

/* Two of three share the beginning of one of FAMILIES texts. */
static int32_t fill_prompt(const bench *b, int i, int32_t *ids) {
  uint64_t own = 1000 + (uint64_t)i, family = (uint64_t)(i % FAMILIES);
  const int32_t n = 1 + (int32_t)below(&own, i % 4 ? 40 : PROMPT);
  const int32_t shared = i % 3 ? (int32_t)below(&own, (uint64_t)n) : 0;
  for (int32_t at = 0; at < n; at++) ids[at] = 3 + (int32_t)below(at < shared ? &family : &own, (uint64_t)b->vocab - 3);
  return n;
}

static bool has_logprobs(int i) { return i % 5 == 0; }

static ga_request *submit_mixed(const bench *b, ga_engine *engine, int i, int32_t priority) {
  static const ga_sample_desc warm = {
      .struct_size = sizeof warm, .temperature = 0.9f, .top_p = 0.95f, .typical_p = 1, .repetition_penalty = 1.1f};
  int32_t ids[PROMPT];
  ga_request *r;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids;
  o.n_ids = fill_prompt(b, i, ids);
  o.max_tokens = i % 24 ? 1 + i * 7 % 12 : 100 + i % 80;
  o.sample = i % 2 ? &warm : NULL;
  o.seed = (uint64_t)i;
  o.logprobs = has_logprobs(i) ? 0 : -1;
  o.ignore_eog = true;
  o.priority = priority;
  if (ga_engine_submit(engine, &o, &r) != GA_OK) mixes_fail("submit");
  return r;
}

/* logprobs: they were asked for. NaN would be equal in all mixes. */
static void read_mixed(ga_request *r, bool logprobs, answer *a) {
  ga_request_output out = GA_REQUEST_OUTPUT_INIT;
  memset(a, 0, sizeof *a);
  do {
    if (ga_request_poll(r, 60000, &out) != GA_OK) mixes_fail("poll");
    if (out.event == GA_REQUEST_PENDING) mixes_fail("a request without an end");
    if (out.event != GA_REQUEST_TOKEN) continue;
    if (logprobs && !isfinite(out.logprob)) {
      fprintf(stderr, "mixes: token %d of an answer has log-probability %g\n", a->n, (double)out.logprob);
      exit(2);
    }
    a->ids[a->n] = out.id;
    if (!isnan(out.logprob)) memcpy(&a->logprobs[a->n], &out.logprob, sizeof(float));
    a->n++;
  } while (out.event != GA_REQUEST_END);
  if (out.status != GA_OK) {
    fprintf(stderr, "mixes: %s\n", ga_request_error(r));
    exit(2);
  }
  ga_request_destroy(r);
}

/* --- mixes --- */

/* Mix 0 is the one that others are compared with. */
static ga_engine *mix_engine(const bench *b, int mix) {
  static const int32_t sequences[] = {64, 256, 32, 48, 128}, steps[] = {2048, 512, 300, 1024};
  ga_engine *e;
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  o.context = CONTEXT;
  o.max_sequences = sequences[mix % 5];
  o.step_tokens = steps[mix % 4];
  o.max_waiting = 4096;
  o.kv_dtype = b->kv;
  o.kv_tokens = mix % 3 == 2 ? 2048 : 65536; /* few pages: requests are preempted */
  o.swap_bytes = mix % 6 == 5 ? (int64_t)1 << 30 : 0;
  o.flags = GA_ENGINE_DETERMINISTIC | (mix % 4 == 3 ? GA_ENGINE_NO_PREFIX_CACHE : 0u);
  if (ga_engine_create(b->model, &o, &e) != GA_OK) mixes_fail("engine");
  return e;
}

static void shuffle_requests(int *order, int n, uint64_t seed) {
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    const int j = (int)below(&seed, (uint64_t)i + 1), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
}

static int compare(const bench *b, int mix, int step) {
  int differ = 0;
  for (int i = 0; i < b->n; i += step) {
    if (!memcmp(&b->want[i], &b->got[i], sizeof(answer))) continue;
    int at = 0;
    while (at < b->want[i].n && b->want[i].ids[at] == b->got[i].ids[at] &&
           b->want[i].logprobs[at] == b->got[i].logprobs[at])
      at++;
    if (!differ++)
      printf("  mix %d, request %d: token %d is %d (%08x), else %d (%08x)\n", mix, i, at, b->got[i].ids[at],
             b->got[i].logprobs[at], b->want[i].ids[at], b->want[i].logprobs[at]);
  }
  return differ;
}

/* FNV-1a over all answers. */
static uint64_t hash_of(const answer *a, int n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < (size_t)n * sizeof *a; i++) h = (h ^ ((const unsigned char *)a)[i]) * 0x100000001b3u;
  return h;
}

/* Different tokens in all answers: a model that says one thing whatever it is asked shows nothing. */
static int count_different_ids(const bench *b) {
  unsigned char *seen = calloc((size_t)b->vocab, 1);
  int n = 0;
  if (!seen) mixes_fail("memory");
  for (int i = 0; i < b->n; i++)
    for (int32_t k = 0; k < b->want[i].n; k++) {
      n += !seen[b->want[i].ids[k]];
      seen[b->want[i].ids[k]] = 1;
    }
  free(seen);
  return n;
}

static int run_mix(bench *b, int mix) {
  ga_engine *engine = mix_engine(b, mix);
  int *order = malloc((size_t)b->n * sizeof *order);
  ga_request **requests = calloc((size_t)b->n, sizeof *requests), *noise[8] = {0};
  ga_engine_stats s = GA_ENGINE_STATS_INIT;
  if (!order || !requests) mixes_fail("memory");
  shuffle_requests(order, b->n, (uint64_t)mix);
  const double begin = now_s();
  for (int k = 0; k < b->n; k++) requests[order[k]] = submit_mixed(b, engine, order[k], order[k] % 24 ? k * 13 % 3 : 0);
  for (int k = 0; k < 8; k++) noise[k] = submit_mixed(b, engine, b->n + k, -1);
  for (int i = 0; i < b->n; i++) {
    read_mixed(requests[i], has_logprobs(i), &b->got[i]);
    if (i < 8) ga_request_destroy(noise[i]);
  }
  if (ga_engine_get_stats(engine, &s) != GA_OK) mixes_fail("stats");
  const double seconds = now_s() - begin;
  if (mix == 0) memcpy(b->want, b->got, (size_t)b->n * sizeof(answer));
  const int differ = compare(b, mix, 1);
  printf("mix %2d: %d sequences, steps of %d, %lld pages: %5.2f s, %5.0f tokens/s made, %llu steps, %llu of %llu "
         "prompt tokens "
         "cached, %llu preempted, %llu bytes swapped in; hash %016llx, %d differ\n",
         mix, s.max_sequences, s.step_tokens, (long long)s.kv_pages, seconds, (double)s.generated_tokens / seconds,
         (unsigned long long)s.steps, (unsigned long long)s.prefix_hits, (unsigned long long)s.prefix_queries,
         (unsigned long long)s.preemptions, (unsigned long long)s.swapped_in_bytes,
         (unsigned long long)hash_of(b->got, b->n), differ);
  (void)fflush(stdout);
  free(requests);
  free(order);
  ga_engine_destroy(engine);
  return differ;
}

/* Some requests, each by itself, without cached prefixes. */
static int run_alone(bench *b) {
  ga_engine *engine = mix_engine(b, 3);
  const double begin = now_s();
  for (int i = 0; i < b->n; i += EACH_ALONE) read_mixed(submit_mixed(b, engine, i, 0), has_logprobs(i), &b->got[i]);
  const int differ = compare(b, -1, EACH_ALONE);
  printf("alone, each %dth: %.2f s, %d differ\n", EACH_ALONE, now_s() - begin, differ);
  ga_engine_destroy(engine);
  return differ;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: mixes MODEL DEVICE [REQUESTS [MIXES [KV]]]\n");
    return 2;
  }
  bench b = {.n = argc > 3 ? atoi(argv[3]) : REQUESTS, .kv = GA_F16};
  const int mixes = argc > 4 ? atoi(argv[4]) : MIXES;
  if (argc > 5 && strcmp(argv[5], "f16") && strcmp(argv[5], "e4m3")) {
    fprintf(stderr, "mixes: KV is '%s'; must be f16 or e4m3\n", argv[5]);
    return 2;
  }
  if (argc > 5) b.kv = !strcmp(argv[5], "e4m3") ? GA_E4M3 : GA_F16;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = argv[2];
  if (ga_ctx_create(&co, &b.ctx) != GA_OK || ga_model_load(b.ctx, argv[1], NULL, &b.model) != GA_OK) mixes_fail("open");
  const ga_model_info *info = ga_model_get_info(b.model);
  b.vocab = (int32_t)info->vocab;
  printf("weights: %.1f MiB in the file, %.1f as held\n", (double)info->file_bytes * 0x1p-20,
         (double)info->weight_bytes * 0x1p-20);
  b.want = calloc((size_t)b.n, sizeof(answer));
  b.got = calloc((size_t)b.n, sizeof(answer));
  if (!b.want || !b.got) mixes_fail("memory");
  int differ = 0;
  for (int mix = 0; mix < mixes; mix++) differ += run_mix(&b, mix);
  differ += run_alone(&b);
  const int ids = count_different_ids(&b);
  printf("%d requests, %d mixes, %d different tokens: %d answers differ\n", b.n, mixes, ids, differ);
  ga_model_destroy(b.model);
  ga_ctx_destroy(b.ctx);
  free(b.want);
  free(b.got);
  return differ != 0 || ids < 50;
}
