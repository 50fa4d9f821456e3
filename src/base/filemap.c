#include "base/filemap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static ga_status map_fd(int fd, const char *path, ga_filemap *out) {
  struct stat st;
  if (fstat(fd, &st)) return ga_fail(GA_ERR_IO, "%s: %s", path, strerror(errno));
  GA_REQUIRE(S_ISREG(st.st_mode), GA_ERR_IO, "%s: not a regular file", path);
  if (st.st_size == 0) return GA_OK;
  void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED)
    return ga_fail(GA_ERR_IO, "%s: cannot map %lld bytes: %s", path, (long long)st.st_size, strerror(errno));
  out->data = p;
  out->bytes = (size_t)st.st_size;
  return GA_OK;
}

ga_status ga_filemap_open(const char *path, ga_filemap *out) {
  *out = (ga_filemap){0};
  /* Not blocking: a FIFO without a writer would hold open() for ever, and is refused below. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return ga_fail(GA_ERR_IO, "%s: %s", path, strerror(errno));
  ga_status status = map_fd(fd, path, out);
  (void)close(fd);
  return status;
}

void ga_filemap_forget(const ga_filemap *map, size_t offset, size_t bytes) {
  /* Only whole pages inside the range: neighbours may still be in use. */
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (map->data && end > begin && end <= map->bytes)
    (void)madvise((void *)(uintptr_t)(map->data + begin), end - begin, MADV_DONTNEED);
}

void ga_filemap_close(ga_filemap *map) {
  if (map->data) (void)munmap((void *)(uintptr_t)map->data, map->bytes);
  *map = (ga_filemap){0};
}
