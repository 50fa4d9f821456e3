/* Sums of exponentials for softmax and sampling, written with the vector functions of src/cpu/simd. */
#ifndef GA_CPU_BODY_EXP_ROW_TMPL_H
#define GA_CPU_BODY_EXP_ROW_TMPL_H

#define SUM_BLOCK (64 * VN)

/* Computes y[i] = e^(scale * x[i] - m) for n elements and returns their sum. y may be NULL. */
static double exp_row(const float *x, float *y, int64_t n, float scale, float m) {
  const vf s = vf_set(scale), shift = vf_set(m);
  double total = 0;
  for (int64_t from = 0; from < n; from += SUM_BLOCK) {
    const int64_t end = n - from < SUM_BLOCK ? n : from + SUM_BLOCK;
    vf sum = vf_set(0.0f);
    int64_t i = from;
    for (; i + VN <= end; i += VN) {
      vf e = vf_exp(vf_sub(vf_mul(vf_load(x + i), s), shift));
      sum = vf_add(sum, e);
      if (y) vf_store(y + i, e);
    }
    total += (double)vf_sum(sum);
    float tail[VN];
    vf_store(tail, vf_exp(vf_sub(vf_mul(vf_load_n(x + i, (int)(end - i)), s), shift)));
    for (int64_t k = i; k < end; k++) {
      total += (double)tail[k - i];
      if (y) y[k] = tail[k - i];
    }
  }
  return total;
}

#endif
