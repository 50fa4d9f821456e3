#include "quant/importance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "base/text.h"

struct quant_importance {
  ga_model_file *file;
};

ga_status quant_importance_take(ga_model_file *file, quant_importance **out) {
  void *p = NULL;
  ga_text type = {"", 0};
  *out = NULL;
  ga_status status = ga_model_file_text_or(file, "general.type", "", &type);
  if (status == GA_OK && (type.bytes != 7 || memcmp(type.data, "imatrix", 7)))
    status = ga_fail(GA_ERR_FORMAT, "%s: general.type is '%s'; must be 'imatrix': ga imatrix writes such files",
                     ga_path_label(ga_model_file_shard_path(file, 0)), ga_quote(type.data, type.bytes).text);
  if (status == GA_OK) status = ga_mem_zalloc(1, sizeof(quant_importance), "importance matrix", &p);
  if (status != GA_OK) {
    ga_model_file_destroy(file);
    return status;
  }
  *out = p;
  (*out)->file = file;
  return GA_OK;
}

ga_status quant_importance_open(const char *path, quant_importance **out) {
  ga_model_file *file;
  *out = NULL;
  GA_TRY(ga_model_file_open(path, &file));
  return quant_importance_take(file, out);
}

void quant_importance_close(quant_importance *imp) {
  if (!imp) return;
  ga_model_file_destroy(imp->file);
  ga_mem_free(imp);
}

const ga_model_file *quant_importance_file(const quant_importance *imp) { return imp->file; }

int64_t quant_importance_count(const quant_importance *imp) {
  int64_t n = 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(imp->file); i++)
    n += ga_ends_with(ga_model_file_tensor_at(imp->file, i)->name, ".in_sum2");
  return n;
}

/* "<name><suffix>" of n f32 elements into out; *found false when it is not there. */
static ga_status read_floats(const quant_importance *imp, const char *name, const char *suffix, int64_t n, float *out,
                             bool *found) {
  char full[160];
  (void)snprintf(full, sizeof full, "%s%s", name, suffix);
  const ga_model_tensor *t = ga_model_file_find(imp->file, full);
  *found = t != NULL;
  if (!t) return GA_OK;
  int64_t elems = 1;
  for (int32_t i = 0; i < t->view.n_dims; i++) elems *= t->view.dim[i];
  GA_REQUIRE(t->view.dtype == GA_F32, GA_ERR_FORMAT, "importance matrix: %s is %s; must be f32", full,
             ga_dtype_name(t->view.dtype));
  GA_REQUIRE(elems == n, GA_ERR_FORMAT, "importance matrix: %s has %lld elements; must have %lld: is it of this model?",
             full, (long long)elems, (long long)n);
  return ga_model_file_read(imp->file, t, 0, out, (size_t)n * sizeof *out);
}

/* Divides the sums of a matrix by the number of its inputs. */
static ga_status divide_sums(const char *name, int64_t matrix, float count, int64_t cols, float *out) {
  for (int64_t i = 0; i < cols; i++) {
    GA_REQUIRE(out[i] >= 0 && isfinite(out[i]), GA_ERR_FORMAT,
               "importance matrix: %s.in_sum2 element %lld is %g; must be finite and at least 0", name,
               (long long)(matrix * cols + i), (double)out[i]);
    if (count > 0) out[i] /= count;
  }
  return GA_OK;
}

ga_status quant_importance_of(const quant_importance *imp, const char *name, int64_t matrices, int64_t cols,
                              float *counts, float *out, bool *found) {
  bool has_counts, has_sums, is_seen = false;
  *found = false;
  GA_TRY(read_floats(imp, name, ".counts", matrices, counts, &has_counts));
  for (int64_t m = 0; has_counts && m < matrices; m++) {
    GA_REQUIRE(counts[m] >= 0 && isfinite(counts[m]), GA_ERR_FORMAT,
               "importance matrix: %s.counts is %g; must be at least 0", name, (double)counts[m]);
    is_seen = is_seen || counts[m] > 0;
  }
  if (!is_seen) return GA_OK;
  GA_TRY(read_floats(imp, name, ".in_sum2", matrices * cols, out, &has_sums));
  GA_REQUIRE(has_sums, GA_ERR_FORMAT, "importance matrix: %s.counts without %s.in_sum2", name, name);
  for (int64_t m = 0; m < matrices; m++) GA_TRY(divide_sums(name, m, counts[m], cols, out + m * cols));
  *found = true;
  return GA_OK;
}
