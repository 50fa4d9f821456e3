/* Hashes: FNV-1a for tables with GA's own keys, SipHash for tables with untrusted keys, SHA-256 (FIPS 180-4) for files
 * and cache keys. */
#ifndef GA_BASE_HASH_H
#define GA_BASE_HASH_H

#include "base/compiler.h"
#include "ga/base.h"

#define GA_FNV64_START 0xcbf29ce484222325u

GA_INLINE uint64_t ga_fnv64(uint64_t h, const void *data, size_t n) {
  const uint8_t *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

/* Fills keys[n] with secret random numbers, for hash tables whose contents come from files or requests. */
void ga_secret_keys(uint64_t *keys, size_t n);

/* Returns SipHash-2-4 (Aumasson and Bernstein, 2012) of a message: the 8 bytes of `head`, lowest first, then n bytes of
 * data. */
uint64_t ga_siphash(const uint64_t key[2], uint64_t head, const void *data, size_t n);

typedef struct ga_sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];
} ga_sha256;

void ga_sha256_init(ga_sha256 *sha);
void ga_sha256_update(ga_sha256 *sha, const void *data, size_t n);
/* Ends the hash and writes 64 lower-case hex digits and a NUL to `out`. */
void ga_sha256_hex(ga_sha256 *sha, char out[65]);

#endif
