/* Facets: groups of functions that only some devices have, beside the table of all devices (ga_device_ops of
 * core/device.h). A backend sets the pointers of its facets in ga_device; the others are NULL. Code above core asks for
 * a facet, never for a backend's name. If a device has a facet, none of the facet's functions is NULL, unless a comment
 * says otherwise. */
#ifndef GA_CORE_FACETS_H
#define GA_CORE_FACETS_H

#include "core/kernel.h"
#include "ga/launch.h"

typedef struct ga_device ga_device;

/* --- graphs: work that is recorded once and launched many times --- */
typedef struct ga_graphs {
  ga_status (*begin)(ga_stream *stream);
  /* Ends the recording, even if the function returns an error. */
  ga_status (*end)(ga_stream *stream, ga_graph **out);
  ga_status (*launch)(ga_graph *graph, ga_stream *stream);
  void (*destroy)(ga_graph *graph);
  /* Enqueues the event on a stream that is being recorded. Each launch of the graph then records the event, so that it
   * has a time. */
  ga_status (*record_event)(ga_event *event, ga_stream *stream);
} ga_graphs;

/* --- code: kernels that are loaded before their launch, including the caller's own --- */
typedef struct ga_code {
  /* Loads a kernel's code in advance, because its first launch may come while a stream is recorded. */
  ga_status (*prepare)(ga_device *device, const ga_kernel *kernel);
  ga_status (*load)(ga_device *device, const void *image, const char *name, ga_function **out);
  /* Loads a kernel that is in this build but not in the kernel table, by its id. GA_ERR_UNSUPPORTED: the build does not
   * have it. */
  ga_status (*load_kernel)(ga_device *device, const char *id, ga_function **out);
  void (*destroy)(ga_function *function);
  ga_status (*launch)(ga_function *function, const ga_launch *launch, const void *args, ga_stream *stream);
} ga_code;

/* --- tensor maps: descriptions of tensors for copies by hardware --- */
typedef struct ga_tensor_maps {
  ga_status (*make)(ga_device *device, const ga_tensor_map_desc *desc, void *map);
} ga_tensor_maps;

/* --- wrapping: streams that the caller created --- */
typedef struct ga_wrapping {
  /* Makes a stream of the caller's stream `native`, which must outlive it. */
  ga_status (*wrap)(ga_device *device, void *native, ga_stream **out);
  /* Sets *out to whether the caller records the stream now. */
  ga_status (*is_recorded)(const ga_stream *stream, bool *out);
} ga_wrapping;

/* --- peers: copies between two devices of the backend --- */
typedef struct ga_peers {
  /* Copies after the work that both streams hold; later work of both starts after the copy. GA_ERR_UNSUPPORTED: the
   * devices do not reach each other. */
  ga_status (*copy)(ga_stream *to, void *dst, ga_stream *from, const void *src, size_t bytes);
  /* Enqueues a copy on `from` alone; the caller orders the work on `to` by events. GA_ERR_UNSUPPORTED: the devices do
   * not reach each other. */
  ga_status (*send)(ga_device *to, void *dst, ga_stream *from, const void *src, size_t bytes);
} ga_peers;

/* --- pinning: host memory of the caller that copies can use like memory of host_alloc --- */
typedef struct ga_pinning {
  /* Pins `bytes` bytes at p; both must be multiples of 4096. */
  ga_status (*pin)(ga_device *device, void *p, size_t bytes);
  void (*unpin)(ga_device *device, void *p);
} ga_pinning;

/* --- sharing: memory that other devices and processes of this host can map and whose values streams can wait for
 * --- */

typedef struct ga_shared {
  void *data;
  /* Size of the memory, at least the size that was asked for. */
  size_t bytes;
  /* File descriptor by which other processes map the memory. ga_sharing.alloc makes it, and ga_sharing.close closes it.
   * -1: the memory was mapped from another process. */
  int fd;
  uint64_t handle;
} ga_shared;

/* A function `ask` that the host calls repeatedly while it waits. If it returns an error, the wait ends with that
 * error. */
typedef struct ga_patience {
  ga_status (*ask)(void *user);
  void *user;
} ga_patience;

typedef struct ga_sharing {
  /* Allocates zeroed memory that other processes can map. GA_ERR_UNSUPPORTED: the device cannot. */
  ga_status (*alloc)(ga_device *device, size_t bytes, ga_shared *out);
  /* Maps memory that another process allocated. The caller keeps and closes fd. */
  ga_status (*open)(ga_device *device, int fd, size_t bytes, ga_shared *out);
  /* Frees or unmaps the memory. No work that uses it may be in flight. */
  void (*close)(ga_device *device, ga_shared *memory);
  ga_status (*fill)(ga_stream *stream, void *dst, uint32_t value, size_t n);
  /* Enqueues the writing of a value after all earlier work. A reader of the value also sees the data of that work. */
  ga_status (*write_value)(ga_stream *stream, uint32_t *at, uint32_t value);
  /* Makes work that is enqueued later wait until *at - value, as a signed number, is 0 or more. On a CPU the call
   * itself waits. */
  ga_status (*wait_value)(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience);
} ga_sharing;

/* --- links: a library of the backend that carries messages between ranks with one device each --- */

typedef struct ga_link ga_link;
enum { GA_LINK_ID_BYTES = 128 };
/* Facts that ranks compare: the version of the library, and the place of the device among the devices of all hosts. */
typedef struct ga_link_facts {
  char version[16], place[80];
} ga_link_facts;
typedef struct ga_link_message {
  /* Rank of the receiver of a send, or of the sender of a receive. */
  int32_t peer;
  bool is_send;
  void *data; /* Device memory of the message. */
  size_t bytes;
} ga_link_message;

typedef struct ga_link_library {
  /* Name of the library, as users know it. */
  const char *name;
  /* Loads the library. GA_ERR_UNSUPPORTED: it is not present. */
  ga_status (*load)(ga_device *device, ga_link_facts *out);
  /* Makes the id that all ranks pass to `open`. One rank makes it and sends it to the others. */
  ga_status (*id)(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]);
  /* Opens a link. All ranks call it. The host calls patience->ask while it waits for the other ranks. */
  ga_status (*open)(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                    const ga_patience *patience, ga_link **out);
  /* Enqueues messages in stream order. They may all be in flight at the same time. Messages of a pair of ranks must be
   * in the same order on both sides. The host calls patience->ask while the library sets them up. */
  ga_status (*exchange)(ga_link *link, ga_stream *stream, const ga_link_message *messages, int64_t n,
                        const ga_patience *patience);
  /* Returns an error that occurred after exchange returned, or GA_OK. It does not wait. */
  ga_status (*check)(ga_link *link);
  /* Makes streams stop waiting for messages. */
  void (*abort)(ga_link *link);
  /* Frees the link. NULL is accepted. */
  void (*close)(ga_link *link);
} ga_link_library;

/* --- instruments: readings of the device's state --- */

/* Readings of a device. 0: the device does not report the value. */
typedef struct ga_telemetry {
  double sm_mhz, memory_mhz, watts, celsius;
  double joules; /* Energy in joules since an arbitrary moment in the past. */
} ga_telemetry;

typedef struct ga_instruments {
  /* Fills in the readings. It does not wait for work. */
  void (*read)(ga_device *device, ga_telemetry *out);
} ga_instruments;

#endif
