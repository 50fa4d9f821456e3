/* Blocks of 256: a scale of a few bits for each run, in units d that f16 holds; in some types a minimum too. */
#include <string.h>

#include "base/quant_pack.h"
#include "quant/fit.h"
#include "quant/fit_run.h"

#define RUNS 16 /* at most */

/* What a type's block is made of. */
typedef struct k_shape {
  int run; /* elements */
  fit_codes codes;
  int low, high; /* scales and minimums, in units */
  int steps;     /* of the search for a run's scale */
} k_shape;

/* A block as it will be read back. */
typedef struct k_block {
  float d, dmin, error;
  int sc[RUNS], mn[RUNS];
} k_block;

/* --- scales alone --- */

GA_INLINE float signed_error(const float *x, const float *w, const k_shape *s, const k_block *b, int i, int sc) {
  return fit_error(x + i * s->run, w + i * s->run, s->run, b->d * (float)sc, 0, s->codes);
}

/* The scale in units nearest to the wanted one, or one up to `reach` beside it if that has less error. */
GA_INLINE float settle_signed_run(const float *x, const float *w, const k_shape *s, k_block *b, int i, float wanted,
                                  int reach) {
  const int near = fit_clamp_int(wanted * fit_inverse(b->d), s->low, s->high);
  float least = INFINITY;
  for (int sc = near - reach; sc <= near + reach; sc++) {
    if (sc < s->low || sc > s->high) continue;
    const float e = signed_error(x, w, s, b, i, sc);
    if (e < least) least = e, b->sc[i] = sc;
  }
  return least;
}

/* The unit that suits the codes there are: least squares over the block. */
GA_INLINE float refit_unit(const float *x, const float *w, const k_shape *s, const k_block *b) {
  float num = 0, den = 0;
  for (int i = 0; i < 256 / s->run; i++) {
    const float sc = (float)b->sc[i];
    float xq, qq;
    fit_signed_sums(x + i * s->run, w + i * s->run, s->run, fit_inverse(b->d * sc), s->codes, &xq, &qq);
    num += sc * xq;
    den += sc * sc * qq;
  }
  return den > 0 ? fit_f16(num / den) : b->d;
}

GA_INLINE void settle_signed(const float *x, const float *w, const k_shape *s, const float *scale, int reach,
                             k_block *b) {
  const int runs = 256 / s->run;
  b->d = fit_f16(fit_extreme(scale, runs) / (float)s->low);
  b->error = 0;
  for (int i = 0; i < runs; i++) b->error += settle_signed_run(x, w, s, b, i, scale[i], reach);
}

/* The unit of the codes there are, and the scales around those there are, while that helps. */
GA_INLINE void improve_signed(const float *x, const float *w, const k_shape *s, k_block *b) {
  for (int k = 0; k < 2; k++) {
    k_block other = *b;
    other.d = refit_unit(x, w, s, b);
    if (other.d == b->d) break;
    other.error = 0;
    for (int i = 0; i < 256 / s->run; i++)
      other.error += settle_signed_run(x, w, s, &other, i, other.d * (float)b->sc[i], 1);
    if (!(other.error < b->error)) break;
    *b = other;
  }
}

/* q: of 256. */
GA_INLINE void fit_signed_block(const float *x, const float *w, const k_shape *s, k_block *best, int *q) {
  const int runs = 256 / s->run;
  float plain[RUNS], searched[RUNS];
  k_block other = {0};
  for (int i = 0; i < runs; i++) {
    const float *xr = x + i * s->run, *wr = w + i * s->run;
    plain[i] = fit_extreme(xr, s->run) / s->codes.low;
    searched[i] = fit_signed_scale(xr, wr, s->run, s->codes, s->steps, true, plain[i]);
  }
  settle_signed(x, w, s, plain, 0, best);
  settle_signed(x, w, s, searched, 1, &other);
  if (other.error < best->error) *best = other;
  improve_signed(x, w, s, best);
  for (int i = 0; i < runs; i++)
    fit_codes_of(x + i * s->run, s->run, best->d * (float)best->sc[i], 0, s->codes, q + i * s->run);
}

static GA_CLONES void fit_q3_k(const float *x, const float *w, uint8_t *b) {
  static const k_shape shape = {16, {-4, 3}, -32, 31, 9};
  k_block k = {0};
  int q[256];
  fit_signed_block(x, w, &shape, &k, q);
  ga_pack_q3_k(b, k.sc, q);
  ga_pack_f16(b + 108, k.d);
}

static GA_CLONES void fit_q6_k(const float *x, const float *w, uint8_t *b) {
  static const k_shape shape = {16, {-32, 31}, -128, 127, 6};
  k_block k = {0};
  int q[256];
  fit_signed_block(x, w, &shape, &k, q);
  ga_pack_q6_k(b, k.sc, q);
  ga_pack_f16(b + 208, k.d);
}

/* --- scales and minimums --- */

GA_INLINE float line_error(const float *x, const float *w, const k_shape *s, const k_block *b, int i, int sc, int mn) {
  return fit_error(x + i * s->run, w + i * s->run, s->run, b->d * (float)sc, -b->dmin * (float)mn, s->codes);
}

/* The pair in units nearest to the wanted one, or one up to `reach` beside it, in either, that has less error. */
GA_INLINE float settle_line_run(const float *x, const float *w, const k_shape *s, k_block *b, int i, fit_line wanted,
                                int reach) {
  const int sc0 = fit_clamp_int(wanted.s * fit_inverse(b->d), s->low, s->high),
            mn0 = fit_clamp_int(-wanted.m * fit_inverse(b->dmin), s->low, s->high);
  float least = INFINITY;
  for (int sc = sc0 - reach; sc <= sc0 + reach; sc++)
    for (int mn = mn0 - reach; mn <= mn0 + reach; mn++) {
      if (sc < s->low || sc > s->high || mn < s->low || mn > s->high) continue;
      const float e = line_error(x, w, s, b, i, sc, mn);
      if (e < least) least = e, b->sc[i] = sc, b->mn[i] = mn;
    }
  return least;
}

/* Both units that suit the codes there are: x is about d a - dmin b, with a = sc q and b = mn. */
GA_INLINE void refit_units(const float *x, const float *w, const k_shape *s, const k_block *b, float *d, float *dmin) {
  double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
  for (int i = 0; i < 256 / s->run; i++) {
    const float sc = (float)b->sc[i], mn = (float)b->mn[i], inverse = fit_inverse(b->d * sc), m = b->dmin * mn;
    float q1[FIT_LANES] = {0}, q2[FIT_LANES] = {0}, xq[FIT_LANES] = {0};
    const float *xr = x + i * s->run, *wr = w + i * s->run;
    for (int e = 0; e < s->run; e += FIT_LANES) FIT_EACH_LANE {
        const float q = fit_code((xr[e + j] + m) * inverse, s->codes), t = wr[e + j] * q;
        q1[j] += t;
        q2[j] += t * q;
        xq[j] += t * xr[e + j];
      }
    const fit_base base = fit_base_of(xr, wr, s->run);
    aa += (double)(sc * sc * fit_lanes(q2));
    ab += (double)(sc * mn * fit_lanes(q1));
    bb += (double)(mn * mn * base.w);
    xa += (double)(sc * fit_lanes(xq));
    xb += (double)(mn * base.x);
  }
  const double det = aa * bb - ab * ab;
  *d = b->d;
  *dmin = b->dmin;
  if (det > 1e-9 * aa * bb) {
    *d = fit_f16((float)((xa * bb - xb * ab) / det));
    *dmin = fit_f16((float)((xa * ab - xb * aa) / det));
  } else if (aa > 0) {
    *d = fit_f16((float)(xa / aa));
  }
}

GA_INLINE void settle_lines(const float *x, const float *w, const k_shape *s, const fit_line *line, int reach,
                            k_block *b) {
  const int runs = 256 / s->run;
  float most = 0, least = 0;
  for (int i = 0; i < runs; i++) {
    most = fmaxf(most, line[i].s);
    least = fminf(least, line[i].m);
  }
  b->d = fit_f16(most / (float)s->high);
  b->dmin = fit_f16(-least / (float)s->high);
  b->error = 0;
  for (int i = 0; i < runs; i++) b->error += settle_line_run(x, w, s, b, i, line[i], reach);
}

/* As improve_signed; scales and minimums move the first time alone. */
GA_INLINE void improve_lines(const float *x, const float *w, const k_shape *s, k_block *b) {
  for (int k = 0; k < 3; k++) {
    k_block other = *b;
    refit_units(x, w, s, b, &other.d, &other.dmin);
    if ((other.d == b->d && other.dmin == b->dmin) || !(other.d > 0) || !(other.dmin >= 0)) break;
    other.error = 0;
    for (int i = 0; i < 256 / s->run; i++) {
      const fit_line line = {other.d * (float)b->sc[i], -other.dmin * (float)b->mn[i]};
      other.error += settle_line_run(x, w, s, &other, i, line, k == 0);
    }
    if (!(other.error < b->error)) break;
    *b = other;
  }
}

GA_INLINE void fit_line_block(const float *x, const float *w, const k_shape *s, float first, k_block *best, int *q) {
  const int runs = 256 / s->run;
  fit_line plain[RUNS], searched[RUNS];
  k_block other = {0};
  for (int i = 0; i < runs; i++) {
    const float *xr = x + i * s->run, *wr = w + i * s->run;
    plain[i] = fit_range(xr, s->run, s->codes, true);
    searched[i] = fit_line_of(xr, wr, s->run, s->codes, true, first, 0.1f, s->steps, plain[i]);
  }
  settle_lines(x, w, s, plain, 0, best);
  settle_lines(x, w, s, searched, 1, &other);
  if (other.error < best->error) *best = other;
  improve_lines(x, w, s, best);
  for (int i = 0; i < runs; i++)
    fit_codes_of(x + i * s->run, s->run, best->d * (float)best->sc[i], -best->dmin * (float)best->mn[i], s->codes,
                 q + i * s->run);
}

static GA_CLONES void fit_q2_k(const float *x, const float *w, uint8_t *b) {
  static const k_shape shape = {16, {0, 3}, 0, 15, 15};
  k_block k = {0};
  int q[256];
  fit_line_block(x, w, &shape, -0.5f, &k, q);
  ga_pack_q2_k(b, k.sc, k.mn, q);
  ga_pack_f16(b + 80, k.d);
  ga_pack_f16(b + 82, k.dmin);
}

static GA_CLONES void fit_q4_k(const float *x, const float *w, uint8_t *b) {
  static const k_shape shape = {32, {0, 15}, 0, 63, 20};
  k_block k = {0};
  int q[256];
  fit_line_block(x, w, &shape, -1, &k, q);
  ga_pack_q4_k(b, k.sc, k.mn, q);
  ga_pack_f16(b, k.d);
  ga_pack_f16(b + 2, k.dmin);
}

static GA_CLONES void fit_q5_k(const float *x, const float *w, uint8_t *b) {
  static const k_shape shape = {32, {0, 31}, 0, 63, 15};
  k_block k = {0};
  int q[256];
  fit_line_block(x, w, &shape, -0.5f, &k, q);
  ga_pack_q5_k(b, k.sc, k.mn, q);
  ga_pack_f16(b, k.d);
  ga_pack_f16(b + 2, k.dmin);
}

quant_fit_fn quant_fit_k(ga_dtype dtype) {
  switch (dtype) {
  case GA_Q2_K: return fit_q2_k;
  case GA_Q3_K: return fit_q3_k;
  case GA_Q4_K: return fit_q4_k;
  case GA_Q5_K: return fit_q5_k;
  case GA_Q6_K: return fit_q6_k;
  default: return NULL;
  }
}
