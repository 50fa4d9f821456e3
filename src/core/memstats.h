/* Statistics of device memory: one record per buffer, and totals by the name of the holder. Not thread-safe: a context
 * has one thread. */
#ifndef GA_CORE_MEMSTATS_H
#define GA_CORE_MEMSTATS_H

#include "ga/base.h"

/* Largest number of names of holders. Memory of further names is counted under the first name. */
#define GA_HOLDERS_MAX 16
#define GA_HOLDER_NAME 24

typedef struct ga_holder {
  char name[GA_HOLDER_NAME];
  uint64_t bytes, buffers;
} ga_holder;

typedef struct ga_memstats_record ga_memstats_record;

typedef struct ga_memstats {
  ga_memstats_record *records;
  size_t n, capacity;
  ga_holder holders[GA_HOLDERS_MAX];
  size_t n_holders;
  uint64_t used, peak;
} ga_memstats;

/* Allocates room for one more record, so that ga_memstats_add cannot fail. */
GA_NODISCARD ga_status ga_memstats_reserve(ga_memstats *memstats);
/* Records a buffer under the name `what`. NULL: the name is "buffers". */
void ga_memstats_add(ga_memstats *memstats, const void *buffer, uint64_t bytes, const char *what);
/* Removes the record of a buffer. Returns false when there is none. */
bool ga_memstats_remove(ga_memstats *memstats, const void *buffer);
/* Writes the totals to `text`, the largest first: "weights 1073741824 (290), buffers 4096 (2)", or "nothing". Each
 * total is a number of bytes, then a number of buffers in parentheses. */
void ga_memstats_text(const ga_memstats *memstats, char *text, size_t capacity);
void ga_memstats_free(ga_memstats *memstats);

#endif
