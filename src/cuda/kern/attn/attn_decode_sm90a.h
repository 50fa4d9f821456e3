/* Host side of attn_decode_simt_sm80.cu and attn_decode_sm90a.cu in src/cuda/kern/attn/: checks, costs and launches. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_SM90A_H

#include "core/kernel.h"
#include "cuda/rt/cuda.h"

/* Number of packed rows (attn_decode_args.h) of a tile of attn_decode_simt: GA_P_ROWS in the kernel. */
#define CUDA_ATTN_DECODE_SIMT_ROWS 4
/* Number of threads of a block of attn_decode_simt: GA_P_THREADS in the kernel. */
#define CUDA_ATTN_THREADS 128

const char *cuda_attn_decode_simt_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_simt_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_simt_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode_simt(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                ga_stream *stream);

/* --- functions for packed rows that attn_decode_simt and attn_decode share (attn_decode_sm90a.c) --- */

/* Division of the work of a kernel among thread blocks. */
typedef struct cuda_attn_cut {
  /* tiles is the number of tiles of packed rows of one KV head and sequence; units is the number over all heads and
   * sequences. */
  int64_t tiles, units;
  /* Number of parts (splits) into which the keys are divided. */
  int64_t splits;
  /* True: the blocks of a tile's splits form a cluster. */
  bool cluster;
} cuda_attn_cut;

/* Returns a constant text that says why neither attn_decode_simt nor attn_decode accepts the description. NULL: both
 * may accept it. */
const char *cuda_attn_packed_refusal(const ga_kernel *kernel, const ga_attn_desc *desc);
/* Divides the work into tiles of `rows` packed rows and splits of at least `least` keys, so that about `blocks` thread
 * blocks have work. */
cuda_attn_cut cuda_attn_packed_cut(const ga_attn_desc *desc, int64_t rows, int64_t blocks, int64_t least);
GA_NODISCARD ga_status cuda_attn_packed_check_io(ga_stream *stream, const ga_kernel *kernel, const ga_attn_desc *desc,
                                                 const ga_attn_io *io);
GA_NODISCARD ga_status cuda_attn_packed_enqueue(const ga_kernel *kernel, const ga_attn_desc *desc, const ga_attn_io *io,
                                                const cuda_attn_cut *cut, void *workspace, ga_stream *stream);

/* --- declarations for attn_decode only --- */
/* Number of packed rows of a tile of attn_decode: ROWS in the kernel. */
#define CUDA_ATTN_DECODE_ROWS 8
/* Largest number of blocks of a cluster in attn_decode. */
#define CUDA_ATTN_DECODE_CLUSTER 8

typedef struct cuda_attn_decode_variant {
  cuda_variant base;
  int32_t d;    /* Largest head_dim and v_dim that the variant accepts. */
  int32_t keys; /* Number of keys of a step of a warp, KEYS in the kernel. */
  /* Number of keys per thread block from which this variant is faster than the other variant for the same types and
   * dimensions. 0: the other variant is faster for many keys. */
  int32_t from;
  /* Largest number of keys per block for which a cluster of up to CUDA_ATTN_DECODE_CLUSTER blocks per tile is faster
   * than as many blocks as there are multiprocessors. */
  int32_t cluster_reduce;
} cuda_attn_decode_variant;

const char *cuda_attn_decode_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_attn_decode_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_decode_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_decode(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
