#include "file/name_table.h"

#include <string.h>

#include "base/hash.h"
#include "base/status.h"

/* At most half full, honest names end within a few dozen steps even among a million. A file whose names were chosen to
 * collide would cost a quadratic number of steps, so it is refused here. */
#define MAX_STEPS 512

static uint64_t hash_name(const char *name) {
  uint64_t h = ga_fnv64(GA_FNV64_START, name, strlen(name));
  return h ^ h >> 32; /* the low bits of FNV-1a see only the low bits of each byte */
}

ga_status ga_name_table_init(ga_arena *arena, uint64_t capacity, ga_name_table *table) {
  *table = (ga_name_table){0};
  GA_REQUIRE(capacity <= UINT32_MAX, GA_ERR_ARG, "name table: %llu names; at most %u", (unsigned long long)capacity,
             UINT32_MAX);
  uint64_t slots = 2;
  while (slots < 2 * capacity) slots *= 2;
  void *p;
  GA_TRY(ga_arena_alloc(arena, slots * sizeof(ga_name_slot), &p));
  *table = (ga_name_table){p, slots - 1};
  return GA_OK;
}

ga_status ga_name_table_add(ga_name_table *table, const char *name, uint32_t index) {
  uint64_t hash = hash_name(name);
  for (uint64_t step = 0; step < MAX_STEPS && step <= table->mask; step++) {
    ga_name_slot *slot = &table->slots[(hash + step) & table->mask];
    if (!slot->name) {
      *slot = (ga_name_slot){hash, name, index};
      return GA_OK;
    }
    GA_REQUIRE(slot->hash != hash || strcmp(slot->name, name), GA_ERR_FORMAT, "'%s' is there twice", name);
  }
  return ga_fail(GA_ERR_FORMAT, "'%s': no free place within %d steps; the names collide", name, MAX_STEPS);
}

int64_t ga_name_table_find(const ga_name_table *table, const char *name) {
  if (!table->slots) return -1;
  uint64_t hash = hash_name(name);
  for (uint64_t step = 0; step < MAX_STEPS && step <= table->mask; step++) {
    const ga_name_slot *slot = &table->slots[(hash + step) & table->mask];
    if (!slot->name) return -1;
    if (slot->hash == hash && !strcmp(slot->name, name)) return slot->index;
  }
  return -1;
}
