/* Memory that kernels of other devices read and write at the same time. Each 32-bit word is atomic by itself, but words
 * are not ordered with each other. A receiver must therefore see from each word itself whether it has arrived. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/peer.h"
#else
#include "cuda/dev/ptx/base.h"

/* Load or store 16 bytes (stg_peer_i32: 4) in memory of this device or of a peer, aligned to their size. Volatile
 * accesses are relaxed, at system scope. */
GA_DEV void ldg_peer_u4(uint32_t *r, const void *p) {
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "l"(p)
               : "memory");
}
GA_DEV void stg_peer_u4(void *p, const uint32_t *x) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}
GA_DEV void stg_peer_i32(int32_t *p, int x) {
  asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
/* Loads a word with acquire order. All writes that the writer of the word released before it wrote the word are visible
 * after this load. */
GA_DEV uint32_t ldg_peer_acquire_u32(const uint32_t *p) {
  uint32_t r;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(r) : "l"(p) : "memory");
  return r;
}
/* Pauses between two polls of memory that another device writes. */
GA_DEV void peer_pause(void) {}
#endif
