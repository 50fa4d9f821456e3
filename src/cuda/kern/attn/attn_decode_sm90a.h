/* Host side of attn_decode_simt_sm80.cu and attn_decode_sm90a.cu in src/cuda/kern/attn/: checks, costs and launches. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H

#include "core/kernel.h"
#include "cuda/rt/cuda.h"

/* Number of packed rows of a tile, GA_P_ROWS. */
#define CUDA_ATTN_DECODE_SIMT_ROWS 4
/* Number of threads of a block, GA_P_THREADS. */
#define CUDA_ATTN_THREADS 128

const char *cuda_attn_decode_simt_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_simt_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_simt_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode_simt(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);

/* --- Functions for packed rows, shared by both kernels (attn_decode_sm90a.c) --- */

/* Division of the work of a kernel among thread blocks. */
typedef struct cuda_attn_cut {
  /* tiles is the number of tiles of packed rows of one KV head and sequence; units is the number over all heads and
   * sequences. */
  int64_t tiles, units;
  /* Number of parts into which the keys are cut. */
  int64_t splits;
  /* True when the blocks of the parts form a cluster. */
  bool cluster;
} cuda_attn_cut;

/* Returns the reason for which neither kernel accepts the description. NULL: both may accept it. */
const char *cuda_attn_packed_refusal(const ga_kernel *kernel, const ga_attn_desc *desc);
/* Cuts the work into tiles of `rows` packed rows, and the keys into parts of at least `least` keys, so that about
 * `blocks` thread blocks have work. */
cuda_attn_cut cuda_attn_packed_cut(const ga_attn_desc *desc, int64_t rows, int64_t blocks, int64_t least);
GA_NODISCARD ga_status cuda_attn_packed_check_io(ga_stream *stream, const ga_kernel *kernel, const ga_attn_desc *desc,
                                                 const ga_attn_io *io);
GA_NODISCARD ga_status cuda_attn_packed_enqueue(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io,
                                                const cuda_attn_cut *cut, void *workspace, ga_stream *stream);

/* --- attn_decode --- */
/* Number of packed rows of a tile, ROWS in the kernel. */
#define CUDA_ATTN_DECODE_ROWS 8
/* Largest number of blocks of a cluster. */
#define CUDA_ATTN_DECODE_CLUSTER 8

typedef struct cuda_attn_decode_variant {
  cuda_variant base;
  int32_t d;    /* Largest head_dim and v_dim. */
  int32_t keys; /* Number of keys of a step, KEYS in the kernel. */
  /* Two variants of a type and dimensions differ in speed. From this number of keys per multiprocessor on, this variant
   * is the faster one. 0: this is the variant for fewer keys. */
  int32_t from;
  /* Largest number of keys per block for which one cluster per unit is faster than as many blocks as there are
   * multiprocessors. */
  int32_t cluster_reduce;
} cuda_attn_decode_variant;

const char *cuda_attn_decode_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
