#include "comm/rank_memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"

static ga_shared *own_memory(const dist_rank_memory *m) { return &m->of[m->comm->rank]; }

static ga_status map_all(const dist_rank_memory *m, const int *fds, const uint64_t *bytes) {
  for (int32_t r = 0; r < m->comm->size; r++)
    if (r != m->comm->rank) GA_TRY(m->device->sharing->open(m->device, fds[r], (size_t)bytes[r], &m->of[r]));
  return GA_OK;
}

/* Ranks that have failed so far have ended the communicator, so that none waits here for long. An error of a mapping is
 * in *mapped. */
static ga_status trade_memory(const dist_rank_memory *m, ga_status *mapped) {
  const int32_t ranks = m->comm->size;
  const uint64_t mine = own_memory(m)->bytes;
  void *p, *q;
  *mapped = GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof(int), "ranks", &p));
  int *const fds = p;
  for (int32_t r = 0; r < ranks; r++) fds[r] = -1;
  ga_status status = ga_mem_zalloc((size_t)ranks, sizeof mine, "ranks", &q);
  if (status == GA_OK) {
    status = ga_comm_all_gather(m->comm, &mine, sizeof mine, q);
    if (status == GA_OK) status = m->comm->calls->trade_fds(m->comm, own_memory(m)->fd, fds);
    if (status == GA_OK)
      *mapped = map_all(m, fds, q);
    else if (status == GA_ERR_UNSUPPORTED) /* on all ranks */
      *mapped = status, status = GA_OK;
    ga_mem_free(q);
  }
  for (int32_t r = 0; r < ranks; r++)
    if (fds[r] >= 0) (void)close(fds[r]);
  ga_mem_free(p);
  return status;
}

static ga_status make_own_shared(const dist_rank_memory *m, size_t bytes) {
  const ga_sharing *sharing = m->device->sharing;
  bool allowed;
  GA_TRY(ga_peers_allowed(&allowed));
  GA_REQUIRE(allowed, GA_ERR_UNSUPPORTED, "GA_PEER is off");
  GA_REQUIRE(sharing, GA_ERR_UNSUPPORTED, "%s shares no memory with other devices", m->device->name);
  return sharing->alloc(m->device, bytes, own_memory(m));
}

/* Each rank maps the memory of all others, or none does: *can then has the first error. */
static ga_status share_memory(dist_rank_memory *m, size_t bytes, ga_status *can) {
  ga_status status, mapped;
  m->copies = DIST_COPIES_PEER;
  *can = dist_copies_agree(m->comm, make_own_shared(m, bytes), &status);
  if (status != GA_OK || *can != GA_OK) return status;
  GA_TRY(trade_memory(m, &mapped));
  *can = dist_copies_agree(m->comm, mapped, &status);
  return status;
}

static void free_rank_memory(const dist_rank_memory *m) {
  for (int32_t r = 0; m->of && r < m->comm->size; r++) {
    ga_shared *one = &m->of[r];
    if (one->data && m->copies == DIST_COPIES_PEER) m->device->sharing->close(m->device, one);
    if (one->data && m->copies != DIST_COPIES_PEER) m->device->ops->free(m->device, one->data);
    *one = (ga_shared){.fd = -1};
  }
}

/* What a device or a host cannot do, and not what it has too little of. */
static bool may_go_without(ga_status status) { return status == GA_ERR_UNSUPPORTED || status == GA_ERR_DEVICE; }

/* A program may make an executor for each shape. */
static void warn_once(const dist_rank_memory *m) {
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (m->comm->rank == 0 && !atomic_flag_test_and_set(&told))
    ga_log(GA_LOG_WARN, "dist: the devices do not write into each other's memory (%s): blocks go through host memory",
           m->why_host);
}

static ga_status make_rank_memory(dist_rank_memory *m, size_t bytes, dist_copies wanted) {
  ga_status can;
  if (wanted == DIST_COPIES_AUTO || wanted == DIST_COPIES_PEER) {
    GA_TRY(share_memory(m, bytes, &can));
    if (can == GA_OK) return GA_OK;
    free_rank_memory(m);
    if (wanted == DIST_COPIES_PEER || !may_go_without(can))
      return ga_fail_in(can, "dist: the devices do not write into each other's memory");
    (void)snprintf(m->why_host, sizeof m->why_host, "%s", ga_error_text());
    warn_once(m);
  } else if (wanted == DIST_COPIES_HOST) {
    (void)snprintf(m->why_host, sizeof m->why_host, "it was asked for");
  }
  m->copies = wanted == DIST_COPIES_LINK ? DIST_COPIES_LINK : DIST_COPIES_HOST;
  own_memory(m)->bytes = bytes;
  return m->device->ops->alloc_zeroed(m->device, bytes, &own_memory(m)->data);
}

ga_status dist_rank_memory_open(ga_comm *comm, ga_device *device, size_t bytes, dist_copies wanted,
                                dist_rank_memory *m) {
  void *p;
  *m = (dist_rank_memory){.comm = comm, .device = device};
  GA_TRY(ga_mem_zalloc((size_t)comm->size, sizeof *m->of, "ranks", &p));
  m->of = p;
  for (int32_t r = 0; r < comm->size; r++) m->of[r].fd = -1;
  return make_rank_memory(m, bytes, wanted);
}

void dist_rank_memory_close(dist_rank_memory *m) {
  free_rank_memory(m);
  ga_mem_free(m->of);
  m->of = NULL;
}
