#include "cli/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmdline/error.h"

static const char *text_of_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

ga_status state_dir(char *path, size_t capacity) {
  const char *root = text_of_variable("XDG_STATE_HOME"), *home = text_of_variable("HOME");
  REQUIRE(root || home, GA_ERR_IO, "no place for what is kept: set XDG_STATE_HOME or HOME");
  const int n = root ? snprintf(path, capacity, "%s/ga", root) : snprintf(path, capacity, "%s/.local/state/ga", home);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "the path of the folder of what is kept is too long");
  return GA_OK;
}

ga_status make_dirs(const char *path, mode_t mode) {
  char copy[4096];
  int n = snprintf(copy, sizeof copy, "%s", path);
  REQUIRE(n > 0 && (size_t)n < sizeof copy, GA_ERR_IO, "path too long");
  for (char *p = copy + 1;; p++) {
    if (*p && *p != '/') continue;
    char c = *p;
    *p = 0;
    REQUIRE(!mkdir(copy, mode) || errno == EEXIST, GA_ERR_IO, "%s: %s", copy, strerror(errno));
    *p = c;
    if (!c) return GA_OK;
  }
}

static bool write_all_of(int fd, const char *text, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t n = write(fd, text + at, bytes - at);
    if (n <= 0) return false;
    at += (size_t)n;
  }
  return !fsync(fd);
}

ga_status replace_file(const char *path, const char *text, size_t bytes, mode_t mode) {
  char part[4096 + 8];
  (void)snprintf(part, sizeof part, "%s.XXXXXX", path);
  const int fd = mkostemp(part, O_CLOEXEC);
  REQUIRE(fd >= 0, GA_ERR_IO, "%s: %s", path, strerror(errno));
  const bool written = !fchmod(fd, mode) && write_all_of(fd, text, bytes);
  const bool renamed = written && !rename(part, path);
  const int why = errno;
  (void)close(fd);
  if (!renamed) (void)unlink(part);
  REQUIRE(renamed, GA_ERR_IO, "%s: %s", path, strerror(why));
  return GA_OK;
}
