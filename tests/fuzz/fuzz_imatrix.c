/* Importance matrices: GGUF bytes as one, asked for every name that the file has. */
#include <stdlib.h>
#include <string.h>

#include "file/model_store.h"
#include "quant/importance.h"
#include "tests/fuzz/fuzz.h"

/* The weight whose sums a tensor is, of as many columns as it has. */
static void ask_for(const quant_importance *imp, const ga_model_tensor *t) {
  char name[256];
  bool found;
  const size_t n = strlen(t->name);
  if (n <= 8 || n >= sizeof name || t->view.n_dims < 1 || strcmp(t->name + n - 8, ".in_sum2") != 0) return;
  memcpy(name, t->name, n - 8);
  name[n - 8] = 0;
  const int64_t cols = t->view.dim[t->view.n_dims - 1], matrices = t->view.n_dims == 2 ? t->view.dim[0] : 1;
  if (!cols || !matrices) return;
  float *out = malloc((size_t)(cols * matrices) * sizeof *out), *counts = malloc((size_t)matrices * sizeof *counts);
  if (out && counts) {
    const ga_status status = quant_importance_of(imp, name, matrices, cols, counts, out, &found);
    if (status == GA_OK && found)
      for (int64_t i = 0; i < cols * matrices; i++)
        if (!(out[i] >= 0)) abort();
  }
  free(out);
  free(counts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ga_model_file *file;
  quant_importance *imp;
  if (ga_model_file_parse("fuzz", data, size, &file) != GA_OK) return 0;
  if (quant_importance_take(file, &imp) != GA_OK) return 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(quant_importance_file(imp)); i++)
    ask_for(imp, ga_model_file_tensor_at(quant_importance_file(imp), i));
  if (quant_importance_count(imp) > ga_model_file_tensor_count(quant_importance_file(imp))) abort();
  quant_importance_close(imp);
  return 0;
}
