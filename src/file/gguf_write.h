/* Writing GGUF files. What the reader refuses is refused here too, so that a file that was written can be read.
 *
 *   ga_gguf_writer *w;
 *   GA_TRY(ga_gguf_writer_create(3, 0, &w));
 *   ga_gguf_put_text(w, "general.architecture", "llama");
 *   ga_gguf_put_tensor(w, "output_norm.weight", &norm);
 *   status = ga_gguf_writer_finish(w, path);
 *   ga_gguf_writer_destroy(w);
 *
 * The put functions keep the first failure; finish returns it with its text. */
#ifndef GA_FILE_GGUF_WRITE_H
#define GA_FILE_GGUF_WRITE_H

#include "ga/model_file.h"

typedef struct ga_gguf_writer ga_gguf_writer;

/* version 2 or 3; alignment 0 for the default, else it is written as general.alignment. */
GA_NODISCARD ga_status ga_gguf_writer_create(uint32_t version, uint32_t alignment, ga_gguf_writer **out);
void ga_gguf_writer_destroy(ga_gguf_writer *w); /* NULL is fine */

/* Integers of any type: the value must fit it. */
void ga_gguf_put_int(ga_gguf_writer *w, const char *key, ga_meta_type type, int64_t value);
void ga_gguf_put_u64(ga_gguf_writer *w, const char *key, uint64_t value);
void ga_gguf_put_f32(ga_gguf_writer *w, const char *key, float value);
void ga_gguf_put_f64(ga_gguf_writer *w, const char *key, double value);
void ga_gguf_put_bool(ga_gguf_writer *w, const char *key, bool value);
void ga_gguf_put_text(ga_gguf_writer *w, const char *key, const char *text);
/* n values of a number type or bool, as they lie in memory on a little-endian host. */
void ga_gguf_put_array(ga_gguf_writer *w, const char *key, ga_meta_type elem, int64_t n, const void *values);
void ga_gguf_put_texts(ga_gguf_writer *w, const char *key, int64_t n, const ga_text *texts);
/* Copies an entry of another file. */
void ga_gguf_put_meta(ga_gguf_writer *w, const ga_meta *meta);
/* Contiguous tensor in the native layout; its data must live until finish. */
void ga_gguf_put_tensor(ga_gguf_writer *w, const char *name, const ga_tensor *tensor);

/* Makes bytes [offset, offset + bytes) of a tensor's data; asked for in order, each byte once. A failure ends the
 * writing. */
typedef ga_status (*ga_gguf_source_fn)(void *user, uint64_t offset, void *data, size_t bytes);
/* The same for data that is made as it is written: tensor->data is not looked at; `user` must live until finish. */
void ga_gguf_put_tensor_from(ga_gguf_writer *w, const char *name, const ga_tensor *tensor, ga_gguf_source_fn source,
                             void *user);
/* Bytes that the tensors put so far will take in the file. */
uint64_t ga_gguf_data_bytes(const ga_gguf_writer *w);

/* Writes beside `path`, syncs, reads the directory back, renames: `path` is either the whole new file or what it was.
 * Once per writer. */
GA_NODISCARD ga_status ga_gguf_writer_finish(ga_gguf_writer *w, const char *path);
/* The same, but nothing is replaced: GA_ERR_ARG when something has that name, also when it came meanwhile. */
GA_NODISCARD ga_status ga_gguf_writer_finish_new(ga_gguf_writer *w, const char *path);

#endif
