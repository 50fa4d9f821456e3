/* Packed plain weights (f32, f16, bf16) times f32 activations: out[c][r] = sum over k of w[r][k] * x[c][k], weights
 * widened to f32. Include an x16_load_<isa>.h first and define CHAINS, 2 or 4: partial sums by k modulo CHAINS, added
 * in pairs at the end. 16 rows of one k are X16_PARTS vectors; x[c][k] is broadcast: lane = row. */
#ifndef GA_CPU_BODY_BODY_GEMM_PLAIN_H
#define GA_CPU_BODY_BODY_GEMM_PLAIN_H

/* Loads rows VN * part to VN * part + VN - 1 of element k. */
typedef vf (*plain_loader)(const uint8_t *panel, int64_t k, int part);

GA_INLINE vf at_f32(const uint8_t *panel, int64_t k, int part) { return x16_floats(panel + 64 * k, part); }
GA_INLINE vf at_f16(const uint8_t *panel, int64_t k, int part) { return x16_halves(panel + 32 * k, part); }
GA_INLINE vf at_bf16(const uint8_t *panel, int64_t k, int part) { return x16_bf16(panel, k, part); }

/* Adds partial sums in pairs. */
GA_INLINE vf chains_sum(const vf *s) {
  return CHAINS == 4 ? vf_add(vf_add(s[0], s[2]), vf_add(s[1], s[CHAINS - 1])) : vf_add(s[0], s[1]);
}

/* Computes the products of `cols` columns, at most CHAINS. More columns would need more sums than there are
 * registers. */
GA_INLINE void dot_plain(plain_loader at, const int cols, const uint8_t *panel, const float *x, int64_t x_stride,
                         int64_t k, float *out) {
  vf sum[CHAINS][X16_PARTS][CHAINS]; /* column, part, k modulo CHAINS */
  GA_UNROLL for (int c = 0; c < cols; c++) GA_UNROLL for (int part = 0; part < X16_PARTS; part++)
      GA_UNROLL for (int i = 0; i < CHAINS; i++) sum[c][part][i] = vf_set(0);
  int64_t i = 0;
  for (; i + CHAINS <= k; i += CHAINS) {
    GA_UNROLL for (int j = 0; j < CHAINS; j++) {
      GA_UNROLL for (int part = 0; part < X16_PARTS; part++) {
        const vf w = at(panel, i + j, part);
        GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][j] =
            vf_fma(w, vf_set(x[c * x_stride + i + j]), sum[c][part][j]);
      }
    }
  }
  for (; i < k; i++) {
    GA_UNROLL for (int part = 0; part < X16_PARTS; part++) {
      const vf w = at(panel, i, part);
      GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][0] =
          vf_fma(w, vf_set(x[c * x_stride + i]), sum[c][part][0]);
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) GA_UNROLL for (int part = 0; part < X16_PARTS; part++)
      vf_store(out + GA_X16_ROWS * c + VN * part, chains_sum(sum[c][part]));
}

/* Defines a ga_x16_micro for a type (name) and a number of columns (cols). */
#define PLAIN_MICRO(name, cols)                                                                                     \
  static void plain_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    dot_plain(at_##name, cols, panel, x, x_stride, k, out);                                                         \
  }

#endif
