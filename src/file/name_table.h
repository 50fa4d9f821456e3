/* A map from names to indices: an open-addressing hash table in an arena, filled once, then read only. */
#ifndef GA_FILE_NAME_TABLE_H
#define GA_FILE_NAME_TABLE_H

#include "base/mem.h"

typedef struct ga_name_slot {
  uint64_t hash;
  const char *name; /* NULL: the slot is free */
  uint32_t index;
} ga_name_slot;

typedef struct ga_name_table {
  ga_name_slot *slots;
  uint64_t mask; /* number of slots - 1 */
} ga_name_table;

/* Makes a table with room for `capacity` names; 0 is fine. */
GA_NODISCARD ga_status ga_name_table_init(ga_arena *arena, uint64_t capacity, ga_name_table *table);
/* Adds a name, which must live as long as the table. GA_ERR_FORMAT: the table has it already, or the names were made to
 * collide. */
GA_NODISCARD ga_status ga_name_table_add(ga_name_table *table, const char *name, uint32_t index);
/* Returns the index of a name; -1: the table does not have it. */
int64_t ga_name_table_find(const ga_name_table *table, const char *name);

#endif
