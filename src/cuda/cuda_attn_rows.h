/* Launch side of src/cuda/kern/attn/attn_rows_sm80.cu. */
#ifndef GA_CUDA_CUDA_ATTN_ROWS_H
#define GA_CUDA_CUDA_ATTN_ROWS_H

#include "core/kernel.h"

#define CUDA_ATTN_ROWS 4      /* packed rows of a tile: GA_P_ROWS */
#define CUDA_ATTN_THREADS 128 /* GA_P_THREADS */

const char *cuda_attn_rows_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_rows_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_rows(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
