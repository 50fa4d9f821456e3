/* Where the scales of a product of plain operands are (ga/gemm.h). Plain operands are neither packed nor stored in
 * quantised blocks. */
#pragma once
#include "cuda/kern/gemm/epilogue.h"
#include "cuda/kern/gemm/gemm_plain_args.h"

/* Values of the enums ga_gemm_flags and ga_gemm_scales, which never change. GEMM_SCALE_BLOCK is the number of elements
 * along k, and of rows of W, that share a scale. */
enum { GEMM_XT = 32, GEMM_WT = 64, GEMM_SCALES_TENSOR = 1, GEMM_SCALES_BLOCK = 2, GEMM_SCALE_BLOCK = 128 };

/* Returns the factor of every sum: the product of both operands' tensor scales, or 1 where they have none. */
GA_DEV float gemm_tensor_scale(const ga_kargs_gemm_plain *p) {
  return p->scales == GEMM_SCALES_TENSOR ? *p->x_scale * *p->w_scale : 1;
}
/* Return the addresses of the scales of block b of 128 elements along k. gemm_x_scale: of row `row` of X. gemm_w_scale:
 * of column `col` of Y, which is a row of W. */
GA_DEV const float *gemm_x_scale(const ga_kargs_gemm_plain *p, int64_t row, int64_t b) {
  return p->x_scale + b * p->g.m + row;
}
GA_DEV const float *gemm_w_scale(const ga_kargs_gemm_plain *p, int64_t col, int64_t b) {
  return p->w_scale + col / GEMM_SCALE_BLOCK * ((p->g.k + GEMM_SCALE_BLOCK - 1) / GEMM_SCALE_BLOCK) + b;
}
