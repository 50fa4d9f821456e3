/* The parts of a ga_model_file (an open model), and the steps that fill it:
 *   map the shards -> parse each (gguf_read.c, safetensors.c) -> read config.json (hf_config.c) -> join the tensors ->
 *   find those that are made of others (made.h). */
#ifndef GA_FILE_MODEL_STORE_H
#define GA_FILE_MODEL_STORE_H

#include "base/filemap.h"
#include "base/mem.h"
#include "file/name_table.h"
#include "ga/model_file.h"

/* The place of one text in a metadata array of texts: its offset from ga_meta.data, and its length in bytes. Places are
 * kept outside of the mapped file, so that a later change of the file cannot move them. */
typedef struct ga_text_span {
  uint32_t offset, bytes;
} ga_text_span;

struct ga_meta {
  const char *key;
  ga_meta_type type, elem;
  int64_t count;
  const uint8_t *data; /* values one after the other, little-endian, not aligned; in the mapped file or the arena */
  const ga_text_span *spans; /* [count] places of the texts, if elem is GA_META_TEXT */
};

typedef struct ga_meta_list {
  ga_meta *items;
  int64_t count, capacity;
  ga_name_table names;
} ga_meta_list;

typedef struct ga_model_shard {
  char *path;
  const char *label; /* the path, or its last part; error texts begin with it */
  ga_filemap map;
  bool owns_map;
  ga_meta_list meta;
  ga_model_tensor *tensors; /* [n_tensors] tensors of the shard; their names are NULL until ga_model_store_join */
  int64_t n_tensors;        /* number of tensors of the shard */
} ga_model_shard;

typedef struct ga_side_file {
  const char *name;
  char *path;
} ga_side_file;

struct ga_hf_arch;
typedef struct ga_made ga_made;

struct ga_model_file {
  ga_arena arena;
  ga_model_format format;
  ga_model_shard *shards;
  int32_t n_shards, n_side_files;
  ga_meta_list *meta; /* metadata of the model, which is that of the first shard */
  ga_model_tensor *tensors;
  int64_t n_tensors;
  ga_name_table tensor_names;
  ga_side_file *side_files;
  ga_made *made; /* tensors of which no file has the bytes (made.h) */
};

/* --- functions of model_store.c --- */
GA_NODISCARD ga_status ga_model_store_create(ga_model_format format, ga_model_file **out);
GA_NODISCARD ga_status ga_model_store_shards(ga_model_file *file, int64_t n);
/* Maps the file `path` into memory as shard number `part`. */
GA_NODISCARD ga_status ga_model_store_map(ga_model_file *file, int32_t part, const char *path);
/* Makes the caller's bytes shard 0, for tests and fuzzing. They must outlive the model. */
GA_NODISCARD ga_status ga_model_store_borrow(ga_model_file *file, const char *label, const uint8_t *data, size_t bytes);
/* Lists the tensors of all shards in file->tensors, under their GGUF names. arch NULL: under their names in the
 * file. */
GA_NODISCARD ga_status ga_model_store_join(ga_model_file *file, const struct ga_hf_arch *arch);
/* Opens a GGUF or safetensors file that is in memory (one file, no config.json). The caller's bytes must outlive
 * *out. */
GA_NODISCARD ga_status ga_model_file_parse(const char *label, const uint8_t *data, size_t bytes, ga_model_file **out);
/* Formats a text as printf does, and allocates it in the arena. */
GA_NODISCARD ga_status ga_arena_printf(ga_arena *arena, char **out, const char *fmt, ...) GA_PRINTF(3, 4);

/* Checks the sizes of a tensor, and sets its view and bytes (tensor_view.c). dims are its dimensions, slowest first.
 * The caller then calls ga_tensor_bind. */
GA_NODISCARD ga_status ga_tensor_describe(ga_model_tensor *tensor, ga_dtype dtype, int32_t n_dims, const int64_t *dims);
/* Sets the tensor's data, offset and is_aligned. offset: bytes from the start of the shard. */
void ga_tensor_bind(ga_model_tensor *tensor, const uint8_t *shard_data, uint64_t offset);
/* Returns whether a name of `bytes` bytes has 1 to `most` bytes and no control characters. */
bool ga_name_is_sound(const char *name, size_t bytes, size_t most);

/* --- functions of meta_list.c --- */
GA_NODISCARD ga_status ga_meta_list_init(ga_arena *arena, int64_t capacity, ga_meta_list *list);
/* Adds a complete entry to the list. Its key must live as long as the list. Returns GA_ERR_FORMAT if the list has the
 * key already. */
GA_NODISCARD ga_status ga_meta_list_add(ga_meta_list *list, const ga_meta *meta);
GA_NODISCARD ga_status ga_meta_list_add_int(ga_arena *arena, ga_meta_list *list, const char *key, int64_t value);
GA_NODISCARD ga_status ga_meta_list_add_float(ga_arena *arena, ga_meta_list *list, const char *key, double value);
GA_NODISCARD ga_status ga_meta_list_add_bool(ga_arena *arena, ga_meta_list *list, const char *key, bool value);
GA_NODISCARD ga_status ga_meta_list_add_text(ga_arena *arena, ga_meta_list *list, const char *key, const char *text,
                                             size_t bytes);
/* Adds an array of n elements of type `elem` (not text) under `key`. values has them as a file does: little-endian, one
 * after the other. They are copied. */
GA_NODISCARD ga_status ga_meta_list_add_array(ga_arena *arena, ga_meta_list *list, const char *key, ga_meta_type elem,
                                              int64_t n, const uint8_t *values);
const ga_meta *ga_meta_list_find(const ga_meta_list *list, const char *key);
/* Returns the bytes that a value of this type takes in a file; 0 for text, array and unknown types. */
int ga_meta_type_bytes(ga_meta_type type);

/* Sets part->meta and part->tensors from the GGUF file part->map (gguf_read.c). */
GA_NODISCARD ga_status ga_gguf_parse(ga_arena *arena, ga_model_shard *part);
/* Sets part->meta and part->tensors from the safetensors file part->map (safetensors.c). */
GA_NODISCARD ga_status ga_safetensors_parse(ga_arena *arena, ga_model_shard *part);
/* Maps and parses the other shards of a model. They are named by the metadata of shard 0, which is parsed already
 * (gguf_split.c). Does nothing for a model of one file. */
GA_NODISCARD ga_status ga_gguf_open_rest(ga_model_file *file);

#endif
