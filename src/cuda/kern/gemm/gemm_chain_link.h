/* A link of a chain (gemm_chain_sm90a.cu) whose W is of type T. Included behind gemm_ring_take.h, once for each type. */

/* This block's share of a link, X from x on, and where a warp begins. */
GA_DEV share start_of(const ga_kargs_gemm_link *l, uint32_t x, uint32_t table, int warp, start *own) {
  const ga_kargs_gemm_ring *ring = &l->ring;
  const int block = block_index() - l->block;
  share sh = share_of(ring, block, x);
  sh.table = table; /* of a link's own: filled ahead */
  if (block < 0 || block >= ring->gemm.groups) sh.tiles = sh.n = 0;
  const int first = first_item(&sh, warp), tile = first / sh.ni;
  own->items = first_item(&sh, warp + 1) - first;
  own->at = first - tile * sh.ni;
  own->w = unit_at(ring, tile_of(ring, sh.tile, tile), PER * own->at);
  return sh;
}

/* X, and all items of the link: what is left are the parts. */
GA_DEV void take_link(const ga_kargs_gemm_ring *ring, share sh, start own, asker *next, ring_place *place, uint32_t squares, int warp, int lane) {
  const ga_kargs_gemm *a = &ring->gemm;
  const bool whole = a->k % UNIT_K == 0 && ((uint64_t)a->x | (uint64_t)ring->norm) % 16 == 0;
  if (sh.n == 0) { /* fewer tiles than blocks */
    ask_behind_x(next);
    return;
  }
  const float square = ring->add ? convert_sum(ring, &sh, next, warp, lane)
                       : whole   ? convert_x(true, 1, ring, &sh, next, warp, lane)
                                 : convert_x(false, 1, ring, &sh, next, warp, lane);
  if (ring->norm) {
    const float all = row_sum_warp(square);
    if (lane == 0) sts_f1(squares + 4 * (uint32_t)warp, all);
  }
  block_sync();
  take_items(1, ring, &sh, next, place, warp, lane, own.items, own.at);
}
