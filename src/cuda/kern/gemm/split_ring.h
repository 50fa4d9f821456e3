/* The common kernel of products of few rows of X with packed weights (gemm_split_int8_sm90a.cu,
 * gemm_split_bf16_sm90a.cu). The type of its products is a parameter. */
#pragma once
#include "cuda/kern/gemm/split_asker.h"
#include "cuda/kern/gemm/split_int8_mma.h"
#include "cuda/kern/gemm/split_int8_reduce.h"

/* Offsets in shared memory, in bytes. The first areas are squares of X by warp, squares that a cluster's blocks send,
 * and the mbarrier that counts them. Then come the block's share, rings, X and the data after it.
 *
 * The share is in shared memory so that it takes no registers during the products. */
enum { MET_AT = 4 * WARPS, BAR_AT = MET_AT + 4 * MOST_ROWS * GA_SPLIT_INT8_MAX_CLUSTER, SHARE_AT = BAR_AT + 16 };
static_assert(SHARE_AT + sizeof(share) <= GA_RING_CONTROL, "what the host counts with");

GA_DEV bool is_last_split(const ga_kargs_gemm *a, const share *sh) {
  block_sync();
  if (thread_index() == 0) {
    fence_device(); /* publishes the block's writes, which the barrier made visible to this thread */
    const bool last = atomic_add_i32(a->counter + sh->group, 1) == a->splits - 1;
    if (last) stg_i32(a->counter + sh->group, 0);
    fence_device();
    sts_f1(sh->parts, last ? 1.0f : 0.0f); /* sh->parts is free: its sums have been read */
  }
  block_sync();
  return lds_f1(sh->parts) != 0;
}

/* Initialises the mbarriers of stages `from` to `to` - 1 of a warp's ring, before any copy to them is issued. */
GA_DEV void init_stages(const asker *s, int from, int to) {
  GA_ROLL for (int d = from; d < to; d++) mbar_init(s->ring - BARS_BYTES + (uint32_t)(d * 8), 1);
  mbar_init_fence();
}

/* Fills the rings, converts X and multiplies all items of the block. Afterwards the warps' sums of each tile are in
 * shared memory. */
GA_DEV void take_share(const ga_kargs_gemm_split_int8 *ring) {
  const int lane = thread_index() % 32, warp = warp_uniform(thread_index() / 32);
  const uint32_t control = smem_base(), smem = control + GA_RING_CONTROL;
  const share sh = share_of(ring, block_index(), smem + (uint32_t)(WARPS * RING_BYTES(ring->depth)));
  const int first = first_item(&sh, warp), items = first_item(&sh, warp + 1) - first, tile = first / sh.ni,
            at = first - tile * sh.ni;
  const int number = tile_index(ring, sh.tile, tile);
  asker next = {x_unit_at(ring, number, sh.k0 + PER * at),
                at,
                smem + (uint32_t)(warp * RING_BYTES(ring->depth)) + BARS_BYTES,
                ring,
                sh.nb,
                sh.ni,
                items};
  if (lane == 0) init_stages(&next, 0, ring->early);
  warp_sync();
  ask_first(&next, 0, ring->early);
  if (lane == 0) {
    init_stages(&next, ring->early, ring->depth);
    if (warp == 0) put_words(control + SHARE_AT, &sh, sizeof sh);
  }
  warp_sync();
  prefetch_norm(ring);
  fill_table(ring, &sh);
  grid_dependency_wait(); /* all data except weights depends on the previous kernel */
  const ga_kargs_gemm *a = &ring->gemm;
  const bool whole =
      a->k % UNIT_K == 0 && ((uint64_t)a->x | (uint64_t)a->x_stride * 4 | (uint64_t)ring->norm) % 16 == 0;
  const int rows = GA_P_ROWS == 1 ? 1 : sh.rows;
  const float square = GA_P_ROWS == 1 && ring->add ? convert_sum(ring, &sh, &next, warp, lane)
                       : whole                     ? convert_x(true, rows, ring, &sh, &next, warp, lane)
                                                   : convert_x(false, rows, ring, &sh, &next, warp, lane);
  if (ring->norm) {
    const float all = row_sum_warp(square);
    if (lane == 0) sts_f1(control + 4 * (uint32_t)warp, all);
  }
  block_sync();
  if (GA_P_ROWS > 1 && blocks_meet(&ring->gemm)) cluster_reduce_begin(ring, &sh, control + MET_AT, control + BAR_AT);
  if (GA_P_ROWS == 1)
    take_items(1, ring, &sh, &next, warp, lane, items, at);
  else if (sh.rows == 2)
    take_items(2, ring, &sh, &next, warp, lane, items, at);
  else if (sh.rows == 4)
    take_items(4, ring, &sh, &next, warp, lane, items, at);
  else
    take_items(8, ring, &sh, &next, warp, lane, items, at);
}

/* Returns the norm's factor for row `col` of X, from the warps' sums of squares at shared address `squares`. */
GA_DEV float factor_of(const ga_kargs_gemm_split_int8 *ring, const share *sh, uint32_t squares, int col) {
  float sum = 0;
  if (!ring->norm) return 1;
  for (int w = col; w < WARPS; w += sh->rows) sum += lds_f1(squares + 4 * (uint32_t)w);
  return norm_factor(ring, sum);
}

/* Writes all elements of Y of the block. If other blocks have other parts of k, the last of them adds the parts in
 * global memory. */
GA_DEV void finish_all(const ga_kargs_gemm_split_int8 *ring, const share *sh, uint32_t squares) {
  const ga_kargs_gemm *a = &ring->gemm;
  const int rows = sh->tiles * GA_PACKED_ROWS;
  const int64_t padded = (int64_t)a->tiles * GA_PACKED_ROWS, row0 = (int64_t)sh->tile * GA_PACKED_ROWS;
  for (int i = thread_index(); i < rows * (int)a->m; i += GA_P_THREADS) {
    const int col = a->m == 1 ? 0 : i / rows, row = i - col * rows;
    if (a->splits == 1)
      finish_output(ring, sh, factor_of(ring, sh, squares, col), row, col);
    else
      stg_f32(a->partial + ((int64_t)sh->part * MOST_ROWS + col) * padded + row0 + row,
              add_splits_of(a->slots, sh, row / GA_PACKED_ROWS, row % GA_PACKED_ROWS, col));
  }
  if (a->splits == 1 || !is_last_split(a, sh)) return;
  for (int i = thread_index(); i < rows * (int)a->m; i += GA_P_THREADS) {
    const int col = a->m == 1 ? 0 : i / rows, row = i - col * rows;
    float sum = 0;
    for (int p = 0; p < a->splits; p++)
      sum += ldg_f32(a->partial + ((int64_t)p * MOST_ROWS + col) * padded + row0 + row);
    if (row0 + row < a->n) gemm_finish(a, col, row0 + row, sum);
  }
}

GA_DEV void split_ring(const ga_kargs_gemm_split_int8 *args) {
  grid_launch_dependents();
  take_share(args);
  block_sync();
  const uint32_t squares = smem_base();
  const share sh = get_share(squares + SHARE_AT);
  if (GA_P_ROWS > 1 && blocks_meet(&args->gemm))
    cluster_reduce_end(args, &sh, squares, squares + MET_AT, squares + BAR_AT);
  else
    finish_all(args, &sh, squares);
}
