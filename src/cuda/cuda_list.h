/* For tools/cuda_build.py, never compiled: the preprocessor turns each row into
 *   @ROW "id" @ arch @ "source" @ "parameters"
 * where neighbouring strings are one. */
#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_, ...) \
  @ROW #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_ @ arch_ @ file_ @ #__VA_ARGS__
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_LAYER
