/* Host side of clear_padding_sm80.cu, which clears rows of packed tensors that no sequence has. */
#ifndef GA_CUDA_KERN_LAYER_CLEAR_PADDING_H
#define GA_CUDA_KERN_LAYER_CLEAR_PADDING_H

#include "cuda/kern/layer/layer.h"

GA_DECLARE_CUDA(clear_padding);

#endif
