/* KERNEL    gemm_mma_packed, sm80: up to 8 rows of X by packed weights (GA_LAYOUT_MMA_PACKED), at the speed of memory
 * COMPUTES  Y = epilogue(X W^T). Weights as exact integers in bf16, X as the sum of two bf16 (17 bits), products on
 *           tensor cores into f32; scales and mins are applied to the sums of 16 or 32 products in f32
 * CONTRACT  x and y f32, k contiguous in x, at least 1; w packed (GA_LAYOUT_MMA_PACKED), at multiples of 16 bytes; n
 *           and k up to 2^28. Leaves counter zeroed
 * DATA      W: gmem -> registers, 16 bytes a lane, read once. The next unit is in flight while one is multiplied, and
 *           the first is loaded before the previous kernel has ended (dependent launch). X: converted to bf16 in shared
 *           memory once a block
 * WORK      a block has a run of tiles of 16 rows and a part of k. Its units, tile after tile, are divided evenly among
 *           the warps, and each warp sums its units of a tile. These sums are added in shared memory, those of other
 *           blocks in gmem, always in one order
 * BUDGET    THREADS lanes, one block a multiprocessor, DEPTH units of W in registers
 */
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/gemm/epilogue.h"
#include "cuda/kern/gemm/packed_few.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_W
#error "GA_P_W: type of W: Q4_0, Q4_K, F16, ..."
#endif
#ifndef GA_P_DEPTH
#error "GA_P_DEPTH: units of W that a warp holds, 2 or 3"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM <= 231424, "what a launch takes at most: 227 KiB less what the kernel declares");

#define T GA_CAT(T_, GA_P_W)
enum {
  WARPS = GA_P_THREADS / 32,
  WORDS = PACKED_WORDS(T),
  GROUPS = PACKED_GROUPS(T),
  UNIT_K = PACKED_K(T),
  UNIT_BYTES = PACKED_BYTES(T)
};
/* Units of W in registers: one that is worked on, the others under way. */
enum { DEPTH = GA_P_DEPTH };
enum { HALVES = PACKED_HALVES(T) ? 2 : 1, COLS = PACKED_FEW_COLS };

#define X(name, number, k, bytes) static_assert(number != T || (k == UNIT_K && bytes == UNIT_BYTES), "unit of " #name);
GA_PACKED_TYPES(X)
#undef X

/* Where things are in shared memory, and this block's share of the work. */
typedef struct {
  uint32_t x, sums, parts;
  int k0, nb;      /* units along k: first and number */
  int tile, tiles; /* first and number */
  int n;           /* units: tiles * nb */
} share;

/* Tiles of the block that a warp has units of: none when last < first. */
typedef struct {
  int first, last;
} warp_share;

GA_DEV int sum_cols(const ga_kargs_gemm *a) { return packed_sum_cols(a->copies); }

GA_DEV share share_of(const ga_kargs_gemm *a, int part, int group) {
  share s;
  s.k0 = (int)((int64_t)a->units * part / a->splits);
  s.nb = (int)((int64_t)a->units * (part + 1) / a->splits) - s.k0;
  s.tile = (int)((int64_t)a->tiles * group / a->groups);
  s.tiles = (int)((int64_t)a->tiles * (group + 1) / a->groups) - s.tile;
  s.n = s.tiles * s.nb;
  s.x = smem_base();
  s.sums = s.x + (uint32_t)(a->x_units * GROUPS * a->copies * 64);
  s.parts = s.sums + (PACKED_MIN(T) ? (uint32_t)(a->x_units * GROUPS * HALVES * sum_cols(a) * 4) : 0);
  return s;
}
GA_DEV int first_unit(const share *s, int warp) { return (int)((int64_t)s->n * warp / WARPS); }

/* --- X to shared memory --- */

/* Four elements of row col from k on; zeros outside. */
GA_DEV void get_x(const ga_kargs_gemm *a, int col, int64_t k, float *x) {
  const float *row = (const float *)a->x + col * a->x_stride + k;
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = 0;
  if (col >= a->m || k >= a->k) return;
  if (k + 4 <= a->k && (uint64_t)row % 16 == 0)
    elem_get16_f32(x, row, 0);
  else GA_UNROLL
    for (int e = 0; e < 4; e++)
      if (k + e < a->k) x[e] = row[e];
}

/* The high parts of columns [0, h) come first, then the low parts: h = copies / 2. AHEAD loads of a lane are under way
 * at once. */
GA_DEV void convert_x(const ga_kargs_gemm *a, const share *s) {
  enum { AHEAD = 5 };
  const int h = a->copies / 2, per = s->nb * UNIT_K / 4, cols = sum_cols(a);
  for (int base = 0; base < h * per; base += AHEAD * GA_P_THREADS) {
    float x[AHEAD][4];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * GA_P_THREADS + thread_index(), col = h == 1 ? 0 : i / per, v = i - col * per;
      get_x(a, i < h * per ? col : (int)a->m, (int64_t)s->k0 * UNIT_K + 4 * v, x[b]);
    }
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * GA_P_THREADS + thread_index(), col = h == 1 ? 0 : i / per, v = i - col * per,
                group = v / 8, e = v % 8 * 4;
      uint32_t hi[2], lo[2];
      float sum = packed_split_x(x[b], hi, lo);
      if (PACKED_MIN(T)) GA_UNROLL
        for (int m = 1; m < (HALVES == 2 ? 4 : 8); m *= 2) sum += shfl_xor_f32(sum, m);
      if (i >= h * per) continue;
      const uint32_t at = s->x + (uint32_t)(group * a->copies * 64 + packed_x_at(e) * 2);
      sts_u2(at + (uint32_t)col * 64, hi[0], hi[1]);
      sts_u2(at + (uint32_t)(col + h) * 64, lo[0], lo[1]);
      if (!PACKED_MIN(T) || e % (32 / HALVES)) continue;
      const uint32_t sums = s->sums + (uint32_t)((group * HALVES + e / 16 * (HALVES - 1)) * cols) * 4;
      sts_f1(sums + (uint32_t)col * 4, sum);
      if (a->copies <= COLS) sts_f1(sums + (uint32_t)(col + h) * 4, 0); /* the high column has all of it */
    }
  }
}

/* A warp's sum of what it has of a tile goes to its slot, and starts anew. */
GA_DEV void put_split(const ga_kargs_gemm *a, const share *sh, int warp, int slot, int lane, float *acc) {
  const uint32_t at =
      sh->parts + (uint32_t)(((warp * a->slots + slot) * GA_PACKED_ROWS + lane / 4) * COLS + lane % 4 * 2) * 4;
  sts_f2(at, acc[0], acc[1]);
  sts_f2(at + 8 * COLS * 4, acc[2], acc[3]);
  GA_UNROLL for (int e = 0; e < 4; e++) acc[e] = 0;
}

/* Row `row` of the block's tile t, column col: the sum of the warps that had a part of it. */
GA_DEV float add_splits_of(const ga_kargs_gemm *a, const share *sh, const warp_share *warps, int t, int row, int col) {
  float sum = 0;
  GA_UNROLL for (int w = 0; w < WARPS; w++) {
    const warp_share s = warps[w];
    if (t < s.first || t > s.last) continue;
    const uint32_t at = sh->parts + (uint32_t)(((w * a->slots + t - s.first) * GA_PACKED_ROWS + row) * COLS + col) * 4;
    sum += lds_f1(at);
    if (a->copies <= COLS) sum += lds_f1(at + (uint32_t)a->copies * 2);
  }
  return sum;
}

/* --- parts of k in other blocks --- */

GA_DEV bool is_last_split(const ga_kargs_gemm *a, const share *sh, int group) {
  block_sync();
  if (thread_index() == 0) {
    fence_device(); /* the block's writes, which the barrier has brought here */
    const bool last = atomic_add_i32(a->counter + group, 1) == a->splits - 1;
    if (last) stg_i32(a->counter + group, 0);
    fence_device();
    sts_f1(sh->parts, last ? 1.0f : 0.0f); /* the sums there have been read */
  }
  block_sync();
  return lds_f1(sh->parts) != 0;
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm a) {
  GA_SHARED warp_share warps[WARPS];
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const int part = block_index() % a.splits, group = block_index() / a.splits;
  share sh = share_of(&a, part, group);
  const int first = first_unit(&sh, warp), end = first_unit(&sh, warp + 1), tile = first / sh.nb;
  const int64_t turn =
      (int64_t)(a.units - sh.nb + 1) * UNIT_BYTES;            /* from a tile's last unit here to the next one's first */
  int next_unit = first, next_unit_at = first - tile * sh.nb; /* the unit to load next, and its place along k */
  int at = next_unit_at, slot = 0;
  const uint8_t *w = (const uint8_t *)a.w + ((int64_t)(sh.tile + tile) * a.units + sh.k0 + at) * UNIT_BYTES;
  uint32_t words[DEPTH][WORDS];
  float acc[4] = {0, 0, 0, 0};
#define GA_LOAD(d)                              \
  if (next_unit < end) {                        \
    packed_load(T, words[d], w, lane);          \
    const bool turns = ++next_unit_at == sh.nb; \
    w += turns ? turn : (int64_t)UNIT_BYTES;    \
    next_unit_at = turns ? 0 : next_unit_at;    \
    next_unit++;                                \
  }
  GA_UNROLL for (int d = 0; d < DEPTH - 1; d++) GA_LOAD(d) if (lane == 0) warps[warp].first = tile,
                                                                          warps[warp].last =
                                                                              first < end ? (end - 1) / sh.nb : -1;
  grid_launch_dependents();
  grid_dependency_wait(); /* weights do not depend on the kernel ahead; all else does */
  convert_x(&a, &sh);
  block_sync();
  pin_u32(&sh.x, 1);
  pin_u32(&sh.sums, 1);
  GA_ROLL for (int u = first; u < end;) {
    GA_UNROLL for (int d = 0; d < DEPTH; d++) {
      if (u >= end) break;
      GA_LOAD((d + DEPTH - 1) % DEPTH)
      packed_take_unit(T, sh.x, sh.sums, a.copies, a.copies > COLS, words[d], at, lane, acc);
      if (++at == sh.nb || u + 1 == end) put_split(&a, &sh, warp, slot++, lane, acc);
      at = at == sh.nb ? 0 : at;
      u++;
    }
  }
  block_sync();
  const int rows = sh.tiles * GA_PACKED_ROWS;
  const int64_t padded = (int64_t)a.tiles * GA_PACKED_ROWS, row0 = (int64_t)sh.tile * GA_PACKED_ROWS;
  for (int i = thread_index(); i < rows * (int)a.m; i += GA_P_THREADS) {
    const int col = i / rows, row = i % rows;
    const float sum = add_splits_of(&a, &sh, warps, row / GA_PACKED_ROWS, row % GA_PACKED_ROWS, col);
    if (a.splits > 1)
      stg_f32(a.partial + ((int64_t)part * COLS + col) * padded + row0 + row, sum);
    else if (row0 + row < a.n)
      gemm_finish(&a, col, row0 + row, sum);
  }
  if (a.splits == 1 || !is_last_split(&a, &sh, group)) return;
  for (int i = thread_index(); i < rows * (int)a.m; i += GA_P_THREADS) {
    const int col = i / rows, row = i % rows;
    float sum = 0;
    for (int p = 0; p < a.splits; p++) sum += ldg_f32(a.partial + ((int64_t)p * COLS + col) * padded + row0 + row);
    if (row0 + row < a.n) gemm_finish(&a, col, row0 + row, sum);
  }
}
