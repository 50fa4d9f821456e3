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
  *out = (ga_filemap){.fd = -1};
  /* Not blocking: a FIFO without a writer would hold open() for ever, and is refused below. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return ga_fail(GA_ERR_IO, "%s: %s", path, strerror(errno));
  ga_status status = map_fd(fd, path, out);
  if (status == GA_OK && out->data)
    out->fd = fd;
  else
    (void)close(fd);
  return status;
}

static ga_status has_shrunk(const ga_filemap *map) {
  struct stat st = {0};
  (void)fstat(map->fd, &st);
  return ga_fail(GA_ERR_IO, "the file has %lld bytes; when it was opened it had %zu", (long long)st.st_size,
                 map->bytes);
}

ga_status ga_filemap_read(const ga_filemap *map, uint64_t offset, void *out, size_t bytes) {
  GA_REQUIRE(offset <= map->bytes && bytes <= map->bytes - offset, GA_ERR_ARG, "bytes %llu to %llu of a file of %zu",
             (unsigned long long)offset, (unsigned long long)(offset + bytes), map->bytes);
  if (map->fd < 0) {
    memcpy(out, map->data + offset, bytes);
    return GA_OK;
  }
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(map->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    GA_REQUIRE(n >= 0, GA_ERR_IO, "cannot read byte %llu: %s", (unsigned long long)(offset + done), strerror(errno));
    if (n == 0) return has_shrunk(map);
    done += (size_t)n;
  }
  return GA_OK;
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
  if (map->data && map->fd >= 0) (void)close(map->fd);
  *map = (ga_filemap){.fd = -1};
}
