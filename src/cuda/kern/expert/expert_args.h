/* Arguments of the kernels of products by experts: structs by value, the same bytes on the host and on the device. This
 * file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_EXPERT_EXPERT_ARGS_H
#define GA_CUDA_KERN_EXPERT_EXPERT_ARGS_H

#include <stdint.h>

#include "cuda/dev/tmap.h"

#ifdef __cplusplus
#define GA_KARGS_EXPERT_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_EXPERT_ASSERT(c) _Static_assert(c, #c)
#endif

/* Arguments of every kernel of products by experts. Fields have the meaning that ga_expert_gemm_desc and
 * ga_expert_gemm_io give them. */
typedef struct ga_kargs_expert {
  const void *x, *w, *w_gate;
  const float *bias, *bias_gate;
  void *y;
  const void *residual;
  const int32_t *experts;
  const float *weights;
  const int32_t *offsets, *order, *place;
  const int32_t *matrices; /* NULL: expert e has matrix e */
  /* OUT: [tokens * top_k, n], each slot's result before its weight, which expert_sum adds up. NULL: the kernel writes Y
   * itself. */
  float *results;
  int64_t tokens, n, k, x_stride, y_stride, expert_rows;
  int32_t n_experts, top_k, form, w_dtype, x_dtype, y_dtype, act, clamp;
  uint32_t flags;
  float act_alpha, limit, up_offset;
} ga_kargs_expert;

/* Arguments of expert_few_sm80.cu. A group is a number of sorted rows of one expert; without SORTED it is a slot of IN,
 * or a token of OUT. */
typedef struct ga_kargs_expert_few {
  ga_kargs_expert e;
  int32_t tiles, units; /* tiles of 16 rows of a matrix, and units along k */
  int32_t group_rows;   /* largest number of rows of a group: 1, 2, 4 or 8 */
  int32_t shares;       /* thread blocks of a group: each has a share of its tiles */
  int32_t slots;        /* largest number of tiles of which a warp has units */
  int32_t x_bytes;      /* shared memory of X */
  int32_t sum_bytes;    /* shared memory of the sums of X */
  int32_t reserved;
} ga_kargs_expert_few;

/* Arguments of expert_ring_sm90a.cu. */
typedef struct ga_kargs_expert_ring {
  ga_kargs_expert e;
  int32_t tiles, units; /* tiles of 16 rows of a matrix, and units along k */
  int32_t all_tiles;    /* tiles of a token: of all its slots in IN */
  int32_t items;        /* items along k, of one or two units */
  int32_t slot_units;   /* units of X of a slot in shared memory */
  int32_t x_units;      /* units of X in shared memory: one slot's in IN, all slots' in OUT */
  int32_t shares;       /* thread blocks of a token */
  int32_t slots;        /* largest number of tiles of which a warp has items */
  int32_t depth;        /* stages of a warp's ring */
  int32_t reserved;
} ga_kargs_expert_ring;

/* Arguments of expert_x_sm80.cu, which converts X to bf16 [tokens * top_k, width] in sorted rows. width is a multiple
 * of 64. */
typedef struct ga_kargs_expert_x {
  ga_kargs_expert e;
  void *out;
  int64_t width;
} ga_kargs_expert_x;

/* Arguments of expert_tile_sm90a.cu. x is X as expert_x_sm80.cu has converted it, in boxes of 64 columns. */
typedef struct ga_kargs_expert_tile {
  ga_tmap x;
  ga_kargs_expert e;
  int32_t tiles, units; /* tiles of 16 rows of a matrix, and units along k */
  int32_t w_tiles;      /* number of tiles of Y along n */
  int32_t reserved;
} ga_kargs_expert_tile;

GA_KARGS_EXPERT_ASSERT(sizeof(ga_kargs_expert) == 208);
GA_KARGS_EXPERT_ASSERT(sizeof(ga_kargs_expert_few) == 240);
GA_KARGS_EXPERT_ASSERT(sizeof(ga_kargs_expert_ring) == 248);
GA_KARGS_EXPERT_ASSERT(sizeof(ga_kargs_expert_x) == 224);
GA_KARGS_EXPERT_ASSERT(sizeof(ga_kargs_expert_tile) == 384);
#endif
