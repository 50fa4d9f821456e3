/* The driver table of src/cuda/rt/driver.h over the emulator: the CUDA backend's host code runs unchanged on top. A
 * stream does its work at once, but for copies from page-locked memory, which it does as late as it may; the first
 * synchronisation behind a launch with reports fails, and its text is the first of them.
 * GA_EMU="devices=2,memory=64,nopeers,noshare,nopin,graphs,lose=100": so many devices, MiB on each, none of which
 * reaches another, or whose memory no other maps, or which page-locks no memory of its callers; streams may be recorded
 * (of launches, fills and copies within the device); and from the 100th call on (of those that work or allocate) the
 * device is lost. */
#include "tests/emu/emu_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu/emu.h"
#include "tests/emu/emu_queue.h"
#include "tests/emu/emu_share.h"

enum {
  ERR_INVALID_VALUE = 1,
  ERR_LOST = 214,
  ERR_NO_PEERS = 217,
  ERR_NOT_FOUND = 500,
  ERR_LAUNCH_FAILED = 719,
  ERR_NOT_SUPPORTED = 801
};
enum { MAX_DEVICES = 4, MAX_LATER = 64 };

/* What pools and contexts point to. */
typedef struct emu_device {
  size_t used;
} emu_device;
static emu_device devices[MAX_DEVICES];
static _Thread_local emu_device *current = devices;

static int sticky; /* of a launch with reports, until the next synchronisation */

/* A number of GA_EMU; `otherwise` without it. */
static size_t setting(const char *name, size_t otherwise) {
  const char *e = getenv("GA_EMU"), *p = e ? strstr(e, name) : NULL;
  return p ? (size_t)strtoull(p + strlen(name), NULL, 10) : otherwise;
}
static bool has_setting(const char *name) {
  const char *e = getenv("GA_EMU");
  return e && strstr(e, name);
}
static size_t memory_bytes(void) { return setting("memory=", 4096) << 20; }

static void sleep_20us(void) { (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); }

/* Counts a call that works or allocates; true when the device is gone by then. */
static bool lost(void) {
  static size_t calls;
  const size_t at = setting("lose=", 0);
  return ++calls >= at && at;
}
#define STEP() \
  EMU_GUARD;   \
  if (lost()) return ERR_LOST

/* --- the device --- */

static CUresult e_Init(unsigned flags) {
  (void)flags;
  return CUDA_SUCCESS;
}
static CUresult e_DriverGetVersion(int *version) {
  *version = 12040;
  return CUDA_SUCCESS;
}
static CUresult e_GetErrorName(CUresult rc, const char **name) {
  *name = rc == ERR_LAUNCH_FAILED          ? "EMULATOR_REPORT"
          : rc == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                           : "CUDA_ERROR";
  return CUDA_SUCCESS;
}
static CUresult e_GetErrorString(CUresult rc, const char **text) {
  *text = rc == ERR_LOST       ? "the device is lost"
          : rc == ERR_NO_PEERS ? "peer access is not supported between these two devices"
          : emu_n_reports()    ? emu_report_text(0)
                               : "no report";
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetCount(int *n) {
  *n = (int)setting("devices=", 1);
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGet(CUdevice *device, int index) {
  *device = index;
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetPCIBusId(char *bus, int bytes, CUdevice device) {
  (void)snprintf(bus, (size_t)bytes, "none-%d", device);
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetName(char *name, int bytes, CUdevice device) {
  (void)device;
  (void)snprintf(name, (size_t)bytes, "emulated sm_90a");
  return CUDA_SUCCESS;
}
static CUresult e_DeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  *value = attribute == CU_ATTR_MULTIPROCESSOR_COUNT                ? emu_settings()->sms
           : attribute == CU_ATTR_L2_CACHE_SIZE                     ? 50 << 20
           : attribute == CU_ATTR_COMPUTE_CAPABILITY_MAJOR          ? 9
           : attribute == CU_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 232448
           : attribute == CU_ATTR_VIRTUAL_MEMORY_SUPPORTED          ? !has_setting("noshare")
           : attribute == CU_ATTR_POSIX_HANDLES_SUPPORTED           ? 1
           : attribute == CU_ATTR_MEMORY_POOLS_SUPPORTED            ? 1
                                                                    : 0;
  return CUDA_SUCCESS;
}
static CUresult e_DeviceTotalMem(size_t *bytes, CUdevice device) {
  (void)device;
  *bytes = memory_bytes();
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  *ctx = (CUcontext)(void *)&devices[device];
  return CUDA_SUCCESS;
}
static CUresult e_DevicePrimaryCtxRelease(CUdevice device) {
  (void)device;
  return CUDA_SUCCESS;
}
static CUresult e_CtxSetCurrent(CUcontext ctx) {
  current = (emu_device *)(void *)ctx;
  return CUDA_SUCCESS;
}
static CUresult synchronise(void) {
  const CUresult late = emu_late_fault();
  int rc = sticky ? sticky : late;
  sticky = CUDA_SUCCESS;
  return rc;
}
static CUresult e_CtxSynchronize(void) {
  EMU_GUARD;
  return synchronise();
}

/* --- memory --- */

/* Whose device memory is, and which host memory is page-locked. */
typedef struct piece {
  char *at;
  size_t bytes;
  emu_device *device; /* NULL: host */
} piece;
static piece *pieces;
static size_t n_pieces, pieces_capacity;

static piece *piece_holding(const void *p) {
  for (size_t i = 0; i < n_pieces; i++)
    if ((const char *)p >= pieces[i].at && (const char *)p < pieces[i].at + pieces[i].bytes) return &pieces[i];
  return NULL;
}
static bool add_piece(void *p, size_t bytes, emu_device *device) {
  if (n_pieces == pieces_capacity) {
    piece *more = realloc(pieces, (pieces_capacity = 2 * pieces_capacity + 64) * sizeof *more);
    if (!more) return false;
    pieces = more;
  }
  pieces[n_pieces++] = (piece){.at = p, .bytes = bytes, .device = device};
  if (device) device->used += bytes;
  return true;
}
static void drop_piece(const void *p) {
  piece *at = piece_holding(p);
  if (!at) return;
  if (at->device) at->device->used -= at->bytes;
  *at = pieces[--n_pieces];
}

/* Copies from page-locked memory that are still to be done, in order; `done` of them are. */
static struct {
  void *dst;
  const void *src;
  size_t bytes;
} later[MAX_LATER];
static size_t enqueued, done;

static void do_later(size_t until) {
  for (; done < until; done++) {
    memcpy(later[done % MAX_LATER].dst, later[done % MAX_LATER].src, later[done % MAX_LATER].bytes);
    emu_mark_written(later[done % MAX_LATER].dst, later[done % MAX_LATER].bytes);
  }
}

/* Work whose turn has come. */
static CUresult do_launch(const emu_launch *l) {
  if (sticky) return sticky;
  emu_clear_reports();
  if (!emu_run_launch(l)) return CUDA_SUCCESS;
  for (size_t i = 0; i < emu_n_reports(); i++) (void)fprintf(stderr, "%s\n", emu_report_text(i));
  sticky = ERR_LAUNCH_FAILED; /* as on a GPU, it comes up at the next synchronisation */
  return CUDA_SUCCESS;
}

static void do_copy(const emu_work *w) {
  for (size_t i = 0; i < w->rows; i++) {
    void *dst = (char *)w->dst + i * w->dst_pitch;
    memcpy(dst, (const char *)w->src + i * w->src_pitch, w->width);
    if (emu_is_device(dst, w->width)) emu_mark_written(dst, w->width);
  }
}

void emu_mark_received(void *p, size_t bytes) {
  EMU_GUARD;
  if (emu_is_device(p, bytes)) emu_mark_written(p, bytes);
}

static void do_fill(const emu_work *w) {
  for (size_t i = 0; i < w->rows; i++)
    if (w->width == 4)
      ((uint32_t *)w->dst)[i] = w->value;
    else
      ((unsigned char *)w->dst)[i] = (unsigned char)w->value;
  emu_mark_written(w->dst, w->width * w->rows);
}

CUresult emu_do(const emu_work *w) {
  if (w->kind != EMU_RECORD) do_later(enqueued);
  switch (w->kind) {
  case EMU_COPY: do_copy(w); return CUDA_SUCCESS;
  case EMU_FILL: do_fill(w); return CUDA_SUCCESS;
  case EMU_WRITE: __atomic_store_n((uint32_t *)w->dst, w->value, __ATOMIC_RELEASE); return CUDA_SUCCESS;
  case EMU_RECORD:
    (void)clock_gettime(CLOCK_MONOTONIC, &w->event->at);
    w->event->copies = enqueued;
    emu_event_pass(w->event, w->turn);
    return CUDA_SUCCESS;
  case EMU_LAUNCH: return do_launch(&w->launch);
  case EMU_FREE: drop_piece(w->dst); return emu_free(w->dst) ? CUDA_SUCCESS : ERR_INVALID_VALUE;
  default: return CUDA_SUCCESS;
  }
}

static CUresult e_MemGetInfo(size_t *free_bytes, size_t *total) {
  EMU_GUARD;
  *total = memory_bytes();
  *free_bytes = *total - current->used;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  *pool = (CUmemoryPool)(void *)&devices[properties->location_id];
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolDestroy(CUmemoryPool pool) {
  (void)pool;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  (void)pool, (void)attribute, (void)value;
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
  EMU_GUARD;
  const uint64_t used = ((const emu_device *)(const void *)pool)->used;
  (void)attribute;
  memcpy(value, &used, sizeof used);
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  (void)pool, (void)keep;
  return CUDA_SUCCESS;
}
static CUresult e_MemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  emu_device *d = (emu_device *)(void *)pool;
  (void)stream;
  STEP();
  if (bytes > memory_bytes() - d->used) return CUDA_ERROR_OUT_OF_MEMORY;
  void *p = emu_alloc(bytes);
  *out = (CUdeviceptr)(uintptr_t)p;
  return p && add_piece(p, bytes, d) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeAsync(CUdeviceptr p, CUstream stream) {
  EMU_GUARD;
  const emu_work w = {.kind = EMU_FREE, .dst = (void *)(uintptr_t)p};
  return emu_submit(stream, &w, 0);
}
static CUresult e_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  STEP();
  *out = malloc(bytes ? bytes : 1);
  return *out && add_piece(*out, bytes, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemFreeHost(void *p) {
  EMU_GUARD;
  do_later(enqueued);
  drop_piece(p);
  free(p);
  return CUDA_SUCCESS;
}
static CUresult e_MemHostRegister(void *p, size_t bytes, unsigned flags) {
  STEP();
  if (has_setting("nopin")) return ERR_NOT_SUPPORTED;
  if ((uintptr_t)p % 4096 || bytes % 4096 || flags != CU_MEMHOSTREGISTER_PORTABLE) return ERR_INVALID_VALUE;
  return add_piece(p, bytes, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemHostUnregister(void *p) {
  EMU_GUARD;
  do_later(enqueued);
  drop_piece(p);
  return CUDA_SUCCESS;
}
static emu_work copy_work(void *dst, const void *src, size_t bytes) {
  return (emu_work){.kind = EMU_COPY, .dst = dst, .src = src, .width = bytes, .rows = 1};
}
static CUresult e_MemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t bytes, CUstream stream) {
  void *p = (void *)(uintptr_t)dst;
  STEP();
  if (!emu_is_device(p, bytes)) return ERR_INVALID_VALUE;
  const bool pageable = !piece_holding(src);
  if (!emu_is_drained(stream)) {
    const emu_work w = copy_work(p, src, bytes);
    return emu_submit(stream, &w, pageable ? bytes : 0);
  }
  if (enqueued - done == MAX_LATER) do_later(enqueued);
  later[enqueued % MAX_LATER].dst = p;
  later[enqueued % MAX_LATER].src = src;
  later[enqueued++ % MAX_LATER].bytes = bytes;
  if (pageable) do_later(enqueued); /* pageable memory has been read when the call returns */
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  const emu_work w = copy_work(dst, (void *)(uintptr_t)src, bytes);
  STEP();
  if (!emu_is_device((void *)(uintptr_t)src, bytes)) return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_MemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  const emu_work w = copy_work((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
  STEP();
  if (!emu_is_device(w.src, bytes) || !emu_is_device(w.dst, bytes)) return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
/* The last byte of each side is looked at, too: a driver would find a pitch that leaves the allocation. */
static CUresult e_Memcpy2DAsync(const CUcopy2D *c, CUstream stream) {
  emu_work w = copy_work((void *)(uintptr_t)c->dst, (void *)(uintptr_t)c->src, c->width);
  STEP();
  w.rows = c->rows, w.dst_pitch = c->dst_pitch, w.src_pitch = c->src_pitch;
  if (c->src_type != CU_MEMORYTYPE_DEVICE || c->dst_type != CU_MEMORYTYPE_DEVICE || c->src_x || c->src_y || c->dst_x ||
      c->dst_y || c->width > c->src_pitch || c->width > c->dst_pitch || !c->rows || !c->width)
    return ERR_INVALID_VALUE;
  if (!emu_is_device(w.src, (c->rows - 1) * c->src_pitch + c->width) ||
      !emu_is_device(w.dst, (c->rows - 1) * c->dst_pitch + c->width))
    return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_DeviceCanAccessPeer(int *can, CUdevice reader, CUdevice owner) {
  *can = reader != owner && !has_setting("nopeers");
  return CUDA_SUCCESS;
}
static CUresult e_MemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t n) {
  (void)pool, (void)access, (void)n;
  return CUDA_SUCCESS;
}
static CUresult e_MemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
                                  CUstream stream) {
  const emu_work w = copy_work((void *)(uintptr_t)dst, (void *)(uintptr_t)src, bytes);
  STEP();
  if (!emu_is_device(w.dst, bytes) || !emu_is_device(w.src, bytes)) return ERR_INVALID_VALUE;
  if ((void *)piece_holding(w.dst)->device != (void *)to || (void *)piece_holding(w.src)->device != (void *)from)
    return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_PointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
  EMU_GUARD;
  const piece *at = piece_holding((void *)(uintptr_t)p);
  (void)attribute;
  if (!at || !at->device) return ERR_INVALID_VALUE;
  *(int *)value = (int)(at->device - devices);
  return CUDA_SUCCESS;
}
static CUresult fill_memory(CUdeviceptr dst, size_t width, uint32_t value, size_t n, CUstream stream) {
  const emu_work w = {.kind = EMU_FILL, .dst = (void *)(uintptr_t)dst, .width = width, .rows = n, .value = value};
  STEP();
  if (!emu_is_device(w.dst, n * width) || dst % width) return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_MemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
  return fill_memory(dst, 1, value, n, stream);
}
static CUresult e_MemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream) {
  return fill_memory(dst, 4, value, n, stream);
}

/* --- memory that is shared: emu_share.c makes it --- */

static CUresult e_MemGetAllocationGranularity(size_t *out, const CUmemProps *props, int option) {
  (void)option;
  *out = EMU_SHARE_GRAIN;
  return props->handle_type == CU_MEM_HANDLE_POSIX ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}
static CUresult e_MemCreate(CUmemory *out, size_t bytes, const CUmemProps *props, unsigned long long flags) {
  (void)flags;
  STEP();
  if (bytes > memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  return emu_share_create(out, bytes, props->location_id);
}
static CUresult e_MemRelease(CUmemory memory) {
  EMU_GUARD;
  return emu_share_release(memory);
}
static CUresult e_MemExport(void *out, CUmemory memory, int type, unsigned long long flags) {
  (void)flags;
  STEP();
  return type == CU_MEM_HANDLE_POSIX ? emu_share_export(out, memory) : ERR_INVALID_VALUE;
}
static CUresult e_MemImport(CUmemory *out, void *handle, int type) {
  STEP();
  return type == CU_MEM_HANDLE_POSIX ? emu_share_import(out, (int)(intptr_t)handle) : ERR_INVALID_VALUE;
}
static CUresult e_MemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at,
                                    unsigned long long flags) {
  (void)flags, (void)at;
  STEP();
  if (bytes % EMU_SHARE_GRAIN || align > EMU_SHARE_GRAIN) return ERR_INVALID_VALUE;
  void *p = emu_share_reserve(bytes);
  *out = (CUdeviceptr)(uintptr_t)p;
  return p && add_piece(p, bytes, current) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult e_MemAddressFree(CUdeviceptr p, size_t bytes) {
  EMU_GUARD;
  drop_piece((void *)(uintptr_t)p);
  return emu_share_unreserve((void *)(uintptr_t)p, bytes);
}
/* Of what this thread has mapped last: access is asked for next. */
static _Thread_local int mapped_owner;

static CUresult e_MemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemory memory, unsigned long long flags) {
  (void)flags;
  STEP();
  mapped_owner = emu_share_owner(memory);
  return offset ? ERR_INVALID_VALUE : emu_share_map((void *)(uintptr_t)p, bytes, memory);
}
static CUresult e_MemUnmap(CUdeviceptr p, size_t bytes) {
  EMU_GUARD;
  return emu_share_unmap((void *)(uintptr_t)p, bytes);
}
static CUresult e_MemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n) {
  (void)p, (void)bytes;
  if (n == 1 && has_setting("nopeers") && mapped_owner != access->location_id) return ERR_NO_PEERS;
  return n == 1 && access->flags == CU_MEMPOOL_READ_WRITE ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}

/* --- streams, events, graphs --- */

/* Values are for mapped memory: cuStreamWriteValue32 refuses that of a pool with this code (driver 580, H200). */
static CUresult e_StreamWriteValue32(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags) {
  const emu_work w = {.kind = EMU_WRITE, .dst = (void *)(uintptr_t)at, .value = value};
  STEP();
  if (flags != CU_STREAM_WRITE_DEFAULT || !emu_share_holds(w.dst, 4) || at % 4) return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_StreamWaitValue32(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags) {
  const emu_work w = {.kind = EMU_AWAIT, .src = (const void *)(uintptr_t)at, .value = value};
  STEP();
  if (flags != CU_STREAM_WAIT_GEQ || !emu_share_holds(w.src, 4) || at % 4) return ERR_INVALID_VALUE;
  return emu_submit(stream, &w, 0);
}
static CUresult e_StreamCreate(CUstream *stream, unsigned flags) {
  EMU_GUARD;
  (void)flags;
  return emu_stream_new(stream);
}
static CUresult e_StreamDestroy(CUstream stream) {
  EMU_GUARD;
  return emu_stream_drop(stream);
}
static bool is_drained(CUstream stream) {
  EMU_GUARD;
  return emu_is_drained(stream);
}
static CUresult e_StreamSynchronize(CUstream stream) {
  while (!is_drained(stream)) sleep_20us();
  STEP();
  do_later(enqueued);
  return synchronise();
}
static CUresult e_StreamQuery(CUstream stream) {
  STEP();
  if (!emu_is_drained(stream)) return CUDA_ERROR_NOT_READY;
  do_later(enqueued);
  return synchronise();
}
static CUresult e_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  emu_event *e = (void *)event;
  EMU_GUARD;
  (void)flags;
  const emu_work w = {.kind = EMU_FOLLOW, .event = e, .turn = e->asked};
  return emu_submit(stream, &w, 0);
}
/* Streams have no device here, so all are of the one at hand. */
static CUresult e_StreamGetCtx(CUstream stream, CUcontext *ctx) {
  (void)stream;
  *ctx = (CUcontext)(void *)current;
  return CUDA_SUCCESS;
}
static CUresult e_StreamIsCapturing(CUstream stream, int *status) {
  EMU_GUARD;
  *status = emu_is_recording(stream) ? 1 : CU_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
static CUresult e_StreamBeginCapture(CUstream stream, int mode) {
  (void)mode;
  EMU_GUARD;
  return has_setting("graphs") ? emu_record_begin(stream) : ERR_NOT_SUPPORTED;
}
static CUresult e_StreamEndCapture(CUstream stream, CUgraph *graph) {
  EMU_GUARD;
  return emu_record_end(stream, (emu_graph **)(void *)graph);
}
static CUresult e_GraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  emu_graph *g = (void *)graph;
  (void)flags;
  EMU_GUARD;
  g->users++;
  *exec = (void *)g;
  return CUDA_SUCCESS;
}
static CUresult e_GraphLaunch(CUgraphExec exec, CUstream stream) {
  STEP();
  return emu_graph_run((const void *)exec, stream);
}
static CUresult e_GraphExecDestroy(CUgraphExec exec) {
  EMU_GUARD;
  emu_graph_let_go((void *)exec);
  return CUDA_SUCCESS;
}
static CUresult e_GraphDestroy(CUgraph graph) {
  EMU_GUARD;
  emu_graph_let_go((void *)graph);
  return CUDA_SUCCESS;
}

static CUresult e_EventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  emu_event *e = calloc(1, sizeof *e);
  *event = (void *)e;
  if (!e) return CUDA_ERROR_OUT_OF_MEMORY;
  e->users = 1;
  return CUDA_SUCCESS;
}
static CUresult e_EventDestroy(CUevent event) {
  EMU_GUARD;
  emu_event_let_go((void *)event);
  return CUDA_SUCCESS;
}
static CUresult e_EventRecord(CUevent event, CUstream stream) {
  emu_event *e = (void *)event;
  STEP();
  if (!emu_event_ask(e)) return CUDA_ERROR_OUT_OF_MEMORY;
  e->is_captured = emu_is_recording(stream);
  const emu_work w = {.kind = EMU_RECORD, .event = e, .turn = e->asked};
  return emu_submit(stream, &w, 0);
}
static CUresult e_EventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  emu_event *e = (void *)event;
  STEP();
  if (flags != CU_EVENT_RECORD_EXTERNAL || !emu_is_recording(stream)) return ERR_INVALID_VALUE;
  if (!emu_event_ask(e)) return CUDA_ERROR_OUT_OF_MEMORY;
  e->is_captured = false;
  const emu_work w = {.kind = EMU_RECORD, .event = e, .turn = e->asked};
  return emu_submit(stream, &w, 0);
}
static bool has_come(emu_event *e) {
  EMU_GUARD;
  if (!emu_event_has_passed(e, e->asked)) emu_pump();
  if (!emu_event_has_passed(e, e->asked)) return false;
  do_later(e->copies);
  return true;
}
static CUresult e_EventSynchronize(CUevent event) {
  while (!has_come((void *)event)) sleep_20us();
  STEP();
  return CUDA_SUCCESS;
}
static CUresult e_EventQuery(CUevent event) {
  if (!has_come((void *)event)) return CUDA_ERROR_NOT_READY;
  STEP();
  return CUDA_SUCCESS;
}
static CUresult e_EventElapsedTime(float *ms, CUevent start, CUevent end) {
  const struct timespec *a = &((const emu_event *)(const void *)start)->at,
                        *b = &((const emu_event *)(const void *)end)->at;
  if (((const emu_event *)(const void *)start)->is_captured || ((const emu_event *)(const void *)end)->is_captured)
    return ERR_INVALID_VALUE;
  *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
  return CUDA_SUCCESS;
}

/* --- kernels: an image is the emulator's description of the row --- */

static CUresult e_ModuleLoadData(CUmodule *module, const void *image) {
  memcpy(module, &image, sizeof image);
  return CUDA_SUCCESS;
}
static CUresult e_ModuleUnload(CUmodule module) {
  (void)module;
  return CUDA_SUCCESS;
}
static CUresult e_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  const emu_kernel *k = (const void *)module;
  if (strcmp(k->id, name)) return ERR_NOT_FOUND;
  memcpy(function, &module, sizeof module);
  return CUDA_SUCCESS;
}
static CUresult e_FuncSetAttribute(CUfunction function, int attribute, int value) {
  (void)function, (void)attribute;
  return value <= 232448 ? CUDA_SUCCESS : ERR_INVALID_VALUE;
}
static CUresult e_FuncGetAttribute(int *value, int attribute, CUfunction function) {
  (void)attribute, (void)function;
  *value = 0;
  return CUDA_SUCCESS;
}

static CUresult e_LaunchKernelEx(const CUlaunchConfig *c, CUfunction function, void **params, void **extra) {
  emu_work w = {.kind = EMU_LAUNCH};
  emu_launch l = {.kernel = (const void *)function,
                  .grid = {c->grid_x, c->grid_y, c->grid_z},
                  .block = {c->block_x, c->block_y, c->block_z},
                  .shared_bytes = c->shared_bytes,
                  .args = params[0]};
  (void)extra;
  STEP();
  for (unsigned i = 0; i < c->n_attributes; i++) {
    const CUlaunchAttribute *a = &c->attributes[i];
    if (a->id == CU_LAUNCH_CLUSTER_DIMENSION) {
      l.cluster[0] = a->value.cluster.x;
      l.cluster[1] = a->value.cluster.y;
      l.cluster[2] = a->value.cluster.z;
    } else if (a->id == CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION) {
      l.dependent = a->value.programmatic != 0;
    }
  }
  if (sticky) return sticky;
  w.launch = l;
  return emu_submit(c->stream, &w, l.kernel->args_bytes);
}

static CUresult e_TensorMapEncodeTiled(void *map, int type, unsigned rank, void *base, const uint64_t *dims,
                                       const uint64_t *strides_bytes, const uint32_t *box,
                                       const uint32_t *element_strides, int interleave, int swizzle, int l2, int oob) {
  EMU_GUARD;
  emu_clear_reports();
  return emu_tmap_encode(map, type, rank, base, dims, strides_bytes, box, element_strides, interleave, swizzle, l2,
                         oob);
}

ga_cu emu_driver = {
#define X(name, symbol, params) .name = e_##name,
    GA_CU_SYMBOLS(X)
#undef X
        .version = 12040};
