/* Life of a ga_model_file: parts, tensors, close. */
#include "file/model_store.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "file/gguf.h"
#include "file/hf.h"
#include "file/limits.h"
#include "file/made.h"

ga_status ga_arena_printf(ga_arena *arena, char **out, const char *fmt, ...) {
  va_list args, again;
  void *p = NULL;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  ga_status status = n < 0 ? ga_fail(GA_ERR_ARG, "text cannot be formatted") : ga_arena_alloc(arena, (size_t)n + 1, &p);
  if (status == GA_OK) (void)vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(args);
  *out = p;
  return status;
}

ga_status ga_model_store_create(ga_model_format format, ga_model_file **out) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_model_file), "model file", &p));
  ga_model_file *file = p;
  ga_arena_init(&file->arena, GA_MODEL_MAX_ARENA_BYTES);
  file->format = format;
  *out = file;
  return GA_OK;
}

/* Only ever grows, from 0 or 1: the parts there are keep their place. */
ga_status ga_model_store_shards(ga_model_file *file, int64_t n) {
  void *p;
  GA_REQUIRE(n >= 1 && n <= GA_MODEL_MAX_SHARDS && n >= file->n_shards, GA_ERR_FORMAT,
             "a model of %lld files; must be 1 to %d", (long long)n, GA_MODEL_MAX_SHARDS);
  GA_TRY(ga_arena_alloc(&file->arena, (size_t)n * sizeof(ga_model_shard), &p));
  if (file->n_shards) memcpy(p, file->shards, (size_t)file->n_shards * sizeof(ga_model_shard));
  file->shards = p;
  file->n_shards = (int32_t)n;
  file->meta = &file->shards[0].meta;
  return GA_OK;
}

static ga_status set_path(ga_model_file *file, ga_model_shard *part, const char *path) {
  GA_TRY(ga_arena_strndup(&file->arena, path, strlen(path), &part->path));
  part->label = ga_path_label(part->path);
  return GA_OK;
}

ga_status ga_model_store_map(ga_model_file *file, int32_t part, const char *path) {
  ga_model_shard *p = &file->shards[part];
  GA_TRY(set_path(file, p, path));
  GA_TRY(ga_filemap_open(path, &p->map));
  p->owns_map = true;
  GA_REQUIRE(p->map.bytes > 0, GA_ERR_FORMAT, "%s: empty file", p->label);
  return GA_OK;
}

ga_status ga_model_store_borrow(ga_model_file *file, const char *label, const uint8_t *data, size_t bytes) {
  GA_REQUIRE(data && bytes > 0, GA_ERR_FORMAT, "%s: empty file", label);
  GA_TRY(ga_model_store_shards(file, 1));
  file->shards[0].map = (ga_filemap){.data = data, .bytes = bytes, .fd = -1};
  return set_path(file, &file->shards[0], label);
}

/* --- join -------------------------------------------------------------------------------------------------------- */

/* The name of the tensor's file; of a made tensor, which several files may have parts of, that of the first. */
static const char *label_of(const ga_model_file *file, const ga_model_tensor *t) {
  return file->shards[t->part == GA_MADE_PART ? 0 : t->part].label;
}

static ga_status join_tensor(ga_model_file *file, int32_t part, const ga_model_tensor *from, const ga_hf_arch *arch) {
  ga_model_tensor *to = &file->tensors[file->n_tensors];
  *to = *from;
  to->part = part;
  to->name = to->source_name;
  if (arch) GA_TRY(ga_hf_tensor_name(&file->arena, arch, to->source_name, &to->name));
  file->n_tensors++;
  return GA_OK;
}

static ga_status index_names(ga_model_file *file) {
  GA_TRY(ga_name_table_init(&file->arena, (uint64_t)file->n_tensors, &file->tensor_names));
  for (int64_t i = 0; i < file->n_tensors; i++) {
    const ga_model_tensor *t = &file->tensors[i];
    const ga_status status = ga_name_table_add(&file->tensor_names, t->name, (uint32_t)i);
    if (status) return ga_fail_in(status, "%s: tensor '%s'", label_of(file, t), t->source_name);
  }
  return GA_OK;
}

ga_status ga_model_store_join(ga_model_file *file, const ga_hf_arch *arch) {
  int64_t total = 0; /* parts and tensors a part are bounded: no overflow */
  void *p;
  for (int32_t i = 0; i < file->n_shards; i++) total += file->shards[i].n_tensors;
  GA_REQUIRE(total <= GA_MODEL_MAX_TENSORS, GA_ERR_FORMAT, "%s: %lld tensors in %d files; at most %d",
             file->shards[0].label, (long long)total, file->n_shards, GA_MODEL_MAX_TENSORS);
  GA_TRY(ga_arena_alloc(&file->arena, (size_t)total * sizeof(ga_model_tensor), &p));
  file->tensors = p;
  for (int32_t i = 0; i < file->n_shards; i++)
    for (int64_t j = 0; j < file->shards[i].n_tensors; j++)
      GA_TRY(join_tensor(file, i, &file->shards[i].tensors[j], arch));
  const ga_status status = ga_made_find(file, arch);
  if (status) return ga_fail_in(status, "%s", file->shards[0].label);
  return index_names(file);
}

/* --- public ------------------------------------------------------------------------------------------------------ */

void ga_model_file_destroy(ga_model_file *file) {
  if (!file) return;
  for (int32_t i = 0; i < file->n_shards; i++)
    if (file->shards[i].owns_map) ga_filemap_close(&file->shards[i].map);
  ga_arena_free(&file->arena);
  ga_mem_free(file);
}

ga_model_format ga_model_file_format(const ga_model_file *file) { return file->format; }
int32_t ga_model_file_shards(const ga_model_file *file) { return file->n_shards; }

const char *ga_model_file_shard_path(const ga_model_file *file, int32_t part) {
  return part >= 0 && part < file->n_shards ? file->shards[part].path : NULL;
}

uint64_t ga_model_file_shard_bytes(const ga_model_file *file, int32_t part) {
  return part >= 0 && part < file->n_shards ? file->shards[part].map.bytes : 0;
}

const char *ga_model_file_side_path(const ga_model_file *file, const char *name) {
  for (int32_t i = 0; i < file->n_side_files; i++)
    if (!strcmp(file->side_files[i].name, name)) return file->side_files[i].path;
  return NULL;
}

int64_t ga_model_file_tensor_count(const ga_model_file *file) { return file->n_tensors; }

const ga_model_tensor *ga_model_file_tensor_at(const ga_model_file *file, int64_t index) {
  return index >= 0 && index < file->n_tensors ? &file->tensors[index] : NULL;
}

const ga_model_tensor *ga_model_file_find(const ga_model_file *file, const char *name) {
  return ga_model_file_tensor_at(file, ga_name_table_find(&file->tensor_names, name));
}

static void print_dims(char *out, size_t bytes, int32_t n_dims, const int64_t *dims) {
  size_t n = (size_t)snprintf(out, bytes, "[");
  for (int32_t i = 0; i < n_dims && n < bytes; i++)
    n += (size_t)snprintf(out + n, bytes - n, "%s%lld", i ? ", " : "", (long long)dims[i]);
  if (n < bytes) (void)snprintf(out + n, bytes - n, "]");
}

ga_status ga_model_file_tensor(const ga_model_file *file, const char *name, int32_t n_dims, const int64_t *dims,
                               const ga_model_tensor **out) {
  const ga_model_tensor *t = ga_model_file_find(file, name);
  char seen[100], allowed[100]; /* 4 dimensions of at most 20 characters */
  *out = NULL;
  GA_REQUIRE(n_dims >= 0 && n_dims <= GA_MAX_DIMS, GA_ERR_ARG, "tensor '%s': %d dimensions asked for; at most %d", name,
             n_dims, GA_MAX_DIMS);
  print_dims(allowed, sizeof allowed, n_dims, dims);
  GA_REQUIRE(t, GA_ERR_FORMAT, "%s: tensor '%s' is missing; must be there with dimensions %s", file->shards[0].label,
             name, allowed);
  bool same = t->view.n_dims == n_dims;
  for (int32_t i = 0; same && i < n_dims; i++) same = t->view.dim[i] == dims[i];
  if (!same) {
    print_dims(seen, sizeof seen, t->view.n_dims, t->view.dim);
    return ga_fail(GA_ERR_SHAPE, "%s: tensor '%s' has dimensions %s; must be %s", label_of(file, t), name, seen,
                   allowed);
  }
  *out = t;
  return GA_OK;
}

ga_status ga_model_file_read(const ga_model_file *file, const ga_model_tensor *tensor, uint64_t offset, void *out,
                             size_t bytes) {
  GA_REQUIRE(offset <= tensor->bytes && bytes <= tensor->bytes - offset, GA_ERR_ARG, "%s: bytes %llu to %llu of %llu",
             tensor->name, (unsigned long long)offset, (unsigned long long)(offset + bytes),
             (unsigned long long)tensor->bytes);
  if (tensor->part == GA_MADE_PART) return ga_made_read(file, tensor, offset, out, bytes);
  const ga_model_shard *part = &file->shards[tensor->part];
  ga_status status = ga_filemap_read(&part->map, tensor->offset + offset, out, bytes);
  return status == GA_OK ? GA_OK : ga_fail_in(status, "%s: reading tensor '%s'", part->label, tensor->name);
}

void ga_model_file_forget_shard(const ga_model_file *file, const ga_model_tensor *tensor, uint64_t offset,
                                uint64_t bytes) {
  if (tensor->part == GA_MADE_PART) {
    if (offset == 0 && bytes == tensor->bytes) ga_made_forget(file, tensor);
    return;
  }
  const ga_model_shard *part = &file->shards[tensor->part];
  if (part->owns_map && offset <= tensor->bytes && bytes <= tensor->bytes - offset)
    ga_filemap_forget(&part->map, tensor->offset + offset, bytes);
}

void ga_model_file_forget(const ga_model_file *file, const ga_model_tensor *tensor) {
  ga_model_file_forget_shard(file, tensor, 0, tensor->bytes);
}
