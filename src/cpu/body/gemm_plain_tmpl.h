/* Products of packed f32, f16 or bf16 weights w with f32 activations x: out[c][r] = sum over k of w[r][k] * x[c][k].
 * Weights are converted to f32.
 *
 * An including file first includes an x16_load_<isa>.h and defines CHAINS, 2 or 4. The sum over k has CHAINS partial
 * sums, by k modulo CHAINS, which are added in pairs at the end. For one k the 16 rows of a panel are X16_PARTS
 * vectors, a lane for each row; x[c][k] is broadcast. */
#ifndef GA_CPU_BODY_BODY_GEMM_PLAIN_H
#define GA_CPU_BODY_BODY_GEMM_PLAIN_H

/* Returns element k of rows VN * part to VN * part + VN - 1 of a panel of 16 rows, as floats. */
typedef vf (*plain_loader)(const uint8_t *panel, int64_t k, int part);

GA_INLINE vf at_f32(const uint8_t *panel, int64_t k, int part) { return x16_floats(panel + 64 * k, part); }
GA_INLINE vf at_f16(const uint8_t *panel, int64_t k, int part) { return x16_halves(panel + 32 * k, part); }
GA_INLINE vf at_bf16(const uint8_t *panel, int64_t k, int part) { return x16_bf16(panel, k, part); }

/* Returns the sum of the CHAINS partial sums s, added in pairs. */
GA_INLINE vf chains_sum(const vf *s) {
  return CHAINS == 4 ? vf_add(vf_add(s[0], s[2]), vf_add(s[1], s[CHAINS - 1])) : vf_add(s[0], s[1]);
}

/* Computes the products of a panel with `cols` rows of activations, at most CHAINS. More rows would need more
 * accumulators than there are registers. */
GA_INLINE void dot_plain(plain_loader at, const int cols, const uint8_t *panel, const float *x, int64_t x_stride,
                         int64_t k, float *out) {
  vf sum[CHAINS][X16_PARTS][CHAINS]; /* indices: row of activations, part of the panel, k modulo CHAINS */
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

/* Defines a function of type ga_x16_micro for weights of type `name` and `cols` rows of activations. */
#define PLAIN_MICRO(name, cols)                                                                                     \
  static void plain_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    dot_plain(at_##name, cols, panel, x, x_stride, k, out);                                                         \
  }

#endif
