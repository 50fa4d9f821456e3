/* Launch side of the attention kernels (src/cuda/kern/attn). */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/kernel_names.h" /* made by tools/gen_kernels.py */
#include "cuda/rt/cuda.h"

/* A row's shape: see attn_fwd_sm90a.toml. */
typedef struct cuda_attn_variant {
  cuda_variant base;
  int32_t d, dv, bm, bn, stages, kv_resident, blocks, features;
  cuda_attn_mask mask;
  int32_t keys_from, keys_to; /* lengths of K that the row is best at; 0, 0 = any */
  int32_t max_waves;          /* and so many tiles of q a multiprocessor at most; 0 = any */
} cuda_attn_variant;

/* Row indices are 32-bit, with room for a tile and a window behind the last. */
bool cuda_attn_small(const ga_attn_desc *desc);
/* Everything of the arguments but the tensor maps and the counter. */
void cuda_attn_fill(const cuda_attn_variant *variant, const ga_attn_desc *desc, const ga_attn_io *io, int32_t sms,
                    ga_kargs_attn_fwd *out);

/* --- K and V in parts, for every kernel that takes them --- */

#define CUDA_ATTN_MOST_SHIFT ((int64_t)1 << 28) /* of a part; a larger one shows all keys to all queries */

/* No query sees a key of the part: it has none, or all windows end before it. */
bool cuda_attn_segment_is_masked(const ga_attn_desc *desc, const ga_attn_kv_segment *part);
/* Shift of a part as kernels take it. */
int64_t cuda_attn_shift(const ga_attn_kv_segment *part);
/* Error for a shift that they cannot tell from a smaller one: a large one, with a window that ends inside of the part.
 * */
ga_status cuda_attn_check_shift(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io, int part);

/* Why all rows but attn_decode_simt refuse GA_ATTN_SYMMETRIC. */
#define CUDA_ATTN_ONE_WAY "windows and ALiBi look back only"
/* Microseconds of attention on Hopper's tensor cores for heads that are dim and v_dim wide, by the fastest rows, behind
 * the launch. */
double cuda_attn_us(const ga_attn_desc *desc, int32_t dim, int32_t v_dim, const ga_caps *caps);
/* Of a row with q of f32: so many queries of a sequence go to attn_prefill_f32_sm90a.toml, fewer to the decode rows. */
#define CUDA_ATTN_PREFILL_QUERIES 32
/* So few rows of a group that the decode rows are better, which cut keys over the machine: 12.7 us at 4096 keys of 128,
 * 8 KV heads (docs/log/cuda-decode.md), of which one tile here takes 33 at the tensor cores' full rate. */
bool cuda_attn_is_decode(const ga_attn_desc *desc, const ga_caps *caps);
const char *cuda_attn_fwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_fwd_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_fwd_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_fwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
