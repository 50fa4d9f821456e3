/* The simulator from the inside: a plan on a model of a machine. */
#ifndef GA_DIST_SIMULATE_H
#define GA_DIST_SIMULATE_H

#include "base/rng.h"
#include "dist/plan.h"

typedef struct sim_transfer {
  int32_t from, to;
  int64_t bytes;
  double sent, wanted, end; /* when posted, when done; -1 = not yet */
} sim_transfer;

typedef struct sim_rank {
  double clock, busy, way_in, way_out;
  double slower, link_slower; /* of this draw: what its calls and its transfers take longer; 1 = nothing */
  int64_t at;
  int64_t *transfer; /* [steps] of a SEND or RECEIVE: its number */
} sim_rank;

typedef struct simulation {
  const ga_dist_plan *plan;
  const ga_dist_machine *m;
  double mean_keys, mean_queries; /* of one device's call of all tokens: keys that a query sees, queries of a key */
  sim_rank *ranks;
  sim_transfer *transfers;
  int64_t n, *open; /* open: those posted by both sides and not yet done */
  int64_t n_open;
  ga_rng rng;
  double jitter; /* 0: none is drawn */
} simulation;

/* --- what things take: simulate_cost.c --- */

/* The machine is one of GPUs: partial results are merged by passes over memory, gathered keys are plain calls. */
static inline bool sim_is_of_gpus(const ga_dist_machine *m) {
  return m->merged_flops > 0 || m->memory_bytes_per_second > 0 || m->merged_points > 0;
}
/* n_q queries by n_k keys of one head, `pairs` of which see each other. */
typedef struct sim_shape {
  double n_q, n_k, pairs;
} sim_shape;

sim_shape sim_shape_of(const simulation *s, const dist_stretch *q, const dist_stretch *k);
void sim_find_means(simulation *s);
GA_NODISCARD ga_status sim_check_machine(const ga_dist_machine *m);
/* Of the arithmetic of a call. */
double sim_call_seconds(const simulation *s, const sim_shape *x, double heads, bool merged);
/* Returns the seconds that one device takes for all tokens in one plain call: plans are compared with that. */
double sim_one_device_seconds(const simulation *s);
/* A tile of a plan that runs tile by tile, all of its calls. */
double sim_tile_seconds(const simulation *s, const dist_step *t);
/* Of passes over a GPU's memory. 0 where they are not modelled. */
double sim_memory_seconds(const simulation *s, double bytes);
/* OPEN clears a partial result, MERGE adds one up. */
double sim_pass_seconds(const simulation *s, const dist_step *t);
/* A rank's sums are rounded into the caller's tensors. */
double sim_rounding_seconds(const simulation *s, int32_t rank);
double sim_link_seconds(const simulation *s, int32_t from, double bytes);
/* Of a draw: how much longer something takes that deviates so much; 1 where it does not. */
double sim_drawn_factor(ga_rng *rng, double deviation);
/* The time of a rank's call in this draw. */
double sim_disturbed(simulation *s, int32_t rank, double seconds);

/* Plans that gather keys, on GPUs, by the schedule of device_gather.c: simulate_gather.c. */
GA_NODISCARD ga_status sim_play_gather(simulation *s);

#endif
