/* Constants, offsets in shared memory and the state of a consumer warpgroup for attn_bwd_cluster2_sm90a.cu. A cluster
 * of two thread blocks computes a tile of keys. */
#pragma once
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/kern/attn_bwd/attn_bwd_shape.h"

enum {
  DK = GA_P_DK,
  DV = GA_P_DV,
  BM = GA_KBWD_ROWS,
  ST = 2, /* number of stages of Q, and of P and dS */
  DETERMINISTIC = GA_P_DETERMINISTIC,
  PANELS_K = DK / 64,
  PANELS_V = DV / 64,
  /* number of panels (64 columns) of dQ that block 1 of the cluster computes; block 0 computes 2 */
  PANELS_1 = PANELS_K - 2,
  Q_PANEL = BM * PANEL_ROW_BYTES,
  NS = BM / 2,
  NP = BM / 4 /* registers per lane: NS for S and for dP, NP for P and for dS */
};
enum { /* offsets and sizes in shared memory, in bytes */
       Q_BYTES = PANELS_K * Q_PANEL,
       O_BYTES = PANELS_V * Q_PANEL,
       DS_BYTES = WGS * Q_PANEL, /* dS has BM x BN elements, one panel per warpgroup */
       STAT_BYTES = 2 * BM * 4,
       OFF_Q = 0,
       OFF_O = OFF_Q + ST * Q_BYTES,
       /* block 1 keeps P of step i here, and later overwrites it with dS of the step */
       OFF_DS = OFF_O + O_BYTES,
       /* block 0 keeps K here; block 1 keeps V, and the last panels of K at OFF_K1 */
       OFF_MAIN = OFF_DS + ST * DS_BYTES,
       OFF_K1 = OFF_MAIN + PANELS_V * K_PANEL,
       MAIN_BYTES_0 = PANELS_K * K_PANEL,
       MAIN_BYTES_1 = (PANELS_V + PANELS_1) * K_PANEL,
       OFF_STAT = OFF_MAIN + (MAIN_BYTES_0 > MAIN_BYTES_1 ? MAIN_BYTES_0 : MAIN_BYTES_1),
       OFF_BAR_MAIN = OFF_STAT + ST * STAT_BYTES,
       OFF_QF = OFF_BAR_MAIN + 8,
       OFF_QE = OFF_QF + 8 * ST,
       OFF_OF = OFF_QE + 8 * ST,
       OFF_OE = OFF_OF + 8,
       OFF_PF = OFF_OE + 8, /* mbarriers [stage][warpgroup] */
       OFF_PE = OFF_PF + 8 * ST * WGS,
       OFF_DSO = OFF_PE + 8 * ST,
       OFF_DSF = OFF_DSO + 8 * ST,
       OFF_DSE = OFF_DSF + 8 * ST,
       OFF_TILE = (OFF_DSE + 8 * ST + 15) / 16 * 16,
       SMEM_BYTES = OFF_TILE + 48
};
static_assert((DK == 256 && DV == 256) || (DK == 192 && DV == 128), "panels of dQ that four warpgroups share");
static_assert(SMEM_BYTES <= 232448, "shared memory of an sm_90 block");
static_assert(SMEM_BYTES == GA_P_SMEM, "the row's shared memory");

#define REGS_PRODUCER 24
#define REGS_CONSUMER 240

#define S_NEW     GA_CAT5(wgmma_m64n, 64, k16_, GA_P_DTYPE, _ss0)
#define S_ADD     GA_CAT5(wgmma_m64n, 64, k16_, GA_P_DTYPE, _ss)
#define DV_ADD    GA_CAT5(wgmma_m64n, GA_P_DV, k16_, GA_P_DTYPE, _rst)
#define DK_ADD    GA_CAT5(wgmma_m64n, GA_P_DK, k16_, GA_P_DTYPE, _rst)
#define DQ_NEW_64 GA_CAT5(wgmma_m64n, 64, k16_, GA_P_DTYPE, _sst0)
#define DQ_ADD_64 GA_CAT5(wgmma_m64n, 64, k16_, GA_P_DTYPE, _sst)
#define DQ_NEW_32 GA_CAT5(wgmma_m64n, 32, k16_, GA_P_DTYPE, _sst0)
#define DQ_ADD_32 GA_CAT5(wgmma_m64n, 32, k16_, GA_P_DTYPE, _sst)

typedef struct {
  args a;
  /* sb is the address of the block's shared memory; window is the same address in the form of wgmma descriptors. */
  uint32_t sb, window;
  /* w is the warpgroup, wl the warp in it, lane the lane of the warp; q2 is 2 * (lane % 4). */
  int w, wl, lane, q2;
  /* This lane's first row of K, minus rows_k - rows_q: the query that has the position of this key. */
  int kv;
  /* stage is the current stage of Q; steps is the number of steps of the tile. */
  int stage, steps;
  /* Ordered kernels (attn_bwd_args.h): block of dQ to which this warp has added, but whose semaphore it has not yet
   * raised. -1: none. */
  int added;
} warpgroup;

GA_DEV uint32_t stat_of(const warpgroup *c) { return c->sb + OFF_STAT + c->stage * STAT_BYTES + c->q2 * 4; }
GA_DEV int kv_of(const warpgroup *c) { return c->kv; }
GA_DEV uint32_t tile_record(const warpgroup *c) { return c->sb + OFF_TILE; }
