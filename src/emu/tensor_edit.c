/* Tensor maps that a kernel edits (PTX ISA 9.7.9.27 and the proxy of tensor maps, 8.x "proxies"): an edit is an
 * ordinary write to global memory; the copy engine sees it when the editor has released it and the thread that copies
 * has acquired the map after it. */
#include <string.h>

#include "emu/shadow.h"
#include "emu/tensor_map.h"

enum { EDITS = 256 }; /* maps that a grid edits; more are not followed, which hides a missing fence and invents none */

typedef struct edit {
  const void *map;
  uint32_t number; /* of the last edit of this map */
  uint16_t editor;
  bool released;
  emu_site at;
} edit;

static edit edits[EDITS];
static int n_edits;
static uint32_t numbers;

void emu_tmap_forget(void) { n_edits = 0; }

static edit *edit_of(const void *map) {
  for (int i = 0; i < n_edits; i++)
    if (edits[i].map == map) return &edits[i];
  return NULL;
}

void emu_tmap_set_address(void *map, const void *base, EMU_SITE) {
  emu_thread *t = emu_begin("tensormap.replace", file, line);
  emu_actor a = emu_actor_of(t);
  emu_tmap *m = map;
  if ((uintptr_t)map % 64 || (uintptr_t)base % 16)
    emu_report(EMU_RULE_TENSOR_MAP, t->at, "map %p, global address %p: aligned to 64 and to 16", map, base);
  if (!emu_touch_global(&a, map, 128, EMU_WRITE)) return;
  m->base = (uint8_t *)(uintptr_t)base;
  edit *e = edit_of(map);
  if (!e && n_edits < EDITS) e = &edits[n_edits++];
  if (e) *e = (edit){map, ++numbers, t->agent, false, t->at};
}

void emu_tmap_release(EMU_SITE) {
  emu_thread *t = emu_begin("fence.proxy.tensormap release", file, line);
  for (int i = 0; i < n_edits; i++)
    if (edits[i].editor == t->agent) edits[i].released = true;
}

void emu_tmap_acquire(const void *map, EMU_SITE) {
  emu_thread *t = emu_begin("fence.proxy.tensormap acquire", file, line);
  emu_actor a = emu_actor_of(t);
  if (!emu_touch_global(&a, map, 128, EMU_READ)) return;
  t->map_acquired = map;
  t->map_number = numbers;
}

/* Before t copies by this map. */
void emu_tmap_use(const void *map, const emu_thread *t) {
  const edit *e = edit_of(map);
  if (!e || (e->released && t->map_acquired == map && t->map_number >= e->number)) return;
  emu_report(EMU_RULE_PROXY_FENCE, t->at, "the map was edited at %s: %s", emu_site_text(e->at),
             e->released ? "this thread has not acquired it since" : "its editor has not released it");
}
