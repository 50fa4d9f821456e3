/* Stores of O from registers to global memory, and tests that say which rows of a tile exist. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn/attn_pairs.h"

/* The fields of a tile's record (attn_tiles.h) that are needed to store its results. */
typedef struct {
  int row0, head, batch, rows_q, start_q;
} tile_coord;
GA_DEV tile_coord tile_coord_of(uint32_t a) {
  const ga_i4 x = lds_i4(a), z = lds_i4(a + 32);
  const tile_coord t = {x.x, x.y, x.z, z.x, z.z};
  return t;
}
/* Returns the query of this lane's row g (h = 0) or g+8 (h = 1). first is the query of row g. */
GA_DEV int query_of(const attn_place *c, const tile_coord *t, int first, int h) {
  return PACKS ? row_query(c, t->row0, h) : first + 8 * h;
}
/* Returns 1 if this lane's row g (h = 0) or g+8 (h = 1) is one of the tile's rows and its query exists. first is the
 * query of row g. */
GA_DEV int row_in(const attn_place *c, const tile_coord *t, int first, int h) {
  return (!PACKS || wg_query(c, h) < c->a->wg_queries) && query_of(c, t, first, h) < t->rows_q;
}
/* Multiplies this lane's rows of O by their factors v and stores them, 16 bytes per lane. Rows of other sequences and
 * columns from cols_v on are not written. */
GA_DEV void store_direct(const attn_place *c, const float *o, const float *v, const tile_coord *t) {
  args a = c->a;
  const int row = row_query(c, t->row0, 0), q = c->lane & 3;
  const int batch = EXTRAS && (a->features & GA_KATTN_VARLEN) ? 0 : t->batch;
  char *base = (char *)a->o_base + 2 * (batch * a->o_stride_batch + row_head(c, t->head, 0) * a->o_stride_head +
                                        (int64_t)(t->start_q + row) * a->o_stride_row + 8 * q);
  const int64_t next = PACKS ? (row_head(c, 0, 1) - row_head(c, 0, 0)) * a->o_stride_head +
                                   (wg_query(c, 1) - wg_query(c, 0)) * a->o_stride_row
                             : 8 * a->o_stride_row; /* distance between the lane's two rows, in elements */
  GA_UNROLL for (int j = 0; j < DV / 32; j++) {
    uint32_t x[4], y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      x[i] = PACK(o[16 * j + 4 * i] * v[0], o[16 * j + 4 * i + 1] * v[0]) & keep_bits(v[0]);
      y[i] = PACK(o[16 * j + 4 * i + 2] * v[1], o[16 * j + 4 * i + 3] * v[1]) & keep_bits(v[1]);
    }
    quad_transpose(x, q);
    quad_transpose(y, q);
    const int in = 32 * j + 8 * q < a->cols_v;
    if (in && row_in(c, t, row, 0)) stg_u4(base + 64 * j, x[0], x[1], x[2], x[3]);
    if (in && row_in(c, t, row, 1)) stg_u4(base + 2 * next + 64 * j, y[0], y[1], y[2], y[3]);
  }
}
