/* A binary heap of things that know their place in it, so that one in the middle can move or leave. */
#ifndef GA_ENGINE_SCHED_HEAP_H
#define GA_ENGINE_SCHED_HEAP_H

#include "ga/base.h"

/* The lowest first, by major, then by minor, then by last. */
typedef struct sched_key {
  int32_t major;
  double minor, last;
} sched_key;

typedef struct sched_entry {
  sched_key key;
  void *item;
  int32_t *place; /* of the item: where it is; -1: in no heap */
} sched_entry;

typedef struct sched_heap {
  sched_entry *entries;
  int32_t n, room;
} sched_heap;

/* Memory for n entries. */
GA_NODISCARD ga_status sched_heap_reserve(sched_heap *heap, int32_t n);
void sched_heap_free(sched_heap *heap);
/* Memory is there. */
void sched_heap_put(sched_heap *heap, sched_key key, void *item, int32_t *place);
void sched_heap_move(sched_heap *heap, int32_t at, sched_key key);
void sched_heap_take(sched_heap *heap, int32_t at);

#endif
