/* KERNEL    attn_quant_means, sm90a: a step of attn_quant_values
 * COMPUTES  means of V's columns over all tokens (ga/attn_quant.h, centre), added in a fixed order
 * CONTRACT  as attn_quant_values
 * DATA      gmem -> smem (cp.async, a ring of AT_ONCE times 16 bytes a thread, which alone reads them) -> sums in f32.
 *           The `parts` blocks of a cluster share COLUMNS of a head and take turns at ROWS tokens, so that all blocks
 *           of the launch read the same few MB. Twice as many loads in flight take a quarter longer
 * BARRIERS  name     arrivals  waiter  orders
 *           block    all       all     the warps' sums -> their sum
 *           cluster  all       all     the blocks' sums -> their reads by block 0; these reads -> the blocks' end
 * BUDGET    256 threads; smem: the ring, sums of the columns of 8 warps
 * MEASURED  H200, 16384 tokens of 2048 columns: 20 us; with 8 loads a thread in flight instead of 4: 26
 *           (docs/log/attention-fp8.md)
 * REF       Zhang et al. 2024 (SageAttention2: V without its mean)
 */
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of x: bf16 or f16"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  COLUMNS = 64, /* of a cluster */
  WARPS = 8,
  THREADS = 32 * WARPS,
  LANES = COLUMNS / 8,    /* of a token */
  ROWS = THREADS / LANES, /* tokens of a block at a time */
  AT_ONCE = 4,
  STAGE_BYTES = 16 * THREADS,
  OFF_SUMS = AT_ONCE * STAGE_BYTES,
  SMEM_BYTES = OFF_SUMS + WARPS * COLUMNS * 4
};
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define TO_F32 GA_CAT(elem_f32_of_, GA_P_DTYPE)

typedef const ga_kargs_attn_quant *args;

/* 8 columns of one token, or zeros. */
GA_DEV void fetch_tokens(args a, const uint16_t *x, int token, uint32_t stage) {
  cp_async_16(stage, x + token * a->x_token, token < a->tokens ? 16 : 0);
  cp_async_commit();
}
GA_DEV void add_stage(uint32_t stage, float *sum) {
  uint32_t w[4];
  lds_u4(w, stage);
  GA_UNROLL for (int i = 0; i < 8; i++) sum[i] += TO_F32((uint16_t)(w[i / 2] >> 16 * (i & 1)));
}
GA_DEV void add_tokens(args a, const uint16_t *x, uint32_t ring, float *sum) {
  const int step = ROWS * a->parts;
  int load_pos = ROWS * (int)cluster_rank() + thread_index() / LANES;
  GA_UNROLL for (int i = 0; i < AT_ONCE; i++, load_pos += step)
      fetch_tokens(a, x, load_pos, ring + (uint32_t)(i * STAGE_BYTES));
  GA_ROLL for (int token = 0; token < a->tokens; token += AT_ONCE * step)
      GA_UNROLL for (int i = 0; i < AT_ONCE; i++, load_pos += step) {
    cp_async_wait(AT_ONCE - 1);
    add_stage(ring + (uint32_t)(i * STAGE_BYTES), sum);
    fetch_tokens(a, x, load_pos, ring + (uint32_t)(i * STAGE_BYTES));
  }
  cp_async_wait_all();
}
/* The warps' sums are added in place, in the first's. */
GA_DEV void add_warp_sums(uint32_t sums, float *sum) {
  const int lane = thread_index() & 31, warp = thread_index() >> 5;
  GA_UNROLL for (int i = 0; i < 8; i++) GA_UNROLL for (int k = LANES; k < 32; k *= 2) sum[i] += shfl_xor_f32(sum[i], k);
  if (lane < LANES) GA_UNROLL
    for (int i = 0; i < 8; i += 4) sts_f4(sums + 4 * (uint32_t)(warp * COLUMNS + 8 * lane + i), sum + i);
  block_sync();
  const uint32_t at = sums + 4 * (uint32_t)thread_index();
  if (thread_index() >= COLUMNS) return;
  float all = 0.f;
  GA_UNROLL for (int w = 0; w < WARPS; w++) all += lds_f1(at + 4 * w * COLUMNS);
  sts_f1(at, all);
}
/* Four columns of all blocks. */
GA_DEV void add_blocks(args a, uint32_t at, float *mean) {
  float all[4] = {};
  GA_ROLL for (int part = 0; part < a->parts; part++) {
    const ga_i4 v = lds_cluster_i4(cluster_address(at, (uint32_t)part));
    all[0] += float_of(v.x), all[1] += float_of(v.y), all[2] += float_of(v.z), all[3] += float_of(v.w);
  }
  GA_UNROLL for (int i = 0; i < 4; i++) stg_f32(mean + i, all[i] / (float)a->tokens);
}

GA_KERNEL(THREADS, 4) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_quant k) {
  args a = &k;
  const uint32_t ring = smem_base() + 16 * (uint32_t)thread_index(), sums = smem_base() + OFF_SUMS;
  const int unit = block_index() / a->parts, pair = unit / a->units_per_head,
            column = (unit - pair * a->units_per_head) * COLUMNS;
  const uint16_t *x = (const uint16_t *)a->x + pair / a->heads * a->x_batch + pair % a->heads * a->x_head + column +
                      8 * (thread_index() % LANES);
  float sum[8] = {};
  grid_dependency_wait();
  grid_launch_dependents();
  add_tokens(a, x, ring, sum);
  add_warp_sums(sums, sum);
  cluster_sync();
  if (cluster_rank() == 0 && thread_index() < COLUMNS / 4)
    add_blocks(a, sums + 16 * (uint32_t)thread_index(),
               a->mean + (int64_t)pair * (a->units_per_head * COLUMNS) + column + 4 * thread_index());
  cluster_sync();
}
