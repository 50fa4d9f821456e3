/* The first bytes of a connection, read as the head of an HTTP request. A head is whole or bad for all longer inputs
 * once it is for a shorter one; one that is whole has no control characters, and each of its lines ends with CR LF. */
#include <stdlib.h>
#include <string.h>

#include "serve/raw_head.h"
#include "tests/fuzz/fuzz.h"

static void require_of_head(bool truth) {
  if (!truth) abort();
}

/* Scans a copy that ends with the nth byte, so that a sanitizer sees each byte read beyond it. */
static sv_head_state scan_first(const uint8_t *data, size_t n) {
  sv_fail fail = {0};
  char *copy = malloc(n ? n : 1);
  require_of_head(copy != NULL);
  if (n) memcpy(copy, data, n);
  const sv_head_state state = sv_scan_head(copy, n, &fail);
  free(copy);
  const int http = fail.http;
  require_of_head(state == SV_HEAD_BAD ? http == 400 || http == 413 || http == 414 || http == 431 || http == 505
                                       : !http);
  return state;
}

static void check_whole_head(const uint8_t *data, size_t size) {
  const uint8_t *end = memmem(data, size, "\r\n\r\n", 4);
  while (end == data || (end && end == data + 2 && data[0] == '\r'))
    end = memmem(end + 2, size - (size_t)(end + 2 - data), "\r\n\r\n", 4);
  require_of_head(end != NULL);
  for (const uint8_t *p = data; p < end; p++)
    require_of_head(*p == '\t' || (*p == '\r' && p[1] == '\n') || (*p == '\n' && p[-1] == '\r') ||
                    (*p >= 0x20 && *p != 0x7f));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const sv_head_state all = scan_first(data, size);
  bool is_settled = false;
  for (size_t n = 0, step = 1; n < size; n += step, step = step % 13 + 1) {
    const sv_head_state part = scan_first(data, n);
    require_of_head(part == SV_HEAD_PARTIAL ? !is_settled : part == all);
    is_settled = part != SV_HEAD_PARTIAL;
  }
  if (all == SV_HEAD_WHOLE) check_whole_head(data, size);
  return 0;
}
