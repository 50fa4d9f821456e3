/* ga bench --model: a whole model's speed: prefill of a prompt into an empty cache, then single tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "cmdline/interrupt.h"
#include "verify/bench/bench_model.h"

/* Spread over the vocabulary, so that no row of the embedding is hot. */
static int32_t token_at(int32_t position, int32_t vocab) {
  return (int32_t)(((int64_t)position * 7919 + 1000) % vocab);
}

typedef struct speeds {
  double prefill, decode; /* tokens a second */
} speeds;

static ga_ctx *logits_ctx(const bench_model_target *o) { return o->ctx[o->n_ctx - 1]; }

static ga_status one_round(const bench_model_args *a, const bench_model_target *o, const int32_t *ids, float *logits,
                           speeds *out) {
  const int32_t vocab = ga_model_get_info(o->model)->vocab;
  GA_TRY(ga_session_rewind(o->session, 0));
  double t = ga_seconds();
  GA_TRY(ga_session_eval(o->session, ids, (int32_t)a->prompt, logits, 1, NULL, NULL));
  out->prefill = (double)a->prompt / (ga_seconds() - t);
  GA_TRY(ga_session_rewind(o->session, 0));
  GA_TRY(ga_session_eval(o->session, ids, (int32_t)a->depth, logits, 1, NULL, NULL));
  t = ga_seconds();
  for (int32_t i = 0; i < a->decode; i++) {
    int32_t id = token_at((int32_t)a->depth + i, vocab);
    GA_TRY(ga_session_eval(o->session, &id, 1, logits, 1, NULL, NULL));
  }
  out->decode = (double)a->decode / (ga_seconds() - t);
  return GA_OK;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The devices that have layers: "cuda:0", "cpu,cuda:0". */
static const char *devices_of(const ga_model *model, char *text, size_t capacity) {
  size_t at = 0;
  *text = 0;
  for (int32_t i = 0; i < ga_model_placement_count(model) && at < capacity; i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    if (p->n_layers) at += (size_t)snprintf(text + at, capacity - at, "%s%s", at ? "," : "", p->device);
  }
  return text;
}

static void report_speed(const bench_model_args *a, const bench_model_target *o, double *prefill, double *decode) {
  const int64_t n = a->repeat;
  char devices[256];
  qsort(prefill, (size_t)n, sizeof *prefill, by_value);
  qsort(decode, (size_t)n, sizeof *decode, by_value);
  if (a->json)
    printf("{\"device\": \"%s\", \"threads\": %d, \"prompt\": %lld, \"depth\": %lld, \"rounds\": %lld, "
           "\"prefill_tok_s\": %.2f, \"prefill_min\": %.2f, \"prefill_max\": %.2f, "
           "\"decode_tok_s\": %.2f, \"decode_min\": %.2f, \"decode_max\": %.2f}\n",
           devices_of(o->model, devices, sizeof devices), ga_ctx_threads(logits_ctx(o)), (long long)a->prompt,
           (long long)a->depth, (long long)n, prefill[n / 2], prefill[0], prefill[n - 1], decode[n / 2], decode[0],
           decode[n - 1]);
  else
    printf("prefill of %lld tokens  %8.1f tok/s  (%.1f to %.1f)\ndecode after %lld       %8.1f tok/s  (%.1f to %.1f)\n",
           (long long)a->prompt, prefill[n / 2], prefill[0], prefill[n - 1], (long long)a->depth, decode[n / 2],
           decode[0], decode[n - 1]);
}

static ga_status rounds(const bench_model_args *a, const bench_model_target *o, const int32_t *ids, float *logits) {
  double *series = malloc((size_t)a->repeat * 2 * sizeof *series);
  ga_status status = series ? GA_OK : ga_fail_nomem("bench", (size_t)a->repeat);
  for (int64_t r = -1; r < a->repeat && status == GA_OK; r++) { /* round -1 warms up */
    speeds s;
    status = one_round(a, o, ids, logits, &s);
    if (status == GA_OK && interrupted()) status = ga_fail(GA_ERR_CANCELLED, "stopped");
    if (status != GA_OK || r < 0) continue;
    series[r] = s.prefill;
    series[a->repeat + r] = s.decode;
    cmd_progress("rounds", (uint64_t)r + 1, (uint64_t)a->repeat);
  }
  if (status == GA_OK) report_speed(a, o, series, series + a->repeat);
  free(series);
  return status;
}

static ga_status measure_model(const bench_model_args *a, const bench_model_target *o) {
  const int64_t longest = a->prompt > a->depth ? a->prompt : a->depth;
  const int32_t vocab = ga_model_get_info(o->model)->vocab;
  int32_t *ids = malloc((size_t)longest * sizeof *ids);
  void *logits = NULL;
  ga_status status = ids ? ga_host_alloc(logits_ctx(o), (size_t)vocab * sizeof(float), &logits)
                         : ga_fail_nomem("bench", (size_t)longest);
  for (int32_t i = 0; status == GA_OK && i < longest; i++) ids[i] = token_at(i, vocab);
  if (status == GA_OK) status = a->energy > 0 ? bench_model_energy(a, o, ids, logits) : rounds(a, o, ids, logits);
  free(ids);
  ga_host_free(logits_ctx(o), logits);
  return status;
}

int bench_model(const bench_model_args *a, const bench_model_target *o) {
  return measure_model(a, o) == GA_OK ? EXIT_OK : cmd_fail("bench");
}
