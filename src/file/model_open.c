/* What a path is, and which parser it goes to. */
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "base/text.h"
#include "file/gguf.h"
#include "file/hf.h"
#include "file/model_store.h"

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* safetensors: 8 bytes of header length, then JSON. */
static ga_status detect_format(ga_model_file *file) {
  const ga_model_shard *part = &file->shards[0];
  const uint8_t *d = part->map.data;
  if (part->map.bytes >= 4 && !memcmp(d, GA_GGUF_MAGIC, 4))
    file->format = GA_MODEL_GGUF;
  else if (part->map.bytes >= 9 && d[8] == '{')
    file->format = GA_MODEL_SAFETENSORS;
  else
    return ga_fail(GA_ERR_FORMAT, "%s: neither GGUF (begins with 'GGUF') nor safetensors (8 bytes, then '{')",
                   part->label);
  return GA_OK;
}

static ga_status open_any(ga_model_file *file, const char *path) {
  if (is_folder(path)) return ga_hf_open_folder(file, path);
  if (ga_ends_with(path, ".json")) return ga_hf_open_index(file, path);
  GA_TRY(ga_model_store_shards(file, 1));
  GA_TRY(ga_model_store_map(file, 0, path));
  GA_TRY(detect_format(file));
  if (file->format == GA_MODEL_SAFETENSORS) return ga_hf_open_mapped(file);
  GA_TRY(ga_gguf_parse(&file->arena, &file->shards[0]));
  GA_TRY(ga_gguf_open_rest(file));
  return ga_model_store_join(file, NULL);
}

ga_status ga_model_file_open(const char *path, ga_model_file **out) {
  ga_model_file *file;
  GA_REQUIRE(out, GA_ERR_ARG, "model file: out is NULL");
  *out = NULL;
  GA_REQUIRE(path && *path, GA_ERR_ARG, "model file: path is %s; must name a file or a folder",
             path ? "empty" : "NULL");
  GA_TRY(ga_model_store_create(GA_MODEL_SAFETENSORS, &file));
  ga_status status = open_any(file, path);
  if (status)
    ga_model_file_destroy(file);
  else
    *out = file;
  return status;
}

static ga_status parse_borrowed(ga_model_file *file, const char *label, const uint8_t *data, size_t bytes) {
  GA_TRY(ga_model_store_borrow(file, label, data, bytes));
  GA_TRY(detect_format(file));
  ga_model_shard *part = &file->shards[0];
  if (file->format == GA_MODEL_GGUF)
    GA_TRY(ga_gguf_parse(&file->arena, part));
  else
    GA_TRY(ga_safetensors_parse(&file->arena, part));
  return ga_model_store_join(file, NULL);
}

ga_status ga_model_file_parse(const char *label, const uint8_t *data, size_t bytes, ga_model_file **out) {
  ga_model_file *file;
  *out = NULL;
  GA_TRY(ga_model_store_create(GA_MODEL_SAFETENSORS, &file));
  ga_status status = parse_borrowed(file, label, data, bytes);
  if (status)
    ga_model_file_destroy(file);
  else
    *out = file;
  return status;
}
