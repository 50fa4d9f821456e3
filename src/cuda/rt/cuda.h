/* The CUDA backend, host side. The only place for CUDA types.
 *
 * Rows: src/cuda/kern/<family>/<kernel>.toml. Each is compiled to one image, embedded, and loaded when first planned;
 * a row whose image is not in the build is compiled at run time when NVRTC is present (jit.h). */
#ifndef GA_CUDA_RT_CUDA_H
#define GA_CUDA_RT_CUDA_H

#include "core/steps.h"
#include "cuda/rt/driver.h"
#include "opdef/ops.h"

extern const ga_backend ga_cuda_backend;

/* --- what the build embeds; both tables end with a NULL name --- */

typedef struct cuda_image {
  const char *id;
  const unsigned char *data, *end; /* a cubin, or a fat binary of several */
} cuda_image;
typedef struct cuda_source_part {
  const char *text, *end;
} cuda_source_part;
typedef struct cuda_source {
  const char *path;              /* as in ga_kernel.source */
  const cuda_source_part *parts; /* its text, without #include; a NULL text ends them. Sources share parts */
} cuda_source;
extern const cuda_image ga_cuda_images[];
extern const cuda_source ga_cuda_sources[];

const cuda_image *cuda_image_of(const char *id);
const cuda_source *cuda_source_of(const char *path);
/* For tests: other tables; NULL: back to the build's. Not thread-safe. */
void cuda_replace_tables(const cuda_image *images, const cuda_source *sources);

/* The first member of every CUDA row's `impl`. */
typedef struct cuda_variant {
  const char *params; /* "DTYPE=bf16, D=128": the kernel's GA_P_* */
  uint32_t threads, shared_bytes;
  uint32_t static_bytes; /* of shared memory that the kernel declares */
} cuda_variant;

const ga_kernel *cuda_rows(size_t *n);
/* The ga_kernel_ok of rows that only other rows launch, as a step: always refuses. */
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
  int ordinal, capability; /* 90 = 9.0 */
  bool host_pointers;      /* kernels may read any host memory */
  CUcontext context;
  CUmemoryPool pool;      /* GA's own: other users of the process's default pool are left alone */
  CUstream memory_stream; /* allocations and frees */
  CUevent fence;          /* makes frees, and copies to other devices, wait for the streams */
  uint64_t reaches,
      reached; /* bits 1 << ordinal: devices that may read this one's pool, and those that have been asked */
  cuda_stream *streams;
  CUdeviceptr spare_counters; /* for a stream that is wrapped while the caller records it */
  void **kept;                /* buffers freed while the caller recorded a stream: they go back later */
  size_t n_kept, kept_room;
  ga_kernel *rows;          /* those that can run: base.kernels */
  int32_t *row_at;          /* of each of cuda_rows: its index in rows; -1 = it cannot run */
  cuda_function *functions; /* one for each of them, loaded when first planned */
  char bus[32];             /* PCI address, by which NVML knows it */
  const char *last_id;      /* kernel launched last: named when a fault comes up */
} cuda_device;

/* Bytes of the counters with which kernels number their work. They are zero before a launch, and zero again after it.
 * Each stream and each graph has its own. A wrapped stream has two sets: for direct launches and for its owner's
 * recordings. */
#define CUDA_COUNTER_BYTES 16384

struct cuda_stream {
  ga_stream base;
  CUstream handle;
  CUdeviceptr counters;
  CUdeviceptr graph_counters; /* while capturing: those of the graph; of a wrapped stream: always there */
  cuda_stream *next;
};

static inline cuda_device *cuda_device_of(const ga_stream *stream) { return (cuda_device *)stream->device; }
static inline CUstream cuda_handle_of(const ga_stream *stream) { return ((const cuda_stream *)stream)->handle; }
/* The counters that a launch on this stream uses. */
CUdeviceptr cuda_counters_of(const ga_stream *stream);

/* Makes the device's CUDA context current. Every entry of the backend calls it first, since a thread may use several
 * devices in turn. */
GA_NODISCARD static inline ga_status cuda_enter(const cuda_device *device) {
  GA_CU(device->cu, CtxSetCurrent, device->context);
  return GA_OK;
}
/* As cuda_enter, for functions that release something and cannot fail. */
static inline void cuda_enter_late(const cuda_device *device) { (void)device->cu->CtxSetCurrent(device->context); }

/* --- launching --- */

typedef struct cuda_launch {
  uint32_t grid[3], block[3], cluster[3]; /* cluster: zeros = none */
  uint32_t shared_bytes;                  /* dynamic */
  bool dependent;                         /* may start before the launch before it has ended (griddepcontrol) */
} cuda_launch;

/* Enqueues a function with one by-value argument struct. id: for errors, and kept as the last one enqueued. */
GA_NODISCARD ga_status cuda_start(ga_stream *stream, CUfunction function, const char *id, const cuda_launch *launch,
                                  const void *args);
/* ga_code.prepare */
GA_NODISCARD ga_status cuda_prepare(ga_device *device, const ga_kernel *kernel);
/* Enqueues a row's kernel with one by-value argument struct. Errors name the id. */
GA_NODISCARD ga_status cuda_enqueue(ga_stream *stream, const ga_kernel *kernel, const cuda_launch *launch,
                                    const void *args);

/* Refuses pointers that a kernel cannot use: misaligned, of another device, not known to the driver. NULL is fine.
 * name: of the argument, for the text. */
GA_NODISCARD ga_status cuda_check_pointer(ga_stream *stream, const ga_kernel *kernel, const char *name, const void *p,
                                          size_t align);

/* --- parts of the device's vtable, by file --- */

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
/* Takes a wrapped stream off the device, without waiting. */
void cuda_stream_unwrap(cuda_device *device, cuda_stream *stream);
/* Does any caller record a stream of his? The device is left alone meanwhile. */
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
