/* Copies weights to a device while the file is read, through two page-locked buffers. One is filled while the copy from
 * the other is in flight. */
#ifndef GA_MODEL_UPLOAD_H
#define GA_MODEL_UPLOAD_H

#include "core/ctx.h"
#include "ga/model_file.h"

#define GA_UPLOAD_PIECE ((size_t)8 << 20)

typedef struct ga_uploader {
  ga_ctx *ctx;
  void *buffer[2];    /* page-locked host memory of GA_UPLOAD_PIECE bytes each */
  ga_event *event[2]; /* signalled when the copy from the buffer has ended */
  bool used[2];       /* a copy from the buffer has been enqueued */
  int current;
  void *staging; /* device memory from which weights are packed, one tensor after the other */
  size_t staging_bytes;
} ga_uploader;

/* The n bytes to copy: in host memory at `bytes` or, if that is NULL, those of a tensor in a file. */
typedef struct ga_upload_source {
  const void *bytes;
  uint64_t n;
  const ga_model_file *file;
  const ga_model_tensor *tensor;
  /* called with the bytes of each piece once its copy is enqueued; may be NULL */
  ga_status (*tell)(void *user, uint64_t bytes);
  void *user;
} ga_upload_source;

/* Opens an uploader, which copies on the context's own stream. Release with ga_uploader_close, also after a failure. */
GA_NODISCARD ga_status ga_uploader_open(ga_ctx *ctx, ga_uploader *u);
/* Enqueues the copy to `device`. The source may be reused when the call returns. */
GA_NODISCARD ga_status ga_upload(ga_uploader *u, const ga_upload_source *from, void *device);
/* Sets *out to device memory of at least `bytes` bytes, which the uploader owns. Each call returns the same memory, so
 * later work overwrites it. */
GA_NODISCARD ga_status ga_uploader_staging(ga_uploader *u, uint64_t bytes, void **out);
/* Waits for the enqueued copies and releases everything. wanted true: an error of the copies is returned; false: it is
 * ignored. */
GA_NODISCARD ga_status ga_uploader_close(ga_uploader *u, bool wanted);

#endif
