/* Launch side of attn_decode_simt_sm80.cu and attn_decode_sm90a.cu in src/cuda/kern/attn/. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H

#include "core/kernel.h"
#include "cuda/rt/cuda.h"

#define CUDA_ATTN_DECODE_SIMT_ROWS 4   /* packed rows of a tile: GA_P_ROWS */
#define CUDA_ATTN_THREADS          128 /* GA_P_THREADS */

const char *cuda_attn_decode_simt_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_simt_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_simt_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode_simt(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);

/* --- packed rows of a tile: what both kernels share, in attn_decode_sm90a.c --- */

/* How a kernel cuts the work. */
typedef struct cuda_attn_cut {
  int64_t tiles, units; /* tiles of packed rows of one kv head; of all heads and sequences */
  int64_t splits;       /* parts of the keys */
  bool cluster;         /* they are one */
} cuda_attn_cut;

/* Why neither kernel takes the description; NULL: nothing against it. */
const char *cuda_attn_packed_refusal(const ga_kernel *kernel, const ga_attn_desc *desc);
/* Tiles of `rows`, keys cut so that about `blocks` blocks have work, each at least `least` keys. */
cuda_attn_cut cuda_attn_packed_cut(const ga_attn_desc *desc, int64_t rows, int64_t blocks, int64_t least);
GA_NODISCARD ga_status cuda_attn_packed_check_io(ga_stream *stream, const ga_kernel *kernel, const ga_attn_desc *desc,
                                                 const ga_attn_io *io);
GA_NODISCARD ga_status cuda_attn_packed_enqueue(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io,
                                                const cuda_attn_cut *cut, void *workspace, ga_stream *stream);

/* attn_decode */
#define CUDA_ATTN_DECODE_ROWS    8 /* packed rows of a tile: ROWS */
#define CUDA_ATTN_DECODE_CLUSTER 8 /* blocks of a cluster at most */

typedef struct cuda_attn_decode_variant {
  cuda_variant base;
  int32_t d;    /* room for head_dim and v_dim */
  int32_t keys; /* of a step: KEYS */
  int32_t from; /* keys for each multiprocessor from which on it is better than the other row of its type and room; 0:
                   it is that other one */
  int32_t cluster_reduce; /* keys of a block up to which one cluster a unit is better than as many blocks as there are
                   multiprocessors */
} cuda_attn_decode_variant;

const char *cuda_attn_decode_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
