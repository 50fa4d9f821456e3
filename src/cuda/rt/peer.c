/* Copies between two GPUs. Memory of a pool is another device's to read only when the pool says so. */
#include "base/log.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"

/* May `reader` read the memory of `owner`? Asked of the driver once for each pair. */
static ga_status open_pool(cuda_device *owner, const cuda_device *reader, bool *can) {
  const uint64_t bit = UINT64_C(1) << (reader->ordinal & 63);
  if (!(owner->reached & bit) && owner->ordinal != reader->ordinal) {
    int yes = 0;
    bool allowed;
    const CUmemAccessDesc access = {.location_type = 1, .location_id = reader->ordinal, .flags = CU_MEMPOOL_READ_WRITE};
    GA_TRY(ga_peers_allowed(&allowed));
    if (allowed) GA_CU(owner->cu, DeviceCanAccessPeer, &yes, reader->device, owner->device);
    if (yes) GA_CU(owner->cu, MemPoolSetAccess, owner->pool, &access, 1);
    owner->reaches |= yes ? bit : 0;
    owner->reached |= bit;
    ga_log(GA_LOG_INFO, "%s reads what is on %s %s", reader->base.name, owner->base.name,
           yes ? "directly" : "through host memory");
  }
  *can = owner->ordinal == reader->ordinal || (owner->reaches & bit);
  return GA_OK;
}

/* May `reader` read the memory of `owner`? No: GA_ERR_UNSUPPORTED. */
static ga_status open_reach(cuda_device *owner, const cuda_device *reader) {
  bool can = false;
  GA_TRY(cuda_enter(owner));
  GA_TRY(open_pool(owner, reader, &can));
  GA_REQUIRE(can, GA_ERR_UNSUPPORTED, "%s does not reach the memory of %s", reader->base.name, owner->base.name);
  return GA_OK;
}

/* Work on `to` from now on comes behind the present end of `from`. */
static ga_status follow(ga_stream *to, ga_stream *from) {
  cuda_device *before = cuda_device_of(from), *after = cuda_device_of(to);
  GA_TRY(cuda_enter(before));
  GA_CU(before->cu, EventRecord, before->fence, cuda_handle_of(from));
  GA_TRY(cuda_enter(after));
  GA_CU(after->cu, StreamWaitEvent, cuda_handle_of(to), before->fence, 0);
  return GA_OK;
}

ga_status cuda_copy_peer(ga_stream *to, void *dst, ga_stream *from, const void *src, size_t bytes) {
  cuda_device *a = cuda_device_of(from), *b = cuda_device_of(to);
  GA_TRY(open_reach(a, b));
  GA_TRY(follow(to, from));
  GA_CU(b->cu, MemcpyPeerAsync, (CUdeviceptr)(uintptr_t)dst, b->context, (CUdeviceptr)(uintptr_t)src, a->context, bytes,
        cuda_handle_of(to));
  return follow(from, to); /* src may be overwritten only then */
}

ga_status cuda_send_peer(ga_device *to, void *dst, ga_stream *from, const void *src, size_t bytes) {
  cuda_device *a = cuda_device_of(from), *b = (cuda_device *)to;
  GA_TRY(open_reach(b, a));
  GA_TRY(cuda_enter(a));
  GA_CU(a->cu, MemcpyPeerAsync, (CUdeviceptr)(uintptr_t)dst, b->context, (CUdeviceptr)(uintptr_t)src, a->context, bytes,
        cuda_handle_of(from));
  return GA_OK;
}
