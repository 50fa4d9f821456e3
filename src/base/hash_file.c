/* Public SHA-256: ga/hash.h. */
#include "ga/hash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"

#define BLOCK_BYTES ((size_t)1 << 16)

void ga_sha256_of(const void *data, size_t n, char hex[GA_SHA256_TEXT_BYTES]) {
  ga_sha256 sha;
  ga_sha256_init(&sha);
  ga_sha256_update(&sha, data, n);
  ga_sha256_hex(&sha, hex);
}

static ga_status hash_stream(FILE *f, const char *path, ga_hash_progress_fn progress, void *user, void *block,
                             ga_sha256 *sha) {
  struct stat st;
  const uint64_t total = fstat(fileno(f), &st) || !S_ISREG(st.st_mode) ? 0 : (uint64_t)st.st_size;
  for (size_t n; (n = fread(block, 1, BLOCK_BYTES, f)) > 0;) {
    ga_sha256_update(sha, block, n);
    GA_REQUIRE(!progress || !progress(user, sha->bytes, total), GA_ERR_CANCELLED, "%s: stopped", ga_path_label(path));
  }
  GA_REQUIRE(!ferror(f), GA_ERR_IO, "%s: %s", ga_path_label(path), strerror(errno));
  return GA_OK;
}

ga_status ga_sha256_file(const char *path, ga_hash_progress_fn progress, void *user, char hex[GA_SHA256_TEXT_BYTES],
                         uint64_t *bytes) {
  void *block;
  ga_sha256 sha;
  if (hex) hex[0] = 0;
  if (bytes) *bytes = 0;
  GA_REQUIRE(path && hex, GA_ERR_ARG, "sha256: %s is null", path ? "hex" : "path");
  GA_TRY(ga_mem_alloc(BLOCK_BYTES, "sha256", &block));
  FILE *f = fopen(path, "rb");
  ga_status status = f ? GA_OK : ga_fail(GA_ERR_IO, "%s: %s", ga_path_label(path), strerror(errno));
  ga_sha256_init(&sha);
  if (f) status = hash_stream(f, path, progress, user, block, &sha);
  if (f) (void)fclose(f);
  ga_mem_free(block);
  if (status != GA_OK) return status;
  if (bytes) *bytes = sha.bytes;
  ga_sha256_hex(&sha, hex);
  return GA_OK;
}
