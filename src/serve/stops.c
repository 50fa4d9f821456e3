#include "serve/stops.h"

#include <string.h>

/* The first place of any stop string; of several there, the first in the list. */
static int sv_stops_find(const sv_stops *s, size_t *where) {
  int found = -1;
  for (size_t i = 0; i < s->n; i++) {
    const char *at = memmem(s->held.p, s->held.n, s->stop[i].data, s->stop[i].bytes);
    if (!at || (found >= 0 && (size_t)(at - s->held.p) >= *where)) continue;
    *where = (size_t)(at - s->held.p);
    found = (int)i;
  }
  return found;
}

/* How many bytes at the end may begin a stop string: the most over all of them. */
static size_t sv_stops_tail(const sv_stops *s) {
  size_t most = 0;
  for (size_t i = 0; i < s->n; i++) {
    size_t n = s->stop[i].bytes - 1;
    if (n > s->held.n) n = s->held.n;
    for (; n > most; n--)
      if (!memcmp(s->held.p + s->held.n - n, s->stop[i].data, n)) most = n;
  }
  return most;
}

int sv_stops_push(sv_stops *s, const char *p, size_t n, sv_text *out) {
  size_t where = 0;
  if (!s->n) {
    sv_put(out, p, n);
    return -1;
  }
  sv_put(&s->held, p, n);
  if (s->held.failed) out->failed = true;
  if (!s->held.n) return -1;
  const int found = sv_stops_find(s, &where);
  if (found >= 0) {
    sv_put(out, s->held.p, where + (s->include ? s->stop[found].bytes : 0));
    sv_text_drop(&s->held, s->held.n);
    return found;
  }
  const size_t sure = s->held.n - sv_stops_tail(s);
  sv_put(out, s->held.p, sure);
  sv_text_drop(&s->held, sure);
  return -1;
}

void sv_stops_flush(sv_stops *s, sv_text *out) {
  if (!s->held.n) return;
  sv_put(out, s->held.p, s->held.n);
  sv_text_drop(&s->held, s->held.n);
}

void sv_stops_free(sv_stops *s) { sv_text_free(&s->held); }
