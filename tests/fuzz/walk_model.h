/* Reads everything that a ga_model_file gives, so that a sanitizer sees every byte it points to. */
#ifndef GA_TESTS_FUZZ_WALK_MODEL_H
#define GA_TESTS_FUZZ_WALK_MODEL_H

#include <stdlib.h>
#include <string.h>

#include "ga/model_file.h"

static uint64_t walk_sum; /* keeps the reads alive */

static inline void walk_bytes(const void *data, uint64_t bytes) {
  const uint8_t *p = data;
  for (uint64_t i = 0; i < bytes; i++) walk_sum = walk_sum * 31 + p[i];
}

static inline void walk_element(const ga_meta *meta, int64_t i) {
  int64_t n;
  double x;
  bool b;
  ga_text text;
  if (ga_meta_int(meta, i, &n) == GA_OK) walk_sum += (uint64_t)n;
  if (ga_meta_float(meta, i, &x) == GA_OK) walk_bytes(&x, sizeof x);
  if (ga_meta_bool(meta, i, &b) == GA_OK) walk_sum += b;
  if (ga_meta_text(meta, i, &text) == GA_OK) walk_bytes(text.data, text.bytes);
}

static inline void walk_meta(const ga_model_file *file, const ga_meta *meta) {
  int64_t n, n_count = ga_meta_count(meta), ints[3];
  double x;
  ga_text text;
  const ga_meta *array;
  if (ga_model_file_meta(file, ga_meta_key(meta)) != meta) abort();
  if (ga_model_file_int(file, ga_meta_key(meta), -5, 1000, &n) == GA_OK && (n < -5 || n > 1000)) abort();
  if (ga_model_file_float(file, ga_meta_key(meta), &x) == GA_OK) walk_bytes(&x, sizeof x);
  if (ga_model_file_text(file, ga_meta_key(meta), &text) == GA_OK) walk_bytes(text.data, text.bytes);
  if (ga_model_file_array(file, ga_meta_key(meta), GA_META_TEXTS, &array) == GA_OK && array != meta) abort();
  if (ga_model_file_ints(file, ga_meta_key(meta), 3, 0, 9, ints) == GA_OK) walk_bytes(ints, sizeof ints);
  for (int64_t i = 0; i < n_count; i++) walk_element(meta, i);
  walk_element(meta, n_count);
  walk_element(meta, -1);
}

static inline void walk_tensor(const ga_model_file *file, const ga_model_tensor *t) {
  uint64_t bytes;
  if (ga_model_file_find(file, t->name) != t) abort();
  if (ga_tensor_bytes(&t->view, &bytes) != GA_OK || bytes != t->bytes) abort();
  if (t->part < 0) { /* made of others: the ends stand for all */
    uint8_t ends[2];
    if (ga_model_file_read(file, t, 0, ends, 1) != GA_OK ||
        ga_model_file_read(file, t, bytes - 1, ends + 1, 1) != GA_OK)
      abort();
    walk_bytes(ends, sizeof ends);
    ga_model_file_forget(file, t);
    return;
  }
  if (t->bytes > ga_model_file_shard_bytes(file, t->part) ||
      t->offset > ga_model_file_shard_bytes(file, t->part) - t->bytes)
    abort();
  walk_bytes(t->view.data, t->bytes);
  ga_model_file_forget(file, t);
}

static inline void walk_model(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) walk_meta(file, ga_model_file_meta_at(file, i));
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) walk_tensor(file, ga_model_file_tensor_at(file, i));
}

#endif
