/* KERNEL    probe of memory, sm80: copy, read, write of global memory; latency of global and shared memory; bandwidth
 *           of shared memory
 * COMPUTES  nothing. WHAT: copy dst = src; read src; write dst; lines: dst becomes a chain of 128-byte lines for chase;
 *           chase: follow it
 * CONTRACT  n a multiple of UNROLL * 512 (copy, read, write), a power of two of at most 2^27 (lines, chase); src, dst
 *           16-byte aligned; cycles: one number a block, from the clock of its multiprocessor; chase: cycles[1] holds
 *           the first line. Reads bypass L1 (.cg), so that small n measures L2
 * BUDGET    512 threads, 2 blocks a multiprocessor; 16 KiB of shared memory
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/probe/probe_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_WHAT
#error "GA_P_WHAT: copy, read, write, lines, chase, shared_read, shared_chase"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
#define WHAT_copy         0
#define WHAT_read         1
#define WHAT_write        2
#define WHAT_lines        3
#define WHAT_chase        4
#define WHAT_shared_read  5
#define WHAT_shared_chase 6
#define CYCLES            4096 /* entries of cycles */
enum { WHAT = GA_CAT(WHAT_, GA_P_WHAT), THREADS = 512, UNROLL = 8, LINE_WORDS = 32, SHARED_WORDS = 4096 };
#define NEVER 0x5eed0bad /* a result that would be stored, so that the loop stays */

/* Blocks take spans of UNROLL x THREADS units in turn. */
GA_DEV int stream(const ga_kargs_probe *a, int64_t first) {
  const ga_i4 *src = (const ga_i4 *)a->src;
  ga_i4 *dst = (ga_i4 *)a->dst;
  int sum = 0;
  for (int64_t at = first * UNROLL * THREADS; at < a->n; at += (int64_t)block_count() * UNROLL * THREADS) {
    ga_i4 x[UNROLL];
    const int64_t i = at + thread_index();
    GA_UNROLL for (int u = 0; u < UNROLL; u++) {
      if (WHAT != WHAT_write)
        x[u] = ldg_i4_cg(src + i + u * THREADS);
      else
        x[u].x = x[u].y = x[u].z = x[u].w = u;
    }
    GA_UNROLL for (int u = 0; u < UNROLL; u++) {
      if (WHAT == WHAT_read)
        sum ^= x[u].x ^ x[u].y ^ x[u].z ^ x[u].w;
      else
        stg_u4(dst + i + u * THREADS, (uint32_t)x[u].x, (uint32_t)x[u].y, (uint32_t)x[u].z, (uint32_t)x[u].w);
    }
  }
  return sum;
}

/* Reads the memory `rounds` times. In each round a block reads another part, so that no block reads a part twice. */
GA_DEV int streams(const ga_kargs_probe *a) {
  int sum = 0;
  GA_ROLL for (int r = 0; r < a->rounds; r++) sum ^= stream(a, (block_index() + r) % block_count());
  return sum;
}

/* The first word of each line holds the number of the next: a linear congruence of full period. */
GA_DEV void lines(const ga_kargs_probe *a) {
  int32_t *p = (int32_t *)a->dst;
  for (int64_t i = (int64_t)block_index() * THREADS + thread_index(); i < a->n; i += (int64_t)block_count() * THREADS)
    stg_i32(p + i * LINE_WORDS, (int)(((uint32_t)i * 1664525u + 1013904223u) & (uint32_t)(a->n - 1)));
}
GA_DEV int chase(const ga_kargs_probe *a) {
  const int32_t *p = (const int32_t *)a->src;
  int at = (int)a->cycles[1]; /* a launch goes on where the one before it ended */
  GA_ROLL for (int r = 0; r < a->rounds; r++) at = ldg_i32_cg(p + (int64_t)at * LINE_WORDS);
  a->cycles[1] = at;
  return at;
}

/* Shared memory: every lane's 16 bytes, without bank conflicts; and a chain of words. */
GA_DEV int shared_read(const ga_kargs_probe *a, uint32_t sb) {
  int sum = 0;
  GA_ROLL for (int r = 0; r < a->rounds; r++) GA_UNROLL for (int u = 0; u < UNROLL; u++) {
    const ga_i4 x = lds_i4(sb + (uint32_t)(16 * ((thread_index() + 32 * u + r) % (SHARED_WORDS / 4))));
    sum ^= x.x ^ x.y ^ x.z ^ x.w;
  }
  return sum;
}
GA_DEV int shared_chase(const ga_kargs_probe *a, uint32_t sb) {
  int at = 0;
  GA_ROLL for (int r = 0; r < a->rounds; r++) at = lds_i4(sb + (uint32_t)at).x;
  return at;
}
static_assert(4 * SHARED_WORDS == GA_P_SMEM, "the row's shared memory");
GA_DEV void fill_shared(uint32_t sb) {
  for (int i = thread_index(); i < SHARED_WORDS / 4; i += THREADS) {
    const int next = 16 * ((5 * i + 1) % (SHARED_WORDS / 4));
    sts_i4(sb + (uint32_t)(16 * i), next, i, i, i);
  }
  block_sync();
}

GA_KERNEL(THREADS, 2) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_probe args) {
  const ga_kargs_probe *a = &args;
  int x = 0;
  const uint32_t sb = smem_base();
  if (WHAT == WHAT_shared_read || WHAT == WHAT_shared_chase) fill_shared(sb);
  const int64_t start = clock_cycles();
  if (WHAT <= WHAT_write) x = streams(a);
  if (WHAT == WHAT_lines) lines(a);
  if (WHAT == WHAT_chase && thread_index() == 0) x = chase(a);
  if (WHAT == WHAT_shared_read) x = shared_read(a, sb);
  if (WHAT == WHAT_shared_chase && thread_index() == 0) x = shared_chase(a, sb);
  block_sync();
  if (thread_index() == 0 && block_index() < CYCLES) a->cycles[block_index()] = clock_cycles() - start;
  if (x == NEVER) stg_i32((int32_t *)a->dst, x);
}
