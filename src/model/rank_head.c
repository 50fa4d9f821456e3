#include "model/rank_head.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"

struct ga_rank_head {
  int32_t width, n_labels;
  float *dense, *dense_bias; /* [width][width], [width] */
  float *out, *out_bias;     /* [n_labels][width], [n_labels] */
};

enum { NAMES = 3 };

/* Names of one tensor: GGUF's, that of BERT and that of RoBERTa. Folders keep the prefix of a checkpoint where no table
 * renames a tensor. */
typedef struct head_names {
  const char *name[NAMES];
} head_names;

static const head_names dense_names = {{"cls", "pooler.dense", "classifier.dense"}},
                        out_names = {{"cls.output", "classifier", "classifier.out_proj"}};

static const ga_model_tensor *find_head(const ga_model_file *file, const head_names *names, const char *suffix) {
  static const char *const prefixes[] = {"", "bert.", "roberta."};
  char name[64];
  for (size_t i = 0; i < NAMES; i++)
    for (size_t k = 0; k < GA_COUNT_OF(prefixes); k++) {
      (void)snprintf(name, sizeof name, "%s%s%s", prefixes[k], names->name[i], suffix);
      const ga_model_tensor *t = ga_model_file_find(file, name);
      if (t) return t;
    }
  return NULL;
}

bool rank_head_is_there(const ga_model_file *file) {
  return find_head(file, &dense_names, ".weight") && find_head(file, &out_names, ".weight");
}

/* Reads a tensor of [rows, cols], or of [cols] if rows is 1, as f32. */
static ga_status read_part(const ga_model_file *file, const ga_model_tensor *t, int64_t rows, int64_t cols,
                           float **out) {
  void *raw, *values;
  const bool fits = t->view.n_dims == 2 ? t->view.dim[0] == rows && t->view.dim[1] == cols
                                        : t->view.n_dims == 1 && rows == 1 && t->view.dim[0] == cols;
  GA_REQUIRE(fits, GA_ERR_SHAPE, "%s has %d dimensions, the first %lld; must be [%lld, %lld]", t->name, t->view.n_dims,
             (long long)(t->view.n_dims ? t->view.dim[0] : 0), (long long)rows, (long long)cols);
  GA_TRY(ga_mem_alloc(t->bytes, t->name, &raw));
  ga_status status = ga_mem_alloc((size_t)(rows * cols) * sizeof(float), t->name, &values);
  if (status == GA_OK) {
    *out = values; /* the head frees it */
    status = ga_model_file_read(file, t, 0, raw, t->bytes);
  }
  if (status == GA_OK) status = ga_vector_to_f32(t, raw, 0.0f, *out);
  ga_mem_free(raw);
  return status;
}

/* Reads a bias; one that the file lacks is zero. */
static ga_status read_bias(const ga_model_file *file, const head_names *names, int64_t n, float **out) {
  const ga_model_tensor *t = find_head(file, names, ".bias");
  void *zeros;
  if (t) return read_part(file, t, 1, n, out);
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(float), "bias", &zeros));
  *out = zeros;
  return GA_OK;
}

static ga_status read_head(const ga_model_file *file, ga_rank_head *head) {
  const ga_model_tensor *out = find_head(file, &out_names, ".weight");
  const int64_t labels = out->view.n_dims == 2 ? out->view.dim[0] : 1;
  GA_REQUIRE(labels >= 1 && labels <= INT32_MAX / 4, GA_ERR_SHAPE, "%s has %lld rows; must be a row for each label",
             out->name, (long long)labels);
  head->n_labels = (int32_t)labels;
  GA_TRY(read_part(file, find_head(file, &dense_names, ".weight"), head->width, head->width, &head->dense));
  GA_TRY(read_bias(file, &dense_names, head->width, &head->dense_bias));
  GA_TRY(read_part(file, out, labels, head->width, &head->out));
  return read_bias(file, &out_names, labels, &head->out_bias);
}

ga_status rank_head_load(const ga_model_file *file, int32_t width, ga_rank_head **out) {
  void *p;
  *out = NULL;
  if (!rank_head_is_there(file)) return GA_OK;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_rank_head), "head", &p));
  ga_rank_head *head = p;
  head->width = width;
  const ga_status status = read_head(file, head);
  if (status == GA_OK)
    *out = head;
  else
    rank_head_free(head);
  return status;
}

void rank_head_free(ga_rank_head *head) {
  if (!head) return;
  ga_mem_free(head->dense);
  ga_mem_free(head->dense_bias);
  ga_mem_free(head->out);
  ga_mem_free(head->out_bias);
  ga_mem_free(head);
}

int32_t rank_head_labels(const ga_rank_head *head) { return head ? head->n_labels : 0; }

float rank_head_score(const ga_rank_head *head, const float *x) {
  double score = (double)head->out_bias[0];
  for (int32_t r = 0; r < head->width; r++) {
    double y = (double)head->dense_bias[r];
    for (int32_t c = 0; c < head->width; c++) y += (double)head->dense[(int64_t)r * head->width + c] * (double)x[c];
    score += (double)head->out[r] * tanh(y);
  }
  return (float)score;
}
