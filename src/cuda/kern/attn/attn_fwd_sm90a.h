/* Host side of the attention kernels (src/cuda/kern/attn): checks, costs and launches. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a_args.h"
#include "cuda/kernel_names.h" /* made by tools/gen_kernels.py */
#include "cuda/rt/cuda.h"

/* Parameters of a variant; attn_fwd_sm90a.toml explains them. */
typedef struct cuda_attn_variant {
  cuda_variant base;
  int32_t d, dv, bm, bn, stages, kv_resident, blocks, features;
  cuda_attn_mask mask;
  /* Smallest and largest number of keys for which the variant is best. 0, 0: any number. */
  int32_t keys_from, keys_to;
  /* Largest number of tiles of Q per multiprocessor for which the variant is best. 0: any number. */
  int32_t max_waves;
} cuda_attn_variant;

/* Returns true if the rows of all tensors can be indexed with 32 bits, with room for a tile and a window after them. */
bool cuda_attn_small(const ga_attn_desc *desc);
/* Fills *out with the kernel's arguments, except the tensor maps and the counter. sms is the number of
 * multiprocessors. */
void cuda_attn_fill(const cuda_attn_variant *variant, const ga_attn_desc *desc, const ga_attn_io *io, int32_t sms,
                    ga_kargs_attn_fwd *out);

/* --- K and V in segments, for every kernel that accepts segments --- */

/* Largest shift of a segment, in keys. A larger shift would show all keys to all queries. */
#define CUDA_ATTN_MOST_SHIFT ((int64_t)1 << 28)

/* Returns true if no query sees a key of the segment, because it is empty or all windows end before it. */
bool cuda_attn_segment_is_masked(const ga_attn_desc *desc, const ga_attn_kv_segment *part);
/* Returns the shift of a segment, limited to the range that kernels accept. */
int64_t cuda_attn_shift(const ga_attn_kv_segment *part);
/* Returns an error if the shift of segment `part` is beyond CUDA_ATTN_MOST_SHIFT and the window ends inside the
 * segment. Kernels would treat such a shift as a smaller one. */
ga_status cuda_attn_check_shift(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io, int part);

/* Reject reason of all variants except attn_decode_simt for the flag GA_ATTN_SYMMETRIC. */
#define CUDA_ATTN_ONE_WAY "windows and ALiBi look back only"
/* Predicts the time of attention on Hopper's tensor cores in microseconds, without the time of a launch. It assumes the
 * fastest variants for heads of dimensions dim (Q and K) and v_dim. */
double cuda_attn_us(const ga_attn_desc *desc, int32_t dim, int32_t v_dim, const ga_caps *caps);
/* Number of f32 queries of a sequence, with 16-bit K and V, from which the kernels of attn_prefill_f32_sm90a.toml are
 * used. With fewer queries the decode kernels are used. */
#define CUDA_ATTN_PREFILL_QUERIES 32
/* Returns true if a KV head has so few packed rows that the decode variants are faster, because they divide the keys
 * among all multiprocessors.
 *
 * Decode variants take 12.7 us for 4096 keys of 8 KV heads of dimension 128 (docs/log/cuda-decode.md). One tile takes
 * 33 us at the tensor cores' full rate. */
bool cuda_attn_is_decode(const ga_attn_desc *desc, const ga_caps *caps);
const char *cuda_attn_fwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_fwd_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_fwd_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_fwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
