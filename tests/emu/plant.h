/* Small kernels with planted defects: what a run plants, and what must catch it. Included by the kernels and by the
 * test. */
#ifndef GA_TESTS_EMU_PLANT_H
#define GA_TESTS_EMU_PLANT_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* X(name, rule that must report it); the first of each kernel is clean. */
/* clang-format off */
#define PLANT_GEMM(X) \
  X(GEMM_CLEAN, COUNT) \
  X(NO_EMPTY_WAIT, RACE_SHARED)       /* the producer refills a stage that is still read */ \
  X(NO_FULL_WAIT, UNWRITTEN)          /* products read a stage before its copy */ \
  X(WRONG_PARITY, UNWRITTEN)          /* the consumer waits for the phase before */ \
  X(EARLY_RELEASE, RACE_SHARED)       /* a stage is given back before its products are done */ \
  X(TX_MORE, TX_BYTES) \
  X(TX_LESS, TX_BYTES) \
  X(ARRIVE_TWICE, OVER_ARRIVAL) \
  X(NO_RELEASE, DEADLOCK) \
  X(NO_INIT_FENCE, BARRIER_INIT) \
  X(NO_INIT_SYNC, BARRIER_INIT) \
  X(NO_WGMMA_FENCE, WGMMA_FENCE) \
  X(FENCE_BEFORE_WRITE, WGMMA_FENCE)  /* accumulators zeroed behind the fence */ \
  X(TOUCH_ACC, REGISTERS) \
  X(TOUCH_A, REGISTERS)               /* operand registers overwritten in flight */ \
  X(NO_WGMMA_WAIT, REGISTERS)         /* the epilogue reads accumulators in flight */ \
  X(NEVER_WAITED, EXIT)               /* a product is in flight at the end */ \
  X(UNEVEN_PRODUCT, DIVERGENT)        /* one warp gives another descriptor */ \
  X(BASE_OFFSET, WGMMA_ARGS)          /* a descriptor that no swizzled tile here has */ \
  X(TOO_MANY_THREADS, LAUNCH) \
  X(NO_PROXY_FENCE, PROXY_FENCE) \
  X(NO_STORE_SYNC, RACE_SHARED)       /* the store is issued before all threads have written */ \
  X(NO_STORE_WAIT, EXIT)              /* shared memory goes away under the store */ \
  X(NO_STORE_COMMIT, EXIT) \
  X(REUSE_UNDER_STORE, RACE_SHARED)   /* shared memory rewritten before wait_group.read */ \
  X(COPY_MISALIGNED, MISALIGNED) \
  X(REGISTERS_ODD, REGISTER_BUDGET) \
  X(REGISTERS_ONE_WARP, DIVERGENT)    /* setmaxnreg by three warps of four */ \
  X(COMMIT_ONE_WARP, DIVERGENT)       /* a warp leaves out the last commit */ \
  X(PRODUCT_ONE_WARP, DIVERGENT)      /* a warp leaves out the last product: the others wait for ever */ \
  X(REGISTERS_MANY, DEADLOCK)         /* more than the multiprocessor has */ \
  X(NOT_A_MAP, TENSOR_MAP) \
  X(TOO_MUCH_SHARED, SMEM_BUDGET)
/* clang-format on */

/* clang-format off */
#define PLANT_MISC(X) \
  X(MISC_CLEAN, COUNT) \
  X(NO_WARP_SYNC, RACE_SHARED)        /* lanes exchange through shared memory without order */ \
  X(NO_BLOCK_SYNC, RACE_SHARED) \
  X(UNWRITTEN_SHARED, UNWRITTEN) \
  X(UNWRITTEN_GLOBAL, UNWRITTEN) \
  X(BEYOND_SHARED, BOUNDS) \
  X(BEYOND_GLOBAL, BOUNDS) \
  X(MISALIGNED_SHARED, MISALIGNED) \
  X(MISALIGNED_GLOBAL, MISALIGNED) \
  X(SAME_WORD, RACE_GLOBAL)           /* two warps write one word */ \
  X(SAME_WORD_BLOCKS, RACE_GLOBAL)    /* two blocks do */ \
  X(NO_DEVICE_FENCE, RACE_GLOBAL)     /* the last block reads what the others wrote, by a counter alone */ \
  X(PEER_PLAIN_READ, RACE_GLOBAL)     /* an ordinary read of a word that others write and poll */ \
  X(HALF_WARP_VOTES, DIVERGENT)       /* the others shuffle */ \
  X(LANE_0_AT_BARRIER, DIVERGENT) \
  X(TWO_LDMATRIX, DIVERGENT)          /* an aligned instruction at two places */ \
  X(BARRIER_COUNTS, BARRIER_ARGS)     /* 64 threads here, 96 there */ \
  X(BARRIER_TWICE, OVER_ARRIVAL)      /* a warp arrives again before the others came */ \
  X(BARRIER_SHORT, DEADLOCK)          /* a warp never comes */ \
  X(NO_GRID_WAIT, RACE_GLOBAL)        /* reads what the grid before wrote */ \
  X(MAP_NO_RELEASE, PROXY_FENCE)      /* copies by a map that a thread has edited */ \
  X(MAP_NO_ACQUIRE, PROXY_FENCE) \
  X(MAP_NO_SYNC, RACE_GLOBAL) \
  X(BARRIER_UNSET, BARRIER_INIT)
/* clang-format on */

/* clang-format off */
#define PLANT_CLUSTER(X) \
  X(CLUSTER_CLEAN, COUNT) \
  X(NO_CLUSTER_SYNC, BARRIER_INIT)    /* multicast to a block whose barrier need not be set up */ \
  X(LEAVES_EARLY, EXIT)               /* ends while the other's copy still comes in */ \
  X(NO_REMOTE_WAIT, RACE_SHARED)      /* overwrites the other block's tile without its release */ \
  X(NO_SUCH_BLOCK, BOUNDS) \
  X(REMOTE_NO_SYNC, RACE_SHARED)      /* reads another block's shared memory without its release */ \
  X(REMOTE_LATE, EXIT)                /* reads that of a block that has ended */ \
  X(REMOTE_BEYOND, BOUNDS) \
  X(ASYNC_NO_WAIT, RACE_SHARED)       /* reads where a st.async of the other block is on its way to */ \
  X(ASYNC_BYTES, TX_BYTES) \
  X(SEND_NO_FENCE, PROXY_FENCE)       /* copies to the other block what ordinary writes left */ \
  X(SEND_REUSE, RACE_SHARED)          /* overwrites what is being sent */ \
  X(SEND_OTHER_BAR, BARRIER_ARGS)     /* counts at a barrier of another block */ \
  X(ARRIVE_NO_WAIT, OVER_ARRIVAL)     /* two arrivals at the cluster's barrier in a row */ \
  X(WAIT_NO_ARRIVE, BARRIER_ARGS) \
  X(GLOBAL_NO_FENCE, PROXY_FENCE)     /* a bulk copy reads what global memory was given; the fence is of shared */ \
  X(REDUCE_RACE, RACE_GLOBAL)         /* reads a sum while bulk copies add to it */
/* clang-format on */

/* clang-format off */
#define PLANT_COPY(X) \
  X(COPY_CLEAN, COUNT) \
  X(CP_NO_WAIT, UNWRITTEN) \
  X(CP_WAIT_LESS, UNWRITTEN)          /* waits for the group before the one it reads */ \
  X(CP_NO_SYNC, RACE_SHARED)          /* reads what other threads' copies wrote, after its own wait alone */ \
  X(CP_NO_RELEASE, RACE_SHARED)       /* copies into a stage that other warps still read */ \
  X(CP_TOUCH, RACE_SHARED)            /* a thread writes where its own copy is on its way to */ \
  X(CP_MISALIGNED, MISALIGNED) \
  X(CP_TOO_MANY, COPY_ARGS)           /* more bytes of source than are copied */ \
  X(CP_NEVER_WAITED, EXIT) \
  X(CP_COUNTED_TWICE, DEADLOCK)       /* arrivals beyond those that mbar_init counted, which never come */ \
  X(CP_NO_TRACKING, UNWRITTEN)        /* arrives at once, not when the copies have landed */ \
  X(CP_NO_BAR_WAIT, UNWRITTEN) \
  X(CP_NO_PROXY_FENCE, PROXY_FENCE)   /* the copy engine reads what cp.async wrote */ \
  X(LOAD_NOT_DONE, LOAD)              /* an arrival that gives a buffer back overtakes the loads from it */ \
  X(LOAD_DONE_EARLY, LOAD)            /* loads_done of what was loaded a round before */ \
  X(LOAD_DONE_ONE_LANE, LOAD) \
  X(LOAD_BLOCK_SYNC, LOAD)            /* the same at a barrier of the block */
/* clang-format on */

enum {
#define X(name, rule) PLANT_##name,
  PLANT_GEMM(X) PLANT_MISC(X) PLANT_CLUSTER(X) PLANT_COPY(X)
#undef X
      PLANT_COUNT
};

typedef struct plant_args {
  ga_tmap a, b, c;
  void *map;               /* a copy of b in global memory */
  const uint16_t *pa, *pb; /* what the maps describe */
  float *pc;
  float *out;
  int32_t *words;
  int32_t steps; /* blocks of 64 along k */
  int32_t plant;
} plant_args;

enum {
  PLANT_ST = 2,
  PLANT_A_BYTES = 128 * 128,
  PLANT_B_BYTES = 64 * 128,
  PLANT_C_BYTES = 64 * 256,
  PLANT_OFF_B = PLANT_ST * PLANT_A_BYTES,
  PLANT_OFF_C = PLANT_OFF_B + PLANT_ST * PLANT_B_BYTES,
  PLANT_OFF_BARS = PLANT_OFF_C + 2 * PLANT_C_BYTES,
  PLANT_SHARED = PLANT_OFF_BARS + 64
};

#endif
