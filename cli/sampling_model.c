#include "cli/sampling_model.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "cli/commands.h"
#include "cmdline/error.h"
#include "ga/model_file.h"
#include "text/json_io.h"

typedef struct field {
  const char *meta, *json; /* the key's end in GGUF, the key in generation_config.json */
  double min, max;
  double *value;
} field;

static void take(const field *f, const char *key, double v, bool *found) {
  if (v >= f->min && v <= f->max) {
    *f->value = v;
    *found = true;
    return;
  }
  (void)fprintf(stderr, "ga: the model's %s is %g, which is not from %g to %g: not used\n", key, v, f->min, f->max);
}

static void read_meta(const ga_model_file *file, const field *f, bool *found) {
  char key[64];
  int64_t whole;
  double v;
  (void)snprintf(key, sizeof key, "general.sampling.%s", f->meta);
  const ga_meta *m = ga_model_file_meta(file, key);
  if (!m) return;
  if (ga_model_file_float(file, key, &v) != GA_OK) {
    if (ga_model_file_int(file, key, INT32_MIN, INT32_MAX, &whole) != GA_OK) {
      (void)fprintf(stderr, "ga: the model's %s is a %s, which is no number: not used\n", key,
                    ga_meta_type_name(ga_meta_type_of(m)));
      return;
    }
    v = (double)whole;
  }
  take(f, key, v, found);
}

static void read_json(const json_t *config, const field *f, bool *found) {
  const json_t *v = json_object_get(config, f->json);
  if (!v || json_is_null(v)) return;
  if (json_is_number(v))
    take(f, f->json, json_number_value(v), found);
  else
    (void)fprintf(stderr, "ga: %s of generation_config.json is no number: not used\n", f->json);
}

static void read_config(const char *path, const field *fields, size_t n, bool *found) {
  json_error_t error;
  json_t *config = ga_json_load_file(path, GA_JSON_PYTHON, &error);
  if (!json_is_object(config)) {
    const char *why = config ? "no object" : error.text; /* which quotes the file */
    (void)fprintf(stderr, "ga: generation_config.json: ");
    cmd_put_text(stderr, why, strlen(why));
    (void)fprintf(stderr, ": not used\n");
  } else if (json_is_false(json_object_get(config, "do_sample"))) {
    *fields[0].value = 0;
    *found = true;
  } else {
    for (size_t i = 0; i < n; i++) read_json(config, &fields[i], found);
  }
  json_decref(config);
}

ga_status model_sampling_read(const char *path, model_sampling *out) {
  double top_k = 0;
  *out = (model_sampling){.temperature = 1, .top_p = 1, .repeat = 1};
  const field fields[] = {
      {"temp", "temperature", 0, 100, &out->temperature},
      {"top_p", "top_p", 1e-6, 1, &out->top_p},
      {"min_p", "min_p", 0, 0.999999, &out->min_p},
      {"penalty_repeat", "repetition_penalty", 1e-6, 100, &out->repeat},
      {"top_k", "top_k", 0, 1e9, &top_k},
  };
  ga_model_file *file;
  TRY(ga_model_file_open(path, &file));
  for (size_t i = 0; i < COUNT_OF(fields); i++) read_meta(file, &fields[i], &out->found);
  const char *config = ga_model_file_side_path(file, "generation_config.json");
  if (config) read_config(config, fields, COUNT_OF(fields), &out->found);
  ga_model_file_destroy(file);
  out->top_k = (int64_t)top_k;
  return GA_OK;
}
