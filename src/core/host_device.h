/* Device operations for backends that use the host's own memory and threads (cpu and ref). */
#ifndef GA_CORE_HOST_DEVICE_H
#define GA_CORE_HOST_DEVICE_H

#include "core/device.h"

/* Creates a device over host memory with a pool of `threads` threads. 0: one thread per usable CPU. The caller fills in
 * kernels and text. */
GA_NODISCARD ga_status ga_host_device_create(const char *name, int threads, ga_device **out);

/* --- functions of these backends' tables: host_share.c --- */

ga_status ga_host_share_alloc(ga_device *device, size_t bytes, ga_shared *out);
ga_status ga_host_share_open(ga_device *device, int fd, size_t bytes, ga_shared *out);
void ga_host_share_close(ga_device *device, ga_shared *m);
ga_status ga_host_fill(ga_stream *stream, void *dst, uint32_t value, size_t n);
ga_status ga_host_copy_rows(ga_stream *stream, const ga_row_copy *c);
ga_status ga_host_value_write(ga_stream *stream, uint32_t *at, uint32_t value);
ga_status ga_host_value_wait(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience);
ga_status ga_host_stream_query(ga_stream *stream, bool *done);

#endif
