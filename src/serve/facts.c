#include "serve/facts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ga/hash.h"

/* Names of general.file_type. */
static const struct {
  int64_t type;
  const char *name;
} sv_file_types[] = {{0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},    {8, "Q5_0"},
                     {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"}, {13, "Q3_K_L"}, {14, "Q4_K_S"},
                     {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"}, {18, "Q6_K"},   {32, "BF16"}};

/* Finds the type that has the most bytes of the weights. */
static ga_dtype sv_main_type(const ga_model_file *file, uint64_t *n_weights) {
  uint64_t bytes[64] = {0};
  size_t best = 0;
  *n_weights = 0;
  for (int64_t i = 0; i < ga_model_file_tensor_count(file); i++) {
    const ga_model_tensor *t = ga_model_file_tensor_at(file, i);
    uint64_t n = 1;
    for (int d = 0; d < t->view.n_dims; d++) n *= (uint64_t)t->view.dim[d];
    *n_weights += n;
    const size_t type = (size_t)t->view.dtype;
    if (type >= sizeof bytes / sizeof bytes[0]) continue;
    bytes[type] += t->bytes;
    if (bytes[type] > bytes[best]) best = type;
  }
  return (ga_dtype)best;
}

static void sv_read_quantization(const ga_model_file *file, sv_facts *out) {
  int64_t type = -1;
  uint64_t n;
  const ga_dtype most = sv_main_type(file, &n);
  (void)snprintf(out->quantization, sizeof out->quantization, "%s", n ? ga_dtype_name(most) : "");
  for (char *c = out->quantization; *c; c++) *c = (char)toupper((unsigned char)*c);
  if (ga_model_file_meta(file, "general.file_type") &&
      ga_model_file_int(file, "general.file_type", 0, UINT32_MAX, &type) == GA_OK)
    for (size_t i = 0; i < sizeof sv_file_types / sizeof sv_file_types[0]; i++)
      if (sv_file_types[i].type == type)
        (void)snprintf(out->quantization, sizeof out->quantization, "%s", sv_file_types[i].name);
  if (n >= 1000000000)
    (void)snprintf(out->parameters, sizeof out->parameters, "%.1fB", (double)n * 1e-9);
  else if (n)
    (void)snprintf(out->parameters, sizeof out->parameters, "%.2fM", (double)n * 1e-6);
}

ga_status sv_facts_read(const char *path, sv_facts *out) {
  ga_model_file *file;
  struct stat st = {0};
  sv_text id = {0};
  ga_text arch = {0};
  *out = (sv_facts){0};
  const ga_status status = ga_model_file_open(path, &file);
  if (status != GA_OK) return status;
  (void)snprintf(out->format, sizeof out->format, "%s",
                 ga_model_file_format(file) == GA_MODEL_GGUF ? "gguf" : "safetensors");
  if (ga_model_file_meta(file, "general.architecture") &&
      ga_model_file_text(file, "general.architecture", &arch) == GA_OK)
    (void)snprintf(out->family, sizeof out->family, "%.*s", (int)(arch.bytes < 31 ? arch.bytes : 31), arch.data);
  out->has_template = ga_model_file_meta(file, "tokenizer.chat_template") != NULL;
  sv_read_quantization(file, out);
  for (int32_t i = 0; i < ga_model_file_shards(file); i++) {
    const char *shard = ga_model_file_shard_path(file, i);
    out->bytes += ga_model_file_shard_bytes(file, i);
    if (stat(shard, &st)) continue;
    if (!i) out->modified = st.st_mtime;
    sv_putf(&id, "%s %lld %lld\n", shard, (long long)st.st_size, (long long)st.st_mtime);
  }
  ga_sha256_of(id.p ? id.p : "", id.n, out->digest);
  const bool failed = id.failed;
  sv_text_free(&id);
  ga_model_file_destroy(file);
  return failed ? ga_error_set(GA_ERR_NOMEM, "%s: no memory", path) : GA_OK;
}

void sv_put_details(sv_text *t, const sv_facts *facts) {
  sv_puts(t, "{\"parent_model\":\"\",\"format\":");
  sv_puts_json(t, facts->format);
  sv_puts(t, ",\"family\":");
  sv_puts_json(t, facts->family);
  sv_puts(t, ",\"families\":[");
  sv_puts_json(t, facts->family);
  sv_puts(t, "],\"parameter_size\":");
  sv_puts_json(t, facts->parameters);
  sv_puts(t, ",\"quantization_level\":");
  sv_puts_json(t, facts->quantization);
  sv_puts(t, "}");
}

/* --- metadata --- */

static void sv_put_meta_value(sv_text *t, const ga_meta *m, int64_t index) {
  int64_t i;
  double f;
  bool b;
  ga_text text;
  if (ga_meta_text(m, index, &text) == GA_OK)
    sv_put_json(t, text.data, text.bytes);
  else if (ga_meta_int(m, index, &i) == GA_OK)
    sv_putf(t, "%lld", (long long)i);
  else if (ga_meta_bool(m, index, &b) == GA_OK)
    sv_puts(t, b ? "true" : "false");
  else if (ga_meta_float(m, index, &f) == GA_OK)
    sv_put_number(t, f);
  else
    sv_puts(t, "null"); /* beyond 64 signed bits */
}

static void sv_put_meta(sv_text *t, const ga_meta *m, bool with_arrays) {
  if (ga_meta_type_of(m) != GA_META_ARRAY) {
    sv_put_meta_value(t, m, 0);
  } else if (!with_arrays) {
    sv_puts(t, "null");
  } else {
    for (int64_t i = 0; i < ga_meta_count(m); i++) {
      sv_puts(t, i ? "," : "[");
      sv_put_meta_value(t, m, i);
    }
    sv_puts(t, ga_meta_count(m) ? "]" : "[]");
  }
}

ga_status sv_put_metadata(sv_text *t, const char *path, bool with_arrays) {
  ga_model_file *file;
  uint64_t n;
  const ga_status status = ga_model_file_open(path, &file);
  if (status != GA_OK) return status;
  (void)sv_main_type(file, &n);
  sv_puts(t, "{");
  if (!ga_model_file_meta(file, "general.parameter_count"))
    sv_putf(t, "\"general.parameter_count\":%llu,", (unsigned long long)n);
  for (int64_t i = 0, put = 0; i < ga_model_file_meta_count(file); i++) {
    const ga_meta *m = ga_model_file_meta_at(file, i);
    if (!strcmp(ga_meta_key(m), "tokenizer.chat_template")) continue; /* it has a field of its own */
    if (put++) sv_puts(t, ",");
    sv_puts_json(t, ga_meta_key(m));
    sv_puts(t, ":");
    sv_put_meta(t, m, with_arrays);
  }
  sv_puts(t, "}");
  ga_model_file_destroy(file);
  return GA_OK;
}

void sv_put_time(sv_text *t, const struct timespec *when) {
  char text[40] = "";
  struct tm broken;
  if (gmtime_r(&when->tv_sec, &broken)) (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &broken);
  sv_putf(t, "\"%s.%06ldZ\"", text, when->tv_nsec / 1000);
}
