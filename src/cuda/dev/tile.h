/* Includes the whole tile layer. From bottom to top, a kernel is written with
 *   ptx/   instructions of a thread or a warp: a function for each, with bodies for GPUs and for the emulator (GA_EMU)
 *   tile/  tiles of registers and of shared memory that a warp or a warpgroup holds
 *   pipe/  cooperation of warpgroups of a block and of blocks of a grid: rings of stages, the order of tiles
 * docs/guide/kernels-and-tiles.md is the guide. The layer is installed as ga/tile/. */
#pragma once
#include "cuda/dev/pipe/grid.h"
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/cp_async.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/mma.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/dev/tmap.h"
