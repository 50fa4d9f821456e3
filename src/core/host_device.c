#include "core/host_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"

/* 256-byte alignment is promised to callers; ga_mem_alloc gives 64, so the base is kept just below the buffer. */
#define BUFFER_ALIGN 256

static ga_status host_alloc(ga_device *device, size_t bytes, void **out) {
  (void)device;
  void *base;
  GA_REQUIRE(bytes <= SIZE_MAX - 2 * BUFFER_ALIGN, GA_ERR_NOMEM, "buffer: %zu bytes asked for", bytes);
  GA_TRY(ga_mem_alloc(bytes + BUFFER_ALIGN, "buffer", &base));
  uintptr_t at = ((uintptr_t)base + BUFFER_ALIGN) & ~(uintptr_t)(BUFFER_ALIGN - 1);
  memcpy((void *)(at - sizeof(void *)), &base, sizeof base); /* base is 64-byte aligned: at least 64 bytes lie below */
  *out = (void *)at;
  return GA_OK;
}

static ga_status host_alloc_zeroed(ga_device *device, size_t bytes, void **out) {
  GA_TRY(host_alloc(device, bytes, out));
  memset(*out, 0, bytes);
  return GA_OK;
}

static void host_free(ga_device *device, void *buffer) {
  (void)device;
  void *base;
  memcpy(&base, (char *)buffer - sizeof(void *), sizeof base);
  ga_mem_free(base);
}

static ga_status host_copy(ga_stream *stream, void *dst, const void *src, size_t bytes) {
  (void)stream;
  if (bytes) memmove(dst, src, bytes);
  return GA_OK;
}

static ga_status host_stream_create(ga_device *device, ga_stream **out) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_stream), "stream", &p));
  *out = p;
  (*out)->device = device;
  return GA_OK;
}

static void host_stream_destroy(ga_stream *stream) { ga_mem_free(stream); }

static ga_status host_stream_sync(ga_stream *stream) {
  (void)stream;
  return GA_OK;
}

static ga_status host_memory(ga_device *device, ga_memory_info *info) {
  info->total_bytes = device->caps.memory_bytes;
  info->free_bytes = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  return GA_OK;
}

static ga_status host_trim(ga_device *device) {
  (void)device;
  return GA_OK;
}

static ga_status host_host_alloc(ga_device *device, size_t bytes, void **out) {
  (void)device;
  return ga_mem_alloc(bytes, "host memory", out);
}

static void host_host_free(ga_device *device, void *p) {
  (void)device;
  ga_mem_free(p);
}

/* --- events: work is done when a call returns, so a mark is a time --- */

typedef struct host_event {
  ga_event base;
  struct timespec at;
} host_event;

static ga_status host_event_create(ga_device *device, ga_event **out) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(host_event), "event", &p));
  *out = p;
  (*out)->device = device;
  return GA_OK;
}

static void host_event_destroy(ga_event *event) { ga_mem_free(event); }

static ga_status host_event_record(ga_event *event, ga_stream *stream) {
  (void)stream;
  (void)clock_gettime(CLOCK_MONOTONIC, &((host_event *)event)->at);
  return GA_OK;
}

static ga_status host_event_wait(ga_event *event, ga_stream *stream) {
  (void)event, (void)stream;
  return GA_OK;
}

static ga_status host_event_sync(ga_event *event) {
  (void)event;
  return GA_OK;
}

static ga_status host_event_query(ga_event *event, bool *done) {
  (void)event;
  *done = true;
  return GA_OK;
}
static ga_status host_event_elapsed(ga_event *start, ga_event *end, double *ms) {
  const struct timespec *a = &((host_event *)start)->at, *b = &((host_event *)end)->at;
  *ms = (double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6;
  return GA_OK;
}

static ga_status host_pin(ga_device *device, void *p, size_t bytes) {
  (void)device, (void)p, (void)bytes;
  return GA_OK;
}
static void host_unpin(ga_device *device, void *p) { (void)device, (void)p; }

static void host_destroy(ga_device *device) {
  ga_pool_destroy(device->pool);
  ga_mem_free(device);
}

static const ga_device_ops host_ops = {
    .destroy = host_destroy,
    .alloc = host_alloc,
    .alloc_zeroed = host_alloc_zeroed,
    .free = host_free,
    .copy_in = host_copy,
    .copy_out = host_copy,
    .copy_in_later = host_copy,
    .copy_out_later = host_copy,
    .copy_within = host_copy,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_sync = host_stream_sync,
    .memory = host_memory,
    .trim = host_trim,
    .host_alloc = host_host_alloc,
    .host_free = host_host_free,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_wait = host_event_wait,
    .event_sync = host_event_sync,
    .event_query = host_event_query,
    .event_elapsed = host_event_elapsed,
    .copy_rows = ga_host_copy_rows,
    .stream_query = ga_host_stream_query,
};

static const ga_pinning host_pinning = {.pin = host_pin, .unpin = host_unpin};

static const ga_sharing host_sharing = {.alloc = ga_host_share_alloc,
                                        .open = ga_host_share_open,
                                        .close = ga_host_share_close,
                                        .fill = ga_host_fill,
                                        .write_value = ga_host_value_write,
                                        .wait_value = ga_host_value_wait};

ga_status ga_host_device_create(const char *name, int threads, ga_device **out) {
  *out = NULL;
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_device), "device", &p));
  ga_device *device = p;
  device->ops = &host_ops;
  device->pinning = &host_pinning;
  device->sharing = &host_sharing;
  (void)snprintf(device->name, sizeof device->name, "%s", name);
  device->caps.threads = threads > 0 ? threads : ga_cpu_count();
  device->caps.host_memory = device->caps.works_in_calls = true;
  device->caps.memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  ga_status status = ga_pool_create(device->caps.threads, &device->pool);
  if (status != GA_OK) {
    ga_mem_free(device);
    return status;
  }
  *out = device;
  return GA_OK;
}
