/* Internals of the simulator, which predicts the time of a plan on a model of a machine. */
#ifndef GA_DIST_SIMULATE_H
#define GA_DIST_SIMULATE_H

#include "base/rng.h"
#include "dist/plan.h"

typedef struct sim_transfer {
  int32_t from, to;
  int64_t bytes;
  double sent, wanted, end; /* Times in seconds at which the transfer was sent, asked for and done. -1: not yet. */
} sim_transfer;

typedef struct sim_rank {
  double clock, busy, way_in, way_out;
  /* Factors on the times of the rank's calls, and of its transfers, in this draw. 1: none. */
  double slower, link_slower;
  int64_t at;
  /* Number of the transfer of each SEND or RECEIVE step, [steps]. */
  int64_t *transfer;
} sim_rank;

typedef struct simulation {
  const ga_dist_plan *plan;
  const ga_dist_machine *m;
  /* For one device's call with all tokens: average number of keys that a query sees, and of queries that see a key. */
  double mean_keys, mean_queries;
  sim_rank *ranks;
  sim_transfer *transfers;
  /* n is the number of transfers. `open` lists the transfers that both sides have begun and that are not done. */
  int64_t n, *open;
  int64_t n_open;
  ga_rng rng;
  /* Deviation of the random factors on the times of calls (sim_drawn_factor). 0: calls take the predicted time. */
  double jitter;
} simulation;

/* --- times of work and transfers: simulate_cost.c --- */

/* Returns whether the machine is made of GPUs. On GPUs partial results are merged by passes over memory, and collected
 * keys are read by plain calls of attention. */
static inline bool sim_is_of_gpus(const ga_dist_machine *m) {
  return m->merged_flops > 0 || m->memory_bytes_per_second > 0 || m->merged_points > 0;
}
/* Shape of a call for one head: n_q queries, n_k keys, and the number of pairs in which the query sees the key. */
typedef struct sim_shape {
  double n_q, n_k, pairs;
} sim_shape;

sim_shape sim_shape_of(const simulation *s, const dist_stretch *q, const dist_stretch *k);
void sim_find_means(simulation *s);
GA_NODISCARD ga_status sim_check_machine(const ga_dist_machine *m);
/* Returns the seconds of a call's arithmetic. */
double sim_call_seconds(const simulation *s, const sim_shape *x, double heads, bool merged);
/* Returns the seconds that one device needs for all tokens in one plain call. Plans are compared with this time. */
double sim_one_device_seconds(const simulation *s);
/* Returns how many of the n steps from t on are computed together: tiles on GPUs (dist_tiles_together), or 1. */
int64_t sim_steps_together(const simulation *s, const dist_step *t, int64_t n);
/* Returns the seconds of all calls of n DIST_TILE steps that are computed together. */
double sim_tiles_seconds(const simulation *s, const dist_step *t, int64_t n);
/* Returns the seconds in which a GPU reads or writes `bytes` bytes of its memory. 0: the machine does not model
 * this. */
double sim_memory_seconds(const simulation *s, double bytes);
/* Returns the seconds of an OPEN step, which clears a partial result, or of a MERGE step, which adds one. */
double sim_pass_seconds(const simulation *s, const dist_step *t);
/* Returns the seconds in which a rank rounds its sums into the caller's tensors. */
double sim_rounding_seconds(const simulation *s, int32_t rank);
double sim_link_seconds(const simulation *s, int32_t from, double bytes);
/* Returns a random factor on a time, exp(deviation x normal). deviation 0: the factor is 1. */
double sim_drawn_factor(ga_rng *rng, double deviation);
/* Returns a rank's time in this draw for a call that is predicted to take `seconds`. */
double sim_disturbed(simulation *s, int32_t rank, double seconds);

/* Simulates a plan that collects keys on GPUs, with the schedule of device_gather.c. The code is in
 * simulate_gather.c. */
GA_NODISCARD ga_status sim_play_gather(simulation *s);

#endif
