/* Arguments of rows of attn_fwd_sm90a.cu that are compiled for stretches. */
#ifndef GA_CUDA_ATTN_STRETCHES_ARGS_H
#define GA_CUDA_ATTN_STRETCHES_ARGS_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Rows compiled for stretches (GA_P_FEATURES 16) take these instead. Keys are counted as columns, stretch after stretch
 * in order of document and position; a document begins at a block. A tile of Q is of one
 * stretch. Positions are counted from the first key of the document. */
enum { GA_KATTN_STRETCHES = 64, GA_KATTN_STEP = 8, GA_KATTN_FWD_BYTES = 768 };
typedef struct {
  int32_t first, rows, position;
  int32_t documents; /* keys of its document: stretches from, up to: from | up to << 16 */
} ga_kattn_q_stretch;
typedef struct {
  int32_t first, rows, position, column;
  uint32_t ready;     /* 0: there */
  int32_t ready_word; /* | its number in the call << 16 */
} ga_kattn_kv_stretch;
typedef struct {
  GA_KARGS_ALIGN unsigned char fwd[GA_KATTN_FWD_BYTES]; /* ga_kargs_attn_fwd up to `more`; rows_k: of the tensor */
  ga_tmap k_step, v_step, k_row, v_row; /* boxes of GA_KATTN_STEP rows and of one: blocks that no stretch fills */
  ga_kattn_q_stretch q[GA_KATTN_STRETCHES];
  ga_kattn_kv_stretch kv[GA_KATTN_STRETCHES];
  const uint32_t *ready;
  int32_t *ready_error;
  int32_t ready_polls;
  int32_t kv_stretches; /* at least 1 */
  int32_t unused[10];
} ga_kargs_attn_stretch;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_stretch) == GA_KATTN_FWD_BYTES + 512 + 64 * (16 + 24) + 64);
#endif
