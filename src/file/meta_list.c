/* Building a list of metadata. */
#include <string.h>

#include "base/status.h"
#include "file/byte_reader.h"
#include "file/limits.h"
#include "file/model_store.h"

/* clang-format off */
static const struct {
  const char *name;
  int bytes;
} meta_types[] = {
    /* clang-format off */
    [GA_META_NONE] = {"none", 0}, [GA_META_U8] = {"u8", 1}, [GA_META_I8] = {"i8", 1}, [GA_META_U16] = {"u16", 2},
    [GA_META_I16] = {"i16", 2}, [GA_META_U32] = {"u32", 4}, [GA_META_I32] = {"i32", 4}, [GA_META_F32] = {"f32", 4},
    [GA_META_BOOL] = {"bool", 1}, [GA_META_TEXT] = {"text", 0}, [GA_META_ARRAY] = {"array", 0},
    [GA_META_U64] = {"u64", 8},
    [GA_META_I64] = {"i64", 8}, [GA_META_F64] = {"f64", 8},
    /* clang-format on */
};
/* clang-format on */

const char *ga_meta_type_name(ga_meta_type type) {
  size_t i = (size_t)type;
  return i < GA_COUNT_OF(meta_types) ? meta_types[i].name : "none";
}

int ga_meta_type_bytes(ga_meta_type type) {
  size_t i = (size_t)type;
  return i < GA_COUNT_OF(meta_types) ? meta_types[i].bytes : 0;
}

ga_status ga_meta_list_init(ga_arena *arena, int64_t capacity, ga_meta_list *list) {
  void *items;
  *list = (ga_meta_list){0};
  GA_TRY(ga_arena_alloc(arena, (size_t)capacity * sizeof(ga_meta), &items));
  GA_TRY(ga_name_table_init(arena, (uint64_t)capacity, &list->names));
  list->items = items;
  list->capacity = capacity;
  return GA_OK;
}

ga_status ga_meta_list_add(ga_meta_list *list, const ga_meta *meta) {
  GA_REQUIRE(list->count < list->capacity, GA_ERR_INTERNAL, "metadata: no room for '%s' among %lld", meta->key,
             (long long)list->capacity);
  GA_TRY(ga_name_table_add(&list->names, meta->key, (uint32_t)list->count));
  list->items[list->count++] = *meta;
  return GA_OK;
}

static ga_status add_bytes(ga_arena *arena, ga_meta_list *list, ga_meta meta, const void *data, size_t bytes) {
  char *key, *copy;
  GA_TRY(ga_arena_strndup(arena, meta.key, strlen(meta.key), &key));
  GA_TRY(ga_arena_strndup(arena, data, bytes, &copy));
  meta.key = key;
  meta.data = (const uint8_t *)copy;
  return ga_meta_list_add(list, &meta);
}

static ga_status add_scalar(ga_arena *arena, ga_meta_list *list, const char *key, ga_meta_type type, uint64_t bits) {
  uint8_t le[8];
  int bytes = ga_meta_type_bytes(type);
  ga_store_le(le, bytes, bits);
  return add_bytes(arena, list, (ga_meta){.key = key, .type = type, .elem = type, .count = 1}, le, (size_t)bytes);
}

ga_status ga_meta_list_add_int(ga_arena *arena, ga_meta_list *list, const char *key, int64_t value) {
  return add_scalar(arena, list, key, GA_META_I64, (uint64_t)value);
}

ga_status ga_meta_list_add_float(ga_arena *arena, ga_meta_list *list, const char *key, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return add_scalar(arena, list, key, GA_META_F64, bits);
}

ga_status ga_meta_list_add_bool(ga_arena *arena, ga_meta_list *list, const char *key, bool value) {
  return add_scalar(arena, list, key, GA_META_BOOL, value);
}

ga_status ga_meta_list_add_text(ga_arena *arena, ga_meta_list *list, const char *key, const char *text, size_t bytes) {
  void *span;
  GA_REQUIRE(bytes <= GA_MODEL_MAX_TEXT_BYTES, GA_ERR_FORMAT, "%s: text of %zu bytes; at most %d", key, bytes,
             GA_MODEL_MAX_TEXT_BYTES);
  GA_TRY(ga_arena_alloc(arena, sizeof(ga_text_span), &span));
  *(ga_text_span *)span = (ga_text_span){0, (uint32_t)bytes};
  ga_meta meta = {.key = key, .type = GA_META_TEXT, .elem = GA_META_TEXT, .count = 1, .spans = span};
  return add_bytes(arena, list, meta, text, bytes);
}

ga_status ga_meta_list_add_array(ga_arena *arena, ga_meta_list *list, const char *key, ga_meta_type elem, int64_t n,
                                 const uint8_t *values) {
  ga_meta meta = {.key = key, .type = GA_META_ARRAY, .elem = elem, .count = n};
  return add_bytes(arena, list, meta, values, (size_t)n * (size_t)ga_meta_type_bytes(elem));
}

const ga_meta *ga_meta_list_find(const ga_meta_list *list, const char *key) {
  int64_t i = ga_name_table_find(&list->names, key);
  return i < 0 ? NULL : &list->items[i];
}
