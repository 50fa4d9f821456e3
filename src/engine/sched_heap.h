/* A binary heap whose items know their place in it, so that an item in the middle can be moved or removed. */
#ifndef GA_ENGINE_SCHED_HEAP_H
#define GA_ENGINE_SCHED_HEAP_H

#include "ga/base.h"

/* The order of the heap: the lowest key first, compared by major, then by minor, then by last. */
typedef struct sched_key {
  int32_t major;
  double minor, last;
} sched_key;

typedef struct sched_entry {
  sched_key key;
  void *item;
  int32_t *place; /* the item's index in the heap, stored in the item; -1: in no heap */
} sched_entry;

typedef struct sched_heap {
  sched_entry *entries;
  int32_t n, room;
} sched_heap;

/* Makes the heap's array large enough for n entries. */
GA_NODISCARD ga_status sched_heap_reserve(sched_heap *heap, int32_t n);
void sched_heap_free(sched_heap *heap);
/* Adds an item. sched_heap_reserve must have made the array large enough. */
void sched_heap_put(sched_heap *heap, sched_key key, void *item, int32_t *place);
void sched_heap_move(sched_heap *heap, int32_t at, sched_key key);
void sched_heap_take(sched_heap *heap, int32_t at);

#endif
