/* Messages between GPUs by NCCL. Communicators do not block: a rank that is gone is found by who asks meanwhile, and
 * not waited for. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/cuda.h"
#include "cuda/rt/nccl.h"

#define NAP_NS    50000
#define FIRST_NAP 1e-3 /* seconds: most of what is begun is under way by then */
#define LAST_WAIT 2.0  /* seconds for the others to end, too */

struct ga_link {
  cuda_device *device;
  const ga_nccl *nccl;
  ncclComm_t comm;
};

static ga_status nccl_fail(const ga_nccl *nccl, ncclComm_t comm, ncclResult_t rc, const char *call) {
  const char *name = nccl->GetErrorString(rc), *text = nccl->GetLastError(comm);
  return ga_fail(GA_ERR_COMM, "nccl%s: %s (%d)%s%s", call, name ? name : "error", rc, text && *text ? ": " : "",
                 text ? text : "");
}

/* Until what was begun has been set up; patience ends it before. */
static ga_status settle_link(ga_link *link, ncclResult_t rc, const char *call, const ga_patience *patience) {
  const double first_nap = ga_seconds() + FIRST_NAP;
  ncclResult_t state = rc;
  while (state == NCCL_IN_PROGRESS) {
    rc = link->nccl->CommGetAsyncError(link->comm, &state);
    if (rc != NCCL_SUCCESS) return nccl_fail(link->nccl, link->comm, rc, "CommGetAsyncError");
    if (state != NCCL_IN_PROGRESS) break;
    GA_TRY(patience->ask(patience->user));
    if (ga_seconds() < first_nap)
      (void)sched_yield();
    else
      (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
  return state == NCCL_SUCCESS ? GA_OK : nccl_fail(link->nccl, link->comm, state, call);
}

ga_status cuda_link_load(ga_device *device, ga_link_facts *out) {
  const cuda_device *d = (const cuda_device *)device;
  const ga_nccl *nccl;
  char boot[40] = "";
  *out = (ga_link_facts){.version = ""};
  GA_TRY(ga_nccl_load(&nccl));
  ga_nccl_version_text(nccl->version, out->version);
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re"); /* one for all containers of a host */
  if (f && fscanf(f, "%39s", boot) != 1) boot[0] = 0;
  if (f) (void)fclose(f);
  /* Some sandboxes hide it. Without a name of the host its GPUs would be those of another one. */
  if (!*boot && gethostname(boot, sizeof boot - 1) != 0) boot[0] = 0;
  (void)snprintf(out->place, sizeof out->place, "%.16s %s", d->bus, boot);
  return GA_OK;
}

ga_status cuda_link_id(ga_device *device, unsigned char id[GA_LINK_ID_BYTES]) {
  const ga_nccl *nccl;
  ncclUniqueId unique;
  (void)device;
  GA_TRY(ga_nccl_load(&nccl));
  const ncclResult_t rc = nccl->GetUniqueId(&unique);
  if (rc != NCCL_SUCCESS) return nccl_fail(nccl, NULL, rc, "GetUniqueId");
  memcpy(id, unique.bytes, GA_LINK_ID_BYTES);
  return GA_OK;
}

ga_status cuda_link_open(ga_device *device, const unsigned char id[GA_LINK_ID_BYTES], int32_t rank, int32_t ranks,
                         const ga_patience *patience, ga_link **out) {
  ncclConfig config = NCCL_CONFIG_INIT;
  ncclUniqueId unique;
  const ga_nccl *nccl;
  void *p;
  *out = NULL;
  GA_TRY(ga_nccl_load(&nccl));
  GA_TRY(cuda_enter((cuda_device *)device));
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_link), "a communicator of NCCL", &p));
  ga_link *link = p;
  *link = (ga_link){.device = (cuda_device *)device, .nccl = nccl};
  memcpy(unique.bytes, id, GA_LINK_ID_BYTES);
  const ncclResult_t rc = nccl->CommInitRankConfig(&link->comm, ranks, unique, rank, &config);
  const ga_status status = settle_link(link, rc, "CommInitRankConfig", patience);
  if (status == GA_OK) {
    *out = link;
    return GA_OK;
  }
  cuda_link_abort(link);
  ga_mem_free(link);
  return status;
}

static ncclResult_t post(const ga_link *link, const ga_link_message *m, CUstream stream) {
  return m->is_send ? link->nccl->Send(m->data, m->bytes, NCCL_INT8, m->peer, link->comm, stream)
                    : link->nccl->Recv(m->data, m->bytes, NCCL_INT8, m->peer, link->comm, stream);
}

ga_status cuda_link_exchange(ga_link *link, ga_stream *stream, const ga_link_message *messages, int64_t n,
                             const ga_patience *patience) {
  const ga_nccl *nccl = link->nccl;
  GA_REQUIRE(link->comm, GA_ERR_STATE, "%s: its NCCL communicator has ended", link->device->base.name);
  GA_TRY(cuda_enter(link->device));
  ncclResult_t rc = nccl->GroupStart();
  if (rc != NCCL_SUCCESS) return nccl_fail(nccl, link->comm, rc, "GroupStart");
  for (int64_t i = 0; i < n && (rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS); i++)
    if (messages[i].bytes) rc = post(link, &messages[i], cuda_handle_of(stream));
  const bool posted = rc == NCCL_SUCCESS || rc == NCCL_IN_PROGRESS;
  const ncclResult_t end = nccl->GroupEnd();
  return settle_link(link, posted ? end : rc, posted ? "GroupEnd" : "Send or ncclRecv", patience);
}

ga_status cuda_link_check(ga_link *link) {
  ncclResult_t state;
  if (!link->comm) return GA_OK;
  const ncclResult_t rc = link->nccl->CommGetAsyncError(link->comm, &state);
  if (rc != NCCL_SUCCESS) return nccl_fail(link->nccl, link->comm, rc, "CommGetAsyncError");
  if (state == NCCL_SUCCESS || state == NCCL_IN_PROGRESS) return GA_OK;
  return nccl_fail(link->nccl, link->comm, state, "Send or ncclRecv");
}

void cuda_link_abort(ga_link *link) {
  if (!link->comm) return;
  cuda_enter_late(link->device);
  (void)link->nccl->CommAbort(link->comm);
  link->comm = NULL;
}

static ga_status last_patience(void *user) {
  const double *deadline = user;
  return ga_seconds() < *deadline ? GA_OK : GA_ERR_TIMEOUT;
}

void cuda_link_close(ga_link *link) {
  double deadline = ga_seconds() + LAST_WAIT;
  const ga_patience patience = {last_patience, &deadline};
  if (!link) return;
  cuda_enter_late(link->device);
  if (link->comm) {
    const ncclResult_t rc = link->nccl->CommFinalize(link->comm);
    if (settle_link(link, rc, "CommFinalize", &patience) != GA_OK)
      cuda_link_abort(link);
    else
      (void)link->nccl->CommDestroy(link->comm);
  }
  ga_mem_free(link);
}
