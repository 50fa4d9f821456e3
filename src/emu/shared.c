/* Ordinary loads and stores of shared memory. */
#include <string.h>

#include "emu/shadow.h"

bool emu_thread_touch_shared(emu_thread *t, uint32_t addr, uint32_t bytes, emu_access access) {
  emu_actor a = emu_actor_of(t);
  if (t->n_cp && emu_opt.checks) emu_cp_touched(t, addr, bytes, access != EMU_READ, t->at);
  return emu_touch_shared(t->block, &a, addr, bytes, access);
}

void emu_lds(void *r, uint32_t addr, int bytes, EMU_SITE) {
  emu_thread *t = emu_begin("ld.shared", file, line);
  addr = emu_own_address(t->block, addr);
  if (emu_thread_touch_shared(t, addr, (uint32_t)bytes, EMU_READ))
    memcpy(r, t->block->smem + addr, (size_t)bytes);
  else
    memset(r, 0, (size_t)bytes);
}

void emu_sts(uint32_t addr, const void *x, int bytes, EMU_SITE) {
  emu_thread *t = emu_begin("st.shared", file, line);
  addr = emu_own_address(t->block, addr);
  if (emu_thread_touch_shared(t, addr, (uint32_t)bytes, EMU_WRITE)) memcpy(t->block->smem + addr, x, (size_t)bytes);
  emu_maybe_yield();
}

void emu_loads_done(EMU_SITE) {
  emu_thread *t = emu_begin("loads_done", file, line);
  t->mark[EMU_LOADED] = t->own++;
}
