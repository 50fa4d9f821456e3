/* Launch side of the layer kernels (src/cuda/kern/layer). */
#ifndef GA_CUDA_KERN_LAYER_LAYER_H
#define GA_CUDA_KERN_LAYER_LAYER_H

#include "core/kernel.h"

#define GA_DECLARE_CUDA(op)                                                                   \
  const char *cuda_##op##_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps); \
  ga_status cuda_##op(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream)
GA_DECLARE_CUDA(add);
GA_DECLARE_CUDA(act);
GA_DECLARE_CUDA(norm);
GA_DECLARE_CUDA(softmax);
GA_DECLARE_CUDA(embed);
GA_DECLARE_CUDA(rope);
GA_DECLARE_CUDA(kv_store);
const char *cuda_kv_store_scaled_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
const char *cuda_kv_store_normed_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CUDA(sample);
uint64_t cuda_sample_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
GA_DECLARE_CUDA(convert);

#endif
