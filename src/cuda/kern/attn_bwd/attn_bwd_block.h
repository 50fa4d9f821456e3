/* Sizes, registers and forms of products that follow from a variant's parameters, for attn_bwd_sm90a.cu and
 * attn_bwd_kv_resident_sm90a.cu. In both, one thread block computes dK, dV and parts of dQ from a tile of keys. */
#pragma once
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/kern/attn_bwd/attn_bwd_shape.h"

enum {
  D = GA_P_D,
  BM = GA_P_ROWS,
  BOXES = BM / GA_KBWD_ROWS, /* number of boxes of Q, dO and stat in a step */
  ST = GA_P_STAGES,
  DS_BUFFERS = 3,
  PANELS = D / 64,
  /* a lane reads BM / 8 pairs of delta in a step, and this number of them before the wait for dP */
  EARLY = BM == 128 ? 8 : 0,
  BOX_BYTES = GA_KBWD_ROWS * PANEL_ROW_BYTES,
  Q_PANEL = BM * PANEL_ROW_BYTES,
  /* Registers per lane: NS for S and for dP, ND for dK and for dV, NQ for dQ, NP for P and for dS. */
  NS = BM / 2,
  ND = D / 2,
  NQ = BM * D / 256,
  NP = BM / 4,
  /* number of rows of acc_map in a block of queries */
  BLOCK_LINES = BM * D / 256
};
enum {
  DQ_COLS = BM == 128 ? D : D / 2
  /* number of columns of the part of dQ that a warpgroup computes; the part has 64 rows. The other warpgroup has the
   * other rows or the other columns. */
};
enum { /* offsets and sizes in shared memory, in bytes */
       Q_BYTES = PANELS * Q_PANEL,
       K_BYTES = PANELS * K_PANEL,
       DS_BYTES = WGS * Q_PANEL,       /* dS is BM x BN: one panel per warpgroup */
       PIECE_BYTES = 16 * DQ_COLS * 4, /* bytes of a warp's part of dQ */
       STAT_BOX_BYTES = 2 * GA_KBWD_ROWS * 4,
       STAT_BYTES = BOXES * STAT_BOX_BYTES
};
static_assert(BM == 64 ? D == 64 || D == 128 : BM == 128 && D == 64,
              "a warpgroup's part of dQ is one wgmma wide and lies in one panel");

/* Registers of a thread of the producer and of consumer warpgroups. Over three warpgroups they add up to 504. The
 * producer needs more with features. */
#if GA_P_EXTRAS && GA_P_D < 128
#define REGS_PRODUCER 56
#define REGS_CONSUMER 224
#else
#define REGS_PRODUCER 24
#define REGS_CONSUMER 240
#endif

#if GA_P_D == 128 || GA_P_ROWS == 128
#define WIDTH_DQ 64
#else
#define WIDTH_DQ 32
#endif
#define S_NEW  GA_CAT5(wgmma_m64n, GA_P_ROWS, k16_, GA_P_DTYPE, _ss0)
#define S_ADD  GA_CAT5(wgmma_m64n, GA_P_ROWS, k16_, GA_P_DTYPE, _ss)
#define KV_ADD GA_CAT5(wgmma_m64n, GA_P_D, k16_, GA_P_DTYPE, _rst)
#define DQ_NEW GA_CAT5(wgmma_m64n, WIDTH_DQ, k16_, GA_P_DTYPE, _sst0)
#define DQ_ADD GA_CAT5(wgmma_m64n, WIDTH_DQ, k16_, GA_P_DTYPE, _sst)
