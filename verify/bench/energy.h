/* Joules by the devices' energy counters. They are read only at the two ends of a window, since a call of the
 * management library idles a GPU. */
#ifndef GA_VERIFY_BENCH_ENERGY_H
#define GA_VERIFY_BENCH_ENERGY_H

#include "core/ctx.h"

typedef struct energy_meter {
  ga_ctx *const *ctx; /* [n] contexts of the devices, whose energies are summed */
  int32_t n;
  double start_seconds, start_joules;
} energy_meter;

typedef struct energy_window {
  double seconds, joules; /* seconds of the host's clock, and joules of all devices, measured for whole boards */
} energy_window;

/* Begins a window. GA_ERR_UNSUPPORTED: a device has no counter. */
GA_NODISCARD ga_status energy_begin(energy_meter *m);
/* Returns the seconds since energy_begin. */
double energy_seconds(const energy_meter *m);
/* Ends a window, after its work has ended. Counters change about ten times a second: a window of 10 s has an error of 1
 * to 2 %. */
GA_NODISCARD ga_status energy_end(const energy_meter *m, energy_window *out);

#endif
