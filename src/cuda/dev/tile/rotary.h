/* Rotary position embedding of elements in global memory (RoFormer, arXiv 2104.09864). */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/quant.h"

enum { PAIRS_NEOX = 1 }; /* a value of the enum ga_rope_pairs */

/* Computes cosine and sine of position * freq. The angle is reduced to a turn in double, so that large positions have
 * exact angles. */
GA_DEV void rope_cos_sin(int position, float freq, float *cosine, float *sine) {
  const double turns = (double)position * (double)freq * 0.15915494309189535 /* 1 / 2 pi */;
  sincos_pi((float)(2.0 * (turns - rint(turns))), sine, cosine);
}

/* Rotates pair p of the head that begins at element `head` of x, in place. pairs says which elements form a pair
 * (ga_rope_pairs); half is the number of pairs of a head. Rotated elements are also multiplied by magnitude. */
GA_DEV void rope_pair(int type, void *x, int64_t head, int64_t p, int half, int pairs, int position, float freq,
                      float magnitude) {
  const int64_t at0 = head + (pairs == PAIRS_NEOX ? p : 2 * p), at1 = pairs == PAIRS_NEOX ? at0 + half : at0 + 1;
  float c, s;
  rope_cos_sin(position, freq, &c, &s);
  const float x0 = plain_get(type, x, at0), x1 = plain_get(type, x, at1);
  plain_put(type, x, at0, magnitude * (x0 * c - x1 * s));
  plain_put(type, x, at1, magnitude * (x0 * s + x1 * c));
}
