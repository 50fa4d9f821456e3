/* Emulator bodies of the functions in ../peer.h. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV void ldg_peer_u4(uint32_t *r, const void *p, EMU_AT) { emu_ldg_peer(r, p, 16, file, line); }
GA_DEV void stg_peer_u4(void *p, const uint32_t *x, EMU_AT) { emu_stg_peer(p, x, 16, file, line); }
GA_DEV void stg_peer_i32(int32_t *p, int x, EMU_AT) { emu_stg_peer(p, &x, 4, file, line); }
GA_DEV uint32_t ldg_peer_acquire_u32(const uint32_t *p, EMU_AT) {
  uint32_t r;
  emu_ldg_peer(&r, p, 4, file, line);
  return r;
}
GA_DEV void peer_pause(EMU_AT) { emu_peer_pause(file, line); }
