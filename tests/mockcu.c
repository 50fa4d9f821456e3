#include "tests/mockcu_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define MAX_BUFFERS 512
#define POISONED    ((size_t)64 << 10) /* of each: large ones cost time */
#define MAX_DEVICES 8

typedef struct buffer {
  char *at;
  size_t bytes;
  bool host;
  int device;
} buffer;

mock_driver mockcu;
static buffer buffers[MAX_BUFFERS];
static size_t n_buffers;
static object *current, *contexts[MAX_DEVICES];
static size_t used_of[MAX_DEVICES];
/* Copies from page-locked memory that nobody has waited for. */
static struct read {
  const void *src, *stream;
  size_t bytes;
  uint64_t hash;
} reads[64];
static size_t n_reads;
static bool open_to[MAX_DEVICES][MAX_DEVICES]; /* [owner][reader]: memory of a pool */

void mockcu_reset(void) {
  mockcu = (mock_driver){.devices = 2,
                         .version = 12040,
                         .major = 9,
                         .minor = 0,
                         .memory_bytes = (size_t)1 << 30,
                         .args_bytes = 88 /* ga_kargs_add */};
  current = NULL;
  n_reads = 0;
  memset(open_to, 0, sizeof open_to);
}

void mock_misuse(const char *text) {
  if (!mockcu.misuse[0]) (void)snprintf(mockcu.misuse, sizeof mockcu.misuse, "%s: %s", mockcu.last_call, text);
}

/* What neither allocates, nor waits, nor puts work anywhere. */
static bool is_harmless(const char *name) {
  static const char *const names[] = {"cuCtxSetCurrent",       "cuStreamIsCapturing", "cuStreamGetCtx",
                                      "cuPointerGetAttribute", "cuLaunchKernelEx",    "cuStreamEndCapture",
                                      "cuTensorMapEncodeTiled"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

CUresult mock_step(const char *name) {
  (void)snprintf(mockcu.last_call, sizeof mockcu.last_call, "%s", name);
  if (mockcu.caller_records && !is_harmless(name)) mock_misuse("while the caller records");
  if (++mockcu.calls == mockcu.fail_call) return mockcu.fail_rc;
  if (mockcu.fails_on && mockcu.calls > mockcu.fail_call) return mockcu.fail_rc;
  return mockcu.fail_name && !strcmp(name, mockcu.fail_name) ? mockcu.fail_rc : CUDA_SUCCESS;
}

CUresult mock_step_in(const char *name) {
  CUresult rc = mock_step(name);
  if (rc != CUDA_SUCCESS) return rc;
  if (current) return CUDA_SUCCESS;
  mock_misuse("no context is current");
  return ERR_INVALID_CONTEXT;
}

void *mock_make(kind what) {
  object *o = calloc(1, sizeof *o);
  if (!o) abort();
  if (what == STREAM) o->device = current->device;
  o->what = what;
  mockcu.live++;
  return o;
}

object *mock_is(void *handle, kind what) {
  static object default_stream;
  default_stream.what = STREAM;
  object *o = !handle && what == STREAM && mockcu.has_default_stream ? &default_stream : handle;
  if (o && o->what == what) return o;
  mock_misuse("a handle of another kind, or none");
  return NULL;
}

CUresult mock_drop(const char *name, void *handle, kind what) {
  CUresult rc = mock_step(name);
  object *o = mock_is(handle, what);
  if (!o) return CUDA_ERROR_INVALID_VALUE;
  o->what = 0;
  free(o->function);
  free(o);
  mockcu.live--;
  return rc;
}

/* --- start, devices --- */

CUresult mock_Init(unsigned flags) {
  (void)flags;
  STEP("cuInit");
  return mockcu.init_rc;
}
CUresult mock_DriverGetVersion(int *version) {
  STEP("cuDriverGetVersion");
  *version = mockcu.version;
  return 0;
}
CUresult mock_GetErrorName(CUresult rc, const char **name) {
  *name = rc == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_MOCK";
  return 0;
}
CUresult mock_GetErrorString(CUresult rc, const char **text) {
  *text = rc == 700 ? "an illegal memory access was encountered" : "told to fail";
  return 0;
}
CUresult mock_DeviceGetCount(int *n) {
  STEP("cuDeviceGetCount");
  *n = mockcu.devices;
  return 0;
}
CUresult mock_DeviceGet(CUdevice *device, int index) {
  STEP("cuDeviceGet");
  *device = 100 + index;
  return 0;
}
CUresult mock_DeviceGetPCIBusId(char *bus, int bytes, CUdevice device) {
  STEP("cuDeviceGetPCIBusId");
  (void)snprintf(bus, (size_t)bytes, "0000:0%d:00.0", device - 100);
  return 0;
}
CUresult mock_DeviceGetName(char *name, int bytes, CUdevice device) {
  STEP("cuDeviceGetName");
  (void)snprintf(name, (size_t)bytes, "Mock %d", device - 100);
  return 0;
}
CUresult mock_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  STEP("cuDeviceGetAttribute");
  switch (attribute) {
  case CU_ATTR_COMPUTE_CAPABILITY_MAJOR: *value = mockcu.major; break;
  case CU_ATTR_COMPUTE_CAPABILITY_MINOR: *value = mockcu.minor; break;
  case CU_ATTR_MULTIPROCESSOR_COUNT: *value = 4; break;
  case CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (int)SHARED_MOST; break;
  case CU_ATTR_PAGEABLE_MEMORY_ACCESS: *value = 0; break;
  case CU_ATTR_VIRTUAL_MEMORY_SUPPORTED: *value = !mockcu.no_sharing; break;
  default: *value = 1;
  }
  return 0;
}
CUresult mock_DeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  STEP("cuDeviceTotalMem");
  *bytes = mockcu.memory_bytes;
  return 0;
}
CUresult mock_DevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  STEP("cuDevicePrimaryCtxRetain");
  if (!contexts[device - 100]) contexts[device - 100] = mock_make(CONTEXT);
  contexts[device - 100]->device = device - 100;
  contexts[device - 100]->nodes++; /* its users */
  *ctx = (CUcontext)contexts[device - 100];
  return 0;
}
CUresult mock_DevicePrimaryCtxRelease(CUdevice device) {
  if (contexts[device - 100] && --contexts[device - 100]->nodes) return mock_step("cuDevicePrimaryCtxRelease");
  CUresult rc = mock_drop("cuDevicePrimaryCtxRelease", contexts[device - 100], CONTEXT);
  if (current == contexts[device - 100]) current = NULL;
  contexts[device - 100] = NULL;
  return rc;
}
CUresult mock_CtxSetCurrent(CUcontext ctx) {
  STEP("cuCtxSetCurrent");
  current = mock_is(ctx, CONTEXT);
  return 0;
}
CUresult mock_StreamGetCtx(CUstream stream, CUcontext *ctx) {
  STEP_IN("cuStreamGetCtx");
  const object *s = mock_is(stream, STREAM);
  if (!s) return CUDA_ERROR_INVALID_VALUE;
  *ctx = (CUcontext)(stream ? contexts[s->device] : current);
  return 0;
}
CUresult mock_CtxSynchronize(void) {
  STEP_IN("cuCtxSynchronize");
  return 0;
}

/* --- memory --- */

static buffer *find_buffer(const void *p) {
  for (size_t i = 0; i < n_buffers; i++)
    if ((const char *)p >= buffers[i].at && (const char *)p < buffers[i].at + buffers[i].bytes) return &buffers[i];
  return NULL;
}
size_t mockcu_extent(const void *p) {
  const buffer *b = find_buffer(p);
  return b ? (size_t)(b->at + b->bytes - (const char *)p) : 0;
}

/* Where calls are told to fail, waiting is no proof of anything. */
static void add_read(const void *src, size_t bytes, const void *stream) {
  const buffer *b = find_buffer(src);
  if (!b || !b->host || mockcu.fail_call || mockcu.fail_name || n_reads == sizeof reads / sizeof *reads) return;
  reads[n_reads++] = (struct read){src, stream, bytes, ga_fnv64(GA_FNV64_START, src, bytes)};
}
void mock_reads_follow(const void *after, const void *before) {
  const size_t n = n_reads;
  for (size_t i = 0; i < n && n_reads < sizeof reads / sizeof *reads; i++) {
    if (reads[i].stream != before || before == after) continue;
    reads[n_reads] = reads[i];
    reads[n_reads++].stream = after;
  }
}
static void drop_reads(const void *src) {
  for (size_t i = n_reads; i-- > 0;)
    if (reads[i].src == src) reads[i] = reads[--n_reads];
}
void mock_reads_done(const void *stream) {
  for (size_t i = 0; i < n_reads;) {
    const struct read r = reads[i++];
    if (r.stream != stream) continue;
    if (ga_fnv64(GA_FNV64_START, r.src, r.bytes) != r.hash)
      mock_misuse("page-locked memory changed while a copy read it");
    drop_reads(r.src);
    i = 0;
  }
}
static bool is_read(const buffer *b) {
  for (size_t i = 0; i < n_reads; i++)
    if (find_buffer(reads[i].src) == b) return true;
  return false;
}

static void *add_buffer(size_t bytes, bool host, int device) {
  char *p = n_buffers < MAX_BUFFERS ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
  if (!p) abort();
  memset(p, 0xcd, bytes < POISONED ? bytes : POISONED);
  buffers[n_buffers++] = (buffer){.at = p, .bytes = bytes, .host = host, .device = device};
  mockcu.live++;
  if (!host) mockcu.used_bytes += bytes;
  if (!host) used_of[device] += bytes;
  if (mockcu.used_bytes > mockcu.used_peak) mockcu.used_peak = mockcu.used_bytes;
  return p;
}
static CUresult drop_buffer(CUresult rc, const void *p, bool host) {
  buffer *b = find_buffer(p);
  if (!b || b->at != p || b->host != host) {
    mock_misuse("frees what is no buffer");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (host && is_read(b)) mock_misuse("frees what a copy reads");
  if (!host) mockcu.used_bytes -= b->bytes;
  if (!host) used_of[b->device] -= b->bytes;
  free(b->at);
  *b = buffers[--n_buffers];
  mockcu.live--;
  return rc;
}
static void *pointer_of(CUdeviceptr p) { return (void *)(uintptr_t)p; }

CUresult mock_MemGetInfo(size_t *free_bytes, size_t *total) {
  STEP_IN("cuMemGetInfo");
  *total = mockcu.memory_bytes;
  *free_bytes = mockcu.memory_bytes - used_of[current->device];
  return 0;
}
CUresult mock_MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *p) {
  STEP_IN("cuMemPoolCreate");
  if (p->allocation_type != 1 || p->location_type != 1 || sizeof *p != 88) mock_misuse("properties of a pool");
  object *o = mock_make(POOL);
  o->device = p->location_id;
  *pool = (CUmemoryPool)o;
  return 0;
}
CUresult mock_MemPoolDestroy(CUmemoryPool pool) { return mock_drop("cuMemPoolDestroy", pool, POOL); }
CUresult mock_MemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  (void)attribute, (void)value;
  STEP("cuMemPoolSetAttribute");
  return mock_is(pool, POOL) ? 0 : 1;
}
CUresult mock_MemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  STEP("cuMemPoolGetAttribute");
  uint64_t v = attribute == CU_MEMPOOL_USED_CURRENT       ? mockcu.used_bytes
               : attribute == CU_MEMPOOL_RESERVED_CURRENT ? mockcu.used_bytes + 4096
                                                          : mockcu.used_peak + 4096;
  memcpy(value, &v, sizeof v);
  return mock_is(pool, POOL) ? 0 : 1;
}
CUresult mock_MemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)keep;
  STEP("cuMemPoolTrimTo");
  return mock_is(pool, POOL) ? 0 : 1;
}
CUresult mock_MemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  STEP_IN("cuMemAllocFromPoolAsync");
  const object *from = mock_is(pool, POOL);
  if (!from || !mock_is(stream, STREAM) || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > mockcu.memory_bytes - used_of[from->device]) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUdeviceptr)(uintptr_t)add_buffer(bytes, false, from->device);
  return 0;
}
CUresult mock_MemFreeAsync(CUdeviceptr p, CUstream stream) {
  CUresult rc = mock_step("cuMemFreeAsync");
  (void)mock_is(stream, STREAM);
  return drop_buffer(rc, pointer_of(p), false);
}
CUresult mock_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  STEP_IN("cuMemHostAlloc");
  *out = add_buffer(bytes, true, 0);
  return 0;
}
CUresult mock_MemFreeHost(void *p) { return drop_buffer(mock_step("cuMemFreeHost"), p, true); }
CUresult mock_MemHostRegister(void *p, size_t bytes, unsigned flags) {
  STEP_IN("cuMemHostRegister");
  if (!p || !bytes || flags != CU_MEMHOSTREGISTER_PORTABLE) return CUDA_ERROR_INVALID_VALUE;
  mockcu.live++;
  return 0;
}
CUresult mock_MemHostUnregister(void *p) {
  const CUresult rc = mock_step("cuMemHostUnregister");
  if (!p) mock_misuse("lets go of memory that is null");
  mockcu.live--;
  return rc;
}
static CUresult check_range(CUdeviceptr p, size_t bytes) {
  if (mockcu_extent(pointer_of(p)) >= bytes || mock_is_shared(pointer_of(p), bytes)) return 0;
  mock_misuse("a range outside of every buffer");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult mock_MemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  STEP_IN("cuMemcpyHtoDAsync");
  if (mock_idle(stream) || check_range(dst, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memcpy(pointer_of(dst), src, bytes);
  add_read(src, bytes, stream);
  return 0;
}
CUresult mock_MemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  STEP_IN("cuMemcpyDtoHAsync");
  if (mock_idle(stream) || check_range(src, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memcpy(dst, pointer_of(src), bytes);
  return 0;
}
CUresult mock_MemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  STEP_IN("cuMemcpyDtoDAsync");
  if (mock_idle(stream) || check_range(dst, bytes) || check_range(src, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memcpy(pointer_of(dst), pointer_of(src), bytes);
  return 0;
}
CUresult mock_MemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  STEP_IN("cuMemsetD8Async");
  if (mock_idle(stream) || check_range(dst, n)) return CUDA_ERROR_INVALID_VALUE;
  memset(pointer_of(dst), value, n);
  return 0;
}
CUresult mock_DeviceCanAccessPeer(int *can, CUdevice reader, CUdevice owner) {
  STEP("cuDeviceCanAccessPeer");
  if (reader == owner) mock_misuse("a device and itself");
  *can = !mockcu.no_peers;
  return 0;
}
CUresult mock_MemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n) {
  STEP("cuMemPoolSetAccess");
  const object *owner = mock_is(pool, POOL);
  if (!owner || n != 1 || access->location_type != 1 || access->flags != CU_MEMPOOL_READ_WRITE)
    return CUDA_ERROR_INVALID_VALUE;
  open_to[owner->device][access->location_id] = true;
  return 0;
}
CUresult mock_MemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
                              CUstream stream) {
  STEP_IN("cuMemcpyPeerAsync");
  const object *a = mock_is(from, CONTEXT), *b = mock_is(to, CONTEXT);
  if (!a || !b || mock_idle(stream) || check_range(dst, bytes) || check_range(src, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (find_buffer(pointer_of(src))->device != a->device || find_buffer(pointer_of(dst))->device != b->device)
    mock_misuse("memory of another device");
  const object *s = mock_is(stream, STREAM);
  const bool sends = s && s->device == a->device; /* the device with src copies, else the one with dst */
  if (a != b && !(sends ? open_to[b->device][a->device] : open_to[a->device][b->device]))
    mock_misuse("a pool that is not open to the device that copies");
  memcpy(pointer_of(dst), pointer_of(src), bytes);
  mockcu.peer_copies++;
  return 0;
}
CUresult mock_PointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
  STEP("cuPointerGetAttribute");
  const buffer *b = find_buffer(pointer_of(p));
  if (attribute != CU_POINTER_DEVICE_ORDINAL || !b) return CUDA_ERROR_INVALID_VALUE;
  memcpy(value, &b->device, sizeof b->device);
  return 0;
}
