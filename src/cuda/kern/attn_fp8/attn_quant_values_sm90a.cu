/* KERNEL    attn_quant_values, sm90a
 * COMPUTES  V in e4m3, transposed, in the order of P's registers, and scales: ga/attn_quant.h, VALUES; the
 *           columns' means are subtracted on request (attn_quant_means_sm90a.cu, the launch before)
 * CONTRACT  16-bit x of head dim D, contiguous, 16-byte aligned, strides multiples of 8; y 16-byte aligned, strides
 *           multiples of 16
 * DATA      gmem -> smem (cp.async, a ring of STAGES tiles of 128 tokens; the first are brought to L2 while the
 *           previous launch still runs) -> registers (ldmatrix, transposed) -> 8 bits -> gmem. Rows of an ldmatrix may
 *           be anywhere: they are the tokens that are neighbours in y, so that a lane gets 16 consecutive bytes of a
 *           row of y, a quad 64. Chunks of 16 bytes of token t lie at chunk ^ (bits 5, 4 and 0 of t), which avoids bank
 *           conflicts on both sides
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     cp.async of the tile -> ldmatrix; maxima -> their reads, and ldmatrix of the tile
 *                                    -> the next copy over it
 * BUDGET    2 D threads, 128 tokens of a head at a time, round-robin; a warp has 16 columns, 64 values a lane; 16 warps
 *           of 128 registers a multiprocessor; smem: tiles, maxima
 * MEASURED  H200, 16384 tokens of 2048 columns: 26 to 27 us (docs/log/attention-fp8.md)
 * REF       Shah et al. 2024 (block scales)
 */
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/prefetch.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"
#include "cuda/kern/attn_fp8/attn_quant_unit.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of x: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim: 64, 128, 256"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  D = GA_P_D,
  TOKENS = 128,
  HALF = TOKENS / 2, /* tokens of the smaller scales, and of a quad's bytes of a row of y */
  COLUMNS = 16,      /* of a warp */
  WARPS = D / COLUMNS,
  THREADS = 32 * WARPS,
  BLOCKS = 16 / WARPS, /* of a multiprocessor */
  EACH = 64,           /* values of a lane: of half h and column 8 b + g of the warp 16 from 32 h + 16 b on, as in y */
  STAGES = 2,
  ROW_BYTES = 2 * D,
  STAGE_BYTES = TOKENS * ROW_BYTES,
  OFF_MOST = STAGES * STAGE_BYTES,
  SMEM_BYTES = OFF_MOST + 2 * 4 * WARPS /* maxima of the warps: of half 0, of half 1 */
};
static_assert(D == 64 || D == 128 || D == 256, "the ring's size is a power of two");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define TO_F32 GA_CAT(elem_f32_of_, GA_P_DTYPE)

/* p - step, digit by digit: divisions are for the first unit alone. The last tokens go before the first: where the
 * means were made, or V itself, just before, they are still in L2. */
GA_DEV block_coord go_back(args a, block_coord p, block_coord step) {
  p.head -= step.head, p.block -= step.block, p.batch -= step.batch;
  if (p.head < 0) p.head += a->heads, p.block--;
  if (p.block < 0) p.block += a->units_per_head, p.batch--;
  return p;
}
/* The first of this thread's rows of a tile, 16 apart, and its 16 bytes of it. */
GA_DEV int first_row(void) { return thread_index() / (D / 8); }
GA_DEV int own_chunk(void) { return thread_index() % (D / 8); }
GA_DEV const uint16_t *chunk_of(args a, block_coord p) {
  return (const uint16_t *)a->x + p.batch * a->x_batch + p.head * a->x_head +
         (p.block * TOKENS + first_row()) * a->x_token + 8 * own_chunk();
}
GA_DEV void prefetch_tile(args a, block_coord p) {
  GA_UNROLL for (int i = 0; i < 8; i++) if (own_chunk() % 8 == 0) prefetch_l2(chunk_of(a, p) + 16 * i * a->x_token);
}
/* Behind the last token come zeros. */
GA_DEV void fetch_tile(args a, block_coord p, uint32_t tile) {
  const int row = first_row(), left = a->tokens - p.block * TOKENS - row;
  GA_UNROLL for (int i = 0; i < 8; i++) {
    const int swizzle = (row & 1) | (i << 1 & 6);
    cp_async_16(tile + (uint32_t)((row + 16 * i) * ROW_BYTES + ((own_chunk() ^ swizzle) << 4)),
                chunk_of(a, p) + 16 * i * a->x_token, 16 * i < left ? 16 : 0);
  }
}
/* Loads this lane's numbers of the tile, transposed. In y, 16 consecutive tokens are interleaved: matrix i of an
 * ldmatrix has tokens 2 i and 2 i + 1 of each 16, or those + 8 (the second ldmatrix). Its rows 2 q and 2 q + 1 are
 * of the q-th 16. */
GA_DEV void take_tile(uint32_t tile, float *x) {
  const int lane = thread_index() & 31, matrix = lane >> 3, row = lane & 7,
            chunk = (thread_index() >> 5) * (COLUMNS / 8);
  const uint32_t at = tile + (uint32_t)((16 * (row >> 1) + (row & 1) + 2 * matrix) * ROW_BYTES);
  GA_UNROLL for (int h = 0; h < 2; h++) GA_UNROLL for (int b = 0; b < 2; b++) GA_UNROLL for (int e = 0; e < 2; e++) {
    uint32_t w[4];
    ldmatrix_x4_trans(w, at + (uint32_t)((HALF * h + 8 * e) * ROW_BYTES + (((chunk + b) ^ row) << 4)));
    GA_UNROLL for (int i = 0; i < 8; i++) x[32 * h + 16 * b + i / 2 * 4 + 2 * e + i % 2] =
        TO_F32((uint16_t)(w[i / 2] >> 16 * (i & 1)));
  }
}
/* Column b of this lane. */
GA_DEV int column_of(int b) { return (thread_index() >> 5) * COLUMNS + 8 * b + (thread_index() >> 2 & 7); }
/* Subtracts the means. Rows after the last token stay 0. */
GA_DEV void centre(args a, block_coord p, const float *mean, float *x) {
  const int rows = a->tokens - p.block * TOKENS - 16 * (thread_index() & 3);
  GA_UNROLL for (int h = 0; h < 2; h++) GA_UNROLL for (int b = 0; b < 2; b++) GA_UNROLL for (int i = 0; i < 16; i++) {
    const int token = HALF * h + i / 4 * 2 + i % 4 / 2 * 8 + i % 2;
    x[32 * h + 16 * b + i] -= token < rows ? mean[b] : 0.f;
  }
}
/* Returns the largest magnitude of a half's 32 values, by four chains of operations instead of one. */
GA_DEV float most_of(const float *x) {
  float most[4] = {};
  GA_UNROLL for (int i = 0; i < EACH / 2; i++) most[i % 4] = fmaxf(most[i % 4], fabsf(x[i]));
  return fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
}
/* Returns the scale for a largest magnitude; 1 if it would be 0. */
GA_DEV float scale_from(float most) {
  const float scale = most * (1.f / 448.f);
  return scale == 0.f ? 1.f : scale;
}
/* Computes 1 / scale of each half, and stores the scales. When it returns, all warps have read the tile. */
GA_DEV void scales(args a, block_coord p, uint32_t slots, const float *x, float *f) {
  const int lane = thread_index() & 31, warp = thread_index() >> 5;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const float most = warp_most(most_of(x + 32 * h));
    if (lane == 0) sts_f1(slots + 4 * (uint32_t)(h * WARPS + warp), most);
  }
  block_sync();
  float most[2], scale[2];
  GA_UNROLL for (int h = 0; h < 2; h++) most[h] = warp_most(lds_f1(slots + 4 * (uint32_t)(h * WARPS + lane % WARPS)));
  if (a->scale_tokens == TOKENS) most[0] = most[1] = fmaxf(most[0], most[1]);
  const float given = a->scale_tokens ? 0.f : ldg_f32(a->given + p.batch * a->given_batch + p.head * a->given_head);
  GA_UNROLL for (int h = 0; h < 2; h++) {
    scale[h] = a->scale_tokens ? scale_from(most[h]) : given;
    f[h] = rcp(scale[h]);
  }
  float *to = a->scale + ((int64_t)p.batch * a->heads + p.head) * a->blocks;
  const int each = a->scale_tokens == TOKENS ? 1 : 2, block = p.block * each + thread_index();
  if (thread_index() < each && block < a->blocks) stg_f32(to + block, thread_index() ? scale[1] : scale[0]);
}
GA_DEV uint32_t pack4(const float *x, float f) { return pack4_e4m3(x[0] * f, x[1] * f, x[2] * f, x[3] * f); }
GA_DEV void store_values(args a, block_coord p, const float *x, const float *f) {
  uint8_t *base =
      (uint8_t *)a->y + p.batch * a->y_batch + p.head * a->y_head + p.block * TOKENS + 16 * (thread_index() & 3);
  GA_UNROLL for (int b = 0; b < 2; b++) GA_UNROLL for (int h = 0; h < 2; h++) {
    const float *v = x + 32 * h + 16 * b;
    stg_u4(base + column_of(b) * a->y_token + HALF * h, pack4(v, f[h]), pack4(v + 4, f[h]), pack4(v + 8, f[h]),
           pack4(v + 12, f[h]));
  }
}

GA_KERNEL(THREADS, BLOCKS) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_quant k) {
  args a = &k;
  uint32_t tile = smem_base();
  const uint32_t slots = tile + OFF_MOST;
  const block_coord step = block_coord_of(a, block_count());
  block_coord p = block_coord_of(a, a->units - 1 - block_index()), load_pos = p;
  GA_UNROLL for (int s = 0; s < STAGES;
                 s++) { /* reads nothing: what is in L2 is as new as what is written until then */
    if (block_index() + s * block_count() < a->units) prefetch_tile(a, load_pos);
    load_pos = go_back(a, load_pos, step);
  }
  load_pos = p;
  grid_dependency_wait();
  grid_launch_dependents();
  GA_UNROLL for (int s = 0; s < STAGES; s++) {
    if (block_index() + s * block_count() < a->units) fetch_tile(a, load_pos, tile + (uint32_t)(s * STAGE_BYTES));
    cp_async_commit();
    load_pos = go_back(a, load_pos, step);
  }
  for (int u = block_index(); u < a->units; u += block_count()) {
    float x[EACH], f[2], mean[2];
    if (a->centre) GA_UNROLL
      for (int b = 0; b < 2; b++)
        mean[b] = ldg_f32(a->mean + ((int64_t)p.batch * a->heads + p.head) * D + column_of(b));
    cp_async_wait(STAGES - 1);
    block_sync();
    take_tile(tile, x);
    if (a->centre) centre(a, p, mean, x);
    scales(a, p, slots, x, f);
    if (u < a->units - STAGES * block_count()) fetch_tile(a, load_pos, tile);
    cp_async_commit();
    store_values(a, p, x, f);
    p = go_back(a, p, step);
    load_pos = go_back(a, load_pos, step);
    tile ^= STAGE_BYTES;
  }
}
