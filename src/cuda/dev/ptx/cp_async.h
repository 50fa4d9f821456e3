/* cp.async (sm_80): a thread's own copies from global to shared memory, past its registers. They land when the thread
 * waits for their group, not before; then a barrier makes them visible to others. They are ordinary accesses: wgmma and
 * bulk stores need fence_async_smem behind the wait. dst and src aligned to the size. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/cp_async.h"
#else
#include "cuda/dev/ptx/base.h"

/* 16, 8 or 4 bytes at dst, of which the first `bytes` come from src and the rest are zero; src is not read when bytes
 * is 0. 16 pass by L1, the others through it. */
GA_DEV void cp_async_16(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
GA_DEV void cp_async_8(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
GA_DEV void cp_async_4(uint32_t dst, const void *src, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
/* This thread's copies since the last commit become a group; there may be none. */
GA_DEV void cp_async_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* At most the n most recent groups may still run (n a literal). */
#define cp_async_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
/* All this thread's copies, committed or not, have landed. */
GA_DEV void cp_async_wait_all(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }
/* An arrival at mbarrier `bar` once all this thread's copies so far have landed: one of those that mbar_init counted.
 * */
GA_DEV void cp_async_arrive_noinc(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
/* The same, one more than those counted. */
GA_DEV void cp_async_arrive(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(bar) : "memory");
}
#endif
