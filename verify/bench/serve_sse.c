/* Server-sent events, cut out of bytes as they come. */
#include <stdlib.h>
#include <string.h>

#include "verify/bench/serve_client.h"

/* Appends n bytes and a NUL that does not count. */
static bool sse_append(char **text, size_t *used, size_t *room, const char *bytes, size_t n) {
  if (n > CLIENT_MAX_EVENT || *used + n > CLIENT_MAX_EVENT) return false;
  if (*used + n + 1 > *room) {
    const size_t wanted = 2 * (*used + n) + 256;
    char *larger = realloc(*text, wanted);
    if (!larger) return false;
    *text = larger;
    *room = wanted;
  }
  if (n) memcpy(*text + *used, bytes, n);
  *used += n;
  (*text)[*used] = 0;
  return true;
}

/* The line is empty: the event is whole. */
static bool sse_dispatch(client_sse *s, client_sse_fn fn, void *user) {
  if (!s->has_data) return true;
  const size_t n = s->n_data;
  s->has_data = false;
  s->n_data = 0;
  return fn(user, s->data, n);
}

/* Comments, and fields other than "data", are passed over. */
static bool sse_end_line(client_sse *s, client_sse_fn fn, void *user) {
  const char *line = s->line ? s->line : "";
  size_t n = s->n_line;
  s->n_line = 0;
  if (!s->begun && n >= 3 && !memcmp(line, "\xef\xbb\xbf", 3)) { /* a byte order mark */
    line += 3;
    n -= 3;
  }
  s->begun = true;
  if (!n) return sse_dispatch(s, fn, user);
  if (n < 4 || memcmp(line, "data", 4) || (n > 4 && line[4] != ':')) return true;
  size_t skip = n > 4 ? 5 : 4;
  if (n > skip && line[skip] == ' ') skip++;
  if (s->has_data && !sse_append(&s->data, &s->n_data, &s->data_room, "\n", 1)) return false;
  s->has_data = true;
  return sse_append(&s->data, &s->n_data, &s->data_room, line + skip, n - skip);
}

bool client_sse_feed(client_sse *s, const char *bytes, size_t n, client_sse_fn fn, void *user) {
  for (size_t at = 0; at < n;) {
    if (s->after_cr && bytes[at] == '\n') { /* the second half of a CR LF */
      s->after_cr = false;
      at++;
      continue;
    }
    s->after_cr = false;
    size_t end = at;
    while (end < n && bytes[end] != '\n' && bytes[end] != '\r') end++;
    if (!sse_append(&s->line, &s->n_line, &s->line_room, bytes + at, end - at)) return false;
    if (end < n) {
      s->after_cr = bytes[end] == '\r';
      if (!sse_end_line(s, fn, user)) return false;
    }
    at = end + 1;
  }
  return true;
}

void client_sse_reset(client_sse *s) {
  s->n_line = s->n_data = 0;
  s->after_cr = s->begun = s->has_data = false;
}

void client_sse_free(client_sse *s) {
  free(s->line);
  free(s->data);
  *s = (client_sse){0};
}
