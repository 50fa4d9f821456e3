/* ga perplexity: how well a model predicts a text. Windows of n tokens, the second half of each is scored given the
 * first, as is usual, so that figures can be compared with others'. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/open.h"
#include "cmdline/error.h"
#include "names/names.h"

typedef struct perplexity_args {
  open_args open;
  const char *file;
  int64_t window, limit;
  bool json;
} perplexity_args;

typedef struct tally {
  double nll;
  int64_t scored, windows;
} tally;

/* Between two batches of a window. */
static int on_tokens(void *user, uint64_t done, uint64_t total) {
  (void)user, (void)done, (void)total;
  return interrupted();
}

/* Window [begin, begin + n) of ids; the model's beginning token takes the place of the first one where it wants one. */
static ga_status score_window(opened *o, const int32_t *ids, int32_t n, int32_t bos, int32_t *window, double *logprobs,
                              tally *t) {
  memcpy(window, ids, (size_t)n * sizeof *ids);
  if (bos != GA_TOK_NONE) window[0] = bos;
  TRY(ga_session_rewind(o->session, 0));
  TRY(ga_session_score(o->session, window, n, n / 2, logprobs, on_tokens, NULL));
  for (int32_t i = 0; i < n - n / 2 - 1; i++) t->nll -= logprobs[i];
  t->scored += n - n / 2 - 1;
  t->windows++;
  return GA_OK;
}

static ga_status score_all(const perplexity_args *a, opened *o, const int32_t *ids, size_t n_ids, tally *t) {
  const int32_t n = (int32_t)a->window;
  const ga_tokenizer *tok = ga_model_tokenizer(o->model);
  const int32_t bos = ga_tokenizer_adds_bos(tok) ? ga_tokenizer_special(tok, GA_TOK_BOS) : GA_TOK_NONE;
  size_t windows = n_ids / (size_t)n;
  if (a->limit && windows > (size_t)a->limit) windows = (size_t)a->limit;
  REQUIRE(windows >= 1, GA_ERR_SHAPE, "the text has %zu tokens; at least one window of %d is needed", n_ids, n);
  int32_t *window = malloc((size_t)n * sizeof *window);
  double *logprobs = malloc((size_t)n * sizeof *logprobs);
  ga_status status = window && logprobs ? GA_OK : fail_nomem("perplexity", (size_t)n * 12);
  for (size_t i = 0; i < windows && status == GA_OK; i++) {
    status = score_window(o, ids + i * (size_t)n, n, bos, window, logprobs, t);
    if (status == GA_OK) cmd_progress("perplexity", i + 1, windows);
    if (status != GA_OK) status = ga_error_set(status, "window %zu of %zu: %s", i + 1, windows, ga_error_text());
  }
  if (status == GA_OK && !isfinite(t->nll))
    status = ga_error_set(GA_ERR_STATE, "the log-likelihood is %g: the model's logits are not numbers", t->nll);
  free(window);
  free(logprobs);
  return status;
}

static ga_status run_perplexity(perplexity_args *a, tally *t) {
  opened o;
  char *text;
  size_t bytes, n = 0;
  int32_t *ids = NULL;
  TRY(read_text(a->file, &text, &bytes));
  if (!a->open.context) a->open.context = a->window;
  if (a->open.context < a->window) {
    free(text);
    return ga_error_set(GA_ERR_ARG, "--context %lld holds no window of %lld tokens", (long long)a->open.context,
                        (long long)a->window);
  }
  ga_status status = open_model(&a->open, true, &o);
  if (status == GA_OK) {
    status = encode(ga_model_tokenizer(o.model), text, bytes, GA_TOK_ADD_SPECIAL, &ids, &n);
    if (status == GA_OK) status = score_all(a, &o, ids, n, t);
    close_model(&o);
  }
  free(ids);
  free(text);
  return status;
}

int cmd_perplexity(int argc, char **argv) {
  perplexity_args a = {.open = {.model = ga_known_models[0].name, OPEN_ARGS_INIT}, .window = 512};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "the text; - is stdin, as without any FILE"},
      {"window", 'w', OPT_INT, &a.window, 4, 1e6, "N", "tokens of a window; its second half is scored"},
      {"limit", 0, OPT_INT, &a.limit, 0, 1e9, "N", "at most this many windows; 0 = all"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "one JSON object on stdout"},
      OPEN_TRACE_OPTION(a.open),
      OPEN_SESSION_OPTIONS(a.open),
  };
  int code, rest = cmd_parse("perplexity", "[options] [FILE]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 1 || (rest == 1 && a.file)) return cmd_usage_error("perplexity", "one file is enough");
  if (rest == 1) a.file = argv[1];
  if (!a.file) a.file = "-";
  if (open_args_check("perplexity", &a.open)) return EXIT_USAGE;
  listen_for_interrupt();
  tally t = {0};
  if (run_perplexity(&a, &t) != GA_OK) return cmd_fail("perplexity");
  const double ppl = exp(t.nll / (double)t.scored);
  if (a.json)
    printf("{\"perplexity\": %.6f, \"nll\": %.6f, \"tokens_scored\": %lld, \"windows\": %lld, \"window\": %lld}\n", ppl,
           t.nll, (long long)t.scored, (long long)t.windows, (long long)a.window);
  else
    printf("perplexity %.4f over %lld tokens (%lld window%s of %lld, second halves)\n", ppl, (long long)t.scored,
           (long long)t.windows, t.windows == 1 ? "" : "s", (long long)a.window);
  return EXIT_OK;
}
