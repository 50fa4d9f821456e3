/* Facets: groups of functions that only some devices have, beside the table of all devices (ga_device_ops of
 * core/device.h). A backend sets the pointers of its facets in ga_device; the others are NULL. Code above core asks
 * for a facet, never for a backend's name. A facet has all of its functions, unless a comment says otherwise. */
#ifndef GA_CORE_FACETS_H
#define GA_CORE_FACETS_H

#include "core/kernel.h"
#include "ga/launch.h"

typedef struct ga_device ga_device;

/* --- graphs: work that is recorded once and replayed --- */
typedef struct ga_graphs {
  ga_status (*begin)(ga_stream *stream);
  ga_status (*end)(ga_stream *stream, ga_graph **out); /* ends the recording whatever it returns */
  ga_status (*launch)(ga_graph *graph, ga_stream *stream);
  void (*destroy)(ga_graph *graph);
  /* Into a stream that records: each launch of the graph records the event, so that it has a time. */
  ga_status (*record_event)(ga_event *event, ga_stream *stream);
} ga_graphs;

/* --- code: kernels that are loaded before they are launched, the caller's own too --- */
typedef struct ga_code {
  /* Loads a row's code, so that its first launch need not: that may come while a stream is recorded. */
  ga_status (*prepare)(ga_device *device, const ga_kernel *kernel);
  ga_status (*load)(ga_device *device, const void *image, const char *name, ga_function **out);
  /* Loads a kernel of this build that is no row of the table, by its id. GA_ERR_UNSUPPORTED: it is not here. */
  ga_status (*load_kernel)(ga_device *device, const char *id, ga_function **out);
  void (*destroy)(ga_function *function);
  ga_status (*launch)(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream);
} ga_code;

/* --- tensor maps: descriptions of tensors for copies by hardware --- */
typedef struct ga_tensor_maps {
  ga_status (*make)(ga_device *device, const ga_tensor_map_desc *desc, void *map);
} ga_tensor_maps;

/* --- wrapping: streams that the caller has --- */
typedef struct ga_wrapping {
  ga_status (*wrap)(ga_device *device, void *native, ga_stream **out); /* `native` outlives the stream */
  ga_status (*is_recorded)(const ga_stream *stream, bool *out);        /* by the caller */
} ga_wrapping;

/* --- peers: copies between two devices of the backend --- */
typedef struct ga_peers {
  /* Starts after the work that both streams hold; what both get later starts after it. GA_ERR_UNSUPPORTED: the devices
   * do not reach one another. */
  ga_status (*copy)(ga_stream *to, void *dst, ga_stream *from, const void *src, size_t bytes);
  /* Enqueues a copy on `from` alone: the caller orders work on `to` by events. GA_ERR_UNSUPPORTED: as above. */
  ga_status (*send)(ga_device *to, void *dst, ga_stream *from, const void *src, size_t bytes);
} ga_peers;

/* --- pinning: memory of the caller's as if it were of host_alloc --- */
typedef struct ga_pinning {
  ga_status (*pin)(ga_device *device, void *p, size_t bytes); /* p and bytes: multiples of 4096 */
  void (*unpin)(ga_device *device, void *p);
} ga_pinning;

/* --- sharing: memory that other devices and processes of this host map, and values in it that streams wait for --- */

typedef struct ga_shared {
  void *data;
  size_t bytes; /* may be more than was asked for */
  int fd;       /* by which others map it: alloc makes it, close closes it; -1 = mapped from another's */
  uint64_t handle;
} ga_shared;

/* A function that the host calls now and then while it waits; an error ends the wait. */
typedef struct ga_patience {
  ga_status (*ask)(void *user);
  void *user;
} ga_patience;

typedef struct ga_sharing {
  /* Allocates zeroed memory that other processes can map. GA_ERR_UNSUPPORTED: the device cannot. */
  ga_status (*alloc)(ga_device *device, size_t bytes, ga_shared *out);
  /* Maps memory that another process allocated; fd stays the caller's. */
  ga_status (*open)(ga_device *device, int fd, size_t bytes, ga_shared *out);
  void (*close)(ga_device *device, ga_shared *memory); /* no work that uses it is under way */
  ga_status (*fill)(ga_stream *stream, void *dst, uint32_t value, size_t n);
  /* Enqueues the writing of a value after all earlier work. A reader of the value also sees the data of that work. */
  ga_status (*write_value)(ga_stream *stream, uint32_t *at, uint32_t value);
  /* Makes work that is enqueued later wait until *at - value, as a signed number, is 0 or more. A device whose calls
   * return when their work is done waits in the call. */
  ga_status (*wait_value)(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience);
} ga_sharing;

/* --- links: a library of the backend that carries messages between ranks, one device each --- */

typedef struct ga_link ga_link;
enum { GA_LINK_ID_BYTES = 128 };
/* Facts that ranks compare: the version of the library, and the place of the device among those of all hosts. */
typedef struct ga_link_facts {
  char version[16], place[80];
} ga_link_facts;
typedef struct ga_link_message {
  int32_t peer; /* rank */
  bool is_send;
  void *data; /* device memory */
  size_t bytes;
} ga_link_message;

typedef struct ga_link_library {
  const char *name;                                                       /* as users know it */
  ga_status (*load)(ga_device *device, ga_link_facts *out);               /* GA_ERR_UNSUPPORTED: it is not here */
  ga_status (*id)(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]); /* one rank makes it for all */
  /* All ranks call it. patience: also while messages are set up. */
  ga_status (*open)(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                    const ga_patience *patience, ga_link **out);
  /* All messages may go at the same time, in stream order. Those of a pair of ranks are in one order on both sides. */
  ga_status (*exchange)(ga_link *link, ga_stream *stream, const ga_link_message *messages, int64_t n,
                        const ga_patience *patience);
  ga_status (*check)(ga_link *link); /* does not wait: an error that came up later */
  void (*abort)(ga_link *link);      /* streams wait for no message any more */
  void (*close)(ga_link *link);      /* NULL is fine */
} ga_link_library;

/* --- instruments --- */

/* Readings of a device's instruments. 0: the device does not show it. */
typedef struct ga_telemetry {
  double sm_mhz, memory_mhz, watts, celsius;
  double joules; /* since some moment in the past */
} ga_telemetry;

typedef struct ga_instruments {
  void (*read)(ga_device *device, ga_telemetry *out); /* does not wait for work */
} ga_instruments;

#endif
