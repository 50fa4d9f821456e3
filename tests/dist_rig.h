/* What the tests of distributed attention share: tensors, the oracle in double precision, one rank's run. */
#ifndef GA_TESTS_DIST_RIG_H
#define GA_TESTS_DIST_RIG_H

#include "ga/ctx.h"
#include "tests/dist_cases.h"

enum { RANKS_MOST = 16 };

/* Tensors of the whole batch, in the order of tokens. Inputs are numbers that the type of the plan has. */
typedef struct tensors {
  int64_t nq, nk;
  double *q, *k, *v, *dout, *o_in; /* what the ranks get; o_in: o in the type of the plan, for the backward */
  double *o, *dq, *dk, *dv;        /* the oracle's */
  float *lse;                      /* [q_heads, nq] */
  float *got_o, *got_lse, *got_dq, *got_dk, *got_dv; /* one behind the other */
  bool owns_got;
  float sinks[32], alibi[32], dsinks[32]; /* [q_heads]; dsinks: the oracle's */
  float got_dsinks[RANKS_MOST][32];       /* of each rank's rows */
} tensors;

/* desc has v_dim and dtype. got: NULL, or memory for tensors_floats numbers that the results go to. */
tensors make_tensors(const ga_dist_desc *d, uint64_t seed, float *got);
int64_t tensors_floats(const ga_dist_desc *d);
void free_tensors(tensors *t);
void oracle_batch(const ga_dist_desc *d, tensors *t);

/* One rank: a context of its own, an executor, two runs, results into t->got_*. */
typedef struct rank_job {
  const ga_dist_plan *plan;
  ga_comm *comm; /* is destroyed */
  tensors *t;
  const ga_dist_desc *d;
  int32_t rank, stop_at; /* stop_at: 1 leaves before the run, 2 sleeps before it, 3 gives no q,
                            * 4 is killed before its second run */
  int32_t runs;          /* 0 = 2 */
  const char *device;    /* NULL = cpu */
  bool on_device;        /* as a GPU's, also where the context is of a CPU */
  bool zeros_first;      /* K and V are zeros in all runs but the last, in the same memory */
  bool timeline;         /* runs record their spans, which are checked */
  int32_t copy_ms;       /* on_device: what each copy to another rank takes more */
  int32_t event_ms;      /* on_device: from its record on until who asks is told that an event has passed */
  ga_status status;
  char text[512];
  uint64_t sent;
  int64_t device_bytes; /* that the executor took of the device's memory, without the workspace of kernels */
  double seconds;
  bool ctx_works; /* after a failure */
} rank_job;
void *run_rank(void *job);
/* Ranks as threads: plans[rank]; false and the jobs' texts when a rank fails. */
bool run_ranks(ga_dist_plan *const *plans, const ga_dist_desc *d, tensors *t, const ga_comm_threads_options *how,
               rank_job *jobs);

/* Largest error of the results of a pass, as a part of the largest value (at least 1); LSE: as it is. */
double worst_of_all(const ga_dist_desc *d, const tensors *t);
/* Root of the mean square of the errors of O, or of dQ, dK and dV, by that of the values. */
double mean_error(const ga_dist_desc *d, const tensors *t);
uint64_t bits_of_all(const tensors *t, const ga_dist_desc *d);

#endif
