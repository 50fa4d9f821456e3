#include "model/expert_lru.h"

#include "base/mem.h"
#include "base/status.h"

/* A slot in the list from the most to the least recently used one. */
typedef struct lru_slot {
  int32_t key; /* -1: the slot is free */
  int32_t newer, older;
  bool is_there; /* the key can be used */
} lru_slot;

struct expert_lru {
  int32_t n_slots, n_used;
  int32_t newest, oldest;
  int64_t budget; /* uses that pay for loads */
  int32_t load_uses;
  lru_slot *slots;
  int32_t *slot_of; /* [n_keys] slot that the key has or waits for; -1: none */
};

ga_status expert_lru_create(int32_t n_keys, int32_t n_slots, int32_t load_uses, expert_lru **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof **out, "expert cache", &p));
  expert_lru *lru = p;
  ga_status status = ga_mem_zalloc((size_t)n_slots, sizeof *lru->slots, "expert cache", &p);
  lru->slots = status == GA_OK ? p : NULL;
  if (status == GA_OK) status = ga_mem_zalloc((size_t)n_keys, sizeof *lru->slot_of, "expert cache", &p);
  if (status != GA_OK) {
    expert_lru_destroy(lru);
    return status;
  }
  lru->slot_of = p;
  lru->n_slots = n_slots;
  lru->load_uses = load_uses;
  lru->budget = (int64_t)n_slots * load_uses;
  lru->oldest = n_slots - 1;
  for (int32_t i = 0; i < n_keys; i++) lru->slot_of[i] = -1;
  for (int32_t i = 0; i < n_slots; i++)
    lru->slots[i] = (lru_slot){.key = -1, .newer = i - 1, .older = i + 1 < n_slots ? i + 1 : -1};
  *out = lru;
  return GA_OK;
}

void expert_lru_destroy(expert_lru *lru) {
  if (!lru) return;
  ga_mem_free(lru->slots);
  ga_mem_free(lru->slot_of);
  ga_mem_free(lru);
}

static void unlink_slot(expert_lru *lru, int32_t i) {
  const lru_slot *s = &lru->slots[i];
  if (s->newer >= 0)
    lru->slots[s->newer].older = s->older;
  else
    lru->newest = s->older;
  if (s->older >= 0)
    lru->slots[s->older].newer = s->newer;
  else
    lru->oldest = s->newer;
}

static void make_newest(expert_lru *lru, int32_t i) {
  if (lru->newest == i) return;
  unlink_slot(lru, i);
  lru->slots[i].newer = -1;
  lru->slots[i].older = lru->newest;
  lru->slots[lru->newest].newer = i;
  lru->newest = i;
}

int32_t expert_lru_slot(const expert_lru *lru, int32_t key) {
  const int32_t i = lru->slot_of[key];
  return i >= 0 && lru->slots[i].is_there ? i : -1;
}

int32_t expert_lru_use(expert_lru *lru, int32_t key) {
  const int32_t i = expert_lru_slot(lru, key);
  if (i < 0) return -1;
  make_newest(lru, i);
  if (lru->budget < (int64_t)lru->n_slots * lru->load_uses) lru->budget++;
  return i;
}

int32_t expert_lru_admit(expert_lru *lru, int32_t key, int32_t *evicted) {
  *evicted = -1;
  if (lru->budget < lru->load_uses) return -1;
  const int32_t slot = expert_lru_take(lru, key, evicted);
  if (slot >= 0) lru->budget -= lru->load_uses;
  return slot;
}

int32_t expert_lru_take(expert_lru *lru, int32_t key, int32_t *evicted) {
  int32_t i = lru->oldest;
  *evicted = -1;
  if (lru->slot_of[key] >= 0) return -1;
  while (i >= 0 && lru->slots[i].key >= 0 && !lru->slots[i].is_there) i = lru->slots[i].newer;
  if (i < 0) return -1;
  lru_slot *s = &lru->slots[i];
  if (s->key >= 0) {
    *evicted = s->key;
    lru->slot_of[s->key] = -1;
    lru->n_used--;
  }
  s->key = key;
  s->is_there = false;
  lru->slot_of[key] = i;
  make_newest(lru, i);
  return i;
}

void expert_lru_arrive(expert_lru *lru, int32_t slot) {
  lru->slots[slot].is_there = true;
  lru->n_used++;
}

void expert_lru_drop(expert_lru *lru, int32_t slot) {
  lru_slot *s = &lru->slots[slot];
  lru->slot_of[s->key] = -1;
  s->key = -1;
}

int32_t expert_lru_used(const expert_lru *lru) { return lru->n_used; }
