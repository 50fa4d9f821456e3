/* Streams, copies and events. */
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

ga_status cuda_stream_create(ga_device *device, ga_stream **out) {
  cuda_device *d = (cuda_device *)device;
  void *p;
  *out = NULL;
  GA_TRY(cuda_enter(d));
  GA_TRY(ga_mem_zalloc(1, sizeof(cuda_stream), "stream", &p));
  cuda_stream *s = p;
  s->base.device = device;
  ga_status status = cuda_zeroed(d, CUDA_COUNTER_BYTES, &s->counters);
  if (status != GA_OK) {
    ga_mem_free(s);
    return status;
  }
  CUresult rc = d->cu->StreamCreate(&s->handle, CU_STREAM_NON_BLOCKING);
  if (rc != CUDA_SUCCESS) {
    (void)d->cu->MemFreeAsync(s->counters, d->memory_stream);
    ga_mem_free(s);
    return ga_cu_fail(d->cu, rc, "cuStreamCreate");
  }
  s->next = d->streams;
  d->streams = s;
  *out = &s->base;
  return GA_OK;
}

static void abandon_capture(ga_stream *stream) {
  ga_graph *graph;
  if (!stream->capturing) return;
  stream->capturing = false;
  if (cuda_graph_end(stream, &graph) == GA_OK) cuda_graph_destroy(graph);
}

void cuda_stream_destroy(ga_stream *stream) {
  cuda_device *d = cuda_device_of(stream);
  cuda_stream *s = (cuda_stream *)stream, **at = &d->streams;
  if (stream->wrapped) {
    cuda_stream_unwrap(d, s);
    return;
  }
  abandon_capture(stream);
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  cuda_enter_late(d);
  (void)d->cu->StreamSynchronize(s->handle);
  (void)d->cu->MemFreeAsync(s->counters, d->memory_stream);
  (void)d->cu->StreamDestroy(s->handle);
  ga_mem_free(s);
}

/* Of a wrapped stream whose state cannot be told nothing can be launched either. */
CUdeviceptr cuda_counters_of(const ga_stream *stream) {
  const cuda_stream *s = (const cuda_stream *)stream;
  bool recorded = stream->capturing;
  if (stream->wrapped && cuda_stream_recorded(stream, &recorded) != GA_OK) recorded = true;
  return recorded ? s->graph_counters : s->counters;
}

/* A fault shows up at the first wait after it: the kernel enqueued last is the best clue there is. */
static ga_status waited(const cuda_device *d, CUresult rc, const char *call) {
  if (rc == CUDA_SUCCESS) return GA_OK;
  ga_status status = ga_cu_fail(d->cu, rc, call);
  if (!d->last_id) return status;
  return ga_fail_in(status, "%s: the last kernel enqueued was %s", d->base.name, d->last_id);
}

static ga_status wait_for(ga_stream *stream) {
  const cuda_device *d = cuda_device_of(stream);
  return waited(d, d->cu->StreamSynchronize(cuda_handle_of(stream)), "cuStreamSynchronize");
}

ga_status cuda_stream_sync(ga_stream *stream) {
  GA_TRY(cuda_enter(cuda_device_of(stream)));
  return wait_for(stream);
}

ga_status cuda_copy_in(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  cuda_device *d = cuda_device_of(stream);
  if (!bytes) return GA_OK;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)dst, src, bytes, cuda_handle_of(stream));
  return wait_for(stream); /* the caller may reuse src */
}

ga_status cuda_copy_out_later(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  cuda_device *d = cuda_device_of(stream);
  if (!bytes) return GA_OK;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemcpyDtoHAsync, dst, (CUdeviceptr)(uintptr_t)src, bytes, cuda_handle_of(stream));
  return GA_OK;
}

ga_status cuda_copy_out(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  GA_TRY(cuda_copy_out_later(stream, dst, src, bytes));
  return bytes ? wait_for(stream) : GA_OK;
}

ga_status cuda_copy_in_later(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  cuda_device *d = cuda_device_of(stream);
  if (!bytes) return GA_OK;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemcpyHtoDAsync, (CUdeviceptr)(uintptr_t)dst, src, bytes, cuda_handle_of(stream));
  return GA_OK;
}

ga_status cuda_copy_within(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  cuda_device *d = cuda_device_of(stream);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemcpyDtoDAsync, (CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src, bytes,
        cuda_handle_of(stream));
  return GA_OK;
}

/* --- events --- */

typedef struct cuda_event {
  ga_event base;
  CUevent handle;
} cuda_event;

static CUevent event_handle(const ga_event *event) { return ((const cuda_event *)event)->handle; }
static const cuda_device *event_device(const ga_event *event) { return (const cuda_device *)event->device; }

ga_status cuda_event_create(ga_device *device, ga_event **out) {
  cuda_device *d = (cuda_device *)device;
  void *p;
  *out = NULL;
  GA_TRY(cuda_enter(d));
  GA_TRY(ga_mem_zalloc(1, sizeof(cuda_event), "event", &p));
  cuda_event *e = p;
  e->base.device = device;
  CUresult rc = d->cu->EventCreate(&e->handle, CU_EVENT_DEFAULT);
  if (rc != CUDA_SUCCESS) {
    ga_mem_free(e);
    return ga_cu_fail(d->cu, rc, "cuEventCreate");
  }
  *out = &e->base;
  return GA_OK;
}

void cuda_event_destroy(ga_event *event) {
  const cuda_device *d = event_device(event);
  cuda_enter_late(d);
  (void)d->cu->EventDestroy(event_handle(event));
  ga_mem_free(event);
}

ga_status cuda_event_record(ga_event *event, ga_stream *stream) {
  const cuda_device *d = event_device(event);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, EventRecord, event_handle(event), cuda_handle_of(stream));
  return GA_OK;
}

ga_status cuda_event_record_in_graph(ga_event *event, ga_stream *stream) {
  const cuda_device *d = event_device(event);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, EventRecordWithFlags, event_handle(event), cuda_handle_of(stream), CU_EVENT_RECORD_EXTERNAL);
  return GA_OK;
}

ga_status cuda_event_wait(ga_event *event, ga_stream *stream) {
  const cuda_device *d = event_device(event);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, StreamWaitEvent, cuda_handle_of(stream), event_handle(event), 0);
  return GA_OK;
}

ga_status cuda_event_sync(ga_event *event) {
  const cuda_device *d = event_device(event);
  GA_TRY(cuda_enter(d));
  return waited(d, d->cu->EventSynchronize(event_handle(event)), "cuEventSynchronize");
}

ga_status cuda_event_query(ga_event *event, bool *done) {
  const cuda_device *d = event_device(event);
  *done = false;
  GA_TRY(cuda_enter(d));
  const CUresult rc = d->cu->EventQuery(event_handle(event));
  if (rc == CUDA_ERROR_NOT_READY) return GA_OK;
  *done = true;
  return waited(d, rc, "cuEventQuery");
}

ga_status cuda_event_elapsed(ga_event *start, ga_event *end, double *ms) {
  const cuda_device *d = event_device(start);
  float f;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, EventSynchronize, event_handle(start));
  GA_CU(d->cu, EventSynchronize, event_handle(end));
  GA_CU(d->cu, EventElapsedTime, &f, event_handle(start), event_handle(end));
  *ms = (double)f;
  return GA_OK;
}
