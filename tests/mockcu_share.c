/* The part of the mock driver for shared memory and values in it: mappings of files without a name. A stream that waits
 * for a value that is not there would wait for ever, since all work is done at once: that is misuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mockcu_internal.h"

#define GRAIN         ((size_t)2 << 20) /* as GPUs have */
#define MOST_MAPPINGS 64

/* Addresses that are reserved, and what is mapped there. */
typedef struct mapping {
  char *at;
  size_t bytes;
  bool is_mapped, is_open;
  int owner; /* device */
} mapping;
static mapping mappings[MOST_MAPPINGS];

static void *address(CUdeviceptr p) { return (void *)(uintptr_t)p; }

/* The mapping that [p, p + bytes) lies in, NULL if none. */
static mapping *mapping_of(const void *p, size_t bytes) {
  for (size_t i = 0; i < MOST_MAPPINGS; i++) {
    mapping *m = &mappings[i];
    if (m->at && (const char *)p >= m->at && (const char *)p + bytes <= m->at + m->bytes) return m;
  }
  return NULL;
}

bool mock_is_shared(const void *p, size_t bytes) {
  const mapping *m = mapping_of(p, bytes);
  return m && m->is_mapped && m->is_open;
}

CUresult mock_MemGetAllocationGranularity(size_t *out, const CUmemProps *p, int option) {
  STEP("cuMemGetAllocationGranularity");
  if (p->allocation_type != 1 || p->location_type != 1 || sizeof *p != 32 || option != CU_MEM_GRANULARITY_MINIMUM)
    mock_misuse("properties of memory");
  *out = GRAIN;
  return 0;
}
/* A handle is a file descriptor + 1. */
static CUresult hand_out(CUmemory *out, int fd) {
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  mockcu.live++;
  *out = (CUmemory)fd + 1;
  return 0;
}
CUresult mock_MemCreate(CUmemory *out, size_t bytes, const CUmemProps *p, unsigned long long flags) {
  STEP_IN("cuMemCreate");
  if (p->handle_type != CU_MEM_HANDLE_POSIX || flags) mock_misuse("memory that cannot be shared");
  if (bytes % GRAIN) mock_misuse("bytes are no multiple of the granularity");
  if (bytes > mockcu.memory_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  char name[32];
  (void)snprintf(name, sizeof name, "mock-%d", p->location_id); /* it goes with the descriptor */
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) abort();
  return hand_out(out, fd);
}
CUresult mock_MemRelease(CUmemory memory) {
  const CUresult rc = mock_step("cuMemRelease");
  if (!memory || close((int)memory - 1) != 0) mock_misuse("releases what is no memory");
  mockcu.live--;
  return rc;
}
CUresult mock_MemExport(void *out, CUmemory memory, int type, unsigned long long flags) {
  STEP_IN("cuMemExportToShareableHandle");
  if (type != CU_MEM_HANDLE_POSIX || flags) mock_misuse("type of a handle");
  const int fd = dup((int)memory - 1);
  memcpy(out, &fd, sizeof fd);
  return fd < 0;
}
CUresult mock_MemImport(CUmemory *out, void *handle, int type) {
  STEP_IN("cuMemImportFromShareableHandle");
  if (type != CU_MEM_HANDLE_POSIX) mock_misuse("type of a handle");
  return hand_out(out, dup((int)(intptr_t)handle));
}
CUresult mock_MemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr at,
                                unsigned long long flags) {
  STEP_IN("cuMemAddressReserve");
  if (bytes % GRAIN || align > GRAIN || at || flags) mock_misuse("addresses");
  for (size_t i = 0; i < MOST_MAPPINGS; i++) {
    if (mappings[i].at) continue;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    mappings[i] = (mapping){.at = p, .bytes = bytes};
    mockcu.live++;
    *out = (CUdeviceptr)(uintptr_t)p;
    return 0;
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult mock_MemAddressFree(CUdeviceptr p, size_t bytes) {
  const CUresult rc = mock_step("cuMemAddressFree");
  mapping *m = mapping_of(address(p), bytes);
  if (!m || m->is_mapped || m->bytes != bytes) {
    mock_misuse("addresses that are not reserved, or mapped");
    return CUDA_ERROR_INVALID_VALUE;
  }
  (void)munmap(m->at, m->bytes);
  m->at = NULL;
  mockcu.live--;
  return rc;
}
static int owner_of(CUmemory memory) {
  char path[64], name[64] = "";
  int device = -1;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", (int)memory - 1);
  return readlink(path, name, sizeof name - 1) > 0 && sscanf(name, "/memfd:mock-%d", &device) == 1 ? device : -1;
}
CUresult mock_MemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemory memory, unsigned long long flags) {
  STEP_IN("cuMemMap");
  mapping *m = mapping_of(address(p), bytes);
  if (!m || m->is_mapped || offset || flags) mock_misuse("maps over another mapping, or nowhere");
  if (!m || mmap(m->at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)memory - 1, 0) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  m->is_mapped = true;
  m->owner = owner_of(memory);
  return 0;
}
CUresult mock_MemUnmap(CUdeviceptr p, size_t bytes) {
  const CUresult rc = mock_step("cuMemUnmap");
  mapping *m = mapping_of(address(p), bytes);
  if (!m || !m->is_mapped) {
    mock_misuse("unmaps what is not mapped");
    return CUDA_ERROR_INVALID_VALUE;
  }
  m->is_mapped = m->is_open = false;
  return rc;
}
CUresult mock_MemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n) {
  STEP_IN("cuMemSetAccess");
  mapping *m = mapping_of(address(p), bytes);
  if (!m || !m->is_mapped || n != 1 || access->location_type != 1 || access->flags != CU_MEMPOOL_READ_WRITE)
    return CUDA_ERROR_INVALID_VALUE;
  if (mockcu.no_peers && m->owner != access->location_id) return 217; /* PEER_ACCESS_UNSUPPORTED */
  m->is_open = true;
  return 0;
}

/* --- in stream order --- */

static CUresult check_memory(const void *p, size_t bytes) {
  if (mock_is_shared(p, bytes) || mockcu_extent(p) >= bytes) return 0;
  mock_misuse("a range outside of every buffer");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult mock_Memcpy2DAsync(const CUcopy2D *c, CUstream stream) {
  STEP_IN("cuMemcpy2DAsync");
  if (mock_idle(stream)) return CUDA_ERROR_INVALID_VALUE;
  if (sizeof *c != 128 || c->src_type != CU_MEMORYTYPE_DEVICE || c->dst_type != CU_MEMORYTYPE_DEVICE ||
      c->width > c->src_pitch || c->width > c->dst_pitch) {
    mock_misuse("arguments of a copy of rows");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (check_memory(address(c->src), (c->rows - 1) * c->src_pitch + c->width) ||
      check_memory(address(c->dst), (c->rows - 1) * c->dst_pitch + c->width))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < c->rows; i++)
    memcpy((char *)address(c->dst) + i * c->dst_pitch, (const char *)address(c->src) + i * c->src_pitch, c->width);
  return 0;
}
CUresult mock_MemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream) {
  STEP_IN("cuMemsetD32Async");
  if (mock_idle(stream) || check_memory(address(dst), 4 * n)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++) ((uint32_t *)address(dst))[i] = value;
  return 0;
}
CUresult mock_StreamWriteValue32(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags) {
  STEP_IN("cuStreamWriteValue32");
  if (mock_idle(stream) || check_memory(address(at), 4) || flags != CU_STREAM_WRITE_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(address(at), &value, 4);
  return 0;
}
CUresult mock_StreamWaitValue32(CUstream stream, CUdeviceptr at, uint32_t value, unsigned flags) {
  uint32_t now;
  STEP_IN("cuStreamWaitValue32");
  if (mock_idle(stream) || check_memory(address(at), 4) || flags != CU_STREAM_WAIT_GEQ) return CUDA_ERROR_INVALID_VALUE;
  memcpy(&now, address(at), 4);
  if ((int32_t)(now - value) < 0) mock_misuse("waits for ever");
  return 0;
}
CUresult mock_StreamQuery(CUstream stream) {
  STEP_IN("cuStreamQuery");
  mock_reads_done(stream);
  return mock_idle(stream);
}
