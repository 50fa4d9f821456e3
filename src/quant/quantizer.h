/* The contents of a ga_quantizer, for source files that run other work on its threads. */
#ifndef GA_QUANT_QUANTIZER_H
#define GA_QUANT_QUANTIZER_H

#include "base/thread.h"
#include "ga/quantize.h"

struct ga_quantizer {
  ga_pool *pool;
};

#endif
