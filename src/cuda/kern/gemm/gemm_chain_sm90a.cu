/* KERNEL    gemm_chain, sm90a: up to GA_CHAIN_LINKS products of one row of X by packed quantised weights, one after the other
 * COMPUTES  each link what gemm_t16_sm90a.cu does, bit by bit: the same shares, digits and order of sums. W of two types at most
 * DATA      W: as there, but the stream goes on over the edges: while a link's last sums are added up and all blocks wait for one
 *           another, a warp's ring fills with its first weights of the next link. Weights depend on nothing but the launch
 * BARRIERS  full[warp][stage], whose turns go on from link to link. grid_sync where a link reads what the links before have written: all blocks
 *           are there at once (cooperative launch), and a count that never comes traps. The last block zeroes the counts
 * WORK      a link's tiles go to blocks, and its items to warps, as there; a block without tiles waits with the others
 * BUDGET    THREADS lanes, one block a multiprocessor
 * SPEED     docs/perf/cuda-decode.md, "Several products in a launch"
 */
#include "cuda/kern/gemm/gemm_ring.h"
#include "core/kargs_gemm_chain.h"
#include "cuda/dev/ptx/grid.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, MXFP4, ..."
#endif
#ifndef GA_P_W2
#error "GA_P_W2: the other type"
#endif

#define T GA_CAT(T_, GA_P_W)
namespace first {
#include "cuda/kern/gemm/gemm_ring_type.h"
}
#undef T
#define T GA_CAT(T_, GA_P_W2)
namespace second {
#include "cuda/kern/gemm/gemm_ring_type.h"
}
#undef T

enum { SLOT_BYTES = (int)first::ITEM_BYTES > (int)second::ITEM_BYTES ? (int)first::ITEM_BYTES : (int)second::ITEM_BYTES };
#define RING_BYTES(depth) (BARS_BYTES + (depth) * SLOT_BYTES)

/* Where a warp begins in a link: address, place along k in items, and how many of those it has. */
typedef struct {
  uint64_t w;
  int at, items;
} start;

/* A warp's way through the weights of all links. */
typedef struct {
  uint64_t w;    /* address of the item to ask for next */
  int at;        /* its place along k */
  int left;      /* items of its link, itself among them; 0: all have been asked for */
  int link;
  bool full;     /* as many as fit have been asked for */
  uint32_t ring; /* stages; the barriers of up to 8 lie before them */
  const ga_kargs_gemm_chain *args;
  const start *starts; /* by link, in shared memory */
} asker;

/* To the first link from `link` on of which the warp has something. */
GA_DEV void to_link(asker *s, int link) {
  s->left = 0;
  GA_ROLL for (; link < s->args->n && s->left == 0; link++) {
    s->link = link;
    s->w = s->starts[link].w;
    s->at = s->starts[link].at;
    s->left = s->starts[link].items;
  }
}

/* To the block's next tile; where the last one was is told by its address. */
GA_DEV void turn(asker *s, const ga_kargs_gemm_ring *ring) {
  const uint64_t more = (uint64_t)ring->w_more[0];
  s->at = 0;
  if (ring->gated) s->w += (uint64_t)(s->w > more && s->w <= (uint64_t)ring->end[1] ? ring->hop[1] : ring->hop[0]);
  else if (s->w == (uint64_t)ring->end[0]) s->w = more;
  else if (s->w == (uint64_t)ring->end[1]) s->w = (uint64_t)ring->w_more[1];
}

GA_DEV void ask(asker *s, int stage) {
  const ga_kargs_gemm_link *l = &s->args->link[s->link];
  const bool is_short = l->per == 2 && 2 * s->at + 1 == l->ring.gemm.units;
  const uint32_t bar = s->ring - BARS_BYTES + (uint32_t)(stage * 8), bytes = (uint32_t)(is_short ? l->unit_bytes : l->per * l->unit_bytes);
  if (warp_elect()) {
    mbar_arrive_expect(bar, bytes);
    bulk_load_bytes(s->ring + (uint32_t)(stage * SLOT_BYTES), (const void *)s->w, bytes, bar, L2_EVICT_FIRST);
  }
  s->w += bytes;
  if (++s->at == l->items) turn(s, &l->ring);
  if (--s->left == 0) to_link(s, s->link + 1);
}

/* Stages [from, to), for as long as there are items. */
GA_DEV void ask_first(asker *s, int from, int to) {
  GA_ROLL for (int d = from; d < to && s->left; d++) ask(s, d);
}
GA_DEV void ask_behind_x(asker *s) {
  if (!s->full) ask_first(s, s->args->early, s->args->depth);
  s->full = true;
}
GA_DEV void ask_again(asker *s, int stage, int left) {
  (void)left; /* of this link */
  if (s->left) ask(s, stage);
}

#define T GA_CAT(T_, GA_P_W)
namespace first {
#include "cuda/kern/gemm/gemm_ring_take.h"
#include "cuda/kern/gemm/gemm_chain_link.h"
}
#undef T
#define T GA_CAT(T_, GA_P_W2)
namespace second {
#include "cuda/kern/gemm/gemm_ring_take.h"
#include "cuda/kern/gemm/gemm_chain_link.h"
}
#undef T

/* All blocks have passed all barriers when the last one comes: then the counts are zero again. */
GA_DEV void leave(const ga_kargs_gemm_chain *a) {
  if (!a->waits || thread_index()) return;
  if (atomic_add_i32(a->counter + GA_CHAIN_LINKS, 1) != block_count() - 1) return;
  GA_ROLL for (int i = 0; i < a->n; i++) if (a->link[i].wait) (void)atomic_add_i32(a->counter + i, -block_count());
  (void)atomic_add_i32(a->counter + GA_CHAIN_LINKS, -block_count());
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_chain args) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const uint32_t smem = smem_base(), ring = smem + (uint32_t)(warp * RING_BYTES(args.depth)) + BARS_BYTES;
  grid_launch_dependents();
  GA_SHARED share shares[GA_CHAIN_LINKS];
  GA_SHARED start starts[WARPS][GA_CHAIN_LINKS];
  GA_SHARED float squares[WARPS]; /* of a warp's part of X */
  if (lane == 0) {
    GA_ROLL for (int d = 0; d < args.depth; d++) mbar_init(ring - BARS_BYTES + (uint32_t)(d * 8), 1);
    mbar_init_fence();
  }
  if (lane < args.n) { /* a lane has a link */
    const ga_kargs_gemm_link *l = &args.link[lane];
    const uint32_t x = smem + (uint32_t)(WARPS * RING_BYTES(args.depth));
    const share sh = l->second ? second::start_of(&l->ring, x, warp, &starts[warp][lane]) : first::start_of(&l->ring, x, warp, &starts[warp][lane]);
    if (warp == 0) shares[lane] = sh;
  }
  warp_sync();
  asker next = {0, 0, 0, 0, false, ring, &args, starts[warp]};
  ring_place place = {0, 0};
  to_link(&next, 0);
  ask_first(&next, 0, args.early);
  prefetch_norm(&args.link[0].ring);
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; all else does */
  GA_ROLL for (int i = 0; i < args.n; i++) {
    const ga_kargs_gemm_link *l = &args.link[i];
    if (l->wait) grid_sync(args.counter + i, block_count());
    else block_sync(); /* the sums of the link before have been read */
    if (l->second) second::take_link(&l->ring, &shares[i], &starts[warp][i], &next, &place, squares, warp, lane);
    else first::take_link(&l->ring, &shares[i], &starts[warp][i], &next, &place, squares, warp, lane);
    block_sync();
    GA_ROLL for (int row = thread_index(); row < shares[i].tiles * GA_PACKED_ROWS; row += GA_P_THREADS) finish(&l->ring, &shares[i], squares, row, 0);
  }
  leave(&args);
}
