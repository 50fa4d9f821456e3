/* The driver table of src/cuda/rt/driver.h over the emulator: the CUDA backend's host code runs unchanged on top. A
 * stream does its work at once, but for copies from page-locked memory, which it does as late as it may; the first
 * synchronisation behind a launch with reports fails, and its text is the first of them.
 * GA_EMU="devices=2,memory=64,nopeers,lose=100": so many devices, MiB on each, none of which reaches another, and from
 * the 100th call on (of those that work or allocate) the device is lost. */
#include "tests/emu/emu_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/emu.h"

enum { ERR_INVALID_VALUE = 1, ERR_LOST = 214, ERR_NOT_FOUND = 500, ERR_LAUNCH_FAILED = 719, ERR_NOT_SUPPORTED = 801 };
enum { MAX_DEVICES = 4, MAX_LATER = 64 };

/* What pools and contexts point to. */
typedef struct emu_device {
  size_t used;
} emu_device;
static emu_device devices[MAX_DEVICES];
static emu_device *current = devices;

static int handle; /* what handles without content point to */
static int sticky; /* of a launch with reports, until the next synchronisation */

static void *any(void) { return &handle; }

/* A number of GA_EMU; `otherwise` without it. */
static size_t setting(const char *name, size_t otherwise) {
  const char *e = getenv("GA_EMU"), *p = e ? strstr(e, name) : NULL;
  return p ? (size_t)strtoull(p + strlen(name), NULL, 10) : otherwise;
}
static size_t memory_bytes(void) { return setting("memory=", 4096) << 20; }

/* Counts a call that works or allocates; true when the device is gone by then. */
static bool lost(void) {
  static size_t calls;
  const size_t at = setting("lose=", 0);
  return ++calls >= at && at;
}
#define STEP()                   \
  do {                           \
    if (lost()) return ERR_LOST; \
  } while (0)

/* --- the device --- */

static CUresult e_Init(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}
static CUresult e_DriverGetVersion(int *version) {
  *version = 12040;
  return CUDA_SUCCESS;
}
static CUresult e_GetErrorName(CUresult rc, const char **name) {
  *name = rc == ERR_LAUNCH_FAILED          ? "EMULATOR_REPORT"
          : rc == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                           : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
static CUresult e_GetErrorString(CUresult rc, const char **text) {
  *text = rc == ERR_LOST ? "the device is lost" : emu_n_reports() ? emu_report_text(0) : "no report";
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetCount(int *n) {
  *n = (int)setting("devices=", 1);
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGet(CUdevice *device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetPCIBusId(char *bus, int bytes, CUdevice device) {
  (void)device;
  (void)snprintf(bus, (size_t)bytes, "none");
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetName(char *name, int bytes, CUdevice device) {
  (void)device;
  (void)snprintf(name, (size_t)bytes, "emulated sm_90a");
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  *value = attribute == CU_ATTR_MULTIPROCESSOR_COUNT                ? emu_settings()->sms
           : attribute == CU_ATTR_L2_CACHE_SIZE                     ? 50 << 20
           : attribute == CU_ATTR_COMPUTE_CAPABILITY_MAJOR          ? 9
           : attribute == CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 232448
           : attribute == CU_ATTR_MEMORY_POOLS_SUPPORTED            ? 1
                                                                    : 0;
  return CUDA_SUCCESS;
}
static CUresult e_DeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = memory_bytes();
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  *ctx = (CUcontext)(void *)&devices[device];
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}
static CUresult e_CtxSetCurrent(CUcontext ctx) {
  current = (emu_device *)(void *)ctx;
  return CUDA_SUCCESS;
}
static CUresult synchronise(void) {
  int rc = sticky;
  sticky = CUDA_SUCCESS;
  return rc;
}
static CUresult e_CtxSynchronize(void) { return synchronise(); }

/* --- memory --- */

/* Whose device memory is, and which host memory is page-locked. */
typedef struct piece {
  char *at;
  size_t bytes;
  emu_device *device; /* NULL: host */
} piece;
static piece *pieces;
static size_t n_pieces, pieces_capacity;

static piece *piece_holding(const void *p) {
  for (size_t i = 0; i < n_pieces; i++)
    if ((const char *)p >= pieces[i].at && (const char *)p < pieces[i].at + pieces[i].bytes) return &pieces[i];
  return NULL;
}
static bool add_piece(void *p, size_t bytes, emu_device *device) {
  if (n_pieces == pieces_capacity) {
    piece *more = realloc(pieces, (pieces_capacity = 2 * pieces_capacity + 64) * sizeof *more);
    if (!more) return false;
    pieces = more;
  }
  pieces[n_pieces++] = (piece){.at = p, .bytes = bytes, .device = device};
  if (device) device->used += bytes;
  return true;
}
static void drop_piece(const void *p) {
  piece *at = piece_holding(p);
  if (!at) return;
  if (at->device) at->device->used -= at->bytes;
  *at = pieces[--n_pieces];
}

/* Copies from page-locked memory that are still to be done, in order; `done` of them are. */
static struct {
  void *dst;
  const void *src;
  size_t bytes;
} later[MAX_LATER];
static size_t enqueued, done;

static void do_later(size_t until) {
  for (; done < until; done++) {
    memcpy(later[done % MAX_LATER].dst, later[done % MAX_LATER].src, later[done % MAX_LATER].bytes);
    emu_mark_written(later[done % MAX_LATER].dst, later[done % MAX_LATER].bytes);
  }
}

static CUresult e_MemGetInfo(size_t *free_bytes, size_t *total) {
  *total = memory_bytes();
  *free_bytes = *total - current->used;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  *pool = (CUmemoryPool)(void *)&devices[properties->location_id];
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolDestroy(CUmemoryPool pool) {
  (void)pool;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  (void)pool, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  const uint64_t used = ((const emu_device *)(const void *)pool)->used;
  (void)attribute;
  memcpy(value, &used, sizeof used);
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)pool, (void)keep;
  return CUDA_SUCCESS;
}
static CUresult e_MemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  emu_device *d = (emu_device *)(void *)pool;
  (void)stream;
  STEP();
  if (bytes > memory_bytes() - d->used) return CUDA_ERROR_OUT_OF_MEMORY;
  void *p = emu_alloc(bytes);
  *out = (CUdeviceptr)(uintptr_t)p;
  return p && add_piece(p, bytes, d) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeAsync(CUdeviceptr p, CUstream stream) {
  (void)stream;
  do_later(enqueued);
  drop_piece((void *)(uintptr_t)p);
  return emu_free((void *)(uintptr_t)p) ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}
static CUresult e_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  STEP();
  *out = malloc(bytes ? bytes : 1);
  return *out && add_piece(*out, bytes, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeHost(void *p) {
  do_later(enqueued);
  drop_piece(p);
  free(p);
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  void *p = (void *)(uintptr_t)dst;
  (void)stream;
  STEP();
  if (!emu_is_device(p, bytes)) return ERR_INVALID_VALUE;
  if (enqueued - done == MAX_LATER) do_later(enqueued);
  later[enqueued % MAX_LATER].dst = p;
  later[enqueued % MAX_LATER].src = src;
  later[enqueued++ % MAX_LATER].bytes = bytes;
  if (!piece_holding(src)) do_later(enqueued); /* pageable memory has been read when the call returns */
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  (void)stream;
  STEP();
  do_later(enqueued);
  if (!emu_is_device((void *)(uintptr_t)src, bytes)) return ERR_INVALID_VALUE;
  memcpy(dst, (void *)(uintptr_t)src, bytes);
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  (void)stream;
  STEP();
  do_later(enqueued);
  if (!emu_is_device((void *)(uintptr_t)src, bytes) || !emu_is_device((void *)(uintptr_t)dst, bytes))
    return ERR_INVALID_VALUE;
  memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
  return CUDA_SUCCESS;
}
static CUresult e_DeviceCanAccessPeer(int *can, CUdevice reader, CUdevice owner) {
  const char *e = getenv("GA_EMU");
  *can = reader != owner && !(e && strstr(e, "nopeers"));
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n) {
  (void)pool, (void)access, (void)n;
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
                                  CUstream stream) {
  void *d = (void *)(uintptr_t)dst, *s = (void *)(uintptr_t)src;
  (void)stream;
  STEP();
  do_later(enqueued);
  if (!emu_is_device(d, bytes) || !emu_is_device(s, bytes)) return ERR_INVALID_VALUE;
  if ((void *)piece_holding(d)->device != (void *)to || (void *)piece_holding(s)->device != (void *)from)
    return ERR_INVALID_VALUE;
  memcpy(d, s, bytes);
  emu_mark_written(d, bytes);
  return CUDA_SUCCESS;
}
static CUresult e_PointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
  const piece *at = piece_holding((void *)(uintptr_t)p);
  (void)attribute;
  if (!at || !at->device) return ERR_INVALID_VALUE;
  *(int *)value = (int)(at->device - devices);
  return CUDA_SUCCESS;
}
static CUresult e_MemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  void *p = (void *)(uintptr_t)dst;
  (void)stream;
  STEP();
  do_later(enqueued);
  if (!emu_is_device(p, n)) return ERR_INVALID_VALUE;
  memset(p, value, n);
  emu_mark_written(p, n);
  return CUDA_SUCCESS;
}

/* --- streams, events; no graphs --- */

static CUresult e_StreamCreate(CUstream *stream, unsigned flags) {
  (void)flags;
  *stream = any();
  return CUDA_SUCCESS;
}
static CUresult e_StreamDestroy(CUstream stream) {
  (void)stream;
  return CUDA_SUCCESS;
}
static CUresult e_StreamSynchronize(CUstream stream) {
  (void)stream;
  STEP();
  do_later(enqueued);
  return synchronise();
}
static CUresult e_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return CUDA_SUCCESS;
}
/* Streams order nothing here, so all are of the device at hand. */
static CUresult e_StreamGetCtx(CUstream stream, CUcontext *ctx) {
  (void)stream;
  *ctx = (CUcontext)(void *)current;
  return CUDA_SUCCESS;
}
static CUresult e_StreamIsCapturing(CUstream stream, int *status) {
  (void)stream;
  *status = CU_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
static CUresult e_StreamBeginCapture(CUstream stream, int mode) {
  (void)stream, (void)mode;
  return ERR_NOT_SUPPORTED;
}
static CUresult e_StreamEndCapture(CUstream stream, CUgraph *graph) {
  (void)stream, (void)graph;
  return ERR_NOT_SUPPORTED;
}
static CUresult e_GraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  (void)exec, (void)graph, (void)flags;
  return ERR_NOT_SUPPORTED;
}
static CUresult e_GraphLaunch(CUgraphExec exec, CUstream stream) {
  (void)exec, (void)stream;
  return ERR_NOT_SUPPORTED;
}
static CUresult e_GraphExecDestroy(CUgraphExec exec) {
  (void)exec;
  return CUDA_SUCCESS;
}
static CUresult e_GraphDestroy(CUgraph graph) {
  (void)graph;
  return CUDA_SUCCESS;
}
typedef struct emu_event {
  struct timespec at;
  size_t copies; /* enqueued before it */
} emu_event;

static CUresult e_EventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof(emu_event));
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_EventDestroy(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}
static CUresult e_EventRecord(CUevent event, CUstream stream) {
  emu_event *e = (void *)event;
  (void)stream;
  STEP();
  (void)clock_gettime(CLOCK_MONOTONIC, &e->at);
  e->copies = enqueued;
  return CUDA_SUCCESS;
}
static CUresult e_EventSynchronize(CUevent event) {
  STEP();
  do_later(((const emu_event *)(const void *)event)->copies);
  return CUDA_SUCCESS;
}
static CUresult e_EventElapsedTime(float *ms, CUevent start, CUevent end) {
  const struct timespec *a = &((const emu_event *)(const void *)start)->at,
                        *b = &((const emu_event *)(const void *)end)->at;
  *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
  return CUDA_SUCCESS;
}

/* --- kernels: an image is the emulator's description of the row --- */

static CUresult e_ModuleLoadData(CUmodule *module, const void *image) {
  memcpy(module, &image, sizeof image);
  return CUDA_SUCCESS;
}
static CUresult e_ModuleUnload(CUmodule module) {
  (void)module;
  return CUDA_SUCCESS;
}
static CUresult e_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  const emu_kernel *k = (const void *)module;
  if (strcmp(k->id, name)) return ERR_NOT_FOUND;
  memcpy(function, &module, sizeof module);
  return CUDA_SUCCESS;
}
static CUresult e_FuncSetAttribute(CUfunction function, int attribute, int value) {
  (void)function, (void)attribute;
  return value <= 232448 ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}
static CUresult e_FuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)attribute, (void)function;
  *value = 0;
  return CUDA_SUCCESS;
}

static CUresult e_LaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
  emu_launch l = {.kernel = (const void *)function,
                  .grid = {c->grid_x, c->grid_y, c->grid_z},
                  .block = {c->block_x, c->block_y, c->block_z},
                  .shared_bytes = c->shared_bytes,
                  .args = params[0]};
  (void)extra;
  STEP();
  do_later(enqueued);
  for (unsigned i = 0; i < c->n_attributes; i++) {
    const CUlaunchAttribute *a = &c->attributes[i];
    if (a->id == CU_LAUNCH_CLUSTER_DIMENSION) {
      l.cluster[0] = a->value.cluster.x;
      l.cluster[1] = a->value.cluster.y;
      l.cluster[2] = a->value.cluster.z;
    } else if (a->id == CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION) {
      l.dependent = a->value.programmatic != 0;
    }
  }
  if (sticky) return sticky;
  emu_clear_reports();
  if (!emu_run_launch(&l)) return CUDA_SUCCESS;
  for (size_t i = 0; i < emu_n_reports(); i++) (void)fprintf(stderr, "%s\n", emu_report_text(i));
  sticky = ERR_LAUNCH_FAILED; /* as on a GPU, it comes up at the next synchronisation */
  return CUDA_SUCCESS;
}

static CUresult e_TensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *dims,
                                       const uint64_t *strides_bytes, const uint32_t *box,
                                       const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob) {
  emu_clear_reports();
  return emu_tmap_encode(map, type, rank, base, dims, strides_bytes, box, element_strides, interleave, swizzle, l2,
                         oob);
}

ga_cu emu_driver = {
#define X(name, symbol, params) .name = e_##name,
    GA_CU_SYMBOLS(X)
#undef X
        .version = 12040};
