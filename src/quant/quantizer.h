/* What a ga_quantizer is, for those that have more to do in parallel. */
#ifndef GA_QUANT_QUANTIZER_H
#define GA_QUANT_QUANTIZER_H

#include "base/thread.h"
#include "ga/quantize.h"

struct ga_quantizer {
  ga_pool *pool;
};

#endif
