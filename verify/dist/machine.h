/* The machine that plans are simulated on: options, measured figures, files of rates. */
#ifndef GA_VERIFY_DIST_MACHINE_H
#define GA_VERIFY_DIST_MACHINE_H

#include "verify/dist/rates.h"

/* The options of a machine. -1, and 0 of merged and backward rates, stand for measured figures. */
typedef struct dist_machine {
  double tflops, merged_tflops, backward_tflops; /* 10^12 operations a second and rank */
  double memory_gbytes, gbytes;                  /* 10^9 bytes a second */
  double latency, launch;                        /* microseconds */
  double start_keys, start_queries;
  double jitter, spread, link_spread; /* per cent */
  int64_t draws, seed;
  const char *rates; /* a file; NULL = none */
  dist_rates curves; /* read from that file */
} dist_machine;
#define DIST_MACHINE_INIT                                                                             \
  {                                                                                                   \
    .tflops = 600, .gbytes = 370, .latency = -1, .launch = -1, .memory_gbytes = -1, .start_keys = -1, \
    .start_queries = -1                                                                               \
  }

/* Reads the file of rates and fills in measured figures. Release with dist_machine_close, also after a failure.
 * on_gpus: the devices are GPUs; a figure that only GPUs have makes the machine one of GPUs, too. unordered: gradients
 * are summed in any order. GA_ERR_ARG, GA_ERR_IO, GA_ERR_FORMAT. */
GA_NODISCARD ga_status dist_machine_open(dist_machine *m, bool on_gpus, bool unordered);
void dist_machine_close(dist_machine *m);

/* Simulates a plan on the machine. */
GA_NODISCARD ga_status dist_simulate(const dist_machine *m, const ga_dist_plan *plan, ga_dist_times *times);

#endif
