/* Reading metadata by type, with the type and the range checked. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "file/byte_reader.h"
#include "file/model_store.h"

int64_t ga_model_file_meta_count(const ga_model_file *file) { return file->meta->count; }

const ga_meta *ga_model_file_meta_at(const ga_model_file *file, int64_t index) {
  return index >= 0 && index < file->meta->count ? &file->meta->items[index] : NULL;
}

const ga_meta *ga_model_file_meta(const ga_model_file *file, const char *key) {
  return ga_meta_list_find(file->meta, key);
}

const char *ga_meta_key(const ga_meta *meta) { return meta->key; }
ga_meta_type ga_meta_type_of(const ga_meta *meta) { return meta->type; }
ga_meta_type ga_meta_elem_type(const ga_meta *meta) { return meta->elem; }
int64_t ga_meta_count(const ga_meta *meta) { return meta->count; }

static const char *kind_types(ga_meta_kind kind) {
  switch (kind) {
  case GA_META_INTS: return "an integer (u8 to u64, i8 to i64)";
  case GA_META_FLOATS: return "a float (f32, f64)";
  case GA_META_BOOLS: return "a bool";
  case GA_META_TEXTS: return "a text";
  }
  return "nothing";
}

static bool is_kind(ga_meta_type type, ga_meta_kind kind) {
  switch (kind) {
  case GA_META_FLOATS: return type == GA_META_F32 || type == GA_META_F64;
  case GA_META_BOOLS: return type == GA_META_BOOL;
  case GA_META_TEXTS: return type == GA_META_TEXT;
  case GA_META_INTS: break;
  }
  return type != GA_META_BOOL && type != GA_META_F32 && type != GA_META_F64 && ga_meta_type_bytes(type) > 0;
}

static ga_status require_element(const ga_meta *meta, int64_t index, ga_meta_kind kind) {
  GA_REQUIRE(is_kind(meta->elem, kind), GA_ERR_FORMAT, "metadata '%s' is %s%s; must be %s", meta->key,
             meta->type == GA_META_ARRAY ? "an array of " : "", ga_meta_type_name(meta->elem), kind_types(kind));
  GA_REQUIRE(index >= 0 && index < meta->count, GA_ERR_ARG, "metadata '%s': element %lld of %lld", meta->key,
             (long long)index, (long long)meta->count);
  return GA_OK;
}

static uint64_t load_bits(const ga_meta *meta, int64_t index) {
  int bytes = ga_meta_type_bytes(meta->elem);
  return ga_load_le(meta->data + index * bytes, bytes);
}

ga_status ga_meta_int(const ga_meta *meta, int64_t index, int64_t *out) {
  GA_TRY(require_element(meta, index, GA_META_INTS));
  uint64_t u = load_bits(meta, index);
  switch (meta->elem) {
  case GA_META_I8: *out = (int8_t)u; return GA_OK;
  case GA_META_I16: *out = (int16_t)u; return GA_OK;
  case GA_META_I32: *out = (int32_t)u; return GA_OK;
  case GA_META_I64: *out = (int64_t)u; return GA_OK;
  default: break;
  }
  GA_REQUIRE(u <= INT64_MAX, GA_ERR_FORMAT, "metadata '%s' is %llu; must be at most %lld", meta->key,
             (unsigned long long)u, (long long)INT64_MAX);
  *out = (int64_t)u;
  return GA_OK;
}

ga_status ga_meta_float(const ga_meta *meta, int64_t index, double *out) {
  GA_TRY(require_element(meta, index, GA_META_FLOATS));
  uint64_t u = load_bits(meta, index);
  if (meta->elem == GA_META_F32)
    *out = (double)ga_bits_f32((uint32_t)u);
  else
    memcpy(out, &u, sizeof u);
  return GA_OK;
}

ga_status ga_meta_bool(const ga_meta *meta, int64_t index, bool *out) {
  GA_TRY(require_element(meta, index, GA_META_BOOLS));
  *out = load_bits(meta, index) != 0;
  return GA_OK;
}

ga_status ga_meta_text(const ga_meta *meta, int64_t index, ga_text *out) {
  GA_TRY(require_element(meta, index, GA_META_TEXTS));
  ga_text_span span = meta->spans[index];
  *out = (ga_text){(const char *)meta->data + span.offset, span.bytes};
  return GA_OK;
}

/* --- by key ------------------------------------------------------------------------------------------------------ */

static const char *label(const ga_model_file *file) { return file->shards[0].label; }

static ga_status in_file(const ga_model_file *file, ga_status status) {
  return status == GA_OK ? GA_OK : ga_fail_in(status, "%s", label(file));
}

/* Returns the first element of an array that differs from element 0; the count: none does. */
static int64_t first_other(const ga_meta *meta) {
  const size_t bytes = (size_t)ga_meta_type_bytes(meta->elem);
  int64_t i = 1;
  while (bytes && i < meta->count && !memcmp(meta->data, meta->data + (size_t)i * bytes, bytes)) i++;
  return i;
}

/* One number for all layers may be written for each of them. */
static ga_status require_equal(const ga_model_file *file, const ga_meta *meta, ga_meta_kind kind) {
  GA_REQUIRE(is_kind(meta->elem, kind) && kind != GA_META_TEXTS && meta->count > 0, GA_ERR_FORMAT,
             "%s: metadata '%s' is an array of %lld %s; must be %s", label(file), meta->key, (long long)meta->count,
             ga_meta_type_name(meta->elem), kind_types(kind));
  const int64_t other = first_other(meta);
  GA_REQUIRE(other == meta->count, GA_ERR_FORMAT,
             "%s: metadata '%s' is an array of %lld %s, elements 0 and %lld differ; must be %s, one for all layers",
             label(file), meta->key, (long long)meta->count, ga_meta_type_name(meta->elem), (long long)other,
             kind_types(kind));
  return GA_OK;
}

/* *out = the entry, of which element 0 is of that kind and counts. */
static ga_status require_scalar(const ga_model_file *file, const char *key, ga_meta_kind kind, const ga_meta **out) {
  const ga_meta *meta = ga_model_file_meta(file, key);
  GA_REQUIRE(meta, GA_ERR_FORMAT, "%s: metadata '%s' is missing; must be there, %s", label(file), key,
             kind_types(kind));
  if (meta->type == GA_META_ARRAY) GA_TRY(require_equal(file, meta, kind));
  *out = meta;
  return GA_OK;
}

static ga_status require_range(const ga_model_file *file, const char *key, int64_t least, int64_t most, int64_t value) {
  GA_REQUIRE(value >= least && value <= most, GA_ERR_FORMAT, "%s: metadata '%s' is %lld; must be from %lld to %lld",
             label(file), key, (long long)value, (long long)least, (long long)most);
  return GA_OK;
}

ga_status ga_model_file_int(const ga_model_file *file, const char *key, int64_t least, int64_t most, int64_t *out) {
  const ga_meta *meta = NULL;
  int64_t value = 0;
  GA_TRY(require_scalar(file, key, GA_META_INTS, &meta));
  GA_TRY(in_file(file, ga_meta_int(meta, 0, &value)));
  GA_TRY(require_range(file, key, least, most, value));
  *out = value;
  return GA_OK;
}

ga_status ga_model_file_float(const ga_model_file *file, const char *key, double *out) {
  const ga_meta *meta = NULL;
  double value = 0;
  GA_TRY(require_scalar(file, key, GA_META_FLOATS, &meta));
  GA_TRY(in_file(file, ga_meta_float(meta, 0, &value)));
  GA_REQUIRE(isfinite(value), GA_ERR_FORMAT, "%s: metadata '%s' is %g; must be finite", label(file), key, value);
  *out = value;
  return GA_OK;
}

ga_status ga_model_file_bool(const ga_model_file *file, const char *key, bool *out) {
  const ga_meta *meta = NULL;
  GA_TRY(require_scalar(file, key, GA_META_BOOLS, &meta));
  return in_file(file, ga_meta_bool(meta, 0, out));
}

ga_status ga_model_file_text(const ga_model_file *file, const char *key, ga_text *out) {
  const ga_meta *meta = NULL;
  GA_TRY(require_scalar(file, key, GA_META_TEXTS, &meta));
  return in_file(file, ga_meta_text(meta, 0, out));
}

ga_status ga_model_file_int_or(const ga_model_file *file, const char *key, int64_t fallback, int64_t least,
                               int64_t most, int64_t *out) {
  if (ga_model_file_meta(file, key)) return ga_model_file_int(file, key, least, most, out);
  *out = fallback;
  return GA_OK;
}

ga_status ga_model_file_float_or(const ga_model_file *file, const char *key, double fallback, double *out) {
  if (ga_model_file_meta(file, key)) return ga_model_file_float(file, key, out);
  *out = fallback;
  return GA_OK;
}

ga_status ga_model_file_bool_or(const ga_model_file *file, const char *key, bool fallback, bool *out) {
  if (ga_model_file_meta(file, key)) return ga_model_file_bool(file, key, out);
  *out = fallback;
  return GA_OK;
}

ga_status ga_model_file_text_or(const ga_model_file *file, const char *key, const char *fallback, ga_text *out) {
  if (ga_model_file_meta(file, key)) return ga_model_file_text(file, key, out);
  *out = (ga_text){fallback, strlen(fallback)};
  return GA_OK;
}

static ga_status int_or_bool(const ga_meta *meta, int64_t index, int64_t *out) {
  if (meta->elem != GA_META_BOOL) return ga_meta_int(meta, index, out);
  bool b;
  GA_TRY(ga_meta_bool(meta, index, &b));
  *out = b;
  return GA_OK;
}

ga_status ga_model_file_ints(const ga_model_file *file, const char *key, int64_t n, int64_t least, int64_t most,
                             int64_t *out) {
  const ga_meta *meta = ga_model_file_meta(file, key);
  int64_t value = 0;
  GA_REQUIRE(meta, GA_ERR_FORMAT, "%s: metadata '%s' is missing; must be there, %s or %lld of them", label(file), key,
             kind_types(GA_META_INTS), (long long)n);
  bool is_array = meta->type == GA_META_ARRAY;
  GA_REQUIRE(!is_array || meta->count == n, GA_ERR_FORMAT, "%s: metadata '%s' is an array of %lld; must be one of %lld",
             label(file), key, (long long)meta->count, (long long)n);
  for (int64_t i = 0; i < meta->count; i++) { /* all are checked before the first is written */
    GA_TRY(in_file(file, int_or_bool(meta, i, &value)));
    GA_TRY(require_range(file, key, least, most, value));
  }
  for (int64_t i = 0; i < n; i++) GA_TRY(int_or_bool(meta, is_array ? i : 0, &out[i]));
  return GA_OK;
}

ga_status ga_model_file_array_or_null(const ga_model_file *file, const char *key, ga_meta_kind kind,
                                      const ga_meta **out) {
  const ga_meta *meta = ga_model_file_meta(file, key);
  *out = NULL;
  if (!meta) return GA_OK;
  GA_REQUIRE(meta->type == GA_META_ARRAY && is_kind(meta->elem, kind), GA_ERR_FORMAT,
             "%s: metadata '%s' is %s%s; must be an array, each element %s", label(file), key,
             meta->type == GA_META_ARRAY ? "an array of " : "", ga_meta_type_name(meta->elem), kind_types(kind));
  *out = meta;
  return GA_OK;
}

ga_status ga_model_file_array(const ga_model_file *file, const char *key, ga_meta_kind kind, const ga_meta **out) {
  GA_TRY(ga_model_file_array_or_null(file, key, kind, out));
  GA_REQUIRE(*out, GA_ERR_FORMAT, "%s: metadata '%s' is missing; must be an array, each element %s", label(file), key,
             kind_types(kind));
  return GA_OK;
}
