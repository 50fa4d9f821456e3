/* Functions that store gradients from a register tile (tile/reg.h) of this warp's 16 rows to global memory. Gradients
 * are multiplied by a factor and stored as 16-bit values or floats, or added to the old floats. GA_P_DTYPE must be
 * set. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

#define BWD_PACK GA_CAT(pack_, GA_P_DTYPE)

typedef struct {
  /* Global address of column 0 in row lane / 4 of the warp's 16 rows. */
  char *at;
  /* Distance of rows in bytes. */
  int64_t row_bytes;
  /* in0 is 1 when row lane / 4 of the warp's 16 rows exists; in1 is 1 when row lane / 4 + 8 exists. */
  int in0, in1;
  /* col is the first column of the tile; cols is the number of columns that exist. */
  int col, cols;
  int f32, add;
} bwd_out;

GA_DEV bwd_out bwd_out_of(const ga_kbwd_tensor *t, int64_t row, int head, int batch, int col, int cols, int f32,
                          int add) {
  const int each = f32 ? 4 : 2;
  const int64_t at = batch * t->batch + head * t->head + row * t->row;
  const bwd_out o = {(char *)t->base + each * at, each * t->row, 0, 0, col, cols, f32, add};
  return o;
}

GA_DEV void bwd_store_f32(const bwd_out *o, const float *x, int n, float f, int q) {
  GA_UNROLL for (int j = 0; j < n / 8; j++) GA_UNROLL for (int h = 0; h < 2; h++) {
    const int c = o->col + 8 * j + 2 * q;
    float *to = (float *)(o->at + h * 8 * o->row_bytes) + c;
    if (c >= o->cols || !(h ? o->in1 : o->in0)) continue;
    float u = x[4 * j + 2 * h] * f, v = x[4 * j + 2 * h + 1] * f;
    if (o->add) {
      u += ldg_f32(to);
      v += ldg_f32(to + 1);
    }
    stg_f32(to, u);
    stg_f32(to + 1, v);
  }
}

/* Multiplies x by f and stores its n columns, a multiple of 32. q is lane % 4. */
GA_DEV void bwd_store(const bwd_out *o, const float *x, int n, float f, int q) {
  if (o->f32) {
    bwd_store_f32(o, x, n, f, q);
    return;
  }
  GA_UNROLL for (int j = 0; j < n / 32; j++) {
    uint32_t a[4], b[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      const float *y = x + 16 * j + 4 * i;
      a[i] = BWD_PACK(y[0] * f, y[1] * f);
      b[i] = BWD_PACK(y[2] * f, y[3] * f);
    }
    quad_transpose(a, q);
    quad_transpose(b, q);
    const int c = o->col + 32 * j + 8 * q;
    if (c < o->cols && o->in0) stg_u4(o->at + 2 * c, a[0], a[1], a[2], a[3]);
    if (c < o->cols && o->in1) stg_u4(o->at + 8 * o->row_bytes + 2 * c, b[0], b[1], b[2], b[3]);
  }
}
