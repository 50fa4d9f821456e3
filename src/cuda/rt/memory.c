/* Device memory from a stream-ordered pool of our own, and page-locked host memory.
 *
 * Allocations and frees are ordered on one stream. An allocation is waited for, so that its buffer may be used on any
 * stream; a free is ordered behind what all streams of the device hold at that time, without waiting. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

static cuda_device *of(ga_device *device) { return (cuda_device *)device; }

ga_status cuda_memory_open(cuda_device *d) {
  const CUmemPoolProps props = {.allocation_type = 1, .location_type = 1, .location_id = d->ordinal};
  uint64_t keep = UINT64_MAX; /* what is freed stays for the next allocation, until trimmed */
  CUmemoryPool pool;
  CUstream stream;
  CUevent fence;
  GA_CU(d->cu, MemPoolCreate, &pool, &props);
  d->pool = pool;
  GA_CU(d->cu, MemPoolSetAttribute, pool, CU_MEMPOOL_RELEASE_THRESHOLD, &keep);
  GA_CU(d->cu, StreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  d->memory_stream = stream;
  GA_CU(d->cu, EventCreate, &fence, CU_EVENT_DISABLE_TIMING);
  d->fence = fence;
  return GA_OK;
}

static void free_kept(cuda_device *d);

void cuda_memory_close(cuda_device *d) {
  free_kept(d);
  if (d->spare_counters) (void)d->cu->MemFreeAsync(d->spare_counters, d->memory_stream);
  if (d->memory_stream) (void)d->cu->StreamSynchronize(d->memory_stream);
  if (d->fence) (void)d->cu->EventDestroy(d->fence);
  if (d->memory_stream) (void)d->cu->StreamDestroy(d->memory_stream);
  if (d->pool) (void)d->cu->MemPoolDestroy(d->pool);
}

/* --- figures --- */

ga_status cuda_memory(ga_device *device, ga_memory_info *info) {
  cuda_device *d = of(device);
  size_t free_bytes, total_bytes;
  uint64_t pooled, peak;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemGetInfo, &free_bytes, &total_bytes);
  GA_CU(d->cu, MemPoolGetAttribute, d->pool, CU_MEMPOOL_RESERVED_CURRENT, &pooled);
  GA_CU(d->cu, MemPoolGetAttribute, d->pool, CU_MEMPOOL_RESERVED_HIGH, &peak);
  info->total_bytes = total_bytes;
  info->free_bytes = free_bytes;
  info->pooled_bytes = pooled;
  info->pooled_peak_bytes = peak;
  return GA_OK;
}

static ga_status device_out_of_memory(cuda_device *d, const char *what, size_t bytes) {
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  uint64_t used = 0;
  if (cuda_memory(&d->base, &m) != GA_OK ||
      d->cu->MemPoolGetAttribute(d->pool, CU_MEMPOOL_USED_CURRENT, &used) != CUDA_SUCCESS)
    return ga_fail(GA_ERR_NOMEM, "%s: out of %s: %zu bytes asked for", d->base.name, what, bytes);
  return ga_fail(GA_ERR_NOMEM, "%s: out of %s: %zu bytes asked for, %llu of %llu free; pool: %llu in use, %llu idle",
                 d->base.name, what, bytes, (unsigned long long)m.free_bytes, (unsigned long long)m.total_bytes,
                 (unsigned long long)used, (unsigned long long)(m.pooled_bytes - used));
}

ga_status cuda_trim(ga_device *device) {
  cuda_device *d = of(device);
  GA_TRY(cuda_enter(d));
  GA_REQUIRE(!cuda_caller_records(d), GA_ERR_STATE, "%s: memory is trimmed when no stream is recorded by its owner",
             d->base.name);
  free_kept(d);
  for (cuda_stream *s = d->streams; s; s = s->next)
    if (!s->base.capturing) GA_CU(d->cu, StreamSynchronize, s->handle);
  GA_CU(d->cu, StreamSynchronize, d->memory_stream);
  GA_CU(d->cu, MemPoolTrimTo, d->pool, 0);
  return GA_OK;
}

/* --- device memory --- */

/* What lies idle in the pool may be in pieces too small: gives it back and tries once more before giving up. */
static ga_status take_from_pool(cuda_device *d, size_t bytes, CUdeviceptr *out) {
  GA_REQUIRE(!cuda_caller_records(d), GA_ERR_STATE,
             "%s: %zu bytes asked for while the caller records a stream; allowed is memory from before", d->base.name,
             bytes);
  CUresult rc = d->cu->MemAllocFromPoolAsync(out, bytes, d->pool, d->memory_stream);
  if (rc == CUDA_ERROR_OUT_OF_MEMORY && cuda_trim(&d->base) == GA_OK)
    rc = d->cu->MemAllocFromPoolAsync(out, bytes, d->pool, d->memory_stream);
  if (rc == CUDA_ERROR_OUT_OF_MEMORY) return device_out_of_memory(d, "device memory", bytes);
  return rc == CUDA_SUCCESS ? GA_OK : ga_cu_fail(d->cu, rc, "cuMemAllocFromPoolAsync");
}

/* Waits for an allocation; undoes it when that fails. */
static ga_status finish_alloc(cuda_device *d, CUdeviceptr p) {
  CUresult rc = d->cu->StreamSynchronize(d->memory_stream);
  if (rc == CUDA_SUCCESS) return GA_OK;
  (void)d->cu->MemFreeAsync(p, d->memory_stream);
  return ga_cu_fail(d->cu, rc, "cuStreamSynchronize after an allocation");
}

ga_status cuda_alloc(ga_device *device, size_t bytes, void **out) {
  cuda_device *d = of(device);
  CUdeviceptr p;
  *out = NULL;
  GA_TRY(cuda_enter(d));
  GA_TRY(take_from_pool(d, bytes ? bytes : 1, &p));
  GA_TRY(finish_alloc(d, p));
  *out = (void *)(uintptr_t)p;
  return GA_OK;
}

ga_status cuda_zeroed(cuda_device *d, size_t bytes, CUdeviceptr *out) {
  CUdeviceptr p;
  *out = 0;
  GA_TRY(take_from_pool(d, bytes, &p));
  CUresult rc = d->cu->MemsetD8Async(p, 0, bytes, d->memory_stream);
  if (rc != CUDA_SUCCESS) {
    (void)d->cu->MemFreeAsync(p, d->memory_stream);
    return ga_cu_fail(d->cu, rc, "cuMemsetD8Async");
  }
  GA_TRY(finish_alloc(d, p));
  *out = p;
  return GA_OK;
}

ga_status cuda_alloc_zeroed(ga_device *device, size_t bytes, void **out) {
  cuda_device *d = of(device);
  CUdeviceptr p;
  *out = NULL;
  GA_TRY(cuda_enter(d));
  GA_TRY(cuda_zeroed(d, bytes ? bytes : 1, &p));
  *out = (void *)(uintptr_t)p;
  return GA_OK;
}

/* A stream that captures has no work of its own under way; an event recorded there would end up in the graph. */
static void free_behind_streams(cuda_device *d, void *buffer) {
  for (cuda_stream *s = d->streams; s; s = s->next) {
    if (s->base.capturing) continue;
    if (d->cu->EventRecord(d->fence, s->handle) != CUDA_SUCCESS ||
        d->cu->StreamWaitEvent(d->memory_stream, d->fence, 0) != CUDA_SUCCESS)
      (void)d->cu->StreamSynchronize(s->handle);
  }
  (void)d->cu->MemFreeAsync((CUdeviceptr)(uintptr_t)buffer, d->memory_stream);
}

static void free_kept(cuda_device *d) {
  while (d->n_kept) free_behind_streams(d, d->kept[--d->n_kept]);
}

/* Without room for it a buffer goes back with the pool. */
static void keep(cuda_device *d, void *buffer) {
  if (d->n_kept == d->kept_room) {
    void *more;
    const size_t room = d->kept_room ? 2 * d->kept_room : 64;
    if (ga_mem_alloc(room * sizeof(void *), "buffers to free", &more) != GA_OK) return;
    if (d->n_kept) memcpy(more, d->kept, d->n_kept * sizeof(void *));
    ga_mem_free(d->kept);
    d->kept = more;
    d->kept_room = room;
  }
  d->kept[d->n_kept++] = buffer;
}

/* A wrapped stream may have work under way when its owner begins to record it, and cannot be marked then. */
void cuda_free(ga_device *device, void *buffer) {
  cuda_device *d = of(device);
  if (!buffer) return;
  cuda_enter_late(d);
  if (cuda_caller_records(d)) {
    keep(d, buffer);
    return;
  }
  free_kept(d);
  free_behind_streams(d, buffer);
}

/* --- host memory --- */

ga_status cuda_host_alloc(ga_device *device, size_t bytes, void **out) {
  cuda_device *d = of(device);
  *out = NULL;
  GA_TRY(cuda_enter(d));
  CUresult rc = d->cu->MemHostAlloc(out, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
  if (rc == CUDA_SUCCESS) return GA_OK;
  *out = NULL;
  if (rc == CUDA_ERROR_OUT_OF_MEMORY)
    return ga_fail(GA_ERR_NOMEM, "%s: out of page-locked host memory: %zu bytes asked for", d->base.name, bytes);
  return ga_cu_fail(d->cu, rc, "cuMemHostAlloc");
}

ga_status cuda_host_pin(ga_device *device, void *p, size_t bytes) {
  cuda_device *d = of(device);
  GA_TRY(cuda_enter(d));
  const CUresult rc = d->cu->MemHostRegister(p, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(d->cu, rc, "cuMemHostRegister"), "%s: %zu bytes", d->base.name, bytes);
}

void cuda_host_unpin(ga_device *device, void *p) {
  cuda_device *d = of(device);
  cuda_enter_late(d);
  (void)d->cu->MemHostUnregister(p);
}

void cuda_host_free(ga_device *device, void *p) {
  cuda_device *d = of(device);
  if (!p) return;
  cuda_enter_late(d);
  (void)d->cu->MemFreeHost(p);
}
