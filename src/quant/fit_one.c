/* Blocks of 32 with one scale in f16, and in some types a minimum in f16: eight blocks at a time, each in a lane of its
 * own, so that sums need no adding up. The order within a lane is that of the elements: it depends on nothing else. */
#include <math.h>

#include "base/quant_pack.h"
#include "quant/fit.h"
#include "quant/fit_run.h"

#define BLOCK 32

typedef float lanes[FIT_LANES];

typedef struct eight_blocks {
  bool even; /* known when compiled: weights of 1 cost nothing */
  lanes x[BLOCK], w[BLOCK];
  lanes low, high, extreme; /* of x; extreme: the value of largest magnitude, with its sign */
} eight_blocks;

GA_INLINE float weight_of(const eight_blocks *b, int e, int j) { return b->even ? 1 : b->w[e][j]; }

GA_INLINE void into_lanes(const float *from, int n, lanes *to) {
  for (int j = 0; j < FIT_LANES; j++)
    for (int e = 0; e < BLOCK; e++) to[e][j] = from[BLOCK * (j < n ? j : 0) + e];
}

/* Blocks n and up are copies of the first. w NULL: even. Values that are all nearly 0 are taken as 0. */
GA_INLINE void take_blocks(const float *x, const float *w, int n, bool even, eight_blocks *b) {
  b->even = even;
  into_lanes(x, n, b->x);
  if (!even) into_lanes(w, n, b->w);
  FIT_EACH_LANE b->low[j] = b->high[j] = b->x[0][j];
  for (int e = 1; e < BLOCK; e++) FIT_EACH_LANE {
      const float v = b->x[e][j];
      b->low[j] = v < b->low[j] ? v : b->low[j];
      b->high[j] = v > b->high[j] ? v : b->high[j];
    }
  lanes keep;
  FIT_EACH_LANE {
    const float a = b->high[j], c = -b->low[j], most = a > c ? a : c;
    keep[j] = most < QUANT_LEAST_VALUE ? 0.0f : 1.0f;
    b->extreme[j] = (a > c ? a : -c) * keep[j];
    b->low[j] *= keep[j];
    b->high[j] *= keep[j];
  }
  for (int e = 0; e < BLOCK; e++) FIT_EACH_LANE b->x[e][j] *= keep[j];
}

/* --- one scale --- */

/* Places of the extreme value, of which each gives codes, and those a scale by least squares. Found one after the other
 * as what takes most off the error of 6000 blocks, normal and with heavy tails, half of them weighted: eight leave 1 %
 * less error than 38 places in steps of a tenth around both ends. */
#define PLACES 8
static const float places_q4_0[PLACES] = {-8.3f, -9.3f, -7.2f, -7.9f, -10.4f, -8.7f, -6.2f, -6.8f};
static const float places_q5_0[PLACES] = {-16.2f, -15.1f, -17.0f, -14.0f, -15.8f, -18.2f, -16.5f, -14.7f};
static const float places_q8_0[4] = {127, 125, 123, 121};

/* Two scales at a time, so that one's sums need not wait for the other's. */
typedef struct scale_pair {
  lanes inverse[2], xq[2], qq[2]; /* sums of w x q and w q q for codes q of x inverse */
} scale_pair;

GA_INLINE void sum_pair(const eight_blocks *b, fit_codes c, scale_pair *p) {
  scale_pair s = *p;
  for (int k = 0; k < 2; k++) FIT_EACH_LANE s.xq[k][j] = s.qq[k][j] = 0;
  for (int e = 0; e < BLOCK; e++) {
    FIT_EACH_LANE {
      const float q = fit_code(b->x[e][j] * s.inverse[0][j], c), t = weight_of(b, e, j) * q;
      s.xq[0][j] += t * b->x[e][j];
      s.qq[0][j] += t * q;
    }
    FIT_EACH_LANE {
      const float q = fit_code(b->x[e][j] * s.inverse[1][j], c), t = weight_of(b, e, j) * q;
      s.xq[1][j] += t * b->x[e][j];
      s.qq[1][j] += t * q;
    }
  }
  *p = s;
}

/* The best scale for the codes of each place takes xq^2 / qq off the error. */
GA_INLINE void search_scales(const eight_blocks *b, fit_codes c, const float *place, int places, float *scale) {
  lanes most = {0};
  FIT_EACH_LANE scale[j] = 0;
  for (int i = 0; i < places; i += 2) {
    scale_pair p;
    for (int k = 0; k < 2; k++) FIT_EACH_LANE p.inverse[k][j] = place[i + k] * fit_inverse(b->extreme[j]);
    sum_pair(b, c, &p);
    for (int k = 0; k < 2; k++) FIT_EACH_LANE {
        const float qq = p.qq[k][j] > 0 ? p.qq[k][j] : 1, gain = p.xq[k][j] * p.xq[k][j] / qq;
        scale[j] = gain > most[j] ? p.xq[k][j] / qq : scale[j];
        most[j] = gain > most[j] ? gain : most[j];
      }
  }
}

/* Errors of these scales; next: the best scales for their codes. */
GA_INLINE void weigh_scales(const eight_blocks *b, fit_codes c, const float *scale, float *error, float *next) {
  lanes inverse, sum = {0}, xq = {0}, qq = {0};
  FIT_EACH_LANE inverse[j] = fit_inverse(scale[j]);
  for (int e = 0; e < BLOCK; e++) FIT_EACH_LANE {
      const float x = b->x[e][j], q = fit_code(x * inverse[j], c), d = x - scale[j] * q, t = weight_of(b, e, j) * q;
      sum[j] += weight_of(b, e, j) * d * d;
      xq[j] += t * x;
      qq[j] += t * q;
    }
  FIT_EACH_LANE {
    error[j] = sum[j];
    next[j] = qq[j] > 0 ? xq[j] / qq[j] : scale[j];
  }
}

/* The scales, as f16 has them, of least error: of the plain one, the one searched for, and what follows from its codes.
 * most: the code of the extreme value in plain rounding. */
GA_INLINE void fit_scales(const eight_blocks *b, fit_codes c, const float *place, int places, float most, float *best) {
  lanes least, error, scale, next;
  FIT_EACH_LANE best[j] = fit_f16((most > 0 ? fabsf(b->extreme[j]) : b->extreme[j]) / most);
  weigh_scales(b, c, best, least, next);
  search_scales(b, c, place, places, next);
  for (int k = 0; k < 2; k++) {
    FIT_EACH_LANE scale[j] = fit_f16(next[j]);
    weigh_scales(b, c, scale, error, next);
    FIT_EACH_LANE {
      best[j] = error[j] < least[j] ? scale[j] : best[j];
      least[j] = error[j] < least[j] ? error[j] : least[j];
    }
  }
}

/* Codes of a block, plus `above`. */
GA_INLINE void codes_of_block(const float *x, float s, float m, fit_codes c, int above, int *q) {
  const float inverse = fit_inverse(s);
  for (int e = 0; e < BLOCK; e++) q[e] = (int)fit_code((x[e] - m) * inverse, c) + above;
}

GA_INLINE void fit_q4_0_as(const float *x, const float *w, int n, bool even, uint8_t *y) {
  const fit_codes c = {-8, 7};
  eight_blocks b;
  lanes scale;
  int q[BLOCK];
  take_blocks(x, w, n, even, &b);
  fit_scales(&b, c, places_q4_0, PLACES, -8, scale);
  for (int j = 0; j < n; j++, y += 18) {
    codes_of_block(x + BLOCK * j, scale[j], 0, c, 8, q);
    ga_pack_f16(y, scale[j]);
    ga_pack_nibbles(y + 2, q);
  }
}
static GA_CLONES void fit_q4_0(const float *x, const float *w, int n, uint8_t *y) {
  if (w)
    fit_q4_0_as(x, w, n, false, y);
  else
    fit_q4_0_as(x, NULL, n, true, y);
}

GA_INLINE void fit_q5_0_as(const float *x, const float *w, int n, bool even, uint8_t *y) {
  const fit_codes c = {-16, 15};
  eight_blocks b;
  lanes scale;
  int q[BLOCK];
  take_blocks(x, w, n, even, &b);
  fit_scales(&b, c, places_q5_0, PLACES, -16, scale);
  for (int j = 0; j < n; j++, y += 22) {
    codes_of_block(x + BLOCK * j, scale[j], 0, c, 16, q);
    ga_pack_f16(y, scale[j]);
    ga_pack_five(y + 2, y + 6, q);
  }
}
static GA_CLONES void fit_q5_0(const float *x, const float *w, int n, uint8_t *y) {
  if (w)
    fit_q5_0_as(x, w, n, false, y);
  else
    fit_q5_0_as(x, NULL, n, true, y);
}

GA_INLINE void fit_q8_0_as(const float *x, const float *w, int n, bool even, uint8_t *y) {
  const fit_codes c = {-127, 127};
  eight_blocks b;
  lanes scale;
  int q[BLOCK];
  take_blocks(x, w, n, even, &b);
  fit_scales(&b, c, places_q8_0, 4, 127, scale);
  for (int j = 0; j < n; j++, y += 34) {
    codes_of_block(x + BLOCK * j, scale[j], 0, c, 0, q);
    ga_pack_f16(y, scale[j]);
    for (int e = 0; e < BLOCK; e++) y[2 + e] = (uint8_t)(int8_t)q[e];
  }
}
static GA_CLONES void fit_q8_0(const float *x, const float *w, int n, uint8_t *y) {
  if (w)
    fit_q8_0_as(x, w, n, false, y);
  else
    fit_q8_0_as(x, NULL, n, true, y);
}

/* --- scale and minimum --- */

/* Codes of (x - lowest) (high + stretch) / range + shift, each with its line by least squares. Found as the places
 * above: six leave less error than 21 stretches without shifts. */
#define SPANS 6
typedef struct code_span {
  float stretch, shift;
} code_span;
static const code_span spans_q4_1[SPANS] = {{0.5f, -0.25f}, {0.5f, -0.75f}, {0.5f, 0},
                                            {0.5f, -0.5f},  {-1, 0},        {-0.5f, 0.25f}};
static const code_span spans_q5_1[SPANS] = {{0, 0}, {-0.5f, -0.25f}, {-2, 0}, {0.5f, 0}, {0.5f, -0.5f}, {-3, 0}};

/* Lines of eight blocks; minimums count from the lowest value, which keeps sums small. */
typedef struct eight_lines {
  lanes s, m, error;
} eight_lines;

/* Sums that do not depend on codes. */
typedef struct line_sums {
  lanes w, x, xx;
} line_sums;

GA_INLINE line_sums line_sums_of(const eight_blocks *b) {
  line_sums s = {{0}, {0}, {0}};
  for (int e = 0; e < BLOCK; e++) FIT_EACH_LANE {
      const float x = b->x[e][j] - b->low[j], t = weight_of(b, e, j) * x;
      s.w[j] += weight_of(b, e, j);
      s.x[j] += t;
      s.xx[j] += t * x;
    }
  return s;
}

/* The lines of least squares for the codes of (x - lowest) inverse + shift, where they have less error. */
GA_INLINE void try_lines(const eight_blocks *b, const line_sums *base, fit_codes c, const float *inverse,
                         const float *shift, eight_lines *best) {
  lanes q1 = {0}, q2 = {0}, xq = {0};
  for (int e = 0; e < BLOCK; e++) FIT_EACH_LANE {
      const float x = b->x[e][j] - b->low[j], q = fit_code(x * inverse[j] + shift[j], c), t = weight_of(b, e, j) * q;
      q1[j] += t;
      q2[j] += t * q;
      xq[j] += t * x;
    }
  FIT_EACH_LANE {
    const double a = (double)q1[j], aa = (double)q2[j], ax = (double)xq[j], sw = (double)base->w[j],
                 sx = (double)base->x[j], det = sw * aa - a * a;
    const bool solved = det > 1e-12 * sw * aa;
    const double over = solved ? 1 / det : 0, s = (sw * ax - sx * a) * over, m = (aa * sx - a * ax) * over;
    const float e = (float)((double)base->xx[j] + s * s * aa + m * m * sw - 2 * s * ax - 2 * m * sx + 2 * s * m * a);
    const bool better = solved && s > 0 && e < best->error[j];
    best->s[j] = better ? (float)s : best->s[j];
    best->m[j] = better ? (float)m : best->m[j];
    best->error[j] = better ? e : best->error[j];
  }
}

GA_INLINE void errors_of_lines(const eight_blocks *b, fit_codes c, const float *s, const float *m, float *error) {
  lanes inverse, sum = {0};
  FIT_EACH_LANE inverse[j] = fit_inverse(s[j]);
  for (int e = 0; e < BLOCK; e++) FIT_EACH_LANE {
      const float x = b->x[e][j], q = fit_code((x - m[j]) * inverse[j], c), d = x - (s[j] * q + m[j]);
      sum[j] += weight_of(b, e, j) * d * d;
    }
  FIT_EACH_LANE error[j] = sum[j];
}

/* s, m: as f16 has them; of least error: the plain ones, or those searched for. */
GA_INLINE void fit_lines(const eight_blocks *b, fit_codes c, const code_span *span, float *s, float *m) {
  const line_sums base = line_sums_of(b);
  eight_lines best;
  lanes inverse, shift, other_s, other_m, plain, searched;
  FIT_EACH_LANE {
    s[j] = (b->high[j] - b->low[j]) / c.high;
    m[j] = b->low[j];
    best.s[j] = s[j];
    best.m[j] = 0;
    best.error[j] = INFINITY;
  }
  for (int i = 0; i < SPANS; i++) {
    FIT_EACH_LANE {
      inverse[j] = (c.high + span[i].stretch) / c.high * fit_inverse(s[j]);
      shift[j] = span[i].shift;
    }
    try_lines(b, &base, c, inverse, shift, &best);
  }
  FIT_EACH_LANE { /* codes of that line, then the line of those */
    inverse[j] = fit_inverse(best.s[j]);
    shift[j] = -best.m[j] * inverse[j];
  }
  try_lines(b, &base, c, inverse, shift, &best);
  FIT_EACH_LANE {
    other_s[j] = fit_f16(best.s[j]);
    other_m[j] = fit_f16(b->low[j] + best.m[j]);
    s[j] = fit_f16(s[j]);
    m[j] = fit_f16(m[j]);
  }
  errors_of_lines(b, c, s, m, plain);
  errors_of_lines(b, c, other_s, other_m, searched);
  FIT_EACH_LANE {
    s[j] = searched[j] < plain[j] ? other_s[j] : s[j];
    m[j] = searched[j] < plain[j] ? other_m[j] : m[j];
  }
}

GA_INLINE void fit_q4_1_as(const float *x, const float *w, int n, bool even, uint8_t *y) {
  const fit_codes c = {0, 15};
  eight_blocks b;
  lanes s, m;
  int q[BLOCK];
  take_blocks(x, w, n, even, &b);
  fit_lines(&b, c, spans_q4_1, s, m);
  for (int j = 0; j < n; j++, y += 20) {
    codes_of_block(x + BLOCK * j, s[j], m[j], c, 0, q);
    ga_pack_f16(y, s[j]);
    ga_pack_f16(y + 2, m[j]);
    ga_pack_nibbles(y + 4, q);
  }
}
static GA_CLONES void fit_q4_1(const float *x, const float *w, int n, uint8_t *y) {
  if (w)
    fit_q4_1_as(x, w, n, false, y);
  else
    fit_q4_1_as(x, NULL, n, true, y);
}

GA_INLINE void fit_q5_1_as(const float *x, const float *w, int n, bool even, uint8_t *y) {
  const fit_codes c = {0, 31};
  eight_blocks b;
  lanes s, m;
  int q[BLOCK];
  take_blocks(x, w, n, even, &b);
  fit_lines(&b, c, spans_q5_1, s, m);
  for (int j = 0; j < n; j++, y += 24) {
    codes_of_block(x + BLOCK * j, s[j], m[j], c, 0, q);
    ga_pack_f16(y, s[j]);
    ga_pack_f16(y + 2, m[j]);
    ga_pack_five(y + 4, y + 8, q);
  }
}
static GA_CLONES void fit_q5_1(const float *x, const float *w, int n, uint8_t *y) {
  if (w)
    fit_q5_1_as(x, w, n, false, y);
  else
    fit_q5_1_as(x, NULL, n, true, y);
}

quant_fit_eight_fn quant_fit_one(ga_dtype dtype) {
  switch (dtype) {
  case GA_Q4_0: return fit_q4_0;
  case GA_Q5_0: return fit_q5_0;
  case GA_Q8_0: return fit_q8_0;
  case GA_Q4_1: return fit_q4_1;
  case GA_Q5_1: return fit_q5_1;
  default: return NULL;
  }
}
