/* GA_SESSION_DETERMINISTIC on a real model, for machines with a GPU: usage: deterministic MODEL TEXT DEVICE [TOKENS]
 *
 * The first TOKENS (default 96) of TEXT are evaluated in several ways, each of which must give the logits of every
 * token bit by bit as the first: at once; in pieces, with other sessions' steps between; over rewound parts, in a cache
 * that held something else; in a longer context; twelve that were generated, greedily and by chance (steps recorded
 * with their draw), given as a prompt. Steps are graphs from the second token on. Then a session without the flag is
 * given the same in two ways, where a difference is no fault: it shows that the comparison sees one. Last the speed of
 * a prompt of TOKENS, and of single tokens behind it, with and without the flag. Exit 1: a difference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ga/llm.h"

enum { MADE = 12 };

typedef struct bench {
  ga_ctx *ctx;
  ga_model *model;
  int32_t *ids, n;
  size_t vocab;
  float *want, *got; /* [n, vocab] */
  int failed;
} bench;

static void fail(const char *what) {
  fprintf(stderr, "deterministic: %s: %s\n", what, ga_error_text());
  exit(2);
}

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_bench(bench *b, char **argv, int32_t n) {
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  char *text = malloc(1 << 20);
  size_t found;
  FILE *f = fopen(argv[2], "rb");
  co.device = argv[3];
  if (!f || !text || ga_ctx_create(&co, &b->ctx) || ga_model_load(b->ctx, argv[1], NULL, &b->model)) fail("open");
  const size_t bytes = fread(text, 1, 1 << 20, f);
  (void)fclose(f);
  b->n = n;
  b->vocab = (size_t)ga_model_get_info(b->model)->vocab;
  b->ids = malloc((1 << 20) * sizeof *b->ids);
  b->want = malloc((size_t)n * b->vocab * sizeof(float));
  b->got = malloc((size_t)n * b->vocab * sizeof(float));
  if (!b->ids || !b->want || !b->got) fail("memory");
  if (ga_tokenize(ga_model_tokenizer(b->model), text, bytes, GA_TOK_ADD_SPECIAL, b->ids, 1 << 20, &found))
    fail("tokenize");
  if (found < (size_t)n) fail("the text is too short");
  free(text);
}

static ga_session *begin_session(const bench *b, int32_t context, uint32_t flags) {
  ga_session *s;
  ga_session_options so = GA_SESSION_OPTIONS_INIT;
  so.context = context;
  so.flags = flags;
  if (ga_session_create(b->model, &so, &s)) fail("session");
  return s;
}

/* Tokens [from, to) behind what s holds; their logits to `rows`, unless that is null. */
static void eval_range(const bench *b, ga_session *s, int32_t from, int32_t to, float *rows) {
  if (ga_session_eval(s, b->ids + from, to - from, rows ? rows + (size_t)from * b->vocab : NULL, rows ? to - from : 0,
                      NULL, NULL))
    fail("eval");
}

static void rewind_to(ga_session *s, int32_t n) {
  if (ga_session_rewind(s, n)) fail("rewind");
}

/* How many rows from `from` on differ. */
static int32_t differing(const bench *b, int32_t from) {
  int32_t rows = 0;
  for (int32_t t = from; t < b->n; t++)
    rows += !!memcmp(b->want + (size_t)t * b->vocab, b->got + (size_t)t * b->vocab, b->vocab * sizeof(float));
  return rows;
}

static void judge_way(bench *b, const char *way, int32_t from) {
  const int32_t rows = differing(b, from);
  printf("%-58s %d of %d rows differ\n", way, rows, b->n - from);
  b->failed |= rows > 0;
  memset(b->got, 0, (size_t)b->n * b->vocab * sizeof(float));
}

static void in_pieces(bench *b) {
  ga_session *s = begin_session(b, b->n + 8, GA_SESSION_DETERMINISTIC), *other = begin_session(b, b->n + 8, 0);
  static const int32_t sizes[] = {1, 7, 3, 16, 2, 31};
  for (int32_t at = 0, i = 0; at < b->n; i++) {
    const int32_t size = sizes[i % 6] < b->n - at ? sizes[i % 6] : b->n - at;
    eval_range(b, s, at, at + size, b->got);
    at += size;
    rewind_to(other, i % 5 ? ga_session_length(other) / 2 : 0);
    eval_range(b, other, i % 7, i % 7 + 9, NULL);
  }
  judge_way(b, "pieces, and other sessions' steps between", 0);
  ga_session_destroy(other);
  ga_session_destroy(s);
}

static void rewound(bench *b) {
  ga_session *s = begin_session(b, b->n + 8, GA_SESSION_DETERMINISTIC);
  eval_range(b, s, b->n / 2, b->n, NULL); /* the cache's slots hold others now */
  rewind_to(s, 0);
  eval_range(b, s, 0, b->n, NULL);
  rewind_to(s, b->n / 3);
  eval_range(b, s, b->n / 3, b->n, b->got);
  judge_way(b, "over a rewound part", b->n / 3);
  ga_session_destroy(s);
  s = begin_session(b, 4 * b->n + 1000, GA_SESSION_DETERMINISTIC);
  eval_range(b, s, 0, b->n, b->got);
  judge_way(b, "in a longer context", 0);
  ga_session_destroy(s);
}

typedef struct answer {
  int32_t ids[MADE], n;
} answer;

static int keep_id(void *user, int32_t id, const char *text, size_t bytes) {
  answer *a = user;
  (void)text, (void)bytes;
  if (a->n < MADE && id != GA_TOK_NONE) a->ids[a->n++] = id;
  return 0;
}

/* What was generated behind half of the text, given as a prompt: the logits behind it. */
static void generated(bench *b, float temperature) {
  const int32_t half = b->n / 2;
  ga_session *s = begin_session(b, b->n + MADE, GA_SESSION_DETERMINISTIC),
             *given = begin_session(b, b->n + MADE, GA_SESSION_DETERMINISTIC);
  answer made = {.n = 0};
  ga_generate_options o = GA_GENERATE_OPTIONS_INIT;
  ga_generate_result r = GA_GENERATE_RESULT_INIT;
  o.max_tokens = MADE;
  o.ignore_eog = o.show_special = true;
  o.seed = 7;
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  sample.temperature = temperature;
  sample.top_k = temperature > 0 ? 40 : 0;
  o.sample = &sample;
  o.text = keep_id;
  o.user = &made;
  if (ga_generate(s, b->ids, half, &o, &r)) fail("generate");
  eval_range(b, given, 0, half, NULL);
  if (ga_session_eval(given, made.ids, MADE, b->got, 1, NULL, NULL)) fail("eval");
  if (ga_session_eval(s, made.ids + MADE - 1, 1, b->want + ((size_t)b->n - 1) * b->vocab, 1, NULL, NULL)) fail("eval");
  const int differ = memcmp(b->got, b->want + ((size_t)b->n - 1) * b->vocab, b->vocab * sizeof(float));
  printf("generated at temperature %.1f, then given                   %d of 1 rows differ\n", (double)temperature,
         differ != 0);
  b->failed |= differ != 0 || made.n != MADE;
  ga_session_destroy(given);
  ga_session_destroy(s);
}

static void without(bench *b) {
  ga_session *s = begin_session(b, b->n + 8, 0);
  eval_range(b, s, 0, b->n, b->want);
  rewind_to(s, 0);
  for (int32_t at = 0; at < b->n; at += 5) eval_range(b, s, at, at + 5 < b->n ? at + 5 : b->n, b->got);
  printf("without the flag, by fives                                 %d of %d rows differ (no fault)\n",
         differing(b, 0), b->n);
  ga_session_destroy(s);
}

static void speed(const bench *b, uint32_t flags) {
  ga_session *s = begin_session(b, 2 * b->n, flags);
  double prompt = 0, single = 0;
  for (int round = 0; round < 2; round++) { /* the first loads kernels */
    rewind_to(s, 0);
    double t = now();
    eval_range(b, s, 0, b->n - 1, NULL);
    if (ga_session_eval(s, b->ids + b->n - 1, 1, b->got, 1, NULL, NULL)) fail("eval");
    prompt = b->n / (now() - t);
    t = now();
    for (int32_t i = 0; i < b->n; i++)
      if (ga_session_eval(s, b->ids + i, 1, b->got, 1, NULL, NULL)) fail("eval");
    single = b->n / (now() - t);
  }
  printf("%-58s prompt %.0f tokens/s, single tokens %.0f\n", flags ? "deterministic" : "otherwise", prompt, single);
  ga_session_destroy(s);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: deterministic MODEL TEXT DEVICE [TOKENS]\n");
    return 2;
  }
  bench b = {0};
  open_bench(&b, argv, argc > 4 ? atoi(argv[4]) : 96);
  ga_session *s = begin_session(&b, b.n + 8, GA_SESSION_DETERMINISTIC);
  eval_range(&b, s, 0, b.n, b.want);
  ga_session_destroy(s);
  in_pieces(&b);
  rewound(&b);
  generated(&b, 0);
  generated(&b, 1);
  without(&b);
  speed(&b, GA_SESSION_DETERMINISTIC);
  speed(&b, 0);
  ga_model_destroy(b.model);
  ga_ctx_destroy(b.ctx);
  free(b.ids);
  free(b.want);
  free(b.got);
  return b.failed;
}
