/* Host side of the CUDA backend. CUDA types are used nowhere else.
 *
 * Kernels are declared in src/cuda/kern/<family>/<kernel>.toml. Each is compiled to an image, embedded in the build,
 * and loaded when it is first planned. A kernel without an image in the build is compiled at run time if NVRTC is
 * present (jit.h). */
#ifndef GA_CUDA_RT_CUDA_H
#define GA_CUDA_RT_CUDA_H

#include "core/steps.h"
#include "cuda/rt/driver.h"
#include "opdef/ops.h"

extern const ga_backend ga_cuda_backend;

/* --- tables that the build embeds; each ends with an entry whose id or path is NULL --- */

typedef struct cuda_image {
  const char *id;
  const unsigned char *data, *end; /* First byte, and end, of a cubin or of a fat binary of several cubins. */
} cuda_image;
typedef struct cuda_source_part {
  const char *text, *end;
} cuda_source_part;
typedef struct cuda_source {
  /* Path of the file, as a string equal to the field ga_kernel.source of its kernels. */
  const char *path;
  /* Parts of the file's text, without #include. An entry with text NULL ends the array. Sources share parts. */
  const cuda_source_part *parts;
} cuda_source;
extern const cuda_image ga_cuda_images[];
extern const cuda_source ga_cuda_sources[];

const cuda_image *cuda_image_of(const char *id);
const cuda_source *cuda_source_of(const char *path);
/* Replaces the tables of images and of sources, for tests. NULL: the build's table is used again. Not thread-safe. */
void cuda_replace_tables(const cuda_image *images, const cuda_source *sources);

/* Data of a CUDA kernel. It is the first member of every CUDA kernel's `impl`. */
typedef struct cuda_variant {
  /* Values of the kernel's parameters GA_P_*, such as "DTYPE=bf16, D=128". */
  const char *params;
  uint32_t threads, shared_bytes;
  uint32_t static_bytes; /* Bytes of static shared memory, which the kernel declares. */
} cuda_variant;

const ga_kernel *cuda_rows(size_t *n);
/* Refuses every description: returns a reject reason. It is the ga_kernel_ok of helper rows, which only other kernels
 * launch as steps. */
const char *cuda_step_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_step(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* --- devices and streams --- */

typedef struct cuda_function {
  CUmodule module;
  CUfunction function;
} cuda_function;

typedef struct cuda_stream cuda_stream;

typedef struct cuda_device {
  ga_device base;
  const ga_cu *cu;
  CUdevice device;
  /* ordinal is the driver's index of the device; capability is its compute capability, 90 for 9.0. */
  int ordinal, capability;
  bool host_pointers; /* True if kernels may read any host memory. */
  CUcontext context;
  /* Memory pool of GA. The process's default pool is not used, because other libraries may use it. */
  CUmemoryPool pool;
  /* Stream for allocations and frees. */
  CUstream memory_stream;
  /* Event by which frees, and copies to other devices, wait for the device's streams. */
  CUevent fence;
  uint64_t reaches,
      /* Sets of devices, as bits 1 << ordinal. reaches: devices that may read this device's pool. reached: devices
       * whose access has been tried. */
      reached;
  cuda_stream *streams;
  /* Counters that are allocated in advance, for a stream that is wrapped while the caller records it. */
  CUdeviceptr spare_counters;
  /* Buffers that were freed while the caller recorded a stream. They are returned to the pool later. */
  void **kept;
  size_t n_kept, kept_room;
  /* Kernels that this device can run. base.kernels points to this array. */
  ga_kernel *rows;
  int32_t *row_at; /* Index in `rows` of each kernel that cuda_rows returns. -1: the device cannot run the kernel. */
  /* One function for each entry of rows, loaded when its kernel is first planned. */
  cuda_function *functions;
  /* PCI address, by which NVML finds the device. */
  char bus[32];
  /* Id of the kernel that was launched last. Texts of errors name it. */
  const char *last_id;
} cuda_device;

/* Bytes of a set of counters, which kernels use to divide and join work. Counters are zero before a launch, and zero
 * again after it.
 *
 * Each stream and each graph has its own set. A wrapped stream has two sets: one for direct launches, and one for
 * recordings by its owner. */
#define CUDA_COUNTER_BYTES 16384

struct cuda_stream {
  ga_stream base;
  CUstream handle;
  CUdeviceptr counters;
  /* The set of counters for recorded launches. The caller's stream (base.wrapped) always has one; others have one only
   * while they record. */
  CUdeviceptr graph_counters;
  cuda_stream *next;
};

static inline cuda_device *cuda_device_of(const ga_stream *stream) { return (cuda_device *)stream->device; }
static inline CUstream cuda_handle_of(const ga_stream *stream) { return ((const cuda_stream *)stream)->handle; }
/* Returns the counters that a launch on this stream uses. */
CUdeviceptr cuda_counters_of(const ga_stream *stream);

/* Makes the device's CUDA context current. Every function of the backend calls it first, because a thread may use
 * several devices. */
GA_NODISCARD static inline ga_status cuda_enter(const cuda_device *device) {
  GA_CU(device->cu, CtxSetCurrent, device->context);
  return GA_OK;
}
/* Makes the device's CUDA context current and ignores errors, for functions that release something and cannot fail. */
static inline void cuda_enter_late(const cuda_device *device) {
  /* a second attempt, because what follows releases memory and handles, and can report nothing */
  if (device->cu->CtxSetCurrent(device->context) != CUDA_SUCCESS) (void)device->cu->CtxSetCurrent(device->context);
}

/* --- launching --- */

typedef struct cuda_launch {
  /* Numbers of blocks of the grid, of threads of a block, and of blocks of a cluster, in three dimensions. cluster 0:
   * no cluster. */
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes; /* Bytes of dynamic shared memory. */
  /* True: the launch may start before the previous launch has ended (griddepcontrol). */
  bool dependent;
} cuda_launch;

/* Enqueues a function with one argument struct, passed by value. Error texts name `id`, which is also stored as
 * cuda_device.last_id. */
GA_NODISCARD ga_status cuda_start(ga_stream *stream, CUfunction function, const char *id, const cuda_launch *launch,
                                  const void *args);
/* Loads the kernel's code to the device. It is the function ga_code.prepare of the backend. */
GA_NODISCARD ga_status cuda_prepare(ga_device *device, const ga_kernel *kernel);
/* Enqueues a kernel with one argument struct, passed by value. Error texts name the kernel's id. */
GA_NODISCARD ga_status cuda_enqueue(ga_stream *stream, const ga_kernel *kernel, const cuda_launch *launch,
                                    const void *args);

/* Returns an error for a pointer that the kernel cannot use: misaligned, of another device, or not known to the driver.
 * NULL is accepted. `name` is the argument's name in the error text. */
GA_NODISCARD ga_status cuda_check_pointer(ga_stream *stream, const ga_kernel *kernel, const char *name, const void *p,
                                          size_t align);

/* --- functions of ga_cuda_backend, by file --- */

ga_status cuda_memory_open(cuda_device *device);
void cuda_memory_close(cuda_device *device);
ga_status cuda_zeroed(cuda_device *device, size_t bytes, CUdeviceptr *out);
ga_status cuda_alloc(ga_device *device, size_t bytes, void **out);
ga_status cuda_alloc_zeroed(ga_device *device, size_t bytes, void **out);
void cuda_free(ga_device *device, void *buffer);
ga_status cuda_memory(ga_device *device, ga_memory_info *info);
ga_status cuda_trim(ga_device *device);
ga_status cuda_host_alloc(ga_device *device, size_t bytes, void **out);
void cuda_host_free(ga_device *device, void *p);
ga_status cuda_host_pin(ga_device *device, void *p, size_t bytes);
void cuda_host_unpin(ga_device *device, void *p);

ga_status cuda_stream_create(ga_device *device, ga_stream **out);
void cuda_stream_destroy(ga_stream *stream);
ga_status cuda_stream_sync(ga_stream *stream);
ga_status cuda_stream_wrap(ga_device *device, void *native, ga_stream **out);
ga_status cuda_stream_recorded(const ga_stream *stream, bool *out);
/* Removes a wrapped stream from the device, without waiting for its work. */
void cuda_stream_unwrap(cuda_device *device, cuda_stream *stream);
/* Returns true if a caller records one of the wrapped streams. While it does, device memory must not be allocated or
 * freed. */
bool cuda_caller_records(const cuda_device *device);
ga_status cuda_copy_in(ga_stream *stream, void *dst, const void *src, size_t bytes);
ga_status cuda_copy_out(ga_stream *stream, void *dst, const void *src, size_t bytes);
ga_status cuda_copy_out_later(ga_stream *stream, void *dst, const void *src, size_t bytes);
ga_status cuda_copy_in_later(ga_stream *stream, void *dst, const void *src, size_t bytes);
ga_status cuda_copy_within(ga_stream *stream, void *dst, const void *src, size_t bytes);
ga_status cuda_copy_peer(ga_stream *to, void *dst, ga_stream *from, const void *src, size_t bytes);
ga_status cuda_send_peer(ga_device *to, void *dst, ga_stream *from, const void *src, size_t bytes);
ga_status cuda_share_alloc(ga_device *device, size_t bytes, ga_shared *out);
ga_status cuda_share_open(ga_device *device, int fd, size_t bytes, ga_shared *out);
void cuda_share_close(ga_device *device, ga_shared *memory);
ga_status cuda_fill(ga_stream *stream, void *dst, uint32_t value, size_t n);
ga_status cuda_copy_rows(ga_stream *stream, const ga_row_copy *copy);
ga_status cuda_value_write(ga_stream *stream, uint32_t *at, uint32_t value);
ga_status cuda_value_wait(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience);
ga_status cuda_stream_query(ga_stream *stream, bool *done);
ga_status cuda_event_create(ga_device *device, ga_event **out);
void cuda_event_destroy(ga_event *event);
ga_status cuda_event_record(ga_event *event, ga_stream *stream);
ga_status cuda_event_record_in_graph(ga_event *event, ga_stream *stream);
ga_status cuda_event_wait(ga_event *event, ga_stream *stream);
ga_status cuda_event_sync(ga_event *event);
ga_status cuda_event_query(ga_event *event, bool *done);
ga_status cuda_event_elapsed(ga_event *start, ga_event *end, double *ms);

ga_status cuda_function_load(ga_device *device, const void *image, const char *name, ga_function **out);
ga_status cuda_kernel_load(ga_device *device, const char *id, ga_function **out);
void cuda_function_destroy(ga_function *function);
ga_status cuda_function_launch(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream);
ga_status cuda_tensor_map(ga_device *device, const ga_tensor_map_desc *desc, void *map);

ga_status cuda_graph_begin(ga_stream *stream);
ga_status cuda_graph_end(ga_stream *stream, ga_graph **out);
ga_status cuda_graph_launch(ga_graph *graph, ga_stream *stream);
void cuda_graph_destroy(ga_graph *graph);

#endif
