/* Which experts are in a limited number of slots: the least recently used ones make way for others. Bookkeeping alone:
 * expert_cache.h has the slots, and replays of traces use it without a model.
 *
 * A load of an expert costs reads and writes of host memory, which the CPU's products need, too. So loads are paid from
 * a budget: it begins with the loads that fill all slots once, and each use of an expert in a slot adds to it, because
 * the CPU then reads an expert less. Loads after the first fill thus never move more bytes than uses have saved. */
#ifndef GA_MODEL_EXPERT_LRU_H
#define GA_MODEL_EXPERT_LRU_H

#include "base/compiler.h"
#include "ga/base.h"

/* Uses that pay for a load: an expert's bytes are read from the file, written for the copy, and read by the copy. */
#define EXPERT_LOAD_USES 3

typedef struct expert_lru expert_lru;

/* Makes the bookkeeping for n_keys experts, numbered from 0, in n_slots slots, at least 1. load_uses: uses that pay for
 * a load, EXPERT_LOAD_USES; 0: loads cost nothing. Release with expert_lru_destroy. */
GA_NODISCARD ga_status expert_lru_create(int32_t n_keys, int32_t n_slots, int32_t load_uses, expert_lru **out);
void expert_lru_destroy(expert_lru *lru); /* NULL is fine */
/* Returns the slot of a key that can be used; -1: none. */
int32_t expert_lru_slot(const expert_lru *lru, int32_t key);
/* Returns the slot of a key like expert_lru_slot, and makes the key the most recently used one. */
int32_t expert_lru_use(expert_lru *lru, int32_t key);
/* Chooses a slot for a key that has none, and pays for its load. The key that the slot had, if any, is written to
 * *evicted, else -1. The key can be used once expert_lru_arrive is called. Returns -1 if the budget is used up, if all
 * slots wait for their keys, or if the key has a slot or waits for one. */
int32_t expert_lru_admit(expert_lru *lru, int32_t key, int32_t *evicted);
/* Does the work of expert_lru_admit without a budget, for loads that a step waits for. -1: all slots wait for their
 * keys. */
int32_t expert_lru_take(expert_lru *lru, int32_t key, int32_t *evicted);
/* Makes the key of a slot usable: its load is complete. */
void expert_lru_arrive(expert_lru *lru, int32_t slot);
/* Frees a slot whose load failed. */
void expert_lru_drop(expert_lru *lru, int32_t slot);
/* Returns the number of slots whose keys can be used. */
int32_t expert_lru_used(const expert_lru *lru);

#endif
