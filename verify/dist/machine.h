/* The machine on which plans are simulated. Its figures come from options, from measurements, and from files of
 * rates. */
#ifndef GA_VERIFY_DIST_MACHINE_H
#define GA_VERIFY_DIST_MACHINE_H

#include "verify/dist/rates.h"

/* Rates and delays of a simulated machine, as options of the command line give them. -1: dist_machine_open sets a
 * measured figure. In merged_tflops and backward_tflops, 0 stands for a measured figure. */
typedef struct dist_machine {
  double tflops, merged_tflops, backward_tflops; /* 10^12 arithmetic operations per second of each rank */
  /* 10^9 bytes per second: memory of partial results (memory_gbytes), and links of ranks (gbytes) */
  double memory_gbytes, gbytes;
  /* microseconds that a transfer (latency) or a call (launch) takes in addition */
  double latency, launch;
  double start_keys, start_queries;
  double jitter, spread, link_spread; /* standard deviations of speeds, in per cent of the mean */
  int64_t draws, seed;
  const char *rates; /* path of a file of rates; NULL = none */
  dist_rates curves; /* rates read from the file `rates` */
} dist_machine;
#define DIST_MACHINE_INIT                                                                             \
  {                                                                                                   \
    .tflops = 600, .gbytes = 370, .latency = -1, .launch = -1, .memory_gbytes = -1, .start_keys = -1, \
    .start_queries = -1                                                                               \
  }

/* Reads the file of rates, and fills in measured figures. The caller closes *m with dist_machine_close, also after a
 * failure. on_gpus: the devices are GPUs. An option that only GPUs have also makes the machine one of GPUs. unordered:
 * gradients are summed in any order. Returns GA_ERR_ARG, GA_ERR_IO or GA_ERR_FORMAT after a failure. */
GA_NODISCARD ga_status dist_machine_open(dist_machine *m, bool on_gpus, bool unordered);
void dist_machine_close(dist_machine *m);

/* Predicts the times of a plan on the machine m (ga_dist_plan_simulate). */
GA_NODISCARD ga_status dist_simulate(const dist_machine *m, const ga_dist_plan *plan, ga_dist_times *times);

#endif
