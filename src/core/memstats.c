#include "core/memstats.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

struct ga_memstats_record {
  const void *buffer;
  uint64_t bytes;
  size_t holder;
};

ga_status ga_memstats_reserve(ga_memstats *l) {
  if (l->n < l->capacity) return GA_OK;
  size_t bigger = l->capacity ? l->capacity * 2 : 64;
  void *p;
  GA_TRY(ga_mem_zalloc(bigger, sizeof(ga_memstats_record), "memory stats", &p));
  if (l->n) memcpy(p, l->records, l->n * sizeof(ga_memstats_record));
  ga_mem_free(l->records);
  l->records = p;
  l->capacity = bigger;
  return GA_OK;
}

static size_t holder_of(ga_memstats *l, const char *what) {
  if (!what) what = "buffers";
  for (size_t i = 0; i < l->n_holders; i++)
    if (!strncmp(l->holders[i].name, what, GA_HOLDER_NAME - 1)) return i;
  if (l->n_holders == GA_HOLDERS_MAX) return 0;
  (void)snprintf(l->holders[l->n_holders].name, GA_HOLDER_NAME, "%s", what);
  return l->n_holders++;
}

void ga_memstats_add(ga_memstats *l, const void *buffer, uint64_t bytes, const char *what) {
  size_t h = holder_of(l, what);
  l->records[l->n++] = (ga_memstats_record){.buffer = buffer, .bytes = bytes, .holder = h};
  l->holders[h].bytes += bytes;
  l->holders[h].buffers++;
  l->used += bytes;
  if (l->used > l->peak) l->peak = l->used;
}

/* From the newest on: what is freed was mostly made last. */
bool ga_memstats_remove(ga_memstats *l, const void *buffer) {
  for (size_t i = l->n; i-- > 0;) {
    ga_memstats_record r = l->records[i];
    if (r.buffer != buffer) continue;
    l->holders[r.holder].bytes -= r.bytes;
    l->holders[r.holder].buffers--;
    l->used -= r.bytes;
    l->records[i] = l->records[--l->n];
    return true;
  }
  return false;
}

/* The largest holder that comes after `last` in order of size, then of index; n_holders when there is none. */
static size_t next_holder(const ga_memstats *l, size_t last) {
  size_t best = l->n_holders;
  for (size_t i = 0; i < l->n_holders; i++) {
    uint64_t bytes = l->holders[i].bytes;
    bool after =
        last == l->n_holders || bytes < l->holders[last].bytes || (bytes == l->holders[last].bytes && i > last);
    if (l->holders[i].buffers && after && (best == l->n_holders || bytes > l->holders[best].bytes)) best = i;
  }
  return best;
}

void ga_memstats_text(const ga_memstats *l, char *text, size_t capacity) {
  size_t at = 0;
  if (!capacity) return;
  (void)snprintf(text, capacity, "nothing");
  for (size_t i = next_holder(l, l->n_holders); i < l->n_holders && at < capacity; i = next_holder(l, i)) {
    const ga_holder *h = &l->holders[i];
    int n = snprintf(text + at, capacity - at, "%s%s %llu (%llu)", at ? ", " : "", h->name,
                     (unsigned long long)h->bytes, (unsigned long long)h->buffers);
    if (n < 0) return;
    at += (size_t)n;
  }
}

void ga_memstats_free(ga_memstats *l) {
  ga_mem_free(l->records);
  *l = (ga_memstats){0};
}
