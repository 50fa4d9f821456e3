/* How far quantised models are from their source: perplexity of a text, and Kullback-Leibler divergence of the next
 * token's distribution from the source's, over the second halves of windows. One line of JSON a model; "windows" are
 * the mean losses of each, in nats: the spread of their differences between two models tells what is noise.
 *
 *   cc -O2 -Iinclude bench/quantize/compare.c build/libga.a -ljansson -lutf8proc -lm -lpthread -ldl -o compare
 *   compare TEXT WINDOW WINDOWS SOURCE MODEL...
 *
 * Models run on $THREADS threads, else on one a CPU. On a CPU that is shared, one thread waits for no other.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ga/llm.h"

enum { MOST_WINDOWS = 4096, MOST_MODELS = 64 };

typedef struct text_ids {
  int32_t *ids;
  int window, windows;
} text_ids;

static void end_if(bool failed, const char *what) {
  if (!failed) return;
  fprintf(stderr, "%s: %s\n", what, ga_error_text());
  exit(1);
}

/* Log softmax of n logits in place; returns nothing that is not in x. */
static void log_softmax(float *x, size_t n) {
  double sum = 0, most = (double)x[0];
  for (size_t i = 1; i < n; i++) most = fmax(most, (double)x[i]);
  for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - most);
  const double log_sum = most + log(sum);
  for (size_t i = 0; i < n; i++) x[i] = (float)((double)x[i] - log_sum);
}

typedef struct model_run {
  ga_ctx *ctx;
  ga_model *model;
  ga_session *session;
  int32_t vocab, bos;
} model_run;

static void open_run(const char *path, int window, model_run *r) {
  ga_session_options o = GA_SESSION_OPTIONS_INIT;
  const char *threads = getenv("THREADS");
  ga_ctx_options c = {.struct_size = sizeof c, .device = "cpu", .threads = threads ? atoi(threads) : 0};
  end_if(ga_ctx_create(&c, &r->ctx), "device");
  end_if(ga_model_load(r->ctx, path, NULL, &r->model), path);
  o.context = o.batch = window;
  end_if(ga_session_create(r->model, &o, &r->session), path);
  const ga_tokenizer *tok = ga_model_tokenizer(r->model);
  r->vocab = ga_model_get_info(r->model)->vocab;
  r->bos = ga_tokenizer_adds_bos(tok) ? ga_tokenizer_special(tok, GA_TOK_BOS) : -1;
}

static void close_run(model_run *r) {
  ga_session_destroy(r->session);
  ga_model_destroy(r->model);
  ga_ctx_destroy(r->ctx);
}

/* Log probabilities of the second half of window w, but for its last row: [window / 2 - 1, vocab]. */
static void eval_window(model_run *r, const text_ids *t, int w, float *out) {
  int32_t ids[4096];
  memcpy(ids, t->ids + w * t->window, (size_t)t->window * sizeof *ids);
  if (r->bos >= 0) ids[0] = r->bos;
  end_if(ga_session_rewind(r->session, 0), "rewind");
  end_if(ga_session_eval(r->session, ids, t->window, out, t->window / 2, NULL, NULL), "eval");
  for (int i = 0; i < t->window / 2 - 1; i++) log_softmax(out + (size_t)i * (size_t)r->vocab, (size_t)r->vocab);
}

static double divergence(const float *p, const float *q, size_t n, bool *same) {
  double sum = 0;
  size_t a = 0, b = 0;
  for (size_t i = 0; i < n; i++) {
    sum += exp((double)p[i]) * ((double)p[i] - (double)q[i]);
    if (p[i] > p[a]) a = i;
    if (q[i] > q[b]) b = i;
  }
  *same = a == b;
  return sum;
}

/* What is known of a model so far. */
typedef struct model_sums {
  double nll, kl, each_window[MOST_WINDOWS];
  long alike;
} model_sums;

/* Window w of a model. source: log probabilities of the source there, NULL: this is the source. */
static void add_window(model_run *r, const text_ids *t, int w, const float *source, float *now, model_sums *sums) {
  const int rows = t->window / 2 - 1;
  const double before = sums->nll;
  eval_window(r, t, w, now);
  for (int i = 0; i < rows; i++) {
    const size_t at = (size_t)i * (size_t)r->vocab;
    bool same = true;
    sums->nll -= (double)now[at + (size_t)t->ids[w * t->window + t->window / 2 + i + 1]];
    if (source) sums->kl += divergence(source + at, now + at, (size_t)r->vocab, &same);
    sums->alike += same;
  }
  sums->each_window[w] = (sums->nll - before) / rows;
}

static void print_sums(const char *path, const text_ids *t, const model_sums *sums) {
  const double n = (double)(t->window / 2 - 1) * t->windows;
  printf("{\"model\": \"%s\", \"perplexity\": %.5f, \"kl\": %.6f, \"same_top\": %.5f, \"tokens\": %.0f, \"windows\": [",
         strrchr(path, '/') ? strrchr(path, '/') + 1 : path, exp(sums->nll / n), sums->kl / n, (double)sums->alike / n,
         n);
  for (int w = 0; w < t->windows; w++) printf("%s%.6f", w ? ", " : "", sums->each_window[w]);
  printf("]}\n");
}

static char *read_all(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  char *text = malloc(1 << 24);
  if (!f || !text) exit(1);
  *bytes = fread(text, 1, 1 << 24, f);
  (void)fclose(f);
  return text;
}

int main(int argc, char **argv) {
  if (argc < 5 || argc > 4 + MOST_MODELS) return 2;
  text_ids t = {.window = atoi(argv[2]), .windows = atoi(argv[3])};
  const int models = argc - 4;
  size_t bytes, n;
  char *text = read_all(argv[1], &bytes);
  static model_run runs[MOST_MODELS];
  static model_sums sums[MOST_MODELS];
  for (int i = 0; i < models; i++) open_run(argv[4 + i], t.window, &runs[i]);
  t.ids = malloc(bytes * sizeof *t.ids);
  end_if(ga_tokenize(ga_model_tokenizer(runs[0].model), text, bytes, GA_TOK_ADD_SPECIAL, t.ids, bytes, &n), "tokens");
  if ((size_t)(t.window * t.windows) > n || t.window > 4096 || t.windows > MOST_WINDOWS) {
    fprintf(stderr, "%zu tokens are not %d windows of %d\n", n, t.windows, t.window);
    return 2;
  }
  const size_t each = (size_t)(t.window / 2) * (size_t)runs[0].vocab;
  float *source = malloc(each * sizeof *source), *own = malloc(each * sizeof *own);
  if (!t.ids || !source || !own) return 1;
  for (int w = 0; w < t.windows; w++) {
    for (int i = 0; i < models; i++) add_window(&runs[i], &t, w, i ? source : NULL, i ? own : source, &sums[i]);
    fprintf(stderr, "\rwindow %d of %d", w + 1, t.windows);
  }
  fprintf(stderr, "\n");
  for (int i = 0; i < models; i++) {
    print_sums(argv[4 + i], &t, &sums[i]);
    close_run(&runs[i]);
  }
  free(own);
  free(source);
  free(t.ids);
  free(text);
  return 0;
}
