/* The warpgroup of mla_decode_sm90a.cu that has scores and weights, with Q in registers. A lane has rows g and g + 8 of
 * its warp's 16. */
#pragma once
#include "cuda/dev/ptx/barrier_test.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/mla/mla_decode_shape.h"

#define SCORE        GA_CAT3(wgmma_m64n64k16_, GA_P_KV, _rs)
#define SCORE_SHARED GA_CAT3(wgmma_m64n64k16_, GA_P_KV, _ss)
#define PACK         GA_CAT(pack_, GA_P_KV)
#define TILE_PACK    GA_CAT(tile_pack_, GA_P_KV)

/* Returns the address of Q of row r of the tile, or NULL if there is no such row. */
GA_DEV const char *query_row(args a, const mla_unit *u, int r, int bytes) {
  const int64_t token = u->q_first + mla_query_of(&a->m, u, r);
  return mla_has_row(&a->m, u, r)
             ? (const char *)a->m.q + (token * a->m.q_token + (int64_t)mla_head_of(&a->m, u, r) * HEAD) * bytes
             : 0;
}

/* Loads 8 elements of any type as elements of the cache's type. */
GA_DEV void load_converted(uint32_t *r, const char *p, int dtype) {
  float x[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  if (p && dtype == T_F32) {
    elem_get16_f32(x, p, 0);
    elem_get16_f32(x + 4, p, 4);
  } else if (p && dtype == T_F16) {
    elem_get16_f16(x, p, 0);
  } else if (p) {
    elem_get16_bf16(x, p, 0);
  }
  GA_UNROLL for (int i = 0; i < 4; i++) r[i] = PACK(x[2 * i], x[2 * i + 1]);
}

/* Loads columns 32 i to 32 i + 31 of this lane's two rows as fragments of operand A, 4 registers for every 16 columns.
 * `flip` is added to the bits: a sign, or 0. */
GA_DEV void order_queries(uint32_t *q, uint32_t flip) {
  const int c = thread_index() % 4;
  uint32_t raw[2][4];
  GA_UNROLL for (int e = 0; e < 8; e++) raw[e / 4][e % 4] = q[e] ^ flip;
  quad_transpose(raw[0], c);
  quad_transpose(raw[1], c);
  GA_UNROLL for (int e = 0; e < 8; e++) q[e] = raw[e % 2][e / 2];
}
GA_DEV void load_query_chunk(const char *const *at, int i, int dtype, uint32_t *q) {
  const int c = thread_index() % 4, bytes = dtype == T_F32 ? 4 : 2;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    if (dtype == KV_TYPE) {
      GA_UNROLL for (int e = 0; e < 4; e++) q[4 * h + e] = 0;
      if (at[h]) ldg_stream_u4(q + 4 * h, at[h] + 64 * i + 16 * c);
    } else {
      load_converted(q + 4 * h, at[h] ? at[h] + (32 * i + 8 * c) * bytes : 0, dtype);
    }
  }
}

/* Addresses and the descriptor of the tile at OFF_LAST, with the 32-byte swizzle. */
GA_DEV uint32_t last_chunk(uint32_t sb, uint32_t row, uint32_t chunk) {
  return sb + OFF_LAST + row * 32 + ((chunk ^ (row >> 2 & 1)) << 4);
}
GA_DEV uint64_t last_desc(uint32_t sb) {
  return (uint64_t)(in_block(sb + OFF_LAST) >> 4 | 1u << 16) | (uint64_t)(3u << 30 | 256 >> 4) << 32;
}

/* Loads the columns of Q that go to shared memory. Returns those of the chunk before that stay in registers, in q. */
GA_DEV void load_shared_queries(const char *const *at, uint32_t sb, int dtype, uint32_t flip, uint32_t *q) {
  const int lane = thread_index() % 32, row = thread_index() % 128 / 32 * 16;
  uint32_t rotated[16], last[8];
  GA_UNROLL for (int i = 0; i < 2; i++) load_query_chunk(at, V_STEPS / 2 + i, dtype, rotated + 8 * i);
  load_query_chunk(at, V_STEPS / 2 - 1, dtype, last);
  GA_UNROLL for (int i = 0; i < 2; i++) order_queries(rotated + 8 * i, flip);
  order_queries(last, flip);
  tile_store(sb + OFF_Q, PANEL, row, rotated, PANEL_COLS, lane);
  stmatrix_x4(last_chunk(sb, (uint32_t)(row + lane % 16), (uint32_t)(lane / 16)), last[4], last[5], last[6], last[7]);
  GA_UNROLL for (int e = 0; e < 4; e++) q[e] = last[e];
}

/* Loads Q: 496 columns to registers, the others to shared memory. */
GA_DEV void load_absorbed(args a, uint32_t sb, const mla_unit *u, uint32_t *q) {
  const int row = thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4, dtype = a->m.q_dtype,
            bytes = dtype == T_F32 ? 4 : 2;
  const char *const at[2] = {query_row(a, u, row, bytes), query_row(a, u, row + 8, bytes)};
  const uint32_t flip = a->m.scale < 0 ? 0x80008000u : 0;
  if (dtype == KV_TYPE) {
    GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) load_query_chunk(at, i, KV_TYPE, q + 8 * i);
    load_shared_queries(at, sb, KV_TYPE, flip, q + 4 * (REG_STEPS - 1));
  } else {
    GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) {
      load_query_chunk(at, i, dtype, q + 8 * i);
      if (i % LOADS == LOADS - 1) pin_u32(q + 8 * (i + 1 - LOADS), 8 * LOADS); /* more at once would take registers */
    }
    load_shared_queries(at, sb, dtype, flip, q + 4 * (REG_STEPS - 1));
  }
  fence_async_smem();
  GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) order_queries(q + 8 * i, flip);
  bar_sync(1, 128);
}

/* Starts the products that are the scores of block i. */
GA_DEV void begin_scores(uint32_t sb, int i, const uint32_t *q, float *x) {
  const uint32_t k = desc_k_major(in_block(ring_at(sb, i))), rotated = desc_k_major(in_block(sb + OFF_Q));
  wait_block(sb, i, BAR_V);
  wait_block(sb, i, BAR_V + 8);
  wait_block(sb, i, BAR_R);
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < REG_STEPS; j++)
      SCORE(x, q + 4 * j, desc(k + (uint32_t)(j / 4 * (PANEL / 16) + j % 4 * 2)), j > 0);
  SCORE_SHARED(x, last_desc(sb), desc(k + (uint32_t)(REG_STEPS / 4 * (PANEL / 16) + REG_STEPS % 4 * 2)), 1);
  GA_UNROLL for (int j = 0; j < PANEL_COLS / 16; j++)
      SCORE_SHARED(x, desc(rotated + (uint32_t)(2 * j)), desc(k + (uint32_t)(ROTATED / 16 + 2 * j)), 1);
  wgmma_commit();
}
GA_DEV void end_scores(float *x) {
  wgmma_wait(0);
  pin_f32(x, KEYS / 2);
}

/* Clears V of tokens [from, end) of a block, or only what is not finite there. Returns whether something was not. A
 * thread has 8 elements of every other token. */
GA_DEV bool clear_values(uint32_t stage, int from, int end, bool all) {
  const uint32_t thread = own_thread(), v = stage + thread % 64 / 8 * PANEL + thread % 8 * 16;
  bool found = false;
  GA_ROLL for (int r = from + (int)(thread / 64); r < end; r += 2) {
    const uint32_t at = v + (uint32_t)(r * PANEL_ROW_BYTES);
    uint32_t x[4];
    if (!all) {
      lds_u4(x, at);
      GA_UNROLL for (int e = 0; e < 4; e++) {
        const uint32_t keep = (is_finite(x[e]) ? 0xffffu : 0u) | (is_finite(x[e] >> 16) ? 0xffff0000u : 0u);
        found = found || keep != ~0u;
        x[e] &= keep;
      }
    }
    sts_i4(at, all ? 0 : (int)x[0], all ? 0 : (int)x[1], all ? 0 : (int)x[2], all ? 0 : (int)x[3]);
  }
  return found;
}

/* Hides tokens from rows that do not see them: their scores become -infinity. V of tokens that no row sees becomes
 * zero. Of tokens that some rows see only, elements of V that are not finite become zero: spread_values brings them to
 * these rows. */
GA_DEV void cut_block(args a, uint32_t sb, const work *w, int i, float *x) {
  const int row = (int)row_of(own_thread()), before = w->first + i * KEYS, end = w->u.to - before;
  const int some = end < KEYS ? end : KEYS, first = w->all - before, from = first > 0 ? first : 0;
  tile_mask_above(x, KEYS, mla_seen_by(&a->m, &w->u, row) - before - 1, mla_seen_by(&a->m, &w->u, row + 8) - before - 1,
                  (int)(own_thread() % 4 * 2));
  bar_sync(1, 128);
  if (clear_values(ring_at(sb, i), from, some, false)) sts_u1(sb + OFF_FLAG, 1);
  (void)clear_values(ring_at(sb, i), some, KEYS, true);
}

/* Updates the maxima of both rows, in log2 units, by scores times `scale`, which is positive. Returns the number to
 * subtract from logits in ref; factor becomes that of earlier weights. */
GA_DEV void raise_maxima(const float *x, float scale, float *m, float *ref, float *factor) {
  float top[2];
  tile_row_max(x, KEYS, top);
  GA_UNROLL for (int h = 0; h < 2; h++) {
    top[h] = fmaxf(m[h], elem_mul(top[h], scale));
    ref[h] = top[h] == GA_NEG_INF ? 0.0f : top[h]; /* 2^(-inf - 0) = 0 */
    factor[h] = ex2(m[h] - ref[h]);
    m[h] = top[h];
  }
}

/* Replaces scores by weights, 16 columns at a time, and stores these in the place of the block's rotated parts, once
 * all warps have multiplied them. l: this lane's sums of weights. The largest weight is 1 exactly: products are rounded
 * as the maximum is. */
GA_DEV void store_weights(uint32_t sb, int i, float *x, float scale, const float *ref, float *l) {
  const uint32_t thread = own_thread(), row = thread / 32 * 16 + thread % 16;
  const uint32_t at = panel_chunk(ring_at(sb, i) + ROTATED, row, thread % 32 / 16);
  bar_sync(1, 128);
  GA_UNROLL for (int k = 0; k < KEYS / 16; k++) {
    uint32_t r[4];
    GA_UNROLL for (int e = 0; e < 8; e++) {
      x[8 * k + e] = ex2(elem_mul(x[8 * k + e], scale) - ref[e / 2 % 2]);
      l[e / 2 % 2] += x[8 * k + e];
    }
    TILE_PACK(x + 8 * k, 16, r);
    stmatrix_x4(at ^ (uint32_t)(32 * k), r[0], r[1], r[2], r[3]); /* chunk 2 k of the row, or 2 k + 1 */
  }
}

/* Makes weights of block i from scores, and announces the factors of earlier weights. */
GA_DEV void weigh_block(args a, uint32_t sb, const work *w, int i, float *x, float *m, float *l) {
  float ref[2], factor[2];
  if (w->all - w->first - i * KEYS < KEYS) cut_block(a, sb, w, i, x);
  raise_maxima(x, a->scale, m, ref, factor);
  const uint32_t thread = own_thread(), to = factors_at(sb, i) + row_of(thread) * 4;
  if (thread % 4 == 0) {
    sts_f1(to, factor[0]);
    sts_f1(to + 32, factor[1]);
  }
  warp_sync();
  if (thread % 32 == 0) mbar_arrive(bar_at(sb, i, BAR_FACTORS));
  GA_UNROLL for (int h = 0; h < 2; h++) l[h] *= factor[h];
  store_weights(sb, i, x, a->scale, ref, l);
}

/* Returns whether block i is in shared memory. */
GA_DEV bool has_block(uint32_t sb, int i) {
  const uint32_t parity = ring_full_parity((uint32_t)i, STAGES);
  return warp_all(mbar_test(bar_at(sb, i, BAR_V), parity) && mbar_test(bar_at(sb, i, BAR_V + 8), parity) &&
                  mbar_test(bar_at(sb, i, BAR_R), parity));
}

/* Announces the weights of block i. */
GA_DEV void give_weights(uint32_t sb, int i) {
  fence_async_smem();
  warp_sync();
  if (own_thread() % 32 == 0) mbar_arrive(bar_at(sb, i, BAR_P));
}

GA_DEV void weigh_blocks(args a, uint32_t sb, const work *w) {
  uint32_t q[REG_STEPS * 4];
  float x[KEYS / 2], m[2] = {GA_NEG_INF, GA_NEG_INF}, l[2] = {0, 0};
  if (w->n > 0) {
    load_absorbed(a, sb, &w->u, q);
    begin_scores(sb, 0, q, x);
    GA_ROLL for (int i = 0; i + 1 < w->n; i++) {
      end_scores(x);
      weigh_block(a, sb, w, i, x, m, l);
      const bool early = !has_block(sb, i + 1); /* the products of block i need not wait for block i + 1 */
      if (early) give_weights(sb, i);
      begin_scores(sb, i + 1, q, x);
      if (!early) give_weights(sb, i);
    }
    end_scores(x);
    weigh_block(a, sb, w, w->n - 1, x, m, l);
    give_weights(sb, w->n - 1);
  }
  GA_UNROLL for (int h = 0; h < 2; h++) l[h] = quad_sum(l[h]);
  const uint32_t thread = own_thread(), to = sb + OFF_ML + row_of(thread) * ML_BYTES;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const float own[4] = {m[h], l[h], 0, 0};
    if (thread % 4 == 0) sts_f4(to + (uint32_t)(8 * h * ML_BYTES), own);
  }
}
