/* Sharing memory with other processes, and values in it, for devices over host memory. Work is done when a call
 * returns, so the host itself waits for a value. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/status.h"
#include "core/host_device.h"

#define PAGE_BYTES 4096
#define SPINS      200   /* looks at a value before the thread sleeps between them */
#define NAP_NS     50000 /* between two looks */

static ga_status map_shared_fd(ga_shared *m, int fd) {
  void *p = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  GA_REQUIRE(p != MAP_FAILED, GA_ERR_NOMEM, "shared memory: %zu bytes: %s", m->bytes, strerror(errno));
  m->data = p;
  return GA_OK;
}

ga_status ga_host_share_alloc(ga_device *device, size_t bytes, ga_shared *out) {
  ga_shared m = {.bytes = ga_round_up(bytes ? bytes : 1, PAGE_BYTES)};
  *out = (ga_shared){.fd = -1};
  m.fd = memfd_create("ga-shared", MFD_CLOEXEC);
  GA_REQUIRE(m.fd >= 0, GA_ERR_NOMEM, "shared memory: %s", strerror(errno));
  ga_status status = ftruncate(m.fd, (off_t)m.bytes) == 0
                         ? map_shared_fd(&m, m.fd)
                         : ga_fail(GA_ERR_NOMEM, "shared memory: %zu bytes: %s", m.bytes, strerror(errno));
  if (status == GA_OK)
    *out = m;
  else
    ga_host_share_close(device, &m);
  return status;
}

ga_status ga_host_share_open(ga_device *device, int fd, size_t bytes, ga_shared *out) {
  (void)device;
  *out = (ga_shared){.bytes = bytes, .fd = -1};
  return map_shared_fd(out, fd);
}

void ga_host_share_close(ga_device *device, ga_shared *m) {
  (void)device;
  if (m->data) (void)munmap(m->data, m->bytes);
  if (m->fd >= 0) (void)close(m->fd);
  *m = (ga_shared){.fd = -1};
}

ga_status ga_host_fill(ga_stream *stream, void *dst, uint32_t value, size_t n) {
  uint32_t *p = dst;
  (void)stream;
  for (size_t i = 0; i < n; i++) p[i] = value;
  return GA_OK;
}

ga_status ga_host_copy_rows(ga_stream *stream, const ga_row_copy *c) {
  (void)stream;
  for (size_t i = 0; i < c->rows && c->width; i++)
    memcpy((char *)c->dst + i * c->dst_pitch, (const char *)c->src + i * c->src_pitch, c->width);
  return GA_OK;
}

ga_status ga_host_value_write(ga_stream *stream, uint32_t *at, uint32_t value) {
  (void)stream;
  atomic_store_explicit((_Atomic uint32_t *)(void *)at, value, memory_order_release);
  return GA_OK;
}

ga_status ga_host_value_wait(ga_stream *stream, const uint32_t *at, uint32_t value, const ga_patience *patience) {
  const _Atomic uint32_t *word = (const _Atomic uint32_t *)(const void *)at;
  (void)stream;
  for (int64_t looks = 0; (int32_t)(atomic_load_explicit(word, memory_order_acquire) - value) < 0; looks++) {
    if (looks < SPINS) continue;
    GA_TRY(patience->ask(patience->user));
    (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
  return GA_OK;
}

ga_status ga_host_stream_query(ga_stream *stream, bool *done) {
  (void)stream;
  *done = true;
  return GA_OK;
}
