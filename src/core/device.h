/* Devices and streams behind one short table of functions, and facets (core/facets.h). Backends fill them; nothing
 * above src/core knows which backend it talks to. */
#ifndef GA_CORE_DEVICE_H
#define GA_CORE_DEVICE_H

#include "base/thread.h"
#include "core/facets.h"
#include "core/kernel.h"

/* Rows of `width` bytes, at distances of a pitch. */
typedef struct ga_row_copy {
  void *dst;
  const void *src;
  size_t dst_pitch, src_pitch, width, rows;
} ga_row_copy;

/* Functions that every device has. Facets (core/facets.h) hold the functions that only some devices have. */
typedef struct ga_device_ops {
  void (*destroy)(ga_device *device);
  /* --- memory --- */
  ga_status (*alloc)(ga_device *device, size_t bytes, void **out); /* 256-byte aligned */
  ga_status (*alloc_zeroed)(ga_device *device, size_t bytes, void **out);
  void (*free)(ga_device *device, void *buffer);
  /* Fills total, free, pooled, pooled_peak; 0 where it cannot tell. */
  ga_status (*memory)(ga_device *device, ga_memory_info *info);
  ga_status (*trim)(ga_device *device);
  ga_status (*host_alloc)(ga_device *device, size_t bytes, void **out);
  void (*host_free)(ga_device *device, void *p);
  /* --- copies --- */
  ga_status (*copy_in)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  ga_status (*copy_out)(ga_stream *stream, void *dst, const void *src, size_t bytes); /* returns when done */
  /* Enqueues: src is of host_alloc and stays as it is until the stream has passed. */
  ga_status (*copy_in_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues: dst is of host_alloc, and has the bytes once an event recorded after the copy has been waited for. */
  ga_status (*copy_out_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy of device memory to device memory. */
  ga_status (*copy_within)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy of rows within device memory; either side may be mapped memory (ga_sharing). */
  ga_status (*copy_rows)(ga_stream *stream, const ga_row_copy *copy);
  /* --- streams --- */
  ga_status (*stream_create)(ga_device *device, ga_stream **out);
  void (*stream_destroy)(ga_stream *stream);
  ga_status (*stream_sync)(ga_stream *stream);
  ga_status (*stream_query)(ga_stream *stream, bool *done); /* does not wait */
  /* --- events --- */
  ga_status (*event_create)(ga_device *device, ga_event **out);
  void (*event_destroy)(ga_event *event);
  ga_status (*event_record)(ga_event *event, ga_stream *stream);
  ga_status (*event_wait)(ga_event *event, ga_stream *stream);
  ga_status (*event_sync)(ga_event *event); /* the host waits */
  ga_status (*event_query)(ga_event *event, bool *done);
  ga_status (*event_elapsed)(ga_event *start, ga_event *end, double *ms);
} ga_device_ops;

/* $GA_PEER=off is for machines whose GPUs say that they reach each other, and do not. */
GA_NODISCARD ga_status ga_peers_allowed(bool *allowed);

/* Backends put this first in their own device struct. */
struct ga_device {
  const ga_device_ops *ops;
  /* Facets; NULL: it has none. */
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
  const ga_kernel *kernels; /* those that this build can run on it */
  size_t n_kernels;
  char name[32];
  char text[160];
  ga_pool *pool; /* CPU devices: the threads; else NULL */
};

/* Memory of plans that a context remembers. It grows; buffers that recorded work may hold stay in the list. */
typedef struct ga_workspace {
  void *data;
  uint64_t bytes;
  void **outgrown;
  size_t n_outgrown;
} ga_workspace;

/* Backends put this first in their own stream struct. */
struct ga_stream {
  ga_device *device;
  ga_ctx *ctx;
  bool capturing;         /* between graph_begin and graph_end */
  bool wrapped;           /* the caller's, who may record it at any time: stream_recorded */
  ga_workspace workspace; /* work of two streams may overlap, so each has its own */
  /* Recordings use `workspace`: who sets this replays them on this stream alone and drops them when the workspace has
   * moved. */
  bool shares_workspace;
  ga_workspace recording; /* while it captures: of the graph, whose replays may overlap with the stream's own work */
};

/* Backends put these first in their own event, graph and function structs. */
struct ga_event {
  ga_device *device;
};
struct ga_graph {
  ga_device *device;
  ga_ctx *ctx;
  ga_workspace workspace; /* of the recorded launches */
};
struct ga_function {
  ga_device *device;
  ga_ctx *ctx;
};

/* True when device pointers are host pointers: the host may read and write buffers, and weights may stay where their
 * file is mapped. */
static inline bool ga_device_in_host_memory(const ga_device *device) { return device->caps.host_memory; }
/* True when work is done by the time that the call which enqueues it returns, on the threads of the host. */
static inline bool ga_device_works_in_calls(const ga_device *device) { return device->caps.works_in_calls; }

/* True when this device can run the row: its instruction set, and in this build. */
bool ga_device_runs(const ga_device *device, const ga_kernel *kernel);

typedef struct ga_backend {
  const char *name; /* "cpu", "ref", "cuda" */
  /* All rows, whether or not this machine can run them. */
  const ga_kernel *(*kernels)(size_t *n);
  /* spec: what follows "name:" in the device string, "" if nothing. GA_ERR_UNSUPPORTED when no such device is here. */
  ga_status (*open)(const char *spec, int threads, ga_device **out);
  int rank; /* "auto" takes the openable backend with the highest; negative: never by itself */
} ga_backend;

/* src/backends.c: the one file that names backends. */
extern const ga_backend *const ga_backends[];
extern const size_t ga_n_backends;

#endif
