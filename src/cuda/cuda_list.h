/* For tools/cuda_build.py, never compiled: the preprocessor turns each row into
 *   @ROW "id" @ arch @ "source" @ "parameters"
 * where neighbouring strings are one. */
#include "cuda/kern/attn/attn_rows.h"

#define GA_KERNEL_ATTN(op, dt, d, dv, mask, arch, bm, bn, st, sched, turn, qreg, store, resident, blocks, features)       \
  @ROW GA_ATTN_ID(op, dt, d, dv, mask, arch, bm, bn, st, sched) @ arch @ GA_ATTN_SOURCE(op, arch)                       \
  @ GA_ATTN_PARAMS(dt, d, dv, mask, bm, bn, st, turn, qreg, store, resident, blocks, features)
#include "cuda/kern/attn/attn.def"
#undef GA_KERNEL_ATTN

#define GA_CUDA_LAYER(op_, dtypes_, mode_, arch_, tile_, file_, threads_, launch_, ok_, x_, y_, score_, tolerance_, ...) \
  @ROW #op_ "_" #dtypes_ "_" #mode_ "_" #arch_ "_" #tile_ @ arch_ @ file_ @ #__VA_ARGS__
#include "cuda/kern/layer/layer.def"
#undef GA_CUDA_LAYER

#define GA_CUDA_PROBE(name_, arch_, file_, ...) @ROW "probe_" #name_ "_" #arch_ @ arch_ @ file_ @ #__VA_ARGS__
#include "cuda/kern/probe/probe.def"
#undef GA_CUDA_PROBE
