/* Constants of attention forward in 8 bits (attn_fp8_sm90a.cu) that follow from a variant's parameters: sizes, shared
 * memory, registers, forms of products. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_shape.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

#define GA_IS_fp8         0
#define GA_IS_i8          1
#define GA_SCHED_overlap  0
#define GA_SCHED_dv128    1
#define GA_SCHED_dv64     2
#define GA_SCHED_fast_sum 3

enum {
  I8 = GA_CAT(GA_IS_, GA_P_QK),
  PINGPONG = GA_P_PINGPONG,
  OVERLAP = GA_CAT(GA_SCHED_, GA_P_SCHED) == GA_SCHED_overlap,
  DV128 = GA_CAT(GA_SCHED_, GA_P_SCHED) == GA_SCHED_dv128,
  DV64 = GA_CAT(GA_SCHED_, GA_P_SCHED) == GA_SCHED_dv64,
  FAST_SUM = GA_CAT(GA_SCHED_, GA_P_SCHED) == GA_SCHED_fast_sum,
  SUBS = BN / 64,                /* number of groups of 64 keys in a block; each may have its own scale */
  SUB = 32,                      /* number of registers of S for a group of 64 keys */
  ROW_BYTES = D < 128 ? D : 128, /* number of bytes of a row of a panel of Q or K */
  PANELS_K = D / ROW_BYTES,
  K_PANEL = BN * ROW_BYTES,
  Q_PANEL = 64 * ROW_BYTES,
  PART = FAST_SUM ? DV
         : DV128  ? 128
                  : 64, /* number of columns of a part of P V */
  PARTS = DV / PART,
  /* registers of the last part of P V, which has extra columns for the rows' sums of weights */
  LAST_REGS = PART / 2 + (DV64 ? 4 : 0),
  NS = BN / 2,
  NO = DV / 2,
  NPART = PART / 2,
  NP = BN / 8 /* registers per lane: NS of S, NO of O, NPART of a part of P V, NP of P */
};
enum {                               /* offsets and sizes in shared memory, in bytes */
       Q_BYTES = PANELS_K * Q_PANEL, /* bytes of one warpgroup's Q */
       K_BYTES = PANELS_K * K_PANEL,
       V_BYTES = DV * BN,
       OFF_Q = 0,
       OFF_K = OFF_Q + 2 * WGS * Q_BYTES,
       OFF_V = OFF_K + ST * K_BYTES,
       V_KEYS = BN % 128 ? 64 : 128,            /* number of keys, which are columns, of a box of V */
       V_STAGE = V_BYTES + (DV64 ? 8 * BN : 0), /* bytes of a stage: V and eight rows of ones */
       OFF_QF = OFF_V + ST * V_STAGE,
       OFF_QE = OFF_QF + 16,
       OFF_KF = OFF_QE + 16,
       OFF_KE = OFF_KF + 8 * ST,
       OFF_VF = OFF_KE + 8 * ST,
       OFF_VE = OFF_VF + 8 * ST,
       OFF_SCALE = (OFF_VE + 8 * ST + 15) / 16 * 16,
       SCALES = FAST_SUM ? (3 * SUBS + 3) / 4 : 1, /* number of groups of four scales that a block of keys has */
       SCALE_BYTES = 16 * SCALES,
       /* tile records; before them are scales of the blocks whose K or V is in flight */
       OFF_TILE = OFF_SCALE + 2 * ST * SCALE_BYTES,
       TILE_BYTES = 64, /* bytes of a tile's record and of its Q's scales */
       /* fast_sum: means of V's columns, for each tile in the ring of records */
       OFF_MEAN = OFF_TILE + TILE_SLOTS * TILE_BYTES,
       SMEM_BYTES = OFF_MEAN + (FAST_SUM ? TILE_SLOTS * 4 * DV : 0)
};
static_assert(FAST_SUM ? BN % 64 == 0 && BN <= 192 : BN == 128, "blocks of keys");
static_assert(PARTS <= 2 && (!OVERLAP || PARTS == 1), "P V is added before P is used up");
static_assert(DV == D && !(WINDOW || KV_RESIDENT || EXTRAS || STRETCH), "attn_shape.h: what no row here has");
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define GA_FAST_SUM_overlap  0
#define GA_FAST_SUM_dv128    0
#define GA_FAST_SUM_dv64     0
#define GA_FAST_SUM_fast_sum 1
/* Registers of a thread of the producer and of consumer warpgroups. Over all warpgroups they add up to at most 504 with
 * two consumers, or 512 with three. */
#if GA_P_BM == 192
#define REGS_PRODUCER 32
#define REGS_CONSUMER 160
#else
#if GA_P_D == 256 && GA_CAT(GA_FAST_SUM_, GA_P_SCHED)
#define REGS_PRODUCER 24
#define REGS_CONSUMER 240
#else
#define REGS_PRODUCER 40
#define REGS_CONSUMER 232
#endif
#endif

#if GA_CAT(GA_IS_, GA_P_QK) /* S holds integers in float registers until numbers() converts them */
#define QK(d, a, b, acc)     GA_CAT3(wgmma_m64n, GA_P_BN, k32_s8_ss)((int *)(d), a, b, acc)
#define QK_NEW(d, a, b)      GA_CAT3(wgmma_m64n, GA_P_BN, k32_s8_ss0)((int *)(d), a, b)
#define QK_HALF(d, a, b)     wgmma_m64n64k32_s8_ss((int *)(d), a, b, 1)
#define QK_HALF_NEW(d, a, b) wgmma_m64n64k32_s8_ss0((int *)(d), a, b)
#else
#define QK               GA_CAT3(wgmma_m64n, GA_P_BN, k32_e4m3_ss)
#define QK_NEW           GA_CAT3(wgmma_m64n, GA_P_BN, k32_e4m3_ss0)
#define QK_HALF(d, a, b) wgmma_m64n64k32_e4m3_ss(d, a, b, 1)
#define QK_HALF_NEW      wgmma_m64n64k32_e4m3_ss0
#endif
#if GA_CAT(GA_FAST_SUM_, GA_P_SCHED) /* PV adds products of P and V to the sums of earlier blocks. */
#define QK0          QK_NEW
#define PV           GA_CAT3(wgmma_m64n, GA_P_D, k32_e4m3_rs)
#define PV0(d, a, b) PV(d, a, b, 0)
#define PV_ONES      PV
#define PV_ONES0     PV0
/* QK0 and PV0 read the old contents of their result registers (and ignore them), because these registers also hold
 * S. */
#else
#define QK0(d, a, b)       QK(d, a, b, 0)
#define PV                 GA_CAT3(wgmma_m64n, GA_CAT(GA_PV_COLS_, GA_P_SCHED), k32_e4m3_rs)
#define GA_PV_COLS_overlap 64
#define GA_PV_COLS_dv128   128
#define GA_PV_COLS_dv64    64
#define PV0(d, a, b)       PV(d, a, b, 0)
#define PV_ONES            wgmma_m64n72k32_e4m3_rs
#define PV_ONES0(d, a, b)  PV_ONES(d, a, b, 0)
#endif

/* log2 of a row's largest weight in e4m3: OFFSET after the row's reference is set, LIMIT at most. The largest e4m3
 * number is 448 = 2^8.8. */
#define OFFSET (DV64 || FAST_SUM ? 5.f : 8.f)
#define LIMIT  8.75f

GA_DEV const ga_kargs_attn_fp8 *fp8_args(args a) { return (const ga_kargs_attn_fp8 *)a; /* fwd is the first member */ }
/* Returns the wgmma descriptor of a panel with rows of 64 bytes. It differs from desc of smem.h by the 64-byte swizzle
 * and by 512 bytes for eight rows. */
GA_DEV uint64_t desc_64(uint32_t low) { return (uint64_t)low | (uint64_t)(2u << 30 | 512 >> 4) << 32; }
/* Returns the wgmma descriptor of a panel with rows of ROW_BYTES bytes. */
GA_DEV uint64_t desc_rows(uint32_t low) { return ROW_BYTES == 128 ? desc(low) : desc_64(low); }
/* Returns the scale of the i-th group of 64 tokens of a sequence, or of the i-th token of an int8 Q. */
GA_DEV float scale_of(const ga_kattn_scales *s, int batch, int head, int i) {
  const int at = batch * (int)s->batch + head * (int)s->head +
                 imin(i >> s->shift, s->last) * (int)s->block; /* the host keeps this below 2^31 */
  return ldg_f32(s->data + at);
}
