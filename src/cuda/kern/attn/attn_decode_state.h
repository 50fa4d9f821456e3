/* Attention of one token (attn_decode_sm90a.cu): constants that follow from a row's parameters, a block's share of the
 * keys, and what a warp knows of its rows. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/kern/attn/attn_packed.h"

#define KV GA_CAT(T_, GA_P_KV)
enum { D = GA_P_D, WARPS = GA_P_WARPS, THREADS = 32 * WARPS, STAGES = GA_P_STAGES, ROWS = 8 /* packed, of a tile */ };
enum {
  KEYS = GA_P_KEYS /* of a step */,
  TILES = KEYS / 8 /* of a product's width */,
  CLUSTER_REDUCE = GA_P_CLUSTER_REDUCE != 0,
  MAX_CLUSTER = 16
};
enum {
  BLOCKS = KV == T_Q8_0 || KV == T_Q4_0,
  BLOCK_BYTES = KV == T_Q8_0 ? 34 : 18,
  IS_16BIT = KV == T_F16 || KV == T_BF16
};
enum { F16_K = KV != T_BF16, F16_V = KV == T_F16 || KV == T_E4M3 }; /* products in f16, else in tf32 */
/* Bytes of a row of K or V, and from row to row in shared memory: rows of blocks do not lie on swizzled 16-byte chunks,
 * and begin up to 8 bytes later. */
enum {
  ROW_BYTES = BLOCKS     ? D / 32 * BLOCK_BYTES
              : IS_16BIT ? 2 * D
                         : D,
  PITCH = BLOCKS ? (ROW_BYTES + 16) / 16 * 16 : ROW_BYTES
};
/* Behind K and V of a step the scales of its keys, of K, then of V; steps begin at multiples of a row. */
enum {
  SCALES = KV == T_E4M3,
  SCALE_BYTES = !SCALES                ? 0
                : PITCH < 2 * KEYS * 4 ? 2 * KEYS * 4
                                       : PITCH,
  SCALE_OFF = 2 * KEYS * PITCH
};
enum { CHUNK_BYTES = IS_16BIT ? 64 : 32 /* of 32 columns, not of blocks */ };
enum { Q_STEPS = F16_K ? 2 : 4 /* of a product's depth, in 32 columns */, Q_BYTES = D / 32 * Q_STEPS * 512 };
enum { STAGE_BYTES = 2 * KEYS * PITCH + SCALE_BYTES, RING_BYTES = WARPS * STAGES * STAGE_BYTES, O_PITCH = D + 4 };
enum { IN_FLIGHT = D > 128 ? 8 : 16 /* parts that are read at once */ };
/* What blocks of a cluster send each other: four columns of a row, its maximum and sum, in 32 bytes. Behind it what is
 * the block's: the barrier that counts them, a flag, how parts meet, what makes a row's products logits, where rows are
 * written, and what is to be done with each quad: all that needs divisions is worked out while the launch ahead still
 * runs. */
enum {
  SENT_BYTES = CLUSTER_REDUCE ? (ROWS * D / 4 + MAX_CLUSTER) * 32 : 0,
  OFF_FLAG = 8,
  OFF_MERGE = 16,
  OFF_FACTORS = 32,
  OFF_LINES = 64
};
enum { OFF_PLAN = OFF_LINES + ROWS * 16, OWN_BYTES = OFF_PLAN + ROWS * D /* 4 bytes a quad */ };
/* Two blocks fit a multiprocessor, a launch's and the next one's; 1 KB of each is the driver's. */
enum { TWICE = 2 * (Q_BYTES + RING_BYTES + SENT_BYTES + OWN_BYTES + 1024) <= 228 * 1024 };
enum { Q_REGS = D <= 128 && WARPS * (1 + TWICE) <= 8 /* there is room for Q in registers */ };
static_assert(Q_BYTES + RING_BYTES + SENT_BYTES + OWN_BYTES == GA_P_SMEM, "the row's shared memory");
static_assert(RING_BYTES >= WARPS * ROWS * (O_PITCH + 2) * 4, "the merge lies in the ring");
#define P_UNIT (F16_V ? 32768.0f : 1.0f) /* what a weight of 1 is in products */

typedef struct {
  int first, steps; /* key of step 0, a multiple of KEYS; steps of the whole tile */
  int step, stride; /* this warp's first; from one of its own to the next */
  int parts;        /* blocks that have steps */
} share;

GA_DEV share share_of(const ga_kargs_attn_decode *a, const unit *u, int split, int warp) {
  share s;
  s.first = u->from / KEYS * KEYS;
  if (a->whole_turns) s.first -= s.first % (KEYS * WARPS); /* of one part */
  s.steps = u->to > u->from ? (u->to - s.first + KEYS - 1) / KEYS : 0;
  s.step = split * WARPS + warp;
  s.stride = a->splits * WARPS;
  s.parts = (s.steps + WARPS - 1) / WARPS;
  if (s.parts > a->splits) s.parts = a->splits;
  return s;
}

/* e^(x - m), where m is a running maximum: what has seen nothing has 0 in its place, so that e^(-inf - 0) = 0. Off by
 * 2^-23 of 1. */
GA_DEV float reference(float m) { return m == NONE ? 0.0f : m; }
GA_DEV float weight_of(float x, float ref) { return ex2(elem_mul(x - ref, 1.44269504f /* log2 e */)); }

/* What a row sees, `keys` from `first` on, and its running sums. o[4b + i]: columns 32b + 8q + i and + 4 of row g, high
 * parts, then low parts, in units of 1 / per_unit, a power of two above the scales of V that the warp has met. */
typedef struct {
  int first;
  uint32_t keys;
  float factor, m, l, per_unit, o[D / 8][4];
} state;
