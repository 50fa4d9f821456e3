/* KERNEL    gemm_mma, sm80: matrix products of 16-bit operands, stored either way, for any NVIDIA GPU from Ampere on
 * COMPUTES  Y = epilogue(X W^T), sums in f32 (ga/gemm.h); Y in f32, f16 or bf16
 * CONTRACT  x and w of DTYPE, at multiples of 16 bytes; strides multiples of 8; any m, n, k up to 2^30, with less than
 *           2^31 tiles
 * DATA      X and W: cp.async into a ring of STAGES steps of 64 of k, swizzled: rows of 64 of k, or, stored across,
 *           panels of 64 columns by 64 rows of k, which ldmatrix transposes; Y: registers, shared memory, 8 columns a
 *           lane
 * WORK      a block takes a tile of 128 x 128, a warp 64 x 32 of it
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     a step: cp.async of its stage -> ldmatrix, and reads of the step before -> the
 *                                    copy over it; at the end: reads of the ring -> results over it
 * BUDGET    256 lanes, 96 KiB: one block a multiprocessor on sm_86 and sm_89, too
 */
#include "cuda/dev/pipe/grid.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/gemm/gemm_plain.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of X and W: bf16 or f16"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: of the ring"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  SIDE = 128,
  BK = 64,
  STAGES = GA_P_STAGES,
  THREADS = 256,
  BAND = 8,
  PANEL = 64 * 128,
  OPERAND = 2 * PANEL,
  STAGE = 2 * OPERAND,
  WARP_M = 64,
  WARP_N = 32,
  WARPS_N = SIDE / WARP_N
};
static_assert(STAGES * STAGE == GA_P_SMEM, "the row's shared memory");
static_assert(THREADS / 32 * WARP_M * WARP_N * 4 <= STAGES * STAGE, "a warp's results fit the ring");
#define MMA GA_CAT(mma_m16n8k16_, GA_P_DTYPE)

typedef const ga_kargs_gemm_plain *args;

/* --- copies: a lane has four pieces of 8 elements of each operand --- */

/* Piece i lies at data + i % 2 * near + i / 2 * far, 4 KiB behind piece 0 times i. Along k: rows r + 32 i of 64 of k;
 * across: rows of k r + 32 (i % 2), the second panel's columns from i = 2 on. */
typedef struct {
  const uint16_t *data; /* of this step */
  int64_t near, far, step;
  int line, k;   /* of the first element of piece 0 */
  int lines, ks; /* of the operand */
  int across;
} operand;

GA_DEV operand operand_at(const void *data, int64_t lines, int64_t k, int64_t stride, int across, int tile) {
  const int r = thread_index() / 8, c = thread_index() % 8 * 8;
  operand o;
  o.line = tile * SIDE + (across ? c : r);
  o.k = across ? r : c;
  o.data = (const uint16_t *)data + (across ? o.k * stride + o.line : o.line * stride + o.k);
  o.near = 32 * stride;
  o.far = across ? 64 : 64 * stride;
  o.step = across ? BK * stride : (int64_t)BK;
  o.lines = (int)lines, o.ks = (int)k, o.across = across;
  return o;
}

/* The next step's pieces. What is outside is zero and not read. */
GA_DEV void copy_operand(uint32_t to, operand *o) {
  to = panel_chunk(to, (uint32_t)(thread_index() / 8), (uint32_t)(thread_index() % 8));
  GA_UNROLL for (int i = 0; i < 4; i++) {
    const int inside = o->across ? o->k + i % 2 * 32 < o->ks : o->line + 32 * i < o->lines; /* the row */
    const int left = inside ? (o->across ? o->lines - o->line - i / 2 * 64 : o->ks - o->k) : 0, n = left <= 0  ? 0
                                                                                                    : left < 8 ? left
                                                                                                               : 8;
    cp_async_16(to + (uint32_t)(i * 4096), o->data + i % 2 * o->near + i / 2 * o->far, 2 * n);
  }
  o->data += o->step;
  o->k += BK;
}

/* --- fragments of 16 vectors from `first` on by 16 of k, step j of the stage --- */

GA_DEV void load_x_fragment(uint32_t *f, uint32_t at, int across, int first, int j, int lane) {
  const int r = lane % 8, i = lane / 8; /* of matrix i: vectors 8 (i % 2), k 8 (i / 2) */
  const uint32_t panel = at + (uint32_t)(first / 64 * PANEL);
  if (across)
    ldmatrix_x4_trans(f, panel_chunk(panel, (uint32_t)(16 * j + i / 2 * 8 + r), (uint32_t)(first % 64 / 8 + i % 2)));
  else
    ldmatrix_x4(f, panel_chunk(at, (uint32_t)(first + i % 2 * 8 + r), (uint32_t)(2 * j + i / 2)));
}
/* Registers 0, 1: of the first 8 vectors. */
GA_DEV void load_w(uint32_t *f, uint32_t at, int across, int first, int j, int lane) {
  const int r = lane % 8, i = lane / 8; /* of matrix i: vectors 8 (i / 2), k 8 (i % 2) */
  const uint32_t panel = at + (uint32_t)(first / 64 * PANEL);
  if (across)
    ldmatrix_x4_trans(f, panel_chunk(panel, (uint32_t)(16 * j + i % 2 * 8 + r), (uint32_t)(first % 64 / 8 + i / 2)));
  else
    ldmatrix_x4(f, panel_chunk(at, (uint32_t)(first + i / 2 * 8 + r), (uint32_t)(2 * j + i % 2)));
}

/* Fragments of a step of 16 of k. */
typedef struct {
  uint32_t x[WARP_M / 16][4], w[WARP_N / 16][4];
} fragments;

GA_DEV void load_fragments(fragments *f, uint32_t at, int xt, int wt, int row, int col, int j, int lane) {
  GA_UNROLL for (int m = 0; m < WARP_M / 16; m++) load_x_fragment(f->x[m], at, xt, row + 16 * m, j, lane);
  GA_UNROLL for (int n = 0; n < WARP_N / 16; n++) load_w(f->w[n], at + OPERAND, wt, col + 16 * n, j, lane);
}

/* A warp's products of a stage: c[16-row tile][8-column tile][4]. The next fragments are on their way meanwhile. */
GA_DEV void multiply_stage(uint32_t at, int xt, int wt, int row, int col, int lane, float (*c)[WARP_N / 8][4]) {
  fragments f[2];
  load_fragments(&f[0], at, xt, wt, row, col, 0, lane);
  GA_UNROLL for (int j = 0; j < BK / 16; j++) {
    const fragments *now = &f[j % 2];
    if (j + 1 < BK / 16) load_fragments(&f[(j + 1) % 2], at, xt, wt, row, col, j + 1, lane);
    GA_UNROLL for (int m = 0; m < WARP_M / 16; m++) GA_UNROLL for (int n = 0; n < WARP_N / 8; n++)
        MMA(c[m][n], now->x[m], now->w[n / 2][n % 2 * 2], now->w[n / 2][n % 2 * 2 + 1]);
  }
}

/* --- results --- */

/* Group of 4 columns `quad` of row r of a warp's tile, in f32. */
GA_DEV uint32_t result_at(uint32_t at, int r, int quad) { return at + (uint32_t)(r * 128 + (quad ^ r % 8) * 16); }

GA_DEV void put_output(args a, uint32_t at, int64_t row, int64_t col, int lane, float (*c)[WARP_N / 8][4]) {
  const bool plain = gemm_is_plain(&a->g);
  GA_UNROLL for (int m = 0; m < WARP_M / 16; m++) GA_UNROLL for (int n = 0; n < WARP_N / 8; n++)
      GA_UNROLL for (int h = 0; h < 2; h++)
          sts_f2(result_at(at, 16 * m + 8 * h + lane / 4, 2 * n + lane % 4 / 2) + (uint32_t)(lane % 2 * 8),
                 c[m][n][2 * h], c[m][n][2 * h + 1]);
  warp_sync();
  GA_ROLL for (int i = lane; i < WARP_M * WARP_N / 8; i += 32) {
    float x[8];
    lds_f4(x, result_at(at, i / 4, i % 4 * 2));
    lds_f4(x + 4, result_at(at, i / 4, i % 4 * 2 + 1));
    gemm_finish_8(&a->g, plain, row + i / 4, col + i % 4 * 8, x);
  }
}

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_plain a) {
  const uint32_t sb = smem_base();
  const int warp = thread_index() / 32, lane = thread_index() % 32, row = warp / WARPS_N * WARP_M,
            col = warp % WARPS_N * WARP_N;
  const int steps = (int)((a.g.k + BK - 1) / BK), xt = a.layout & GEMM_XT, wt = a.layout & GEMM_WT;
  int row_tile, col_tile;
  float c[WARP_M / 16][WARP_N / 8][4] = {{{0}}};
  grid_tile(block_index(), (int)((a.g.m + SIDE - 1) / SIDE), (int)((a.g.n + SIDE - 1) / SIDE), BAND, &row_tile,
            &col_tile);
  operand x = operand_at(a.g.x, a.g.m, a.g.k, a.g.x_stride, xt, row_tile),
          w = operand_at(a.g.w, a.g.n, a.g.k, a.w_stride, wt, col_tile);
  grid_launch_dependents();
  grid_dependency_wait();
  uint32_t to = sb, at = sb;                         /* stages that are filled and read */
  GA_ROLL for (int k = 1 - STAGES; k < steps; k++) { /* STAGES - 1 steps ahead; so many rounds only copy */
    if (k >= 0) {
      cp_async_wait(STAGES - 2);
      block_sync();
    }
    if (k + STAGES - 1 < steps) {
      copy_operand(to, &x);
      copy_operand(to + OPERAND, &w);
      to = to == sb + (STAGES - 1) * STAGE ? sb : to + STAGE;
    }
    cp_async_commit();
    if (k < 0) continue;
    multiply_stage(at, xt, wt, row, col, lane, c);
    at = at == sb + (STAGES - 1) * STAGE ? sb : at + STAGE;
  }
  cp_async_wait_all();
  block_sync(); /* the ring is dead */
  put_output(&a, sb + (uint32_t)(warp * WARP_M * WARP_N * 4), (int64_t)row_tile * SIDE + row,
             (int64_t)col_tile * SIDE + col, lane, c);
}
