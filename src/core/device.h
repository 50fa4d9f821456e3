/* Devices and streams. Each backend fills in a short table of functions, and facets (core/facets.h). No code above
 * src/core knows the backend of a device. */
#ifndef GA_CORE_DEVICE_H
#define GA_CORE_DEVICE_H

#include "base/thread.h"
#include "core/facets.h"
#include "core/kernel.h"

/* A copy of `rows` rows of `width` bytes. Consecutive rows are dst_pitch and src_pitch bytes apart. */
typedef struct ga_row_copy {
  void *dst;
  const void *src;
  size_t dst_pitch, src_pitch, width, rows;
} ga_row_copy;

/* Table of functions that every device has. Facets (core/facets.h) hold the functions that only some devices have. */
typedef struct ga_device_ops {
  void (*destroy)(ga_device *device);
  /* --- memory --- */
  /* Allocates device memory, 256-byte aligned. */
  ga_status (*alloc)(ga_device *device, size_t bytes, void **out);
  ga_status (*alloc_zeroed)(ga_device *device, size_t bytes, void **out);
  void (*free)(ga_device *device, void *buffer);
  /* Fills in total_bytes, free_bytes, pooled_bytes and pooled_peak_bytes. A field that the device does not report is
   * 0. */
  ga_status (*memory)(ga_device *device, ga_memory_info *info);
  ga_status (*trim)(ga_device *device);
  ga_status (*host_alloc)(ga_device *device, size_t bytes, void **out);
  void (*host_free)(ga_device *device, void *p);
  /* --- copies --- */
  ga_status (*copy_in)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Copies to host memory and returns when the copy is done. */
  ga_status (*copy_out)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy to the device. src is memory of host_alloc, and must not change until the stream has passed the
   * copy. */
  ga_status (*copy_in_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy to the host. dst is memory of host_alloc, and has the bytes once an event recorded after the copy
   * has been waited for. */
  ga_status (*copy_out_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy of device memory to device memory. */
  ga_status (*copy_within)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy of rows within device memory; either side may be mapped memory (ga_sharing). */
  ga_status (*copy_rows)(ga_stream *stream, const ga_row_copy *copy);
  /* --- streams --- */
  ga_status (*stream_create)(ga_device *device, ga_stream **out);
  void (*stream_destroy)(ga_stream *stream);
  ga_status (*stream_sync)(ga_stream *stream);
  /* Sets *done to whether all work of the stream is done. It does not wait. */
  ga_status (*stream_query)(ga_stream *stream, bool *done);
  /* --- events --- */
  ga_status (*event_create)(ga_device *device, ga_event **out);
  void (*event_destroy)(ga_event *event);
  ga_status (*event_record)(ga_event *event, ga_stream *stream);
  ga_status (*event_wait)(ga_event *event, ga_stream *stream);
  /* Waits on the host for the event. */
  ga_status (*event_sync)(ga_event *event);
  ga_status (*event_query)(ga_event *event, bool *done);
  ga_status (*event_elapsed)(ga_event *start, ga_event *end, double *ms);
} ga_device_ops;

/* Sets *allowed to whether GPUs may access each other's memory. $GA_PEER=off forbids it, for machines whose GPUs
 * wrongly report that they can. */
GA_NODISCARD ga_status ga_peers_allowed(bool *allowed);

/* A device. Backends put this struct first in their own device struct. */
struct ga_device {
  const ga_device_ops *ops;
  /* Facets. NULL: the device does not have the facet. */
  const ga_graphs *graphs;
  const ga_code *code;
  const ga_tensor_maps *tensor_maps;
  const ga_wrapping *wrapping;
  const ga_peers *peers;
  const ga_pinning *pinning;
  const ga_sharing *sharing;
  const ga_link_library *links;
  const ga_instruments *instruments;
  ga_caps caps;
  /* Kernels of this build that the device can run. */
  const ga_kernel *kernels;
  size_t n_kernels;
  char name[32];
  char text[160];
  ga_pool *pool; /* Threads of a CPU device. NULL for other devices. */
};

/* Device memory for plans that a context keeps. It grows; outgrown buffers stay allocated, because recorded work may
 * use them. */
typedef struct ga_workspace {
  void *data;
  uint64_t bytes;
  void **outgrown;
  size_t n_outgrown;
} ga_workspace;

/* A stream. Backends put this struct first in their own stream struct. */
struct ga_stream {
  ga_device *device;
  ga_ctx *ctx;
  /* True between begin and end of a graph (ga_graphs). */
  bool capturing;
  /* True: the stream is the caller's, who may record it at any time (ga_wrapping.is_recorded). */
  bool wrapped;
  /* Workspace of the stream. Each stream has its own, because work of two streams may overlap. */
  ga_workspace workspace;
  /* True: recordings use `workspace`. The owner replays them on this stream only, and drops them when the workspace has
   * moved. */
  bool shares_workspace;
  /* While the stream captures: workspace of the graph, whose replays may overlap with the stream's own work. */
  ga_workspace recording;
};

/* Events, graphs and functions (loaded kernels). Backends put these structs first in their own structs. */
struct ga_event {
  ga_device *device;
};
struct ga_graph {
  ga_device *device;
  ga_ctx *ctx;
  ga_workspace workspace; /* Workspace of the recorded launches. */
};
struct ga_function {
  ga_device *device;
  ga_ctx *ctx;
};

/* Returns whether device pointers are host pointers. The host may then read and write buffers, and weights may stay in
 * the mapped file. */
static inline bool ga_device_in_host_memory(const ga_device *device) { return device->caps.host_memory; }
/* Returns whether work is complete when the call that enqueues it returns, as on a CPU, whose threads do the work in
 * the call. */
static inline bool ga_device_works_in_calls(const ga_device *device) { return device->caps.works_in_calls; }

/* Returns whether this build can run the kernel on this device: the device has the kernel's instruction set, and the
 * build its code. */
bool ga_device_runs(const ga_device *device, const ga_kernel *kernel);

typedef struct ga_backend {
  /* Name of the backend: "cpu", "ref" or "cuda". */
  const char *name;
  /* Returns all kernels of the backend, whether or not this machine can run them. */
  const ga_kernel *(*kernels)(size_t *n);
  /* Opens a device. spec is the text after "name:" in the device string, "" if there is none. GA_ERR_UNSUPPORTED: there
   * is no such device on this machine. */
  ga_status (*open)(const char *spec, int threads, ga_device **out);
  /* Rank for the device "auto", which opens the backend with the highest rank that can be opened. Negative: "auto"
   * never opens it. */
  int rank;
} ga_backend;

/* Table of all backends, in src/backends.c, the only file that names them. */
extern const ga_backend *const ga_backends[];
extern const size_t ga_n_backends;

#endif
