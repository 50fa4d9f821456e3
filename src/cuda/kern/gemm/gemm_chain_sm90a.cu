/* KERNEL    gemm_chain, sm90a: up to GA_CHAIN_LINKS products of one row of X by packed quantised weights, one after the other
 * COMPUTES  each link what gemm_t16_sm90a.cu does, bit by bit: the same shares, digits and order of sums. W of two types at most
 * DATA      W: as there, but the stream goes on over the edges: while a link's last sums are added up and all blocks wait for one
 *           another, a warp's ring fills with its first weights of the next link. Weights depend on nothing but the launch
 * BARRIERS  full[warp][stage], whose turns go on from link to link. grid_sync where a link reads what the links before have written: all blocks
 *           are there at once (cooperative launch), and a count that never comes traps. The last block zeroes the counts
 * WORK      a link's tiles go to blocks, and its items to warps, as there; a block without tiles waits with the others. A link that waits for nobody
 *           has blocks behind those of the link before, where there are enough
 * BUDGET    THREADS lanes, one block a multiprocessor
 * SPEED     docs/perf/cuda-decode.md, "Several products in a launch": 5 % of a token of Gemma 3 270M; products of more than 4 MB go one by one
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

/* A warp's way through the weights of all links. A run: items of one size that follow one another in memory, as most of a link do, so that what
 * stands between two items is little. */
typedef struct {
  uint64_t w;     /* address of the item to ask for next */
  uint32_t bytes; /* of it */
  int run;        /* items of its run from it on; 0: all have been asked for */
  int left;       /* items of its link behind the run */
  int at;         /* place along k of the first of those */
  int link;
  bool full;      /* as many as fit have been asked for */
  uint32_t ring;  /* stages; the barriers of up to 8 lie before them */
  const ga_kargs_gemm_chain *args;
  uint32_t starts; /* of this warp, by link */
} asker;

/* Shared memory: squares of X's elements by warp, starts by warp and link, shares by link; the rings; tables by link; X. */
enum { START_BYTES = 16, STARTS_AT = 4 * WARPS, SHARES_AT = STARTS_AT + WARPS * GA_CHAIN_LINKS * START_BYTES };
static_assert(sizeof(start) == START_BYTES && sizeof(share) <= GA_CHAIN_SHARE, "what the host counts with");
static_assert(SHARES_AT + GA_CHAIN_LINKS * GA_CHAIN_SHARE == GA_CHAIN_CONTROL(WARPS), "what the host counts with");

GA_DEV start get_start(uint32_t at) {
  start s;
  get_words(at, &s, sizeof s);
  return s;
}

/* To the first link from `link` on of which the warp has something. */
GA_DEV void to_link(asker *s, int link) {
  GA_ROLL for (; link < s->args->n && s->left == 0; link++) {
    const start from = get_start(s->starts + (uint32_t)(link * START_BYTES));
    s->link = link;
    s->w = from.w;
    s->at = from.at;
    s->left = from.items;
  }
}

/* The next run, to the end of a tile at most, unless all of the link is one. An item of fewer units is a run of its own. */
GA_DEV void next_run(asker *s) {
  if (s->left == 0) to_link(s, s->link + 1);
  else if (s->at == s->args->link[s->link].items) s->w = next_tile(&s->args->link[s->link].ring, s->w), s->at = 0;
  s->run = 0;
  if (s->left == 0) return;
  const ga_kargs_gemm_link *l = &s->args->link[s->link];
  const bool odd = l->per == 2 && l->ring.gemm.units % 2, is_short = odd && s->at == l->items - 1;
  const int to = l->items - s->at - (odd && !is_short), most = l->plain ? s->left : to;
  s->run = most < s->left ? most : s->left;
  s->bytes = (uint32_t)(is_short ? l->unit_bytes : l->per * l->unit_bytes);
  s->left -= s->run;
  s->at += s->run;
}

GA_DEV void ask(asker *s, int stage) {
  const uint32_t bar = s->ring - BARS_BYTES + (uint32_t)(stage * 8);
  if (warp_elect()) {
    mbar_arrive_expect(bar, s->bytes);
    bulk_load_bytes(s->ring + (uint32_t)(stage * SLOT_BYTES), (const void *)s->w, s->bytes, bar, L2_EVICT_FIRST);
  }
  s->w += s->bytes;
  if (--s->run == 0) next_run(s);
}

/* Stages [from, to), for as long as there are items. */
GA_DEV void ask_first(asker *s, int from, int to) {
  GA_ROLL for (int d = from; d < to && s->run; d++) ask(s, d);
}
GA_DEV void ask_behind_x(asker *s) {
  if (!s->full) ask_first(s, s->args->early, s->args->depth);
  s->full = true;
}
GA_DEV void ask_again(asker *s, int stage, int left) {
  (void)left; /* of this link */
  if (s->run) ask(s, stage);
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

/* Constants of a launch come from memory when they are first read, a line of 64 bytes after the other, which is slow while weights keep memory
 * busy: a warp reads one word of each while it has nothing else to do. */
GA_DEV void touch(const void *args, int bytes, int lane) {
  GA_ROLL for (int at = 64 * lane; at < bytes; at += 64 * 32) {
    uint32_t word = ((const uint32_t *)args)[at / 4];
    pin_u32(&word, 1);
  }
}

/* By what the norm of X multiplies the link's sums. */
GA_DEV float factor_of(const ga_kargs_gemm_ring *ring, uint32_t squares) {
  float sum = 0;
  if (!ring->norm) return 1;
  for (int w = 0; w < WARPS; w++) sum += lds_f1(squares + 4 * (uint32_t)w);
  return norm_factor(ring, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_chain args) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const uint32_t squares = smem_base(), starts = squares + STARTS_AT + (uint32_t)(warp * GA_CHAIN_LINKS * START_BYTES), shares = squares + SHARES_AT;
  const uint32_t rings = squares + GA_CHAIN_CONTROL(WARPS), ring = rings + (uint32_t)(warp * RING_BYTES(args.depth)) + BARS_BYTES;
  grid_launch_dependents();
  if (lane == 0) {
    GA_ROLL for (int d = 0; d < args.depth; d++) mbar_init(ring - BARS_BYTES + (uint32_t)(d * 8), 1);
    mbar_init_fence();
  }
  if (lane < args.n) { /* a lane has a link */
    const ga_kargs_gemm_link *l = &args.link[lane];
    const uint32_t tables = rings + (uint32_t)(WARPS * RING_BYTES(args.depth));
    const uint32_t x = tables + (uint32_t)args.tables, table = tables + (uint32_t)l->table;
    start own;
    const share sh = l->second ? second::start_of(l, x, table, warp, &own) : first::start_of(l, x, table, warp, &own);
    put_words(starts + (uint32_t)(lane * START_BYTES), &own, sizeof own);
    if (warp == 0) put_words(shares + (uint32_t)(lane * GA_CHAIN_SHARE), &sh, sizeof sh);
  }
  warp_sync();
  asker next = {0, 0, 0, 0, 0, -1, false, ring, &args, starts};
  ring_place place = {0, 0};
  next_run(&next);
  ask_first(&next, 0, args.early);
  if (warp == WARPS - 1) touch(&args, sizeof args, lane);
  GA_ROLL for (int i = 0; i < args.n; i++) prefetch_norm(&args.link[i].ring);
  block_sync(); /* shares are there */
  GA_ROLL for (int i = 0; i < args.n; i++) {
    const share sh = get_share(shares + (uint32_t)(i * GA_CHAIN_SHARE));
    if (sh.n == 0) continue;
    if (args.link[i].second) second::fill_table(&args.link[i].ring, &sh);
    else first::fill_table(&args.link[i].ring, &sh);
  }
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; all else does */
  GA_ROLL for (int i = 0; i < args.n; i++) {
    const ga_kargs_gemm_link *l = &args.link[i];
    if (l->wait) grid_sync(args.counter + i, block_count());
    else block_sync(); /* the sums of the link before have been read */
    const uint32_t kept = shares + (uint32_t)(i * GA_CHAIN_SHARE);
    const start own = get_start(starts + (uint32_t)(i * START_BYTES));
    if (l->second) second::take_link(&l->ring, get_share(kept), own, &next, &place, squares, warp, lane);
    else first::take_link(&l->ring, get_share(kept), own, &next, &place, squares, warp, lane);
    block_sync();
    const share sh = get_share(kept);
    GA_ROLL for (int row = thread_index(); row < sh.tiles * GA_PACKED_ROWS; row += GA_P_THREADS)
      finish(&l->ring, &sh, factor_of(&l->ring, squares), row, 0);
  }
  leave(&args);
}
