/* ga embed: sentence embeddings, one text a line. */
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/open.h"

typedef struct embed_args {
  open_args open;
  const char *file;
  bool json;
} embed_args;

static ga_status embed_line(const opened *o, const char *text, size_t bytes, float *out) {
  int32_t *ids;
  size_t n;
  TRY(encode(ga_model_tokenizer(o->model), text, bytes, GA_TOK_ADD_SPECIAL, &ids, &n));
  ga_status status =
      n <= INT32_MAX ? ga_embed_ids(o->model, ids, (int32_t)n, out) : ga_error_set(GA_ERR_SHAPE, "%zu tokens", n);
  free(ids);
  return status;
}

static void print_vector(const float *v, int32_t n, bool json, bool first) {
  if (json) printf("%s[", first ? "" : ",\n");
  for (int32_t i = 0; i < n; i++) printf("%s%.9g", i ? (json ? "," : " ") : "", (double)v[i]);
  printf("%s", json ? "]" : "\n");
}

static ga_status embed_lines(const embed_args *a, const opened *o, const char *text, size_t bytes) {
  const int32_t width = ga_model_get_info(o->model)->width;
  float *v = malloc((size_t)width * sizeof *v);
  if (!v) return fail_nomem("embedding", (size_t)width * sizeof *v);
  ga_status status = GA_OK;
  bool first = true;
  if (a->json) printf("[");
  size_t line = 1;
  for (const char *p = text, *end = text + bytes; p < end && status == GA_OK; line++) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    if (!nl) nl = end;
    status = interrupted() ? ga_error_set(GA_ERR_CANCELLED, "stopped") : embed_line(o, p, (size_t)(nl - p), v);
    if (status != GA_OK)
      status = ga_error_set(status, "line %zu: %s", line, ga_error_text());
    else
      print_vector(v, width, a->json, first);
    first = false;
    p = nl + 1;
  }
  if (a->json) printf("]\n");
  free(v);
  return status;
}

int cmd_embed(int argc, char **argv) {
  embed_args a = {.open = {.model = "minilm-l6", OPEN_ARGS_INIT}}; /* the known encoder */
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "texts, one a line; - is stdin, as without any TEXT"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "JSON: an array of arrays"},
  };
  int code, rest = cmd_parse("embed", "[options] [TEXT]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
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
