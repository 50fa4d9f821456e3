/* For tests of folders: looks at metadata and names of an open file. */
#ifndef GA_TESTS_HF_META_H
#define GA_TESTS_HF_META_H

#include <math.h>

#include "tests/model_folder.h"

static inline void expect_int(const ga_model_file *f, const char *key, int64_t want) {
  int64_t n = -1;
  assert_ok(ga_model_file_int(f, key, INT64_MIN, INT64_MAX, &n));
  if (n != want) fail_msg("%s is %lld, must be %lld", key, (long long)n, (long long)want);
}

static inline void expect_element(const ga_meta *meta, int64_t index, int64_t want) {
  int64_t n = -1;
  assert_ok(ga_meta_int(meta, index, &n));
  if (n != want) fail_msg("element %lld is %lld, must be %lld", (long long)index, (long long)n, (long long)want);
}

static inline void check_float(const ga_model_file *f, const char *key, double want) {
  double x = -1;
  assert_ok(ga_model_file_float(f, key, &x));
  if (fabs(x - want) > 1e-12 * fabs(want)) fail_msg("%s is %g, must be %g", key, x, want);
}

static inline void check_text(const ga_model_file *f, const char *key, const char *want) {
  ga_text t;
  assert_ok(ga_model_file_text(f, key, &t));
  assert_int_equal(t.bytes, strlen(want));
  assert_memory_equal(t.data, want, t.bytes);
}

static inline void check_name(const ga_model_file *f, const char *source, const char *name) {
  const ga_model_tensor *t = ga_model_file_find(f, name);
  if (!t)
    fail_msg("no %s", name);
  else
    assert_string_equal(t->source_name, source);
}

#endif
