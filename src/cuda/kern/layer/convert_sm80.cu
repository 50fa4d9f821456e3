/* KERNEL    convert, sm80: e4m3 and its scales, of 1 x 128 or 128 x 128
 * COMPUTES  scale = largest magnitude / 448, Y = X / scale, as IEEE quotients in f32 (ga/layer.h)
 * CONTRACT  x f32, f16 or bf16, contiguous, any alignment of the element (16 bytes at a time when a.vec16); any rows
 *           and width
 * DATA      gmem -> registers, 8 elements of a row a lane -> gmem; X is read twice, the second time from a cache
 * BUDGET    256 lanes: 16 rows by 128 columns at a time, or a block of 128 x 128
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/e4m3.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/layer/convert_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block: 256"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { SIDE = 128, E = 8, ACROSS = SIDE / E, DOWN = GA_P_THREADS / ACROSS };
static_assert(SIDE % DOWN == 0, "a lane has whole rows");

typedef const ga_kargs_convert *args;

/* Loads 8 elements of a row; 0 in place of elements after its end. */
GA_DEV void get(args a, int64_t row, int64_t col, float *x) {
  const int64_t at = row * a->width + col;
  const int n = a->width - col < E ? (int)(a->width - col) : E;
  if (!a->vec16 || n < E) {
    GA_UNROLL for (int e = 0; e < E; e++) x[e] = e < n ? plain_get(a->x_dtype, a->x, at + e) : 0;
  } else if (a->x_dtype == T_F32) {
    elem_get16_f32(x, a->x, at);
    elem_get16_f32(x + 4, a->x, at + 4);
  } else if (a->x_dtype == T_F16) {
    elem_get16_f16(x, a->x, at);
  } else {
    elem_get16_bf16(x, a->x, at);
  }
}

GA_DEV void put_codes(args a, int64_t row, int64_t col, const float *x, float scale) {
  const int64_t at = row * a->width + col;
  uint8_t *y = (uint8_t *)a->y + at;
  uint32_t q[E];
  GA_UNROLL for (int e = 0; e < E; e++) q[e] = e4m3_of(x[e] / scale);
  if (a->vec16 && a->width - col >= E) {
    GA_UNROLL for (int e = 0; e < E; e += 4)
        stg_i32((int32_t *)(y + e), (int)(q[e] | q[e + 1] << 8 | q[e + 2] << 16 | q[e + 3] << 24));
  } else {
    GA_UNROLL for (int e = 0; e < E; e++) if (col + e < a->width) y[e] = (uint8_t)q[e];
  }
}

/* A lane's rows from `row` on, DOWN apart, of columns [col, col + 8): 16 lanes of one row, or with a.blocks 8 rows of
 * all of the block, share a scale. */
GA_DEV void convert_block(args a, float *slots, int64_t row, int64_t col) {
  const int64_t end = row + (a->blocks ? SIDE : 1), bottom = col < a->width ? (end < a->rows ? end : a->rows) : row;
  float x[E], most = 0;
  GA_ROLL for (int64_t r = row; r < bottom; r += DOWN) {
    get(a, r, col, x);
    GA_UNROLL for (int e = 0; e < E; e++) most = fmaxf(most, fabsf(x[e]));
  }
  GA_UNROLL for (int m = ACROSS / 2; m > 0; m /= 2) most = fmaxf(most, shfl_xor_f32(most, m));
  if (a->blocks) {
    block_sync(); /* the slots of the block before have been read */
    if (thread_index() % ACROSS == 0) slots[thread_index() / ACROSS] = most;
    block_sync();
    GA_UNROLL for (int i = 0; i < DOWN; i++) most = fmaxf(most, slots[i]);
  }
  const float scale = e4m3_scale(most);
  GA_ROLL for (int64_t r = row; r < bottom; r += DOWN) {
    get(a, r, col, x);
    put_codes(a, r, col, x, scale);
  }
  if (thread_index() % ACROSS || row >= a->rows) return;
  if (!a->blocks)
    a->scale[col / SIDE * a->rows + row] = scale;
  else if (thread_index() == 0)
    a->scale[row / SIDE * ((a->width + SIDE - 1) / SIDE) + col / SIDE] = scale;
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_convert a) {
  GA_SHARED float slots[DOWN];
  const int tall = a.blocks ? SIDE : DOWN;
  const int64_t cols = (a.width + SIDE - 1) / SIDE, units = (a.rows + tall - 1) / tall * cols;
  const int r = thread_index() / ACROSS, c = thread_index() % ACROSS * E;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < units; u += block_count()) {
    const int64_t row = u / cols * tall + r, col = u % cols * SIDE + c;
    convert_block(&a, slots, row, col);
  }
}
