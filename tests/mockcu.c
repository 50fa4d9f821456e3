#include "tests/mockcu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_MOST 232448u
#define MAX_BUFFERS 512

enum { ERR_INVALID_CONTEXT = 201, ERR_LAUNCH_RESOURCES = 701, ERR_CAPTURE = 900 };

typedef enum kind { CONTEXT = 0x11, MODULE, FUNCTION, STREAM, EVENT, POOL, GRAPH, EXEC } kind;

/* What every handle points to. */
typedef struct object {
  kind what;
  bool capturing;
  int nodes;
  int shared_most;
  struct object *function; /* of a module */
  char name[96];
} object;

typedef struct buffer {
  char *at;
  size_t bytes;
  bool host;
} buffer;

mock_driver mockcu;
static buffer buffers[MAX_BUFFERS];
static size_t n_buffers;
static object *current, *contexts[8];

void mockcu_reset(void) {
  mockcu = (mock_driver){.devices = 2, .version = 12040, .major = 9, .minor = 0, .memory_bytes = (size_t)1 << 30, .args_bytes = 72};
  current = NULL;
}

static void misuse(const char *text) {
  if (!mockcu.misuse[0]) (void)snprintf(mockcu.misuse, sizeof mockcu.misuse, "%s: %s", mockcu.last_call, text);
}

/* Counts a call; the code it must fail with, or 0. */
static CUresult step(const char *name) {
  (void)snprintf(mockcu.last_call, sizeof mockcu.last_call, "%s", name);
  if (++mockcu.calls == mockcu.fail_call) return mockcu.fail_rc;
  return mockcu.fail_name && !strcmp(name, mockcu.fail_name) ? mockcu.fail_rc : CUDA_SUCCESS;
}

/* As step, for calls that need a current context. */
static CUresult step_in(const char *name) {
  CUresult rc = step(name);
  if (rc != CUDA_SUCCESS) return rc;
  if (current) return CUDA_SUCCESS;
  misuse("no context is current");
  return ERR_INVALID_CONTEXT;
}

#define STEP(name)                        \
  do {                                    \
    CUresult step_rc_ = step(name);       \
    if (step_rc_) return step_rc_;        \
  } while (0)
#define STEP_IN(name)                     \
  do {                                    \
    CUresult step_rc_ = step_in(name);    \
    if (step_rc_) return step_rc_;        \
  } while (0)

static void *make(kind what) {
  object *o = calloc(1, sizeof *o);
  if (!o) abort();
  o->what = what;
  mockcu.live++;
  return o;
}

static object *is(void *handle, kind what) {
  object *o = handle;
  if (o && o->what == what) return o;
  misuse("a handle of another kind, or none");
  return NULL;
}

/* Gives back even when the call is told to fail: what a driver does then is unknown, and not GA's leak. */
static CUresult drop(const char *name, void *handle, kind what) {
  CUresult rc = step(name);
  object *o = is(handle, what);
  if (!o) return CUDA_ERROR_INVALID_VALUE;
  o->what = 0;
  free(o->function);
  free(o);
  mockcu.live--;
  return rc;
}

/* --- start, devices --- */

static CUresult mock_Init(unsigned flags) {
  (void)flags;
  STEP("cuInit");
  return mockcu.init_rc;
}
static CUresult mock_DriverGetVersion(int *version) {
  STEP("cuDriverGetVersion");
  *version = mockcu.version;
  return 0;
}
static CUresult mock_GetErrorName(CUresult rc, const char **name) {
  *name = rc == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_MOCK";
  return 0;
}
static CUresult mock_GetErrorString(CUresult rc, const char **text) {
  *text = rc == 700 ? "an illegal memory access was encountered" : "told to fail";
  return 0;
}
static CUresult mock_DeviceGetCount(int *n) {
  STEP("cuDeviceGetCount");
  *n = mockcu.devices;
  return 0;
}
static CUresult mock_DeviceGet(CUdevice *device, int index) {
  STEP("cuDeviceGet");
  *device = 100 + index;
  return 0;
}
static CUresult mock_DeviceGetName(char *name, int bytes, CUdevice device) {
  STEP("cuDeviceGetName");
  (void)snprintf(name, (size_t)bytes, "Mock %d", device - 100);
  return 0;
}
static CUresult mock_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  STEP("cuDeviceGetAttribute");
  switch (attribute) {
  case CU_ATTR_COMPUTE_CAPABILITY_MAJOR: *value = mockcu.major; break;
  case CU_ATTR_COMPUTE_CAPABILITY_MINOR: *value = mockcu.minor; break;
  case CU_ATTR_MULTIPROCESSOR_COUNT: *value = 4; break;
  case CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = (int)SHARED_MOST; break;
  case CU_ATTR_PAGEABLE_MEMORY_ACCESS: *value = 0; break;
  default: *value = 1;
  }
  return 0;
}
static CUresult mock_DeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  STEP("cuDeviceTotalMem");
  *bytes = mockcu.memory_bytes;
  return 0;
}
static CUresult mock_DevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  STEP("cuDevicePrimaryCtxRetain");
  contexts[device - 100] = make(CONTEXT);
  *ctx = (CUcontext)contexts[device - 100];
  return 0;
}
static CUresult mock_DevicePrimaryCtxRelease(CUdevice device) {
  CUresult rc = drop("cuDevicePrimaryCtxRelease", contexts[device - 100], CONTEXT);
  if (current == contexts[device - 100]) current = NULL;
  contexts[device - 100] = NULL;
  return rc;
}
static CUresult mock_CtxSetCurrent(CUcontext ctx) {
  STEP("cuCtxSetCurrent");
  current = is(ctx, CONTEXT);
  return 0;
}
static CUresult mock_CtxSynchronize(void) {
  STEP_IN("cuCtxSynchronize");
  return 0;
}

/* --- memory --- */

static buffer *find(const void *p) {
  for (size_t i = 0; i < n_buffers; i++)
    if ((const char *)p >= buffers[i].at && (const char *)p < buffers[i].at + buffers[i].bytes) return &buffers[i];
  return NULL;
}
size_t mockcu_extent(const void *p) {
  const buffer *b = find(p);
  return b ? (size_t)(b->at + b->bytes - (const char *)p) : 0;
}
static void *add_buffer(size_t bytes, bool host) {
  char *p = n_buffers < MAX_BUFFERS ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
  if (!p) abort();
  memset(p, 0xcd, bytes);
  buffers[n_buffers++] = (buffer){.at = p, .bytes = bytes, .host = host};
  mockcu.live++;
  if (!host) mockcu.used_bytes += bytes;
  if (mockcu.used_bytes > mockcu.used_peak) mockcu.used_peak = mockcu.used_bytes;
  return p;
}
static CUresult drop_buffer(CUresult rc, const void *p, bool host) {
  buffer *b = find(p);
  if (!b || b->at != p || b->host != host) {
    misuse("frees what is no buffer");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!host) mockcu.used_bytes -= b->bytes;
  free(b->at);
  *b = buffers[--n_buffers];
  mockcu.live--;
  return rc;
}
static void *at(CUdeviceptr p) {
  return (void *)(uintptr_t)p;
}

static CUresult mock_MemGetInfo(size_t *free_bytes, size_t *total) {
  STEP_IN("cuMemGetInfo");
  *total = mockcu.memory_bytes;
  *free_bytes = mockcu.memory_bytes - mockcu.used_bytes;
  return 0;
}
static CUresult mock_MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *p) {
  STEP_IN("cuMemPoolCreate");
  if (p->allocation_type != 1 || p->location_type != 1 || sizeof *p != 88) misuse("properties of a pool");
  *pool = make(POOL);
  return 0;
}
static CUresult mock_MemPoolDestroy(CUmemoryPool pool) {
  return drop("cuMemPoolDestroy", pool, POOL);
}
static CUresult mock_MemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  (void)attribute, (void)value;
  STEP("cuMemPoolSetAttribute");
  return is(pool, POOL) ? 0 : 1;
}
static CUresult mock_MemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  STEP("cuMemPoolGetAttribute");
  uint64_t v = attribute == CU_MEMPOOL_USED_CURRENT ? mockcu.used_bytes
               : attribute == CU_MEMPOOL_RESERVED_CURRENT ? mockcu.used_bytes + 4096 : mockcu.used_peak + 4096;
  memcpy(value, &v, sizeof v);
  return is(pool, POOL) ? 0 : 1;
}
static CUresult mock_MemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)keep;
  STEP("cuMemPoolTrimTo");
  return is(pool, POOL) ? 0 : 1;
}
static CUresult mock_MemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  STEP_IN("cuMemAllocFromPoolAsync");
  if (!is(pool, POOL) || !is(stream, STREAM) || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > mockcu.memory_bytes - mockcu.used_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUdeviceptr)(uintptr_t)add_buffer(bytes, false);
  return 0;
}
static CUresult mock_MemFreeAsync(CUdeviceptr p, CUstream stream) {
  CUresult rc = step("cuMemFreeAsync");
  (void)is(stream, STREAM);
  return drop_buffer(rc, at(p), false);
}
static CUresult mock_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  STEP_IN("cuMemHostAlloc");
  *out = add_buffer(bytes, true);
  return 0;
}
static CUresult mock_MemFreeHost(void *p) {
  return drop_buffer(step("cuMemFreeHost"), p, true);
}
static CUresult check_range(CUdeviceptr p, size_t bytes) {
  if (mockcu_extent(at(p)) >= bytes) return 0;
  misuse("a range outside of every buffer");
  return CUDA_ERROR_INVALID_VALUE;
}
static CUresult idle(CUstream stream) {
  object *s = is(stream, STREAM);
  if (s && !s->capturing) return 0;
  misuse("a stream that captures");
  return ERR_CAPTURE;
}
static CUresult mock_MemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  STEP_IN("cuMemcpyHtoDAsync");
  if (idle(stream) || check_range(dst, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memcpy(at(dst), src, bytes);
  return 0;
}
static CUresult mock_MemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  STEP_IN("cuMemcpyDtoHAsync");
  if (idle(stream) || check_range(src, bytes)) return CUDA_ERROR_INVALID_VALUE;
  memcpy(dst, at(src), bytes);
  return 0;
}
static CUresult mock_MemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  STEP_IN("cuMemsetD8Async");
  if (idle(stream) || check_range(dst, n)) return CUDA_ERROR_INVALID_VALUE;
  memset(at(dst), value, n);
  return 0;
}
static CUresult mock_PointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
  STEP("cuPointerGetAttribute");
  const int ordinal = 0;
  if (attribute != CU_POINTER_DEVICE_ORDINAL || !mockcu_extent(at(p))) return CUDA_ERROR_INVALID_VALUE;
  memcpy(value, &ordinal, sizeof ordinal);
  return 0;
}

/* --- streams, events, graphs --- */

static CUresult mock_StreamCreate(CUstream *stream, unsigned flags) {
  STEP_IN("cuStreamCreate");
  if (flags != CU_STREAM_NON_BLOCKING) misuse("a stream that waits for the default one");
  *stream = make(STREAM);
  return 0;
}
static CUresult mock_StreamDestroy(CUstream stream) {
  return drop("cuStreamDestroy", stream, STREAM);
}
static CUresult mock_StreamSynchronize(CUstream stream) {
  STEP_IN("cuStreamSynchronize");
  return idle(stream);
}
static CUresult mock_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)flags;
  STEP_IN("cuStreamWaitEvent");
  return is(stream, STREAM) && is(event, EVENT) ? 0 : 1;
}
static CUresult mock_StreamBeginCapture(CUstream stream, int mode) {
  STEP_IN("cuStreamBeginCapture");
  if (mode != CU_CAPTURE_RELAXED) misuse("mode of a capture");
  if (idle(stream)) return ERR_CAPTURE;
  ((object *)stream)->capturing = true;
  ((object *)stream)->nodes = 0;
  return 0;
}
/* The capture ends even when the call is told to fail. */
static CUresult mock_StreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult rc = step("cuStreamEndCapture");
  object *s = is(stream, STREAM);
  if (!s || !s->capturing) {
    misuse("ends what was not begun");
    return ERR_CAPTURE;
  }
  s->capturing = false;
  if (rc) return rc;
  *graph = make(GRAPH);
  return 0;
}
static CUresult mock_GraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  (void)flags;
  STEP_IN("cuGraphInstantiate");
  if (!is(graph, GRAPH)) return 1;
  *exec = make(EXEC);
  return 0;
}
static CUresult mock_GraphLaunch(CUgraphExec exec, CUstream stream) {
  STEP_IN("cuGraphLaunch");
  mockcu.graph_launches++;
  return is(exec, EXEC) ? idle(stream) : 1;
}
static CUresult mock_GraphExecDestroy(CUgraphExec exec) {
  return drop("cuGraphExecDestroy", exec, EXEC);
}
static CUresult mock_GraphDestroy(CUgraph graph) {
  return drop("cuGraphDestroy", graph, GRAPH);
}
static CUresult mock_EventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  STEP_IN("cuEventCreate");
  *event = make(EVENT);
  return 0;
}
static CUresult mock_EventDestroy(CUevent event) {
  return drop("cuEventDestroy", event, EVENT);
}
static CUresult mock_EventRecord(CUevent event, CUstream stream) {
  STEP_IN("cuEventRecord");
  return is(event, EVENT) && is(stream, STREAM) ? 0 : 1;
}
static CUresult mock_EventSynchronize(CUevent event) {
  STEP_IN("cuEventSynchronize");
  return is(event, EVENT) ? 0 : 1;
}
static CUresult mock_EventElapsedTime(float *ms, CUevent start, CUevent end) {
  STEP_IN("cuEventElapsedTime");
  *ms = 1.5f;
  return is(start, EVENT) && is(end, EVENT) ? 0 : 1;
}

/* --- modules, launches --- */

static CUresult mock_ModuleLoadData(CUmodule *module, const void *image) {
  STEP_IN("cuModuleLoadData");
  if (!image) misuse("an image that is null");
  mockcu.loads++;
  mockcu.loaded_image = image;
  *module = make(MODULE);
  return 0;
}
static CUresult mock_ModuleUnload(CUmodule module) {
  return drop("cuModuleUnload", module, MODULE);
}
static CUresult mock_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  STEP_IN("cuModuleGetFunction");
  object *m = is(module, MODULE), *f = calloc(1, sizeof *f);
  if (!m || !f) abort();
  f->what = FUNCTION;
  f->shared_most = 48 * 1024;
  (void)snprintf(f->name, sizeof f->name, "%s", name);
  m->function = f;
  *function = (CUfunction)f;
  return 0;
}
static CUresult mock_FuncSetAttribute(CUfunction function, int attribute, int value) {
  STEP_IN("cuFuncSetAttribute");
  object *f = is(function, FUNCTION);
  if (!f) return 1;
  if (attribute == CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES) f->shared_most = value;
  return value <= (int)SHARED_MOST ? 0 : CUDA_ERROR_INVALID_VALUE;
}
static CUresult mock_FuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)attribute;
  STEP_IN("cuFuncGetAttribute");
  *value = 0;
  return is(function, FUNCTION) ? 0 : 1;
}
static bool legal(const CUlaunchConfig *c, const object *f) {
  uint64_t threads = (uint64_t)c->block_x * c->block_y * c->block_z;
  if (!c->grid_x || !c->grid_y || !c->grid_z || c->grid_x > 0x7fffffffu || c->grid_y > 65535 || c->grid_z > 65535) return false;
  return threads && threads <= 1024 && c->block_z <= 64 && c->shared_bytes <= (unsigned)f->shared_most && c->n_attributes <= 2;
}
static CUresult mock_LaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
  STEP_IN("cuLaunchKernelEx");
  object *f = is(function, FUNCTION), *s = is(c->stream, STREAM);
  if (!f || !s || extra || !params || !params[0]) {
    misuse("handles or parameters");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!legal(c, f)) {
    misuse("a shape that no device launches");
    return ERR_LAUNCH_RESOURCES;
  }
  mock_launch *l = &mockcu.last;
  *l = (mock_launch){.grid = {c->grid_x, c->grid_y, c->grid_z}, .block = {c->block_x, c->block_y, c->block_z},
                     .shared_bytes = c->shared_bytes, .n_attributes = c->n_attributes, .captured = s->capturing};
  (void)snprintf(l->id, sizeof l->id, "%s", f->name);
  memcpy(l->args, params[0], mockcu.args_bytes);
  mockcu.launches++;
  mockcu.nodes += s->capturing;
  return 0;
}
static CUresult mock_TensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *dims,
                                          const uint64_t *strides_bytes, const uint32_t *box, const uint32_t *element_strides,
                                          int interleave, int swizzle, int l2, int oob) {
  (void)type, (void)interleave, (void)swizzle, (void)l2, (void)oob;
  STEP("cuTensorMapEncodeTiled");
  bool ok = (uintptr_t)map % 64 == 0 && (uintptr_t)base % 16 == 0 && rank >= 1 && rank <= 5;
  for (unsigned i = 0; ok && i < rank; i++) {
    ok = dims[i] >= 1 && dims[i] <= (uint64_t)1 << 32 && box[i] >= 1 && box[i] <= 256 && element_strides[i] == 1;
    if (ok && i + 1 < rank) ok = strides_bytes[i] % 16 == 0 && strides_bytes[i] < (uint64_t)1 << 40;
  }
  if (!ok) misuse("a tensor map");
  memset(map, 0x7a, 128);
  return ok ? 0 : CUDA_ERROR_INVALID_VALUE;
}

ga_cu mockcu_table = {
#define X(name_, symbol, params) .name_ = mock_##name_,
    GA_CU_SYMBOLS(X)
#undef X
};
