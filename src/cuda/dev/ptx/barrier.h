/* Barriers: mbarriers in shared memory, the sixteen named barriers of a block, the cluster barrier. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/barrier.h"
#else
#include "cuda/dev/ptx/base.h"

/* ---- mbarrier: 8 bytes of shared memory; a phase ends when `count` arrivals and all expected bytes are in ---- */
GA_DEV void mbar_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
/* Makes initialised mbarriers visible to the bulk-copy engine and to the cluster; a block barrier must follow. */
GA_DEV void mbar_init_fence(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/* Arrives once and announces `bytes` of bulk copies into this phase. Issue it before the copies. */
GA_DEV void mbar_arrive_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
/* Announces `bytes` of bulk copies into this phase without an arrival. */
GA_DEV void mbar_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
/* Arrives once and releases this thread's earlier accesses to every thread that waits for the phase. */
GA_DEV void mbar_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
/* Arrives once like mbar_arrive. Returns 1 if this is the phase's last arrival, otherwise 0. The thread that arrives
 * last must still wait for the phase, to acquire the accesses that other threads released; that wait takes no time. */
GA_DEV int mbar_arrive_last(uint32_t bar) {
  /* s is the state before this arrival: if one arrival was pending, this is the last */
  int last;
  asm volatile(
      "{.reg .pred p; .reg .b32 n; .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%1]; mbarrier.pending_count.b64 "
      "n, s; setp.eq.u32 p, n, 1; selp.s32 %0, 1, 0, p;}"
      : "=r"(last)
      : "r"(bar)
      : "memory");
  return last;
}
/* Arrives once at the mbarrier that has the offset of `bar` in the shared memory of block `rank` of the cluster. The
 * instruction has no .release.cluster, which halved the speed in measurements and is not needed after a wgmma wait. */
GA_DEV void mbar_arrive_cluster(uint32_t bar, uint32_t rank) {
  asm volatile(
      "{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r];}" ::"r"(bar),
      "r"(rank)
      : "memory");
}
/* Waits in hardware, for a bounded time, until the phase of the given parity ends. Returns 1 if it has ended, otherwise
 * 0. With 1, the accesses that the arrivals released are acquired. */
GA_DEV uint32_t mbar_try_wait(uint32_t bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(ok)
               : "r"(bar), "r"(parity)
               : "memory");
  return ok;
}
/* Waits until the phase of the given parity has ended, and acquires the accesses that the arrivals released. The wait
 * is bounded: a protocol error traps within seconds and never hangs the GPU. */
GA_DEV void mbar_wait(uint32_t bar, uint32_t parity) {
  if (mbar_try_wait(bar, parity)) return;
  GA_ROLL for (uint32_t i = 0; i < (1u << 20); i++) if (mbar_try_wait(bar, parity)) return;
  asm volatile("trap;");
}

/* ---- named barriers 1 to 15 (0 is block_sync); n is the number of threads that arrive or wait, a multiple of 32
 * ---- */
GA_DEV void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
GA_DEV void bar_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }

/* ---- cluster barrier: all threads of all blocks of the cluster take part ---- */
GA_DEV void cluster_sync(void) {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* cluster_arrive and cluster_wait are the two halves of cluster_sync. Accesses before the arrival are visible after the
 * wait. Every thread of the cluster calls both, in this order. */
GA_DEV void cluster_arrive(void) { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
GA_DEV void cluster_wait(void) { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/* Returns the address that other blocks of the cluster use for shared-memory address a of block `rank`. Functions that
 * access the shared memory of another block take such addresses. */
GA_DEV uint32_t cluster_address(uint32_t a, uint32_t rank) {
  uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(rank));
  return r;
}
GA_DEV uint32_t cluster_rank(void) {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
#endif
