/* KERNEL    gemm_wide, sm90a: many rows of X by quantised packed weights (GA_LAYOUT_T16), on wgmma
 * COMPUTES  Y = epilogue(X W^T). Elements of W are worked out in f32 and rounded to bf16 once, X was (gemm_x_sm80.cu); sums in f32
 * DATA      W: bulk copies of whole units into a ring, from there to registers, where they are operand A as they lie. X: boxes of 64 columns and
 *           BN rows into another ring, operand B. Y, transposed: registers, shared memory, gmem, 8 columns a lane
 * WORK      a tile is 128 rows of W by BN of X, two warpgroups of 64 rows of W each, a third one copies; while products of 64 columns run, the
 *           next 64 are worked out. Blocks stay for the whole launch; or the blocks of a cluster share a tile's k and each finishes some rows
 *           of X, with sums added in one order
 * BARRIERS  x_full, w_full: one arrival and the bytes. x_empty: one arrival a warpgroup. w_empty: one a warp
 * BUDGET    384 lanes, 1 block a multiprocessor: 40 registers where copies are issued, 232 where sums are kept
 */
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/dev/tile/epilogue.h"
#include "cuda/dev/tile/packed.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, ..."
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of X of a tile: 64 or 256"
#endif
#ifndef GA_P_X_STAGES
#error "GA_P_X_STAGES: of the ring of X"
#endif
#ifndef GA_P_W_STAGES
#error "GA_P_W_STAGES: of the ring of W"
#endif

#define T GA_CAT(T_, GA_P_W)
enum {
  BN = GA_P_BN, BK = 64, X_STAGES = GA_P_X_STAGES, W_STAGES = GA_P_W_STAGES, LANES = 256, NC = BN / 2, GROUPS_8 = BN / 8,
  UNIT_K = PACKED_K(T), UNIT_BYTES = PACKED_BYTES(T), CHUNKS = UNIT_K / BK, WORDS = PACKED_WORDS(T), TILES = 8, /* of 16 rows */
  X_BYTES = BN * 128, W_BYTES = TILES * UNIT_BYTES,
  OUT_ROW = 80, OUT_BYTES = 32 * OUT_ROW, /* 32 rows of Y, a warp's 16 columns each, and room against conflicts of banks */
  OFF_W = X_STAGES * X_BYTES, OFF_OUT = OFF_W + W_STAGES * W_BYTES, OFF_XF = OFF_OUT + 8 * OUT_BYTES, OFF_XE = OFF_XF + 8 * X_STAGES,
  OFF_WF = OFF_XE + 8 * X_STAGES, OFF_WE = OFF_WF + 8 * W_STAGES
};
static_assert(CHUNKS % 2 == 0, "two sets of fragments take turns");
static_assert(GROUPS_8 * LANES * 16 <= OFF_W, "sums to exchange fit the ring of X");
#define WGMMA GA_CAT3(wgmma_m64n, GA_P_BN, k16_bf16_rs)

typedef const ga_kargs_gemm_wide *args;

/* --- the work of a block --- */

/* A place in a ring: the block that it moves next. */
typedef struct {
  uint32_t x, w;
} counts;

GA_DEV int splits(args a) { return a->g.splits; }
GA_DEV int part_rank(args a) { return splits(a) == 1 ? 0 : block_index() % splits(a); }
GA_DEV int first_unit(args a, int part) { return a->g.units * part / splits(a); }
GA_DEV int n_tiles(args a) { return a->w_tiles * a->x_tiles; }
/* Tiles that share rows of W run together. */
GA_DEV void tile_at(args a, int t, int *w_row, int *x_row) {
  *w_row = t / a->x_tiles * TILES * GA_PACKED_ROWS;
  *x_row = t % a->x_tiles * BN;
}
#define OWN_TILES(a, t) GA_ROLL for (int t = block_index() / splits(a); t < n_tiles(a); t += block_count() / splits(a))

/* --- copies: one thread --- */

GA_DEV void copy_w(args a, uint32_t sb, uint32_t i, int tile, int unit) {
  const uint32_t s = ring_stage(i, W_STAGES), full = sb + OFF_WF + 8 * s;
  mbar_wait(sb + OFF_WE + 8 * s, ring_empty_parity(i, W_STAGES));
  mbar_arrive_expect(full, W_BYTES);
  GA_ROLL for (int r = 0; r < TILES; r++) {
    const int64_t at = tile + r < a->g.tiles ? tile + r : a->g.tiles - 1; /* rows behind the last are multiplied in vain */
    const uint8_t *from = (const uint8_t *)a->g.w + (at * a->g.units + unit) * UNIT_BYTES;
    bulk_load_bytes(sb + OFF_W + s * W_BYTES + (uint32_t)(r * UNIT_BYTES), from, UNIT_BYTES, full, L2_EVICT_FIRST);
  }
}

GA_DEV void copy(args a, uint32_t sb) {
  const int first = first_unit(a, part_rank(a)), end = first_unit(a, part_rank(a) + 1);
  counts i = {0, 0};
  int waited = 0;
  OWN_TILES(a, t) {
    int w_row, x_row;
    tile_at(a, t, &w_row, &x_row);
    GA_ROLL for (int u = first; u < end; u++, i.w++) {
      copy_w(a, sb, i.w, w_row / GA_PACKED_ROWS, u);
      if (!waited) grid_dependency_wait(); /* weights do not depend on the kernel ahead; X does */
      waited = 1;
      GA_ROLL for (int c = 0; c < CHUNKS; c++, i.x++) {
        const uint32_t s = ring_stage(i.x, X_STAGES), full = sb + OFF_XF + 8 * s;
        mbar_wait(sb + OFF_XE + 8 * s, ring_empty_parity(i.x, X_STAGES));
        mbar_arrive_expect(full, X_BYTES);
        bulk_load_2d(sb + s * X_BYTES, &a->x, full, u * UNIT_K + c * BK, x_row, L2_EVICT_LAST);
      }
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
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const int group = 2 * chunk + i / 2, step = i % 2;
    uint32_t a[4];
    packed_step(T, w, group, step, a);
    GA_UNROLL for (int r = 0; r < 2; r++) {
      const float scale = packed_scale(T, w + PACKED_CODES(T), group, PACKED_HALVES(T) ? step : 0, r);
      const float min = PACKED_MIN(T) ? packed_min(T, w + PACKED_CODES(T), group, PACKED_HALVES(T) ? step : 0, r) : 0.0f;
      GA_UNROLL for (int h = 0; h < 2; h++) {
        const uint32_t x = a[2 * h + r];
        const float low = __uint_as_float(x << 16), high = __uint_as_float(x & 0xffff0000u);
        f[4 * i + 2 * h + r] = PACKED_MIN(T) ? pack_bf16(fmaf(low, scale, min), fmaf(high, scale, min)) : pack_bf16(low * scale, high * scale);
      }
    }
  }
}

/* --- products --- */

/* Units [first, end) of a tile. */
GA_DEV void multiply(uint32_t sb, counts *i, int units, float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32, leader = thread_index() % 128 == 0;
  uint32_t f[2][16], w[WORDS];
  GA_ROLL for (int u = 0; u < units; u++, i->w++) {
    const uint32_t ws = ring_stage(i->w, W_STAGES);
    mbar_wait(sb + OFF_WF + 8 * ws, ring_full_parity(i->w, W_STAGES));
    fetch(w, sb + OFF_W + ws * W_BYTES + (uint32_t)(warp * UNIT_BYTES), lane);
    warp_sync();
    if (lane == 0) mbar_arrive(sb + OFF_WE + 8 * ws);
    GA_UNROLL for (int chunk = 0; chunk < CHUNKS; chunk++, i->x++) {
      const uint32_t xs = ring_stage(i->x, X_STAGES), x = desc_k_major(sb + xs * X_BYTES);
      uint32_t *a = f[chunk % 2];
      work_out(w, chunk, a);
      mbar_wait(sb + OFF_XF + 8 * xs, ring_full_parity(i->x, X_STAGES));
      wgmma_fence();
      GA_UNROLL for (int j = 0; j < 4; j++) WGMMA(c, a + 4 * j, desc(x + 2 * j), u + chunk + j > 0);
      wgmma_commit();
      wgmma_wait(1); /* the products before these are done: their fragments and their stage are free */
      if (leader && u + chunk > 0) mbar_arrive(sb + OFF_XE + 8 * ring_stage(i->x - 1, X_STAGES));
    }
  }
  wgmma_wait(0);
  if (leader) mbar_arrive(sb + OFF_XE + 8 * ring_stage(i->x - 1, X_STAGES));
}

/* --- results: c[4j + 2h + e] is row 8j + 2q + e of X, row g + 8h of the warp's 16 of W --- */

GA_DEV void out_put(uint32_t out, int lane, const float *x) {
  const int g = lane / 4, q = lane % 4;
  GA_UNROLL for (int j = 0; j < 4; j++)
    GA_UNROLL for (int i = 0; i < 4; i++) sts_f1(out + (uint32_t)((8 * j + 2 * q + i % 2) * OUT_ROW + (g + i / 2 * 8) * 4), x[4 * j + i]);
}

GA_DEV void put_tile(const ga_kargs_gemm *g, uint32_t sb, int w_row, int x_row, const float *c) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const uint32_t out = sb + OFF_OUT + (uint32_t)(warp * OUT_BYTES);
  const bool plain = gemm_is_plain(g);
  GA_ROLL for (int h = 0; h < BN / 32; h++) {
    GA_UNROLL for (int i = 0; i < BN / 32; i++) if (i == h) out_put(out, lane, c + 16 * i);
    warp_sync();
    GA_ROLL for (int p = 0; p < 2; p++) {
      const int r = 16 * p + lane / 2;
      float x[8];
      lds_f4(x, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32));
      lds_f4(x + 4, out + (uint32_t)(r * OUT_ROW + lane % 2 * 32 + 16));
      gemm_finish_8(g, plain, x_row + 32 * h + r, w_row + warp * 16 + lane % 2 * 8, x);
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

GA_DEV void put_part(const ga_kargs_gemm *g, uint32_t sb, int n, int rank, int w_row, int x_row) {
  const int first = part_first(rank, n), groups = part_first(rank + 1, n) - first;
  const bool plain = gemm_is_plain(g);
  GA_ROLL for (int i = thread_index(); i < groups * 128; i += LANES) {
    const int r = i % 8, column = i / 8 % 16, j = i / 128; /* row of X in its group, group of 8 columns of Y */
    float x[8];
    GA_UNROLL for (int e = 0; e < 8; e++) x[e] = 0;
    GA_ROLL for (int from = 0; from < n; from++)
      GA_UNROLL for (int e = 0; e < 8; e++)
        x[e] += lds_f1(part_at(sb, n, from, j, column / 2 * 32 + 4 * e + r / 2) + (uint32_t)(column % 2 * 8 + r % 2 * 4));
    gemm_finish_8(g, plain, x_row + 8 * (first + j) + r, w_row + 8 * column, x);
  }
}

/* --- the kernel --- */

GA_DEV void start(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    for (int s = 0; s < X_STAGES; s++) mbar_init(sb + OFF_XF + 8 * s, 1), mbar_init(sb + OFF_XE + 8 * s, 2);
    for (int s = 0; s < W_STAGES; s++) mbar_init(sb + OFF_WF + 8 * s, 1), mbar_init(sb + OFF_WE + 8 * s, 8);
    mbar_init_fence();
  }
  block_sync();
  grid_launch_dependents();
}

GA_DEV void consume(args a, uint32_t sb) {
  const int n = splits(a), rank = part_rank(a), units = first_unit(a, rank + 1) - first_unit(a, rank);
  int w_row = 0, x_row = 0;
  counts i = {0, 0};
  float c[NC];
  OWN_TILES(a, t) {
    tile_at(a, t, &w_row, &x_row);
    multiply(sb, &i, units, c);
    if (n == 1) put_tile(&a->g, sb, w_row, x_row, c);
  }
  if (n == 1) return;
  cluster_sync(); /* no block reads its ring any more */
  send_parts(sb, n, rank, c);
  cluster_sync();
  put_part(&a->g, sb, n, rank, w_row, x_row);
}

GA_KERNEL(384, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_wide a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start(&a, sb);
  if (wg < 2) {
    setmaxnreg_inc(232);
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    consume(&a, sb);
    return;
  }
  setmaxnreg_dec(40);
  if (thread_index() == LANES) copy(&a, sb);
  warp_sync();
  if (splits(&a) == 1) return;
  cluster_sync();
  cluster_sync();
}
