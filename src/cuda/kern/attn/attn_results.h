/* Part of attn_fwd_sm90a.cu, which includes it after its consumers: O and the log-sum-exp on their way out. */
/* ------------------------------------------------------------------ results */
/* 16 rows of O (already scaled) of this warp to shared memory, then one bulk store per panel. The previous tile's store
 * has had a whole tile to finish. */
GA_DEV void store_bulk(const warpgroup *c, const float *o, const float *v, const tile *t) {
  const uint32_t so = c->sb + OFF_O + c->w * O_BYTES + c->wl * PANELS_V * O_PANEL;
  if (c->lane == 0) bulk_wait_read();
  warp_sync();
  GA_UNROLL for (int j = 0; j < DV / 16; j++) stmatrix_x4(
      panel_chunk(so + (j / 4) * O_PANEL, (uint32_t)(c->lane & 15), (uint32_t)((j % 4) * 2 + (c->lane >> 4))),
      PACK(o[8 * j] * v[0], o[8 * j + 1] * v[0]), PACK(o[8 * j + 2] * v[1], o[8 * j + 3] * v[1]),
      PACK(o[8 * j + 4] * v[0], o[8 * j + 5] * v[0]), PACK(o[8 * j + 6] * v[1], o[8 * j + 7] * v[1]));
  fence_async_smem(); /* stmatrix before the copy engine's reads */
  warp_sync();
  if (c->lane == 0) {
    GA_UNROLL for (int i = 0; i < PANELS_V; i++)
        bulk_store_4d(&c->a->o, so + i * O_PANEL, i * PANEL_COLS, t->row0 + c->w * 64 + c->wl * 16, t->head, t->batch);
    bulk_commit();
  }
}
/* O straight from registers, 16 bytes per lane; only rows of this sequence and columns that exist are written. */
GA_DEV void store_direct(const warpgroup *c, const float *o, const float *v, const tile *t) {
  args a = c->a;
  const int row = t->row0 + c->w * 64 + c->wl * 16 + c->g, q = c->lane & 3;
  const int batch = FEATURES && (a->features & GA_KATTN_VARLEN) ? 0 : t->batch;
  char *base = (char *)a->o_base + 2 * (batch * a->o_stride_batch + t->head * a->o_stride_head +
                                        (int64_t)(t->start_q + row) * a->o_stride_row + 8 * q);
  GA_UNROLL for (int j = 0; j < DV / 32; j++) {
    uint32_t x[4], y[4];
    GA_UNROLL for (int i = 0; i < 4; i++) {
      x[i] = PACK(o[16 * j + 4 * i] * v[0], o[16 * j + 4 * i + 1] * v[0]);
      y[i] = PACK(o[16 * j + 4 * i + 2] * v[1], o[16 * j + 4 * i + 3] * v[1]);
    }
    quad_transpose(x, q);
    quad_transpose(y, q);
    const int in = 32 * j + 8 * q < a->cols_v;
    if (in && row < t->rows_q) stg_u4(base + 64 * j, x[0], x[1], x[2], x[3]);
    if (in && row + 8 < t->rows_q) stg_u4(base + 16 * a->o_stride_row + 64 * j, y[0], y[1], y[2], y[3]);
  }
}
/* Divides O by the row sums and writes O and lse of the tile `back` records ago. */
GA_DEV void epilogue(const warpgroup *c, const float *o, const float *m, float *l, int back) {
  args a = c->a;
  const tile t = tile_get(tile_slot(c, back));
  const int row = t.row0 + c->w * 64 + c->wl * 16 + c->g;
  float v[2], ref[2];
  l[0] = quad_sum(l[0]);
  l[1] = quad_sum(l[1]);
  reference(m, ref);
  if (FEATURES && (a->features & GA_KATTN_SINK)) { /* one more column of score `sink`, without a value */
    const float sink = ldg_f32(a->sink + t.head) * LOG2E;
    GA_UNROLL for (int i = 0; i < 2; i++) l[i] += m[i] == GA_NEG_INF ? 0.f : ex2(sink - ref[i]);
  }
  GA_UNROLL for (int i = 0; i < 2; i++) v[i] = l[i] == 0.f ? 0.f : rcp(l[i]);
  if (a->lse && (c->lane & 3) == 0) {
    float *lse = a->lse + t.batch * a->lse_stride_batch + t.head * a->lse_stride_head + t.start_q;
    if (row < t.rows_q) stg_f32(lse + row, (ref[0] + lg2(l[0])) * LN2);
    if (row + 8 < t.rows_q) stg_f32(lse + row + 8, (ref[1] + lg2(l[1])) * LN2);
  }
  if (STORE_REG)
    store_direct(c, o, v, &t);
  else
    store_bulk(c, o, v, &t);
}
