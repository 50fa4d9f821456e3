/* One safetensors file. Format: u64 header bytes, JSON header, data; huggingface/safetensors, README "Format".
 *   {"__metadata__": {text: text}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
 * Offsets count from the end of the header. The data has no holes, no overlaps and no bytes that no tensor owns. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "file/byte_reader.h"
#include "file/hf.h"
#include "file/limits.h"
#include "file/model_store.h"

#define METADATA "__metadata__"

static const struct {
  const char *name;
  ga_dtype dtype;
} st_dtypes[] = {
    {"F32", GA_F32}, {"F16", GA_F16}, {"BF16", GA_BF16}, {"F64", GA_F64}, {"I8", GA_I8},        {"I16", GA_I16},
    {"I32", GA_I32}, {"I64", GA_I64}, {"U8", GA_U8},     {"BOOL", GA_U8}, {"F8_E4M3", GA_E4M3}, {"F8_E5M2", GA_E5M2},
};

/* An integer of JSON from 0 to INT64_MAX. */
static ga_status read_size(const json_t *value, const char *what, int64_t *out) {
  GA_REQUIRE(json_is_integer(value), GA_ERR_FORMAT, "%s is %s; must be an integer", what, ga_json_type_name(value));
  GA_REQUIRE(json_integer_value(value) >= 0, GA_ERR_FORMAT, "%s is %lld; must be at least 0", what,
             (long long)json_integer_value(value));
  *out = json_integer_value(value);
  return GA_OK;
}

static ga_status read_dtype(const json_t *value, ga_dtype *out) {
  GA_REQUIRE(json_is_string(value), GA_ERR_FORMAT, "dtype is %s; must be a text", ga_json_type_name(value));
  for (size_t i = 0; i < GA_COUNT_OF(st_dtypes); i++)
    if (!strcmp(st_dtypes[i].name, json_string_value(value))) {
      *out = st_dtypes[i].dtype;
      return GA_OK;
    }
  return ga_fail(GA_ERR_UNSUPPORTED,
                 "dtype '%s'; must be F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I16, I8, U8 or BOOL",
                 ga_quote(json_string_value(value), json_string_length(value)).text);
}

static ga_status read_shape(const json_t *value, int32_t *n_dims, int64_t dims[GA_MAX_DIMS]) {
  GA_REQUIRE(json_is_array(value), GA_ERR_FORMAT, "shape is %s; must be an array", ga_json_type_name(value));
  size_t n = json_array_size(value);
  GA_REQUIRE(n <= GA_MAX_DIMS, GA_ERR_UNSUPPORTED, "shape has %zu dimensions; at most %d", n, GA_MAX_DIMS);
  for (size_t i = 0; i < n; i++) GA_TRY(read_size(json_array_get(value, i), "dimension", &dims[i]));
  *n_dims = (int32_t)n;
  return GA_OK;
}

static ga_status read_offsets(const json_t *value, int64_t *begin, int64_t *end) {
  GA_REQUIRE(json_is_array(value) && json_array_size(value) == 2, GA_ERR_FORMAT,
             "data_offsets is %s of %zu; must be an array of 2", ga_json_type_name(value), json_array_size(value));
  GA_TRY(read_size(json_array_get(value, 0), "data_offsets[0]", begin));
  GA_TRY(read_size(json_array_get(value, 1), "data_offsets[1]", end));
  GA_REQUIRE(*end >= *begin, GA_ERR_FORMAT, "data_offsets is [%lld, %lld]; must not end before it begins",
             (long long)*begin, (long long)*end);
  return GA_OK;
}

static ga_status read_entry(const json_t *entry, ga_model_tensor *tensor) {
  ga_dtype dtype = GA_DTYPE_NONE;
  int32_t n_dims = 0;
  int64_t dims[GA_MAX_DIMS] = {0}, begin = 0, end = 0;
  GA_REQUIRE(json_is_object(entry) && json_object_size(entry) == 3, GA_ERR_FORMAT,
             "is %s of %zu; must be an object of dtype, shape and data_offsets", ga_json_type_name(entry),
             json_object_size(entry));
  GA_TRY(read_dtype(json_object_get(entry, "dtype"), &dtype));
  GA_TRY(read_shape(json_object_get(entry, "shape"), &n_dims, dims));
  GA_TRY(read_offsets(json_object_get(entry, "data_offsets"), &begin, &end));
  GA_TRY(ga_tensor_describe(tensor, dtype, n_dims, dims));
  GA_REQUIRE(tensor->bytes == (uint64_t)(end - begin), GA_ERR_FORMAT,
             "data_offsets span %lld bytes; dtype and shape take %llu", (long long)(end - begin),
             (unsigned long long)tensor->bytes);
  tensor->offset = (uint64_t)begin;
  return GA_OK;
}

static ga_status read_metadata_texts(ga_arena *arena, json_t *object, ga_meta_list *list) {
  const char *key;
  json_t *value;
  size_t n = json_object_size(object);
  GA_REQUIRE(!object || json_is_object(object), GA_ERR_FORMAT, METADATA " is %s; must be an object",
             ga_json_type_name(object));
  GA_REQUIRE(n <= GA_MODEL_MAX_KEYS, GA_ERR_FORMAT, METADATA " has %zu keys; at most %d", n, GA_MODEL_MAX_KEYS);
  GA_TRY(ga_meta_list_init(arena, (int64_t)n + GA_HF_MOST_KEYS, list));
  json_object_foreach(object, key, value) {
    char *name;
    ga_quoted q = ga_quote(key, strlen(key));
    GA_REQUIRE(ga_name_is_sound(key, strlen(key), GA_MODEL_MAX_NAME_BYTES), GA_ERR_FORMAT,
               METADATA " key '%s'; must have 1 to %d bytes without control characters", q.text,
               GA_MODEL_MAX_NAME_BYTES);
    GA_REQUIRE(json_is_string(value), GA_ERR_FORMAT, METADATA " '%s' is %s; must be a text", q.text,
               ga_json_type_name(value));
    GA_TRY(ga_arena_printf(arena, &name, "safetensors.%s", key));
    GA_TRY(ga_meta_list_add_text(arena, list, name, json_string_value(value), json_string_length(value)));
  }
  return GA_OK;
}

static ga_status read_entries(ga_arena *arena, json_t *header, ga_model_shard *part) {
  const char *key;
  json_t *entry;
  json_object_foreach(header, key, entry) {
    if (!strcmp(key, METADATA)) continue;
    char *name;
    size_t bytes = strlen(key);
    ga_quoted q = ga_quote(key, bytes);
    GA_REQUIRE(ga_name_is_sound(key, bytes, GA_MODEL_MAX_NAME_BYTES), GA_ERR_FORMAT,
               "tensor name '%s' (%zu bytes); must have 1 to %d bytes without control characters", q.text, bytes,
               GA_MODEL_MAX_NAME_BYTES);
    GA_TRY(ga_arena_strndup(arena, key, bytes, &name));
    ga_model_tensor *tensor = &part->tensors[part->n_tensors];
    ga_status status = read_entry(entry, tensor);
    if (status) return ga_fail_in(status, "tensor '%s'", q.text);
    tensor->source_name = name;
    part->n_tensors++;
  }
  return GA_OK;
}

/* By place in the file; an empty tensor comes before the one that begins where it lies. */
static int compare_offsets(const void *a, const void *b) {
  const ga_model_tensor *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return strcmp(x->source_name, y->source_name);
}

static ga_status bind_entries(ga_model_shard *part, uint64_t start) {
  uint64_t next = 0, data_bytes = part->map.bytes - start;
  qsort(part->tensors, (size_t)part->n_tensors, sizeof *part->tensors, compare_offsets);
  for (int64_t i = 0; i < part->n_tensors; i++) {
    ga_model_tensor *t = &part->tensors[i];
    GA_REQUIRE(t->offset == next, GA_ERR_FORMAT,
               "tensor '%s' begins at %llu; must be %llu, where the one before it ends", t->source_name,
               (unsigned long long)t->offset, (unsigned long long)next);
    GA_REQUIRE(t->bytes <= data_bytes - next, GA_ERR_FORMAT,
               "tensor '%s' ends at %llu; the file has %llu bytes of data", t->source_name,
               (unsigned long long)(next + t->bytes), (unsigned long long)data_bytes);
    next += t->bytes;
    ga_tensor_bind(t, part->map.data, start + t->offset);
  }
  GA_REQUIRE(next == data_bytes, GA_ERR_FORMAT, "%llu bytes of data; the tensors end at %llu",
             (unsigned long long)data_bytes, (unsigned long long)next);
  return GA_OK;
}

static ga_status read_header(ga_arena *arena, json_t *header, uint64_t start, ga_model_shard *part) {
  void *p;
  size_t n = json_object_size(header);
  GA_REQUIRE(n <= GA_MODEL_MAX_TENSORS, GA_ERR_FORMAT, "%zu tensors; at most %d", n, GA_MODEL_MAX_TENSORS);
  GA_TRY(read_metadata_texts(arena, json_object_get(header, METADATA), &part->meta));
  GA_TRY(ga_arena_alloc(arena, n * sizeof(ga_model_tensor), &p));
  part->tensors = p;
  GA_TRY(read_entries(arena, header, part));
  return bind_entries(part, start);
}

static ga_status parse_safetensors(ga_arena *arena, ga_model_shard *part) {
  ga_byte_reader r = {.data = part->map.data, .bytes = part->map.bytes};
  uint64_t header_bytes = 0;
  const uint8_t *text = NULL;
  json_t *header = NULL;
  GA_TRY(ga_read_u64(&r, "header length", &header_bytes));
  GA_REQUIRE(header_bytes >= 2 && header_bytes <= GA_JSON_MAX_BYTES && header_bytes <= ga_bytes_left(&r), GA_ERR_FORMAT,
             "header of %llu bytes; must be 2 to %d, and the file has %llu more", (unsigned long long)header_bytes,
             GA_JSON_MAX_BYTES, (unsigned long long)ga_bytes_left(&r));
  GA_TRY(ga_read_bytes(&r, header_bytes, "header", &text));
  GA_REQUIRE(text[0] == '{', GA_ERR_FORMAT, "header begins with byte 0x%02x; must be '{'", text[0]);
  GA_TRY(ga_json_parse_strict("header", (const char *)text, header_bytes, &header));
  ga_status status = read_header(arena, header, r.at, part);
  json_decref(header);
  return status;
}

ga_status ga_safetensors_parse(ga_arena *arena, ga_model_shard *part) {
  ga_status status = parse_safetensors(arena, part);
  return status ? ga_fail_in(status, "%s", part->label) : GA_OK;
}
