#include "tests/emu/emu_share.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/emu.h"

/* Addresses are of an allocation of the machine, on whole pages: `base` is what it gave. */
typedef struct reserved {
  struct reserved *next;
  char *at;
  size_t bytes;
  void *base;
} reserved;
static reserved *all;

#define PAGE ((uintptr_t)4096)

/* A handle is the file descriptor + 1: 0 is none. */
static int fd_of(CUmemory memory) { return (int)memory - 1; }

/* The name goes with the file to other processes: it says whose memory it is. */
CUresult emu_share_create(CUmemory *out, size_t bytes, int device) {
  char name[32];
  (void)snprintf(name, sizeof name, "emu-shared-%d", device);
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = (CUmemory)fd + 1;
  return CUDA_SUCCESS;
}

CUresult emu_share_release(CUmemory memory) {
  return close(fd_of(memory)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_share_export(void *fd, CUmemory memory) {
  const int copy = dup(fd_of(memory));
  *(int *)fd = copy;
  return copy >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_share_import(CUmemory *out, int fd) {
  const int copy = dup(fd);
  *out = (CUmemory)copy + 1;
  return copy >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void *emu_share_reserve(size_t bytes) {
  reserved *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->base = emu_alloc(bytes + PAGE);
  if (!r->base) {
    free(r);
    return NULL;
  }
  r->at = (char *)(((uintptr_t)r->base + PAGE - 1) / PAGE * PAGE);
  r->bytes = bytes;
  r->next = all;
  all = r;
  return r->at;
}

CUresult emu_share_unreserve(void *p, size_t bytes) {
  (void)bytes;
  for (reserved **at = &all; *at; at = &(*at)->next) {
    reserved *r = *at;
    if (r->at != (char *)p) continue;
    *at = r->next;
    const bool freed = emu_free(r->base);
    free(r);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

bool emu_share_holds(const void *p, size_t bytes) {
  for (const reserved *r = all; r; r = r->next)
    if ((const char *)p >= r->at && (const char *)p + bytes <= r->at + r->bytes) return true;
  return false;
}

/* What another process writes there cannot be told from what nobody has written, so all of it counts as written. */
CUresult emu_share_map(void *p, size_t bytes, CUmemory memory) {
  struct stat s;
  if (fstat(fd_of(memory), &s) != 0 || (size_t)s.st_size < bytes) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_of(memory), 0) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  emu_mark_written(p, bytes);
  return CUDA_SUCCESS;
}

int emu_share_owner(CUmemory memory) {
  char path[64], name[64] = "";
  int device = -1;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd_of(memory));
  if (readlink(path, name, sizeof name - 1) < 0 || sscanf(name, "/memfd:emu-shared-%d", &device) != 1) return -1;
  return device;
}

CUresult emu_share_unmap(void *p, size_t bytes) {
  void *q = mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return q == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
