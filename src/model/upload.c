#include "model/upload.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

ga_status ga_uploader_open(ga_ctx *ctx, ga_uploader *u) {
  *u = (ga_uploader){.ctx = ctx};
  for (int i = 0; i < 2; i++) {
    GA_TRY(ga_host_alloc(ctx, GA_UPLOAD_PIECE, &u->buffer[i]));
    GA_TRY(ga_event_create(ctx, &u->event[i]));
  }
  return GA_OK;
}

static ga_status fill_buffer(const ga_upload_source *from, uint64_t at, void *buffer, size_t n) {
  if (!from->bytes) return ga_model_file_read(from->file, from->tensor, at, buffer, n);
  memcpy(buffer, (const char *)from->bytes + at, n);
  return GA_OK;
}

ga_status ga_upload(ga_uploader *u, const ga_upload_source *from, void *device) {
  for (uint64_t at = 0; at < from->n;) {
    const size_t n = (size_t)ga_min_u64(from->n - at, GA_UPLOAD_PIECE);
    const int i = u->current;
    if (u->used[i]) GA_TRY(ga_event_sync(u->event[i]));
    GA_TRY(fill_buffer(from, at, u->buffer[i], n));
    GA_TRY(ga_copy_to_device_later(u->ctx, (char *)device + at, u->buffer[i], n, NULL));
    GA_TRY(ga_event_record(u->ctx, u->event[i], NULL));
    u->used[i] = true;
    u->current = !i;
    at += n;
    if (from->tell) GA_TRY(from->tell(from->user, n));
  }
  return GA_OK;
}

/* Buffers are freed behind the work enqueued so far. */
ga_status ga_uploader_staging(ga_uploader *u, uint64_t bytes, void **out) {
  if (bytes > u->staging_bytes) {
    ga_buffer_free(u->ctx, u->staging);
    u->staging = NULL;
    u->staging_bytes = 0;
    GA_TRY(ga_buffer_alloc_for(u->ctx, bytes, "staging", &u->staging));
    u->staging_bytes = bytes;
  }
  *out = u->staging;
  return GA_OK;
}

/* Copies under way read the buffers. Their failure must not replace the text of the one that brought us here. */
static ga_status settle_upload(ga_uploader *u, bool wanted) {
  char text[1024];
  if (wanted) return ga_stream_sync(u->ctx, NULL);
  (void)snprintf(text, sizeof text, "%s", ga_error_text());
  return ga_stream_sync(u->ctx, NULL) == GA_OK ? GA_OK : ga_fail(GA_OK, "%s", text);
}

ga_status ga_uploader_close(ga_uploader *u, bool wanted) {
  const ga_status status = u->used[0] || u->used[1] ? settle_upload(u, wanted) : GA_OK;
  ga_buffer_free(u->ctx, u->staging);
  for (int i = 0; i < 2; i++) {
    ga_event_destroy(u->event[i]);
    ga_host_free(u->ctx, u->buffer[i]);
  }
  *u = (ga_uploader){0};
  return status;
}
