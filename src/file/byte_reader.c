#include "file/byte_reader.h"

#include "base/status.h"

ga_status ga_read_bytes(ga_byte_reader *r, uint64_t n, const char *what, const uint8_t **out) {
  GA_REQUIRE(n <= ga_bytes_left(r), GA_ERR_FORMAT, "%s takes %llu bytes at byte %llu; the file has %llu more", what,
             (unsigned long long)n, (unsigned long long)r->at, (unsigned long long)ga_bytes_left(r));
  *out = r->data + r->at;
  r->at += n;
  return GA_OK;
}

ga_status ga_read_u32(ga_byte_reader *r, const char *what, uint32_t *out) {
  const uint8_t *p = NULL;
  GA_TRY(ga_read_bytes(r, 4, what, &p));
  *out = (uint32_t)ga_load_le(p, 4);
  return GA_OK;
}

ga_status ga_read_u64(ga_byte_reader *r, const char *what, uint64_t *out) {
  const uint8_t *p = NULL;
  GA_TRY(ga_read_bytes(r, 8, what, &p));
  *out = ga_load_le(p, 8);
  return GA_OK;
}
