/* KERNEL    route_sort, sm80
 * COMPUTES  the stable order of rows by expert: counts, offsets, order and place of ga/experts.h
 * CONTRACT  experts within range; rows below 2^31. The same bits in every run
 * WORK      a block an expert, round-robin. Its warps take consecutive parts of the rows. They count the rows of lower
 *           experts and of their own, and then number their own from the sums of the warps before them
 * DATA      a block reads the experts of all rows twice, from L2
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     counts of warps in shared memory -> their sums; reads of an expert's counts ->
 *                                    writes of the next one's
 * BUDGET    THREADS lanes, 128 B of shared memory
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/bits.h"
#include "cuda/kern/layer/route_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { WARP = 32, WARPS = GA_P_THREADS / WARP, AHEAD = 4 /* loads of a lane under way */ };

typedef struct {
  int lower[WARPS], equal[WARPS]; /* rows of lower experts, and of the block's expert, in each warp's part */
} shared;

/* Loads the experts of AHEAD x 32 rows from `first` on, one a lane at a time; -1 from `end` on. */
GA_DEV void load_experts(const ga_kargs_route_sort *a, int64_t first, int64_t end, int *x) {
  GA_UNROLL for (int i = 0; i < AHEAD; i++) {
    const int64_t row = first + WARP * i + thread_index() % WARP;
    x[i] = row < end ? a->experts[row] : -1;
  }
}

GA_DEV void count_rows(const ga_kargs_route_sort *a, shared *s, int expert, int64_t first, int64_t end) {
  int lower = 0, equal = 0, x[AHEAD];
  for (int64_t at = first; at < end; at += AHEAD * WARP) {
    load_experts(a, at, end, x);
    GA_UNROLL for (int i = 0; i < AHEAD; i++) {
      lower += x[i] >= 0 && x[i] < expert;
      equal += x[i] == expert;
    }
  }
  lower = (int)redux_add_u32((uint32_t)lower);
  equal = (int)redux_add_u32((uint32_t)equal);
  if (thread_index() % WARP) return;
  s->lower[thread_index() / WARP] = lower;
  s->equal[thread_index() / WARP] = equal;
}

/* Numbers the expert's rows of a part from `sorted` on. */
GA_DEV void number_rows(const ga_kargs_route_sort *a, int expert, int64_t first, int64_t end, int sorted) {
  const int lane = thread_index() % WARP;
  int x[AHEAD];
  for (int64_t at = first; at < end; at += AHEAD * WARP) {
    load_experts(a, at, end, x);
    GA_UNROLL for (int i = 0; i < AHEAD; i++) {
      const uint32_t these = warp_ballot(x[i] == expert);
      if (x[i] == expert) {
        const int row = (int)at + WARP * i + lane, place = sorted + bit_count(these & ((1u << lane) - 1));
        a->order[place] = row;
        a->place[row] = place;
      }
      sorted += bit_count(these);
    }
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_route_sort a) {
  GA_SHARED shared s;
  const int warp = thread_index() / WARP;
  const int64_t part = ((int64_t)a.rows + WARPS * WARP - 1) / (WARPS * WARP) * WARP;
  const int64_t first = part * warp, end = first + part < a.rows ? first + part : a.rows;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int expert = block_index(); expert < a.n_experts; expert += block_count()) {
    count_rows(&a, &s, expert, first, end);
    block_sync();
    int offset = 0, count = 0, before = 0;
    for (int w = 0; w < WARPS; w++) {
      before += w < warp ? s.equal[w] : 0;
      offset += s.lower[w];
      count += s.equal[w];
    }
    if (thread_index() == 0) {
      a.counts[expert] = count;
      a.offsets[expert] = offset;
      if (expert == a.n_experts - 1) a.offsets[a.n_experts] = a.rows;
    }
    if (count) number_rows(&a, expert, first, end, offset + before);
    block_sync();
  }
}
