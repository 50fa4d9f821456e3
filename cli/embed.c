/* ga embed: sentence embeddings, one text a line. */
#include <stdlib.h>
#include <string.h>

#include "cli/open.h"
#include "cmdline/error.h"

typedef struct embed_args {
  open_args open;
  const char *file;
  bool json, truncate;
} embed_args;

/* A text's first tokens; the last one, which may end a text ([SEP]), stays the last. */
static void cut_ids(const opened *o, int32_t *ids, size_t *n) {
  const size_t most = (size_t)ga_model_get_info(o->model)->context;
  if (*n <= most || most < 2) return;
  ids[most - 1] = ids[*n - 1];
  *n = most;
}

static ga_status embed_line(const embed_args *a, const opened *o, const char *text, size_t bytes, float *out,
                            size_t width) {
  int32_t *ids;
  size_t n;
  TRY(encode(ga_model_tokenizer(o->model), text, bytes, GA_TOK_ADD_SPECIAL, &ids, &n));
  if (a->truncate) cut_ids(o, ids, &n);
  ga_status status = n <= INT32_MAX ? ga_embed_vector(o->model, ids, (int32_t)n, out, width)
                                    : ga_error_set(GA_ERR_SHAPE, "%zu tokens", n);
  free(ids);
  return status;
}

/* v NULL: a line that has none, so that lines of input and output go together. */
static void print_vector(const float *v, int32_t n, bool json, bool first) {
  if (json) printf("%s", first ? "" : ",\n");
  if (json && v) printf("[");
  for (int32_t i = 0; v && i < n; i++) printf("%s%.9g", i ? (json ? "," : " ") : "", (double)v[i]);
  printf("%s", !json ? "\n" : v ? "]" : "null");
}

/* What is wrong with a line, and not with the model, the machine or the person's patience. */
static bool is_of_line(ga_status status) { return status == GA_ERR_SHAPE || status == GA_ERR_FORMAT; }

static ga_status embed_lines(const embed_args *a, const opened *o, const char *text, size_t bytes) {
  const int32_t width = ga_model_get_info(o->model)->embedding_width;
  float *v = malloc((size_t)width * sizeof *v + 1);
  if (!v) return fail_nomem("embedding", (size_t)width * sizeof *v);
  ga_status status = GA_OK;
  bool first = true;
  if (a->json) printf("[");
  size_t line = 1, failed = 0;
  for (const char *p = text, *end = text + bytes; p < end && status == GA_OK; line++) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    if (!nl) nl = end;
    status = interrupted() ? ga_error_set(GA_ERR_CANCELLED, "stopped")
                           : embed_line(a, o, p, (size_t)(nl - p), v, (size_t)width);
    if (status != GA_OK) status = ga_error_set(status, "line %zu: %s", line, ga_error_text());
    const bool skipped = is_of_line(status);
    if (skipped) (void)cmd_fail("embed");
    if (skipped || status == GA_OK) print_vector(skipped ? NULL : v, width, a->json, first);
    failed += skipped;
    if (skipped) status = GA_OK;
    first = false;
    p = nl + 1;
  }
  if (a->json) printf("]\n");
  free(v);
  REQUIRE(status != GA_OK || !failed, GA_ERR_STATE,
          "%zu of %zu lines failed; --truncate embeds the beginning of a line that is too long", failed, line - 1);
  return status;
}

int cmd_embed(int argc, char **argv) {
  embed_args a = {.open = {.model = "minilm-l6", OPEN_ARGS_INIT}}; /* the known encoder */
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "texts, one a line; - is stdin, as without any TEXT"},
      {"truncate", 0, OPT_FLAG, &a.truncate, 0, 0, NULL, "embed the beginning of a text that is too long"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "JSON: an array of arrays, null for a line that failed"},
  };
  int code, rest = cmd_parse("embed", "[options] [TEXT]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (open_args_check("embed", &a.open)) return EXIT_USAGE;
  if (rest > 1) return cmd_usage_error("embed", "one text, not %d; quote it, or use --file", rest);
  if (rest == 1 && a.file) return cmd_usage_error("embed", "the text is given twice");
  listen_for_interrupt();
  char *text = NULL;
  size_t bytes = rest ? strlen(argv[1]) : 0;
  if (!rest && read_text(a.file ? a.file : "-", &text, &bytes) != GA_OK) return cmd_fail("embed");
  opened o;
  ga_status status = bytes ? open_model(&a.open, false, &o) : ga_error_set(GA_ERR_ARG, "no text to embed");
  if (status == GA_OK) {
    status = embed_lines(&a, &o, rest ? argv[1] : text, bytes);
    close_model(&o);
  }
  free(text);
  return status == GA_OK ? EXIT_OK : cmd_fail("embed");
}
