/* Part of attn_fwd_sm90a.cu, which includes it among its producer's functions: blocks of stretches. */
/* Waits until stretch i of the keys is there, once a block. */
GA_DEV void wait_ready(const loader *p, const ga_kargs_attn_stretch *x, int i) {
  const uint32_t value = x->kv[i].ready;
  if (value == 0) return;
  ga_i4 seen = lds_i4(p->sb + OFF_READY);
  const int bit = 1 << i % 32;
  if ((i < 32 ? seen.x : seen.y) & bit) return;
  const uint32_t *word = x->ready + (x->kv[i].ready_word & 0xffff);
  int left = x->ready_polls;
  GA_ROLL while (ldg_u32_acquire_system(word) < value) if (--left <= 0) {
    stg_i32_relaxed_system(x->ready_error, 1 + (x->kv[i].ready_word >> 16));
    break;
  }
  fence_async_global(); /* what the word told of, before the copy engine's reads */
  if (i < 32)
    seen.x |= bit;
  else
    seen.y |= bit;
  sts_i4(p->sb + OFF_READY, seen.x, seen.y, 0, 0);
}
/* The last stretch that begins at this column or before it. */
GA_DEV int stretch_at(const ga_kargs_attn_stretch *x, int i, int column) {
  GA_ROLL while (i > 0 && x->kv[i].column > column) i--;
  GA_ROLL while (i + 1 < x->kv_stretches && x->kv[i + 1].column <= column) i++;
  return i;
}
/* A piece of a block, from this column of stretch `at` on. What the tile does not see lies behind the tensor's end:
 * zeros. */
GA_DEV void load_stretch_piece(loader *p, const work *t, const ga_tmap *map, int column, uint32_t dst, uint32_t bar,
                               int value) {
  const ga_kargs_attn_stretch *x = stretch_kargs(p->a);
  int row = p->a->rows_k;
  if (column < t->start_k) {
    row = x->kv[p->at].first + column - x->kv[p->at].column;
    if (!value) wait_ready(p, x, p->at);
  }
  GA_ROLL for (int i = 0; i < (value ? PANELS_V : PANELS_K); i++)
      bulk_load_4d(dst + i * BLOCK_PANEL, map, bar, i * PANEL_COLS, row, t->head_k, t->batch, L2_EVICT_LAST);
}
/* Block n of columns: one box where a stretch fills it, else pieces of GA_KATTN_STEP rows, or of one. */
GA_DEV void load_stretches(loader *p, const work *t, int n, uint32_t dst, uint32_t bar, int value) {
  const ga_kargs_attn_stretch *x = stretch_kargs(p->a);
  const int panels = value ? PANELS_V : PANELS_K, column = n * BN;
  mbar_arrive_expect(bar, panels * BLOCK_PANEL);
  p->at = stretch_at(x, p->at, column);
  if (column + BN <= x->kv[p->at].column + x->kv[p->at].rows) {
    const int row = x->kv[p->at].first + column - x->kv[p->at].column;
    if (!value) wait_ready(p, x, p->at);
    GA_UNROLL for (int i = 0; i < panels; i++) bulk_load_4d(dst + i * BLOCK_PANEL, value ? &p->a->v : &p->a->k, bar,
                                                            i * PANEL_COLS, row, t->head_k, t->batch, L2_EVICT_LAST);
    return;
  }
  GA_ROLL for (int r = 0, rows; r < BN; r += rows) {
    p->at = stretch_at(x, p->at, column + r);
    const int fits = column + r + GA_KATTN_STEP <= x->kv[p->at].column + x->kv[p->at].rows;
    const int whole = r % GA_KATTN_STEP == 0 && (fits || column + r >= t->start_k);
    rows = whole ? GA_KATTN_STEP : 1;
    load_stretch_piece(p, t,
                       whole   ? value ? &x->v_step : &x->k_step
                       : value ? &x->v_row
                               : &x->k_row,
                       column + r, dst + r * PANEL_ROW_BYTES, bar, value);
  }
}
