/* Streams that the caller has. GA's own are made in stream.c. */
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

ga_status cuda_stream_recorded(const ga_stream *stream, bool *out) {
  const cuda_device *d = cuda_device_of(stream);
  int status;
  *out = false;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, StreamIsCapturing, cuda_handle_of(stream), &status);
  *out = status != CU_CAPTURE_STATUS_NONE;
  return GA_OK;
}

/* A state that the driver does not tell counts as recorded: what is kept back then is only late. */
bool cuda_caller_records(const cuda_device *d) {
  for (const cuda_stream *s = d->streams; s; s = s->next) {
    int status = CU_CAPTURE_STATUS_NONE;
    if (!s->base.wrapped) continue;
    if (d->cu->StreamIsCapturing(s->handle, &status) != CUDA_SUCCESS || status != CU_CAPTURE_STATUS_NONE) return true;
  }
  return false;
}

/* For what the stream runs, then for what its owner records. While a stream is recorded the spare ones are taken. */
static ga_status take_counters(cuda_device *d, bool recorded, CUdeviceptr *out) {
  const size_t bytes = (size_t)2 * CUDA_COUNTER_BYTES;
  if (recorded) {
    GA_REQUIRE(d->spare_counters, GA_ERR_STATE,
               "stream: the caller records, and %s has no counters left; wrap a stream before the recording",
               d->base.name);
    *out = d->spare_counters;
    d->spare_counters = 0;
    return GA_OK;
  }
  if (!d->spare_counters) GA_TRY(cuda_zeroed(d, bytes, &d->spare_counters));
  return cuda_zeroed(d, bytes, out);
}

ga_status cuda_stream_wrap(ga_device *device, void *native, ga_stream **out) {
  cuda_device *d = (cuda_device *)device;
  CUcontext owner;
  CUdeviceptr counters;
  int status;
  void *p;
  *out = NULL;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, StreamGetCtx, native, &owner);
  GA_REQUIRE(owner == d->context, GA_ERR_ARG,
             "stream: %p is of another context; allowed are streams of the primary context of %s", native,
             d->base.name);
  GA_CU(d->cu, StreamIsCapturing, native, &status);
  GA_TRY(take_counters(d, status != CU_CAPTURE_STATUS_NONE || cuda_caller_records(d), &counters));
  const ga_status made = ga_mem_zalloc(1, sizeof(cuda_stream), "stream", &p);
  if (made != GA_OK) {
    cuda_free(device, (void *)(uintptr_t)counters);
    return made;
  }
  cuda_stream *s = p;
  *s = (cuda_stream){.base.device = device,
                     .handle = native,
                     .counters = counters,
                     .graph_counters = counters + CUDA_COUNTER_BYTES,
                     .next = d->streams};
  d->streams = s;
  *out = &s->base;
  return GA_OK;
}

/* The counters go back behind the stream's work, so they are freed while it is still known. */
void cuda_stream_unwrap(cuda_device *d, cuda_stream *s) {
  cuda_stream **at = &d->streams;
  cuda_free(&d->base, (void *)(uintptr_t)s->counters);
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  ga_mem_free(s);
}
