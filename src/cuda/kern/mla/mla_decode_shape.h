/* Constants of mla_decode_sm90a.cu, addresses of its shared memory, and the work of a block. */
#pragma once
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/tile/quant.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/mla/mla_decode_args.h"
#include "cuda/kern/mla/mla_packed.h"

enum {
  HEAD = 576,
  VALUES = 512,
  ROWS = 64,
  KEYS = 64,
  STAGES = 3,
  HALF_COLS = 256, /* Columns of O and V that a warpgroup has. */
  V_STEPS = VALUES / 16,
  REG_STEPS = V_STEPS - 1, /* Steps of Q in registers: one more does not fit. */
  LANES = 384,
  PANEL = KEYS * PANEL_ROW_BYTES,
  HALF = HALF_COLS / PANEL_COLS * PANEL,
  ROTATED = 2 * HALF, /* Both halves of V, then the rotated parts, and later P. */
  STAGE = ROTATED + PANEL,
  MOST_CLUSTER = 8,
  LOADS = 5,               /* Chunks of 32 columns of f32 queries under way. */
  GROUPS = HALF_COLS / 32, /* Groups of 32 columns of a warpgroup. */
  GROUP_BYTES = 4 * 512,   /* Bytes of a group that a warp has. */
  ML_BYTES = 16,           /* A row's maximum and sum, and room to load 16 bytes. */
  BAR_V = 0,               /* two: halves of V are there */
  BAR_R = 16,              /* rotated parts are there */
  BAR_P = 24,              /* P is there */
  BAR_FREE = 32,           /* P is read */
  BAR_FACTORS = 40,        /* factors are there */
  BARS = 48,
  KV_TYPE = GA_CAT(T_, GA_P_KV_TYPE),
  OFF_Q = STAGES * STAGE,   /* the rotated part of Q */
  OFF_ML = OFF_Q,           /* after the last product with Q */
  OFF_LAST = OFF_Q + PANEL, /* the last 16 columns of Q's latent part, rows of 32 bytes */
  OFF_F = OFF_LAST + ROWS * 32,
  OFF_BAR = OFF_F + STAGES * ROWS * 4, /* Barriers of each stage: BAR_*. */
  OFF_FLAG = OFF_BAR + STAGES * BARS   /* not 0: cut_block has found elements that are not finite */
};
static_assert(OFF_FLAG + 16 == GA_P_SMEM, "the row's shared memory");
static_assert(LANES / 32 * GROUPS * GROUP_BYTES <= OFF_Q, "O over the stages of V");

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
GA_DEV uint32_t ring_at(uint32_t sb, int i) { return sb + ring_stage((uint32_t)i, STAGES) * STAGE; }
GA_DEV uint32_t factors_at(uint32_t sb, int i) { return sb + OFF_F + ring_stage((uint32_t)i, STAGES) * (ROWS * 4); }
/* Waits for the phase of a barrier that belongs to block i. */
GA_DEV void wait_block(uint32_t sb, int i, int which) {
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

/* Thread of a warpgroup, and the first of a lane's two rows. Read again where they are used, for want of registers. */
GA_DEV uint32_t own_thread(void) { return (uint32_t)thread_index_anew() % 128; }
GA_DEV uint32_t row_of(uint32_t thread) { return thread / 32 * 16 + thread % 32 / 4; }
