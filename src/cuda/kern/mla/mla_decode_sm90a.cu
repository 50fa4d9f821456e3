/* KERNEL    mla_decode, sm90a: absorbed latent attention over pages of 16-bit rows of 512 + 64 elements, on wgmma
 * COMPUTES  O = softmax(scale Q C^T) V, V the first 512 elements of a row of C; log-sum-exp of each row
 * CONTRACT  head_dim 576, v_dim 512; C f16 or bf16; Q and O f32, f16, bf16, with tokens at multiples of 16 bytes; pages of
 *           8, 16, 32 or a multiple of 64 tokens. Q and weights are rounded to the type of C; sums in f32. Lengths are
 *           read on the device. Tokens reach no row that does not see them: weights are zero, and so are elements of V
 *           that are not finite, if another row of the tile sees them; these are added to that row in the end
 * WORK      a unit is 64 packed rows of a sequence. Its `splits` blocks (1, 2, 4, 8) form a cluster and share the keys, in blocks
 *           of 64. Warpgroups 0 and 1 have 256 columns of O each and copy their halves of V; the first one copies the
 *           rotated parts, too. Warpgroup 2 has scores and weights, with Q in registers. While the weights of block
 *           i + 1 are computed, block i is multiplied
 * DATA      C: boxes of a page's rows by 256 columns of V, twice, and by the 64 rotated ones, into rings. P: registers,
 *           shared memory, operand A of both halves of O
 * SOFTMAX   running maximum; O is multiplied by the rows' factors where one of the warp's 16 is not 1
 * MERGE     in clusters: blocks put O, maxima and sums into their shared memory, and each adds the share of columns
 *           that it writes, in the order of the splits
 * BARRIERS  name        arrivals    waiter            orders
 *           v_full[s]   1+tx each   scores, values    TMA write of half of V -> wgmma reads
 *           r_full[t]   1+tx        scores            TMA write of rotated parts -> wgmma read
 *           p_full[t]   1/warp: 4   values            writes of P, of factors, and zeros in V -> reads; wgmma read of
 *                                                     rotated parts -> next TMA write
 *           p_empty[t]  1/wg: 2     scores            reads of P and factors -> next writes
 *           turn[t]     1           values            scores of block i + 1 are done -> products of block i, so that
 *                                                     the tensor cores do not share out their time
 *           block       384         values            maxima and sums -> reads; last reads of V -> O over them
 *           named 1     128         scores            last wgmma reads of K -> zeros in V
 *           cluster     all         all               O of all blocks -> their sum; the sum -> the end of blocks
 * BUDGET    what       how much
 *           threads    384
 *           registers  of values 152, of scores 200
 *           blocks     1 per multiprocessor
 *           smem       OFF_*: three stages of V, two of rotated parts, two of P, factors, maxima and sums, barriers
 */
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma_t.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/kern/mla/mla_decode_args.h"
#include "cuda/kern/mla/mla_packed.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_KV
#error "GA_P_KV: type of the cache: bf16 or f16"
#endif
#ifndef GA_P_KV_TYPE
#error "GA_P_KV_TYPE: the same in capitals"
#endif
#ifndef GA_P_TURNS
#error "GA_P_TURNS: 1: products of a block wait for the scores of the next one; 0: they do not"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

enum {
  HEAD = 576,
  VALUES = 512,
  ROWS = 64,
  KEYS = 64,
  STAGES = 3,
  HALF_COLS = 256, /* of O and V, of a warpgroup */
  V_STEPS = VALUES / 16,
  REG_STEPS = V_STEPS - 1, /* of Q in registers: one more does not fit */
  LANES = 384,
  PANEL = KEYS * PANEL_ROW_BYTES,
  HALF = HALF_COLS / PANEL_COLS * PANEL,
  ROTATED = 2 * HALF, /* of a stage, with both halves of V: the rotated parts, and later P */
  STAGE = ROTATED + PANEL,
  MOST_CLUSTER = 8,
  LOADS = 5,               /* chunks of 32 columns of f32 queries under way */
  GROUPS = HALF_COLS / 32, /* of 32 columns, of a warpgroup */
  GROUP_BYTES = 4 * 512,   /* of a warp */
  ML_BYTES = 16,           /* of a row: its maximum and sum, and room to load 16 bytes */
  BAR_V = 0,               /* two: halves of V are there */
  BAR_R = 16,              /* rotated parts are there */
  BAR_P = 24,              /* P is there */
  BAR_FREE = 32,           /* P is read */
  BAR_TURN = 40,           /* scores are done */
  BARS = 48,
  KV_TYPE = GA_CAT(T_, GA_P_KV_TYPE),
  OFF_Q = STAGES * STAGE,   /* the rotated part of Q */
  OFF_ML = OFF_Q,           /* after the last product with Q */
  OFF_LAST = OFF_Q + PANEL, /* the last 16 columns of Q's latent part, rows of 32 bytes */
  OFF_F = OFF_LAST + ROWS * 32,
  OFF_BAR = OFF_F + STAGES * ROWS * 4, /* of each stage: BAR_* */
  OFF_FLAG = OFF_BAR + STAGES * BARS   /* not 0: cut_block has found elements that are not finite */
};
static_assert(OFF_FLAG + 16 == GA_P_SMEM, "the row's shared memory");
static_assert(LANES / 32 * GROUPS * GROUP_BYTES <= OFF_Q, "O over the stages of V");
#define SCORE        GA_CAT3(wgmma_m64n64k16_, GA_P_KV, _rs)
#define SCORE_SHARED GA_CAT3(wgmma_m64n64k16_, GA_P_KV, _ss)
#define VALUE        GA_CAT3(wgmma_m64n256k16_, GA_P_KV, _sst)
#define PACK         GA_CAT(pack_, GA_P_KV)
#define TILE_PACK    GA_CAT(tile_pack_, GA_P_KV)

typedef const ga_kargs_mla_decode *args;

/* Returns whether the low 16 bits are a finite number of the cache's type. */
GA_DEV bool is_finite(uint32_t x) {
  const uint32_t exponent = KV_TYPE == (int)T_F16 ? 0x7c00 : 0x7f80;
  return (x & exponent) != exponent;
}
/* Returns the address of a barrier of block i's stage. */
GA_DEV uint32_t bar_at(uint32_t sb, int i, int which) {
  return sb + OFF_BAR + ring_stage((uint32_t)i, STAGES) * BARS + (uint32_t)which;
}
/* Returns the part of an address that descriptors have: in a cluster, the block's rank stands above it. */
GA_DEV uint32_t in_block(uint32_t address) { return address & 0x3ffff; }
GA_DEV uint32_t stage_at(uint32_t sb, int i) { return sb + ring_stage((uint32_t)i, STAGES) * STAGE; }
GA_DEV uint32_t factors_at(uint32_t sb, int i) { return sb + OFF_F + ring_stage((uint32_t)i, STAGES) * (ROWS * 4); }
/* Waits for the phase of a barrier that belongs to block i. */
GA_DEV void wait_for(uint32_t sb, int i, int which) {
  mbar_wait(bar_at(sb, i, which), ring_full_parity((uint32_t)i, STAGES));
}

/* The work of a block: its unit, the first of its tokens, its number of blocks of KEYS tokens. Splits are numbered by
 * cluster, then by rank. clusters: those of the unit that have tokens; parts: blocks of this cluster that have. */
typedef struct {
  mla_unit u;
  int first, n, cluster, rank, clusters, parts;
  int all; /* tokens that all rows of the tile see */
} work;

GA_DEV work own_work(args a) {
  work w;
  const int split = block_index() % a->m.splits;
  w.u = mla_unit_of(&a->m, block_index() / a->m.splits, ROWS);
  const mla_share s = mla_share_of(&a->m, &w.u, split, KEYS);
  w.first = s.first;
  w.all = mla_seen_by(&a->m, &w.u, 0);
  if (w.all > w.u.to) w.all = w.u.to;
  w.n = split < s.parts && s.last > s.first ? (s.last - s.first + KEYS - 1) / KEYS : 0;
  w.cluster = split / a->cluster;
  w.rank = split % a->cluster;
  w.clusters = (s.parts + a->cluster - 1) / a->cluster;
  w.parts = s.parts - w.cluster * a->cluster;
  if (w.parts > a->cluster) w.parts = a->cluster;
  return w;
}

/* --- copies, by the first warp of a warpgroup. Block i is in stage i % STAGES --- */

/* Numbers of 32 pages from entry 32 held on, one in each lane. */
typedef struct {
  int held, page;
} pages;

/* Returns the row of the cache with token `token` of the block's sequence. All lanes of the warp call. Tokens after the
 * last page that is seen have its rows. */
GA_DEV int cache_row(args a, const mla_unit *u, pages *p, int token) {
  const int size = a->m.page_size, want = token / size, end = (u->to - 1) / size, entry = want < end ? want : end;
  if (entry / 32 != p->held) {
    const int own = entry / 32 * 32 + thread_index() % 32;
    p->held = entry / 32;
    p->page = ldg_i32(a->m.page_table + u->b * a->m.page_stride + (own < end ? own : end));
  }
  return (int)shfl_idx_u32((uint32_t)p->page, entry % 32) * size + token % size;
}

GA_DEV uint64_t cache_policy(args a) { return a->m.tiles > 1 ? L2_EVICT_LAST : L2_EVICT_FIRST; }

/* Copies half of V of block i. */
GA_DEV void copy_half(args a, uint32_t sb, const work *w, pages *p, int i, int half) {
  const uint32_t full = bar_at(sb, i, BAR_V + 8 * half), to = stage_at(sb, i) + (uint32_t)(half * HALF);
  if (warp_elect()) mbar_arrive_expect(full, HALF);
  warp_sync();
  GA_ROLL for (int b = 0; b < KEYS; b += a->box_rows) {
    const int row = cache_row(a, &w->u, p, w->first + i * KEYS + b);
    const uint32_t at = to + (uint32_t)(b * PANEL_ROW_BYTES);
    if (warp_elect()) {
      if (a->box_rows == KEYS)
        bulk_load_3d(at, &a->latent, full, 0, row, 4 * half, cache_policy(a));
      else
        GA_ROLL for (int c = 0; c < 4; c++)
            bulk_load_3d(at + (uint32_t)(c * PANEL), &a->rope, full, 0, row, 4 * half + c, cache_policy(a));
    }
    warp_sync();
  }
}

/* Copies the rotated parts of block i. */
GA_DEV void copy_rotated(args a, uint32_t sb, const work *w, pages *p, int i) {
  const uint32_t full = bar_at(sb, i, BAR_R), to = stage_at(sb, i) + ROTATED;
  if (warp_elect()) mbar_arrive_expect(full, PANEL);
  warp_sync();
  GA_ROLL for (int b = 0; b < KEYS; b += a->box_rows) {
    const int row = cache_row(a, &w->u, p, w->first + i * KEYS + b);
    if (warp_elect()) bulk_load_3d(to + (uint32_t)(b * PANEL_ROW_BYTES), &a->rope, full, 0, row, 8, cache_policy(a));
    warp_sync();
  }
}

/* --- scores and weights: a warpgroup. A lane has rows g and g + 8 of its warp's 16 --- */

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
GA_DEV void load_chunk(const char *const *at, int i, int dtype, uint32_t *q) {
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
  GA_UNROLL for (int i = 0; i < 2; i++) load_chunk(at, V_STEPS / 2 + i, dtype, rotated + 8 * i);
  load_chunk(at, V_STEPS / 2 - 1, dtype, last);
  GA_UNROLL for (int i = 0; i < 2; i++) order_queries(rotated + 8 * i, flip);
  order_queries(last, flip);
  tile_store(sb + OFF_Q, PANEL, row, rotated, PANEL_COLS, lane);
  stmatrix_x4(last_chunk(sb, (uint32_t)(row + lane % 16), (uint32_t)(lane / 16)), last[4], last[5], last[6], last[7]);
  GA_UNROLL for (int e = 0; e < 4; e++) q[e] = last[e];
}

/* Loads Q: 496 columns to registers, the others to shared memory. */
GA_DEV void load_queries(args a, uint32_t sb, const mla_unit *u, uint32_t *q) {
  const int row = thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4, dtype = a->m.q_dtype,
            bytes = dtype == T_F32 ? 4 : 2;
  const char *const at[2] = {query_row(a, u, row, bytes), query_row(a, u, row + 8, bytes)};
  const uint32_t flip = a->m.scale < 0 ? 0x80008000u : 0;
  if (dtype == KV_TYPE) {
    GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) load_chunk(at, i, KV_TYPE, q + 8 * i);
    load_shared_queries(at, sb, KV_TYPE, flip, q + 4 * (REG_STEPS - 1));
  } else {
    GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) {
      load_chunk(at, i, dtype, q + 8 * i);
      if (i % LOADS == LOADS - 1) pin_u32(q + 8 * (i + 1 - LOADS), 8 * LOADS); /* more at once would take registers */
    }
    load_shared_queries(at, sb, dtype, flip, q + 4 * (REG_STEPS - 1));
  }
  fence_async_smem();
  GA_UNROLL for (int i = 0; i < REG_STEPS / 2; i++) order_queries(q + 8 * i, flip);
  bar_sync(1, 128);
}

/* Computes the scores of block i. */
GA_DEV void score_block(uint32_t sb, int i, const uint32_t *q, float *x) {
  const uint32_t k = desc_k_major(in_block(stage_at(sb, i))), rotated = desc_k_major(in_block(sb + OFF_Q));
  wait_for(sb, i, BAR_V);
  wait_for(sb, i, BAR_V + 8);
  wait_for(sb, i, BAR_R);
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < REG_STEPS; j++)
      SCORE(x, q + 4 * j, desc(k + (uint32_t)(j / 4 * (PANEL / 16) + j % 4 * 2)), j > 0);
  SCORE_SHARED(x, last_desc(sb), desc(k + (uint32_t)(REG_STEPS / 4 * (PANEL / 16) + REG_STEPS % 4 * 2)), 1);
  GA_UNROLL for (int j = 0; j < PANEL_COLS / 16; j++)
      SCORE_SHARED(x, desc(rotated + (uint32_t)(2 * j)), desc(k + (uint32_t)(ROTATED / 16 + 2 * j)), 1);
  wgmma_commit();
  wgmma_wait(0);
  pin_f32(x, KEYS / 2);
  if (GA_P_TURNS % 2 && thread_index() % 128 == 0) mbar_arrive(bar_at(sb, i, BAR_TURN));
}

/* Thread of a warpgroup, and the first of a lane's two rows. Read again where they are used, for want of registers. */
GA_DEV uint32_t own_thread(void) { return (uint32_t)thread_index_anew() % 128; }
GA_DEV uint32_t row_of(uint32_t thread) { return thread / 32 * 16 + thread % 32 / 4; }

/* Clears V of tokens [from, end) of a block, or only what is not finite there. Returns whether something was not. A thread
 * has 8 elements of every other token. */
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

/* Hides tokens from rows that do not see them: their scores become -infinity. V of tokens that no row sees becomes zero.
 * Of tokens that some rows see only, elements of V that are not finite become zero: spread_values brings them to
 * these rows. */
GA_DEV void cut_block(args a, uint32_t sb, const work *w, int i, float *x) {
  const int row = (int)row_of(own_thread()), before = w->first + i * KEYS, end = w->u.to - before;
  const int some = end < KEYS ? end : KEYS, first = w->all - before, from = first > 0 ? first : 0;
  tile_mask_above(x, KEYS, mla_seen_by(&a->m, &w->u, row) - before - 1, mla_seen_by(&a->m, &w->u, row + 8) - before - 1,
                  (int)(own_thread() % 4 * 2));
  bar_sync(1, 128);
  if (clear_values(stage_at(sb, i), from, some, false)) sts_u1(sb + OFF_FLAG, 1);
  (void)clear_values(stage_at(sb, i), some, KEYS, true);
}

/* Updates the maxima of both rows by logits in log2 units. Returns the number to subtract from logits in ref; factor
 * becomes that of earlier weights. */
GA_DEV void raise_maxima(const float *x, float *m, float *ref, float *factor) {
  float top[2];
  tile_row_max(x, KEYS, top);
  GA_UNROLL for (int h = 0; h < 2; h++) {
    top[h] = fmaxf(m[h], top[h]);
    ref[h] = top[h] == GA_NEG_INF ? 0.0f : top[h]; /* 2^(-inf - 0) = 0 */
    factor[h] = ex2(m[h] - ref[h]);
    m[h] = top[h];
  }
}

/* Replaces logits by weights, 16 columns at a time, and stores these in the place of the block's rotated parts, once all
 * warps have multiplied them. l: this lane's sums of weights. */
GA_DEV void put_weights(uint32_t sb, int i, float *x, const float *ref, float *l) {
  const uint32_t thread = own_thread(), row = thread / 32 * 16 + thread % 16;
  const uint32_t at = panel_chunk(stage_at(sb, i) + ROTATED, row, thread % 32 / 16);
  bar_sync(1, 128);
  GA_UNROLL for (int k = 0; k < KEYS / 16; k++) {
    uint32_t r[4];
    GA_UNROLL for (int e = 0; e < 8; e++) {
      x[8 * k + e] = ex2(x[8 * k + e] - ref[e / 2 % 2]);
      l[e / 2 % 2] += x[8 * k + e];
    }
    TILE_PACK(x + 8 * k, 16, r);
    stmatrix_x4(at ^ (uint32_t)(32 * k), r[0], r[1], r[2], r[3]); /* chunk 2 k of the row, or 2 k + 1 */
  }
}

/* Announces weights and factors of block i. */
GA_DEV void give_weights(uint32_t sb, int i, const float *factor) {
  const uint32_t thread = own_thread(), to = factors_at(sb, i) + row_of(thread) * 4;
  if (thread % 4 == 0) {
    sts_f1(to, factor[0]);
    sts_f1(to + 32, factor[1]);
  }
  fence_async_smem();
  warp_sync();
  if (thread % 32 == 0) mbar_arrive(bar_at(sb, i, BAR_P));
}

GA_DEV void weigh_blocks(args a, uint32_t sb, const work *w) {
  uint32_t q[REG_STEPS * 4];
  float x[KEYS / 2], m[2] = {GA_NEG_INF, GA_NEG_INF}, l[2] = {0, 0}, ref[2], factor[2];
  load_queries(a, sb, &w->u, q);
  GA_ROLL for (int i = 0; i < w->n; i++) {
    score_block(sb, i, q, x);
    GA_UNROLL for (int e = 0; e < KEYS / 2; e++) x[e] *= a->scale;
    if (w->all - w->first - i * KEYS < KEYS) cut_block(a, sb, w, i, x);
    raise_maxima(x, m, ref, factor);
    GA_UNROLL for (int h = 0; h < 2; h++) l[h] *= factor[h];
    put_weights(sb, i, x, ref, l);
    give_weights(sb, i, factor);
  }
  GA_UNROLL for (int h = 0; h < 2; h++) l[h] = quad_sum(l[h]);
  const uint32_t thread = own_thread(), to = sb + OFF_ML + row_of(thread) * ML_BYTES;
  if (thread % 4 == 0) GA_UNROLL
    for (int h = 0; h < 2; h++) sts_f2(to + (uint32_t)(8 * h * ML_BYTES), m[h], l[h]);
}

/* --- values: two warpgroups --- */

/* Adds weights times V of block i to this warpgroup's half of O. */
GA_DEV void add_block(uint32_t sb, int i, bool is_last, int half, float *o) {
  const uint32_t v = desc_n_major(in_block(stage_at(sb, i)) + (uint32_t)(half * HALF), PANEL),
                 weights = desc_k_major(in_block(stage_at(sb, i)) + ROTATED),
                 at = factors_at(sb, i) + (uint32_t)(thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4) * 4;
  wait_for(sb, i, BAR_P);
  const float f[2] = {lds_f1(at), lds_f1(at + 32)};
  if (warp_any(i > 0 && (f[0] != 1.0f || f[1] != 1.0f))) tile_scale_rows(o, HALF_COLS, f);
  wait_for(sb, i, BAR_V + 8 * half);
  if (GA_P_TURNS % 2 && !is_last) wait_for(sb, i + 1, BAR_TURN);
  wgmma_fence();
  GA_UNROLL for (int j = 0; j < KEYS / 16; j++)
      VALUE(o, desc(weights + (uint32_t)(2 * j)), desc(v + (uint32_t)(16 * PANEL_ROW_BYTES / 16 * j)), 1);
  wgmma_commit();
  wgmma_wait(0);
  pin_f32(o, HALF_COLS / 2);
  if (thread_index() % 128 == 0) mbar_arrive(bar_at(sb, i, BAR_FREE));
}

/* Adds weights times V of all blocks to this warpgroup's half of O, and copies what follows into stages that are read. */
GA_DEV void add_blocks(args a, uint32_t sb, const work *w, int half, float *o) {
  const bool copies = warp_uniform(thread_index() / 32) % 4 == 0;
  pages p = {-1, 0};
  if (copies) {
    GA_ROLL for (int i = 0; i < STAGES && i < w->n; i++) {
      copy_half(a, sb, w, &p, i, half);
      if (half == 0) copy_rotated(a, sb, w, &p, i);
    }
  }
  tile_fill(o, HALF_COLS, 0);
  GA_ROLL for (int i = 0; i < w->n; i++) {
    add_block(sb, i, i + 1 == w->n, half, o);
    if (!copies || i + STAGES >= w->n) continue;
    copy_half(a, sb, w, &p, i + STAGES, half);
    if (half == 1) continue;
    wait_for(sb, i, BAR_FREE);
    copy_rotated(a, sb, w, &p, i + STAGES);
  }
}

/* Makes columns of O NaN where a row sees a token whose V is not finite in that column, among tokens that other rows do
 * not see. Such a token's logit is not finite, so that its weight times V is NaN, whatever its sign. */
GA_DEV void spread_values(args a, const work *w, int half, float *o) {
  const int row = thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4, own = w->first + w->n * KEYS,
            end = own < w->u.to ? own : w->u.to,
            seen[2] = {mla_seen_by(&a->m, &w->u, row), mla_seen_by(&a->m, &w->u, row + 8)};
  const float none = __uint_as_float(0x7fc00000u);
  GA_ROLL for (int t = w->all > w->first ? w->all : w->first; t < end; t++) {
    const uint8_t *v = mla_row_at(&a->m, &w->u, t) + half * HALF_COLS * 2 + thread_index() % 4 * 4;
    GA_UNROLL for (int j = 0; j < HALF_COLS / 8; j++) {
      const uint32_t x = *(const uint32_t *)(v + 16 * j);
      GA_UNROLL for (int e = 0; e < 4; e++) if (t < seen[e / 2] && !is_finite(x >> (e % 2 * 16))) o[4 * j + e] = none;
    }
  }
}

/* Where a lane's two rows of O are. NULL: there is no such row. */
typedef struct {
  char *o[2];
  float *lse[2];
} places;

GA_DEV places places_of(args a, const mla_unit *u, int half) {
  const int lane = thread_index() % 32, dtype = a->m.o_dtype;
  places p;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const int r = thread_index() % 128 / 32 * 16 + lane / 4 + 8 * h, head = mla_head_of(&a->m, u, r);
    const int64_t token = u->q_first + mla_query_of(&a->m, u, r), at = token * a->m.o_token + (int64_t)head * VALUES;
    const bool has = mla_has_row(&a->m, u, r);
    p.o[h] = has ? (char *)a->m.o + (at + half * HALF_COLS) * (dtype == T_F32 ? 4 : 2) : 0;
    p.lse[h] = has && a->m.lse && half == 0 && lane % 4 == 0 ? a->m.lse + head * a->m.lse_stride + token : 0;
  }
  return p;
}

/* Stores the 32 columns of group `group` of row `to`, of which this lane has x[0..7]: columns 8 i + 2 q + e in x[2 i +
 * e]. */
GA_DEV void store_group(args a, char *to, int group, const float *x) {
  const int c = thread_index() % 4;
  uint32_t r[4];
  if (a->m.o_dtype == T_F32) {
    GA_UNROLL for (int i = 0; i < 4; i++) if (to)
        stg_f2((float *)to + 32 * group + 8 * i + 2 * c, x[2 * i], x[2 * i + 1]);
    return;
  }
  const bool is_f16 = a->m.o_dtype == T_F16;
  GA_UNROLL for (int i = 0; i < 4; i++) r[i] =
      is_f16 ? pack_f16(x[2 * i], x[2 * i + 1]) : pack_bf16(x[2 * i], x[2 * i + 1]);
  quad_transpose(r, c);
  if (to) stg_u4(to + 64 * group + 16 * c, r[0], r[1], r[2], r[3]);
}

/* Stores both rows of a group of 32 columns, times the rows' factors. x is in the order of accumulators. */
GA_DEV void store_rows(args a, const places *p, int group, const float *x, const float *factor) {
  GA_UNROLL for (int h = 0; h < 2; h++) {
    float y[8]; /* a row that has seen nothing is zero, whatever its sums hold */
    GA_UNROLL for (int i = 0; i < 8; i++) y[i] = factor[h] == 0.0f ? 0.0f : x[i / 2 * 4 + 2 * h + i % 2] * factor[h];
    store_group(a, p->o[h], group, y);
  }
}

/* Returns 1 / sum, within half an ulp: one token's O is the token's V. 0 for a row that has seen nothing. */
GA_DEV float factor_of(float sum) {
  const float r = rcp(sum);
  return sum == 0.0f ? 0.0f : fmaf(r, fmaf(-sum, r, 1.0f), r);
}

/* Maxima and sums of a lane's two rows. */
typedef struct {
  float m[2], l[2];
} sums;

/* Returns 2^-m of what sums are in units of: 1 for a row that has seen nothing. */
GA_DEV float shrink(float m, float top) { return ex2(m - (top == GA_NEG_INF ? 0.0f : top)); }
GA_DEV void write_lse(const places *p, const sums *s) {
  GA_UNROLL for (int h = 0; h < 2; h++) if (p->lse[h])
      stg_f32(p->lse[h], s->l[h] == 0.0f ? GA_NEG_INF : (s->m[h] + lg2(s->l[h])) * 0.693147181f);
}

/* Loads maxima and sums of this lane's rows from block `rank` of the cluster. */
GA_DEV sums block_sums(uint32_t sb, int rank) {
  const uint32_t at = sb + OFF_ML + (uint32_t)((thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4) * ML_BYTES);
  sums s;
  GA_UNROLL for (int h = 0; h < 2; h++) {
    const ga_i4 x = lds_cluster_i4(cluster_address(at + (uint32_t)(8 * h * ML_BYTES), (uint32_t)rank));
    s.m[h] = __uint_as_float((uint32_t)x.x);
    s.l[h] = __uint_as_float((uint32_t)x.y);
  }
  return s;
}

/* Returns maxima and sums over the blocks of the cluster; weight becomes those of the blocks. */
GA_DEV sums cluster_sums(uint32_t sb, int parts, float (*weight)[2]) {
  sums all = {{GA_NEG_INF, GA_NEG_INF}, {0, 0}}, s[MOST_CLUSTER];
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) {
    if (r >= parts) continue;
    s[r] = block_sums(sb, r);
    GA_UNROLL for (int h = 0; h < 2; h++) all.m[h] = fmaxf(all.m[h], s[r].m[h]);
  }
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) GA_UNROLL for (int h = 0; h < 2; h++) {
    weight[r][h] = r < parts ? shrink(s[r].m[h], all.m[h]) : 0.0f;
    if (r < parts) all.l[h] = fmaf(weight[r][h], s[r].l[h], all.l[h]);
  }
  return all;
}

/* Returns the address of this lane's 16 bytes of the i-th 8 columns of group `group`. */
GA_DEV uint32_t shared_o(uint32_t sb, int group, int i) {
  return sb + (uint32_t)(((thread_index() / 32) * GROUPS + group) * GROUP_BYTES + 512 * i + thread_index() % 32 * 16);
}
GA_DEV void put_shared_o(uint32_t sb, const float *o) {
  GA_UNROLL for (int j = 0; j < HALF_COLS / 8; j++) sts_f4(shared_o(sb, j / 4, j % 4), o + 4 * j);
}

/* Adds weight[0] times the elements of row g, weight[1] times those of row g + 8. */
GA_DEV void add_weighted(float *x, const float *y, const float *weight) {
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = fmaf(weight[e / 2], y[e], x[e]);
}

/* Adds up the O of the cluster's blocks for the columns of group `group`. */
GA_DEV void cluster_group(uint32_t sb, int parts, int group, float (*weight)[2], float *x) {
  GA_UNROLL for (int e = 0; e < 16; e++) x[e] = 0;
  GA_UNROLL for (int r = 0; r < MOST_CLUSTER; r++) {
    if (r >= parts) continue;
    ga_i4 y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) y[i] = lds_cluster_i4(cluster_address(shared_o(sb, group, i), (uint32_t)r));
    GA_UNROLL for (int i = 0; i < 4; i++) {
      const float z[4] = {__uint_as_float((uint32_t)y[i].x), __uint_as_float((uint32_t)y[i].y),
                          __uint_as_float((uint32_t)y[i].z), __uint_as_float((uint32_t)y[i].w)};
      add_weighted(x + 4 * i, z, weight[r]);
    }
  }
}

/* Returns the address of the lane's sums in the partial results of cluster `cluster` for the columns of block `rank`. 16
 * bytes of each group's i-th 8 columns follow, those of all lanes together. */
GA_DEV float *partial_of(args a, const work *w, int cluster, int half) {
  const int64_t clusters = a->m.splits / a->cluster,
                at = (block_index() / a->m.splits * clusters + cluster) * a->cluster + w->rank;
  return a->m.partial + (at * (1 + 4 * (GROUPS / a->cluster)) * 256 + half * 128 + thread_index() % 128) * 4;
}

/* Returns true in all lanes of the values' warpgroups of the last of the unit's clusters to come here with columns of
 * block `rank`: it sees the partial results of all. */
GA_DEV bool is_last_cluster(args a, uint32_t sb, const work *w, int half) {
  int32_t *count = a->m.counter + block_index() / a->m.splits * a->cluster + w->rank;
  bar_sync(2, 256);
  if (half == 0 && thread_index() % 128 == 0) {
    fence_device();
    const int before = atomic_add_i32(count, 1);
    if (before == w->clusters - 1) stg_i32(count, 0);
    fence_device();
    sts_u1(sb + OFF_F, before == w->clusters - 1);
  }
  bar_sync(2, 256);
  return float_bits(lds_f1(sb + OFF_F)) != 0;
}

/* Adds up and stores the columns of block `rank` from the partial results of all clusters, in their order. */
GA_DEV void merge_clusters(args a, const work *w, int half, const places *p) {
  sums all = {{GA_NEG_INF, GA_NEG_INF}, {0, 0}};
  float factor[2];
  GA_ROLL for (int c = 0; c < w->clusters; c++) {
    float y[4];
    ldg_f4(y, partial_of(a, w, c, half));
    GA_UNROLL for (int h = 0; h < 2; h++) {
      const float top = fmaxf(all.m[h], y[h]);
      all.l[h] = fmaf(shrink(y[h], top), y[2 + h], all.l[h] * shrink(all.m[h], top));
      all.m[h] = top;
    }
  }
  GA_UNROLL for (int h = 0; h < 2; h++) factor[h] = factor_of(all.l[h]);
  if (w->rank == 0) write_lse(p, &all);
  GA_ROLL for (int i = 0; i < GROUPS / a->cluster; i++) {
    float x[16];
    GA_UNROLL for (int e = 0; e < 16; e++) x[e] = 0;
    _Pragma("unroll 4") for (int c = 0; c < w->clusters; c++) {
      const float *at = partial_of(a, w, c, half);
      float y[5][4];
      ldg_f4(y[4], at);
      GA_UNROLL for (int e = 0; e < 4; e++) ldg_f4(y[e], at + (1 + 4 * i + e) * 1024);
      const float weight[2] = {shrink(y[4][0], all.m[0]), shrink(y[4][1], all.m[1])};
      GA_UNROLL for (int e = 0; e < 4; e++) add_weighted(x + 4 * e, y[e], weight);
    }
    store_rows(a, p, w->rank * (GROUPS / a->cluster) + i, x, factor);
  }
}

/* Merges the blocks of the cluster, each for its share of the columns, and what the unit's clusters have. */
GA_DEV void merge_blocks(args a, uint32_t sb, const work *w, int half, const places *p) {
  float weight[MOST_CLUSTER][2], factor[2];
  const sums all = cluster_sums(sb, w->parts, weight);
  float *const partial = partial_of(a, w, w->cluster, half);
  const float own[4] = {all.m[0], all.m[1], all.l[0], all.l[1]};
  GA_UNROLL for (int h = 0; h < 2; h++) factor[h] = factor_of(all.l[h]);
  if (w->clusters == 1 && w->rank == 0) write_lse(p, &all);
  if (w->clusters > 1) stg_f4(partial, own);
  GA_ROLL for (int i = 0; i < GROUPS / a->cluster; i++) {
    const int group = w->rank * (GROUPS / a->cluster) + i;
    float x[16];
    cluster_group(sb, w->parts, group, weight, x);
    if (w->clusters == 1) {
      store_rows(a, p, group, x, factor);
      continue;
    }
    GA_UNROLL for (int e = 0; e < 4; e++) stg_f4(partial + (1 + 4 * i + e) * 1024, x + 4 * e);
  }
}

/* Writes the unit's results, or this block's share of them. */
GA_DEV void write_results(args a, uint32_t sb, const work *w, int half, const float *o) {
  if (a->m.splits == 1) {
    const places p = places_of(a, &w->u, half);
    const sums s = block_sums(sb, 0);
    const float factor[2] = {factor_of(s.l[0]), factor_of(s.l[1])};
    write_lse(&p, &s);
    GA_UNROLL for (int g = 0; g < GROUPS; g++) store_rows(a, &p, g, o + 16 * g, factor);
    return;
  }
  put_shared_o(sb, o);
  cluster_sync();
  const places p = places_of(a, &w->u, half);
  merge_blocks(a, sb, w, half, &p);
  cluster_sync();
  if (w->clusters > 1 && is_last_cluster(a, sb, w, half)) merge_clusters(a, w, half, &p);
}

/* --- the kernel --- */

GA_DEV void init_barriers(args a, uint32_t sb) {
  tmap_prefetch(&a->latent);
  tmap_prefetch(&a->rope);
  for (int s = 0; s < STAGES; s++) {
    mbar_init(bar_at(sb, s, BAR_V), 1);
    mbar_init(bar_at(sb, s, BAR_V + 8), 1);
    mbar_init(bar_at(sb, s, BAR_R), 1);
    mbar_init(bar_at(sb, s, BAR_P), 4);
    mbar_init(bar_at(sb, s, BAR_FREE), 2);
    mbar_init(bar_at(sb, s, BAR_TURN), 1);
  }
  sts_u1(sb + OFF_FLAG, 0);
  mbar_init_fence();
}

GA_KERNEL(LANES, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_mla_decode a) {
  const uint32_t sb = smem_base();
  const int wg = warp_uniform(thread_index() / 128);
  if (thread_index() == LANES - 1) init_barriers(&a, sb);
  grid_launch_dependents();
  grid_dependency_wait();
  const work w = own_work(&a);
  block_sync();
  if (w.u.n <= 0 || w.parts <= 0) return; /* all blocks of the cluster */
  if (wg != (GA_P_TURNS / 2 ? 0 : 2)) {
    const int half = wg - GA_P_TURNS / 2;
    float o[HALF_COLS / 2];
    setmaxnreg_dec(160);
    add_blocks(&a, sb, &w, half, o);
    block_sync();
    if (float_bits(lds_f1(sb + OFF_FLAG)) != 0) spread_values(&a, &w, half, o);
    write_results(&a, sb, &w, half, o);
    return;
  }
  setmaxnreg_inc(184);
  weigh_blocks(&a, sb, &w);
  block_sync();
  if (a.m.splits > 1) {
    cluster_sync();
    cluster_sync();
  }
}
