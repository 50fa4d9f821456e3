/* One GGUF file: header, metadata, tensor directory. Trusts no number it reads: every count is held against the bytes
 * that are left before anything is allocated, so memory stays a small multiple of the file's size. */
#include <string.h>

#include "base/status.h"
#include "file/byte_reader.h"
#include "file/gguf.h"
#include "file/limits.h"
#include "file/model_store.h"

static ga_status read_gguf_text(ga_byte_reader *r, uint64_t most, const char *what, ga_text *out) {
  uint64_t bytes = 0;
  const uint8_t *p = NULL;
  GA_TRY(ga_read_u64(r, what, &bytes));
  GA_REQUIRE(bytes <= most, GA_ERR_FORMAT, "%s of %llu bytes at byte %llu; at most %llu", what,
             (unsigned long long)bytes, (unsigned long long)r->at - 8, (unsigned long long)most);
  GA_TRY(ga_read_bytes(r, bytes, what, &p));
  *out = (ga_text){(const char *)p, bytes};
  return GA_OK;
}

/* A key or a tensor name, copied so that it ends with NUL. */
static ga_status read_name(ga_arena *arena, ga_byte_reader *r, size_t most, const char *what, char **out) {
  ga_text text = {0};
  GA_TRY(read_gguf_text(r, most, what, &text));
  GA_REQUIRE(ga_name_is_sound(text.data, text.bytes, most), GA_ERR_FORMAT,
             "%s '%s' (%zu bytes); must have 1 to %zu bytes without control characters", what,
             ga_quote(text.data, text.bytes).text, text.bytes, most);
  return ga_arena_strndup(arena, text.data, text.bytes, out);
}

/* --- metadata values --------------------------------------------------------------------------------------------- */

static ga_status read_texts(ga_arena *arena, ga_byte_reader *r, ga_meta *meta) {
  void *p;
  GA_REQUIRE((uint64_t)meta->count <= ga_bytes_left(r) / 8, GA_ERR_FORMAT,
             "array of %lld texts; the %llu bytes left hold at most %llu", (long long)meta->count,
             (unsigned long long)ga_bytes_left(r), (unsigned long long)ga_bytes_left(r) / 8);
  GA_TRY(ga_arena_alloc(arena, (size_t)meta->count * sizeof(ga_text_span), &p));
  ga_text_span *spans = p;
  uint64_t start = r->at;
  for (int64_t i = 0; i < meta->count; i++) {
    ga_text text = {0};
    GA_TRY(read_gguf_text(r, GA_MODEL_MAX_TEXT_BYTES, "text", &text));
    uint64_t end = r->at - start;
    GA_REQUIRE(end <= GA_MODEL_MAX_ARRAY_BYTES, GA_ERR_FORMAT, "array of texts longer than %llu bytes",
               (unsigned long long)GA_MODEL_MAX_ARRAY_BYTES);
    spans[i] = (ga_text_span){(uint32_t)(end - text.bytes), (uint32_t)text.bytes};
  }
  meta->data = r->data + start;
  meta->spans = spans;
  return GA_OK;
}

static ga_status check_bools(const ga_meta *meta) {
  for (int64_t i = 0; i < meta->count; i++)
    GA_REQUIRE(meta->data[i] <= 1, GA_ERR_FORMAT, "bool is %u; must be 0 or 1", meta->data[i]);
  return GA_OK;
}

/* meta->count values of meta->elem. */
static ga_status read_values(ga_arena *arena, ga_byte_reader *r, ga_meta *meta) {
  if (meta->elem == GA_META_TEXT) return read_texts(arena, r, meta);
  uint64_t bytes = (uint64_t)meta->count * (uint64_t)ga_meta_type_bytes(meta->elem); /* count <= 2^22 */
  GA_TRY(ga_read_bytes(r, bytes, "value", &meta->data));
  return meta->elem == GA_META_BOOL ? check_bools(meta) : GA_OK;
}

static ga_status read_type(ga_byte_reader *r, const char *what, ga_meta_type *out) {
  uint32_t type = 0;
  GA_TRY(ga_read_u32(r, what, &type));
  GA_REQUIRE(type < GA_GGUF_VALUE_TYPES, GA_ERR_FORMAT, "%s is %u; must be 0 to %d", what, type,
             GA_GGUF_VALUE_TYPES - 1);
  *out = (ga_meta_type)(type + 1);
  return GA_OK;
}

static ga_status read_value(ga_arena *arena, ga_byte_reader *r, ga_meta *meta) {
  GA_TRY(read_type(r, "value type", &meta->type));
  meta->elem = meta->type;
  meta->count = 1;
  if (meta->type == GA_META_ARRAY) {
    uint64_t count = 0;
    GA_TRY(read_type(r, "element type", &meta->elem));
    GA_REQUIRE(meta->elem != GA_META_ARRAY, GA_ERR_UNSUPPORTED,
               "array of arrays; elements must be numbers, bools or texts");
    GA_TRY(ga_read_u64(r, "array length", &count));
    GA_REQUIRE(count <= GA_MODEL_MAX_ARRAY, GA_ERR_FORMAT, "array of %llu elements; at most %d",
               (unsigned long long)count, GA_MODEL_MAX_ARRAY);
    meta->count = (int64_t)count;
  }
  return read_values(arena, r, meta);
}

/* Keys that tell how a folder is laid out (ga/model_file.h): config.json's values for them were checked. */
static ga_status check_key(const char *key) {
  static const char *const of_folders[] = {"ga.rope_fraction",      "ga.rope_layers",        "ga.no_rope_every",
                                           "ga.rope_short_factors", "ga.rope_long_factors",  "ga.qkv_by_head",
                                           "ga.embedding_modules",  "ga.chat_template_error"};
  for (size_t i = 0; i < GA_COUNT_OF(of_folders); i++)
    GA_REQUIRE(strcmp(key, of_folders[i]) != 0, GA_ERR_FORMAT,
               "is of folders with a config.json; GGUF files have none");
  return GA_OK;
}

static ga_status read_metadata(ga_arena *arena, ga_byte_reader *r, int64_t n_keys, ga_meta_list *list) {
  GA_TRY(ga_meta_list_init(arena, n_keys, list));
  for (int64_t i = 0; i < n_keys; i++) {
    ga_meta meta = {0};
    char *key = NULL;
    ga_status status = read_name(arena, r, GA_MODEL_MAX_NAME_BYTES, "key", &key);
    if (status) return ga_fail_in(status, "metadata %lld of %lld", (long long)i, (long long)n_keys);
    meta.key = key;
    status = check_key(key);
    if (status == GA_OK) status = read_value(arena, r, &meta);
    if (status) return ga_fail_in(status, "metadata '%s'", key);
    status = ga_meta_list_add(list, &meta);
    if (status) return ga_fail_in(status, "metadata");
  }
  return GA_OK;
}

static ga_status read_alignment(const ga_meta_list *list, uint64_t *out) {
  const ga_meta *meta = ga_meta_list_find(list, "general.alignment");
  *out = GA_GGUF_ALIGNMENT;
  if (!meta) return GA_OK;
  GA_REQUIRE(meta->type == GA_META_U32, GA_ERR_FORMAT, "metadata 'general.alignment' is %s; must be u32",
             ga_meta_type_name(meta->type));
  uint64_t a = ga_load_le(meta->data, 4);
  GA_REQUIRE(a >= GA_GGUF_LEAST_ALIGNMENT && a <= GA_GGUF_MOST_ALIGNMENT && (a & (a - 1)) == 0, GA_ERR_FORMAT,
             "metadata 'general.alignment' is %llu; must be a power of two from %d to %d", (unsigned long long)a,
             GA_GGUF_LEAST_ALIGNMENT, GA_GGUF_MOST_ALIGNMENT);
  *out = a;
  return GA_OK;
}

/* --- tensor directory -------------------------------------------------------------------------------------------- */

/* Dimensions slowest first. ggml takes 0; a weight without elements is of no use here and GA refuses it. */
static ga_status read_dims(ga_byte_reader *r, int32_t *n_dims, int64_t dims[GA_MAX_DIMS]) {
  uint32_t n = 0;
  GA_TRY(ga_read_u32(r, "n_dims", &n));
  GA_REQUIRE(n >= 1 && n <= GA_MAX_DIMS, GA_ERR_FORMAT, "%u dimensions; must be 1 to %d", n, GA_MAX_DIMS);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t ne = 0;
    GA_TRY(ga_read_u64(r, "ne", &ne));
    GA_REQUIRE(ne >= 1 && ne <= INT64_MAX, GA_ERR_FORMAT, "ne[%u] is %lld; must be at least 1", i, (long long)ne);
    dims[n - 1 - i] = (int64_t)ne;
  }
  *n_dims = (int32_t)n;
  return GA_OK;
}

static ga_status read_tensor(ga_byte_reader *r, ga_model_tensor *tensor) {
  int32_t n_dims = 0;
  int64_t dims[GA_MAX_DIMS] = {0};
  uint32_t type = 0;
  GA_TRY(read_dims(r, &n_dims, dims));
  GA_TRY(ga_read_u32(r, "type", &type));
  ga_dtype dtype = ga_gguf_dtype(type);
  GA_REQUIRE(dtype != GA_DTYPE_NONE, GA_ERR_UNSUPPORTED,
             "type %u (%s); must be F32, F16, BF16, F64, I8 to I64, Q4_0 to Q8_0, Q2_K to Q6_K, IQ2, IQ3, IQ4, "
             "TQ1_0, TQ2_0, MXFP4 or NVFP4",
             type, ga_gguf_type_name(type));
  GA_TRY(ga_tensor_describe(tensor, dtype, n_dims, dims));
  return ga_read_u64(r, "offset", &tensor->offset);
}

static ga_status read_tensors(ga_arena *arena, ga_byte_reader *r, ga_model_shard *part) {
  for (int64_t i = 0; i < part->n_tensors; i++) {
    char *name = NULL;
    ga_status status = read_name(arena, r, GA_GGUF_MOST_NAME_BYTES, "name", &name);
    if (status) return ga_fail_in(status, "tensor %lld of %lld", (long long)i, (long long)part->n_tensors);
    part->tensors[i].source_name = name;
    status = read_tensor(r, &part->tensors[i]);
    if (status) return ga_fail_in(status, "tensor '%s'", name);
  }
  return GA_OK;
}

/* Tensors follow each other in the order of the directory, each padded to the alignment: nothing overlaps, nothing is
 * hidden between them. The padding of the last may be missing. */
static ga_status bind_tensors(ga_model_shard *part, uint64_t start, uint64_t alignment) {
  uint64_t next = 0;
  for (int64_t i = 0; i < part->n_tensors; i++) {
    ga_model_tensor *t = &part->tensors[i];
    GA_REQUIRE(t->offset == next, GA_ERR_FORMAT, "tensor '%s': offset %llu; must be %llu, where the one before it ends",
               t->source_name, (unsigned long long)t->offset, (unsigned long long)next);
    uint64_t begin, end;
    GA_REQUIRE(ga_add_ok(start, next, &begin) && ga_add_ok(begin, t->bytes, &end) && end <= part->map.bytes,
               GA_ERR_FORMAT, "tensor '%s': %llu bytes from byte %llu; the file has %zu", t->source_name,
               (unsigned long long)t->bytes, (unsigned long long)start + next, part->map.bytes);
    ga_tensor_bind(t, part->map.data, begin);
    next = ga_round_up(next + t->bytes, alignment); /* below the file's size + 2^16: cannot overflow */
  }
  return GA_OK;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

static ga_status check_version(uint32_t version) {
  GA_REQUIRE((version & 0xffff) != 0, GA_ERR_UNSUPPORTED, "version 0x%08x: a big-endian file; must be little-endian",
             version);
  GA_REQUIRE(version == 2 || version == 3, GA_ERR_UNSUPPORTED, "GGUF version %u; must be 2 or 3", version);
  return GA_OK;
}

/* A count of things that take at least `each` bytes. */
static ga_status read_count(ga_byte_reader *r, const char *what, uint64_t most, uint64_t each, int64_t *out) {
  uint64_t n = 0;
  GA_TRY(ga_read_u64(r, what, &n));
  uint64_t fit = ga_bytes_left(r) / each;
  GA_REQUIRE(n <= most && n <= fit, GA_ERR_FORMAT, "%s is %llu; at most %llu, and the bytes left hold at most %llu",
             what, (unsigned long long)n, (unsigned long long)most, (unsigned long long)fit);
  *out = (int64_t)n;
  return GA_OK;
}

static ga_status parse_gguf(ga_arena *arena, ga_model_shard *part) {
  ga_byte_reader r = {.data = part->map.data, .bytes = part->map.bytes};
  const uint8_t *magic = NULL;
  uint32_t version = 0;
  int64_t n_keys = 0;
  uint64_t alignment = 0;
  void *tensors = NULL;
  GA_TRY(ga_read_bytes(&r, 4, "magic", &magic));
  GA_REQUIRE(!memcmp(magic, GA_GGUF_MAGIC, 4), GA_ERR_FORMAT, "not a GGUF file: does not begin with 'GGUF'");
  GA_TRY(ga_read_u32(&r, "version", &version));
  GA_TRY(check_version(version));
  GA_TRY(read_count(&r, "tensor count", GA_MODEL_MAX_TENSORS, GA_GGUF_LEAST_TENSOR_BYTES, &part->n_tensors));
  GA_TRY(read_count(&r, "key count", GA_MODEL_MAX_KEYS, GA_GGUF_LEAST_KEY_BYTES, &n_keys));
  GA_TRY(read_metadata(arena, &r, n_keys, &part->meta));
  GA_TRY(read_alignment(&part->meta, &alignment));
  GA_TRY(ga_arena_alloc(arena, (size_t)part->n_tensors * sizeof(ga_model_tensor), &tensors));
  part->tensors = tensors;
  GA_TRY(read_tensors(arena, &r, part));
  return bind_tensors(part, ga_round_up(r.at, alignment), alignment);
}

ga_status ga_gguf_parse(ga_arena *arena, ga_model_shard *part) {
  ga_status status = parse_gguf(arena, part);
  return status ? ga_fail_in(status, "%s", part->label) : GA_OK;
}
