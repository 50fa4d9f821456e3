/* How far quantised models are from their source: perplexity of a text, and Kullback-Leibler divergence of the next
 * token's distribution from the source's, over the second halves of windows. One line of JSON a model; "windows" are
 * the mean losses of each, in nats: the spread of their differences between two models tells what is noise.
 *
 *   cc -O2 -Iinclude bench/quantize/compare.c build/libga.a -ljansson -lutf8proc -lm -lpthread -ldl -o compare
 *   compare TEXT WINDOW WINDOWS SOURCE MODEL...
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ga/llm.h"

enum { MOST_WINDOWS = 4096 };

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
  end_if(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &r->ctx), "device");
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

/* source: log probabilities of all windows, NULL: this is the source, and `keep` gets them. */
static void measure_model(const char *path, const text_ids *t, const float *source, float *keep) {
  model_run r;
  open_run(path, t->window, &r);
  const int rows = t->window / 2 - 1;
  const size_t each = (size_t)(t->window / 2) * (size_t)r.vocab;
  float *own = keep ? NULL : malloc(each * sizeof *own);
  double nll = 0, kl = 0, each_window[MOST_WINDOWS];
  long alike = 0;
  for (int w = 0; w < t->windows; w++) {
    float *now = keep ? keep + (size_t)w * each : own;
    eval_window(&r, t, w, now);
    const double before = nll;
    for (int i = 0; i < rows; i++) {
      const float *q = now + (size_t)i * (size_t)r.vocab;
      bool same = true;
      nll -= (double)q[t->ids[w * t->window + t->window / 2 + i + 1]];
      if (source) kl += divergence(source + (size_t)w * each + (size_t)i * (size_t)r.vocab, q, (size_t)r.vocab, &same);
      alike += same;
    }
    each_window[w] = (nll - before) / rows;
  }
  const double n = (double)rows * t->windows;
  printf("{\"model\": \"%s\", \"perplexity\": %.5f, \"kl\": %.6f, \"same_top\": %.5f, \"tokens\": %.0f, \"windows\": [",
         strrchr(path, '/') ? strrchr(path, '/') + 1 : path, exp(nll / n), kl / n, (double)alike / n, n);
  for (int w = 0; w < t->windows; w++) printf("%s%.6f", w ? ", " : "", each_window[w]);
  printf("]}\n");
  (void)fflush(stdout);
  free(own);
  close_run(&r);
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
  if (argc < 5) return 2;
  text_ids t = {.window = atoi(argv[2]), .windows = atoi(argv[3])};
  size_t bytes, n;
  char *text = read_all(argv[1], &bytes);
  model_run r;
  open_run(argv[4], t.window, &r);
  t.ids = malloc(bytes * sizeof *t.ids);
  end_if(ga_tokenize(ga_model_tokenizer(r.model), text, bytes, GA_TOK_ADD_SPECIAL, t.ids, bytes, &n), "tokens");
  if ((size_t)(t.window * t.windows) > n || t.window > 4096 || t.windows > MOST_WINDOWS) return 2;
  float *source = malloc((size_t)t.windows * (size_t)(t.window / 2) * (size_t)r.vocab * sizeof *source);
  close_run(&r);
  measure_model(argv[4], &t, NULL, source);
  for (int i = 5; i < argc; i++) measure_model(argv[i], &t, source, NULL);
  free(source);
  free(t.ids);
  free(text);
  return 0;
}
