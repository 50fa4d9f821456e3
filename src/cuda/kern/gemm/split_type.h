/* Includes the functions that depend on the form into which X is split, for weights of a type T. put_x stores a unit of
 * X to shared memory, and take_unit multiplies it by a unit of W. */
#pragma once
#if GA_P_SPLITS_X == 2
#include "cuda/kern/gemm/split_bf16_type.h"
#else
#include "cuda/kern/gemm/split_int8_type.h"
#endif
