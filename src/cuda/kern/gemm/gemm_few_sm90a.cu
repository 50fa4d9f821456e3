/* KERNEL    gemm_few, sm90a: up to 8 rows of X by packed quantised weights, with the order of sums, and so the bits, of
 *           gemm_prefill's variants of 64 rows (GA_GEMM_INVARIANT)
 * COMPUTES  Y = epilogue(X W^T). X and the elements of W are rounded to bf16 (packed_bf16.h); mma.sync adds 16 products
 *           and the sum as wgmma does (docs/log/sums.md). A chain is every other unit of a part of k, from zero; a part
 *           is the chain of odd units plus that of even ones; parts are added in their order
 * CONTRACT  x and y f32, k contiguous in x, at least 1; w packed (GA_LAYOUT_MMA_PACKED), at multiples of 16 bytes;
 *           GA_GEMM_INVARIANT set; k, x_stride and y_stride multiples of 4; n and k up to 2^28
 * WORK      a block has `group` tiles of 16 rows of W with all their chains, WARPS or 2 WARPS of them; a warp takes one
 *           chain after the other
 * DATA      W and X: bulk copies of a unit, and of the X for it in its own layout, into a ring of the warp; the first
 *           units of W before the previous kernel has ended. Sums are added in shared memory
 * BARRIERS  name           arrivals  waiter    orders
 *           full[warp][s]  1+tx      its warp  copies of a unit and of its X to stage s -> ld.shared; the stage is free
 *                                              once the warp has read it (warp_sync)
 *           block          all       all       the sums of all chains -> their addition
 * BUDGET    256 lanes; up to 4 rows of X two blocks a multiprocessor, with 2 or 3 stages
 */
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/kern/gemm/epilogue.h"
#include "cuda/kern/gemm/packed_bf16.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, ..."
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: the most bytes of dynamic shared memory that a launch gives a block"
#endif
static_assert(GA_P_SMEM <= 232448, "what a block has");

#define T GA_CAT(T_, GA_P_W)
enum {
  WARPS = GA_FEW_WARPS,
  LANES = 32 * WARPS,
  UNIT_K = PACKED_K(T),
  UNIT_BYTES = PACKED_BYTES(T),
  CHUNKS = UNIT_K / 64,
  WORDS = PACKED_OWN_WORDS(T),
  X_ROW = GA_FEW_X_ROW(UNIT_K), /* bytes of a row of X in a stage, with room against conflicts of banks */
  SUM_COL = 80,                 /* of 16 sums of a row of X, likewise */
  SUM_BYTES = 8 * SUM_COL,      /* of a chain's */
  OFF_SUMS = WARPS * GA_FEW_BARS,
  OFF_RING = OFF_SUMS + 2 * WARPS * SUM_BYTES
};
static_assert(OFF_RING == GA_FEW_RING_AT, "what the host counts with");
static_assert(!PACKED_PLAIN(T), "weights of 16 bits have another order");

typedef const ga_kargs_gemm_few *args;

/* --- chains --- */

GA_DEV int chains(args a) { return 2 << a->parts_log; } /* of a tile */
GA_DEV int first_unit(args a, int part) { return (int)((int64_t)a->g.units * part >> a->parts_log); }
GA_DEV int tile_of(args a, int job) { return block_index() * a->group + (job >> (a->parts_log + 1)); }

/* A warp's way: a chain, its next unit, and where its part ends. */
typedef struct {
  int job, unit, end;
} place;

GA_DEV place begin_job(args a, int job) {
  const int chain = job & (chains(a) - 1);
  place p = {job, first_unit(a, chain / 2) + chain % 2, first_unit(a, chain / 2 + 1)};
  if (tile_of(a, job) >= a->g.tiles) p.unit = p.end;
  return p;
}
/* To a unit, from behind a chain's last to the next chain; false: there is none. */
GA_DEV bool seek_unit(args a, place *p) {
  GA_ROLL while (p->unit >= p->end) {
    if (p->job + WARPS >= a->group << (a->parts_log + 1)) return false;
    *p = begin_job(a, p->job + WARPS);
  }
  return true;
}

/* --- copies --- */

/* Columns of X that a unit meets. */
GA_DEV int columns(args a, int unit) {
  const int64_t left = a->g.k - (int64_t)unit * UNIT_K;
  return left < UNIT_K ? (int)left : UNIT_K;
}
GA_DEV void copy_w(args a, const place *p, uint32_t to, uint32_t bar) {
  const int64_t unit = (int64_t)tile_of(a, p->job) * a->g.units + p->unit;
  mbar_arrive_expect(bar, UNIT_BYTES + (uint32_t)(columns(a, p->unit) * 4 * (int)a->g.m));
  bulk_load_bytes(to, (const uint8_t *)a->g.w + unit * UNIT_BYTES, UNIT_BYTES, bar, L2_EVICT_FIRST);
}
GA_DEV void copy_x(args a, const place *p, uint32_t to, uint32_t bar) {
  const float *from = (const float *)a->g.x + (int64_t)p->unit * UNIT_K;
  const uint32_t bytes = (uint32_t)columns(a, p->unit) * 4;
  GA_ROLL for (int r = 0; r < (int)a->g.m; r++)
      bulk_load_bytes(to + UNIT_BYTES + (uint32_t)(r * X_ROW), from + r * a->g.x_stride, bytes, bar, L2_EVICT_LAST);
}

/* --- products: c[2h + e] is row g + 8h of the tile, row 2q + e of X --- */

GA_DEV void take_unit(args a, uint32_t stage, int unit, int lane, float *c) {
  const int g = lane / 4, q = lane % 4, left = g < (int)a->g.m ? columns(a, unit) - 4 * q : 0;
  const uint32_t row = stage + UNIT_BYTES + (uint32_t)(g * X_ROW + 16 * q);
  uint32_t w[WORDS];
  packed_run own[PACKED_OWN(T)];
  packed_fetch_own(T, w, stage, lane);
  GA_UNROLL for (int j = 0; j < PACKED_OWN(T); j++) packed_own_run(T, w + PACKED_CODES(T), j, q, &own[j]);
  GA_UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++) {
    uint32_t f[16];
    packed_chunk(T, w, own, chunk, f);
    GA_UNROLL for (int j = 0; j < 4; j++) {
      float x[4] = {0, 0, 0, 0}; /* a lane's place of 16 columns: packed.h */
      if (64 * chunk + 16 * j < left) lds_f4(x, row + (uint32_t)(256 * chunk + 64 * j));
      mma_m16n8k16_bf16(c, f + 4 * j, pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]));
    }
  }
}

GA_DEV void take_chains(args a, uint32_t sb) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const uint32_t bars = sb + (uint32_t)(warp * GA_FEW_BARS),
                 ring = sb + OFF_RING + (uint32_t)(warp * a->depth * a->stage_bytes),
                 sums = sb + OFF_SUMS + (uint32_t)(2 * (lane % 4) * SUM_COL + lane / 4 * 4);
  if (lane == 0) {
    for (int s = 0; s < a->depth; s++) mbar_init(bars + 8 * (uint32_t)s, 1);
    mbar_init_fence();
  }
  warp_sync();
  place next = begin_job(a, warp), ahead = next;
  GA_ROLL for (int s = 0; s < a->depth && seek_unit(a, &ahead); s++, ahead.unit += 2) if (warp_elect())
      copy_w(a, &ahead, ring + (uint32_t)(s * a->stage_bytes), bars + 8 * (uint32_t)s);
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; X does */
  GA_ROLL for (int s = 0; s < a->depth && seek_unit(a, &next); s++, next.unit += 2) if (warp_elect())
      copy_x(a, &next, ring + (uint32_t)(s * a->stage_bytes), bars + 8 * (uint32_t)s);
  uint32_t phase = 0;
  int stage = 0;
  GA_ROLL for (int job = warp; job < a->group << (a->parts_log + 1); job += WARPS) {
    float c[4] = {0, 0, 0, 0};
    place at = begin_job(a, job);
    GA_ROLL for (; at.unit < at.end; at.unit += 2) {
      const uint32_t bar = bars + 8 * (uint32_t)stage, from = ring + (uint32_t)(stage * a->stage_bytes);
      mbar_wait(bar, phase);
      take_unit(a, from, at.unit, lane, c);
      pin_f32(c, 4);
      const uint32_t done = loads_done_f32(c, 4, 1); /* they come of all that the stage has */
      warp_sync();
      if (seek_unit(a, &next)) {
        if (warp_elect()) {
          copy_w(a, &next, from + done, bar);
          copy_x(a, &next, from + done, bar);
        }
        next.unit += 2;
      }
      if (++stage == a->depth) stage = 0, phase ^= 1;
    }
    GA_UNROLL for (int e = 0; e < 4; e++) /* row of X, row of the tile */
        sts_f1(sums + (uint32_t)(job * SUM_BYTES + e % 2 * SUM_COL + e / 2 * 32), c[e]);
  }
}

/* Eight rows of the tile whose first chain is at `at`, as gemm_prefill's rows of 64 add them up. */
GA_DEV void add_chains(args a, uint32_t at, float *x) {
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
  GA_ROLL for (int p = 0; p < 1 << a->parts_log; p++, at += 2 * SUM_BYTES) {
    float even[8], odd[8];
    GA_UNROLL for (int h = 0; h < 2; h++) {
      lds_f4(even + 4 * h, at + (uint32_t)(16 * h));
      lds_f4(odd + 4 * h, at + (uint32_t)(SUM_BYTES + 16 * h));
    }
    GA_UNROLL for (int e = 0; e < 8; e++) {
      const float sum = odd[e] + even[e];
      x[e] = a->parts_log ? x[e] + sum : sum; /* one part alone keeps the sign of a zero */
    }
  }
}

GA_KERNEL(LANES, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_few a) {
  const uint32_t sb = smem_base();
  grid_launch_dependents();
  take_chains(&a, sb);
  block_sync();
  const bool plain = gemm_is_plain(&a.g);
  GA_ROLL for (int i = thread_index(); i < a.group * 2 * (int)a.g.m; i += LANES) {
    const int half = i % (2 * a.group), r = i / (2 * a.group), tile = half / 2;
    const uint32_t sums =
        sb + OFF_SUMS + (uint32_t)((tile << (a.parts_log + 1)) * SUM_BYTES + r * SUM_COL + half % 2 * 32);
    float x[8];
    add_chains(&a, sums, x);
    gemm_finish_8(&a.g, plain, r, (int64_t)(block_index() * a.group + tile) * GA_PACKED_ROWS + half % 2 * 8, x);
  }
}
