/* KERNEL    all_reduce, sm80: the sum of n elements over 1 to 8 devices of one host, on each of them
 * COMPUTES  y = x of rank 0 + x of rank 1 + ..., in that order, in f32, rounded once. One shot: each rank sends all of
 *           x to all others, and each adds all ranks. Two shots: each rank sends the p-th part to rank p, which adds
 *           that part and sends the sum to all. Two shots send less from three ranks on, but take a second transfer
 * CONTRACT  all ranks launch it with equal n and two_shot; x, y at multiples of 16 bytes; y may be x. At most
 *           GA_REDUCE_BLOCKS blocks, which must all fit on the device at once. n = 0: nothing happens
 * DATA      x goes to the slots of the others by stores over NVLink, 16 bytes a thread. Own slots are loaded until all
 *           words have arrived; all_reduce.h says how slots are reused
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     after the sends: reads of the block's turn -> write of the next turn
 * BUDGET    THREADS lanes, a unit of 16 bytes each, further ones round-robin; no shared memory. A wait is bounded by
 *           `patience`; its failure is then noted in the state
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f32, f16 or bf16"
#endif
#ifndef GA_P_RANKS
#error "GA_P_RANKS: devices, at most: what loops over them are unrolled to"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
#include "cuda/kern/dist/all_reduce.h"
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");
static_assert(GA_P_THREADS == GA_REDUCE_THREADS && GA_P_THREADS >= GA_REDUCE_BLOCKS, "the host's launch, pass_turn");

/* This lane's units of n. */
#define OWN_UNITS(i, n) \
  for (int64_t i = block_index() * GA_P_THREADS + thread_index(); i < (n); i += block_count() * GA_P_THREADS)

/* Unit i of x as it is sent; `first` are the words of this lane's first one. */
GA_DEV void own_unit(uint32_t *w, const ga_kargs_all_reduce *a, int64_t i, const uint32_t *first) {
  if (i < block_count() * GA_P_THREADS) GA_UNROLL
    for (int e = 0; e < WORDS; e++) w[e] = first[e];
  else
    get_unit(w, a->x, i, a->n);
  mark_there(w);
}

/* In the slot: a stretch of `units` of each rank. */
GA_DEV void one_shot(const ga_kargs_all_reduce *a, const ga_reduce_turn *t, int64_t units, const uint32_t *first) {
  int in_vain = 0;
  OWN_UNITS(i, units) {
    uint32_t w[WORDS];
    own_unit(w, a, i, first);
    send_to_all(a, t->slot, a->rank * units + i, w);
  }
  pass_turn(a, t, GA_P_THREADS, a->ranks * units);
  OWN_UNITS(i, units) {
    uint32_t got[GA_P_RANKS][WORDS], w[WORDS];
    own_unit(w, a, i, first);
    take_units(a, t->slot, i, units, got, &in_vain);
    add_ranks(a, got, w, w);
    store_unit(a->y, i, a->n, w);
  }
}

/* Sums in two exchanges: each rank adds up one part for all. The slot holds first each rank's x for this rank's part,
 * then each rank's sum of its own part. */
GA_DEV void two_shots(const ga_kargs_all_reduce *a, const ga_reduce_turn *t, int64_t units) {
  const int64_t part = (units + a->ranks - 1) / a->ranks, sums = a->ranks * part;
  int in_vain = 0;
  OWN_UNITS(i, part) {
    GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks && p != a->rank) {
      uint32_t w[WORDS];
      get_unit(w, a->x, p * part + i, a->n);
      mark_there(w);
      send_to(a, p, t->slot, a->rank * part + i, w);
    }
  }
  pass_turn(a, t, GA_P_THREADS, 2 * sums);
  OWN_UNITS(i, part) {
    uint32_t got[GA_P_RANKS][WORDS], w[WORDS];
    get_unit(w, a->x, a->rank * part + i, a->n);
    mark_there(w);
    take_units(a, t->slot, i, part, got, &in_vain);
    add_ranks(a, got, w, w);
    mark_there(w);
    send_to_all(a, t->slot, sums + a->rank * part + i, w);
    store_unit(a->y, a->rank * part + i, a->n, w);
  }
  OWN_UNITS(i, part) {
    uint32_t got[GA_P_RANKS][WORDS];
    take_units(a, t->slot, sums + i, part, got, &in_vain);
    GA_UNROLL for (int p = 0; p < GA_P_RANKS; p++) if (p < a->ranks && p != a->rank)
        store_unit(a->y, p * part + i, a->n, got[p]);
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_all_reduce a) {
  const int64_t units = (a.n + IN_UNIT - 1) / IN_UNIT;
  grid_launch_dependents();
  grid_dependency_wait();
  if (!units) return;
  uint32_t first[WORDS]; /* under way together with the turn */
  if (GA_P_RANKS == 2 || !a.two_shot) get_unit(first, a.x, block_index() * GA_P_THREADS + thread_index(), a.n);
  const ga_reduce_turn t = turn_of_block(&a);
  if (t.failed) return;
  if (GA_P_RANKS > 2 && a.two_shot) /* two ranks would send no less */
    two_shots(&a, &t, units);
  else
    one_shot(&a, &t, units, first);
}
