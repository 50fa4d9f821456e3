/* Arguments of the variants of attn_fwd_sm90a.cu that are compiled for stretches (GA_P_STRETCHES). This file is both
 * C11 and CUDA C.
 *
 * A stretch has consecutive rows of one document at consecutive positions. Positions count from the first key of the
 * document. A tile of Q belongs to one stretch.
 *
 * Keys are arranged in blocks of BN. Each stretch of keys begins a new block, and its last block may be partly filled.
 * Stretches are sorted by document and position. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_STRETCH_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_STRETCH_ARGS_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* GA_KATTN_STRETCHES is the largest number of stretches of Q, or of keys, in a launch. GA_KATTN_FWD_BYTES is the number
 * of bytes of ga_kargs_attn_fwd before its field `more`. */
enum { GA_KATTN_STRETCHES = 64, GA_KATTN_FWD_BYTES = 768 };
typedef struct {
  /* `first` is the first row in the tensor, `rows` the number of rows. `position` is the position of the first row,
   * -2^29 to 2^29. */
  int32_t first, rows, position;
  /* Which stretches of keys (ga_kargs_attn_stretch.kv) are of the document: begin | end << 16, where `end` is excluded.
   * There is at least one. */
  int32_t documents;
} ga_kattn_q_stretch;
typedef struct {
  /* `first` is the first row in the tensors, `rows` the number of rows. `position` is the position of the first row, 0
   * to 2^29. rows 0: an empty stretch for documents that have no keys. */
  int32_t first, rows, position;
  int32_t block; /* Index of the stretch's first block of BN keys. */
  /* Value that the ready word must reach before the keys may be read. 0: they are ready from the start. */
  uint32_t ready;
  /* Low 16 bits: index of the stretch's word in ga_kargs_attn_stretch.ready. High 16 bits: number of the stretch in the
   * call. */
  int32_t ready_word;
} ga_kattn_kv_stretch;
typedef struct {
  GA_KARGS_ALIGN unsigned char fwd[GA_KATTN_FWD_BYTES]; /* The bytes of ga_kargs_attn_fwd before its field `more`. */
  ga_kattn_q_stretch q[GA_KATTN_STRETCHES];
  ga_kattn_kv_stretch kv[GA_KATTN_STRETCHES + 1]; /* Stretches of keys. The last stretch has no keys. */
  /* ready has the ready words. ready_polls is the largest number of polls of a word; after that, 1 + the stretch's
   * number is written to *ready_error. */
  const uint32_t *ready;
  int32_t *ready_error;
  int32_t ready_polls;
  int32_t unused[5];
} ga_kargs_attn_stretch;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_stretch) == GA_KATTN_FWD_BYTES + 64 * 16 + 65 * 24 + 40);
#endif
