/* ga tokenize: text to ids, or ids to text. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/open.h"
#include "cmdline/error.h"
#include "names/names.h"

typedef struct tokenize_args {
  const char *model, *text, *file;
  bool json, special, add, lines, pieces;
} tokenize_args;

static void print_ids(const ga_tokenizer *tok, const int32_t *ids, size_t n, const tokenize_args *a) {
  if (a->json) printf("[");
  for (size_t i = 0; i < n; i++) {
    if (a->pieces) {
      ga_text p = ga_tokenizer_piece(tok, ids[i]);
      printf("%d\t", ids[i]);
      for (size_t b = 0; b < p.bytes; b++) {
        unsigned char c = (unsigned char)p.data[b];
        if (c == '\\' || c < 32 || c == 127)
          printf("\\x%02x", c);
        else
          putchar(c);
      }
      printf("\n");
    } else {
      printf("%s%d", i ? (a->json ? "," : " ") : "", ids[i]);
    }
  }
  if (!a->pieces || a->json) printf("%s\n", a->json ? "]" : "");
}

static ga_status tokenize_one(const ga_tokenizer *tok, const tokenize_args *a, const char *text, size_t bytes) {
  int32_t *ids;
  size_t n;
  uint32_t flags = (a->special ? GA_TOK_PARSE_SPECIAL : 0u) | (a->add ? GA_TOK_ADD_SPECIAL : 0u);
  TRY(encode(tok, text, bytes, flags, &ids, &n));
  print_ids(tok, ids, n, a);
  free(ids);
  return GA_OK;
}

static ga_status tokenize_all(const ga_tokenizer *tok, const tokenize_args *a, const char *text, size_t bytes) {
  if (!a->lines) return tokenize_one(tok, a, text, bytes);
  for (const char *p = text, *end = text + bytes; p < end;) {
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    if (!nl) nl = end;
    TRY(tokenize_one(tok, a, p, (size_t)(nl - p)));
    p = nl + 1;
  }
  return GA_OK;
}

static ga_status run_tokenize(const tokenize_args *a, const char *text, size_t bytes) {
  char path[4096];
  ga_model_file *file;
  ga_tokenizer *tok = NULL;
  TRY(find_model(a->model, path, sizeof path));
  TRY(ga_model_file_open(path, &file));
  ga_status status = ga_tokenizer_from_model(file, &tok);
  if (status == GA_OK) status = tokenize_all(tok, a, text, bytes);
  ga_tokenizer_destroy(tok);
  ga_model_file_destroy(file);
  return status;
}

int cmd_tokenize(int argc, char **argv) {
  tokenize_args a = {.model = ga_known_models[0].name};
  const cmd_option options[] = {
      {"model", 'm', OPT_STRING, &a.model, 0, 0, "MODEL",
       "file, folder, name of a pulled model (ga list), or hf:ORG/REPOSITORY[:TYPE]"},
      {"file", 'f', OPT_STRING, &a.file, 0, 0, "FILE", "read the text from a file; - is stdin, as without any TEXT"},
      {"lines", 'l', OPT_FLAG, &a.lines, 0, 0, NULL, "each line by itself, one line of ids each"},
      {"pieces", 0, OPT_FLAG, &a.pieces, 0, 0, NULL, "one token a line, with its text"},
      {"special", 0, OPT_FLAG, &a.special, 0, 0, NULL, "read the text of a control token as that token"},
      {"add-special", 0, OPT_FLAG, &a.add, 0, 0, NULL,
       "add the model's own tokens for the beginning and the end of a text"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "ids as a JSON array"},
  };
  int code, rest = cmd_parse("tokenize", "[options] [TEXT]", options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 1) return cmd_usage_error("tokenize", "one text, not %d; quote it", rest);
  if (rest == 1 && a.file) return cmd_usage_error("tokenize", "the text is given twice");
  if (a.json && a.pieces) return cmd_usage_error("tokenize", "--json and --pieces exclude each other");
  listen_for_interrupt();
  char *text = NULL;
  size_t bytes = rest ? strlen(argv[1]) : 0;
  if (!rest && read_text(a.file ? a.file : "-", &text, &bytes) != GA_OK) return cmd_fail("tokenize");
  ga_status status = run_tokenize(&a, rest ? argv[1] : text, bytes);
  free(text);
  return status == GA_OK ? EXIT_OK : cmd_fail("tokenize");
}
