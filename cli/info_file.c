/* ga info --meta, --tensors: what a model file holds, for people and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "cli/commands.h"
#include "cli/info.h"
#include "cmdline/error.h"

enum { FIRST = 8 }; /* elements of an array that JSON shows */

/* --- for people --- */

static void print_string(ga_text t) {
  const size_t n = t.bytes < 80 ? t.bytes : 80;
  putchar('"');
  cmd_put_text(stdout, t.data, n);
  printf(n < t.bytes ? "...\" (%zu bytes)" : "\"", t.bytes);
}

static void print_value(const ga_meta *m, int64_t index) {
  int64_t i;
  double f;
  bool b;
  ga_text t;
  if (ga_meta_text(m, index, &t) == GA_OK)
    print_string(t);
  else if (ga_meta_int(m, index, &i) == GA_OK)
    printf("%lld", (long long)i);
  else if (ga_meta_float(m, index, &f) == GA_OK)
    printf("%g", f);
  else if (ga_meta_bool(m, index, &b) == GA_OK)
    printf("%s", b ? "true" : "false");
  else
    printf("(%s)", ga_error_text()); /* a u64 beyond 63 bits */
}

static void print_meta(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *m = ga_model_file_meta_at(file, i);
    printf("%-44s ", ga_meta_key(m)); /* without control characters, as names of tensors */
    if (ga_meta_type_of(m) == GA_META_ARRAY)
      printf("[%s, %lld]", ga_meta_type_name(ga_meta_elem_type(m)), (long long)ga_meta_count(m));
    else
      print_value(m, 0);
    printf("\n");
  }
}

static void print_tensors(const ga_model_file *file) {
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    printf("%-36s %-8s [", t->name, ga_dtype_name(t->view.dtype));
    for (int d = 0; d < t->view.n_dims; d++) printf("%s%lld", d ? ", " : "", (long long)t->view.dim[d]);
    printf("] %llu bytes\n", (unsigned long long)t->bytes);
  }
}

/* --- JSON --- */

/* NULL without memory. JSON has no NaN, no infinities and, here, 64 signed bits: those are texts. */
static json_t *json_value(const ga_meta *m, int64_t index) {
  int64_t i;
  double f;
  bool b;
  ga_text t;
  char text[32];
  if (ga_meta_text(m, index, &t) == GA_OK) return cmd_json_text(t.data, t.bytes);
  if (ga_meta_int(m, index, &i) == GA_OK) return json_integer(i);
  if (ga_meta_bool(m, index, &b) == GA_OK) return json_boolean(b);
  if (ga_meta_float(m, index, &f) != GA_OK) return json_string("beyond 64 signed bits");
  if (isfinite(f)) return json_real(f);
  (void)snprintf(text, sizeof text, "%g", f);
  return json_string(text);
}

static json_t *json_array_of(const ga_meta *m) {
  const int64_t count = ga_meta_count(m);
  json_t *first = json_array();
  for (int64_t i = 0; i < count && i < FIRST; i++)
    if (json_array_append_new(first, json_value(m, i))) {
      json_decref(first);
      return NULL;
    }
  return json_pack("{s:s, s:I, s:o}", "type", ga_meta_type_name(ga_meta_elem_type(m)), "count", (json_int_t)count,
                   "first", first);
}

static json_t *json_meta(const ga_model_file *file) {
  json_t *o = json_object();
  for (int64_t i = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *m = ga_model_file_meta_at(file, i);
    json_t *value = ga_meta_type_of(m) == GA_META_ARRAY ? json_array_of(m) : json_value(m, 0);
    json_t *key = cmd_json_text(ga_meta_key(m), strlen(ga_meta_key(m)));
    const int failed = !key || json_object_set_new(o, json_string_value(key), value);
    json_decref(key);
    if (failed) {
      json_decref(o);
      return NULL;
    }
  }
  return o;
}

static json_t *json_tensors(const ga_model_file *file) {
  json_t *list = json_array();
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    json_t *shape = json_array();
    int failed = 0;
    for (int d = 0; d < t->view.n_dims; d++) failed |= json_array_append_new(shape, json_integer(t->view.dim[d]));
    json_t *o = json_pack("{s:o, s:s, s:o, s:I}", "name", cmd_json_text(t->name, strlen(t->name)), "type",
                          ga_dtype_name(t->view.dtype), "shape", shape, "bytes", (json_int_t)t->bytes);
    if (json_array_append_new(list, o) || failed) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

static ga_status print_file_json(const ga_model_file *file, bool meta, bool tensors) {
  json_t *o = json_object();
  int failed = !o;
  if (meta) failed |= json_object_set_new(o, "metadata", json_meta(file));
  if (tensors) failed |= json_object_set_new(o, "tensors", json_tensors(file));
  if (failed) {
    json_decref(o);
    return fail_nomem("JSON", 0);
  }
  TRY(cmd_print_json(o, JSON_INDENT(2)));
  printf("\n");
  return GA_OK;
}

ga_status info_file(const ga_model_file *file, bool meta, bool tensors, bool json) {
  if (json) return print_file_json(file, meta, tensors);
  if (meta) print_meta(file);
  if (tensors) print_tensors(file);
  return GA_OK;
}
