/* A reader of the bytes of a file in memory, little-endian. A read past the end is an error; its text has the offset
 * and `what`, the name of the value that was read. */
#ifndef GA_FILE_BYTE_READER_H
#define GA_FILE_BYTE_READER_H

#include "base/compiler.h"
#include "ga/base.h"

typedef struct ga_byte_reader {
  const uint8_t *data;
  uint64_t at, bytes;
} ga_byte_reader;

GA_INLINE uint64_t ga_bytes_left(const ga_byte_reader *r) { return r->bytes - r->at; }

/* Takes the next n bytes and sets *out to their address. Nothing is copied. */
GA_NODISCARD ga_status ga_read_bytes(ga_byte_reader *r, uint64_t n, const char *what, const uint8_t **out);
GA_NODISCARD ga_status ga_read_u32(ga_byte_reader *r, const char *what, uint32_t *out);
GA_NODISCARD ga_status ga_read_u64(ga_byte_reader *r, const char *what, uint64_t *out);

/* Reads n <= 8 bytes as an integer, the least significant byte first. */
GA_INLINE uint64_t ga_load_le(const uint8_t *p, int n) {
  uint64_t u = 0;
  for (int i = 0; i < n; i++) u |= (uint64_t)p[i] << 8 * i;
  return u;
}

GA_INLINE void ga_store_le(uint8_t *p, int n, uint64_t u) {
  for (int i = 0; i < n; i++) p[i] = (uint8_t)(u >> 8 * i);
}

#endif
