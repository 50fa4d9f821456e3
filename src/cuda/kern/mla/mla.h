/* Host side of the kernels of latent attention: legality, the division of a call into units and splits, the launch. */
#ifndef GA_CUDA_KERN_MLA_MLA_H
#define GA_CUDA_KERN_MLA_MLA_H

#include "cuda/rt/cuda.h"
#include "ga/mla.h"

/* Parameters of a row. */
typedef struct cuda_mla_variant {
  cuda_variant base;
  int32_t rows; /* Packed rows of a tile. */
  int32_t keys; /* Cached tokens of a step. */
} cuda_mla_variant;

/* How a call is divided: a unit has a tile of packed rows of one sequence, and `splits` blocks share its keys. */
typedef struct cuda_mla_cut {
  int64_t query_rows; /* Packed rows of a query. */
  int64_t tiles;      /* Tiles of a sequence of max_q queries. */
  int64_t units, splits;
} cuda_mla_cut;

/* Returns why no row of the family takes the call, or NULL. The types of q, of the cache and of o are those of the
 * row, where its dtypes are not 0. */
const char *cuda_mla_refusal(const ga_kernel *k, const ga_mla_desc *d);

/* Divides a call into tiles of `rows` packed rows, where a query has its heads rounded up to a multiple of head_step.
 * `blocks` is the number of blocks that the device runs at once, `least` the number of tokens that a split has at
 * least. Invariant calls are not split. */
cuda_mla_cut cuda_mla_cut_of(const ga_mla_desc *d, int64_t rows, int64_t head_step, int64_t blocks, int64_t least);

/* Returns the bytes of partial results of all units: 0 if keys are not split. */
uint64_t cuda_mla_partial_bytes(const ga_mla_desc *d, const cuda_mla_cut *c, int64_t rows);

/* Returns the time of a call in microseconds at 100 per cent of the device's rates. All tiles multiply all keys, as
 * `products` products of 16-bit types each, and read them. */
double cuda_mla_us(const ga_mla_desc *d, const cuda_mla_cut *c, int64_t rows, double products, const ga_caps *caps);

/* Checks pointers, and enqueues one launch of units * splits blocks. `align` is the alignment of the cache in bytes. */
GA_NODISCARD ga_status cuda_mla_enqueue(const ga_kernel *k, const ga_mla_desc *d, const ga_mla_io *a,
                                        const cuda_mla_cut *c, size_t align, void *workspace, ga_stream *stream);

#endif
