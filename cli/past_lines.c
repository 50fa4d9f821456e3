#include "cli/past_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/folders.h"
#include "cmdline/error.h"
#include "text/json_io.h"

static ga_status path_of_lines(char *path, size_t capacity) {
  char folder[3072];
  TRY(state_dir(folder, sizeof folder));
  TRY(make_dirs(folder, 0700));
  const int n = snprintf(path, capacity, "%s/chat_history", folder);
  REQUIRE(n > 0 && (size_t)n < capacity, GA_ERR_IO, "%s: path too long", folder);
  return GA_OK;
}

static bool give_up(const char *path) {
  (void)fprintf(stderr, "ga chat: %s: %s; what you type is not kept for the next time\n", path, strerror(errno));
  return false;
}

/* Opened for this user alone, also where it was there with other rights; another process waits. */
static int open_lines(char path[4096]) {
  if (path_of_lines(path, 4096) != GA_OK) {
    (void)fprintf(stderr, "ga chat: %s; what you type is not kept for the next time\n", ga_error_text());
    return -1;
  }
  for (;;) {
    struct stat mine, there;
    const int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, 0600)) {
      (void)give_up(path);
      if (fd >= 0) (void)close(fd);
      return -1;
    }
    (void)flock(fd, LOCK_EX); /* a file system without locks is used without */
    if (fstat(fd, &mine) || stat(path, &there) || (mine.st_ino == there.st_ino && mine.st_dev == there.st_dev))
      return fd;
    (void)close(fd); /* another process has put a shorter one there */
  }
}

/* The place where the last PAST_LINES_MOST lines of `text` begin. */
static char *last_lines(char *text, size_t n) {
  char *at = text + n;
  for (int lines = 0; at > text; at--)
    if (at[-1] == '\n' && lines++ == PAST_LINES_MOST) break;
  return at;
}

static void hand_on(char *text, void (*each)(void *user, const char *line), void *user) {
  for (char *line = text, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    if (*next) *next++ = 0;
    json_t *value = ga_json_load(line, strlen(line), JSON_DECODE_ANY, NULL);
    if (json_is_string(value)) each(user, json_string_value(value)); /* another line is none of ours */
    json_decref(value);
  }
}

/* Under the lock: a file twice as long as it must be loses its first half. A kill at any moment leaves one of both. */
static void shorten(const char *path, const char *kept, size_t bytes) {
  char part[4096 + 8];
  (void)snprintf(part, sizeof part, "%s.part", path);
  (void)unlink(part); /* of one that was killed */
  const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool good = write(fd, kept, bytes) == (ssize_t)bytes && !fsync(fd);
  good = !close(fd) && good;
  if (!good || rename(part, path)) (void)unlink(part);
}

bool past_lines_load(void (*each)(void *user, const char *line), void *user) {
  char path[4096];
  const int fd = open_lines(path);
  if (fd < 0) return false;
  const off_t size = lseek(fd, 0, SEEK_END);
  const size_t most = size > 0 && size < (off_t)1 << 28 ? (size_t)size : 0;
  char *text = malloc(most + 1);
  const ssize_t n = text ? pread(fd, text, most, 0) : -1;
  if (n >= 0) {
    text[n] = 0;
    char *kept = last_lines(text, (size_t)n);
    if (kept - text > n / 2) shorten(path, kept, strlen(kept));
    hand_on(kept, each, user);
  }
  free(text);
  (void)close(fd);
  return n >= 0 || give_up(path);
}

bool past_lines_add(const char *line) {
  char path[4096];
  json_t *value = json_string(line);
  char *text = value ? ga_json_dump(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
  json_decref(value);
  if (!text) return true; /* no UTF-8: nothing that can be kept */
  const int fd = open_lines(path);
  const bool written = fd >= 0 && dprintf(fd, "%s\n", text) > 0;
  free(text);
  if (fd < 0) return false;
  if (!written) (void)give_up(path);
  (void)close(fd);
  return written;
}
