/* Activation functions in forms without cancellation: 1 + tanh u = 2 / (1 + e^-2u), 1 + erf z = erfc(-z). */
#pragma once
#include "cuda/dev/ptx/num.h"

enum { ACT_SILU = 1, ACT_GELU_TANH = 2, ACT_GELU_ERF = 3 }; /* values of ga_act_kind */

GA_DEV float act_of(int act, float x) {
  if (act == ACT_SILU) return x / (1.0f + expf(-x));
  if (act == ACT_GELU_TANH) {
    const float u = 0.797884561f /* sqrt(2 / pi) */ * (x + 0.044715f * x * x * x);
    return x / (1.0f + expf(-2.0f * u));
  }
  if (act == ACT_GELU_ERF) return 0.5f * x * erfcf(-x * 0.707106781f /* 1 / sqrt 2 */);
  return x;
}
