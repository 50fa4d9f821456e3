/* For the tests of safetensors models: headers, files, and a folder with config.json. */
#ifndef GA_TESTS_MODEL_FOLDER_H
#define GA_TESTS_MODEL_FOLDER_H

#include "tests/model_bytes.h"

static raw_bytes raw;

static inline void make_st(raw_bytes *b, const char *header, size_t data_bytes) {
  b->n = 0;
  raw_text(b, header);
  for (size_t i = 0; i < data_bytes; i++) raw_le(b, 1, i + 1);
}

static inline void put_st(const char *name, const char *header, size_t data_bytes) {
  make_st(&raw, header, data_bytes);
  put_file_bytes(name, raw.data, raw.n);
}

#define ENTRY(name, dtype, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

#define BASE \
  "\"hidden_size\":8,\"num_hidden_layers\":2,\"intermediate_size\":16,\"num_attention_heads\":4,\"vocab_size\":32"

/* Opens the folder with this config.json and tensors of one byte with these names. */
static inline ga_status open_folder(const char *config, int n_names, const char *const *names, ga_model_file **out) {
  static char header[4096];
  int n = snprintf(header, sizeof header, "{");
  for (int i = 0; i < n_names; i++)
    n += snprintf(header + n, sizeof header - (size_t)n,
                  "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? "," : "", names[i], i,
                  i + 1);
  (void)snprintf(header + n, sizeof header - (size_t)n, "}");
  put_st("model.safetensors", header, (size_t)n_names);
  put_file_text("config.json", config);
  return ga_model_file_open(test_folder, out);
}

#endif
