/* Finds the text that is nearest to the first one, by the cosines of sentence embeddings.
 *   cc -std=c11 embeddings.c -o embeddings $(pkg-config --cflags --libs ga)
 *   ./embeddings MODEL TEXT OTHER...     MODEL: an encoder, such as that of `ga pull minilm-l6` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ga/llm.h>

enum { TOKENS = 512 };

static ga_status embed(ga_model *model, const char *text, float *out) {
  int32_t ids[TOKENS];
  size_t n = 0;
  ga_status status = ga_tokenize(ga_model_tokenizer(model), text, strlen(text), GA_TOK_ADD_SPECIAL, ids, TOKENS, &n);
  return status == GA_OK ? ga_embed_ids(model, ids, (int32_t)n, out) : status;
}

static double cosine_of(const float *a, const float *b, int32_t n) {
  double sum = 0;
  for (int32_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum; /* the cosine: embeddings have length 1 */
}

int main(int argc, char **argv) {
  ga_ctx *ctx = NULL;
  ga_model *model = NULL;
  float *first = NULL, *other = NULL;
  if (argc < 4) return fprintf(stderr, "usage: embeddings MODEL TEXT OTHER...\n"), 2;
  ga_status status = ga_ctx_create(NULL, &ctx);
  if (status == GA_OK) status = ga_model_load(ctx, argv[1], NULL, &model);
  const int32_t width = status == GA_OK ? ga_model_get_info(model)->width : 0;
  first = malloc((size_t)width * sizeof *first + 1);
  other = malloc((size_t)width * sizeof *other + 1);
  if (status == GA_OK) status = embed(model, argv[2], first);
  for (int i = 3; i < argc && status == GA_OK; i++) {
    status = embed(model, argv[i], other);
    if (status == GA_OK) printf("%.4f  %s\n", cosine_of(first, other, width), argv[i]);
  }
  if (status != GA_OK) fprintf(stderr, "%s\n", ga_error_text());
  free(first), free(other);
  ga_model_destroy(model), ga_ctx_destroy(ctx);
  return status != GA_OK;
}
