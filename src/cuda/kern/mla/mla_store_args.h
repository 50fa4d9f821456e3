/* Arguments of mla_store_sm80: one struct by value, the same bytes on the host and on the device. This file is both C11
 * and CUDA C. */
#ifndef GA_CUDA_KERN_MLA_MLA_STORE_ARGS_H
#define GA_CUDA_KERN_MLA_MLA_STORE_ARGS_H
#include "cuda/dev/tmap.h"

/* Fields are those of ga_mla_store_desc and ga_mla_store_io. norm NULL: latent vectors are stored as they are. */
typedef struct {
  const void *x;
  const float *norm;
  const int32_t *slot, *positions;
  const float *inv_freq;
  void *cache;
  int64_t tokens, slots, x_stride;
  int32_t v_dim, rot_dim, pairs, x_dtype, kv_dtype;
  float norm_eps, magnitude;
  int32_t reserved;
} ga_kargs_mla_store;

GA_KARGS_ASSERT(sizeof(ga_kargs_mla_store) == 104);
#endif
