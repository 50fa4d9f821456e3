/* Weights to a device while the file is read: two page-locked buffers take turns, one being filled while the other
 * one's copy is under way. */
#ifndef GA_MODEL_UPLOAD_H
#define GA_MODEL_UPLOAD_H

#include "core/ctx.h"
#include "ga/model_file.h"

#define GA_UPLOAD_PIECE ((size_t)8 << 20)

typedef struct ga_uploader {
  ga_ctx *ctx;
  void *buffer[2];    /* page-locked, GA_UPLOAD_PIECE each */
  ga_event *event[2]; /* behind the copy out of it */
  bool used[2];
  int current;
  void *staging; /* device memory that weights are packed from, one tensor after the other */
  size_t staging_bytes;
} ga_uploader;

/* n bytes: those at `bytes` in host memory or, if that is NULL, those of a tensor in a file. */
typedef struct ga_upload_source {
  const void *bytes;
  uint64_t n;
  const ga_model_file *file;
  const ga_model_tensor *tensor;
  ga_status (*tell)(void *user, uint64_t bytes); /* after each piece is enqueued, with its size; may be NULL */
  void *user;
} ga_upload_source;

/* On the context's own stream. Release with ga_uploader_close, after a failure too. */
GA_NODISCARD ga_status ga_uploader_open(ga_ctx *ctx, ga_uploader *u);
/* Enqueues; the source may be reused when the call returns. */
GA_NODISCARD ga_status ga_upload(ga_uploader *u, const ga_upload_source *from, void *device);
/* Device memory of at least that size, the same one each time: what is enqueued later overwrites it. */
GA_NODISCARD ga_status ga_uploader_staging(ga_uploader *u, uint64_t bytes, void **out);
/* Waits for what is enqueued and releases all. wanted: the result of that work is an error to report. */
GA_NODISCARD ga_status ga_uploader_close(ga_uploader *u, bool wanted);

#endif
