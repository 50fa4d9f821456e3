/* Products by a ring of packed weights of type T: put_x (a unit of X to shared memory) and take_unit (its products with
 * a unit of W), selected by the form into which X is split. */
#pragma once
#if GA_P_SPLITS_X == 2
#include "cuda/kern/gemm/split_bf16_type.h"
#else
#include "cuda/kern/gemm/split_int8_type.h"
#endif
