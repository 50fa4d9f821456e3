/* The CUDA driver, loaded at run time: types, constants and entry points that GA uses. They are declared here so that a
 * machine without the CUDA toolkit builds this file too. Values are from the CUDA Driver API reference, version 12.0
 * and newer. */
#ifndef GA_CUDA_RT_DRIVER_H
#define GA_CUDA_RT_DRIVER_H

#include "ga/base.h"

typedef int CUresult; /* 0: CUDA_SUCCESS */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUdeviceptr;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803
};

/* Values of CUdevice_attribute. */
enum {
  CU_ATTR_MULTIPROCESSOR_COUNT = 16,
  CU_ATTR_L2_CACHE_SIZE = 38,
  CU_ATTR_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_ATTR_COMPUTE_CAPABILITY_MINOR = 76,
  CU_ATTR_PAGEABLE_MEMORY_ACCESS = 88,
  CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_ATTR_VIRTUAL_MEMORY_SUPPORTED = 102,
  /* The device can export memory as file descriptors. */
  CU_ATTR_POSIX_HANDLES_SUPPORTED = 103,
  CU_ATTR_MEMORY_POOLS_SUPPORTED = 115
};

/* Values of CUfunction_attribute. */
enum { CU_FUNC_LOCAL_SIZE_BYTES = 3, CU_FUNC_NUM_REGS = 4, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };

/* Values of CUmemPool_attribute. */
enum {
  CU_MEMPOOL_RELEASE_THRESHOLD = 4,
  CU_MEMPOOL_RESERVED_CURRENT = 5,
  CU_MEMPOOL_RESERVED_HIGH = 6,
  CU_MEMPOOL_USED_CURRENT = 7,
  CU_MEMPOOL_USED_HIGH = 8
};

typedef struct CUmemPoolProps {
  /* 1: CU_MEM_ALLOCATION_TYPE_PINNED, the only type of pools */
  int allocation_type;
  /* 0: the pool is not shared with other processes */
  int handle_types;
  /* 1: CU_MEM_LOCATION_TYPE_DEVICE */
  int location_type;
  /* Ordinal of the device, the driver's index. */
  int location_id;
  void *security;
  /* 0: the size is limited by the system only. */
  size_t max_bytes;
  unsigned char reserved[56];
} CUmemPoolProps;

typedef struct CUmemAccessDesc {
  int location_type, location_id; /* The device that gets access: 1 (CU_MEM_LOCATION_TYPE_DEVICE) and its ordinal. */
  int flags;
} CUmemAccessDesc;
enum { CU_MEMPOOL_READ_WRITE = 3 };

typedef unsigned long long CUmemory; /* CUmemGenericAllocationHandle of the driver API. */

typedef struct CUmemProps { /* CUmemAllocationProp of the driver API. */
  int allocation_type;      /* 1: CU_MEM_ALLOCATION_TYPE_PINNED */
  int handle_type;          /* Kind of exported handles: CU_MEM_HANDLE_POSIX. */
  int location_type;        /* 1: CU_MEM_LOCATION_TYPE_DEVICE */
  int location_id;
  void *security;
  unsigned char flags[8]; /* Compression, RDMA and usage flags, all 0. */
} CUmemProps;
enum { CU_MEM_HANDLE_POSIX = 1, CU_MEM_GRANULARITY_MINIMUM = 0 };

typedef struct CUcopy2D { /* CUDA_MEMCPY2D of the driver API. */
  size_t src_x, src_y;
  int src_type;
  const void *src_host;
  CUdeviceptr src;
  void *src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  int dst_type;
  void *dst_host;
  CUdeviceptr dst;
  void *dst_array;
  size_t dst_pitch, width, rows;
} CUcopy2D;
enum { CU_MEMORYTYPE_DEVICE = 2 };
enum { CU_STREAM_WAIT_GEQ = 0, CU_STREAM_WRITE_DEFAULT = 0 };

enum {
  CU_STREAM_NON_BLOCKING = 1,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTREGISTER_PORTABLE = 1,
  CU_POINTER_DEVICE_ORDINAL = 9
};
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_RECORD_EXTERNAL = 1 };
/* A relaxed capture of a stream is not ended by lazy loading or by work of other threads. */
enum { CU_CAPTURE_RELAXED = 2 };
enum { CU_CAPTURE_STATUS_NONE = 0 };

/* Values of the CUtensorMap enums. */
enum {
  CU_TMAP_UINT8 = 0,
  CU_TMAP_UINT16 = 1,
  CU_TMAP_UINT32 = 2,
  CU_TMAP_INT32 = 3,
  CU_TMAP_UINT64 = 4,
  CU_TMAP_INT64 = 5,
  CU_TMAP_FLOAT16 = 6,
  CU_TMAP_FLOAT32 = 7,
  CU_TMAP_FLOAT64 = 8,
  CU_TMAP_BFLOAT16 = 9
};
enum { CU_TMAP_INTERLEAVE_NONE = 0 };
enum { CU_TMAP_SWIZZLE_NONE = 0, CU_TMAP_SWIZZLE_32B = 1, CU_TMAP_SWIZZLE_64B = 2, CU_TMAP_SWIZZLE_128B = 3 };
enum { CU_TMAP_L2_NONE = 0, CU_TMAP_L2_64B = 1, CU_TMAP_L2_128B = 2, CU_TMAP_L2_256B = 3 };
enum { CU_TMAP_OOB_ZERO = 0, CU_TMAP_OOB_NAN = 1 };

/* Values of CUlaunchAttributeID. A CUlaunchAttribute has the id, then a union of 64 bytes. */
enum { CU_LAUNCH_CLUSTER_DIMENSION = 4, CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
typedef struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic;
    uint64_t align;
  } value;
} CUlaunchAttribute;

typedef struct CUlaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CUstream stream;
  CUlaunchAttribute *attributes;
  unsigned n_attributes;
} CUlaunchConfig;

/* GA_CU_SYMBOLS lists the driver's functions as X(name, symbol in the library, parameters). */
/* clang-format off */
#define GA_CU_SYMBOLS(X) \
  X(Init, cuInit, (unsigned flags)) \
  X(DriverGetVersion, cuDriverGetVersion, (int *version)) \
  X(GetErrorName, cuGetErrorName, (CUresult rc, const char **name)) \
  X(GetErrorString, cuGetErrorString, (CUresult rc, const char **text)) \
  X(DeviceGetCount, cuDeviceGetCount, (int *n)) \
  X(DeviceGet, cuDeviceGet, (CUdevice * device, int index)) \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId, (char *bus, int bytes, CUdevice device)) \
  X(DeviceGetName, cuDeviceGetName, (char *name, int bytes, CUdevice device)) \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device)) \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device)) \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * ctx, CUdevice device)) \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device)) \
  X(CtxSetCurrent, cuCtxSetCurrent, (CUcontext ctx)) \
  X(CtxSynchronize, cuCtxSynchronize, (void)) \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t * free_bytes, size_t *total)) \
  X(MemPoolCreate, cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties)) \
  X(MemPoolDestroy, cuMemPoolDestroy, (CUmemoryPool pool)) \
  X(MemPoolSetAttribute, cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value)) \
  X(MemPoolGetAttribute, cuMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void *value)) \
  X(MemPoolTrimTo, cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep)) \
  X(MemPoolSetAccess, cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t n)) \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, CUdevice reader, CUdevice owner)) \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync, \
    (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream)) \
  X(MemAllocFromPoolAsync, cuMemAllocFromPoolAsync, \
    (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream)) \
  X(MemFreeAsync, cuMemFreeAsync, (CUdeviceptr p, CUstream stream)) \
  X(MemHostAlloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags)) \
  X(MemFreeHost, cuMemFreeHost, (void *p)) \
  X(MemHostRegister, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags)) \
  X(MemHostUnregister, cuMemHostUnregister, (void *p)) \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream)) \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)) \
  X(Memcpy2DAsync, cuMemcpy2DAsync_v2, (const CUcopy2D *copy, CUstream stream)) \
  X(MemGetAllocationGranularity, cuMemGetAllocationGranularity, (size_t * out, const CUmemProps *props, int option)) \
  X(MemCreate, cuMemCreate, (CUmemory * out, size_t bytes, const CUmemProps *props, unsigned long long flags)) \
  X(MemRelease, cuMemRelease, (CUmemory memory)) \
  X(MemExport, cuMemExportToShareableHandle, (void *out, CUmemory memory, int type, unsigned long long flags)) \
  X(MemImport, cuMemImportFromShareableHandle, (CUmemory * out, void *handle, int type)) \
  X(MemAddressReserve, cuMemAddressReserve, \
    (CUdeviceptr * out, size_t bytes, size_t align, CUdeviceptr at, unsigned long long flags)) \
  X(MemAddressFree, cuMemAddressFree, (CUdeviceptr p, size_t bytes)) \
  X(MemMap, cuMemMap, (CUdeviceptr p, size_t bytes, size_t offset, CUmemory memory, unsigned long long flags)) \
  X(MemUnmap, cuMemUnmap, (CUdeviceptr p, size_t bytes)) \
  X(MemSetAccess, cuMemSetAccess, (CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)) \
  X(PointerGetAttribute, cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr p)) \
  X(MemsetD8Async, cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)) \
  X(MemsetD32Async, cuMemsetD32Async, (CUdeviceptr dst, unsigned value, size_t n, CUstream stream)) \
  X(StreamWriteValue32, cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags)) \
  X(StreamWaitValue32, cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags)) \
  X(StreamQuery, cuStreamQuery, (CUstream stream)) \
  X(StreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags)) \
  X(StreamDestroy, cuStreamDestroy_v2, (CUstream stream)) \
  X(StreamSynchronize, cuStreamSynchronize, (CUstream stream)) \
  X(StreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags)) \
  X(StreamGetCtx, cuStreamGetCtx, (CUstream stream, CUcontext * ctx)) \
  X(StreamIsCapturing, cuStreamIsCapturing, (CUstream stream, int *status)) \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, int mode)) \
  X(StreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph *graph)) \
  X(GraphInstantiate, cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags)) \
  X(GraphLaunch, cuGraphLaunch, (CUgraphExec exec, CUstream stream)) \
  X(GraphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec)) \
  X(GraphDestroy, cuGraphDestroy, (CUgraph graph)) \
  X(EventCreate, cuEventCreate, (CUevent * event, unsigned flags)) \
  X(EventDestroy, cuEventDestroy_v2, (CUevent event)) \
  X(EventRecord, cuEventRecord, (CUevent event, CUstream stream)) \
  X(EventRecordWithFlags, cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags)) \
  X(EventSynchronize, cuEventSynchronize, (CUevent event)) \
  X(EventQuery, cuEventQuery, (CUevent event)) \
  X(EventElapsedTime, cuEventElapsedTime, (float *ms, CUevent start, CUevent end)) \
  X(ModuleLoadData, cuModuleLoadData, (CUmodule * module, const void *image)) \
  X(ModuleUnload, cuModuleUnload, (CUmodule module)) \
  X(ModuleGetFunction, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name)) \
  X(FuncSetAttribute, cuFuncSetAttribute, (CUfunction function, int attribute, int value)) \
  X(FuncGetAttribute, cuFuncGetAttribute, (int *value, int attribute, CUfunction function)) \
  X(LaunchKernelEx, cuLaunchKernelEx, \
    (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)) \
  X(TensorMapEncodeTiled, cuTensorMapEncodeTiled, \
    (void *map, int type, unsigned rank, void *base, const uint64_t *dims, const uint64_t *strides_bytes, \
     const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob))
/* clang-format on */

typedef struct ga_cu {
#define X(name, symbol, params) CUresult(*name) params;
  GA_CU_SYMBOLS(X)
#undef X
  int version; /* Version of the driver API: 12040 is 12.4. */
} ga_cu;

/* Sets *out to the driver's entry points, which are loaded and initialised on first use. Later calls return the same
 * result.
 *
 * Returns GA_ERR_UNSUPPORTED if there is no driver or no device, or if the driver is too old. The error text says
 * which. */
GA_NODISCARD ga_status ga_cu_load(const ga_cu **out);

/* Returns an error whose text has the driver's name and text for rc. `what` is the name of the call, or the kernel's
 * id. */
GA_NODISCARD ga_status ga_cu_fail(const ga_cu *cu, CUresult rc, const char *what);

#define GA_CU(cu, name, ...)                                                       \
  do {                                                                             \
    CUresult ga_cu_rc_ = (cu)->name(__VA_ARGS__);                                  \
    if (ga_cu_rc_ != CUDA_SUCCESS) return ga_cu_fail((cu), ga_cu_rc_, "cu" #name); \
  } while (0)

/* Fills *out with the functions of a driver library, without initialising the driver. */
GA_NODISCARD ga_status ga_cu_open(const char *library, ga_cu *out);

/* Replaces the driver by `mock`, for tests. NULL: the real driver is used again. Not thread-safe. */
void ga_cu_replace(ga_cu *mock);

#endif
