#include <stdio.h>

#include "ga/layer.h"
#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const int64_t rows[] = {512, 8192};
  ga_attn_merge_desc *d = desc;
  *d = (ga_attn_merge_desc)GA_ATTN_MERGE_DESC_INIT;
  d->rows = d->lse_head = d->part_lse_head = rows[i / 2];
  d->part_dtype = i % 2 ? GA_BF16 : GA_F32;
  d->heads = 32;
  d->dim = 128;
  d->o_token = d->part_token = (int64_t)d->heads * d->dim;
  d->o_head = d->part_head = d->dim;
  (void)snprintf(name, BENCH_NAME, "%lldx%dx%d %s", (long long)rows[i / 2], d->heads, d->dim,
                 ga_dtype_name((ga_dtype)d->part_dtype));
  return i < 2 || bench_on_gpu(kernel);
}

const bench_op bench_attn_merge = {.n_shapes = 4, .shape = shape};
