/* cp.async (sm_80): copies of one thread from global to shared memory that bypass its registers. A copy is complete
 * when the thread has waited for its group, not before; a barrier then makes it visible to other threads. The copies
 * are ordinary accesses: wgmma and bulk stores need fence_async_smem after the wait. dst and src are aligned to the
 * size. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/cp_async.h"
#else
#include "cuda/dev/ptx/base.h"

/* Write 16, 8 or 4 bytes to dst. The first `bytes` bytes come from src, the rest are zero; src is not read when bytes
 * is 0. Copies of 16 bytes bypass L1; smaller copies use it. */
GA_DEV void cp_async_16(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
GA_DEV void cp_async_8(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
GA_DEV void cp_async_4(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
/* Makes this thread's copies since the last commit a group, which may be empty. */
GA_DEV void cp_async_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most the n most recent groups are still in flight; n is a literal. */
#define cp_async_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
/* Waits until all of this thread's copies, committed or not, are complete. */
GA_DEV void cp_async_wait_all(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
/* Arrives at mbarrier `bar` once all of this thread's copies so far are complete. The count given to mbar_init includes
 * this arrival. */
GA_DEV void cp_async_arrive_noinc(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
/* Arrives at mbarrier `bar` once all of this thread's copies so far are complete. This arrival is in addition to the
 * count given to mbar_init. */
GA_DEV void cp_async_arrive(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(bar) : "memory");
}
#endif
