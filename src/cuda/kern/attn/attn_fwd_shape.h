/* Constants of attn_fwd_sm90a.cu that follow from a variant's parameters: sizes, shared memory, registers, forms of
 * products. */
#pragma once
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_shape.h"
#include "cuda/kern/attn/attn_stretch_args.h"

#define GA_DT_bf16 0
#define GA_DT_f16  1

enum {
  F16 = GA_CAT(GA_DT_, GA_P_DTYPE),
  PINGPONG = GA_P_PINGPONG,
  QREG = GA_P_QREG,
  Q_SMEM = QREG * 16 < D,
  STORE_REG = GA_P_STORE,
  SKIP =
      /* 1: a warpgroup skips blocks of which none of its rows sees a key */
  CAUSAL && !KV_RESIDENT && !EXTRAS && GA_P_BN < GA_P_BM,
  LATE = (CAUSAL || STRETCH) && !KV_RESIDENT &&
         /* 1: the producer takes its next tile after it has issued the loads of all but the last two blocks of the
          * current tile. With Q in registers and two stages this would delay K and V. */
         (Q_SMEM || ST > 2),
  PANELS_K = (D + 63) / 64,
  PANELS_V = (DV + 63) / 64,
  BLOCK_PANEL = BN * PANEL_ROW_BYTES,
  Q_PANEL = 64 * PANEL_ROW_BYTES,
  O_PANEL = 16 * PANEL_ROW_BYTES,
  NS = BN / 2,
  NO = DV / 2,
  NP = BN / 4,
  NQ = QREG ? 4 * QREG : 4 /* registers per lane: NS of S, NO of O, NP of P, NQ of Q */
};
enum { /* offsets and sizes in shared memory, in bytes */
       Q_BYTES = PANELS_K * Q_PANEL,
       K_BYTES = PANELS_K * BLOCK_PANEL,
       V_BYTES = PANELS_V * BLOCK_PANEL,
       O_BYTES = STORE_REG ? 0 : 4 * PANELS_V * O_PANEL,
       OFF_Q = 0,
       OFF_K = OFF_Q + WGS * Q_BYTES,
       OFF_V = OFF_K + ST * K_BYTES,
       OFF_O = OFF_V + ST * V_BYTES,
       OFF_QF = OFF_O + WGS * O_BYTES,
       OFF_QE = OFF_QF + 8 * WGS,
       OFF_KF = OFF_QE + 8 * WGS,
       OFF_KE = OFF_KF + 8 * ST,
       OFF_VF = OFF_KE + 8 * ST,
       OFF_VE = OFF_VF + 8 * ST,
       OFF_TILE = (OFF_VE + 8 * ST + 15) / 16 * 16,
       TILE_BYTES = 48,
       OFF_READY = OFF_TILE + TILE_SLOTS * TILE_BYTES, /* One bit for each stretch whose wait has ended. */
       SMEM_BYTES = OFF_READY + (STRETCH ? 16 : 0)
};
static_assert(BN % 16 == 0 && D % 16 == 0 && DV % 16 == 0, "wgmma takes k in steps of 16");
static_assert(BLOCK_PANEL % 1024 == 0, "panels start on a swizzle period");
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(!PACKS || (STORE_REG && !KV_RESIDENT), "packed heads leave row by row");
static_assert(GA_P_BLOCKS == 1, "a second block on the multiprocessor would leave too few registers");
static_assert(!SKIP || PINGPONG != 2, "turns at exponentials: every warpgroup takes every block");
static_assert(!STRETCH || (WINDOW && !EXTRAS && !KV_RESIDENT && STORE_REG),
              "limits on both sides; rows of O leave alone");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

/* Registers of a thread of the producer and of consumer warpgroups. Over all warpgroups they add up to at most 504 with
 * two consumers, or 512 with three. The producer needs more where it computes more to find the blocks of a tile. */
#if GA_P_BM == 192
#define REGS_PRODUCER 32
#define REGS_CONSUMER 160
#elif GA_P_MASK == GA_P_MASK_FULL || (GA_P_MASK == GA_P_MASK_CAUSAL && !GA_P_EXTRAS && GA_P_D <= 192)
#define REGS_PRODUCER 24
#define REGS_CONSUMER 240
#elif (GA_P_D > 192 && !GA_P_CARRY && !GA_P_PAGES) || !GA_P_EXTRAS
#define REGS_PRODUCER 40
#define REGS_CONSUMER 232
#else
#define REGS_PRODUCER 56
#define REGS_CONSUMER 224
#endif

/* RECOMPUTE_LOOP precedes the loop that computes S again. For wide heads the loop is not unrolled: its addresses, and
 * the addresses that features need, would spill registers. */
#if GA_P_D > 128 && (GA_P_EXTRAS || GA_P_STRETCHES)
#define RECOMPUTE_LOOP GA_ROLL
#else
#define RECOMPUTE_LOOP GA_UNROLL
#endif

#define QK_RS    GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _rs)
#define QK_SS    GA_CAT5(wgmma_m64n, GA_P_BN, k16_, GA_P_DTYPE, _ss)
#define PV_RST   GA_CAT5(wgmma_m64n, GA_P_DV, k16_, GA_P_DTYPE, _rst)
#define MMA_WARP GA_CAT(mma_m16n8k16_, GA_P_DTYPE)

/* Limit of a lane's part of a row's sum of weights. When a part exceeds the limit, the row's reference is raised. */
#define SUM_LIMIT (F16 ? 32768.f : 1024.f)
/* A row's reference is raised when its sum over a block exceeds MOVES times the mean of its sums so far. MOVES is
 * higher with masks, because each of the shortest rows needs one raise. It is lower where a call has few keys and heads
 * are wide. With 4, their error was up to 1.06 times that of a running maximum. 3.1 costs 1 to 2 % of the speed. */
#define MOVES(keys) (MASKED ? 6.f : D == 256 && (keys) < 2048 ? 3.1f : 4.f)
/* 2^100. If a row's sum of weights is larger, some weights may be infinite. */
#define SUM_LOST 1.267650600228229401e30f

#if GA_P_STRETCHES
#define KARGS ga_kargs_attn_stretch /* This struct begins with the fields of ga_kargs_attn_fwd. */
#else
#define KARGS ga_kargs_attn_fwd
#endif
