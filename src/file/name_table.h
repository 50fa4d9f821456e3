/* A map from names to indices: a hash table with open addressing, allocated in an arena. It is filled once and then
 * only read. */
#ifndef GA_FILE_NAME_TABLE_H
#define GA_FILE_NAME_TABLE_H

#include "base/mem.h"

typedef struct ga_name_slot {
  uint64_t hash;
  const char *name; /* name in the slot; NULL: the slot is free */
  uint32_t index;
} ga_name_slot;

typedef struct ga_name_table {
  ga_name_slot *slots;
  uint64_t mask; /* number of slots - 1 */
} ga_name_table;

/* Creates a table with room for `capacity` names, which may be 0. */
GA_NODISCARD ga_status ga_name_table_init(ga_arena *arena, uint64_t capacity, ga_name_table *table);
/* Adds a name, which must live as long as the table. Returns GA_ERR_FORMAT if the table has it already, or if its hash
 * collides with hundreds of others. */
GA_NODISCARD ga_status ga_name_table_add(ga_name_table *table, const char *name, uint32_t index);
/* Returns the index that was added with a name; -1: the table does not have the name. */
int64_t ga_name_table_find(const ga_name_table *table, const char *name);

#endif
