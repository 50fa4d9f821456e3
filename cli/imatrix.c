/* ga imatrix: what each matrix of a model is multiplied by, measured on a text. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/open.h"
#include "cmdline/error.h"
#include "ga/quantize.h"
#include "names/names.h"

typedef struct imatrix_args {
  open_args open;
  const char *file, *out;
  int64_t window, limit;
  bool force, json;
} imatrix_args;

static int show_windows(void *user, uint64_t done, uint64_t total) {
  (void)user;
  cmd_progress("imatrix", done, total);
  return interrupted();
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static ga_status measure(const imatrix_args *a, ga_imatrix *im, const int32_t *ids, size_t n) {
  if (a->limit && n / (size_t)a->window > (size_t)a->limit) n = (size_t)(a->limit * a->window);
  TRY(ga_imatrix_add(im, ids, n, show_windows, NULL));
  return ga_imatrix_write(im, a->out, strcmp(a->file, "-") ? base_name(a->file) : "", a->force);
}

static ga_status measure_text(const imatrix_args *a, const opened *o, const char *text, size_t bytes,
                              int64_t *windows) {
  int32_t *ids;
  size_t n;
  ga_imatrix *im;
  TRY(encode(ga_model_tokenizer(o->model), text, bytes, GA_TOK_ADD_SPECIAL, &ids, &n));
  ga_status status = ga_imatrix_create(o->model, (int32_t)a->window, &im);
  if (status == GA_OK) status = measure(a, im, ids, n);
  if (status == GA_OK) *windows = ga_imatrix_windows(im);
  ga_imatrix_destroy(im);
  free(ids);
  return status;
}

static ga_status run_imatrix(const imatrix_args *a, int64_t *windows) {
  opened o;
  char *text;
  size_t bytes;
  struct stat st, from;
  /* Said before minutes of work, not after. */
  if (!stat(a->out, &st)) {
    REQUIRE(S_ISREG(st.st_mode), GA_ERR_ARG, "%s is no regular file; give another name", a->out);
    REQUIRE(stat(a->file, &from) || from.st_dev != st.st_dev || from.st_ino != st.st_ino, GA_ERR_ARG,
            "%s is the text that is read; give another name", a->out);
    REQUIRE(a->force, GA_ERR_ARG, "%s exists; give another name, or --force", a->out);
  }
  TRY(read_text(a->file, &text, &bytes));
  ga_status status = open_model(&a->open, false, &o);
  if (status == GA_OK) {
    status = measure_text(a, &o, text, bytes, windows);
    close_model(&o);
  }
  free(text);
  return status;
}

int cmd_imatrix(int argc, char **argv) {
  imatrix_args a = {.open = {.model = ga_known_models[0].name, OPEN_ARGS_INIT}, .window = 512};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "the text; - is stdin"},
      {"output", 'o', OPT_STRING, &a.out, 0, 0, "FILE", "the importance matrix, as llama-imatrix writes it"},
      {"window", 'w', OPT_INT, &a.window, 16, 4096, "N", "tokens that are evaluated together"},
      {"limit", 0, OPT_INT, &a.limit, 0, 1e9, "N", "at most this many windows; 0 = all"},
      {"force", 0, OPT_FLAG, &a.force, 0, 0, NULL, "overwrite the output if it is there"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "one JSON object on stdout"},
  };
  int code, rest = cmd_parse("imatrix", "[options] -f TEXT -o FILE", options, COUNT_OF(options), argc, argv, &code);
  int64_t windows = 0;
  if (rest < 0) return code;
  if (rest) return cmd_usage_error("imatrix", "'%s' is no option; the text is given by --file", argv[1]);
  if (open_args_check("imatrix", &a.open)) return EXIT_USAGE;
  if (!a.file) return cmd_usage_error("imatrix", "which text? give --file");
  if (!a.out) return cmd_usage_error("imatrix", "where to? give --output");
  if (cmd_check_out("imatrix", a.out)) return EXIT_USAGE;
  listen_for_interrupt();
  if (run_imatrix(&a, &windows) != GA_OK) return cmd_fail("imatrix");
  if (a.json)
    printf("{\"windows\": %lld, \"window\": %lld}\n", (long long)windows, (long long)a.window);
  else
    printf("%lld window%s of %lld tokens\n", (long long)windows, windows == 1 ? "" : "s", (long long)a.window);
  return EXIT_OK;
}
