/* Attention of few queries (attn_decode_sm90a.cu): constants of a variant, a block's share of the keys, and the state
 * that a warp keeps for its rows. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/kern/attn/attn_packed.h"

#define KV GA_CAT(T_, GA_P_KV)
/* ROWS is the number of packed rows (attn_decode_args.h) of a tile. */
enum { D = GA_P_D, WARPS = GA_P_WARPS, THREADS = 32 * WARPS, STAGES = GA_P_STAGES, ROWS = 8 };
enum {
  KEYS = GA_P_KEYS /* number of keys of a step */,
  TILES = KEYS / 8 /* number of products of 8 keys in a step */,
  MAX_CLUSTER = 16
};
enum {
  BLOCKS = KV == T_Q8_0 || KV == T_Q4_0,
  BLOCK_BYTES = KV == T_Q8_0 ? 34 : 18,
  IS_16BIT = KV == T_F16 || KV == T_BF16
};
/* 1: the products with K (F16_K), or with V (F16_V), are f16 products. 0: they are tf32 products. */
enum { F16_K = KV != T_BF16, F16_V = KV == T_F16 || KV == T_E4M3 };
/* ROW_BYTES is the number of bytes of a row of K or V. PITCH is the distance of rows in shared memory, in bytes. Rows
 * of block types are not swizzled. Their data may begin 8 bytes after the start of the row, because copies of 16 bytes
 * begin at aligned addresses of global memory. */
enum {
  ROW_BYTES = BLOCKS     ? D / 32 * BLOCK_BYTES
              : IS_16BIT ? 2 * D
                         : D,
  PITCH = BLOCKS ? (ROW_BYTES + 16) / 16 * 16 : ROW_BYTES
};
/* A step's data in shared memory: K, V, the scales of K and the scales of V, in this order. The data of a step begins
 * at a multiple of PITCH. */
enum {
  SCALES = KV == T_E4M3,
  SCALE_BYTES = !SCALES                ? 0
                : PITCH < 2 * KEYS * 4 ? 2 * KEYS * 4
                                       : PITCH,
  SCALE_OFF = 2 * KEYS * PITCH
};
enum { CHUNK_BYTES = IS_16BIT ? 64 : 32 /* bytes of 32 columns of a type without blocks */ };
enum {
  Q_STEPS = F16_K ? 2 : 4 /* number of products along the head dimension for 32 columns */,
  Q_BYTES = D / 32 * Q_STEPS * 512
};
enum { STAGE_BYTES = 2 * KEYS * PITCH + SCALE_BYTES, RING_BYTES = WARPS * STAGES * STAGE_BYTES, O_PITCH = D + 4 };
enum { IN_FLIGHT = D > 128 ? 8 : 16 /* number of partial results that are loaded at once */ };
/* SENT_BYTES is the size of the data that the blocks of a cluster send each other. A quad takes 32 bytes: four columns
 * of a row of O, the row's maximum and its sum of weights.
 *
 * The block's own data (OWN_BYTES) follows. It has an mbarrier that counts received bytes, a flag and the merge. Then
 * come factors from products to logits, addresses of rows, and the place of each quad. Data that needs divisions is
 * computed while the previous launch still runs. */
enum { SENT_BYTES = (ROWS * D / 4 + MAX_CLUSTER) * 32, OFF_FLAG = 8, OFF_MERGE = 16, OFF_FACTORS = 32, OFF_LINES = 64 };
enum { OFF_PLAN = OFF_LINES + ROWS * 16, OWN_BYTES = OFF_PLAN + ROWS * D /* 4 bytes for the place of each quad */ };
/* 1: two blocks fit on a multiprocessor, one of this launch and one of the next. The driver takes 1 KB of shared memory
 * for each. */
enum { TWICE = 2 * (Q_BYTES + RING_BYTES + SENT_BYTES + OWN_BYTES + 1024) <= 228 * 1024 };
enum { Q_REGS = D <= 128 && WARPS * (1 + TWICE) <= 8 /* 1: Q fits in registers */ };
static_assert(Q_BYTES + RING_BYTES + SENT_BYTES + OWN_BYTES == GA_P_SMEM, "the row's shared memory");
static_assert(RING_BYTES >= WARPS * ROWS * (O_PITCH + 2) * 4, "the merge lies in the ring");
/* The number that stands for a softmax weight of 1 in products with V. */
#define P_UNIT (F16_V ? 32768.0f : 1.0f)

typedef struct {
  /* first is the key at which step 0 begins, a multiple of KEYS. steps is the number of steps of all blocks and warps
   * together. */
  int first, steps;
  /* step is this warp's first step; stride is the distance from one of its steps to the next. */
  int step, stride;
  int parts; /* Number of blocks of the tile that have at least one step. */
} share;

GA_DEV share share_of(const ga_kargs_attn_decode *a, const unit *u, int split, int warp) {
  share s;
  s.first = u->from / KEYS * KEYS;
  /* step 0 begins at a multiple of the keys that all warps of a block process together */
  if (a->whole_turns) s.first -= s.first % (KEYS * WARPS);
  s.steps = u->to > u->from ? (u->to - s.first + KEYS - 1) / KEYS : 0;
  s.step = split * WARPS + warp;
  s.stride = a->splits * WARPS;
  s.parts = (s.steps + WARPS - 1) / WARPS;
  if (s.parts > a->splits) s.parts = a->splits;
  return s;
}

/* Returns the reference of a row whose maximum is m so far: the number that is subtracted from its logits before the
 * exponential. It is 0 if the row has seen no key, so that e^(-inf - 0) = 0. Weights, which are at most 1, have an
 * error of 2^-23. */
GA_DEV float reference(float m) { return m == NONE ? 0.0f : m; }
GA_DEV float weight_of(float x, float ref) { return ex2(elem_mul(x - ref, 1.44269504f /* log2 e */)); }

/* State of a row, which sees `keys` keys from `first` on. The products of Q and K times `factor` are logits. m is the
 * row's maximum so far, l this lane's part of its sum of weights, o its O.
 *
 * o[4b + i] has columns n = 32b + 8q + i and n + 4 of row g. Column n is the sum of elements 0 and 2, column n + 4 the
 * sum of elements 1 and 3. O is stored times per_unit, where 1 / per_unit is a power of two above all scales of V so
 * far. */
typedef struct {
  int first;
  uint32_t keys;
  float factor, m, l, per_unit, o[D / 8][4];
} state;
