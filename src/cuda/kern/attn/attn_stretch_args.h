/* Arguments of the variants of attn_fwd_sm90a.cu that are compiled for stretches (GA_P_STRETCHES). C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_STRETCH_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_STRETCH_ARGS_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Keys are arranged in blocks of BN. Each stretch begins a block, in order of document and position, and its last block
 * may be short. A tile of Q belongs to one stretch. Positions count from the first key of the document. */
enum { GA_KATTN_STRETCHES = 64, GA_KATTN_FWD_BYTES = 768 };
typedef struct {
  int32_t first, rows, position; /* first: row of the tensor; position: -2^29 to 2^29 */
  int32_t documents;             /* stretches of keys of its document: from | end << 16, at least one */
} ga_kattn_q_stretch;
typedef struct {
  int32_t first, rows, position; /* position: 0 to 2^29. rows 0: stands for the keys of documents that have none */
  int32_t block;                 /* its first block */
  uint32_t ready;                /* value of the ready word to wait for; 0: ready from the start */
  int32_t ready_word;            /* index of the ready word | the stretch's number in the call << 16 */
} ga_kattn_kv_stretch;
typedef struct {
  GA_KARGS_ALIGN unsigned char fwd[GA_KATTN_FWD_BYTES]; /* ga_kargs_attn_fwd up to `more` */
  ga_kattn_q_stretch q[GA_KATTN_STRETCHES];
  ga_kattn_kv_stretch kv[GA_KATTN_STRETCHES + 1]; /* the last has no keys */
  const uint32_t *ready;
  int32_t *ready_error;
  int32_t ready_polls;
  int32_t unused[5];
} ga_kargs_attn_stretch;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_stretch) == GA_KATTN_FWD_BYTES + 64 * 16 + 65 * 24 + 40);
#endif
