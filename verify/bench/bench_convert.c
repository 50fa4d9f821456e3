#include <stdio.h>

#include "verify/bench/bench.h"

static const int32_t pairs[][2] = {{GA_F32, GA_F16},  {GA_F16, GA_F32},  {GA_BF16, GA_F32}, {GA_F32, GA_Q8_0},
                                   {GA_Q8_0, GA_F32}, {GA_Q4_0, GA_F32}, {GA_Q4_K, GA_F32}, {GA_Q6_K, GA_F32}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  (void)kernel;
  ga_convert_desc *d = desc;
  *d = (ga_convert_desc)GA_CONVERT_DESC_INIT;
  d->rows = 256;
  d->width = 4096;
  d->x_dtype = pairs[i][0];
  d->y_dtype = pairs[i][1];
  (void)snprintf(name, BENCH_NAME, "256x4096 %s to %s", ga_dtype_name((ga_dtype)d->x_dtype),
                 ga_dtype_name((ga_dtype)d->y_dtype));
  return true;
}

const bench_op bench_convert = {.n_shapes = (int)GA_COUNT_OF(pairs), .shape = shape};
