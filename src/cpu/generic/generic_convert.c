#include <math.h>

#include "base/half.h"
#include "base/quant.h"
#include "cpu/cpu_gemm.h"
#include "opdef/convert_at.h"

typedef struct convert_job {
  const ga_convert_desc *desc;
  const ga_convert_io *io;
} convert_job;

static void store_plain(ga_dtype dtype, void *y, int64_t at, const float *x, int64_t n) {
  switch (dtype) {
  case GA_F32:
    for (int64_t i = 0; i < n; i++) ((float *)y)[at + i] = x[i];
    break;
  case GA_F64:
    for (int64_t i = 0; i < n; i++) ((double *)y)[at + i] = (double)x[i];
    break;
  case GA_F16:
    for (int64_t i = 0; i < n; i++) ((ga_f16 *)y)[at + i] = ga_f32_to_f16(x[i]);
    break;
  case GA_BF16:
    for (int64_t i = 0; i < n; i++) ((ga_bf16 *)y)[at + i] = ga_f32_to_bf16(x[i]);
    break;
  case GA_E4M3:
    for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[at + i] = ga_f32_to_e4m3(x[i]);
    break;
  case GA_E5M2:
    for (int64_t i = 0; i < n; i++) ((uint8_t *)y)[at + i] = ga_f32_to_e5m2(x[i]);
    break;
  default: break;
  }
}

/* Pieces of 256 elements: a multiple of every block; the last one may be shorter. */
static void convert_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const convert_job *job = arg;
  const ga_convert_desc *d = job->desc;
  ga_dtype from = (ga_dtype)d->x_dtype, to = (ga_dtype)d->y_dtype;
  const ga_dtype_traits *x = ga_dtype_info(from), *y = ga_dtype_info(to);
  for (int64_t i = begin; i < end; i += GA_QUANT_MAX_BLOCK) {
    float piece[GA_QUANT_MAX_BLOCK];
    int64_t n = end - i < GA_QUANT_MAX_BLOCK ? end - i : GA_QUANT_MAX_BLOCK;
    ga_cpu_dequantise(from, (const uint8_t *)job->io->x + i / x->block_elems * x->block_bytes, n, piece);
    if (!y->is_quant)
      store_plain(to, job->io->y, i, piece, n);
    else
      for (int64_t e = 0; e < n; e += y->block_elems)
        ga_quantise_block(to, piece + e, (uint8_t *)job->io->y + (i + e) / y->block_elems * y->block_bytes);
  }
}

static void load_piece(const ga_convert_desc *d, const void *x, int64_t at, int64_t n, float *out) {
  const ga_dtype from = (ga_dtype)d->x_dtype;
  ga_cpu_dequantise(from, (const uint8_t *)x + at * ga_dtype_info(from)->block_bytes, n, out);
}

static void scale_block(const ga_convert_desc *d, const ga_convert_io *a, int64_t row, int64_t bottom, int64_t col) {
  const int64_t n = ga_min_i64(GA_CONVERT_BLOCK, d->width - col);
  float piece[GA_CONVERT_BLOCK], most = 0;
  for (int64_t r = row; r < bottom; r++) {
    load_piece(d, a->x, r * d->width + col, n, piece);
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(piece[i]));
  }
  const float scale = ga_convert_scale(most);
  a->scale[ga_convert_scale_at(d, row, col)] = scale;
  for (int64_t r = row; r < bottom; r++) {
    load_piece(d, a->x, r * d->width + col, n, piece);
    for (int64_t i = 0; i < n; i++) piece[i] /= scale;
    store_plain(GA_E4M3, a->y, r * d->width + col, piece, n);
  }
}

/* With scales: rows of blocks. */
static void scale_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const convert_job *job = arg;
  const ga_convert_desc *d = job->desc;
  const int64_t rows = ga_convert_block_rows(d);
  for (int64_t r = begin; r < end; r += rows)
    for (int64_t c = 0; c < d->width; c += GA_CONVERT_BLOCK) scale_block(d, job->io, r, ga_min_i64(r + rows, end), c);
}

ga_status ga_cpu_convert_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                 ga_stream *stream) {
  (void)kernel, (void)workspace;
  convert_job job = {.desc = desc, .io = io};
  const ga_convert_desc *d = job.desc;
  ga_pool *pool = d->rows * d->width < 8192 ? NULL : cpu_pool(stream);
  if (d->scales)
    ga_pool_run_ranges(pool, d->rows, ga_convert_block_rows(d), scale_range, &job);
  else
    ga_pool_run_ranges(pool, d->rows * d->width, GA_QUANT_MAX_BLOCK, convert_range, &job);
  return GA_OK;
}
