/* Devices and streams behind one small vtable. Backends fill it; nothing above src/core knows which one it talks to. */
#ifndef GA_CORE_DEVICE_H
#define GA_CORE_DEVICE_H

#include "base/thread.h"
#include "core/kernel.h"
#include "ga/launch.h"

typedef struct ga_device ga_device;

/* What a device's instruments show. 0: not shown. */
typedef struct ga_telemetry {
  double sm_mhz, memory_mhz, watts, celsius;
  double joules; /* since some moment in the past */
} ga_telemetry;

/* Device memory that other devices and other processes of this host may map. */
typedef struct ga_shared {
  void *data;
  size_t bytes; /* may be more than was asked for */
  int fd;       /* by which others map it: share_alloc makes it, share_close closes it; -1 = mapped from another's */
  uint64_t handle;
} ga_shared;

/* Rows of `width` bytes, at distances of a pitch. */
typedef struct ga_row_copy {
  void *dst;
  const void *src;
  size_t dst_pitch, src_pitch, width, rows;
} ga_row_copy;

/* Asked now and then while the host itself waits: an error ends the waiting. */
typedef struct ga_patience {
  ga_status (*ask)(void *user);
  void *user;
} ga_patience;

/* A library of the backend that carries messages between the memories of devices. */
typedef struct ga_link ga_link;
enum { GA_LINK_ID_BYTES = 128 };
/* What ranks compare: the library's version; which device this is, among those of all hosts. */
typedef struct ga_link_facts {
  char version[16], place[80];
} ga_link_facts;
typedef struct ga_link_message {
  int32_t peer; /* rank */
  bool is_send;
  void *data; /* device memory */
  size_t bytes;
} ga_link_message;

typedef struct ga_device_ops {
  void (*destroy)(ga_device *device);
  ga_status (*alloc)(ga_device *device, size_t bytes, void **out); /* 256-byte aligned */
  ga_status (*alloc_zeroed)(ga_device *device, size_t bytes, void **out);
  void (*free)(ga_device *device, void *buffer);
  ga_status (*copy_in)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  ga_status (*copy_out)(ga_stream *stream, void *dst, const void *src, size_t bytes); /* returns when done */
  /* Enqueues: src is of host_alloc and stays as it is until the stream has passed. */
  ga_status (*copy_in_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues: dst is of host_alloc, and there once an event recorded behind it has been waited for. */
  ga_status (*copy_out_later)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Enqueues a copy of device memory to device memory. */
  ga_status (*copy_within)(ga_stream *stream, void *dst, const void *src, size_t bytes);
  /* Between two devices of this backend: behind the work of both streams, ahead of what both get from now on.
   * GA_ERR_UNSUPPORTED: they do not reach one another. NULL: the backend cannot. */
  ga_status (*copy_peer)(ga_stream *to, void *dst, ga_stream *from, const void *src, size_t bytes);
  ga_status (*stream_create)(ga_device *device, ga_stream **out);
  void (*stream_destroy)(ga_stream *stream);
  ga_status (*stream_sync)(ga_stream *stream);
  /* A stream that the caller has; `native` outlives it. Is the caller recording it? NULL: the device has none. */
  ga_status (*stream_wrap)(ga_device *device, void *native, ga_stream **out);
  ga_status (*stream_recorded)(const ga_stream *stream, bool *out);
  /* Fills total, free, pooled, pooled_peak; 0 where it cannot tell. */
  ga_status (*memory)(ga_device *device, ga_memory_info *info);
  ga_status (*trim)(ga_device *device);
  ga_status (*host_alloc)(ga_device *device, size_t bytes, void **out);
  void (*host_free)(ga_device *device, void *p);
  /* Memory of the caller's, as if it were of host_alloc until host_unpin; p and bytes are multiples of 4096. */
  ga_status (*host_pin)(ga_device *device, void *p, size_t bytes);
  void (*host_unpin)(ga_device *device, void *p);
  ga_status (*event_create)(ga_device *device, ga_event **out);
  void (*event_destroy)(ga_event *event);
  ga_status (*event_record)(ga_event *event, ga_stream *stream);
  /* Of a stream that records a graph: each launch records the event, so that it has a time. NULL: no graphs. */
  ga_status (*event_record_in_graph)(ga_event *event, ga_stream *stream);
  ga_status (*event_wait)(ga_event *event, ga_stream *stream);
  ga_status (*event_sync)(ga_event *event); /* the host waits */
  ga_status (*event_query)(ga_event *event, bool *done);
  ga_status (*event_elapsed)(ga_event *start, ga_event *end, double *ms);
  /* Loads a row's code, so that its first launch need not: that may come while a stream is recorded. NULL: no need. */
  ga_status (*prepare)(ga_device *device, const ga_kernel *kernel);
  /* --- NULL when the device has no graphs --- */
  ga_status (*graph_begin)(ga_stream *stream);
  ga_status (*graph_end)(ga_stream *stream, ga_graph **out); /* ends the recording whatever it returns */
  ga_status (*graph_launch)(ga_graph *graph, ga_stream *stream);
  void (*graph_destroy)(ga_graph *graph);
  /* --- NULL when the device runs no kernels of the caller's own --- */
  ga_status (*function_load)(ga_device *device, const void *image, const char *name, ga_function **out);
  /* The same of a kernel of this build that is no row of the table, by its id. GA_ERR_UNSUPPORTED: it is not here. */
  ga_status (*kernel_load)(ga_device *device, const char *id, ga_function **out);
  void (*function_destroy)(ga_function *function);
  ga_status (*function_launch)(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream);
  ga_status (*tensor_map)(ga_device *device, const ga_tensor_map_desc *desc, void *map);
  /* --- memory shared with other devices and processes, and values in it that streams wait for; NULL: has none --- */
  /* All zeros. GA_ERR_UNSUPPORTED: the device cannot. */
  ga_status (*share_alloc)(ga_device *device, size_t bytes, ga_shared *out);
  /* Maps what another made; fd stays the caller's. */
  ga_status (*share_open)(ga_device *device, int fd, size_t bytes, ga_shared *out);
  void (*share_close)(ga_device *device, ga_shared *memory); /* no work that uses it is under way */
  ga_status (*fill)(ga_stream *stream, void *dst, uint32_t value, size_t n);
  ga_status (*copy_rows)(ga_stream *stream, const ga_row_copy *copy); /* device memory, this one's or mapped */
  /* Behind the work before it, whose writes are seen by whoever sees the value. */
  ga_status (*value_write)(ga_stream *stream, uint32_t *at, uint32_t value);
  /* What is enqueued behind it waits until *at - value, as a signed number, is 0 or more. A device whose work is done
   * when a call returns waits in the call. */
  ga_status (*value_wait)(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience);
  ga_status (*stream_query)(ga_stream *stream, bool *done); /* does not wait */
  /* --- messages between ranks, one device each; NULL when the backend has no library for that --- */
  const char *link_name;                                         /* as users know it */
  ga_status (*link_load)(ga_device *device, ga_link_facts *out); /* GA_ERR_UNSUPPORTED: the library is not here */
  ga_status (*link_id)(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]); /* one rank makes it for all */
  /* All ranks call it. patience: also while messages are set up. */
  ga_status (*link_open)(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                         const ga_patience *patience, ga_link **out);
  /* All of them may go at the same time, in stream order. Those of a pair of ranks are in one order on both sides. */
  ga_status (*link_exchange)(ga_link *link, ga_stream *stream, const ga_link_message *messages, int64_t n,
                             const ga_patience *patience);
  ga_status (*link_check)(ga_link *link); /* does not wait: an error that came up later */
  void (*link_abort)(ga_link *link);      /* streams wait for no message any more */
  void (*link_close)(ga_link *link);      /* NULL is fine */
  /* --- NULL when the device has no instruments --- */
  void (*telemetry)(ga_device *device, ga_telemetry *out); /* does not wait for work */
} ga_device_ops;

/* $GA_PEER=off is for machines whose GPUs say that they reach each other, and do not. */
GA_NODISCARD ga_status ga_peers_allowed(bool *allowed);

/* Backends put this first in their own device struct. */
struct ga_device {
  const ga_device_ops *ops;
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

/* Likewise. */
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
