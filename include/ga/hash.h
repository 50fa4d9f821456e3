/* GA, hashes: SHA-256 (FIPS 180-4), to tell whether a file is the one that was meant. */
#ifndef GA_HASH_H
#define GA_HASH_H

#include "ga/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 64 lower-case hex digits and a NUL. */
#define GA_SHA256_TEXT_BYTES 65

/* Of n bytes of memory. */
GA_API void ga_sha256_of(const void *data, size_t n, char hex[GA_SHA256_TEXT_BYTES]);

/* Called with the bytes so far and those of the whole file, 0 when it cannot tell them; not 0 stops. */
typedef int (*ga_hash_progress_fn)(void *user, uint64_t done, uint64_t total);

/* Of a whole file; *bytes (may be NULL) is its length. progress may be NULL. GA_ERR_IO when it cannot be read,
 * GA_ERR_CANCELLED when progress asked to stop: then hex is "" and *bytes 0. */
GA_API GA_NODISCARD ga_status ga_sha256_file(const char *path, ga_hash_progress_fn progress, void *user,
                                             char hex[GA_SHA256_TEXT_BYTES], uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
