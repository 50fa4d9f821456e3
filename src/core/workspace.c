/* Workspaces of the ops that plan themselves: of a stream for what it runs, of a graph for what it replays. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/ctx.h"

void ga_workspace_free(ga_ctx *ctx, ga_workspace *w) {
  for (size_t i = 0; i < w->n_outgrown; i++) ga_buffer_free(ctx, w->outgrown[i]);
  ga_buffer_free(ctx, w->data);
  ga_mem_free(w->outgrown);
  *w = (ga_workspace){0};
}

/* Launches that are recorded already hold the present buffer. */
static ga_status keep_present(ga_workspace *w) {
  void *more;
  GA_TRY(ga_mem_zalloc(w->n_outgrown + 1, sizeof(void *), "workspace", &more));
  if (w->n_outgrown) memcpy(more, w->outgrown, w->n_outgrown * sizeof(void *));
  ga_mem_free(w->outgrown);
  w->outgrown = more;
  w->outgrown[w->n_outgrown++] = w->data;
  w->data = NULL;
  w->bytes = 0;
  return GA_OK;
}

/* A recording begins with what the stream has needed so far, so that it seldom grows. */
ga_status ga_workspace_grow(ga_stream *stream, uint64_t bytes) {
  ga_workspace *w = ga_records_apart(stream) ? &stream->recording : &stream->workspace;
  if (bytes) GA_TRY(ga_stream_free_to(stream, "workspace", "make a plan before, and run it with a workspace"));
  if (bytes <= w->bytes) return GA_OK;
  if (ga_records_apart(stream) && bytes < stream->workspace.bytes) bytes = stream->workspace.bytes;
  void *bigger;
  GA_TRY(ga_buffer_alloc_for(stream->ctx, bytes, "workspace", &bigger));
  const ga_status status = w->data && ga_records_apart(stream) ? keep_present(w) : GA_OK;
  if (status != GA_OK) {
    ga_buffer_free(stream->ctx, bigger);
    return status;
  }
  ga_buffer_free(stream->ctx, w->data);
  w->data = bigger;
  w->bytes = bytes;
  return GA_OK;
}
