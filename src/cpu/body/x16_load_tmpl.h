/* Functions that load packed weights (cpu_pack.h). A record holds codes of 16 rows x 32 elements. Part p of a record is
 * its rows VN * p to VN * p + VN - 1. A run is 16 or 32 consecutive elements of a row that share a scale d and a
 * minimum m: element = d * (code - offset) + m.
 * x16_load_<isa>.h defines these names for the rows of a part, and then includes this file:
 *   xq                            vector of codes; of step t, 32-bit word r has the codes 4t .. 4t + 3 of row r
 *   x16_codes(p, i, part)         loads vector i of the record at p
 *   x16_low, x16_high(x)          return the low, or high, 4 bits of each byte
 *   x16_field(h, from, to, mask)  shifts each byte of h so that bit `from` comes to bit `to`, then applies mask
 *   x16_insert(q, h, from, ...)   returns q | x16_field(h, from, ...)
 *   x16_lookup(table, q)          returns the entries of a table for codes q
 *   x16_iq4_table, x16_fp4_table  return the tables of values of the iq4 types, and of fp4 (e2m1)
 *   x16_bytes(x)                  converts 8-bit codes as stored, element + 128, to the form of the products
 *   x16_halves, x16_unsigned, x16_signed, x16_nibble_low, x16_nibble_high (p, part)
 *                                 load a part's scales, stored as f16, u8, i8, or low or high 4 bits
 *   x16_e8m0, x16_ue4m3(p, part)  load halves of a part's scales of these types, since x16_fp4_table has doubled values
 *   x16_negate(x)                 returns -x */
#ifndef GA_CPU_BODY_BODY_X16_LOAD_H
#define GA_CPU_BODY_BODY_X16_LOAD_H

enum { X16_PARTS = GA_X16_ROWS / VN };

typedef struct x16_block {
  xq q[8];
  /* Scales and minimums of the rows. A type with one run in a record uses d[0] and m[0]. Otherwise d[0] and m[0] belong
   * to q[0] to q[3], d[1] and m[1] to q[4] to q[7]. */
  vf d[2], m[2];
} x16_block;

/* Loads a part of a record. head: the scales of the group of records to which it belongs; at: index of the record in
 * the group. */
typedef void (*x16_loader)(const uint8_t *head, const uint8_t *record, int64_t at, int part, x16_block *w);

/* --- functions that load codes, by the number of bits of a code --- */

GA_INLINE void x16_codes_4(const uint8_t *v, int part, x16_block *w) {
  GA_UNROLL for (int t = 0; t < 4; t++) {
    const xq x = x16_codes(v, t, part);
    w->q[t] = x16_low(x);
    w->q[t + 4] = x16_high(x);
  }
}

GA_INLINE void x16_codes_table(const uint8_t *v, int part, xq table, x16_block *w) {
  x16_codes_4(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = x16_lookup(table, w->q[t]);
}

GA_INLINE void x16_codes_5(const uint8_t *v, int part, x16_block *w) {
  const xq h = x16_codes(v, 0, part);
  x16_codes_4(v + 64, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = x16_insert(w->q[t], h, t, 4, 16);
}

GA_INLINE void x16_codes_6(const uint8_t *v, int part, x16_block *w) {
  const xq h0 = x16_codes(v, 0, part), h1 = x16_codes(v, 1, part);
  x16_codes_4(v + 128, part, w);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = x16_insert(w->q[t], h0, 2 * t, 4, 48);
    w->q[t + 4] = x16_insert(w->q[t + 4], h1, 2 * t, 4, 48);
  }
}

GA_INLINE void x16_codes_2(const uint8_t *v, int part, x16_block *w) {
  const xq h0 = x16_codes(v, 0, part), h1 = x16_codes(v, 1, part);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = x16_field(h0, 2 * t, 0, 3);
    w->q[t + 4] = x16_field(h1, 2 * t, 0, 3);
  }
}

GA_INLINE void x16_codes_3(const uint8_t *v, int part, x16_block *w) {
  const xq h = x16_codes(v, 2, part);
  x16_codes_2(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = x16_insert(w->q[t], h, t, 2, 4);
}

/* --- loaders, one for each type of weights --- */

#define X16_LOADER(name) \
  GA_INLINE void x16_load_##name(const uint8_t *head, const uint8_t *record, int64_t at, int part, x16_block *w)

X16_LOADER(q4_0) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  x16_codes_4(record, part, w);
}

X16_LOADER(q4_1) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  w->m[0] = x16_halves(head + 32, part);
  x16_codes_4(record, part, w);
}

X16_LOADER(q5_0) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  x16_codes_5(record, part, w);
}

X16_LOADER(q5_1) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  w->m[0] = x16_halves(head + 32, part);
  x16_codes_5(record, part, w);
}

X16_LOADER(q8_0) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = x16_bytes(x16_codes(record, t, part));
}

X16_LOADER(iq4_nl) {
  (void)at;
  w->d[0] = x16_halves(head, part);
  x16_codes_table(record, part, x16_iq4_table(), w);
}

X16_LOADER(mxfp4) {
  (void)at;
  w->d[0] = x16_e8m0(head, part);
  x16_codes_table(record, part, x16_fp4_table(), w);
}

X16_LOADER(nvfp4) {
  (void)at;
  w->d[0] = x16_ue4m3(head, part);
  w->d[1] = x16_ue4m3(head + 16, part);
  x16_codes_table(record, part, x16_fp4_table(), w);
}

GA_INLINE void x16_scales_k(const uint8_t *head, int64_t at, int part, x16_block *w) {
  w->d[0] = vf_mul(x16_halves(head, part), x16_unsigned(head + 64 + 16 * at, part));
  w->m[0] = vf_mul(x16_negate(x16_halves(head + 32, part)), x16_unsigned(head + 192 + 16 * at, part));
}

X16_LOADER(q4_k) {
  x16_scales_k(head, at, part, w);
  x16_codes_4(record, part, w);
}

X16_LOADER(q5_k) {
  x16_scales_k(head, at, part, w);
  x16_codes_5(record, part, w);
}

/* Loads the scales of both runs of a record, for types with 8-bit signed scales. */
GA_INLINE void x16_scales_two(const uint8_t *head, int64_t at, int part, x16_block *w) {
  const vf d = x16_halves(head, part);
  w->d[0] = vf_mul(d, x16_signed(head + 32 + 32 * at, part));
  w->d[1] = vf_mul(d, x16_signed(head + 48 + 32 * at, part));
}

X16_LOADER(q6_k) {
  x16_scales_two(head, at, part, w);
  x16_codes_6(record, part, w);
}

X16_LOADER(q2_k) {
  const vf d = x16_halves(head, part), dmin = x16_negate(x16_halves(head + 32, part));
  GA_UNROLL for (int run = 0; run < 2; run++) {
    const uint8_t *both = head + 64 + 32 * at + 16 * run;
    w->d[run] = vf_mul(d, x16_nibble_low(both, part));
    w->m[run] = vf_mul(dmin, x16_nibble_high(both, part));
  }
  x16_codes_2(record, part, w);
}

X16_LOADER(q3_k) {
  x16_scales_two(head, at, part, w);
  x16_codes_3(record, part, w);
}

X16_LOADER(iq4_xs) {
  w->d[0] = vf_mul(x16_halves(head, part), x16_signed(head + 32 + 16 * at, part));
  x16_codes_table(record, part, x16_iq4_table(), w);
}

/* Calls X(name, group, head_bytes, record_bytes, runs, offset, has_min, most) for every quantised type. Arguments are
 * as in ga_x16_format (cpu_pack.h); most is the largest code. */
/* clang-format off */
#define GA_X16_QUANTS(X) \
  X(q4_0, 1, 32, 256, 1, 8, 0, 15)     X(q4_1, 1, 64, 256, 1, 0, 1, 15)    X(q5_0, 1, 32, 320, 1, 16, 0, 31) \
  X(q5_1, 1, 64, 320, 1, 0, 1, 31)     X(q8_0, 1, 32, 512, 1, 128, 0, 255) X(iq4_nl, 1, 32, 256, 1, 128, 0, 255) \
  X(mxfp4, 1, 16, 256, 1, 12, 0, 24)   X(nvfp4, 1, 32, 256, 2, 12, 0, 24)  X(q4_k, 8, 320, 256, 1, 0, 1, 15) \
  X(q5_k, 8, 320, 320, 1, 0, 1, 31)    X(q6_k, 8, 288, 384, 2, 32, 0, 63)  X(q2_k, 8, 320, 128, 2, 0, 1, 3) \
  X(q3_k, 8, 288, 192, 2, 4, 0, 7)     X(iq4_xs, 8, 160, 256, 1, 128, 0, 255)
/* clang-format on */

/* Defines a function of type ga_x16_micro for weights of type `name` and `cols` rows of activations. It calls
 * dot_quantised of the instruction set. */
#define X16_MICRO(name, cols, group, head, record, runs, has_min, most)                                           \
  static void dot_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    (void)x_stride;                                                                                               \
    dot_quantised(x16_load_##name, group, head, record, runs, has_min, most, cols, panel, x, k, out);             \
  }

#endif
