/* Launch side of attn_decode_simt_sm80.cu and attn_decode_sm90a.cu in src/cuda/kern/attn/. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H

#include "core/kernel.h"
#include "cuda/rt/cuda.h"

#define CUDA_ATTN_DECODE_SIMT_ROWS 4   /* packed rows of a tile, GA_P_ROWS */
#define CUDA_ATTN_THREADS          128 /* threads of a block, GA_P_THREADS */

const char *cuda_attn_decode_simt_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_simt_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_simt_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode_simt(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);

/* --- packed rows of a tile: shared by both kernels, in attn_decode_sm90a.c --- */

/* How a kernel divides the work. */
typedef struct cuda_attn_cut {
  int64_t tiles, units; /* tiles of packed rows of one KV head; of all heads and sequences */
  int64_t splits;       /* parts into which the keys are cut */
  bool cluster;         /* the parts form a cluster */
} cuda_attn_cut;

/* Returns why neither kernel takes the description; NULL when both may. */
const char *cuda_attn_packed_refusal(const ga_kernel *kernel, const ga_attn_desc *desc);
/* Cuts the work into tiles of `rows` packed rows, and the keys into parts of at least `least` keys. About `blocks`
 * blocks then have work. */
cuda_attn_cut cuda_attn_packed_cut(const ga_attn_desc *desc, int64_t rows, int64_t blocks, int64_t least);
GA_NODISCARD ga_status cuda_attn_packed_check_io(ga_stream *stream, const ga_kernel *kernel, const ga_attn_desc *desc,
                                                 const ga_attn_io *io);
GA_NODISCARD ga_status cuda_attn_packed_enqueue(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io,
                                                const cuda_attn_cut *cut, void *workspace, ga_stream *stream);

/* --- attn_decode --- */
#define CUDA_ATTN_DECODE_ROWS    8 /* packed rows of a tile, ROWS */
#define CUDA_ATTN_DECODE_CLUSTER 8 /* most blocks of a cluster */

typedef struct cuda_attn_decode_variant {
  cuda_variant base;
  int32_t d;    /* largest head_dim and v_dim */
  int32_t keys; /* keys of a step, KEYS */
  /* keys a multiprocessor from which this variant beats the other one of its type and dimensions; 0: this is the other
   * one */
  int32_t from;
  /* keys a block up to which one cluster a unit beats as many blocks as there are multiprocessors */
  int32_t cluster_reduce;
} cuda_attn_decode_variant;

const char *cuda_attn_decode_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
