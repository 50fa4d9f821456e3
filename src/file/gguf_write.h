/* Writes GGUF files. The writer refuses all that the reader refuses, so that a written file can be read.
 *
 *   ga_gguf_writer *w;
 *   GA_TRY(ga_gguf_writer_create(3, 0, &w));
 *   ga_gguf_put_text(w, "general.architecture", "llama");
 *   ga_gguf_put_tensor(w, "output_norm.weight", &norm);
 *   status = ga_gguf_writer_finish(w, path);
 *   ga_gguf_writer_destroy(w);
 *
 * The functions ga_gguf_put_* return no status. The writer keeps the first failure, and ga_gguf_writer_finish returns
 * it with its text. */
#ifndef GA_FILE_GGUF_WRITE_H
#define GA_FILE_GGUF_WRITE_H

#include "ga/model_file.h"

typedef struct ga_gguf_writer ga_gguf_writer;

/* Creates a writer of GGUF version 2 or 3, which ga_gguf_writer_destroy frees. alignment: bytes, written as
 * general.alignment; 0 = the default, which is not written. */
GA_NODISCARD ga_status ga_gguf_writer_create(uint32_t version, uint32_t alignment, ga_gguf_writer **out);
void ga_gguf_writer_destroy(ga_gguf_writer *w); /* frees the writer; NULL is accepted */

/* Puts an integer under `key`. type is any integer type whose range has the value. */
void ga_gguf_put_int(ga_gguf_writer *w, const char *key, ga_meta_type type, int64_t value);
void ga_gguf_put_u64(ga_gguf_writer *w, const char *key, uint64_t value);
void ga_gguf_put_f32(ga_gguf_writer *w, const char *key, float value);
void ga_gguf_put_f64(ga_gguf_writer *w, const char *key, double value);
void ga_gguf_put_bool(ga_gguf_writer *w, const char *key, bool value);
void ga_gguf_put_text(ga_gguf_writer *w, const char *key, const char *text);
/* Puts an array of n numbers or bools under `key`. `values` has them as a little-endian host stores them. */
void ga_gguf_put_array(ga_gguf_writer *w, const char *key, ga_meta_type elem, int64_t n, const void *values);
void ga_gguf_put_texts(ga_gguf_writer *w, const char *key, int64_t n, const ga_text *texts);
/* Puts a key and its value as another file has them. */
void ga_gguf_put_meta(ga_gguf_writer *w, const ga_meta *meta);
/* Puts a contiguous tensor in the native layout. Its data must live until ga_gguf_writer_finish. */
void ga_gguf_put_tensor(ga_gguf_writer *w, const char *name, const ga_tensor *tensor);

/* A callback that writes bytes [offset, offset + bytes) of a tensor's data to `data`. It is called in the order of
 * offsets, once for each byte. A failure ends the writing of the file. */
typedef ga_status (*ga_gguf_source_fn)(void *user, uint64_t offset, void *data, size_t bytes);
/* Puts a tensor whose data the callback `source` makes while the file is written; tensor->data is not read. `user` must
 * live until ga_gguf_writer_finish. */
void ga_gguf_put_tensor_from(ga_gguf_writer *w, const char *name, const ga_tensor *tensor, ga_gguf_source_fn source,
                             void *user);
/* Returns the bytes that the data of the tensors put so far takes in the file. */
uint64_t ga_gguf_data_bytes(const ga_gguf_writer *w);

/* Writes the file under a temporary name in the folder of `path`, syncs it, reads its directory as a check, and renames
 * it. Afterwards `path` is either the complete new file or unchanged. It may be called once for each writer. */
GA_NODISCARD ga_status ga_gguf_writer_finish(ga_gguf_writer *w, const char *path);
/* Does the same as ga_gguf_writer_finish, but replaces no file. Returns GA_ERR_ARG if `path` exists, even if another
 * process created it while the file was written. */
GA_NODISCARD ga_status ga_gguf_writer_finish_new(ga_gguf_writer *w, const char *path);

#endif
