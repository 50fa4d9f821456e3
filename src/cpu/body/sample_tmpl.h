/* KERNEL    sample, f32 logits: functions that read all logits of a row; the chain of samplers is in cpu_sample.c */
#include <math.h>

#include "cpu/body/exp_row_tmpl.h"
#include "cpu/cpu_sample.h"

#define LARGEST_BLOCK 1024

static float block_largest(const float *x, int64_t n) {
  vf m[2] = {vf_set(-INFINITY), vf_set(-INFINITY)};
  int64_t i = 0;
  for (; i + 2 * VN <= n; i += 2 * VN)
    for (int k = 0; k < 2; k++) m[k] = vf_max(vf_load(x + i + k * VN), m[k]); /* NaN in x is ignored */
  float best = vf_hmax(vf_max(m[0], m[1]));
  for (; i < n; i++) best = x[i] > best ? x[i] : best;
  return best;
}

static int32_t largest_logit(const float *x, int64_t n) {
  float best = -INFINITY;
  int64_t at = -1;
  for (int64_t from = 0; from < n; from += LARGEST_BLOCK) {
    const float m = block_largest(x + from, n - from < LARGEST_BLOCK ? n - from : LARGEST_BLOCK);
    if (m > best) { /* keeps the first of equal logits */
      best = m;
      at = from;
    }
  }
  while (at >= 0 && !(x[at] == best)) at++;
  return (int32_t)at;
}

static int64_t logits_above(const float *x, int64_t n, float least, int64_t *from, sample_key *out, int64_t capacity) {
  const vf bar = vf_set(least);
  int64_t found = 0, i = *from;
  for (; i + VN <= n && found + VN <= capacity; i += VN)
    for (unsigned bits = vm_bits(vf_lt(bar, vf_load(x + i))); bits; bits &= bits - 1) {
      const int64_t at = i + GA_CTZ(bits);
      out[found++] = sample_key_of(x[at], (int32_t)at);
    }
  if (n - i < VN && found + VN <= capacity)
    for (; i < n; i++)
      if (x[i] > least) out[found++] = sample_key_of(x[i], (int32_t)i);
  *from = i;
  return found;
}

static double sum_exp(const float *x, int64_t n, float m) { return exp_row(x, NULL, n, 1.0f, m); }

static const sample_scan scan_logits = {.largest = largest_logit, .above = logits_above, .sum_exp = sum_exp};

ga_status ISA(ga_cpu_sample)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                             ga_stream *stream) {
  (void)kernel, (void)stream;
  return cpu_sample_run(desc, io, workspace, &scan_logits);
}
