/* Streams, copies, events and graphs of a context: arguments are checked here, once for all devices. */
#include "base/mem.h"
#include "base/status.h"
#include "core/ctx.h"

ga_status ga_stream_of(ga_ctx *ctx, ga_stream *stream, const char *what, ga_stream **out) {
  GA_REQUIRE(ctx, GA_ERR_ARG, "%s: ctx is null", what);
  *out = ga_stream_or_default(ctx, stream);
  GA_REQUIRE((*out)->device == ctx->device, GA_ERR_ARG,
             "%s: the stream is of another context, on %s; this one is on %s", what, (*out)->device->name,
             ctx->device->name);
  return GA_OK;
}

ga_status ga_stream_recorded(const ga_stream *stream, bool *out) {
  *out = stream->capturing;
  return stream->wrapped ? stream->device->wrapping->is_recorded(stream, out) : GA_OK;
}

ga_status ga_stream_free_to(const ga_stream *stream, const char *what, const char *why) {
  bool recorded;
  if (!stream->wrapped) return GA_OK;
  GA_TRY(ga_stream_recorded(stream, &recorded));
  GA_REQUIRE(!recorded, GA_ERR_STATE, "%s: the caller records the stream: %s", what, why);
  return GA_OK;
}

/* A stream that the host may wait for. */
static ga_status waitable(ga_ctx *ctx, ga_stream *stream, const char *what, ga_stream **out) {
  GA_TRY(ga_stream_of(ctx, stream, what, out));
  GA_REQUIRE(!(*out)->capturing, GA_ERR_STATE, "%s: the stream records a graph; call ga_graph_end first", what);
  return ga_stream_free_to(*out, what, "end that first");
}

ga_status ga_copy_to_device(ga_ctx *ctx, void *device, const void *host, size_t bytes, ga_stream *stream) {
  GA_REQUIRE((device && host) || !bytes, GA_ERR_ARG, "copy to device: %s is null", device ? "host" : "device");
  GA_TRY(waitable(ctx, stream, "copy to device", &stream));
  return stream->device->ops->copy_in(stream, device, host, bytes);
}

ga_status ga_copy_to_host(ga_ctx *ctx, void *host, const void *device, size_t bytes, ga_stream *stream) {
  GA_REQUIRE((device && host) || !bytes, GA_ERR_ARG, "copy to host: %s is null", device ? "host" : "device");
  GA_TRY(waitable(ctx, stream, "copy to host", &stream));
  return stream->device->ops->copy_out(stream, host, device, bytes);
}

ga_status ga_copy_to_device_later(ga_ctx *ctx, void *device, const void *host, size_t bytes, ga_stream *stream) {
  GA_REQUIRE((device && host) || !bytes, GA_ERR_ARG, "copy to device: %s is null", device ? "host" : "device");
  GA_TRY(waitable(ctx, stream, "copy to device", &stream));
  return stream->device->ops->copy_in_later(stream, device, host, bytes);
}

ga_status ga_copy_to_host_later(ga_ctx *ctx, void *host, const void *device, size_t bytes, ga_stream *stream) {
  GA_REQUIRE((device && host) || !bytes, GA_ERR_ARG, "copy to host: %s is null", device ? "host" : "device");
  GA_TRY(waitable(ctx, stream, "copy to host", &stream));
  return stream->device->ops->copy_out_later(stream, host, device, bytes);
}

static ga_status copy_through_host(ga_ctx *to, void *dst, ga_ctx *from, const void *src, size_t bytes) {
  void *host;
  GA_TRY(ga_mem_alloc(bytes, "copy between devices", &host));
  ga_status status = ga_copy_to_host(from, host, src, bytes, NULL);
  if (status == GA_OK) status = ga_copy_to_device(to, dst, host, bytes, NULL);
  ga_mem_free(host);
  return status;
}

ga_status ga_copy_between(ga_ctx *to, void *dst, ga_ctx *from, const void *src, size_t bytes) {
  GA_REQUIRE(to && from && ((dst && src) || !bytes), GA_ERR_ARG, "copy between devices: an argument is null");
  const ga_peers *peers = from->device->peers;
  ga_stream *streams[2];
  if (!bytes) return GA_OK;
  GA_TRY(waitable(from, NULL, "copy between devices", &streams[0]));
  GA_TRY(waitable(to, NULL, "copy between devices", &streams[1]));
  if (ga_device_in_host_memory(from->device)) return ga_copy_to_device(to, dst, src, bytes, NULL);
  if (ga_device_in_host_memory(to->device)) return ga_copy_to_host(from, dst, src, bytes, NULL);
  const ga_status status =
      peers && peers == to->device->peers ? peers->copy(streams[1], dst, streams[0], src, bytes) : GA_ERR_UNSUPPORTED;
  return status == GA_ERR_UNSUPPORTED ? copy_through_host(to, dst, from, src, bytes) : status;
}

ga_status ga_send_to_peer(ga_ctx *from, const void *src, ga_ctx *to, void *dst, size_t bytes) {
  GA_REQUIRE(to && from && ((dst && src) || !bytes), GA_ERR_ARG, "copy to a peer: an argument is null");
  const ga_peers *peers = from->device->peers;
  GA_REQUIRE(peers && peers == to->device->peers, GA_ERR_UNSUPPORTED, "copy to a peer: %s and %s are no peers",
             from->device->name, to->device->name);
  return bytes ? peers->send(to->device, dst, from->stream, src, bytes) : GA_OK;
}

ga_status ga_copy_within(ga_ctx *ctx, void *dst, const void *src, size_t bytes) {
  GA_REQUIRE(ctx && ((dst && src) || !bytes), GA_ERR_ARG, "copy within a device: an argument is null");
  return bytes ? ctx->device->ops->copy_within(ctx->stream, dst, src, bytes) : GA_OK;
}

ga_status ga_stream_create(ga_ctx *ctx, ga_stream **out) {
  GA_REQUIRE(ctx && out, GA_ERR_ARG, "stream: %s is null", ctx ? "out" : "ctx");
  *out = NULL;
  GA_TRY(ctx->device->ops->stream_create(ctx->device, out));
  (*out)->ctx = ctx;
  return GA_OK;
}

ga_status ga_stream_wrap(ga_ctx *ctx, void *native, ga_stream **out) {
  GA_REQUIRE(ctx && out, GA_ERR_ARG, "stream: %s is null", ctx ? "out" : "ctx");
  *out = NULL;
  GA_REQUIRE(ctx->device->wrapping, GA_ERR_UNSUPPORTED, "stream: %s has no streams but GA's own; CUDA devices have",
             ctx->device->name);
  GA_TRY(ctx->device->wrapping->wrap(ctx->device, native, out));
  (*out)->ctx = ctx;
  (*out)->wrapped = true;
  return GA_OK;
}

/* Work that has the workspace must be done before that is given back; frees are ordered behind a wrapped stream. */
void ga_stream_destroy(ga_stream *stream) {
  if (!stream) return;
  if (stream->workspace.data && !stream->capturing && !stream->wrapped) (void)stream->device->ops->stream_sync(stream);
  ga_workspace_free(stream->ctx, &stream->workspace);
  ga_workspace_free(stream->ctx, &stream->recording);
  stream->device->ops->stream_destroy(stream);
}

ga_status ga_stream_sync(ga_ctx *ctx, ga_stream *stream) {
  GA_TRY(waitable(ctx, stream, "sync", &stream));
  return stream->device->ops->stream_sync(stream);
}

/* --- events --- */

ga_status ga_event_create(ga_ctx *ctx, ga_event **out) {
  GA_REQUIRE(ctx && out, GA_ERR_ARG, "event: %s is null", ctx ? "out" : "ctx");
  *out = NULL;
  return ctx->device->ops->event_create(ctx->device, out);
}

void ga_event_destroy(ga_event *event) {
  if (event) event->device->ops->event_destroy(event);
}

static ga_status event_and_stream(ga_ctx *ctx, ga_event *event, ga_stream **stream) {
  GA_REQUIRE(event, GA_ERR_ARG, "event: event is null");
  GA_TRY(ga_stream_of(ctx, *stream, "event", stream));
  GA_REQUIRE(event->device == ctx->device, GA_ERR_ARG, "event: it is of another context, on %s; this one is on %s",
             event->device->name, ctx->device->name);
  return GA_OK;
}

ga_status ga_event_record(ga_ctx *ctx, ga_event *event, ga_stream *stream) {
  GA_TRY(event_and_stream(ctx, event, &stream));
  return event->device->ops->event_record(event, stream);
}

ga_status ga_stream_wait_event(ga_ctx *ctx, ga_stream *stream, ga_event *event) {
  GA_TRY(event_and_stream(ctx, event, &stream));
  return event->device->ops->event_wait(event, stream);
}

ga_status ga_stream_wait_peer(ga_ctx *ctx, ga_event *event) {
  GA_REQUIRE(ctx && event, GA_ERR_ARG, "event of a peer: an argument is null");
  GA_REQUIRE(event->device == ctx->device || (ctx->device->peers && ctx->device->peers == event->device->peers),
             GA_ERR_UNSUPPORTED, "event of a peer: %s and %s are no peers", event->device->name, ctx->device->name);
  return event->device->ops->event_wait(event, ctx->stream);
}

ga_status ga_event_sync(ga_event *event) {
  GA_REQUIRE(event, GA_ERR_ARG, "event: event is null");
  return event->device->ops->event_sync(event);
}

ga_status ga_event_elapsed(ga_event *start, ga_event *end, double *ms) {
  GA_REQUIRE(start && end && ms, GA_ERR_ARG, "event: %s is null", !start ? "start" : !end ? "end" : "ms");
  GA_REQUIRE(start->device == end->device, GA_ERR_ARG, "event: start is on %s, end on %s", start->device->name,
             end->device->name);
  *ms = 0;
  return start->device->ops->event_elapsed(start, end, ms);
}

/* --- graphs --- */

ga_status ga_graph_begin(ga_ctx *ctx, ga_stream *stream) {
  GA_TRY(waitable(ctx, stream, "graph", &stream));
  const ga_graphs *graphs = ctx->device->graphs;
  GA_REQUIRE(graphs, GA_ERR_UNSUPPORTED, "graph: %s runs work when it is called and has no graphs; CUDA devices have",
             ctx->device->name);
  GA_REQUIRE(!stream->wrapped, GA_ERR_ARG, "graph: the stream is the caller's, who records it by cuStreamBeginCapture");
  GA_TRY(graphs->begin(stream));
  stream->capturing = true;
  return GA_OK;
}

ga_status ga_graph_end(ga_ctx *ctx, ga_stream *stream, ga_graph **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "graph: out is null");
  *out = NULL;
  GA_TRY(ga_stream_of(ctx, stream, "graph", &stream));
  GA_REQUIRE(stream->capturing, GA_ERR_STATE, "graph: the stream records none; call ga_graph_begin first");
  stream->capturing = false;
  const ga_status status = stream->device->graphs->end(stream, out);
  if (status != GA_OK) {
    ga_workspace_free(ctx, &stream->recording);
    return status;
  }
  (*out)->ctx = ctx;
  (*out)->workspace = stream->recording;
  stream->recording = (ga_workspace){0};
  return GA_OK;
}

ga_status ga_graph_launch(ga_ctx *ctx, ga_graph *graph, ga_stream *stream) {
  GA_REQUIRE(graph, GA_ERR_ARG, "graph: graph is null");
  GA_TRY(ga_stream_of(ctx, stream, "graph", &stream));
  GA_REQUIRE(graph->device == ctx->device, GA_ERR_ARG, "graph: it is of another context, on %s; this one is on %s",
             graph->device->name, ctx->device->name);
  GA_TRY(waitable(ctx, stream, "graph", &stream));
  return graph->device->graphs->launch(graph, stream);
}

/* A replay may be under way: buffers are freed behind the work of all streams. */
void ga_graph_destroy(ga_graph *graph) {
  if (!graph) return;
  ga_workspace_free(graph->ctx, &graph->workspace);
  graph->device->graphs->destroy(graph);
}
