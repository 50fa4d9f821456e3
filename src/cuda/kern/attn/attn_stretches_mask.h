/* Part of attn_fwd_sm90a.cu, which includes it among its consumers' functions: masks of stretches, by position. */
/* This lane's own 16 bytes of shared memory: of its two rows, which stand 8 positions apart, the ends and the begins of
 * the columns they see, from the tile's first block on. Worked out once a tile, where registers are few. */
GA_DEV uint32_t limits_of(const warpgroup *c) {
  return c->sb + OFF_LIMITS + 16 * (uint32_t)(c->w * 128 + c->wl * 32 + c->lane);
}
GA_DEV void put_limits(const warpgroup *c) {
  args a = c->a;
  const ga_i4 y = lds_i4(tile_slot(c, 1) + 16);
  const int documents = y.w, base = y.x * BN, right = a->window_right, left = a->window_left;
  const int place = lds_i4(tile_slot(c, 1) + 32).w + c->w * 64 + c->wl * 16 + c->g;
  const int end = columns_before(a, documents, place + 1 + right),
            end8 = columns_before(a, documents, place + 9 + right);
  const int begin = columns_before(a, documents, place - left), begin8 = columns_before(a, documents, place + 8 - left);
  sts_i4(limits_of(c), end - base, end8 - base, begin - base, begin8 - base);
}
GA_DEV void mask_stretches(const warpgroup *c, float *s, int n) {
  const ga_i4 x = lds_i4(limits_of(c));
  tile_mask_above(s, BN, x.x - n * BN - 1, x.y - n * BN - 1, c->q2);
  tile_mask_below(s, BN, x.z - n * BN, x.w - n * BN, c->q2);
}
