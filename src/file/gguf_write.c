#include "file/gguf_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_write.h"
#include "base/filemap.h"
#include "base/status.h"
#include "file/byte_reader.h"
#include "file/gguf.h"
#include "file/limits.h"
#include "file/model_store.h"

#define PIECE_BYTES ((size_t)1 << 20) /* of data that is made as it is written */

typedef struct byte_buffer {
  uint8_t *data;
  size_t used, size;
} byte_buffer;

typedef struct pending_tensor {
  const void *data;
  uint64_t bytes;
  ga_gguf_source_fn source; /* in the place of data */
  void *user;
} pending_tensor;

struct ga_gguf_writer {
  uint32_t version, alignment;
  ga_status status; /* of the first put that failed */
  char text[256];   /* and its error text */
  byte_buffer keys, directory, tensors;
  uint64_t n_keys, n_tensors, next_offset;
};

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static ga_status grow_buffer(byte_buffer *b, size_t more) {
  if (more <= b->size - b->used) return GA_OK;
  uint64_t size;
  void *p;
  GA_REQUIRE(ga_add_ok(b->used, more, &size) && ga_mul_ok(size, 2, &size), GA_ERR_NOMEM,
             "gguf writer: header too large");
  GA_TRY(ga_mem_alloc(size, "gguf writer", &p));
  if (b->used) memcpy(p, b->data, b->used);
  ga_mem_free(b->data);
  *b = (byte_buffer){p, b->used, size};
  return GA_OK;
}

static ga_status append_bytes(byte_buffer *b, const void *data, size_t bytes) {
  GA_TRY(grow_buffer(b, bytes));
  if (bytes) memcpy(b->data + b->used, data, bytes);
  b->used += bytes;
  return GA_OK;
}

static ga_status append_le(byte_buffer *b, int bytes, uint64_t value) {
  uint8_t le[8];
  ga_store_le(le, bytes, value);
  return append_bytes(b, le, (size_t)bytes);
}

static ga_status append_text(byte_buffer *b, const char *text, size_t bytes) {
  GA_REQUIRE(bytes <= GA_MODEL_MAX_TEXT_BYTES, GA_ERR_ARG, "text of %zu bytes; at most %d", bytes,
             GA_MODEL_MAX_TEXT_BYTES);
  GA_TRY(append_le(b, 8, bytes));
  return append_bytes(b, text, bytes);
}

/* --- puts -------------------------------------------------------------------------------------------------------- */

static bool failed(ga_gguf_writer *w, const char *name, ga_status status) {
  if (status != GA_OK && w->status == GA_OK) {
    w->status = ga_fail_in(status, "gguf writer: '%s'", ga_quote(name, strlen(name)).text);
    (void)snprintf(w->text, sizeof w->text, "%s", ga_error_text());
  }
  return w->status != GA_OK;
}

static ga_status begin_key(ga_gguf_writer *w, const char *key, ga_meta_type type) {
  size_t n = strlen(key);
  GA_REQUIRE(ga_name_is_sound(key, n, GA_MODEL_MAX_NAME_BYTES), GA_ERR_ARG,
             "key must have 1 to %d bytes without control characters", GA_MODEL_MAX_NAME_BYTES);
  GA_TRY(append_text(&w->keys, key, n));
  w->n_keys++;
  return append_le(&w->keys, 4, (uint64_t)type - 1);
}

static void put_scalar(ga_gguf_writer *w, const char *key, ga_meta_type type, uint64_t bits) {
  if (failed(w, key, begin_key(w, key, type))) return;
  (void)failed(w, key, append_le(&w->keys, ga_meta_type_bytes(type), bits));
}

static bool int_fits(ga_meta_type type, int64_t v) {
  switch (type) {
  case GA_META_U8: return v >= 0 && v <= UINT8_MAX;
  case GA_META_I8: return v >= INT8_MIN && v <= INT8_MAX;
  case GA_META_U16: return v >= 0 && v <= UINT16_MAX;
  case GA_META_I16: return v >= INT16_MIN && v <= INT16_MAX;
  case GA_META_U32: return v >= 0 && v <= UINT32_MAX;
  case GA_META_I32: return v >= INT32_MIN && v <= INT32_MAX;
  case GA_META_U64: return v >= 0;
  case GA_META_I64: return true;
  default: return false;
  }
}

void ga_gguf_put_int(ga_gguf_writer *w, const char *key, ga_meta_type type, int64_t value) {
  if (!int_fits(type, value))
    (void)failed(w, key, ga_fail(GA_ERR_ARG, "%lld does not fit in %s", (long long)value, ga_meta_type_name(type)));
  else
    put_scalar(w, key, type, (uint64_t)value);
}

void ga_gguf_put_u64(ga_gguf_writer *w, const char *key, uint64_t value) { put_scalar(w, key, GA_META_U64, value); }

void ga_gguf_put_f32(ga_gguf_writer *w, const char *key, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_scalar(w, key, GA_META_F32, bits);
}

void ga_gguf_put_f64(ga_gguf_writer *w, const char *key, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  put_scalar(w, key, GA_META_F64, bits);
}

void ga_gguf_put_bool(ga_gguf_writer *w, const char *key, bool value) { put_scalar(w, key, GA_META_BOOL, value); }

void ga_gguf_put_text(ga_gguf_writer *w, const char *key, const char *text) {
  if (failed(w, key, begin_key(w, key, GA_META_TEXT))) return;
  (void)failed(w, key, append_text(&w->keys, text, strlen(text)));
}

static ga_status begin_array(ga_gguf_writer *w, const char *key, ga_meta_type elem, int64_t n) {
  GA_REQUIRE(n >= 0 && n <= GA_MODEL_MAX_ARRAY, GA_ERR_ARG, "array of %lld; must be 0 to %d", (long long)n,
             GA_MODEL_MAX_ARRAY);
  GA_TRY(begin_key(w, key, GA_META_ARRAY));
  GA_TRY(append_le(&w->keys, 4, (uint64_t)elem - 1));
  return append_le(&w->keys, 8, (uint64_t)n);
}

void ga_gguf_put_array(ga_gguf_writer *w, const char *key, ga_meta_type elem, int64_t n, const void *values) {
  int each = ga_meta_type_bytes(elem);
  if (each == 0) {
    (void)failed(w, key,
                 ga_fail(GA_ERR_ARG, "array of %s; elements must be numbers or bools", ga_meta_type_name(elem)));
    return;
  }
  if (failed(w, key, begin_array(w, key, elem, n))) return;
  (void)failed(w, key, append_bytes(&w->keys, values, (size_t)n * (size_t)each));
}

void ga_gguf_put_texts(ga_gguf_writer *w, const char *key, int64_t n, const ga_text *texts) {
  if (failed(w, key, begin_array(w, key, GA_META_TEXT, n))) return;
  for (int64_t i = 0; i < n; i++)
    if (failed(w, key, append_text(&w->keys, texts[i].data, texts[i].bytes))) return;
}

static ga_status put_meta_values(ga_gguf_writer *w, const ga_meta *meta) {
  if (meta->elem != GA_META_TEXT)
    return append_bytes(&w->keys, meta->data, (size_t)meta->count * (size_t)ga_meta_type_bytes(meta->elem));
  for (int64_t i = 0; i < meta->count; i++)
    GA_TRY(append_text(&w->keys, (const char *)meta->data + meta->spans[i].offset, meta->spans[i].bytes));
  return GA_OK;
}

void ga_gguf_put_meta(ga_gguf_writer *w, const ga_meta *meta) {
  bool is_array = meta->type == GA_META_ARRAY;
  if (failed(w, meta->key,
             is_array ? begin_array(w, meta->key, meta->elem, meta->count) : begin_key(w, meta->key, meta->type)))
    return;
  (void)failed(w, meta->key, put_meta_values(w, meta));
}

static bool is_contiguous(const ga_tensor *t) {
  ga_tensor packed = ga_tensor_make(t->data, t->dtype, t->n_dims, t->dim);
  for (int32_t i = 0; i < t->n_dims; i++)
    if (t->dim[i] > 1 && t->stride[i] != packed.stride[i]) return false;
  return t->layout == GA_LAYOUT_NATIVE;
}

static ga_status put_directory(ga_gguf_writer *w, const char *name, const ga_tensor *t, uint64_t *bytes) {
  int32_t type = ga_gguf_type_of(t->dtype);
  ga_model_tensor described;
  GA_REQUIRE(ga_name_is_sound(name, strlen(name), GA_GGUF_MOST_NAME_BYTES), GA_ERR_ARG,
             "name must have 1 to %d bytes without control characters", GA_GGUF_MOST_NAME_BYTES);
  GA_REQUIRE(type >= 0, GA_ERR_DTYPE, "GGUF has no type for %s", ga_dtype_name(t->dtype));
  GA_REQUIRE(t->n_dims >= 1, GA_ERR_SHAPE, "a tensor needs at least 1 dimension");
  GA_TRY(ga_tensor_describe(&described, t->dtype, t->n_dims, t->dim));
  GA_REQUIRE(described.bytes > 0 && is_contiguous(t), GA_ERR_SHAPE, "must be contiguous and not empty");
  GA_TRY(append_text(&w->directory, name, strlen(name)));
  GA_TRY(append_le(&w->directory, 4, (uint64_t)t->n_dims));
  for (int32_t i = t->n_dims - 1; i >= 0; i--) GA_TRY(append_le(&w->directory, 8, (uint64_t)t->dim[i]));
  GA_TRY(append_le(&w->directory, 4, (uint64_t)type));
  *bytes = described.bytes;
  return append_le(&w->directory, 8, w->next_offset);
}

static void put_pending(ga_gguf_writer *w, const char *name, const ga_tensor *tensor, pending_tensor pending) {
  if (failed(w, name, put_directory(w, name, tensor, &pending.bytes))) return;
  if (failed(w, name, append_bytes(&w->tensors, &pending, sizeof pending))) return;
  w->next_offset = ga_round_up(w->next_offset + pending.bytes, w->alignment);
  w->n_tensors++;
}

void ga_gguf_put_tensor(ga_gguf_writer *w, const char *name, const ga_tensor *tensor) {
  put_pending(w, name, tensor, (pending_tensor){.data = tensor->data});
}

void ga_gguf_put_tensor_from(ga_gguf_writer *w, const char *name, const ga_tensor *tensor, ga_gguf_source_fn source,
                             void *user) {
  put_pending(w, name, tensor, (pending_tensor){.source = source, .user = user});
}

uint64_t ga_gguf_data_bytes(const ga_gguf_writer *w) { return w->next_offset; }

/* --- file -------------------------------------------------------------------------------------------------------- */

ga_status ga_gguf_writer_create(uint32_t version, uint32_t alignment, ga_gguf_writer **out) {
  void *p;
  *out = NULL;
  GA_REQUIRE(version == 2 || version == 3, GA_ERR_ARG, "gguf writer: version %u; must be 2 or 3", version);
  uint32_t a = alignment ? alignment : GA_GGUF_ALIGNMENT;
  GA_REQUIRE(a >= GA_GGUF_LEAST_ALIGNMENT && a <= GA_GGUF_MOST_ALIGNMENT && (a & (a - 1)) == 0, GA_ERR_ARG,
             "gguf writer: alignment %u; must be a power of two from %d to %d", alignment, GA_GGUF_LEAST_ALIGNMENT,
             GA_GGUF_MOST_ALIGNMENT);
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_gguf_writer), "gguf writer", &p));
  ga_gguf_writer *w = p;
  w->version = version;
  w->alignment = a;
  if (alignment) ga_gguf_put_int(w, "general.alignment", GA_META_U32, alignment);
  *out = w;
  return GA_OK;
}

void ga_gguf_writer_destroy(ga_gguf_writer *w) {
  if (!w) return;
  ga_mem_free(w->keys.data);
  ga_mem_free(w->directory.data);
  ga_mem_free(w->tensors.data);
  ga_mem_free(w);
}

static ga_status put_bytes(FILE *f, const void *data, size_t bytes) {
  GA_REQUIRE(fwrite(data, 1, bytes, f) == bytes, GA_ERR_IO, "cannot write %zu bytes: %s", bytes, strerror(errno));
  return GA_OK;
}

static ga_status put_padding(FILE *f, uint64_t at, uint64_t alignment) {
  static const uint8_t zeros[64];
  for (uint64_t left = ga_round_up(at, alignment) - at; left;) {
    uint64_t n = left < sizeof zeros ? left : sizeof zeros;
    GA_TRY(put_bytes(f, zeros, n));
    left -= n;
  }
  return GA_OK;
}

/* A tensor's data: from memory at once, from a source piece by piece. */
static ga_status put_data(FILE *f, const pending_tensor *t) {
  if (!t->source) return put_bytes(f, t->data, t->bytes);
  void *piece;
  ga_status status = ga_mem_alloc(PIECE_BYTES, "gguf writer", &piece);
  for (uint64_t at = 0; at < t->bytes && status == GA_OK; at += PIECE_BYTES) {
    const size_t n = (size_t)(t->bytes - at < PIECE_BYTES ? t->bytes - at : PIECE_BYTES);
    status = t->source(t->user, at, piece, n);
    if (status == GA_OK) status = put_bytes(f, piece, n);
  }
  ga_mem_free(piece);
  return status;
}

static ga_status put_file(const ga_gguf_writer *w, FILE *f) {
  uint8_t head[24];
  memcpy(head, GA_GGUF_MAGIC, 4);
  ga_store_le(head + 4, 4, w->version);
  ga_store_le(head + 8, 8, w->n_tensors);
  ga_store_le(head + 16, 8, w->n_keys);
  GA_TRY(put_bytes(f, head, sizeof head));
  if (w->n_keys) GA_TRY(put_bytes(f, w->keys.data, w->keys.used));
  if (w->n_tensors) GA_TRY(put_bytes(f, w->directory.data, w->directory.used));
  GA_TRY(put_padding(f, sizeof head + w->keys.used + w->directory.used, w->alignment));
  for (uint64_t i = 0; i < w->n_tensors; i++) {
    pending_tensor t;
    memcpy(&t, w->tensors.data + i * sizeof t, sizeof t);
    GA_TRY(put_data(f, &t));
    GA_TRY(put_padding(f, t.bytes, w->alignment)); /* each begins aligned */
  }
  GA_REQUIRE(fflush(f) == 0 && fsync(fileno(f)) == 0, GA_ERR_IO, "cannot write: %s", strerror(errno));
  return GA_OK;
}

/* The folder of a path, for open(). */
static bool folder_of(const char *path, char *folder, size_t capacity) {
  const char *slash = strrchr(path, '/');
  const size_t n = slash ? (size_t)(slash - path) + 1 : 1;
  if (n >= capacity) return false;
  memcpy(folder, slash ? path : ".", n);
  folder[n] = 0;
  return true;
}

/* A file that is being written. It has no name (O_TMPFILE) where the file system can do that: then nothing is left of
 * it when the process is killed. */
typedef struct new_file {
  FILE *f;
  char temp[4096]; /* its name; without one, the name that it gets before the rename */
  char now[4096];  /* what it can be opened by meanwhile */
  bool is_named;
} new_file;

static int open_unnamed(const char *path) {
  char folder[4096];
  return folder_of(path, folder, sizeof folder) ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
}

/* A name that this process has not given yet. Another process of the same number may have left it. */
static ga_status next_name(const char *path, new_file *out) {
  static atomic_uint serial;
  const int n =
      snprintf(out->temp, sizeof out->temp, "%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
  GA_REQUIRE(n > 0 && (size_t)n < sizeof out->temp, GA_ERR_ARG, "path of %zu bytes; too long", strlen(path));
  return GA_OK;
}

static ga_status open_new(const char *path, new_file *out) {
  GA_TRY(next_name(path, out));
  int fd = open_unnamed(path);
  (void)snprintf(out->now, sizeof out->now, "/proc/self/fd/%d", fd);
  if (fd >= 0 && access(out->now, F_OK)) { /* no /proc: it could not be linked */
    (void)close(fd);
    fd = -1;
  }
  out->is_named = fd < 0;
  if (out->is_named) {
    while ((fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) < 0 && errno == EEXIST)
      GA_TRY(next_name(path, out));
    GA_REQUIRE(fd >= 0, GA_ERR_IO, "%s", strerror(errno));
    memcpy(out->now, out->temp, sizeof out->now);
  }
  out->f = fdopen(fd, "wb");
  if (out->f) return GA_OK;
  const ga_status status = ga_fail(GA_ERR_IO, "%s", strerror(errno));
  (void)close(fd);
  if (out->is_named) (void)unlink(out->temp);
  return status;
}

static ga_status parse_new(ga_model_file *file, const ga_filemap *map) {
  GA_TRY(ga_model_store_borrow(file, "as written", map->data, map->bytes));
  GA_TRY(ga_gguf_parse(&file->arena, &file->shards[0]));
  return ga_model_store_join(file, NULL);
}

/* Reads the finished file as a reader would: what it refuses (names that are there twice) was not known before. */
static ga_status verify_new(const char *now) {
  ga_model_file *file = NULL;
  ga_filemap map;
  GA_TRY(ga_filemap_open(now, &map));
  ga_status status = ga_model_store_create(GA_MODEL_GGUF, &file);
  if (status == GA_OK) status = parse_new(file, &map);
  ga_model_file_destroy(file);
  ga_filemap_close(&map);
  return status;
}

/* A link cannot take the place of a file, a rename can: a name first. */
static ga_status name_new(const char *path, new_file *out) {
  while (!out->is_named && linkat(AT_FDCWD, out->now, AT_FDCWD, out->temp, AT_SYMLINK_FOLLOW)) {
    GA_REQUIRE(errno == EEXIST, GA_ERR_IO, "cannot name the file: %s", strerror(errno));
    GA_TRY(next_name(path, out));
  }
  out->is_named = true;
  return GA_OK;
}

static ga_status fail_there(void) {
  return ga_fail(GA_ERR_ARG, "exists; give another name, or allow to overwrite it (--force)");
}

/* The file gets its name, unless something has it by now. File systems without links may have renames that replace
 * nothing; with neither, all that is left is to look again. */
static ga_status place_beside(const char *path, new_file *out) {
  struct stat st;
  if (!linkat(AT_FDCWD, out->now, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) {
    if (out->is_named) (void)unlink(out->temp);
    return GA_OK;
  }
  if (errno == EEXIST) return fail_there();
  GA_REQUIRE(out->is_named, GA_ERR_IO, "cannot name the file: %s", strerror(errno));
  if (!renameat2(AT_FDCWD, out->temp, AT_FDCWD, path, RENAME_NOREPLACE)) return GA_OK;
  if (errno == EEXIST || !lstat(path, &st)) return fail_there();
  GA_REQUIRE(!rename(out->temp, path), GA_ERR_IO, "cannot rename: %s", strerror(errno));
  return GA_OK;
}

static ga_status place_over(const char *path, new_file *out) {
  GA_TRY(name_new(path, out));
  GA_REQUIRE(!rename(out->temp, path), GA_ERR_IO, "cannot rename: %s", strerror(errno));
  return GA_OK;
}

static ga_status finish_at(ga_gguf_writer *w, const char *path, bool overwrite) {
  new_file out;
  GA_REQUIRE(w->status == GA_OK, w->status, "%s", w->text);
  ga_status status = open_new(path, &out);
  if (status != GA_OK) return ga_fail_in(status, "%s", ga_path_label(path));
  status = put_file(w, out.f);
  if (status == GA_OK) status = verify_new(out.now);
  if (status == GA_OK) status = overwrite ? place_over(path, &out) : place_beside(path, &out);
  (void)fclose(out.f); /* synced: nothing is left to be written */
  if (status != GA_OK) {
    if (out.is_named) (void)unlink(out.temp);
    return ga_fail_in(status, "%s", ga_path_label(path));
  }
  ga_sync_folder_of(path);
  return GA_OK;
}

ga_status ga_gguf_writer_finish(ga_gguf_writer *w, const char *path) { return finish_at(w, path, true); }

ga_status ga_gguf_writer_finish_new(ga_gguf_writer *w, const char *path) { return finish_at(w, path, false); }
