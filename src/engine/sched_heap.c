#include "engine/sched_heap.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

ga_status sched_heap_reserve(sched_heap *heap, int32_t n) {
  void *p;
  if (n <= heap->room) return GA_OK;
  const int32_t room = (int32_t)ga_max_i64(n, ga_min_i64((int64_t)heap->room * 2, INT32_MAX));
  GA_TRY(ga_mem_alloc((size_t)room * sizeof *heap->entries, "queue of requests", &p));
  if (heap->n) memcpy(p, heap->entries, (size_t)heap->n * sizeof *heap->entries);
  ga_mem_free(heap->entries);
  heap->entries = p;
  heap->room = room;
  return GA_OK;
}

void sched_heap_free(sched_heap *heap) {
  ga_mem_free(heap->entries);
  *heap = (sched_heap){NULL, 0, 0};
}

static bool key_before(const sched_key *a, const sched_key *b) {
  if (a->major != b->major) return a->major < b->major;
  return a->minor < b->minor || (!(b->minor < a->minor) && a->last < b->last);
}

static void place_entry(sched_heap *heap, int32_t at, sched_entry entry) {
  heap->entries[at] = entry;
  *entry.place = at;
}

static void settle_entry(sched_heap *heap, int32_t at, sched_entry entry) {
  while (at > 0 && key_before(&entry.key, &heap->entries[(at - 1) / 2].key)) {
    place_entry(heap, at, heap->entries[(at - 1) / 2]);
    at = (at - 1) / 2;
  }
  for (int32_t child; at < heap->n / 2; at = child) {
    child = 2 * at + 1;
    if (child + 1 < heap->n && key_before(&heap->entries[child + 1].key, &heap->entries[child].key)) child++;
    if (!key_before(&heap->entries[child].key, &entry.key)) break;
    place_entry(heap, at, heap->entries[child]);
  }
  place_entry(heap, at, entry);
}

void sched_heap_put(sched_heap *heap, sched_key key, void *item, int32_t *place) {
  heap->n++;
  settle_entry(heap, heap->n - 1, (sched_entry){key, item, place});
}

void sched_heap_move(sched_heap *heap, int32_t at, sched_key key) {
  sched_entry entry = heap->entries[at];
  entry.key = key;
  settle_entry(heap, at, entry);
}

void sched_heap_take(sched_heap *heap, int32_t at) {
  const sched_entry last = heap->entries[--heap->n];
  *heap->entries[at].place = -1;
  if (at < heap->n) settle_entry(heap, at, last);
}
