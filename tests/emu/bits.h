/* Probes: small kernels whose results are bits that the PTX ISA leaves open or that the emulator must agree on. Each
 * runs from the same source on the emulator and on a GPU; what a GPU gave is kept as hashes in bits_h200.txt. Included
 * by the kernels and by the test. */
#ifndef GA_TESTS_EMU_BITS_H
#define GA_TESTS_EMU_BITS_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* X(name): one word in, one out */
/* clang-format off */
#define BITS_NUM(X) \
  X(EX2) X(LG2) X(RCP) X(TANH) X(PACK_BF16) X(PACK_F16) X(PACK_E4M3) X(PACK_E5M2) X(F16X2_OF_E4M3) X(F16X2_OF_E5M2)
/* clang-format on */

/* X(name, type): a (64 x 128 bytes) times b (64 x 128 bytes) plus c (64 x 64), by every form of product */
/* clang-format off */
#define BITS_MMA(X) \
  X(WGMMA_SS_BF16, BF16) X(WGMMA_RS_BF16, BF16) X(WGMMA_SS_F16, F16) X(WGMMA_SS_E4M3, E4M3) X(WGMMA_RS_E4M3, E4M3) \
  X(WGMMA_SS_E5M2, E5M2) X(WGMMA_SS_S8, S8) X(WGMMA_RS_S8, S8) X(MMA_K16_BF16, BF16) X(MMA_K16_F16, F16) \
  X(MMA_K8_BF16, BF16) X(MMA_K8_F16, F16) X(MMA_K8_TF32, TF32) X(MMA_K32_S8, S8) X(MMA_K32_E4M3, E4M3) \
  X(MMA_K32_E5M2, E5M2)
/* clang-format on */

/* X(name): moves within a warp */
/* clang-format off */
#define BITS_WARP(X) \
  X(LDMATRIX_X4) X(LDMATRIX_X4_TRANS) X(LDMATRIX_X2) X(LDMATRIX_X2_TRANS) X(STMATRIX_X4) X(STMATRIX_X4_TRANS) \
  X(STMATRIX_X2) X(SHUFFLES) X(REDUX) X(CP_ASYNC)
/* clang-format on */

/* X(name, how, rank, type, swizzle, fill): the copy engine, by two blocks of a cluster; how: BITS_BY_*, type, swizzle,
 * fill: the driver's numbers */
/* clang-format off */
#define BITS_BULK(X) \
  X(LOAD_1D, LOAD, 1, 7, 0, 0) X(LOAD_2D, LOAD, 2, 1, 0, 0) X(LOAD_2D_32, LOAD, 2, 1, 1, 0) \
  X(LOAD_2D_64, LOAD, 2, 1, 2, 0) X(LOAD_2D_128, LOAD, 2, 1, 3, 0) X(LOAD_3D_128, LOAD, 3, 0, 3, 0) \
  X(LOAD_4D_64, LOAD, 4, 7, 2, 0) X(LOAD_5D, LOAD, 5, 1, 0, 0) X(LOAD_5D_128, LOAD, 5, 6, 3, 0) \
  X(NAN_F16, LOAD, 3, 6, 0, 1) X(NAN_BF16, LOAD, 3, 9, 0, 1) X(NAN_F32, LOAD, 3, 7, 0, 1) \
  X(STORE_1D, STORE, 1, 7, 0, 0) X(STORE_2D_128, STORE, 2, 1, 3, 0) X(STORE_3D_64, STORE, 3, 7, 2, 0) \
  X(STORE_5D_32, STORE, 5, 1, 1, 0) X(ADD_F32, ADD, 4, 7, 0, 0) X(ADD_F16, ADD, 4, 6, 3, 0) \
  X(ADD_BF16, ADD, 4, 9, 3, 0) \
  X(ADD_I32, ADD, 4, 3, 0, 0) X(MULTICAST, MULTICAST, 4, 1, 3, 0) X(BYTES, BYTES, 4, 1, 0, 0) \
  X(SEND, SEND, 4, 1, 0, 0) X(ST_ASYNC, ST_ASYNC, 4, 1, 0, 0) X(REDUCE_F32, REDUCE_F32, 4, 1, 0, 0) \
  X(REDUCE_ADD_F16, REDUCE_ADD_F16, 4, 1, 0, 0) X(REDUCE_ADD_BF16, REDUCE_ADD_BF16, 4, 1, 0, 0) \
  X(REDUCE_MAX_F16, REDUCE_MAX_F16, 4, 1, 0, 0) X(REDUCE_MIN_F16, REDUCE_MIN_F16, 4, 1, 0, 0) \
  X(REDUCE_MAX_BF16, REDUCE_MAX_BF16, 4, 1, 0, 0) X(REDUCE_MIN_BF16, REDUCE_MIN_BF16, 4, 1, 0, 0) \
  X(RED_F32, RED_F32, 4, 1, 0, 0) X(RED_F16X2, RED_F16X2, 4, 1, 0, 0) X(RED_BF16X2, RED_BF16X2, 4, 1, 0, 0)
/* clang-format on */

enum {
  BITS_BY_LOAD,
  BITS_BY_STORE,
  BITS_BY_ADD,
  BITS_BY_MULTICAST,
  BITS_BY_BYTES,
  BITS_BY_SEND,
  BITS_BY_ST_ASYNC,
  BITS_BY_REDUCE_F32,
  BITS_BY_REDUCE_ADD_F16,
  BITS_BY_REDUCE_ADD_BF16,
  BITS_BY_REDUCE_MAX_F16,
  BITS_BY_REDUCE_MIN_F16,
  BITS_BY_REDUCE_MAX_BF16,
  BITS_BY_REDUCE_MIN_BF16,
  BITS_BY_RED_F32,
  BITS_BY_RED_F16X2,
  BITS_BY_RED_BF16X2
};

enum {
#define X(name) BITS_##name,
  BITS_NUM(X) BITS_WARP(X)
#undef X
#define X(name, type) BITS_##name,
      BITS_MMA(X)
#undef X
          BITS_COUNT
};

enum {
  BITS_NUM_WORDS = 1 << 17,
  BITS_TILE_BYTES = 64 * 128,
  BITS_MMA_WORDS = 2 * (BITS_TILE_BYTES / 4) + 64 * 64, /* a, b, c of one instance */
  BITS_MMA_OUT = 64 * 64,
  BITS_INSTANCES = 16,
  BITS_WARP_WORDS = 4096,
  BITS_BULK_BYTES = 16384, /* of shared memory of each block that are dumped */
  BITS_BULK_WORDS = 16384, /* of in, which also fills out; of out */
  BITS_SHARED = 3 * BITS_TILE_BYTES + 4096
};

typedef struct bits_args {
  ga_tmap map;
  const uint32_t *in;
  uint32_t *out;
  int32_t what, steps; /* steps: of 32 bytes along k */
  int32_t rank, c[5];
  uint32_t box_bytes;
} bits_args;

#endif
