#include "base/hash.h"

#include <sys/random.h>
#include <time.h>

#include "base/rng.h"

#include <string.h>

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static uint32_t load_be(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static void compress(uint32_t state[8], const uint8_t block[64]) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++) w[i] = load_be(block + 4 * i);
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ (a >> 3)) + w[i - 7] + (rotr(b, 17) ^ rotr(b, 19) ^ (b >> 10));
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = v[4], a = v[0];
    uint32_t t1 =
        v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + round_constants[i] + w[i];
    uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[0] = t1 + t2;
    v[4] += t1;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

void ga_sha256_init(ga_sha256 *sha) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(sha->state, start, sizeof start);
  sha->bytes = 0;
}

void ga_sha256_update(ga_sha256 *sha, const void *data, size_t n) {
  const uint8_t *p = data;
  size_t have = sha->bytes % 64;
  sha->bytes += n;
  while (n) {
    size_t take = 64 - have < n ? 64 - have : n;
    memcpy(sha->block + have, p, take);
    p += take;
    n -= take;
    have += take;
    if (have == 64) {
      compress(sha->state, sha->block);
      have = 0;
    }
  }
}

void ga_sha256_hex(ga_sha256 *sha, char out[65]) {
  uint64_t bits = sha->bytes * 8;
  uint8_t tail[72] = {0x80};
  size_t pad = (sha->bytes % 64 < 56 ? 56 : 120) - sha->bytes % 64;
  for (int i = 0; i < 8; i++) tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
  ga_sha256_update(sha, tail, pad + 8);
  static const char hex[] = "0123456789abcdef";
  for (int i = 0; i < 64; i++) out[i] = hex[(sha->state[i / 8] >> (28 - 4 * (i % 8))) & 15];
  out[64] = 0;
}

void ga_secret_keys(uint64_t *keys, size_t n) {
  const size_t bytes = n * sizeof *keys;
  if (getrandom(keys, bytes, 0) == (ssize_t)bytes) return;
  /* A system without: the clock and where things lie, which an author of files cannot know either. */
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t seed = (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec ^ (uint64_t)(uintptr_t)keys;
  for (size_t i = 0; i < n; i++) keys[i] = ga_splitmix64(&seed);
}

static uint64_t sip_rotl(uint64_t x, int n) { return x << n | x >> (64 - n); }

static void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = sip_rotl(v[1], 13) ^ v[0];
  v[3] = sip_rotl(v[3], 16) ^ v[2];
  v[0] = sip_rotl(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = sip_rotl(v[1], 17) ^ v[2];
  v[3] = sip_rotl(v[3], 21) ^ v[0];
  v[2] = sip_rotl(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  sip_round(v);
  v[0] ^= word;
}

static uint64_t sip_load(const uint8_t *p, size_t n) {
  uint64_t word = 0;
  for (size_t i = 0; i < n; i++) word |= (uint64_t)p[i] << (8 * i);
  return word;
}

uint64_t ga_siphash(const uint64_t key[2], uint64_t head, const void *data, size_t n) {
  const uint8_t *p = data;
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
  sip_word(v, head);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) sip_word(v, sip_load(p + i, 8));
  sip_word(v, sip_load(p + i, n - i) | (uint64_t)(n + 8) << 56);
  v[2] ^= 0xff;
  for (int r = 0; r < 4; r++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
