/* Part of attn_scores.h: masks of stretches, by position. Blocks and columns are counted from the tile's n_lo on. */
GA_DEV void mask_stretches(const warpgroup *c, float *s, int n) {
  const int base = n * BN;
  if (MASKED) { /* one limit after the other: registers are few here */
    const int hi = (int)float_bits(lds_f1(limits_of(c))), hi0 = (hi >> 4) - base - 1;
    tile_mask_above(s, BN, hi0, hi0 + (hi & 15), c->q2);
  } else if (c->mask_hi - base < BN) {
    tile_mask_above(s, BN, c->mask_hi - base - 1, c->mask_hi - base - 1, c->q2);
  }
  if (WINDOW) {
    const int lo = (int)float_bits(lds_f1(limits_of(c) + 4)), lo0 = (lo >> 4) - base;
    tile_mask_below(s, BN, lo0, lo0 + (lo & 15), c->q2);
  }
}
