/* KERNEL    gemm_tile, sm90a: matrix products of 16-bit operands on wgmma
 * COMPUTES  Y = epilogue(X W^T), sums in f32 (ga/gemm.h); Y in f32, f16 or bf16
 * DATA      X and W: bulk copies into a ring of STAGES steps of 64 columns, swizzled; Y: registers to gmem, 16 bytes a lane
 * WORK      a tile is 128 x BN, two warpgroups of 64 rows each, a third one copies. MODE pair: clusters of two blocks have tiles one above the
 *           other and copy half of W's rows each, for both; blocks stay for the whole launch. MODE split: the SPLIT blocks of a cluster share
 *           a tile's k; each finishes its part of the columns, with sums added in one order
 * BARRIERS  full[s]: one arrival and the bytes of both operands. empty[s]: one arrival a warpgroup that reads the stage, in every block it
 *           is copied to. Pair: blocks end together, as they arrive at each other's barriers. Split: the ring is dead when sums are exchanged
 * BUDGET    384 lanes, 1 block a multiprocessor: 40 registers where copies are issued, 232 where sums are kept
 */
#include "cuda/dev/tile.h"
#include "cuda/dev/tile/epilogue.h"
#include "cuda/dev/tile/quad.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of X and W: bf16 or f16"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: columns of a tile: 128 or 256"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: of the ring"
#endif
#ifndef GA_P_PAIR
#error "GA_P_PAIR: 1: blocks work in pairs that share W"
#endif
#ifndef GA_P_SPLIT
#error "GA_P_SPLIT: blocks that share a tile's k"
#endif

enum {
  BM = 128, BN = GA_P_BN, BK = 64, STAGES = GA_P_STAGES, SPLIT = GA_P_SPLIT, PAIR = GA_P_PAIR, BLOCKS = PAIR ? 2 : SPLIT,
  X_BYTES = BM * 128, W_BYTES = BN * 128, STAGE = X_BYTES + W_BYTES,
  OFF_FULL = STAGES * STAGE, OFF_EMPTY = OFF_FULL + 8 * STAGES,
  NC = BN / 2,                      /* sums of a lane */
  CHUNK = 32, LANE_CHUNK = 16,      /* columns that are stored together, and a lane's sums of them */
  PART_COLS = BN / SPLIT / CHUNK * CHUNK, /* columns that a block of a split tile finishes: the last one has the rest */
  LAST_COLS = BN - (SPLIT - 1) * PART_COLS
};
static_assert(SPLIT == 1 || SPLIT * LAST_COLS * BM * 4 <= OFF_FULL, "sums to exchange fit the ring");
#define WGMMA GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _ss)

typedef const ga_kargs_gemm_tile *args;

/* --- the work of a block --- */

GA_DEV int tile_first(void) { return block_index() / BLOCKS; }
GA_DEV int tile_step(void) { return block_count() / BLOCKS; }
GA_DEV int n_tiles(args a) { return a->row_tiles * a->col_tiles; }
/* First row and column of the block's tile t. */
GA_DEV void tile_at(args a, int t, int *row, int *col) {
  grid_tile(t, a->row_tiles, a->col_tiles, a->band, row, col);
  *row = (PAIR ? 2 * *row + block_index() % 2 : *row) * BM;
  *col *= BN;
}
GA_DEV int k_first(args a, int part) { return SPLIT == 1 ? part * a->steps : a->steps * part / SPLIT; }

/* --- copies: one thread --- */

GA_DEV void copy(args a, uint32_t sb) {
  const uint32_t rank = BLOCKS > 1 ? (uint32_t)(block_index() % BLOCKS) : 0;
  const int first = k_first(a, SPLIT > 1 ? (int)rank : 0), end = k_first(a, SPLIT > 1 ? (int)rank + 1 : 1);
  uint32_t i = 0;
  GA_ROLL for (int t = tile_first(); t < n_tiles(a); t += tile_step()) {
    int row, col;
    tile_at(a, t, &row, &col);
    GA_ROLL for (int k = first; k < end; k++, i++) {
      const uint32_t s = ring_stage(i, STAGES), full = sb + OFF_FULL + 8 * s, at = sb + s * STAGE;
      mbar_wait(sb + OFF_EMPTY + 8 * s, ring_empty_parity(i, STAGES));
      mbar_arrive_expect(full, STAGE);
      bulk_load_2d(at, &a->x, full, k * BK, row, L2_EVICT_LAST);
      if (PAIR)
        bulk_load_2d_multicast(at + X_BYTES + rank * (W_BYTES / 2), &a->w, full, k * BK, col + (int)rank * (BN / 2), 3, L2_EVICT_LAST);
      else
        bulk_load_2d(at + X_BYTES, &a->w, full, k * BK, col, L2_EVICT_LAST);
    }
  }
}

/* --- products --- */

GA_DEV void release(uint32_t sb, uint32_t i, int leader) {
  if (!leader) return;
  const uint32_t empty = sb + OFF_EMPTY + 8 * ring_stage(i, STAGES);
  mbar_arrive(empty);
  if (PAIR) mbar_arrive_cluster(empty, (uint32_t)(block_index() % 2 ^ 1));
}

/* One tile: `steps` blocks of the ring from block i on. */
GA_DEV void multiply(uint32_t sb, int wg, uint32_t i, int steps, float *c) {
  const int leader = thread_index() % 128 == 0;
  GA_ROLL for (int k = 0; k < steps; k++, i++) {
    const uint32_t s = ring_stage(i, STAGES), at = sb + s * STAGE;
    const uint32_t x = desc_k_major(at + (uint32_t)wg * 64 * 128), w = desc_k_major(at + X_BYTES);
    mbar_wait(sb + OFF_FULL + 8 * s, ring_full_parity(i, STAGES));
    wgmma_fence();
    GA_UNROLL for (int j = 0; j < BK / 16; j++) WGMMA(c, desc(x + 2 * j), desc(w + 2 * j), k + j > 0);
    wgmma_commit();
    wgmma_wait(1); /* the products before these are done: their stage is free */
    if (k > 0) release(sb, i - 1, leader);
  }
  wgmma_wait(0);
  release(sb, i - 1, leader);
}

/* --- results --- */

typedef struct {
  int row, col, q; /* of a lane: its first row, the first column of its chunk, its place in the quad */
} place;

/* A chunk: x[4j + 2r + e] is row + 8r, column 8j + 2q + e. */
GA_DEV void finish(const ga_kargs_gemm *g, place p, float *x) {
  GA_UNROLL for (int i = 0; i < LANE_CHUNK; i++) {
    const int64_t row = p.row + i / 2 % 2 * 8, col = p.col + i / 4 * 8 + 2 * p.q + i % 2;
    if (row < g->m && col < g->n) x[i] = gemm_value(g, row * g->y_stride + col, col, x[i]);
  }
  warp_sync(); /* Y may be the residual: other lanes store what this one has read */
}

/* Lane q of a quad gets 8 neighbouring columns, those of the chunk's group q, of both rows. */
GA_DEV void store_16(const ga_kargs_gemm *g, place p, const float *x) {
  const int col = p.col + 8 * p.q;
  uint32_t h[2][4];
  GA_UNROLL for (int r = 0; r < 2; r++) {
    GA_UNROLL for (int j = 0; j < 4; j++)
      h[r][j] = g->y_dtype == T_BF16 ? pack_bf16(x[4 * j + 2 * r], x[4 * j + 2 * r + 1]) : pack_f16(x[4 * j + 2 * r], x[4 * j + 2 * r + 1]);
    quad_transpose(h[r], p.q);
  }
  GA_UNROLL for (int r = 0; r < 2; r++) {
    uint16_t *y = (uint16_t *)g->y + (p.row + 8 * r) * g->y_stride + col;
    if (p.row + 8 * r >= g->m) continue;
    if (col + 8 <= g->n) stg_u4(y, h[r][0], h[r][1], h[r][2], h[r][3]);
    else GA_UNROLL for (int e = 0; e < 8; e++) if (col + e < g->n) stg_u16(y + e, (uint16_t)(h[r][e / 2] >> 16 * (e % 2)));
  }
}

GA_DEV void store_32(const ga_kargs_gemm *g, place p, const float *x) {
  GA_UNROLL for (int i = 0; i < LANE_CHUNK; i += 2) {
    const int row = p.row + i / 2 % 2 * 8, col = p.col + i / 4 * 8 + 2 * p.q;
    float *y = (float *)g->y + row * g->y_stride + col;
    if (row >= g->m) continue;
    if (col + 2 <= g->n) stg_f2(y, x[i], x[i + 1]);
    else if (col < g->n) stg_f32(y, x[i]);
  }
}

GA_DEV void store(const ga_kargs_gemm *g, place p, const float *x) {
  if (g->y_dtype == T_F32) store_32(g, p, x);
  else store_16(g, p, x);
}

GA_DEV bool is_plain(const ga_kargs_gemm *g) { return !g->bias && !g->gate && !g->residual && !g->act; }

/* All of a warp's rows. Activations are much code: their loop is not unrolled, the sums move down instead. */
GA_DEV void put_tile(const ga_kargs_gemm *g, int row, int col, float *c) {
  const int lane = thread_index() % 32;
  place p = {row + thread_index() / 32 * 16 + lane / 4, col, lane % 4};
  if (is_plain(g)) {
    GA_UNROLL for (int i = 0; i < NC; i++) c[i] *= g->scale;
    GA_UNROLL for (int h = 0; h < BN / CHUNK; h++, p.col += CHUNK) store(g, p, c + h * LANE_CHUNK);
    return;
  }
  GA_ROLL for (int h = 0; h < BN / CHUNK; h++, p.col += CHUNK) {
    finish(g, p, c);
    store(g, p, c);
    GA_UNROLL for (int i = 0; i + LANE_CHUNK < NC; i++) c[i] = c[i + LANE_CHUNK];
  }
}

/* --- a tile whose k is split among the cluster's blocks --- */

/* Groups of 8 columns that block p finishes: from part_first(p) on. */
GA_DEV int part_first(int p) { return p * PART_COLS / 8; }
GA_DEV int part_end(int p) { return p + 1 == SPLIT ? BN / 8 : part_first(p + 1); }
/* Where block `from` leaves 16 bytes of group j (of the part) for thread t. */
GA_DEV uint32_t part_at(uint32_t sb, int from, int j) { return sb + (uint32_t)(((from * LAST_COLS / 8 + j) * 256 + thread_index()) * 16); }

GA_DEV void send_parts(uint32_t sb, int rank, const float *c) {
  GA_UNROLL for (int j = 0; j < BN / 8; j++) {
    const int to = 8 * j < (SPLIT - 1) * PART_COLS ? 8 * j / PART_COLS : SPLIT - 1;
    const float *x = c + 4 * j;
    sts_cluster_i4(cluster_address(part_at(sb, rank, j - part_first(to)), (uint32_t)to), (int)float_bits(x[0]), (int)float_bits(x[1]),
                   (int)float_bits(x[2]), (int)float_bits(x[3]));
  }
}

GA_DEV void add_parts(const ga_kargs_gemm *g, uint32_t sb, int rank, int row, int col) {
  const int lane = thread_index() % 32;
  place p = {row + thread_index() / 32 * 16 + lane / 4, col + 8 * part_first(rank), lane % 4};
  GA_ROLL for (int j = 0; j < part_end(rank) - part_first(rank); j += CHUNK / 8, p.col += CHUNK) {
    float x[LANE_CHUNK], y[4];
    GA_UNROLL for (int i = 0; i < CHUNK / 8; i++) lds_f4(x + 4 * i, part_at(sb, 0, j + i));
    GA_UNROLL for (int from = 1; from < SPLIT; from++)
      GA_UNROLL for (int i = 0; i < CHUNK / 8; i++) {
        lds_f4(y, part_at(sb, from, j + i));
        GA_UNROLL for (int e = 0; e < 4; e++) x[4 * i + e] += y[e];
      }
    finish(g, p, x);
    store(g, p, x);
  }
}

/* --- the kernel --- */

GA_DEV void start(args a, uint32_t sb) {
  if (thread_index() == 0) {
    tmap_prefetch(&a->x);
    tmap_prefetch(&a->w);
    for (int s = 0; s < STAGES; s++) mbar_init(sb + OFF_FULL + 8 * s, 1), mbar_init(sb + OFF_EMPTY + 8 * s, PAIR ? 4 : 2);
    mbar_init_fence();
  }
  if (BLOCKS > 1) cluster_sync();
  else block_sync();
  grid_launch_dependents();
}

/* Blocks end together: those of a pair arrive at each other's barriers. */
GA_DEV void consume_pair(args a, uint32_t sb, int wg) {
  uint32_t i = 0;
  float c[NC];
  GA_ROLL for (int t = tile_first(); t < n_tiles(a); t += tile_step(), i += (uint32_t)a->steps) {
    int row, col;
    tile_at(a, t, &row, &col);
    multiply(sb, wg, i, a->steps, c);
    put_tile(&a->g, row, col, c);
  }
  if (BLOCKS > 1) cluster_sync();
}

GA_DEV void consume_split(args a, uint32_t sb, int wg) {
  const int rank = block_index() % SPLIT;
  int row, col;
  float c[NC];
  multiply(sb, wg, 0, k_first(a, rank + 1) - k_first(a, rank), c);
  cluster_sync(); /* no block reads its ring any more */
  send_parts(sb, rank, c);
  cluster_sync();
  tile_at(a, tile_first(), &row, &col);
  add_parts(&a->g, sb, rank, row, col);
}

GA_KERNEL(384, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_tile a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  start(&a, sb);
  if (wg < 2) {
    setmaxnreg_inc(232);
    grid_dependency_wait(); /* the epilogue reads, and Y may be what the kernel ahead reads */
    if (SPLIT > 1) consume_split(&a, sb, wg);
    else consume_pair(&a, sb, wg);
    return;
  }
  setmaxnreg_dec(40);
  if (thread_index() == 256) {
    grid_dependency_wait();
    copy(&a, sb);
  }
  warp_sync();
  if (BLOCKS > 1) cluster_sync();
  if (SPLIT > 1) cluster_sync();
}
