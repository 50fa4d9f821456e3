#include "verify/dist/draw.h"

#include <stdlib.h>

#include "base/status.h"
#include "ga/layer.h"

ga_status dist_new_floats(int64_t n, float **out) {
  *out = calloc((size_t)n + 1, sizeof **out);
  return *out ? GA_OK : ga_fail_nomem("tensors", (size_t)n * sizeof **out);
}

void dist_fill_random(float *x, int64_t n, uint64_t seed) {
  for (int64_t i = 0; i < n; i++) {
    float sum = 0;
    for (int j = 0; j < 4; j++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      sum += (float)(seed >> 40) / 16777216.0f - 0.5f;
    }
    x[i] = sum * 1.7f;
  }
}

ga_status dist_convert(ga_ctx *ctx, int32_t from, const void *x, int32_t to, void *y, int64_t n) {
  ga_convert_desc d = GA_CONVERT_DESC_INIT;
  d.rows = 1, d.width = n, d.x_dtype = from, d.y_dtype = to;
  const ga_convert_io io = {x, y, NULL};
  return n ? ga_convert(ctx, &d, &io, NULL) : GA_OK;
}
