/* Joules by the devices' own counters, read at the two ends of a window and never in between: asking a GPU's management
 * library idles it. */
#ifndef GA_VERIFY_BENCH_ENERGY_H
#define GA_VERIFY_BENCH_ENERGY_H

#include "core/ctx.h"

typedef struct energy_meter {
  ga_ctx *const *ctx; /* [n]; what each of them draws is added up */
  int32_t n;
  double start_seconds, start_joules;
} energy_meter;

typedef struct energy_window {
  double seconds, joules; /* of the host's clock; of all devices, whole boards */
} energy_window;

/* Begins a window. GA_ERR_UNSUPPORTED when a device shows no counter. */
GA_NODISCARD ga_status energy_begin(energy_meter *m);
/* Seconds since then. */
double energy_seconds(const energy_meter *m);
/* Ends it; the work must have ended. Counters move some ten times a second: a window of 10 s is known to 1 or 2 %. */
GA_NODISCARD ga_status energy_end(const energy_meter *m, energy_window *out);

#endif
