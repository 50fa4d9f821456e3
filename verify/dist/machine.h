/* The machine on which plans are simulated: its options, measured figures, and files of rates. */
#ifndef GA_VERIFY_DIST_MACHINE_H
#define GA_VERIFY_DIST_MACHINE_H

#include "verify/dist/rates.h"

/* Rates and delays of a simulated machine, as command-line options give them. -1: dist_machine_open puts a measured
 * figure. 0 means the same in merged_tflops and backward_tflops. */
typedef struct dist_machine {
  double tflops, merged_tflops, backward_tflops; /* 10^12 operations per second and rank */
  double memory_gbytes, gbytes;                  /* 10^9 bytes per second */
  double latency, launch;                        /* microseconds */
  double start_keys, start_queries;
  double jitter, spread, link_spread; /* per cent */
  int64_t draws, seed;
  const char *rates; /* path of a file of rates; NULL = none */
  dist_rates curves; /* rates read from the file `rates` */
} dist_machine;
#define DIST_MACHINE_INIT                                                                             \
  {                                                                                                   \
    .tflops = 600, .gbytes = 370, .latency = -1, .launch = -1, .memory_gbytes = -1, .start_keys = -1, \
    .start_queries = -1                                                                               \
  }

/* Reads the file of rates and fills in measured figures. Release with dist_machine_close, also after a failure.
 * on_gpus: the devices are GPUs. A figure that only GPUs have also makes the machine one of GPUs. unordered:
 * gradients are summed in any order. GA_ERR_ARG, GA_ERR_IO, GA_ERR_FORMAT. */
GA_NODISCARD ga_status dist_machine_open(dist_machine *m, bool on_gpus, bool unordered);
void dist_machine_close(dist_machine *m);

/* Simulates a plan on the machine. */
GA_NODISCARD ga_status dist_simulate(const dist_machine *m, const ga_dist_plan *plan, ga_dist_times *times);

#endif
