/* The driver table of src/cuda/driver.h over the emulator: the CUDA backend's host code runs unchanged on top. A stream does its work at
 * once; the first synchronisation behind a launch with reports fails, and its text is the first of them. */
#include "tests/emu/emu_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/emu.h"

enum { ERR_INVALID_VALUE = 1, ERR_NOT_FOUND = 500, ERR_LAUNCH_FAILED = 719, ERR_NOT_SUPPORTED = 801 };

#define MEMORY ((size_t)4 << 30)

static int handle; /* what handles without content point to */
static int sticky; /* of a launch with reports, until the next synchronisation */

static void *any(void) {
  return &handle;
}

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
  *name = rc == ERR_LAUNCH_FAILED ? "EMULATOR_REPORT" : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
static CUresult e_GetErrorString(CUresult rc, const char **text) {
  (void)rc;
  *text = emu_n_reports() ? emu_report_text(0) : "no report";
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetCount(int *n) {
  *n = 1;
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
  *bytes = MEMORY;
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  (void)device;
  *ctx = any();
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}
static CUresult e_CtxSetCurrent(CUcontext ctx) {
  (void)ctx;
  return CUDA_SUCCESS;
}
static CUresult synchronise(void) {
  int rc = sticky;
  sticky = CUDA_SUCCESS;
  return rc;
}
static CUresult e_CtxSynchronize(void) {
  return synchronise();
}

/* --- memory --- */

static CUresult e_MemGetInfo(size_t *free_bytes, size_t *total) {
  *free_bytes = *total = MEMORY;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  (void)properties;
  *pool = any();
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
  (void)pool, (void)attribute;
  memset(value, 0, 8);
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)pool, (void)keep;
  return CUDA_SUCCESS;
}
static CUresult e_MemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  (void)pool, (void)stream;
  void *p = emu_alloc(bytes);
  *out = (CUdeviceptr)(uintptr_t)p;
  return p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeAsync(CUdeviceptr p, CUstream stream) {
  (void)stream;
  return emu_free((void *)(uintptr_t)p) ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}
static CUresult e_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  *out = malloc(bytes ? bytes : 1);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeHost(void *p) {
  free(p);
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  void *p = (void *)(uintptr_t)dst;
  (void)stream;
  if (!emu_is_device(p, bytes)) return ERR_INVALID_VALUE;
  memcpy(p, src, bytes);
  emu_mark_written(p, bytes);
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  (void)stream;
  if (!emu_is_device((void *)(uintptr_t)src, bytes)) return ERR_INVALID_VALUE;
  memcpy(dst, (void *)(uintptr_t)src, bytes);
  return CUDA_SUCCESS;
}
static CUresult e_PointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
  (void)attribute;
  if (!emu_is_device((void *)(uintptr_t)p, 0)) return ERR_INVALID_VALUE;
  *(int *)value = 0;
  return CUDA_SUCCESS;
}
static CUresult e_MemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  void *p = (void *)(uintptr_t)dst;
  (void)stream;
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
  return synchronise();
}
static CUresult e_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
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
static CUresult e_EventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof(struct timespec));
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_EventDestroy(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}
static CUresult e_EventRecord(CUevent event, CUstream stream) {
  (void)stream;
  (void)clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)event);
  return CUDA_SUCCESS;
}
static CUresult e_EventSynchronize(CUevent event) {
  (void)event;
  return CUDA_SUCCESS;
}
static CUresult e_EventElapsedTime(float *ms, CUevent start, CUevent end) {
  const struct timespec *a = (const void *)start, *b = (const void *)end;
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
  emu_launch l = {.kernel = (const void *)function, .grid = {c->grid_x, c->grid_y, c->grid_z}, .block = {c->block_x, c->block_y, c->block_z},
                  .shared_bytes = c->shared_bytes, .args = params[0]};
  (void)extra;
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

static CUresult e_TensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes,
                                       const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob) {
  emu_clear_reports();
  return emu_tmap_encode(map, type, rank, base, dims, strides_bytes, box, element_strides, interleave, swizzle, l2, oob);
}

ga_cu emu_driver = {
#define X(name, symbol, params) .name = e_##name,
    GA_CU_SYMBOLS(X)
#undef X
    .version = 12040};
