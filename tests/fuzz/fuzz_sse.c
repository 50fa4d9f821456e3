/* What a server sends to ga bench --serve. The same events come however the bytes are cut; each is read as JSON. The
 * whole input is also read as the body of a refusal. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "verify/bench/serve_client.h"

typedef struct heard_events {
  uint64_t sum; /* of their bytes and ends */
  size_t n;
} heard_events;

static bool hear_event(void *user, const char *data, size_t bytes) {
  heard_events *h = user;
  client_event e;
  if (data[bytes]) abort();
  for (size_t i = 0; i <= bytes; i++) h->sum = h->sum * 0x100000001b3u + (unsigned char)data[i] + 1;
  h->n++;
  if (client_event_read(data, bytes, &e) && (strlen(e.error) >= CLIENT_TEXT || e.output_tokens < -1)) abort();
  return true;
}

static heard_events hear_cut(const uint8_t *data, size_t size, size_t piece) {
  heard_events h = {0};
  client_sse sse = {0};
  for (size_t at = 0; at < size; at += piece)
    if (!client_sse_feed(&sse, (const char *)data + at, size - at < piece ? size - at : piece, hear_event, &h)) abort();
  client_sse_free(&sse);
  return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char text[CLIENT_TEXT];
  if (size > CLIENT_MAX_EVENT / 2) return 0;
  const heard_events whole = hear_cut(data, size, size + 1), cut = hear_cut(data, size, 1),
                     three = hear_cut(data, size, 3);
  if (whole.n != cut.n || whole.sum != cut.sum || whole.n != three.n || whole.sum != three.sum) abort();
  client_error_text((const char *)data, size, text);
  if (strlen(text) >= CLIENT_TEXT) abort();
  return 0;
}
