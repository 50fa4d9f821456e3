/* Measures joules by the energy counters of devices. Counters are read only at the two ends of a window of time, since
 * a call of NVIDIA's management library makes a GPU idle. */
#ifndef GA_VERIFY_BENCH_ENERGY_H
#define GA_VERIFY_BENCH_ENERGY_H

#include "core/ctx.h"

typedef struct energy_meter {
  ga_ctx *const *ctx; /* [n] contexts of the devices, whose energies are summed */
  int32_t n;
  double start_seconds, start_joules;
} energy_meter;

typedef struct energy_window {
  /* length of the window by the host's clock, and energy of all devices, each measured for the whole board */
  double seconds, joules;
} energy_window;

/* Begins a window. Returns GA_ERR_UNSUPPORTED if a device has no energy counter. */
GA_NODISCARD ga_status energy_begin(energy_meter *m);
/* Returns the seconds since energy_begin. */
double energy_seconds(const energy_meter *m);
/* Ends a window, after the work in it has ended. Counters change about ten times a second, so that a window of 10 s has
 * an error of 1 to 2 %. */
GA_NODISCARD ga_status energy_end(const energy_meter *m, energy_window *out);

#endif
