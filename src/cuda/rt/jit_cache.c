/* Compiled kernels on disk. A file is a header (magic, key, SHA-256 of the rest) and the cubin. It is written under
 * another name and renamed, so that readers and other processes see whole files only; what a crash of the machine or
 * another hand leaves is found by the hashes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_write.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "cuda/rt/jit.h"

#define MAGIC      "ga-jit 1\n"
#define MOST_BYTES ((off_t)64 << 20) /* no kernel comes near */
#define PATH_BYTES 1024

typedef struct header {
  char magic[9], key[65], hash[65]; /* each key and hash with a newline */
} header;
_Static_assert(sizeof(header) == 139, "bytes in a file");

static void fill_header(header *h, const char *key, const void *cubin, size_t bytes) {
  ga_sha256 sha;
  char hex[65];
  ga_sha256_init(&sha);
  ga_sha256_update(&sha, cubin, bytes);
  ga_sha256_hex(&sha, hex);
  memcpy(h->magic, MAGIC, sizeof h->magic);
  memcpy(h->key, key, 64);
  memcpy(h->hash, hex, 64);
  h->key[64] = h->hash[64] = '\n';
}

/* False when neither variable is set, or the path is too long. */
static bool folder(char path[PATH_BYTES]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (cache && *cache == '/')
    n = snprintf(path, PATH_BYTES, "%s/ga/jit", cache);
  else if (home && *home == '/')
    n = snprintf(path, PATH_BYTES, "%s/.cache/ga/jit", home);
  return n > 0 && n < PATH_BYTES - 128; /* room for a file's name */
}

/* --- reading --- */

static bool read_all(int fd, void *to, size_t n) {
  for (size_t done = 0; done < n;) {
    ssize_t r = read(fd, (char *)to + done, n - done);
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) return false;
    done += (size_t)r;
  }
  return true;
}

/* The whole file, header first. */
static bool read_file(const char *path, void **out, size_t *bytes) {
  struct stat st;
  void *p = NULL;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok =
      fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof(header) && st.st_size <= MOST_BYTES;
  ok = ok && ga_mem_alloc((size_t)st.st_size, "cubin", &p) == GA_OK;
  if (ok && !read_all(fd, p, (size_t)st.st_size)) ok = false;
  (void)close(fd);
  if (!ok) {
    ga_mem_free(p);
    return false;
  }
  *out = p;
  *bytes = (size_t)st.st_size;
  return true;
}

bool cuda_jit_cache_get(const char *key, void **cubin, size_t *bytes) {
  char path[PATH_BYTES];
  header want;
  void *file;
  size_t n;
  if (!folder(path)) return false;
  size_t at = strlen(path);
  (void)snprintf(path + at, sizeof path - at, "/%s.cubin", key);
  if (!read_file(path, &file, &n)) return false;
  n -= sizeof want;
  fill_header(&want, key, (char *)file + sizeof want, n);
  if (memcmp(file, &want, sizeof want)) {
    ga_log(GA_LOG_WARN, "jit cache: %s is damaged or of another kind; made anew", path);
    ga_mem_free(file);
    (void)unlink(path);
    return false;
  }
  *cubin = memmove(file, (char *)file + sizeof want, n);
  *bytes = n;
  return true;
}

/* --- writing --- */

static bool write_cache_file(const char *path, const header *h, const void *cubin, size_t bytes) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  bool ok = ga_write_all(fd, h, sizeof *h) && ga_write_all(fd, cubin, bytes) && fsync(fd) == 0;
  return close(fd) == 0 && ok;
}

void cuda_jit_cache_put(const char *key, const void *cubin, size_t bytes) {
  char path[PATH_BYTES], temporary[PATH_BYTES + 64], final[PATH_BYTES + 128];
  header h;
  if (!folder(path)) return;
  (void)snprintf(final, sizeof final, "%s/%s.cubin", path, key);
  (void)snprintf(temporary, sizeof temporary, "%s/.%.16s.%ld.tmp", path, key, (long)getpid());
  fill_header(&h, key, cubin, bytes);
  (void)unlink(temporary); /* left by a process that had our number */
  if (ga_make_folders_of(final) && write_cache_file(temporary, &h, cubin, bytes) && rename(temporary, final) == 0) {
    ga_sync_folder_of(final);
    return;
  }
  ga_log(GA_LOG_WARN, "jit cache: cannot write %s: %s", final, strerror(errno));
  (void)unlink(temporary);
}
