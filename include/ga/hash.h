/* GA, hashes: SHA-256 (FIPS 180-4), to verify files. */
#ifndef GA_HASH_H
#define GA_HASH_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a SHA-256 as text: 64 lower-case hex digits and a NUL. */
#define GA_SHA256_TEXT_BYTES 65

/* Computes the SHA-256 of n bytes of memory. */
GA_API void ga_sha256_of(const void *data, size_t n, char hex[GA_SHA256_TEXT_BYTES]);

/* A callback with the bytes hashed so far and the bytes of the file, 0 if its size is not known. A result other than
 * 0 stops the work. */
typedef int (*ga_hash_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Computes the SHA-256 of a whole file; *bytes (may be NULL) is its length. progress may be NULL. GA_ERR_IO: the file
 * cannot be read. GA_ERR_CANCELLED: progress asked to stop. On an error hex is "" and *bytes 0. */
GA_API GA_NODISCARD ga_status ga_sha256_file(const char *path, ga_hash_progress_fn progress, void *user,
                                             char hex[GA_SHA256_TEXT_BYTES], uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
