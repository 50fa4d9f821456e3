/* Host side of the kernels of latent attention: legality, the division of a call into units and splits, the launch. */
#ifndef GA_CUDA_KERN_MLA_MLA_H
#define GA_CUDA_KERN_MLA_MLA_H

#include "cuda/kern/mla/mla_args.h"
#include "cuda/rt/cuda.h"
#include "ga/mla.h"

/* Parameters of a row. */
typedef struct cuda_mla_variant {
  cuda_variant base;
  int32_t rows;  /* Packed rows of a tile. */
  int32_t keys;  /* Cached tokens of a step. */
  int32_t parts; /* Numbers of the cache's type whose sum is an element of Q, or a weight. */
} cuda_mla_variant;

/* How a call is divided: a unit has a tile of packed rows of one sequence, and `splits` blocks share its keys. */
typedef struct cuda_mla_cut {
  int64_t query_rows; /* Packed rows of a query. */
  int64_t tiles;      /* Tiles of a sequence of max_q queries. */
  int64_t units, splits;
} cuda_mla_cut;

/* Returns the alignment of a cache of a type: an element, or a scale of e4m3. */
static inline size_t cuda_mla_cache_align(int32_t dtype) {
  return dtype == GA_E4M3 ? sizeof(float) : (size_t)ga_dtype_info((ga_dtype)dtype)->block_bytes;
}

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

/* Checks the pointers of a call. q, cache and o are aligned to elements, and at least to `align` bytes. */
GA_NODISCARD ga_status cuda_mla_check_io(ga_stream *stream, const ga_kernel *k, const ga_mla_desc *d,
                                         const ga_mla_io *a, size_t align);
/* Returns the arguments of a launch. */
ga_kargs_mla cuda_mla_kargs(const ga_mla_desc *d, const ga_mla_io *a, const cuda_mla_cut *c, void *workspace,
                            ga_stream *stream);
/* Checks pointers, and enqueues one launch of units * splits blocks. q, cache and o
 * are aligned to elements, and at least to `align` bytes. */
GA_NODISCARD ga_status cuda_mla_enqueue(const ga_kernel *k, const ga_mla_desc *d, const ga_mla_io *a,
                                        const cuda_mla_cut *c, size_t align, void *workspace, ga_stream *stream);

const char *cuda_mla_store_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_mla_store(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

const char *cuda_mla_mma_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_mla_mma_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_mla_mma_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_mla_mma(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

const char *cuda_mla_simt_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_mla_simt_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_mla_simt_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_mla_simt(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
