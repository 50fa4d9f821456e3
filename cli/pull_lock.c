/* One process at a time has a download. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/pull.h"
#include "cmdline/error.h"

/* Locks fd, or closes it. A file system without locks is used without; a path that has gone meanwhile was another's
 * that has just ended. */
static ga_status lock_or_close(const char *path, int *fd) {
  struct stat mine, there;
  if ((!flock(*fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && !fstat(*fd, &mine) && !stat(path, &there) &&
      mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
    return GA_OK;
  (void)close(*fd);
  *fd = -1;
  return ga_error_set(GA_ERR_STATE,
                      "%s: another process is downloading it; wait until that has ended, or stop it with Ctrl-C: what "
                      "came is kept",
                      path);
}

ga_status pull_lock(const char *path, bool is_folder, int *fd) {
  if (is_folder) REQUIRE(!mkdir(path, 0777) || errno == EEXIST, GA_ERR_IO, "%s: %s", path, strerror(errno));
  *fd = open(path, O_CLOEXEC | (is_folder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW), 0666);
  REQUIRE(*fd >= 0, GA_ERR_IO, "%s: %s", path,
          errno == ELOOP ? "a symbolic link, which is not followed" : strerror(errno));
  return lock_or_close(path, fd);
}

ga_status pull_lock_if_there(const char *path, int *fd) {
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  return *fd < 0 ? GA_OK : lock_or_close(path, fd);
}
