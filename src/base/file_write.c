#include "base/file_write.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

bool ga_make_folders_of(const char *path) {
  char folder[PATH_BYTES];
  const size_t n = strlen(path);
  if (n >= sizeof folder) {
    errno = ENAMETOOLONG;
    return false;
  }
  int failed = 0;
  memcpy(folder, path, n + 1);
  for (char *at = folder + 1; n && (at = strchr(at, '/')); at++) {
    *at = 0;
    failed = mkdir(folder, 0755) && errno != EEXIST ? errno : 0;
    if (failed && !access(folder, F_OK)) failed = 0; /* some file systems refuse before they look what is there */
    *at = '/';
  }
  errno = failed;
  return !failed;
}

bool ga_write_all(int fd, const void *from, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t w = write(fd, (const char *)from + done, n - done);
    if (w < 0 && errno == EINTR) continue;
    if (w <= 0) return false;
    done += (size_t)w;
  }
  return true;
}

void ga_sync_folder_of(const char *path) {
  char folder[PATH_BYTES];
  const char *slash = strrchr(path, '/');
  const size_t n = slash ? (size_t)(slash - path) + 1 : 1;
  if (n >= sizeof folder) return;
  memcpy(folder, slash ? path : ".", n);
  folder[n] = 0;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  (void)close(fd);
}
