/* KERNEL    gemm_wide, sm90a: many rows of X by quantised packed weights (GA_LAYOUT_T16), on wgmma
 * COMPUTES  Y = epilogue(X W^T). Elements of W are bf16 (dev/tile/packed_bf16.h), X was made so (gemm_x_sm80.cu); sums in f32
 * DATA      W: bulk copies of whole units into a ring, from there to registers, where they are operand A as they lie. X: boxes of 64 columns and
 *           BN rows into another ring, operand B. Y, transposed: registers, shared memory, gmem, 8 columns a lane
 * WORK      a tile is 128 rows of W by BN of X; two warpgroups have 64 rows of W each, or two such pairs take turns at units of k (KW = 2) and
 *           add up in shared memory; one more copies. While products of 64 columns run, the next 64 are worked out, by the same warps
 *           (KW = 1) or by others. A tile's k may be cut among the two blocks of a cluster, which finish half of the rows of X each, and
 *           into parts, whose sums meet in gmem: who comes last adds them, in their order
 * BARRIERS  x_full, w_full: one arrival and the bytes. x_empty: one arrival a warpgroup. w_empty: one a warp
 * BUDGET    384 lanes, 1 block a multiprocessor: 40 registers where copies are issued, 232 where sums are kept; KW = 2: 640 lanes, 32 and 112
 */
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/dev/tile/epilogue.h"
#include "cuda/dev/tile/packed_bf16.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, ..."
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of X of a tile: 64 or 256"
#endif
#ifndef GA_P_KW
#error "GA_P_KW: pairs of warpgroups that take turns along k: 1 or 2"
#endif
#ifndef GA_P_X_STAGES
#error "GA_P_X_STAGES: of a ring of X"
#endif
#ifndef GA_P_W_STAGES
#error "GA_P_W_STAGES: of a ring of W"
#endif

#define T GA_CAT(T_, GA_P_W)
enum {
  BN = GA_P_BN, KW = GA_P_KW, BK = 64, X_STAGES = GA_P_X_STAGES, W_STAGES = GA_P_W_STAGES, LANES = 256 * KW, NC = BN / 2, GROUPS_8 = BN / 8,
  UNIT_K = PACKED_K(T), UNIT_BYTES = PACKED_BYTES(T), CHUNKS = UNIT_K / BK, WORDS = PACKED_WORDS(T), TILES = 8, /* of 16 rows */
  SETS = KW == 1 ? 2 : 1, /* of fragments */
  X_BYTES = BN * 128, W_BYTES = TILES * UNIT_BYTES,
  OUT_X = BN / KW, OUT_ROWS = OUT_X < 32 ? OUT_X : 32, /* rows of X that a warp puts out, and at once */
  OUT_ROW = 80, OUT_BYTES = 32 * OUT_ROW, /* 32 rows of Y, a warp's 16 columns each, and room against conflicts of banks */
  X_RING = KW * X_STAGES, W_RING = KW * W_STAGES, /* each pair has rings of its own: a phase that it waits for follows one that it has seen */
  OFF_W = X_RING * X_BYTES, OFF_OUT = OFF_W + W_RING * W_BYTES, OFF_XF = OFF_OUT + 8 * KW * OUT_BYTES, OFF_XE = OFF_XF + 8 * X_RING,
  OFF_WF = OFF_XE + 8 * X_RING, OFF_WE = OFF_WF + 8 * W_RING, OFF_LAST = OFF_WE + 8 * W_RING
};
static_assert(KW == 1 || KW == 2, "registers");
static_assert(CHUNKS % 2 == 0, "two sets of fragments take turns");
static_assert(KW == 2 || GROUPS_8 * LANES * 16 <= OFF_W, "sums to exchange fit the ring of X");
static_assert(KW == 1 || NC / 2 * 4 * LANES <= 8 * KW * OUT_BYTES, "and those of a tile's half its results");
#define WGMMA GA_CAT3(wgmma_m64n, GA_P_BN, k16_bf16_rs)

typedef const ga_kargs_gemm_wide *args;

/* --- the work of a block --- */

/* A place in a ring: the block that it moves next. */
typedef struct {
  uint32_t x, w;
} counts;

/* A tile's k is cut among `parts` clusters of `cluster` blocks. Item: a part of a tile, for a cluster. */
GA_DEV int rank_of(args a) { return a->cluster == 1 ? 0 : block_index() % a->cluster; }
GA_DEV int first_unit(args a, int item, int rank) { return a->g.units * (item % a->parts * a->cluster + rank) / a->g.splits; }
GA_DEV int n_items(args a) { return a->w_tiles * a->x_tiles * a->parts; }
/* Tiles that share rows of W run together. */
GA_DEV void tile_at(args a, int item, int *w_row, int *x_row) {
  const int t = item / a->parts;
  *w_row = t / a->x_tiles * TILES * GA_PACKED_ROWS;
  *x_row = t % a->x_tiles * BN;
}
#define OWN_ITEMS(a, t) GA_ROLL for (int t = block_index() / (a)->cluster; t < n_items(a); t += block_count() / (a)->cluster)

/* --- copies: one thread --- */

GA_DEV uint32_t x_stage(int pair, uint32_t i) { return (uint32_t)(pair * X_STAGES) + ring_stage(i, X_STAGES); }
GA_DEV uint32_t w_stage(int pair, uint32_t i) { return (uint32_t)(pair * W_STAGES) + ring_stage(i, W_STAGES); }

GA_DEV void copy_w(args a, uint32_t sb, int pair, uint32_t i, int tile, int unit) {
  const uint32_t s = w_stage(pair, i), full = sb + OFF_WF + 8 * s;
  mbar_wait(sb + OFF_WE + 8 * s, ring_empty_parity(i, W_STAGES));
  mbar_arrive_expect(full, W_BYTES);
  GA_ROLL for (int r = 0; r < TILES; r++) {
    const int64_t at = tile + r < a->g.tiles ? tile + r : a->g.tiles - 1; /* rows behind the last are multiplied in vain */
    const uint8_t *from = (const uint8_t *)a->g.w + (at * a->g.units + unit) * UNIT_BYTES;
    bulk_load_bytes(sb + OFF_W + s * W_BYTES + (uint32_t)(r * UNIT_BYTES), from, UNIT_BYTES, full, L2_EVICT_FIRST);
  }
}

GA_DEV void copy_x(args a, uint32_t sb, int pair, uint32_t i, int column, int row) {
  const uint32_t s = x_stage(pair, i), full = sb + OFF_XF + 8 * s;
  mbar_wait(sb + OFF_XE + 8 * s, ring_empty_parity(i, X_STAGES));
  mbar_arrive_expect(full, X_BYTES);
  bulk_load_2d(sb + s * X_BYTES, &a->x, full, column, row, L2_EVICT_LAST);
}

GA_DEV void copy(args a, uint32_t sb) {
  counts i[KW];
  int waited = 0;
  GA_UNROLL for (int p = 0; p < KW; p++) i[p].x = i[p].w = 0;
  OWN_ITEMS(a, t) {
    const int first = first_unit(a, t, rank_of(a)), end = first_unit(a, t, rank_of(a) + 1);
    int w_row, x_row;
    tile_at(a, t, &w_row, &x_row);
    GA_ROLL for (int u = first; u < end; u += KW) {
      GA_UNROLL for (int p = 0; p < KW; p++) if (u + p < end) copy_w(a, sb, p, i[p].w++, w_row / GA_PACKED_ROWS, u + p);
      if (!waited) grid_dependency_wait(); /* weights do not depend on the kernel ahead; X does */
      waited = 1;
      GA_ROLL for (int c = 0; c < CHUNKS; c++)
        GA_UNROLL for (int p = 0; p < KW; p++) if (u + p < end) copy_x(a, sb, p, i[p].x++, (u + p) * UNIT_K + c * BK, x_row);
    }
  }
}

/* --- weights --- */

/* What this lane needs of its warp's 16 rows of a unit. */
GA_DEV void fetch(uint32_t *w, uint32_t unit, int lane) {
  const int g = lane / 4;
  GA_UNROLL for (int i = 0; i < WORDS; i++) {
    const int s = i - PACKED_CODES(T), in_codes = s < 0;
    const uint32_t at = unit + (uint32_t)(in_codes ? packed_code_at(T, i, lane) : packed_scale_at(T, s, g));
    /* wide parts of four words, as packed.h has them; the rest word by word */
    const int four = in_codes ? i / 4 * 4 + 4 <= (PACKED_W1(T) == 2 ? PACKED_CODES(T) - 2 : PACKED_CODES(T))
                              : PACKED_WS(T) == 4 || (PACKED_WS(T) >= 8 && s < 8);
    if (!four) w[i] = float_bits(lds_f1(at));
    else if ((in_codes ? i : s) % 4 == 0) lds_u4(w + i, at);
  }
}

/* Fragments of 64 columns: 4 registers for every 16. */
GA_DEV void work_out(const uint32_t *w, int chunk, uint32_t *f) {
  GA_UNROLL for (int i = 0; i < 4; i++) packed_weights(T, w, 2 * chunk + i / 2, i % 2, f + 4 * i);
}

/* --- products --- */

GA_DEV int pair_of_warpgroups(void) { return KW == 1 ? 0 : warp_uniform(thread_index() / 256); }

/* This pair's units of a tile: every KW-th of `units`. */
GA_DEV void multiply(uint32_t sb, counts *i, int units, float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32 % 8, leader = thread_index() % 128 == 0, pair = pair_of_warpgroups();
  uint32_t f[SETS][16], w[WORDS];
  if (KW > 1 && pair >= units) GA_UNROLL for (int e = 0; e < NC; e++) c[e] = 0;
  GA_ROLL for (int u = pair; u < units; u += KW, i->w++) {
    const uint32_t ws = w_stage(pair, i->w);
    mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(i->w, W_STAGES));
    fetch(w, sb + OFF_W + ws * W_BYTES + (uint32_t)(warp * UNIT_BYTES), lane);
    warp_sync();
    if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws);
    GA_UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++, i->x++) {
      const uint32_t xs = x_stage(pair, i->x), x = desc_k_major(sb + xs * X_BYTES);
      uint32_t *a = f[chunk % SETS];
      work_out(w, chunk, a);
      mbar_wait(sb + OFF_XF + 8 * xs, ring_full_parity(i->x, X_STAGES));
      wgmma_fence();
      GA_UNROLL for (int j = 0; j < 4; j++) WGMMA(c, a + 4 * j, desc(x + 2 * j), u - pair + chunk + j > 0);
      wgmma_commit();
      wgmma_wait(SETS - 1); /* products that are done: their fragments and their stage are free */
      if (SETS == 1 && leader) mbar_arrive(sb + OFF_XE + 8 * xs);
      if (SETS == 2 && leader && u + chunk > 0) mbar_arrive(sb + OFF_XE + 8 * x_stage(pair, i->x - 1));
    }
  }
  if (SETS == 1) return;
  wgmma_wait(0);
  if (leader) mbar_arrive(sb + OFF_XE + 8 * x_stage(pair, i->x - 1));
}

/* Two pairs that have the same tile: each gets the other's sums of half of the columns, its own of which begin at NC / 2 * pair; c holds the
 * result from 0 on. */
GA_DEV void join_pairs(uint32_t sb, float *c) {
  const int pair = pair_of_warpgroups(), t = thread_index() % 256;
  bar_sync(1, LANES); /* the results of the tile before have been read */
  GA_UNROLL for (int j = 0; j < NC / 8; j++) {
    float x[4];
    GA_UNROLL for (int e = 0; e < 4; e++) x[e] = pair ? c[4 * j + e] : c[NC / 2 + 4 * j + e];
    sts_f4(sb + OFF_OUT + (uint32_t)(((pair * (NC / 8) + j) * 256 + t) * 16), x);
  }
  bar_sync(1, LANES);
  GA_UNROLL for (int j = 0; j < NC / 8; j++) {
    float x[4];
    lds_f4(x, sb + OFF_OUT + (uint32_t)((((1 - pair) * (NC / 8) + j) * 256 + t) * 16));
    GA_UNROLL for (int e = 0; e < 4; e++) c[4 * j + e] = x[e] + (pair ? c[NC / 2 + 4 * j + e] : c[4 * j + e]);
  }
  bar_sync(1, LANES);
}

/* --- results: c[4j + 2h + e] is row 8j + 2q + e of X, row g + 8h of the warp's 16 of W --- */

GA_DEV void out_put(uint32_t out, int lane, const float *x) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int j = 0; j < OUT_ROWS / 8; j++)
    GA_UNROLL for (int i = 0; i < 4; i++) sts_f1(out + (uint32_t)((8 * j + 2 * q + i % 2) * OUT_ROW + (g + i / 2 * 8) * 4), x[4 * j + i]);
}

/* Sums of parts in gmem: [part][row of X][row of W, filled up to whole tiles]. */
GA_DEV float *partial_at(args a, int part, int64_t row, int64_t col) {
  return a->g.partial + ((int64_t)part * a->g.m + row) * a->w_tiles * TILES * GA_PACKED_ROWS + col;
}

/* 8 columns of a row are summed: to Y, or to the part's place. */
GA_DEV void put_8(args a, bool plain, int part, int row, int col, float *x) {
  if (a->parts == 1) {
    gemm_finish_8(&a->g, plain, row, col, x);
  } else if (row < a->g.m) {
    stg_f4(partial_at(a, part, row, col), x);
    stg_f4(partial_at(a, part, row, col + 4), x + 4);
  }
}

GA_DEV void put_tile(args a, uint32_t sb, int part, int w_row, int x_row, const float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t out = sb + OFF_OUT + (uint32_t)(warp * OUT_BYTES);
  const bool plain = gemm_is_plain(&a->g);
  GA_ROLL for (int h = 0; h < OUT_X / OUT_ROWS; h++) {
    GA_UNROLL for (int i = 0; i < OUT_X / OUT_ROWS; i++) if (i == h) out_put(out, lane, c + OUT_ROWS / 2 * i);
    warp_sync();
    GA_ROLL for (int p = 0; p < OUT_ROWS / 16; p++) {
      const int r = 16 * p + lane / 2;
      float x[8];
      lds_f4(x, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32));
      lds_f4(x + 4, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32 + 16));
      put_8(a, plain, part, x_row + pair_of_warpgroups() * OUT_X + OUT_ROWS * h + r, w_row + warp % 8 * 16 + lane % 2 * 8, x);
    }
    warp_sync();
  }
}

/* --- a tile whose k is split among the cluster's blocks: each finishes some groups of 8 rows of X --- */

GA_DEV int part_first(int p, int n) { return p * GROUPS_8 / n; }
/* Where block `from` of n leaves what its thread t has of group j of a part. */
GA_DEV uint32_t part_at(uint32_t sb, int n, int from, int j, int t) {
  return sb + (uint32_t)(((from * ((GROUPS_8 + n - 1) / n) + j) * LANES + t) * 16);
}

GA_DEV void send_parts(uint32_t sb, int n, int rank, const float *c) {
  GA_UNROLL for (int j = 0; j < GROUPS_8; j++) {
    const int to = (n * (j + 1) - 1) / GROUPS_8; /* the last p with part_first(p) <= j */
    const float *x = c + 4 * j;
    sts_cluster_i4(cluster_address(part_at(sb, n, rank, j - part_first(to, n), thread_index()), (uint32_t)to), (int)float_bits(x[0]),
                   (int)float_bits(x[1]), (int)float_bits(x[2]), (int)float_bits(x[3]));
  }
}

GA_DEV void put_share(args a, uint32_t sb, int part, int w_row, int x_row) {
  const int n = a->cluster, rank = rank_of(a), first = part_first(rank, n), groups = part_first(rank + 1, n) - first;
  const bool plain = gemm_is_plain(&a->g);
  GA_ROLL for (int i = thread_index(); i < groups * 128; i += LANES) {
    const int r = i % 8, column = i / 8 % 16, j = i / 128; /* row of X in its group, group of 8 columns of Y */
    float x[8];
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
    GA_ROLL for (int from = 0; from < n; from++)
      GA_UNROLL for (int e = 0; e < 8; e++)
        x[e] += lds_f1(part_at(sb, n, from, j, column / 2 * 32 + 4 * e + r / 2) + (uint32_t)(column % 2 * 8 + r % 2 * 4));
    put_8(a, plain, part, x_row + 8 * (first + j) + r, w_row + 8 * column, x);
  }
}

/* --- parts of a tile that met in gmem --- */

/* Has every other part of these rows of Y been put? */
GA_DEV bool is_last_part(args a, uint32_t sb, int counter) {
  bar_sync(1, LANES);
  if (thread_index() == 0) {
    fence_device(); /* the block's writes, which the barrier has brought here */
    const bool last = atomic_add_i32(a->g.counter + counter, 1) == a->parts - 1;
    if (last) stg_i32(a->g.counter + counter, 0);
    fence_device();
    sts_f1(sb + OFF_LAST, last ? 1.0f : 0.0f);
  }
  bar_sync(1, LANES);
  return lds_f1(sb + OFF_LAST) != 0;
}

GA_DEV void add_parts(args a, uint32_t sb, int item, int w_row, int x_row) {
  const int rank = rank_of(a), first = 8 * part_first(rank, a->cluster), rows = 8 * part_first(rank + 1, a->cluster) - first;
  const bool plain = gemm_is_plain(&a->g);
  if (!is_last_part(a, sb, item / a->parts * a->cluster + rank)) return;
  GA_ROLL for (int i = thread_index(); i < rows * 16; i += LANES) {
    const int row = x_row + first + i / 16, col = w_row + i % 16 * 8;
    float x[8];
    if (row >= a->g.m) break;
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
    GA_ROLL for (int p = 0; p < a->parts; p++) {
      float y[8];
      ldg_f4(y, partial_at(a, p, row, col));
      ldg_f4(y + 4, partial_at(a, p, row, col + 4));
      GA_UNROLL for (int e = 0; e < 8; e++) x[e] += y[e];
    }
    gemm_finish_8(&a->g, plain, row, col, x);
  }
}

/* --- the kernel --- */

GA_DEV void start(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    for (int s = 0; s < X_RING; s++) mbar_init(sb + OFF_XF + 8 * s, 1), mbar_init(sb + OFF_XE + 8 * s, 2);
    for (int s = 0; s < W_RING; s++) mbar_init(sb + OFF_WF + 8 * s, 1), mbar_init(sb + OFF_WE + 8 * s, 8);
    mbar_init_fence();
  }
  block_sync();
  grid_launch_dependents();
}

GA_DEV void consume(args a, uint32_t sb) {
  const int rank = rank_of(a);
  counts i = {0, 0};
  float c[NC];
  OWN_ITEMS(a, t) {
    const int units = first_unit(a, t, rank + 1) - first_unit(a, t, rank);
    int w_row, x_row;
    multiply(sb, &i, units, c);
    tile_at(a, t, &w_row, &x_row);
    if (KW == 2) join_pairs(sb, c);
    if (KW == 2 || a->cluster == 1) {
      put_tile(a, sb, t % a->parts, w_row, x_row, c);
    } else { /* the cluster has one item: no block reads its ring any more */
      cluster_sync();
      send_parts(sb, a->cluster, rank, c);
      cluster_sync();
      put_share(a, sb, t % a->parts, w_row, x_row);
    }
    if (a->parts > 1) add_parts(a, sb, t, w_row, x_row);
  }
}

GA_KERNEL(LANES + 128, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_wide a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start(&a, sb);
  if (wg < 2 * KW) {
    if (KW == 1) setmaxnreg_inc(232);
    else setmaxnreg_inc(112);
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    consume(&a, sb);
    return;
  }
  if (KW == 1) setmaxnreg_dec(40);
  else setmaxnreg_dec(32);
  if (thread_index() == LANES) copy(&a, sb);
  warp_sync();
  if (KW == 2 || a.cluster == 1) return;
  cluster_sync();
  cluster_sync();
}
