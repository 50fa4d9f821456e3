/* Memory that other devices and processes map (virtual memory, by file descriptor), and values in it that streams write
 * and wait for. While a stream waits, the driver holds up what waits for the whole device: the first launch of a
 * kernel, frees and loading of modules (measured). Who waits does those before. */
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

static CUdeviceptr device_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }

static CUmemProps shared_props(const cuda_device *d) {
  return (CUmemProps){
      .allocation_type = 1, .handle_type = CU_MEM_HANDLE_POSIX, .location_type = 1, .location_id = d->ordinal};
}

static ga_status check_sharing(const cuda_device *d) {
  int memory = 0, handles = 0;
  GA_CU(d->cu, DeviceGetAttribute, &memory, CU_ATTR_VIRTUAL_MEMORY_SUPPORTED, d->device);
  GA_CU(d->cu, DeviceGetAttribute, &handles, CU_ATTR_POSIX_HANDLES_SUPPORTED, d->device);
  GA_REQUIRE(memory && handles, GA_ERR_UNSUPPORTED, "%s: its memory cannot be shared with other devices: it lacks %s",
             d->base.name, memory ? "file descriptors of memory" : "virtual memory management");
  return GA_OK;
}

/* Maps m->handle at an address of its own; undoes what it has done when a call fails. */
static ga_status map_shared(const cuda_device *d, ga_shared *m, size_t align) {
  const CUmemAccessDesc access = {.location_type = 1, .location_id = d->ordinal, .flags = CU_MEMPOOL_READ_WRITE};
  CUdeviceptr at;
  GA_CU(d->cu, MemAddressReserve, &at, m->bytes, align, 0, 0);
  const char *call = "cuMemMap";
  CUresult rc = d->cu->MemMap(at, m->bytes, 0, m->handle, 0);
  if (rc == CUDA_SUCCESS) {
    call = "cuMemSetAccess";
    rc = d->cu->MemSetAccess(at, m->bytes, &access, 1);
    if (rc != CUDA_SUCCESS) (void)d->cu->MemUnmap(at, m->bytes);
  }
  if (rc != CUDA_SUCCESS) {
    (void)d->cu->MemAddressFree(at, m->bytes);
    return ga_fail_in(ga_cu_fail(d->cu, rc, call), "%s: shared memory", d->base.name);
  }
  m->data = (void *)(uintptr_t)at;
  return GA_OK;
}

static ga_status clear_shared(cuda_device *d, const ga_shared *m) {
  GA_CU(d->cu, MemsetD8Async, device_address(m->data), 0, m->bytes, d->memory_stream);
  GA_CU(d->cu, StreamSynchronize, d->memory_stream);
  return GA_OK;
}

ga_status cuda_share_alloc(ga_device *device, size_t bytes, ga_shared *out) {
  cuda_device *d = (cuda_device *)device;
  const CUmemProps props = shared_props(d);
  ga_shared m = {.fd = -1};
  CUmemory memory;
  size_t grain;
  *out = m;
  GA_TRY(cuda_enter(d));
  GA_TRY(check_sharing(d));
  GA_CU(d->cu, MemGetAllocationGranularity, &grain, &props, CU_MEM_GRANULARITY_MINIMUM);
  m.bytes = ga_round_up(bytes ? bytes : 1, grain);
  const CUresult rc = d->cu->MemCreate(&memory, m.bytes, &props, 0);
  if (rc == CUDA_ERROR_OUT_OF_MEMORY)
    return ga_fail(GA_ERR_NOMEM, "%s: out of device memory to share: %zu bytes asked for", d->base.name, m.bytes);
  if (rc != CUDA_SUCCESS) return ga_fail_in(ga_cu_fail(d->cu, rc, "cuMemCreate"), "%s: shared memory", d->base.name);
  m.handle = memory;
  ga_status status = map_shared(d, &m, grain);
  if (status == GA_OK) status = clear_shared(d, &m);
  if (status == GA_OK) {
    const CUresult exported = d->cu->MemExport(&m.fd, memory, CU_MEM_HANDLE_POSIX, 0);
    if (exported != CUDA_SUCCESS) status = ga_cu_fail(d->cu, exported, "cuMemExportToShareableHandle");
  }
  if (status == GA_OK)
    *out = m;
  else
    cuda_share_close(device, &m);
  return status;
}

ga_status cuda_share_open(ga_device *device, int fd, size_t bytes, ga_shared *out) {
  cuda_device *d = (cuda_device *)device;
  const CUmemProps props = shared_props(d);
  ga_shared m = {.fd = -1, .bytes = bytes};
  CUmemory memory;
  size_t grain;
  bool allowed;
  *out = m;
  GA_TRY(ga_peers_allowed(&allowed));
  GA_REQUIRE(allowed, GA_ERR_UNSUPPORTED, "%s: maps no memory of others: GA_PEER is off", d->base.name);
  GA_TRY(cuda_enter(d));
  GA_TRY(check_sharing(d));
  GA_CU(d->cu, MemGetAllocationGranularity, &grain, &props, CU_MEM_GRANULARITY_MINIMUM);
  GA_CU(d->cu, MemImport, &memory, (void *)(intptr_t)fd, CU_MEM_HANDLE_POSIX);
  m.handle = memory;
  const ga_status status = map_shared(d, &m, grain);
  if (status == GA_OK)
    *out = m;
  else
    cuda_share_close(device, &m);
  return status;
}

void cuda_share_close(ga_device *device, ga_shared *m) {
  const cuda_device *d = (const cuda_device *)device;
  cuda_enter_late(d);
  if (m->data) {
    (void)d->cu->MemUnmap(device_address(m->data), m->bytes);
    (void)d->cu->MemAddressFree(device_address(m->data), m->bytes);
  }
  if (m->handle) (void)d->cu->MemRelease(m->handle);
  if (m->fd >= 0) (void)close(m->fd);
  *m = (ga_shared){.fd = -1};
}

/* --- in stream order --- */

ga_status cuda_fill(ga_stream *stream, void *dst, uint32_t value, size_t n) {
  const cuda_device *d = cuda_device_of(stream);
  if (!n) return GA_OK;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, MemsetD32Async, device_address(dst), value, n, cuda_handle_of(stream));
  return GA_OK;
}

ga_status cuda_copy_rows(ga_stream *stream, const ga_row_copy *c) {
  const cuda_device *d = cuda_device_of(stream);
  if (!c->width || !c->rows) return GA_OK;
  if (c->rows == 1 || (c->src_pitch == c->width && c->dst_pitch == c->width))
    return cuda_copy_within(stream, c->dst, c->src, c->width * c->rows);
  const CUcopy2D copy = {.src_type = CU_MEMORYTYPE_DEVICE,
                         .src = device_address(c->src),
                         .src_pitch = c->src_pitch,
                         .dst_type = CU_MEMORYTYPE_DEVICE,
                         .dst = device_address(c->dst),
                         .dst_pitch = c->dst_pitch,
                         .width = c->width,
                         .rows = c->rows};
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, Memcpy2DAsync, &copy, cuda_handle_of(stream));
  return GA_OK;
}

ga_status cuda_value_write(ga_stream *stream, uint32_t *at, uint32_t value) {
  const cuda_device *d = cuda_device_of(stream);
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, StreamWriteValue32, cuda_handle_of(stream), device_address(at), value, CU_STREAM_WRITE_DEFAULT);
  return GA_OK;
}

ga_status cuda_value_wait(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience) {
  const cuda_device *d = cuda_device_of(stream);
  (void)patience;
  GA_TRY(cuda_enter(d));
  GA_CU(d->cu, StreamWaitValue32, cuda_handle_of(stream), device_address(at), value, CU_STREAM_WAIT_GEQ);
  return GA_OK;
}

ga_status cuda_stream_query(ga_stream *stream, bool *done) {
  const cuda_device *d = cuda_device_of(stream);
  *done = false;
  GA_TRY(cuda_enter(d));
  const CUresult rc = d->cu->StreamQuery(cuda_handle_of(stream));
  if (rc == CUDA_ERROR_NOT_READY) return GA_OK;
  *done = true;
  return rc == CUDA_SUCCESS ? GA_OK : cuda_stream_sync(stream); /* which names the fault */
}
